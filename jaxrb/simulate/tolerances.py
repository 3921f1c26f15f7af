"""When a gap counts as closed, and a normal velocity as none."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bodies import Phase
from ..contact import AbstractContacts, ContactKinematics
from .system import System

Time = Float[Array, ""]
PerContact = Float[Array, "n_bodies n_contacts"]


class Tolerance(NamedTuple):
    """Of gaps; static."""

    gap: float | None  # the largest one of a closed contact [m]; None: its round-off
    depth: float  # by which a body may penetrate at the start [m]


def gap_tolerance(contacts: AbstractContacts, tolerance: Tolerance) -> PerContact:
    """The largest gap of a closed contact [m]."""
    if tolerance.gap is None:
        return contacts.round_off
    return jnp.full_like(contacts.round_off, tolerance.gap)


def transversality(
    t: Time, phase: Phase, motion: ContactKinematics, tolerance: PerContact, system: System
) -> PerContact:
    """v_n^2 / (a tolerance) for the scale a of the second derivative of the gap.

    Below 1 a bounce of that velocity is not higher than the tolerance of the gap; and the time
    of the impact, uncertain by tolerance/v_n, is too uncertain to give even the leading digit of
    v_n there, and so of the derivative of that time.
    """
    return motion.normal_velocity**2 / (acceleration_scale(t, phase, motion, system) * tolerance)


def acceleration_scale(
    t: Time, phase: Phase, motion: ContactKinematics, system: System
) -> PerContact:
    """The scale of the acceleration of the gap: gravity, loads and free motion [m/s^2]."""
    return system.dynamics.acceleration_scale(t, phase) + motion.bend
