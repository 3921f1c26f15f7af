"""Contacts of pairs of bodies, each of a solid of one kind with a solid of another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import Phase
from ..math import Quat, Vec3, cross, direction, dot, norm, rotate, rotate_inverse, zeros_like
from .base import AbstractContactSet, Gaps, partners_vary
from .clearance import Clearance, Reach, Separation, TurningView, View
from .collider_of import Recipe, made_together
from .colliders import AbstractCollider, PolytopeCollider
from .narrow_phase import may_fail, patch, separation
from .patches import n_places
from .points import ContactPoints, Incidence, Points, VaryingIncidence
from .soon import Travel, of_these

Pairs = tuple[tuple[int, int], ...]
# Of both bodies of each contact the position and the orientation.
Poses = tuple[tuple[Vec3, Quat], tuple[Vec3, Quat]]


class BodyContacts(AbstractContactSet):
    """Contacts of solids of one kind with solids of one other, with as many points for each pair,
    one after the other."""

    colliders: tuple[AbstractCollider, AbstractCollider]  # stacked, one for each pair
    pairs: Pairs = eqx.field(static=True)  # the bodies of each contact, in the order of the phase
    n_obstacles: int = eqx.field(static=True)
    travel: Travel | None = None  # None where the contact points of all pairs are found

    @property
    def shape(self):
        return (len(self.pairs),)

    @property
    def partners(self):
        return np.array(self.pairs) + np.array([0, self.n_obstacles])

    @property
    def searched(self):
        return may_fail(self.colliders)

    def _find(self, t, phase):
        if self.travel is None:
            found = closest(self.colliders, *self._poses(phase))
        else:
            found = self._closest_soon(phase, self.travel)
        sides = (Points(side, *own) for side, own in zip(self._sides(), found.sides, strict=True))
        return ContactPoints(
            found.gap,
            found.round_off,
            found.normal,
            tuple(sides),
            places=n_points(self.colliders),
        )

    def gaps(self, t, phase):
        if lie_on_faces(self.colliders):
            return least_gaps(self.colliders, *self._poses(phase))
        return super().gaps(t, phase)

    def soon(self, travel):
        return self if n_points(self.colliders) == 1 else dataclasses.replace(self, travel=travel)

    def _closest_soon(self, phase: Phase, travel: Travel) -> Closest:
        """Where pairs are closest that can touch soon; of others how far they are apart along the
        line between their centres of mass, at least."""
        number = n_points(self.colliders)
        sides = [Incidence(side) for side in zip(*self.pairs[::number], strict=True)]
        (x, q), (y, p) = poses = [
            side.gather((phase.position, phase.orientation)) for side in sides
        ]
        first, second = self.colliders
        normal, apart = direction(x - y)
        own = height(first, rotate_inverse(q, -normal))
        other = height(second, rotate_inverse(p, normal))
        size = reach(first).ball, reach(second).ball
        gap = apart - own - other
        leeway = travel.of(phase, sides, size)
        needed = ~jax.lax.stop_gradient(gap > leeway)  # and where it is not finite
        here, there = rotate_inverse(q, normal * -own), rotate_inverse(p, normal * other)
        no_lever = zeros_like(normal)
        round_off = 8 * jnp.finfo(gap.dtype).eps * (norm(x) + norm(y) + size[0] + size[1])
        far = Closest(gap, round_off, normal, ((here, no_lever), (there, no_lever)))
        far = jax.tree.map(lambda leaf: jnp.repeat(leaf[:, None], number, axis=1), far)
        found = of_these(needed, _of_pairs, (self.colliders, *poses), far)
        return jax.tree.map(lambda leaf: leaf.reshape(-1), found)

    def leeway(self, phase):
        """Half of what is between the balls about both bodies, as both may move."""
        if n_points(self.colliders) > 1 or self.unproved() is not None:
            return None
        x, y = (side.gather(phase.position) for side in self._sides())
        first, second = (reach(collider) for collider in self.colliders)
        return 0.5 * (norm(x - y) - first.ball - second.ball)

    def only(self, numbers):
        if n_points(self.colliders) > 1:
            return None
        colliders = jax.tree.map(lambda leaf: leaf[numbers], self.colliders)
        bodies = jnp.asarray(self.pairs, jnp.int32)[numbers]
        sides = (VaryingIncidence(bodies[:, 0]), VaryingIncidence(bodies[:, 1]))
        return BodiesInRow(colliders, sides)

    def unproved(self):
        known = all(collider.has_support for collider in self.colliders)
        return None if known else "contacts of bodies that are not known to be convex"

    def _clearance(self, found, phase, spin, inertial, gravity):
        normal, poses = found.normal, self._poses(phase)
        (turning, pull, velocity), (turning2, pull2, velocity2) = (
            side.gather((spin, gravity, inertial.velocity(phase))) for side in self._sides()
        )
        first, second = (reach(collider) for collider in self._each)
        return Clearance(
            start=(normal, poses, (pull, pull2)),
            gap=found.gap,
            rate=found.kinematics(phase, inertial).normal_velocity,
            balls=self._apart(normal, poses) - first.ball - second.ball,
            balls_rate=dot(normal, velocity - velocity2),
            pull=dot(normal, pull - pull2),
            swing=turning * first.swing + turning2 * second.swing,
            # C is not less than the square of the angular velocity.
            speed=norm(velocity - velocity2)
            + jnp.sqrt(turning) * first.swing
            + jnp.sqrt(turning2) * second.swing,
            turn_bend=jnp.zeros_like(found.gap),
        )

    def _views(self, clearance, found, phase):
        """Along the normals at the start, along those at the end, and turning between them."""
        normal, poses, (pull, pull2) = clearance.start
        here = self._poses(phase)
        first, second = (reach(collider) for collider in self._each)
        views = []
        for n in (normal, found.normal):
            before, after = (
                Separation(self._gap(n, at), self._apart(n, at) - first.ball - second.ball)
                for at in (poses, here)
            )
            views.append(View(before, after, dot(n, pull - pull2)))
        ends = views[0].before.solids, views[1].after.solids
        turning = TurningView.of((ends[0], normal), (ends[1], found.normal), pull - pull2)
        return [*views, turning]

    @property
    def _each(self) -> tuple[AbstractCollider, AbstractCollider]:
        """The colliders of each contact."""
        return of_each_contact(self.colliders)

    def _sides(self) -> list[Incidence]:
        return [Incidence(side) for side in zip(*self.pairs, strict=True)]

    def _poses(self, phase: Phase) -> Poses:
        first, second = (side.gather((phase.position, phase.orientation)) for side in self._sides())
        return first, second

    def _apart(self, normal: Vec3, poses: Poses) -> Float[Array, " n_contacts"]:
        return dot(normal, poses[0][0] - poses[1][0])

    def _gap(self, normal: Vec3, poses: Poses) -> Float[Array, " n_contacts"]:
        """The separation of the solids along given normals."""
        (_, q), (_, p) = poses
        first, second = self._each
        low = height(first, rotate_inverse(q, -normal))
        high = height(second, rotate_inverse(p, normal))
        return self._apart(normal, poses) - low - high


class BodiesInRow(AbstractContactSet):
    """Some contacts of solids of one kind with solids of one other, in a row that varies."""

    colliders: tuple[AbstractCollider, AbstractCollider]  # stacked, one for each contact
    sides: tuple[VaryingIncidence, VaryingIncidence]

    @property
    def shape(self):
        return self.sides[0].bodies.shape

    @property
    def partners(self):
        raise partners_vary()

    @property
    def searched(self):
        return may_fail(self.colliders)

    def _find(self, t, phase):
        first, second = (side.gather((phase.position, phase.orientation)) for side in self.sides)
        found = closest(self.colliders, first, second)
        sides = (Points(side, *own) for side, own in zip(self.sides, found.sides, strict=True))
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
    """Where solids are closest to each other, each pair in `n_points`.

    Args:
        colliders: of the solids, stacked, one for each pair.
        first, second: poses of their frames in the world; components of shape (n_contacts,).
    """
    number = n_points(colliders)
    once = jax.tree.map(lambda leaf: leaf[::number], (first, second))
    return jax.tree.map(lambda leaf: leaf.reshape(-1), _of_pairs(colliders, *once))


def lie_on_faces(colliders: tuple[AbstractCollider, AbstractCollider]) -> bool:
    """Whether both are polyhedra with several contacts, of which none is deeper than the closest
    point. (The closest points of discs that lie flat are drawn in, and less deep.)"""
    flat = all(isinstance(collider, PolytopeCollider) for collider in colliders)
    return flat and n_points(colliders) > 1


def least_gaps(
    colliders: tuple[AbstractCollider, AbstractCollider],
    first: tuple[Vec3, Quat],
    second: tuple[Vec3, Quat],
) -> Gaps:
    """The least gap of each pair of polyhedra, given as for `closest`."""
    number = n_points(colliders)
    (x, q), (y, p) = jax.tree.map(lambda leaf: leaf[::number], (first, second))
    found = jax.vmap(separation)(*colliders, *_seen_from_first((x, q), (y, p)))
    size = norm(x) + norm(y) + sum(reach(collider).ball for collider in colliders)
    return Gaps(found.gap, 8 * jnp.finfo(found.gap.dtype).eps * size)


def _seen_from_first(first: tuple[Vec3, Quat], second: tuple[Vec3, Quat]) -> tuple[Vec3, Quat]:
    """How the second are shifted and turned in the frames of the first."""
    (x, q), (y, p) = first, second
    return rotate_inverse(q, y - x), q.conjugate() * p


def _of_pairs(
    colliders: tuple[AbstractCollider, AbstractCollider],
    first: tuple[Vec3, Quat],
    second: tuple[Vec3, Quat],
) -> Closest:
    """Likewise, in components of shape (n_pairs, n_points), of poses of shape (n_pairs,)."""
    (x, q), (y, _) = first, second
    shift, turn = _seen_from_first(first, second)
    row = lambda tree: jax.tree.map(lambda leaf: leaf[:, None], tree)  # noqa: E731
    if n_points(colliders) > 1:
        gap, normal, (point, other) = jax.vmap(patch)(*colliders, shift, turn)
    else:
        gap, normal, other = row(jax.vmap(separation)(*colliders, shift, turn))
        point = other + normal * gap
    (q, turn, shift), size = row((q, turn, shift)), (norm(x) + norm(y))[:, None]
    points = (point, rotate_inverse(turn, other - shift))
    levers = (cross(points[0], normal), cross(points[1], rotate_inverse(turn, normal)))
    size = size + norm(points[0]) + norm(points[1])
    round_off = 8 * jnp.finfo(gap.dtype).eps * size
    sides = ((points[0], levers[0]), (points[1], levers[1]))
    return Closest(gap, round_off, rotate(q, normal), sides)


def n_points(colliders: tuple[AbstractCollider, AbstractCollider]) -> int:
    """The contacts of each pair of stacked colliders, which follow one another."""
    return n_places(*colliders) if all(collider.standing for collider in colliders) else 1


def of_each_contact(
    colliders: tuple[AbstractCollider, AbstractCollider],
) -> tuple[AbstractCollider, AbstractCollider]:
    """Stacked colliders, each as often as its pair has contacts."""
    number = n_points(colliders)
    return jax.tree.map(lambda leaf: jnp.repeat(leaf, number, axis=0), colliders)


def height(collider: AbstractCollider, direction: Vec3) -> Float[Array, " n_contacts"]:
    """The support functions of stacked colliders along unit directions in their frames [m]."""
    return jax.vmap(type(collider).height)(collider, direction)


def reach(collider: AbstractCollider) -> Reach:
    """How far stacked colliders are from the origins of their frames."""
    return jax.vmap(type(collider).reach)(collider)


class Kinds:
    """Pairs of colliders that are yet to be made, sorted by what can be stacked."""

    def __init__(self):
        self._kinds: dict[tuple, list] = {}
        self._forms: dict[tuple, tuple] = {}

    def add(self, recipes: tuple[Recipe, Recipe], contact: Any, *more: Any) -> None:
        """A contact, by its colliders and by what else must be equal."""
        kind = (*map(self._form, recipes), *more)
        self._kinds.setdefault(kind, []).append((contact, recipes))

    def _form(self, recipe: Recipe) -> tuple:
        """The structure of a collider and the shapes of its arrays."""
        leaves, structure = jax.tree.flatten(recipe.solid)
        key = recipe.make, structure, *map(jnp.shape, leaves)
        if key not in self._forms:
            found, form = jax.tree.flatten(jax.eval_shape(recipe.make, recipe.solid))
            self._forms[key] = form, *(leaf.shape for leaf in found)
        return self._forms[key]

    def stacked(self) -> Iterator[tuple[tuple[AbstractCollider, AbstractCollider], tuple]]:
        """The colliders of each kind, stacked, and its contacts."""
        for entries in self._kinds.values():
            contacts, recipes = zip(*entries, strict=True)
            first, second = zip(*recipes, strict=True)
            yield (made_together(first), made_together(second)), contacts
