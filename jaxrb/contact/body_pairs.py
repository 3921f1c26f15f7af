"""Contacts of pairs of bodies, each of a solid of one kind with a solid of another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..math import Quat, Vec3, cross, norm, rotate, rotate_inverse
from .base import AbstractContactSet
from .colliders import AbstractCollider, SearchedCollider
from .narrow_phase import separation
from .points import ContactPoints, Incidence, Points

Pairs = tuple[tuple[int, int], ...]


class BodyContacts(AbstractContactSet):
    """Contacts of solids of one kind with solids of one other."""

    colliders: tuple[AbstractCollider, AbstractCollider]  # stacked
    pairs: Pairs = eqx.field(static=True)  # the bodies of each contact, in the order of the phase
    n_obstacles: int = eqx.field(static=True)

    @property
    def shape(self):
        return (len(self.pairs),)

    @property
    def partners(self):
        return np.array(self.pairs) + np.array([0, self.n_obstacles])

    @property
    def searched(self):
        return any(isinstance(collider, SearchedCollider) for collider in self.colliders)

    def _find(self, t, phase):
        bodies = [Incidence(side) for side in zip(*self.pairs, strict=True)]
        poses = (side.gather((phase.position, phase.orientation)) for side in bodies)
        found = closest(self.colliders, *poses)
        sides = (Points(side, *own) for side, own in zip(bodies, found.sides, strict=True))
        return ContactPoints(found.gap, found.round_off, found.normal, tuple(sides))


class Closest(NamedTuple):
    """Where pairs of solids are closest; components of shape (n_contacts,)."""

    gap: Float[Array, " n_contacts"]  # [m]
    round_off: Float[Array, " n_contacts"]  # of the gap [m]
    normal: Vec3  # into the first, world
    # Of both the point rho in its own frame, and rho x R^T n [m].
    sides: tuple[tuple[Vec3, Vec3], tuple[Vec3, Vec3]]


def closest(
    colliders: tuple[AbstractCollider, AbstractCollider],
    first: tuple[Vec3, Quat],
    second: tuple[Vec3, Quat],
) -> Closest:
    """Where solids are closest to each other.

    Args:
        colliders: of the solids, stacked.
        first, second: poses of their frames in the world; components of shape (n_contacts,).
    """
    (x, q), (y, p) = first, second
    shift, turn = rotate_inverse(q, y - x), q.conjugate() * p
    gap, normal, point = jax.vmap(separation)(*colliders, shift, turn)
    points = (point + normal * gap, rotate_inverse(turn, point - shift))
    levers = (cross(points[0], normal), cross(points[1], rotate_inverse(turn, normal)))
    size = norm(x) + norm(y) + norm(points[0]) + norm(points[1])
    round_off = 8 * jnp.finfo(gap.dtype).eps * size
    sides = ((points[0], levers[0]), (points[1], levers[1]))
    return Closest(gap, round_off, rotate(q, normal), sides)


class Kinds:
    """Pairs of colliders, sorted by what can be stacked."""

    def __init__(self):
        self._kinds: dict[tuple, list] = {}

    def add(
        self, colliders: tuple[AbstractCollider, AbstractCollider], contact: Any, *more: Any
    ) -> None:
        """A contact, by its colliders and by what else must be equal."""
        leaves, structure = jax.tree.flatten(colliders)
        kind = structure, *(leaf.shape for leaf in leaves), *more
        self._kinds.setdefault(kind, []).append((contact, colliders))

    def stacked(self) -> Iterator[tuple[tuple[AbstractCollider, AbstractCollider], tuple]]:
        """The colliders of each kind, stacked, and its contacts."""
        for entries in self._kinds.values():
            contacts, colliders = zip(*entries, strict=True)
            yield jax.tree.map(lambda *leaves: jnp.stack(leaves), *colliders), contacts
