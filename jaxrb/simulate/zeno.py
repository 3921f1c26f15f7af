"""When infinitely many impacts end (Zeno)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Phase
from ..contact import AtHalfSpaces, ContactKinematics
from ..impact.laws import push_along_normal
from ..math import norm
from .persistent_contact import Held, reaction
from .system import System
from .tolerances import PerContact, Tolerance, acceleration_scale, gap_tolerance


class Accumulation(eqx.Module):
    """When the infinitely many impacts of each body end; arrays have shape (n_bodies,)."""

    time: Float[Array, " n_bodies"]  # estimated at one of its impacts [s]
    error: Float[Array, " n_bodies"]  # of the estimate, roughly [s]
    landed: Bool[Array, " n_bodies"]  # whether they have ended

    @staticmethod
    def start(held: Held, like: Float[Array, " n_bodies"]) -> Accumulation:
        """The estimate at t0, where bodies with held contacts have landed."""
        return Accumulation(jnp.zeros_like(like), jnp.full_like(like, jnp.inf), held.any(axis=1))

    def after_impact(
        self,
        now: Float[Array, ""],
        bounced: Phase,
        contacts: AtHalfSpaces,
        motion: ContactKinematics,
        struck: Held,
        landing: Held,
        acceleration: PerContact,
        tolerance: Tolerance,
        system: System,
    ) -> Accumulation:
        """The estimate after an impact.

        Early in a sequence of bounces the acceleration of the gap may still change, late in
        it the times of the impacts lose digits: the best estimate of the sequence is kept.

        Args:
            now: time [s].
            bounced: the phase after the impact.
            contacts, motion: before it.
            struck, landing: masks of the contacts.
            acceleration: of the gaps after it [m/s^2].
            tolerance: of the method.
            system: the world.
        """
        after = contacts.kinematics(bounced, system.inertial)
        incoming = jnp.where(struck, -motion.normal_velocity, 1.0)
        restitution = after.normal_velocity / incoming
        lasts = _bounces(after.normal_velocity, restitution, acceleration, struck)
        size = acceleration_scale(now, bounced, motion, system)
        late = jnp.min(jnp.where(struck, gap_tolerance(contacts, tolerance) / incoming, jnp.inf), 1)
        early = (
            jnp.min(jnp.where(struck, jnp.sqrt(size / norm(contacts.point)), jnp.inf), 1) * lasts**2
        )
        error = jax.lax.stop_gradient(late + early)
        better = jnp.isfinite(lasts) & ~self.landed & ((error < self.error) | (self.time < now))
        return Accumulation(
            jnp.where(better, now + lasts, self.time),
            jnp.where(better, error, self.error),
            self.landed | jnp.any(landing, axis=1),
        )

    def result(self) -> Float[Array, " n_bodies"]:
        """The times [s]; infinite for bodies whose impacts have not ended."""
        return jnp.where(self.landed, self.time, jnp.inf)


def remaining_bounces(
    t: Float[Array, ""], bounced: Phase, system: System
) -> Float[Array, " n_bodies"]:
    """The time that all bounces to come would take after one of a body [s], infinite for bodies
    that touch nothing."""
    contacts = system.at_half_spaces(bounced)
    motion = contacts.kinematics(bounced, system.inertial)
    speed, inverse_mass = motion.normal_velocity, motion.inverse_mass
    touching = (jnp.abs(contacts.gap) <= contacts.round_off) & (speed > 0)
    _, acceleration = reaction(t, bounced, jnp.zeros_like(touching), system)
    # What the law restores of the speed at the next bounce.
    impulse = push_along_normal(system.contact_law, -speed, inverse_mass)
    restitution = impulse * inverse_mass / jnp.where(touching, speed, 1.0) - 1
    return _bounces(speed, restitution, acceleration, touching)


def _bounces(speed, restitution, acceleration, where: Held) -> Float[Array, " n_bodies"]:
    """The time of infinitely many bounces, the first of which begins with a speed [s].

    While the acceleration -a of the gap stays the same they last 2 v/a, 2 e v/a, ...:
    2 v/(a (1 - e)) in all.
    """
    where &= (acceleration < 0) & (restitution < 1)
    loss = jnp.where(where, -acceleration, 1.0) * (1 - jnp.where(where, restitution, 0.0))
    return jnp.min(jnp.where(where, 2 * speed / loss, jnp.inf), axis=1)
