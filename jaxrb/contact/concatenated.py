"""Contact sets of several kinds, joined in one row."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import RigidBody
from ..shapes import Sphere
from ..shapes.base import AbstractShape
from .base import AbstractContacts, AbstractContactSet, Chosen, Gaps
from .body_pairs import BodyContacts, Kinds, n_points
from .joint_limits import JointLimits
from .moving import Moving
from .narrow_phase import prepare
from .obstacles import with_obstacles
from .sphere_pairs import BallContacts


class Mixed(AbstractContacts):
    """Contacts of several sets, one after the other: shape (n_contacts,)."""

    gap: Float[Array, " n_contacts"]
    round_off: Float[Array, " n_contacts"]
    found: tuple[AbstractContacts, ...]

    def _kinematics(self, phase, inertial):
        return jax.tree.map(
            _row, *(contacts.kinematics(phase, inertial) for contacts in self.found)
        )

    def _push(self, phase, impulse, where, inertial):
        own = zip(self.found, self._split(impulse), self._split(where), strict=True)
        for contacts, impulses, chosen in own:
            phase = contacts.apply_impulse(phase, impulses, chosen, inertial)
        return phase

    def _chosen(self, phase, which):
        """The sum over all sets: what is not chosen is zero."""
        first, *others = (
            contacts._chosen(phase, own)
            for contacts, own in zip(self.found, self._split(which), strict=True)
        )
        normal, sides, drift = first
        sides = list(sides)
        for other in others:
            normal, drift = normal + other.normal, drift + other.drift
            for k, (body, arm) in enumerate(other.sides):
                if k < len(sides):
                    sides[k] = (sides[k][0] | body, sides[k][1] + arm)
                else:
                    sides.append((body, arm))
        return Chosen(normal, tuple(sides), drift)

    def points(self):
        return tuple(row for contacts in self.found for row in contacts.points())

    def _split(self, row: Array) -> list[Array]:
        shapes = [contacts.gap.shape for contacts in self.found]
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
        return [row[a:b].reshape(s) for a, b, s in zip(ends, ends[1:], shapes, strict=False)]


class MixedContacts(AbstractContactSet):
    """Several sets of contacts."""

    sets: tuple[AbstractContactSet, ...]

    @property
    def shape(self):
        return (sum(contacts.number for contacts in self.sets),)

    @property
    def partners(self):
        return np.concatenate([contacts.partners for contacts in self.sets])

    @property
    def searched(self):
        return any(contacts.searched for contacts in self.sets)

    def _find(self, t, phase):
        found = tuple(contacts.find(t, phase) for contacts in self.sets)
        gap = _row(*(contacts.gap for contacts in found))
        return Mixed(gap, _row(*(contacts.round_off for contacts in found)), found)

    def gaps(self, t, phase):
        each = [contacts.gaps(t, phase) for contacts in self.sets]
        return Gaps(*(jnp.concatenate(row) for row in zip(*each, strict=True)))

    def soon(self, travel):
        return MixedContacts(tuple(contacts.soon(travel) for contacts in self.sets))

    def expected(self, phase, inertial, gravity, duration):
        return _row(
            *(contacts.expected(phase, inertial, gravity, duration) for contacts in self.sets)
        )

    def unproved(self):
        return next(filter(None, (contacts.unproved() for contacts in self.sets)), None)

    def _clearance(self, found, phase, spin, inertial, gravity):
        each = [
            own.clearance(contacts, phase, spin, inertial, gravity)
            for own, contacts in zip(self.sets, found.found, strict=True)
        ]
        rows = jax.tree.map(_row, *(dataclasses.replace(c, start=None) for c in each))
        return dataclasses.replace(rows, start=tuple(each))

    def _proof(self, clearance, found, phase, duration, since, growth, tolerance):
        each = zip(self.sets, clearance.start, found.found, found._split(tolerance), strict=True)
        return jax.tree.map(
            _row,
            *(
                own.proof(start, contacts, phase, duration, since, growth, allowed)
                for own, start, contacts, allowed in each
            ),
        )


def all_contacts(
    bodies: Sequence[RigidBody],
    obstacles: Sequence[AbstractShape | Moving],
    pairs: Sequence[tuple[int, int]],
    *,
    obstacle_pairs: Sequence[tuple[int, int]] | None,
    pinned: Sequence[bool],
    args: Any,
    standing: bool,
    limits: JointLimits | None,
) -> AbstractContactSet | None:
    """The contacts of bodies with obstacles, with each other, and of joints with their stops; None
    if nothing can touch.

    Args:
        bodies: those of one kind of shape next to each other.
        obstacles: that bodies can touch.
        pairs: of bodies that can touch, by their indices.
        obstacle_pairs: the bodies and the obstacles that can touch; None: each the other.
        pinned: which bodies turn about a point.
        args: of the motions of obstacles.
        standing: whether contacts can last (see `HalfSpaceContacts.of`).
        limits: of joints; they come last.

    Raises:
        ValueError: naming both, if the gap between two of the solids cannot be computed.
    """
    sets = with_obstacles(bodies, obstacles, obstacle_pairs, args, standing)
    if pairs:
        sets += _between(bodies, pairs, pinned, len(obstacles), standing)
    if limits is not None:
        sets.append(limits)
    if len(sets) > 1:
        return MixedContacts(tuple(sets))
    return sets[0] if sets else None


def _between(
    bodies: Sequence[RigidBody],
    pairs: Sequence[tuple[int, int]],
    pinned: Sequence[bool],
    n_obstacles: int,
    standing: bool,
) -> list[AbstractContactSet]:
    """Balls, if each of them can touch every other, and one set for each other kind of contact."""
    solids = [body.centered_shape() for body in bodies]
    sets: list[AbstractContactSet] = []
    # One that is pinned turns when it is hit, and is not among these. Their square holds each
    # contact twice, which contacts that share a load must not be.
    balls = {
        body: solid
        for body, solid in enumerate(solids)
        if isinstance(solid, Sphere) and not any(pinned) and not standing
    }
    left = {tuple(sorted(pair)): pair for pair in pairs}
    every = set(combinations(balls, 2))
    if every and every <= left.keys():
        radius = jnp.stack([ball.radius for ball in balls.values()])
        sets.append(BallContacts(radius, min(balls), n_obstacles))
        left = {key: pair for key, pair in left.items() if key not in every}
    kinds, pieces = Kinds(), [solid.pieces() for solid in solids]
    for pair in left.values():
        for a in pieces[pair[0]]:
            for b in pieces[pair[1]]:
                kinds.add(prepare(a, b, standing=standing), pair)
    for colliders, own in kinds.stacked():
        each = tuple(pair for pair in own for _ in range(n_points(colliders)))
        sets.append(BodyContacts(colliders, each, n_obstacles))
    return sets


def _row(*parts: Array) -> Array:
    return jnp.concatenate([part.reshape(-1) for part in parts])
