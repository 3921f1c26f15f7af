"""Worlds, methods and the main call."""

from .batch import simulate_batch as simulate_batch
from .event_driven import (
    LGVCI as LGVCI,
    AbstractMethod as AbstractMethod,
    EventDriven as EventDriven,
)
from .observables import (
    angular_momentum as angular_momentum,
    energy as energy,
    gaps as gaps,
    kinetic_energy as kinetic_energy,
    linear_momentum as linear_momentum,
    potential_energy as potential_energy,
)
from .results import RESULTS as RESULTS
from .saving import Impacts as Impacts, SaveAt as SaveAt, Solution as Solution, Stats as Stats
from .solve import simulate as simulate
from .world import World as World
