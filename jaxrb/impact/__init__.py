"""Impacts at one contact: laws, and their solution."""

from .batch import solve_impact_batch as solve_impact_batch
from .curve import ImpulseCurve as ImpulseCurve, impulse_curve as impulse_curve
from .hypotheses import (
    AbstractHypothesis as AbstractHypothesis,
    Newton as Newton,
    Poisson as Poisson,
    Stronge as Stronge,
)
from .invariant import (
    InvariantDirections as InvariantDirections,
    invariant_directions as invariant_directions,
)
from .laws import (
    AbstractContactLaw as AbstractContactLaw,
    Coulomb as Coulomb,
    Frictionless as Frictionless,
    Rough as Rough,
)
from .moreau import Moreau as Moreau
from .solve import (
    IMPACT_RESULTS as IMPACT_RESULTS,
    ContactMode as ContactMode,
    Events as Events,
    ImpactSolution as ImpactSolution,
    solve_impact as solve_impact,
)
from .two_bodies import (
    CollidingBody as CollidingBody,
    contact_velocity as contact_velocity,
    inverse_inertia_matrix as inverse_inertia_matrix,
)
