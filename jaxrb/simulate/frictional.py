"""Frictional impacts of a trajectory."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..bodies import Phase
from ..contact.single import SingleContact, at
from ..impact import Coulomb
from ..impact.coulomb import Resolved, columns, known_impulse, solver
from ..math import Vec3, dot
from ..math.lanes import Columns
from .system import System

Struck = Bool[Array, "n_bodies n_contacts"]


def frictional_impact(
    phase: Phase, struck: Struck, system: System
) -> tuple[Phase, Vec3, Bool[Array, ""]]:
    """The phase after an impact at the one contact that is struck.

    Without a contact that is struck nothing changes, and nothing is computed in a batch.

    Returns:
        The phase, the impulse on the first body, world [N s], and whether it was resolved; if
        not nothing changes either.
    """
    contact, numbers = _problem(phase, struck, system)
    resolved = Resolved.of(solver(_law(system).hypothesis.name)(numbers)[:, 0])
    impulse, (x, y, z) = resolved.impulse, contact.axes
    impulse = jax.tree.map(lambda part: jnp.where(resolved.ended, part, 0.0), impulse)
    push = x * impulse.x + y * impulse.y + z * impulse.z
    return contact.apply(impulse, phase), push, resolved.ended


def impact_again(phase: Phase, struck: Struck, push: Vec3, system: System) -> Phase:
    """The phase after an impact whose impulse `frictional_impact` has found.

    Only the derivatives of the impulse are left to be computed.
    """
    contact, numbers = _problem(phase, struck, system)
    # Through the world: round-off may turn the frame of the contact.
    known = jnp.stack([dot(axis, push) for axis in contact.axes])
    impulse = known_impulse(_law(system).hypothesis.name)(numbers, known[:, None])
    return contact.apply(Vec3(*impulse[:, 0]), phase)


def _law(system: System) -> Coulomb:
    assert isinstance(system.contact_law, Coulomb)
    return system.contact_law


def _problem(phase: Phase, struck: Struck, system: System) -> tuple[SingleContact, Columns]:
    """The contact that is struck, and its numbers as one column."""
    assert system.contacts is not None
    contact = system.contacts.find(phase).single(phase, struck, system.inertial)
    law = _law(system)
    friction, restitution = at(struck, (law.friction, law.restitution))
    numbers = columns(contact.inverse_inertia, contact.velocity, friction, restitution)
    return contact, numbers[:, None]
