"""Contacts of bodies with obstacles: immovable solids and cavities, or such as move by themselves.

A body in a cavity is one outside of its complement. Where that is bounded by planes each of them
is a half-space. In any other convex cavity a body is inside if its corners are, rounded as it is:
each is a ball with a contact of its own, whose gap is the depth of its centre without its radius.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..bodies import RigidBody
from ..math import Quat, Vec3, dot, norm, rotate, rotate_inverse
from ..shapes import (
    AbstractSolid,
    Box,
    Complement,
    ConvexPolyhedron,
    Difference,
    HalfSpace,
    Implicit,
    Intersection,
    Placed,
    Rounded,
    Scaled,
    Union,
)
from ..shapes.base import AbstractShape
from .base import AbstractContactSet
from .body_pairs import (
    Kinds,
    closest,
    height,
    least_gaps,
    lie_on_faces,
    n_points,
    of_each_contact,
    reach,
)
from .clearance import Clearance, Separation, TurningView, View
from .collider_of import Recipe, collider, collider_type, kind
from .colliders import (
    AbstractCollider,
    DistanceCollider,
    PolytopeCollider,
    SphereCollider,
)
from .moving import Motions, Moving
from .narrow_phase import may_fail, prepare
from .planes import Plane, with_planes
from .points import ContactPoints, Incidence, Points


class ObstacleContacts(AbstractContactSet):
    """Contacts of solids of one kind with obstacles of one kind, with as many points for each
    pair, one after the other."""

    colliders: tuple[AbstractCollider, AbstractCollider]  # stacked, one for each pair
    # Of each contact the body, in the order of the phase, and the obstacle's number in the world.
    pairs: tuple[tuple[int, int], ...] = eqx.field(static=True)
    motions: Motions | None  # None where the obstacles stay

    @property
    def shape(self):
        return (len(self.pairs),)

    @property
    def partners(self):
        return np.array(self.pairs)

    @property
    def searched(self):
        return may_fail(self.colliders)

    def _find(self, t, phase):
        bodies = self._bodies()
        first, second = self._poses(t, phase)
        found = closest(self.colliders, first, second)
        here, there = found.sides
        surface = None
        if self.motions is not None:
            position, turn = second
            surface = self.motions.surface(t, rotate(turn, there[0]) + position, first[0])
        sides = (Points(bodies, *here),)
        places = n_points(self.colliders)
        return ContactPoints(found.gap, found.round_off, found.normal, sides, surface, places)

    def _poses(self, t, phase):
        """Of the bodies and of the obstacles."""
        first = self._bodies().gather((phase.position, phase.orientation))
        if self.motions is not None:
            return first, self.motions.poses(t)
        zero = jnp.zeros_like(first[0].x)
        none = Vec3(zero, zero, zero)
        return first, (none, Quat(zero + 1, none))

    def gaps(self, t, phase):
        if lie_on_faces(self.colliders):
            return least_gaps(self.colliders, *self._poses(t, phase))
        return super().gaps(t, phase)

    def unproved(self):
        if self.motions is not None:
            return "obstacles that move"
        body, obstacle = self.colliders
        known = body.has_support and (obstacle.has_support or self._cavity)
        return None if known else "obstacles or bodies that are not known to be convex"

    @property
    def _cavity(self) -> bool:
        obstacle = self.colliders[1]
        return isinstance(obstacle, DistanceCollider) and obstacle.is_convex_cavity

    def _clearance(self, found, phase, spin, inertial, gravity):
        bodies = self._bodies()
        turning, pull, velocity, pose = bodies.gather(
            (spin, gravity, inertial.velocity(phase), (phase.position, phase.orientation))
        )
        normal, swing = found.normal, reach(self._each[0]).swing
        return Clearance(
            start=(normal, pose, pull),
            gap=found.gap,
            rate=found.kinematics(phase, inertial).normal_velocity,
            balls=self._separation(normal, pose).balls,
            balls_rate=dot(normal, velocity),
            pull=self._pull(normal, pull),
            swing=turning * swing,
            # C is not less than the square of the angular velocity.
            speed=norm(velocity) + jnp.sqrt(turning) * swing,
            turn_bend=jnp.zeros_like(found.gap),
        )

    def _views(self, clearance, found, phase):
        """Along the normals at the start, along those at the end, and turning between them. In a
        cavity the gap is the least over all its walls, along any of which gravity pulls."""
        normal, pose, pull = clearance.start
        if self._cavity:
            none = jnp.full_like(found.gap, -jnp.inf)
            before, after = Separation(clearance.gap, none), Separation(found.gap, none)
            return [View(before, after, clearance.pull)]
        here = self._bodies().gather((phase.position, phase.orientation))
        first, last = (
            View(self._separation(n, pose), self._separation(n, here), self._pull(n, pull))
            for n in (normal, found.normal)
        )
        ends = first.before.solids, last.after.solids
        turning = TurningView.of((ends[0], normal), (ends[1], found.normal), pull)
        return [first, last, turning]

    @property
    def _each(self) -> tuple[AbstractCollider, AbstractCollider]:
        """The colliders of each contact."""
        return of_each_contact(self.colliders)

    def _bodies(self) -> Incidence:
        return Incidence(tuple(body for body, _ in self.pairs))

    def _pull(self, normal: Vec3, gravity: Vec3):
        return norm(gravity) if self._cavity else dot(normal, gravity)

    def _separation(self, normal: Vec3, pose: tuple[Vec3, Quat]) -> Separation:
        """That of the bodies along given normals."""
        (x, q), (body, obstacle) = pose, self._each
        if self._cavity:
            nothing = jnp.full_like(x.x, -jnp.inf)
            return Separation(nothing, nothing)
        apart = dot(normal, x) - height(obstacle, normal)
        low = height(body, rotate_inverse(q, -normal))
        return Separation(apart - low, apart - reach(body).ball)


def with_obstacles(
    bodies: Sequence[RigidBody],
    obstacles: Sequence[AbstractShape | Moving],
    pairs: Sequence[tuple[int, int]] | None,
    args: Any,
    standing: bool,
) -> list[AbstractContactSet]:
    """Half-spaces, half-spaces that move, and one set for each kind of contact with others.

    Args:
        bodies, obstacles, args, standing: as for `all_contacts`.
        pairs: its `obstacle_pairs`.

    Raises:
        ValueError: naming both, if the gap of a body and an obstacle cannot be computed.
    """
    planes: list[Plane] = []
    kinds = Kinds()
    solids = [body.centered_shape() for body in bodies]
    parts = [solid.pieces() for solid in solids]
    touched = _touched(len(bodies), len(obstacles), pairs)
    for number, mover, piece in _pieces(obstacles):
        place = f"World.obstacles[{number}]"
        if isinstance(piece, HalfSpace):
            planes.append(Plane(number, mover, piece))
            continue
        for body, (solid, own) in enumerate(zip(solids, parts, strict=True)):
            if number in touched[body]:
                for recipes in _recipes(solid, own, piece, place, standing):
                    kinds.add(recipes, ((body, number), mover), mover is None)
    sets = with_planes(bodies, solids, planes, touched, args, standing)
    for colliders, contacts in kinds.stacked():
        each = (contact for contact in contacts for _ in range(n_points(colliders)))
        own, moved_by = zip(*each, strict=True)
        motions = None if moved_by[0] is None else Motions.of(moved_by, args)
        sets.append(ObstacleContacts(colliders, own, motions))
    return sets


def _touched(
    n_bodies: int, n_obstacles: int, pairs: Sequence[tuple[int, int]] | None
) -> list[frozenset[int]]:
    """The numbers of the obstacles that each body can touch."""
    if pairs is None:
        return [frozenset(range(n_obstacles))] * n_bodies
    found: list[set[int]] = [set() for _ in range(n_bodies)]
    for body, obstacle in pairs:
        found[body].add(obstacle)
    return [frozenset(own) for own in found]


def flat_at_rest(obstacle: AbstractShape | Moving) -> bool:
    """Whether an obstacle is made of half-spaces that stay, at which contacts can last."""
    if isinstance(obstacle, Moving):
        return False
    return all(isinstance(piece, HalfSpace) for piece in _parts(obstacle))


def _pieces(
    obstacles: Sequence[AbstractShape | Moving],
) -> Iterator[tuple[int, Moving | None, AbstractShape]]:
    """Of each piece of each obstacle its number, what moves it, and the piece."""
    for number, obstacle in enumerate(obstacles):
        mover = obstacle if isinstance(obstacle, Moving) else None
        shape = obstacle.shape if isinstance(obstacle, Moving) else obstacle
        for piece in _parts(shape):
            yield number, mover, piece


def _parts(obstacle: AbstractShape) -> Iterator[AbstractShape]:
    """Half-spaces, cavities and solids of which an obstacle is the union."""
    match obstacle:
        case Complement(shape=HalfSpace() as plane):
            yield HalfSpace(-plane.normal, -plane.offset)
        case Complement(shape=Complement(shape=shape)):
            yield from _parts(shape)
        case Complement(shape=Intersection(a=a, b=b)):
            yield from _parts(Complement(a))
            yield from _parts(Complement(b))
        case Complement(shape=Difference(a=a, b=b)):
            yield from _parts(Complement(a))
            yield from _parts(b)
        case Complement(shape=AbstractSolid() as shape) if _has_planes(shape):
            yield from _walls(shape)
        case AbstractSolid():
            yield from obstacle.pieces()
        case _:
            yield obstacle


def _recipes(
    body: AbstractSolid,
    parts: Sequence[AbstractSolid],
    obstacle: AbstractShape,
    place: str,
    standing: bool,
) -> list[tuple[Recipe, Recipe]]:
    """How the colliders are made of all contacts of a body, a union of parts, with a piece of an
    obstacle that is no half-space.

    Raises:
        ValueError: naming both, if their gap cannot be computed.
    """
    if not isinstance(obstacle, Complement):
        assert isinstance(obstacle, AbstractSolid)
        return [prepare(part, obstacle, place, standing=standing) for part in parts]
    hole = obstacle.shape
    if _convex(hole):
        try:
            parts = body.strictly_convex_parts()
        except ValueError:  # it has none, as a cylinder
            parts = ()
    if (
        not parts
        or not _exact(hole, inside=True)
        or any(collider_type(part) is not SphereCollider for part in parts)
    ):
        raise ValueError(
            f"{place}: the gap between {_a(body)} and a cavity in the shape of {_a(hole)} "
            "is not known. Spheres can be in every solid but unions and implicit ones; capsules, "
            "boxes, polyhedra and these rounded in every convex one; all bodies in boxes and "
            "polyhedra. Spheres can also touch the Difference of a solid and any hole."
        )
    wall = Recipe(obstacle, DistanceCollider.of)
    return [(Recipe(part, collider), wall) for part in parts]


def _has_planes(shape: AbstractSolid) -> bool:
    """Whether it is bounded by planes alone, and convex."""
    while isinstance(shape, Placed | Scaled):
        shape = shape.shape
    return isinstance(shape, Box | ConvexPolyhedron)


def _walls(solid: AbstractSolid) -> list[HalfSpace]:
    """The half-spaces around a box or a polyhedron."""
    polytope = collider(solid)
    assert isinstance(polytope, PolytopeCollider)
    # Faces that are only filled up repeat a real one.
    real = jnp.isfinite(polytope.offset)
    index = jnp.where(real, jnp.arange(len(real)), jnp.argmax(real))
    normal, offset = polytope.normal.array()[index], polytope.offset[index]
    return [HalfSpace(-n, -d) for n, d in zip(normal, offset, strict=True)]


def _convex(shape: AbstractShape) -> bool:
    while isinstance(shape, Placed | Scaled | Rounded):
        shape = shape.shape
    return not isinstance(shape, Union | Intersection | Difference | Implicit | Complement)


def _exact(shape: AbstractShape, *, inside: bool) -> bool:
    """Whether the signed distance is exact on one side."""
    same = partial(_exact, inside=inside)
    match shape:
        case Union(a=a, b=b):
            exact = not inside and same(a) and same(b)
        case Intersection(a=a, b=b):
            exact = inside and same(a) and same(b)
        case Difference(a=a, b=b):
            exact = inside and same(a) and _exact(b, inside=False)
        case Complement(shape=other):
            exact = _exact(other, inside=not inside)
        case Rounded(shape=core):
            exact = same(core) and (not inside or _convex(core))
        case Placed(shape=core) | Scaled(shape=core):
            exact = same(core)
        case _:
            exact = not isinstance(shape, Implicit)
    return exact


def _a(shape: AbstractShape) -> str:
    """The name of a shape with its article."""
    name = kind(shape)
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
