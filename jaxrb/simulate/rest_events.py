"""Impacts without friction that may accumulate, and the contacts that last after them."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bodies import Phase
from ..contact import AtHalfSpaces
from ..math import tree_where
from ..math.rarely import where_any
from ..stepping.tolerances import Tolerances
from .events import AbstractEvents, Contacts, Event, Flown, Kind, Reset, gap_at
from .impact_events import impact_guards, least
from .persistent_contact import bounce, constrained_flow, initially_held, landing, reaction, stand
from .system import System
from .tolerances import Tolerance, gap_tolerance
from .zeno import Accumulation


class Resting(eqx.Module):
    """The mode of a world whose contacts may last."""

    held: Contacts  # which contacts last
    accumulation: Accumulation


class ImpactsAndRest(AbstractEvents):
    """Impacts, landings and releases at obstacles.

    Attributes:
        tolerance: of gaps.
    """

    system: System
    tolerance: Tolerance = eqx.field(static=True)

    def initial_mode(self, t, phase):
        held = initially_held(t, phase, self.tolerance, self.system)
        return Resting(held, Accumulation.start(held, phase.position.x))

    def flow(self, scheme, t, duration, phase, mode, known=None, contacts=None):
        step = constrained_flow(scheme, t, duration, phase, mode.held, self.system)
        return Flown(step.phase, step.error, step.work, mode)

    def contact_impulse(self, scheme, t, duration, phase):
        held = self.initial_mode(t, phase).held
        force, acceleration = reaction(t, phase, held, self.system)
        normal = (force * duration).reshape(-1)
        none = jnp.zeros_like(normal)
        # What is held shall not accelerate, beside what loads and these forces give by themselves.
        pushed = jnp.max(jnp.abs(force) / self.system.inertial.mass[:, None], initial=0.0)
        largest = jnp.maximum(self.system.dynamics.acceleration_scale(t, phase), pushed)
        residual = jnp.max(jnp.where(held, jnp.abs(acceleration), 0.0), initial=0.0)
        residual = residual / jnp.where(largest > 0, largest, 1.0)
        allowed = Tolerances.of(residual.dtype).allowed
        return jnp.stack([normal, none, none]), residual <= allowed, residual

    def lasting(self, mode: Resting, like):
        return mode.held

    @property
    def depth(self):
        return self.tolerance.depth

    def gap_tolerance(self, contacts):
        return gap_tolerance(contacts, self.tolerance)

    def guards(self, t, end, contacts: AtHalfSpaces, mode: Resting, dt):
        motion = contacts.kinematics(end, self.system.inertial)
        guards = impact_guards(t, end, contacts, motion, self.system, self.tolerance, dt, mode.held)
        force = self._force(t, end, mode.held)
        pulling = least(jnp.where(mode.held & (force < 0), force, jnp.inf), self.system)
        releasing = jnp.any(pulling)
        release = releasing & ~guards.penetrating
        kind = jnp.where(release, jnp.int32(Kind.RELEASE), jnp.int32(Kind.LANDING))
        event = Event(kind, jnp.where(release, pulling, guards.event.contact))
        return dataclasses.replace(guards, releasing=releasing, event=event)

    def root(self, t, end, contacts: AtHalfSpaces, event, mode: Resting):
        force = self._force(t, end, mode.held)
        pull = jnp.sum(jnp.where(event.contact, force, 0.0))
        return jnp.where(event.kind == Kind.RELEASE, pull, gap_at(event, contacts, self.depth))

    def _force(self, t: Float[Array, ""], phase: Phase, held: Contacts) -> Float[Array, "..."]:
        """That holds each contact [N]."""
        force, _ = where_any(jnp.any(held), reaction, t, phase, held, self.system)
        return force

    def reset(self, t, end, contacts: AtHalfSpaces, event, resolution, mode: Resting, known=None):
        held, system = mode.held, self.system
        motion = contacts.kinematics(end, system.inertial)
        struck = event.contact & (event.kind != Kind.RELEASE)
        impact = jnp.any(struck)
        bounced, kept, found = bounce(end, contacts, motion, struck, held, system)
        lands, acceleration = landing(t, bounced, contacts, struck, kept, self.tolerance, system)
        lands &= event.kind == Kind.LANDING
        after, stands = stand(bounced, contacts, lands, kept, system)
        accumulation = mode.accumulation.after_impact(
            t, bounced, contacts, motion, struck, lands, acceleration, self.tolerance, system
        )
        impacted = Resting(kept | lands, accumulation)
        released = Resting(held & ~event.contact, mode.accumulation)
        kind = jnp.where(jnp.any(lands), jnp.int32(Kind.LANDING), jnp.int32(Kind.IMPACT))
        kind = jnp.where(event.kind == Kind.RELEASE, event.kind, kind)
        return Reset(
            tree_where(impact, after, end),
            tree_where(impact, impacted, released),
            Event(kind, event.contact),
            (found & stands) | ~impact,
        )

    def zeno_time(self, t, final, mode: Resting, code):
        return mode.accumulation.result()
