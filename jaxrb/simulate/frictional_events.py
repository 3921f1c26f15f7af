"""Impacts with a part of the impulse along the surface, which take some work each."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Phase
from ..contact import AbstractContacts
from ..contact.single import SingleContact, at
from ..exec.work_queue import Columns
from ..impact import AbstractHypothesis
from ..impact.coulomb import Resolved, columns, known_impulse, sensitivity, solver
from ..math import Vec3, dot, tree_where, zeros_like
from .events import Contacts, Reset
from .impact_events import AbstractImpacts


class DirectImpacts(AbstractImpacts):
    """Impacts whose impulse a law says in closed form.

    They are deferred for the sake of its answer whether they end.
    """

    @property
    def deferred(self):
        return True

    def resolve(self, phase, contacts, event):
        _, _, ended = self._impulse(phase, contacts, event.contact)
        return (), ended

    def reset(self, t, end, contacts, event, resolution, mode, known=None):
        contact, impulse, _ = self._impulse(end, contacts, event.contact)
        return Reset(contact.apply(impulse, end, self.system.inertial), mode, event)

    def _impulse(
        self, phase: Phase, contacts: AbstractContacts, struck: Contacts
    ) -> tuple[SingleContact, Vec3, Bool[Array, ""]]:
        """The contact that is struck, its impulse in its frame [N s], and whether that was found;
        0 if not, and without an impact.

        The law is only asked about a contact that approaches, with its numbers there.
        """
        contact = contacts.single(phase, struck, self.system.inertial)
        happens = jnp.any(struck)
        first = jnp.arange(struck.size).reshape(struck.shape) == 0
        law = at(jnp.where(happens, struck, first), self.system.contact_law)
        zero = jnp.zeros_like(contact.velocity.z)
        approaching = tree_where(happens, contact.velocity, Vec3(zero, zero, zero - 1))
        resolved = law.resolve(contact.inverse_inertia, approaching, None)
        impulse = tree_where(
            happens & resolved.ended, resolved.impulse, zeros_like(resolved.impulse)
        )
        return contact, impulse, resolved.ended | ~happens


class FrictionalImpulse(NamedTuple):
    """The logged impulse of one impact."""

    push: Vec3  # on the first body, world [N s]
    problem: Float[Array, "11"]  # the numbers from which it follows; see `impact.coulomb.columns`
    slope: Float[Array, "3 11"] | None = None  # of the impulse in the contact frame, by them


class FrictionalImpacts(AbstractImpacts):
    """Impacts that are resolved in their course.

    Attributes:
        hypothesis: that ends them.
    """

    hypothesis: AbstractHypothesis

    @property
    def deferred(self):
        return True

    def resolve(self, phase, contacts, event):
        contact, problem = self._problem(phase, contacts, event.contact)
        resolved = Resolved.of(solver(self.hypothesis)(problem)[:, 0])
        impulse, (x, y, z) = resolved.impulse, contact.axes
        impulse = jax.tree.map(lambda part: jnp.where(resolved.ended, part, 0.0), impulse)
        push = x * impulse.x + y * impulse.y + z * impulse.z
        return FrictionalImpulse(push, problem[:, 0]), resolved.ended

    def linearize(self, resolutions):
        """Adds the slopes of all impulses, found together: in the replay, each arc of every world
        would cost a search. Empty slots of the log hold contacts that do not approach."""
        problem = resolutions.problem
        rows = problem.reshape(-1, problem.shape[-1])
        slope = jnp.moveaxis(sensitivity(self.hypothesis)(rows.T), -1, 0)
        return resolutions._replace(slope=slope.reshape(*problem.shape[:-1], *slope.shape[1:]))

    def reset(self, t, end, contacts, event, resolution, mode, known=None):
        if resolution is None:
            raise ValueError("A frictional impact is reset when its impulse is known.")
        contact, problem = self._problem(end, contacts, event.contact)
        # Through the world: round-off may turn the frame of the contact.
        known = jnp.stack([dot(axis, resolution.push) for axis in contact.axes])
        slope = None if resolution.slope is None else resolution.slope[..., None]
        impulse = known_impulse(self.hypothesis)(problem, known[:, None], slope)
        return Reset(contact.apply(Vec3(*impulse[:, 0]), end, self.system.inertial), mode, event)

    def _problem(
        self, phase: Phase, contacts: AbstractContacts, struck: Contacts
    ) -> tuple[SingleContact, Columns]:
        """The contact that is struck, and its numbers as one column."""
        contact = contacts.single(phase, struck, self.system.inertial)
        law = self.system.contact_law
        friction, restitution = at(struck, (law.coefficient_of_friction, law.restitution))
        numbers = columns(contact.inverse_inertia, contact.velocity, friction, restitution)
        return contact, numbers[:, None]
