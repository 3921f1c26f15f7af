"""Contacts of bodies with half-spaces.

Every body against every plane. A body that is a union has a contact for each of its parts, whose
least gap is its own: arrays have shape (n_bodies, n_contacts), where contact number
part * n_planes + plane is that of a part. Bodies with fewer parts than others repeat
their first one, which changes no least gap; where contacts last they are found apart (`of_some`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import Inertial, Phase, RigidBody
from ..math import Vec3, cross, dot, norm, rotate_inverse, zeros_like
from ..shapes import AbstractSolid, HalfSpace, Sphere
from ..shapes.base import components
from ..shapes.csg.extremum import Searched
from .base import (
    AbstractContacts,
    AbstractContactSet,
    Chosen,
    ContactKinematics,
    Surface,
    partners_vary,
)
from .clearance import Clearance, Reach, Separation, View, time_to_contact
from .points import AbstractInRow, ContactPoints, Incidence, Points, VaryingIncidence
from .single import at


class AtHalfSpaces(AbstractContacts):
    """Contacts of bodies with half-spaces at their closest points."""

    gap: Float[Array, "n_bodies n_contacts"]
    round_off: Float[Array, "n_bodies n_contacts"]
    normal: Vec3  # world; components (1, n_contacts)
    point: Vec3  # closest point of the body from its centre of mass, body frame [m]
    lever: Vec3  # chi = rho x R^T n, body frame [m]
    surface: Surface | None = None  # of half-spaces that move

    def _kinematics(self, phase: Phase, inertial: Inertial) -> ContactKinematics:
        """Normal velocity n . v + chi . Omega and inverse mass 1/m + chi . J^{-1} chi."""
        mass, inertia, linear, angular = _expand(
            (inertial.mass, inertial.inertia, phase.linear_momentum, phase.angular_momentum), 1
        )
        lever_over_inertia = inertia.solve(self.lever)
        spin = dot(lever_over_inertia, angular)
        inverse_mass = 1 / mass + dot(lever_over_inertia, self.lever)
        if inertial.pivot is not None:
            inertial, phase = _expand((inertial, phase), 1)
            inverse_mass = inertial.with_pins(inverse_mass, phase, self.normal, self.lever)
        rate, bend = dot(self.normal, linear) / mass + spin, spin**2 / norm(self.point)
        if self.surface is not None:
            rate = rate - dot(self.normal, self.surface.velocity)
            bend = bend + self.surface.acceleration
        return ContactKinematics(rate, inverse_mass, bend)

    def _push(self, phase, impulse, where, inertial):
        """Tran and Leok, eq. 61a, b."""
        impulse = jnp.where(where, impulse, jnp.zeros_like(impulse))
        linear, angular = jax.tree.map(
            partial(jnp.sum, axis=1), (self.normal * impulse, self.lever * impulse)
        )
        return inertial.pushed(phase, linear, angular)

    def _chosen(self, phase, which):
        normal, side = at(which, self.normal), (jnp.any(which, axis=1), at(which, self.point))
        moving = zeros_like(normal) if self.surface is None else at(which, self.surface.velocity)
        return Chosen(normal, (side,), moving)

    def points(self):
        shape = self.gap.shape

        def row(tree):
            return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape).reshape(-1), tree)

        bodies = Incidence(tuple(np.repeat(np.arange(shape[0]), shape[1]).tolist()))
        sides = (Points(bodies, row(self.point), row(self.lever)),)
        round_off, surface = row((self.round_off, self.surface))
        return (ContactPoints(row(self.gap), round_off, row(self.normal), sides, surface),)


class HalfSpaceContacts(AbstractContactSet):
    """The pairs of all bodies with all half-spaces."""

    # For each group of bodies with one kind of shape its parts, components stacked.
    shapes: tuple[tuple[AbstractSolid, ...], ...]
    normal: Vec3  # unit, components (n_planes,)
    offset: Float[Array, " n_planes"]  # [m]
    reach: Reach  # (n_bodies, n_parts)
    # Of each plane the obstacle's number in the world.
    obstacles: tuple[int, ...] = eqx.field(static=True)

    @staticmethod
    def of(
        bodies: Sequence[RigidBody],
        half_spaces: Sequence[tuple[int, HalfSpace]],
        *,
        standing: bool = False,
    ) -> HalfSpaceContacts:
        """Bodies in an order in which those of one kind of shape are next to each other;
        half-spaces with the number of the obstacle that each bounds.

        With `standing` the parts of each body are those by which it can stand on a plane, such as
        its corners, so that a contact can last.
        """
        shapes = [body.centered_shape() for body in bodies]
        solids = [shape.standing_parts() if standing else shape.parts() for shape in shapes]
        n_parts = max(map(len, solids))
        groups: list[list[tuple[AbstractSolid, ...]]] = []
        for solid in solids:
            repeated = solid + solid[:1] * (n_parts - len(solid))
            parts = tuple(components(part) for part in repeated)
            if groups and _kind(groups[-1][0]) == _kind(parts):
                groups[-1].append(parts)
            else:
                groups.append([parts])
        # A trailing axis of length 1 lets body quantities broadcast over the obstacles.
        stacked = tuple(
            jax.tree.map(lambda *leaves: jnp.stack(leaves)[:, None], *group) for group in groups
        )
        planes = [half_space.unit_normal_and_offset() for _, half_space in half_spaces]
        return HalfSpaceContacts(
            stacked,
            Vec3.of(jnp.stack([normal for normal, _ in planes])),
            jnp.stack([offset for _, offset in planes]),
            _reach([solid + solid[:1] * (n_parts - len(solid)) for solid in solids]),
            tuple(number for number, _ in half_spaces),
        )

    @property
    def n_parts(self) -> int:
        """Parts of each body."""
        return len(self.shapes[0])

    @property
    def searched(self) -> bool:
        return any(isinstance(part, Searched) for parts in self.shapes for part in parts)

    @property
    def shape(self):
        n_bodies = sum(jax.tree.leaves(parts)[0].shape[0] for parts in self.shapes)
        return n_bodies, self.n_parts * len(self.obstacles)

    @property
    def partners(self):
        body, contact = np.divmod(np.arange(self.number), self.n_parts * len(self.obstacles))
        return np.stack([body, np.array(self.obstacles)[contact % len(self.obstacles)]], axis=1)

    def _find(self, t, phase: Phase) -> AtHalfSpaces:
        """Gap, closest point and lever arm of every pair (Tran and Leok, eqs. 84, 55).

        Phi = n . x - d - h(-R^T n) with the support function h of the body, and the lever
        arm chi = rho x R^T n is the derivative of Phi with respect to a rotation of the
        body, in the body frame.
        """
        return self.found_above(place_above(self.normal, self.offset, phase), self.normal, phase)

    def found_above(self, place: Place, normal: Vec3, phase: Phase) -> AtHalfSpaces:
        """Likewise, for bodies at a place above planes with these normals."""
        normal = _expand(normal, 0)
        in_body = rotate_inverse(_expand(phase.orientation, 1), normal)
        support, point = self._support(-in_body)
        normal, in_body, place = self._for_each_part((normal, in_body, place))
        gap, round_off = _gap(place, support)
        return AtHalfSpaces(gap, round_off, normal, point, cross(point, in_body))

    def leeway(self, phase):
        """How high the balls about the bodies are above each plane."""
        if self._part is None:
            return None
        height = dot(_expand(self.normal, 0), _expand(phase.position, 1)) - _expand(self.offset, 0)
        return (height - self._per_contact(self.reach.ball)).reshape(-1)

    def only(self, numbers):
        if self._part is None:
            return None
        n_planes = jnp.int32(len(self.obstacles))
        body, plane = jax.lax.div(numbers, n_planes), jax.lax.rem(numbers, n_planes)
        part = jax.tree.map(lambda leaf: leaf[body], self._part)
        normal, offset = jax.tree.map(lambda leaf: leaf[plane], (self.normal, self.offset))
        return HalfSpacesInRow(part, normal, offset, VaryingIncidence(body))

    @property
    def _part(self) -> AbstractSolid | None:
        """The one part of every body, stacked, if all are of one kind."""
        parts = [part for parts in self.shapes for part in parts]
        return parts[0] if len(parts) == 1 else None

    def unproved(self):
        return None

    def _clearance(self, found, phase, spin, inertial, gravity):
        normal, velocity = _expand(self.normal, 0), inertial.velocity(phase)
        wide = partial(jnp.broadcast_to, shape=(spin.shape[0], len(self.obstacles)))
        turning, pull, speed = self._for_each_part(
            jax.tree.map(
                wide,
                (
                    _expand(spin, 1),
                    dot(normal, _expand(gravity, 1)),
                    dot(normal, _expand(velocity, 1)),
                ),
            )
        )
        motion = found.kinematics(phase, inertial)
        apart = self._separation(found, phase)
        swing = turning * self._per_contact(self.reach.swing)
        still = jnp.zeros_like(swing)
        return Clearance(
            start=None,
            gap=apart.solids,
            rate=motion.normal_velocity,
            balls=apart.balls,
            balls_rate=speed,
            pull=pull,
            swing=swing,
            speed=still,
            turn_bend=still,
        )

    def _views(self, clearance, found, phase):
        before = Separation(clearance.gap, clearance.balls)
        return [View(before, self._separation(found, phase), clearance.pull)]

    def _separation(self, found: AtHalfSpaces, phase: Phase) -> Separation:
        normal, offset = _expand(self.normal, 0), _expand(self.offset, 0)
        height = self._for_each_part(dot(normal, _expand(phase.position, 1)) - offset)
        return Separation(found.gap, height - self._per_contact(self.reach.ball))

    def _per_contact(self, per_part: Float[Array, "n_bodies n_parts"]):
        return jnp.repeat(per_part, len(self.obstacles), axis=1)

    def _support(self, direction: Vec3) -> tuple[Float[Array, ...], Vec3]:
        groups, start = [], 0
        for parts in self.shapes:
            n_bodies = jax.tree.leaves(parts)[0].shape[0]
            own = jax.tree.map(lambda d, s=start, n=n_bodies: d[s : s + n], direction)
            found = []
            for part in parts:
                height, point = part.support_map(own)
                # What does not depend on the direction still has one value a pair.
                wide = partial(jnp.broadcast_to, shape=own.x.shape)
                found.append(jax.tree.map(wide, (height, point)))
            groups.append(_join(found, axis=1))
            start += n_bodies
        return _join(groups, axis=0)

    def _for_each_part(self, tree):
        return _join([tree] * self.n_parts, axis=1)


class AtHalfSpacesInRow(AbstractInRow):
    """Contacts of bodies with half-spaces, in a row."""

    gap: Float[Array, " n_contacts"]
    round_off: Float[Array, " n_contacts"]
    with_points: ContactPoints
    balls: bool = eqx.field(static=True)  # whether all bodies are balls, which nothing here turns

    def _kinematics(self, phase, inertial):
        normal, (side,) = self.with_points.normal, self.with_points.sides
        if self.balls and inertial.pivot is None:
            velocity, mass = side.incidence.gather((inertial.velocity(phase), inertial.mass))
            rate = dot(normal, velocity)
            return ContactKinematics(rate, 1 / mass, jnp.zeros_like(rate))
        own, moving = side.incidence.gather((inertial, phase))
        over_inertia = own.inertia.solve(side.lever)
        spin = dot(over_inertia, moving.angular_momentum)
        free = 1 / own.mass + dot(over_inertia, side.lever)
        inverse_mass = own.with_pins(free, moving, normal, side.lever)
        rate = dot(normal, own.velocity(moving)) + spin
        return ContactKinematics(rate, inverse_mass, spin**2 / norm(side.point))


class HalfSpacesInRow(AbstractContactSet):
    """Some contacts of bodies with half-spaces, in a row that varies."""

    part: AbstractSolid  # of each contact, components with a trailing axis of length 1
    normal: Vec3  # unit, components (n_contacts,)
    offset: Float[Array, " n_contacts"]  # [m]
    bodies: VaryingIncidence

    @property
    def shape(self):
        return self.offset.shape

    @property
    def partners(self):
        raise partners_vary()

    @property
    def searched(self):
        return isinstance(self.part, Searched)

    def expected(self, phase, inertial, gravity, duration):
        """Of balls, whose centres fly in parabolas."""
        if not isinstance(self.part, Sphere):
            return jnp.full(self.shape, jnp.inf, phase.position.x.dtype)
        gravity = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, phase.position.x.shape), gravity)
        position, *rates = self.bodies.gather((phase.position, inertial.velocity(phase), gravity))
        rate, pull = (dot(self.normal, vector) for vector in rates)
        place = _place(self.normal, position, self.offset)
        gap, round_off = _gap(place, self.part.radius[:, 0])
        gap = gap - 0.5 * round_off
        closed = gap + (rate + 0.5 * pull * duration) * duration < 0
        return jnp.where((gap > 0) & closed, time_to_contact(gap, rate, pull), jnp.inf)

    def _find(self, t, phase):
        position, orientation = self.bodies.gather((phase.position, phase.orientation))
        in_body = rotate_inverse(orientation, self.normal)
        support, point = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (*self.shape, 1))[:, 0],
            self.part.support_map(_expand(-in_body, 1)),
        )
        gap, round_off = _gap(_place(self.normal, position, self.offset), support)
        sides = (Points(self.bodies, point, cross(point, in_body)),)
        points = ContactPoints(gap, round_off, self.normal, sides)
        balls = isinstance(self.part, Sphere)
        return AtHalfSpacesInRow(gap=gap, round_off=round_off, with_points=points, balls=balls)


class Place(NamedTuple):
    """How high centres are above half-spaces, and the sizes of the terms of which that is the sum:
    far along a plane that is not normal to an axis these are larger than it [m]."""

    height: Float[Array, "..."]
    terms: Float[Array, "..."]


def _place(normal: Vec3, position: Vec3, offset: Float[Array, "..."]) -> Place:
    return Place(dot(normal, position) - offset, largest_terms(normal, position) + jnp.abs(offset))


def place_above(normal: Vec3, offset: Float[Array, " n_planes"], phase: Phase) -> Place:
    """Of all bodies above all planes; of shape (n_bodies, n_planes)."""
    return _place(_expand(normal, 0), _expand(phase.position, 1), _expand(offset, 0))


def largest_terms(a: Vec3, b: Vec3) -> Float[Array, "..."]:
    """How large the terms of a scalar product are, together."""
    products = jax.tree.map(lambda x, y: jnp.abs(x * y), a, b)
    return products.x + products.y + products.z


def _gap(
    place: Place, support: Float[Array, "..."]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """The gap of a body that reaches so far down from its centre, and its round-off [m]."""
    gap = place.height - support
    return gap, 8 * jnp.finfo(gap.dtype).eps * (place.terms + jnp.abs(support))


def _reach(solids: list[tuple[AbstractSolid, ...]]) -> Reach:
    """Of the parts of each body."""

    def table(radius):
        return jnp.stack([jnp.stack([radius(part) for part in parts]) for parts in solids])

    return Reach(
        table(lambda part: part.swing_radius()), table(lambda part: part.bounding_radius())
    )


def _kind(parts: tuple[AbstractSolid, ...]) -> tuple:
    """The structure that must be equal for shapes to be stacked."""
    leaves, structure = jax.tree.flatten(parts)
    return structure, *(leaf.shape for leaf in leaves)


def _join(trees: list, axis: int):
    if len(trees) == 1:
        return trees[0]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=axis), *trees)


def _expand(tree, axis: int):
    return jax.tree.map(lambda leaf: jnp.expand_dims(leaf, axis), tree)
