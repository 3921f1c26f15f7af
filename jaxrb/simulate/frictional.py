"""Frictional impacts of a trajectory."""

from __future__ import annotations

from jaxtyping import Array, Bool

from ..bodies import Phase
from ..contact.single import at
from ..impact import Coulomb
from ..impact.coulomb import Resolved, columns, solver
from .system import System


def frictional_impact(
    phase: Phase, struck: Bool[Array, "n_bodies n_contacts"], system: System
) -> tuple[Phase, Bool[Array, ""]]:
    """The phase after an impact at the one contact that is struck, and whether it was resolved.

    Without a contact that is struck nothing changes, and nothing is computed in a batch.
    """
    law = system.contact_law
    assert isinstance(law, Coulomb)
    assert system.contacts is not None
    contacts = system.contacts.find(phase)
    contact = contacts.single(phase, struck, system.inertial)
    friction, restitution = at(struck, (law.friction, law.restitution))
    numbers = columns(contact.inverse_inertia, contact.velocity, friction, restitution)
    resolved = Resolved.of(solver(law.hypothesis.name)(numbers[:, None])[:, 0])
    return contact.apply(resolved.impulse, phase), resolved.ended
