"""Bodies that have penetrated what they touch are moved out of it at the end of a step.

Steps obey the law of contact by velocities, so that what lands stays as deep as it was when it was
found closed. Siconos moves it out by a projection onto the constraints, with the masses for a
metric (`TimeSteppingDirectProjection`); so does this. Impulses of contacts without friction and of
joints move the bodies from rest to places where no gap is negative and the joints hold, in a flight
with nothing else, as `held_step` takes it:

    M v = G^T P + H^T Q,    q' = q exp(h v),    g(q') >= 0  perpendicular to  P >= 0,    c(q') = 0.

That is the closest place where G and H are the same at q and q', as of balls that touch planes or
each other, and elsewhere to second order in the depth. Momenta stay as they are, those about the
centres of mass in the frames of the bodies; where there are joints, the rates that these have in
the new place are taken away.

Contacts are moved out that took part in the step and would in the next, before they are moved and
after. What is about to hit has not obeyed the law yet, and what bounces leaves by itself or comes
to rest: either, if it were lifted, would gain energy in every bounce, and might never rest.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Phase
from ..contact import AbstractContacts
from ..flows import AbstractFlow
from ..math import tree_where
from ..math.rarely import if_any
from .contact_rows import ContactRows, velocities
from .held_step import Impulses
from .moreau_step import Stepped, Surroundings
from .put_right import alone, moved_from_rest
from .scene import Scene

# What is open by less than this multiple of the largest depth takes part: where contacts are
# oblique, as in a wedge, bodies are moved by a multiple of it.
_REACH = 8.0


class Projection(NamedTuple):
    """What a projection has found.

    Attributes:
        needed: whether bodies are moved.
        held: the contacts that take part.
        impulses: by which bodies are moved [N s].
    """

    needed: Bool[Array, ""]
    held: Bool[Array, " n_contacts"]
    impulses: Impulses

    @staticmethod
    def nothing(t, phase: Phase, scene: Scene) -> Projection:
        """No body is moved."""
        none = _frozen(t, scene).no_impulse(t, phase)
        held = jnp.zeros(none.contact.shape[1:], bool)
        return Projection(jnp.any(held), held, Impulses.nothing(none))


class _Frozen(eqx.Module):
    """Contacts that are found as they are at one time, while bodies move."""

    contacts: Any
    t: Float[Array, ""]

    def find(self, t, phase: Phase) -> AbstractContacts:
        return self.contacts.find(self.t, phase)


class _Moved(NamedTuple):
    """What comes of a projection."""

    phase: Phase
    impulses: Impulses  # [N s]
    error: Float[Array, ""]  # of the flight's equations, relative to the one allowed
    residual: Float[Array, ""]


def project(
    flow: AbstractFlow,
    t,
    duration,
    step: Stepped,
    around: Surroundings,
    known: Projection | None = None,
) -> tuple[Stepped, Projection]:
    """A step at whose end no contact that lasts is penetrated.

    Args:
        flow: the scheme of free bodies.
        t: at the end of the step [s].
        duration: of the step [s].
        step: as it was without projection.
        around: masses, contacts and joints.
        known: what this projection has found, if it was made before.

    Its problem is solved to what that of the step is: the residual is the larger of both.
    """
    # Velocities at the end of a step are measured as at the start of the next one.
    scene, phase = _frozen(t, around.across(t, duration)), step.phase
    contacts = scene.find(t, phase)
    rows = scene.rows_of(contacts, phase)
    found = known
    if found is None:
        found = _begun(t, duration, step, rows, scene, around)
    # How far bodies are moved does not depend on the time that they are given for it.
    given = t, jax.lax.stop_gradient(duration), phase, contacts, found, scene
    move = partial(_move, flow, known is not None)
    moved = tree_where(found.needed, if_any(found.needed, move, _stay, *given), _stay(*given))
    projected = step._replace(
        phase=moved.phase,
        error=jnp.maximum(step.error, moved.error),
        residual=jax.lax.stop_gradient(jnp.maximum(step.residual, moved.residual)),
        lost=step.lost | jnp.any(jnp.isnan(rows.gap)),
    )
    return projected, found._replace(impulses=moved.impulses)


def _begun(
    t, duration, step: Stepped, rows: ContactRows, scene: Scene, around: Surroundings
) -> Projection:
    """Which contacts take part, without impulses yet."""
    inertial = scene.dynamics.inertial
    speed = (rows.rates.velocity(velocities(step.phase, inertial)) - rows.before)[0]
    active, returned = (of_all[: rows.gap.shape[0]] for of_all in (step.active, step.returned))
    # Of the next step (eq:101 of the Siconos notes); and in it, from a place without penetration.
    foreseen = jnp.maximum(rows.gap + 0.5 * duration * speed, -0.5 * duration * returned)
    lasting = around.closed(t, step.phase, duration, rows, foreseen)[0] & active
    depth = jnp.max(jnp.where(lasting, -rows.gap, 0.0), initial=0.0)
    needed = jnp.any(lasting & (rows.gap < -rows.round_off)) & scene.acts(t, duration)
    near = (rows.gap >= -rows.round_off) & (rows.gap <= _REACH * depth)
    return Projection(needed, lasting | near, Impulses.nothing(scene.nothing(rows)))


def _move(flow, again: bool, t, duration, phase, contacts, found: Projection, scene) -> _Moved:
    impulses = found.impulses
    known, held = (impulses if again else None), found.held & found.needed
    step = moved_from_rest(flow, t, duration, phase, contacts, held, impulses, known, scene)
    return _Moved(step.phase, step.impulses, step.error, step.residual)


def _stay(t, duration, phase, contacts, found: Projection, scene) -> _Moved:
    zero = jnp.zeros_like(duration)
    return _Moved(phase, found.impulses, zero, zero)


def _frozen(t, scene: Scene) -> Scene:
    """Bodies with their joints and contacts without friction, at one time."""
    bare, contacts = alone(scene), scene.contacts
    if contacts is None:
        return bare
    n_contacts = scene.friction.shape[0] - scene.beside_contacts(scene.friction[:0], 0.0).shape[0]
    friction = jnp.zeros_like(scene.friction[:n_contacts])
    return dataclasses.replace(bare, contacts=_Frozen(contacts, t), friction=friction)
