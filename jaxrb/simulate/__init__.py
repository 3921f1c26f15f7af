"""Worlds, methods and the main call."""

from .batch import simulate_batch as simulate_batch
from .contact_forces import ContactForces as ContactForces, contact_forces as contact_forces
from .event_driven import LGVCI as LGVCI, EventDriven as EventDriven
from .joint_observables import (
    joint_coordinates as joint_coordinates,
    joint_velocities as joint_velocities,
    joint_violations as joint_violations,
)
from .joint_reactions import joint_reactions as joint_reactions
from .method import AbstractMethod as AbstractMethod
from .moreau_jean import MoreauJean as MoreauJean
from .observables import (
    angular_momentum as angular_momentum,
    constraint_violation as constraint_violation,
    energy as energy,
    gaps as gaps,
    kinetic_energy as kinetic_energy,
    linear_momentum as linear_momentum,
    mean_reaction_forces as mean_reaction_forces,
    pair_gaps as pair_gaps,
    potential_energy as potential_energy,
    reaction_forces as reaction_forces,
    tracking_errors as tracking_errors,
)
from .pair_law import PairLaw as PairLaw
from .results import RESULTS as RESULTS
from .saving import Impacts as Impacts, SaveAt as SaveAt, Solution as Solution, Stats as Stats
from .solve import simulate as simulate
from .stop import StopAfter as StopAfter, StopWhen as StopWhen
from .world import World as World
