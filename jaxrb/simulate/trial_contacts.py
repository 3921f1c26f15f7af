"""The contacts at the end of a trial flight: what the flat loop decides by."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Phase
from ..contact import AbstractContacts, ContactKinematics
from .closing import gap_tolerance, steepness
from .sustained import Held, reaction
from .system import System


class TrialContacts(eqx.Module):
    """The contacts at the end of a trial, as far as the loop needs them.

    Gaps are in units of their tolerance, normal velocities in tolerances per step size. What
    every decision of a turn depends on thus ends with a division, and XLA on CPU computes it
    once: anything cheaper it would compute again in the kernel of every carried array.
    Contacts that are held neither close nor penetrate.
    """

    penetrating: Bool[Array, ""]  # any contact
    closing: Bool[Array, ""]  # any contact
    leaving: Bool[Array, ""]  # any held contact: its force would pull
    gap: Float[Array, ""]  # least among the closing contacts [tolerances]
    time: Float[Array, ""]  # from the trial to contact by Newton's rule [s]
    steepness: Float[Array, ""]  # of the nearest closing contact; a grazing one has < 1
    struck: Held | None  # the nearest closing contact
    pulled: Held | None  # the held contact whose force would pull most
    finite: Bool[Array, ""]
    lost: Bool[Array, ""]  # the closest point of a body that is finite itself
    geometry: tuple[AbstractContacts, ContactKinematics] | None


def trial_contacts(
    end: Phase, held: Held | None, dt: float, tolerance: float | None, system: System
) -> TrialContacts:
    """The contacts at the end of a trial; without a tolerance, that of gaps is round-off."""
    like = end.position.x[0]
    no = jnp.zeros((), bool)
    if system.contacts is None:
        infinite = jnp.full_like(like, jnp.inf)
        return TrialContacts(no, no, no, infinite, infinite, infinite, None, None, ~no, no, None)
    contacts = system.contacts.find(end)
    motion = contacts.kinematics(end, system.inertial)
    allowed = gap_tolerance(contacts, tolerance)
    gap = contacts.gap / allowed
    rate = motion.normal_velocity * dt / allowed

    closing = rate < 0
    # A contact that was just resolved sits at gap zero to round-off and must not be found
    # again; one that is below it by more, or gets there within the step, must.
    penetrating = (gap < -1) | ((gap < 0) & (rate < -1))
    lost = no
    if system.contacts.searched:
        moving = jnp.stack([jnp.sum(leaf) for leaf in jax.tree.leaves(end)])
        lost = jnp.any(jnp.isnan(gap)) & jnp.all(jnp.isfinite(moving))
    leaving, pulled = no, None
    if held is not None:
        closing &= ~held
        penetrating &= ~held
        force, _ = reaction(end, held, system)
        pulled = _least(jnp.where(held & (force < 0), force, jnp.inf), system)
        leaving = jnp.any(pulled)
    # Newton aims at half the tolerance, so that it ends on the admissible side.
    time = jnp.where(closing, dt * (gap - 0.5) / jnp.where(closing, -rate, 1.0), jnp.inf)
    # Of contacts that touch to the tolerance the first is the nearest, whatever round-off says.
    nearest = jnp.where(closing, jnp.maximum(gap, 1.0), jnp.inf)
    steep = steepness(motion, allowed, system)
    struck = closing if gap.size == 1 else _least(nearest, system)
    return TrialContacts(
        penetrating=jnp.any(penetrating),
        closing=jnp.any(closing),
        leaving=leaving,
        gap=jnp.min(nearest),
        time=jnp.min(time),
        steepness=jnp.min(jnp.where(struck, steep, jnp.inf)),
        struck=struck,
        pulled=pulled,
        finite=jnp.all(jnp.isfinite(gap + rate)),
        lost=lost,
        geometry=(contacts, motion),
    )


def _least(values: Float[Array, "..."], system: System) -> Held:
    """Where the least finite value is; of equal ones the first in the order of the world."""
    if system.ranks is None:
        order = jnp.arange(values.size, dtype=jnp.int32)
    else:
        order = jnp.asarray(system.ranks, jnp.int32)
    order = order.reshape(values.shape)
    least = (values == jnp.min(values)) & (values < jnp.inf)
    return least & (order == jnp.min(jnp.where(least, order, values.size)))
