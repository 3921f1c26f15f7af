"""Impacts, and the contacts that last between them: with friction, between all bodies."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Phase
from ..contact import AbstractContacts
from ..math import tree_where
from ..math.rarely import if_any
from ..stepping.contact_rows import ContactRows, pushed, velocities
from ..stepping.held_step import Impulses, Scene, held_step
from ..stepping.solve_cone import solve_cone
from .events import AbstractEvents, Flown, Reset, free_flow
from .impact_events import AbstractImpacts, impact_guards
from .system import System
from .tolerances import Tolerance, gap_tolerance, missed

# A bounce that takes less than this part of a step is none.
_SHORT = 1e-3


class Touching(eqx.Module):
    """The mode of a world whose contacts may last.

    Attributes:
        held: the contacts that took part in the last flight, of shape (n_contacts,).
        impulses: of that flight, from which those of the next are sought.
    """

    held: Bool[Array, " n_contacts"]
    impulses: Impulses


class LastingContacts(AbstractEvents):
    """Impacts are located; between them contacts that are closed and slow take part in the flight.

    A contact is held through a flight if at its start it is closed and its normal velocity is less
    than that of a bounce that takes a thousandth of a step. It sticks, slides or opens in the
    flight. Any other contact that closes is an impact: by itself it obeys the law of impact; of
    several that are closed all take part in one cone problem, those that approach with Newton's
    restitution, the others with none.

    Attributes:
        impacts: what happens where only one contact is closed.
        tolerance: of gaps.
        dt: step size, a scale of times [s].
    """

    system: System
    impacts: AbstractImpacts
    tolerance: Tolerance = eqx.field(static=True)
    dt: Float[Array, ""]

    @property
    def deferred(self):
        return self.impacts.deferred

    def initial_mode(self, t, phase):
        rows = self._scene.rows(t, phase)
        zero = jnp.zeros_like(rows.drift)
        return Touching(jnp.zeros(rows.gap.shape, bool), Impulses(zero, zero))

    def flow(self, scheme, t, duration, phase, mode: Touching):
        contacts = self.contacts(t, phase)
        rows = ContactRows.of(contacts.points(), phase)
        slow = jnp.abs(self._speed(rows, phase)) <= self._slow(t, phase)
        held = self._closed(t, contacts, phase) & slow
        arguments = (t, duration, phase, held, mode.impulses)
        return if_any(
            jnp.any(held), self._held_flight(scheme), self._free_flight(scheme), *arguments
        )

    def _free_flight(self, scheme):
        def fly(t, duration, phase, held, impulses):
            step = free_flow(scheme, t, duration, phase, self.system)
            return Flown(*step, Touching(held, jax.tree.map(jnp.zeros_like, impulses)))

        return fly

    def _held_flight(self, scheme):
        def fly(t, duration, phase, held, impulses):
            step = held_step(
                scheme, t, duration, phase, held, impulses, self._scene, self._height(t, phase)
            )
            residual = jnp.where(jnp.any(held), missed(step.residual), 0.0)
            impulses = jax.lax.stop_gradient(step.impulses)
            error = jnp.maximum(step.error, residual)
            return Flown(step.phase, error, step.work, Touching(held, impulses))

        return fly

    def lasting(self, mode: Touching, like):
        return mode.held.reshape(like.shape)

    @property
    def depth(self):
        return self.tolerance.depth

    def gap_tolerance(self, contacts):
        return gap_tolerance(contacts, self.tolerance)

    def guards(self, t, end, contacts, mode: Touching, dt):
        motion = contacts.kinematics(end, self.system.inertial)
        held = self.lasting(mode, contacts.gap)
        return impact_guards(t, end, contacts, motion, self.system, self.tolerance, dt, held)

    def resolve(self, phase, contacts, event):
        return self.impacts.resolve(phase, contacts, event)

    def linearize(self, resolutions):
        return self.impacts.linearize(resolutions)

    def reset(self, t, end, contacts, event, resolution, mode: Touching):
        alone = self.impacts.reset(t, end, contacts, event, resolution, None)
        struck = event.contact.reshape(-1)
        closed = self._closed(t, contacts, end)
        several = jnp.any(struck) & jnp.any(closed & ~struck)
        together = self._together(t, end, contacts, struck | closed)
        after = tree_where(several, together[0], alone.phase)
        found = jnp.where(several, together[1], alone.found)
        return Reset(after, mode, event, found)

    def _together(self, t, end: Phase, contacts, active) -> tuple[Phase, Bool[Array, ""]]:
        """The phase after an impact in which several contacts take part."""
        scene, inertial = self._scene, self.system.inertial
        rows = ContactRows.of(contacts.points(), end)
        speed = self._speed(rows, end)
        law = self.system.contact_law
        restitution = jnp.broadcast_to(law.restitution, contacts.gap.shape).reshape(-1)
        returned = jnp.where(speed < -self._slow(t, end), restitution * speed, 0.0)
        bias = (-rows.drift).at[0].add(returned)
        problem = scene.problem(rows, end, bias, active)
        none = jnp.zeros(0, speed.dtype)
        solution = solve_cone(problem, jnp.zeros_like(bias), none)
        after = pushed(end, problem.momentum(solution.impulse, none), inertial)
        return after, missed(solution.residual) <= 1

    @property
    def _scene(self) -> Scene:
        contacts, law = self.system.contacts, self.system.contact_law
        assert contacts is not None
        friction = jnp.broadcast_to(law.coefficient_of_friction, contacts.shape)
        return Scene(self.system.dynamics, contacts, friction.reshape(-1))

    def _speed(self, rows: ContactRows, phase: Phase) -> Float[Array, " n_contacts"]:
        """The rates of the gaps [m/s]."""
        return rows.rows.velocity(velocities(phase, self.system.inertial))[0] - rows.drift[0]

    def _closed(self, t, contacts: AbstractContacts, phase: Phase) -> Bool[Array, " n_contacts"]:
        height = jnp.maximum(self.gap_tolerance(contacts), self._height(t, phase))
        return (contacts.gap <= height).reshape(-1)

    def _slow(self, t, phase: Phase) -> Float[Array, ""]:
        """The speed of a bounce that is none [m/s]."""
        scale = self.system.dynamics.acceleration_scale(t, phase)
        return jax.lax.stop_gradient(0.5 * scale * _SHORT * self.dt)

    def _height(self, t, phase: Phase) -> Float[Array, ""]:
        """How high it is, about [m]."""
        scale = self.system.dynamics.acceleration_scale(t, phase)
        return jax.lax.stop_gradient(0.125 * scale * (_SHORT * self.dt) ** 2)
