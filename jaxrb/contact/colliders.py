"""Collision geometries: the representation that the narrow phase works on.

A solid is a core, turned and moved within its body, and a radius by which it is rounded:
spheres are rounded points, capsules rounded segments. What the closest points of two cores
need is prepared once, before a simulation.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..math import (
    Quat,
    Sym3,
    Vec3,
    cross,
    dot,
    hadamard,
    norm,
    rotate,
    rotate_inverse,
)
from ..shapes import (
    AbstractSolid,
    Box,
    Capsule,
    Complement,
    Cone,
    ConvexPolyhedron,
    Cylinder,
    Difference,
    Ellipsoid,
    Implicit,
    Intersection,
    Placed,
    Rounded,
    Scaled,
    Sphere,
)
from ..shapes.base import AbstractShape, components
from ..shapes.csg.extremum import Searched
from ..shapes.csg.seeds import prepare
from ..shapes.point import Point
from .clearance import Reach


class Separation(NamedTuple):
    """The separation of two solids, in the frame of the first body."""

    gap: Float[Array, ""]  # [m]
    normal: Vec3  # unit, into the first
    point: Vec3  # of the second that is closest to the first [m]


class AbstractCollider(eqx.Module):
    """The collision geometry of a solid in its body's frame."""

    @abc.abstractmethod
    def moved(self, shift: Vec3, turn: Quat) -> AbstractCollider:
        """Turned and then shifted."""

    @property
    def has_support(self) -> bool:
        """Whether it is convex and `height` is known."""
        return True

    @property
    def standing(self) -> bool:
        """Whether it has what it takes to lie on another, in several points."""
        return False

    def height(self, direction: Vec3) -> Float[Array, ""]:
        """The support function: the greatest height of its points along a unit direction [m]."""
        raise NotImplementedError

    def reach(self) -> Reach:
        """How far it is from the origin."""
        raise NotImplementedError


class SphereCollider(AbstractCollider):
    """A point, rounded."""

    center: Vec3  # [m]
    radius: Float[Array, ""]  # [m]

    def moved(self, shift: Vec3, turn: Quat) -> SphereCollider:
        """Turned and then shifted."""
        return SphereCollider(rotate(turn, self.center) + shift, self.radius)

    def height(self, direction):
        return dot(direction, self.center) + self.radius

    def reach(self):
        swing = norm(self.center)
        return Reach(swing, swing + self.radius)


class PolytopeCollider(AbstractCollider):
    """A polyhedron or a segment, rounded. Components are arrays over its features."""

    vertices: Vec3  # (n_vertices,) [m]
    start: Vec3  # of each edge, (n_edges,) [m]
    along: Vec3  # from there to its end [m]
    left: Vec3  # unit outward normals of the two faces at it; zero for a segment
    right: Vec3
    normal: Vec3  # of each face, unit, (n_faces,); zero where a face is only filled up
    offset: Float[Array, " n_faces"]  # normal . z on the face [m]; infinite there
    radius: Float[Array, ""]  # [m]
    # Of each face its corners in turn, counter-clockwise from outside, the last one repeated to
    # fill up, (n_faces, n_corners); of a segment its ends. None where nobody asks for them.
    outlines: Vec3 | None = None

    @property
    def has_faces(self) -> bool:
        """Whether it is no segment."""
        return self.normal.x.shape[-1] > 0

    @property
    def standing(self):
        return self.outlines is not None

    def moved(self, shift: Vec3, turn: Quat) -> PolytopeCollider:
        """Turned and then shifted."""
        start, along, left, right, normal = (
            rotate(turn, v) for v in (self.start, self.along, self.left, self.right, self.normal)
        )
        vertices = rotate(turn, self.vertices) + shift
        offset = self.offset + dot(normal, shift)
        outlines = None if self.outlines is None else rotate(turn, self.outlines) + shift
        return PolytopeCollider(
            vertices, start + shift, along, left, right, normal, offset, self.radius, outlines
        )

    def height(self, direction):
        return jnp.max(dot(direction, self.vertices), axis=-1) + self.radius

    def reach(self):
        swing = jnp.max(norm(self.vertices), axis=-1)
        return Reach(swing, swing + self.radius)


class EllipsoidCollider(AbstractCollider):
    """An ellipsoid, rounded."""

    semi_axes: Vec3  # [m]
    center: Vec3  # [m]
    turn: Quat  # from its axes to the body's
    radius: Float[Array, ""]  # [m]

    def moved(self, shift: Vec3, turn: Quat) -> EllipsoidCollider:
        """Turned and then shifted."""
        center = rotate(turn, self.center) + shift
        return EllipsoidCollider(self.semi_axes, center, turn * self.turn, self.radius)

    def height(self, direction):
        stretched = norm(hadamard(self.semi_axes, rotate_inverse(self.turn, direction)))
        return dot(direction, self.center) + stretched + self.radius

    def reach(self):
        largest = jnp.maximum(jnp.maximum(self.semi_axes.x, self.semi_axes.y), self.semi_axes.z)
        swing = norm(self.center) + largest
        return Reach(swing, swing + self.radius)

    def squared(self) -> Sym3:
        """The matrix Q for which the support function of the core is sqrt(n . Q n)."""
        one, zero = jnp.ones_like(self.semi_axes.x), jnp.zeros_like(self.semi_axes.x)
        basis = (Vec3(one, zero, zero), Vec3(zero, one, zero), Vec3(zero, zero, one))
        stretched = [hadamard(self.semi_axes, rotate_inverse(self.turn, axis)) for axis in basis]

        def entry(i: int, j: int):
            return dot(stretched[i], stretched[j])

        return Sym3(
            Vec3(entry(0, 0), entry(1, 1), entry(2, 2)), Vec3(entry(1, 2), entry(0, 2), entry(0, 1))
        )


class FrustumCollider(AbstractCollider):
    """The convex hull of two discs about one axis, rounded: a cylinder; a cone, whose apex is a
    disc of radius zero."""

    center: Vec3  # halfway between the discs [m]
    axis: Vec3  # unit, from the base to the top
    aside: Vec3  # unit, across the axis
    half_height: Float[Array, ""]  # [m]
    base: Float[Array, ""]  # radii of the discs [m]
    top: Float[Array, ""]
    radius: Float[Array, ""]  # [m]
    outlined: bool = eqx.field(static=True, default=False)  # whether `standing`

    def moved(self, shift: Vec3, turn: Quat) -> FrustumCollider:
        """Turned and then shifted."""
        return dataclasses.replace(
            self,
            center=rotate(turn, self.center) + shift,
            axis=rotate(turn, self.axis),
            aside=rotate(turn, self.aside),
        )

    def height(self, direction):
        return dot(direction, self.center) + self.extent(direction) + self.radius

    def extent(self, direction: Vec3) -> Float[Array, ...]:
        """The support function of the core about its center [m]."""
        along = self.half_height * dot(direction, self.axis)
        across = norm(cross(direction, self.axis))
        return jnp.maximum(self.base * across - along, self.top * across + along)

    def reach(self):
        swing = norm(self.center) + self.size
        return Reach(swing, swing + self.radius)

    @property
    def standing(self):
        return self.outlined

    @property
    def size(self) -> Float[Array, ""]:
        """How far points of the core are from its center at most [m]."""
        return jnp.sqrt(self.half_height**2 + jnp.maximum(self.base, self.top) ** 2)


class DistanceCollider(AbstractCollider):
    """Any other shape of exact signed distance outside."""

    solid: AbstractShape  # in components
    radius: Float[Array, ""]  # of a ball about the origin that holds it [m]; 0 of a cavity

    @staticmethod
    def of(shape: AbstractShape) -> DistanceCollider:
        """Of a solid, or of the complement of one."""
        if isinstance(shape, AbstractSolid):
            return DistanceCollider(components(shape), shape.bounding_radius())
        return DistanceCollider(components(shape), jnp.zeros_like(jax.tree.leaves(shape)[0].sum()))

    @property
    def is_convex_cavity(self) -> bool:
        """Whether it is the complement of a convex solid."""
        solid = self.solid
        if not isinstance(solid, Complement) or not isinstance(solid.shape, AbstractSolid):
            return False
        return solid.shape.is_convex

    @property
    def has_support(self):
        return isinstance(self.solid, AbstractSolid) and self.solid.is_convex

    def height(self, direction):
        assert isinstance(self.solid, AbstractSolid)
        return self.solid.support_map(direction)[0]

    def reach(self):
        return Reach(self.radius, self.radius)

    def moved(self, shift: Vec3, turn: Quat) -> DistanceCollider:
        """Never asked for: balls are moved to such a solid."""
        raise NotImplementedError


class SearchedCollider(AbstractCollider):
    """A solid (optionally rounded) whose closest point is found numerically."""

    solid: Searched  # in components, prepared for points
    radius: Float[Array, ""]  # [m]

    @property
    def has_support(self):
        return False

    def moved(self, shift: Vec3, turn: Quat) -> SearchedCollider:
        """Never asked for, as of `DistanceCollider`."""
        raise NotImplementedError


class _Pose(NamedTuple):
    """The pose of a core within its body: z -> turn(scale z) + position."""

    position: Vec3  # [m]
    turn: Quat
    scale: Float[Array, ""]

    def __call__(self, point: Vec3) -> Vec3:
        return rotate(self.turn, point * self.scale) + self.position


def collider(solid: AbstractSolid) -> AbstractCollider:
    """The collider of a solid that is no union."""
    core, pose, radius = _unwrap(solid)
    match core:
        case Sphere():
            found = SphereCollider(pose.position, radius + core.radius * pose.scale)
        case Point():
            found = SphereCollider(pose(Vec3.of(core.position)), radius)
        case Ellipsoid():
            axes = Vec3.of(core.semi_axes * pose.scale)
            found = EllipsoidCollider(axes, pose.position, pose.turn, radius)
        case Capsule():
            found = _segment(core, pose, radius + core.radius * pose.scale)
        case Cylinder():
            zero = jnp.zeros_like(core.radius)
            found = _frustum(pose, zero, core.half_height, core.radius, core.radius, radius)
        case Cone():
            zero, half = jnp.zeros_like(core.radius), core.height / 2
            found = _frustum(pose, half, half, core.radius, zero, radius)
        case Box():
            found = _polytope(*_box(core), pose, radius)
        case ConvexPolyhedron():
            found = _polytope(*_polyhedron(core), pose, radius)
        case Intersection() | Difference() | Implicit():
            whole = Placed(Scaled(core, pose.scale), pose.position.array(), pose.turn.array())
            found = SearchedCollider(components(prepare(whole, near=True)), radius)
        case _:
            found = DistanceCollider.of(solid)
    return found


def with_outlines(found: AbstractCollider, solid: AbstractSolid) -> AbstractCollider:
    """The collider of a solid; one with faces with their outlines, to lie on them."""
    if isinstance(found, FrustumCollider):
        return dataclasses.replace(found, outlined=True)
    if not isinstance(found, PolytopeCollider):
        return found
    core, pose, _ = _unwrap(solid)
    match core:
        case Box():
            outlines = pose(_box_outlines(core))
        case ConvexPolyhedron():
            outlines = pose(_polyhedron_outlines(core))
        case _:
            outlines = found.vertices
    return dataclasses.replace(found, outlines=outlines)


def kind(shape: AbstractShape) -> str:
    """The name of a shape, moved, scaled and rounded or not."""
    while isinstance(shape, Rounded | Scaled | Placed):
        shape = shape.shape
    return type(shape).__name__


def _unwrap(solid: AbstractSolid) -> tuple[AbstractSolid, _Pose, Float[Array, ""]]:
    """The core that is moved, scaled and rounded; its pose, and the radius [m]."""
    zero = jnp.zeros_like(solid.bounding_radius())
    radius = zero
    pose = _Pose(Vec3(zero, zero, zero), Quat(zero + 1, Vec3(zero, zero, zero)), zero + 1)
    while isinstance(solid, Rounded | Scaled | Placed):
        if isinstance(solid, Rounded):
            radius = radius + solid.radius * pose.scale
        elif isinstance(solid, Scaled):
            pose = pose._replace(scale=pose.scale * solid.factor)
        else:
            turn = pose.turn * Quat.of(solid.quaternion).normalized()
            pose = _Pose(pose(Vec3.of(solid.position)), turn, pose.scale)
        solid = solid.shape
    return solid, pose, radius


def _polytope(
    vertices: Vec3,
    edges: tuple[Vec3, ...],
    faces: tuple,
    pose: _Pose,
    radius: Array,
) -> PolytopeCollider:
    start, end, left, right = edges
    normal, point, real = faces
    start, normal = pose(start), rotate(pose.turn, normal)
    offset = jnp.where(real, dot(normal, pose(point)), jnp.inf)
    return PolytopeCollider(
        pose(vertices),
        start,
        pose(end) - start,
        rotate(pose.turn, left),
        rotate(pose.turn, right),
        normal,
        offset,
        radius,
    )


def _frustum(
    pose: _Pose, middle: Array, half_height: Array, base: Array, top: Array, radius: Array
) -> FrustumCollider:
    """About the z axis of the core, its discs around a middle height."""
    zero, one = jnp.zeros_like(middle), jnp.ones_like(middle)
    return FrustumCollider(
        pose(Vec3(zero, zero, middle)),
        rotate(pose.turn, Vec3(zero, zero, one)),
        rotate(pose.turn, Vec3(one, zero, zero)),
        half_height * pose.scale,
        base * pose.scale,
        top * pose.scale,
        radius,
    )


def _segment(capsule: Capsule, pose: _Pose, radius: Array) -> PolytopeCollider:
    half = capsule.half_length
    zero, none, no_face = (jnp.zeros_like(half, shape=shape) for shape in [(2,), (1,), (0,)])
    ends = pose(Vec3(zero, zero, jnp.stack([-half, half])))
    start, end = (jax.tree.map(lambda leaf, k=k: leaf[k : k + 1], ends) for k in range(2))
    flat, no_faces = Vec3(none, none, none), Vec3(no_face, no_face, no_face)
    return PolytopeCollider(ends, start, end - start, flat, flat, no_faces, no_face, radius)


def _box(box: Box):
    """Corners; edges by their ends and the normals beside them; faces."""
    half, dtype = Vec3.of(box.half_extents), box.half_extents.dtype
    signs = np.array(np.meshgrid(*[(-1.0, 1.0)] * 3)).reshape(3, -1).T
    sides = np.concatenate([np.eye(3), -np.eye(3)])
    edges = []
    for axis in range(3):
        for corner in signs[signs[:, axis] < 0]:
            other = corner.copy()
            other[axis] = 1.0
            left, right = (corner[k] * np.eye(3)[k] for k in range(3) if k != axis)
            edges.append([corner, other, left, right])
    start, end, left, right = np.moveaxis(np.array(edges), 1, 0)

    def scaled(factors: np.ndarray) -> Vec3:
        x, y, z = factors.T.astype(dtype)
        return Vec3(half.x * x, half.y * y, half.z * z)

    def fixed(vectors: np.ndarray) -> Vec3:
        return Vec3.of(jnp.asarray(vectors, dtype))

    normals = fixed(sides), scaled(sides), np.ones(6, bool)
    return scaled(signs), (scaled(start), scaled(end), fixed(left), fixed(right)), normals


def _polyhedron(solid: ConvexPolyhedron):
    """Like `_box`. Each edge belongs to two triangles, which run along it in opposite directions;
    n vertices have at most 3 n - 6 edges."""
    assert solid.faces is not None
    faces, vertices = solid.faces, solid.vertices
    n_edges = 3 * len(vertices) - 6
    corners = [Vec3.of(vertices[faces[:, k]]) for k in range(3)]
    across = cross(corners[1] - corners[0], corners[2] - corners[0])
    area = norm(across)
    real = area > 0
    normal = jax.tree.map(lambda leaf: leaf / jnp.where(real, area, 1.0), across)

    first, second = faces.reshape(-1), jnp.roll(faces, -1, axis=1).reshape(-1)
    owner = jnp.repeat(jnp.arange(len(faces)), 3)
    forward = jnp.argsort(~(first < second), stable=True)[:n_edges]
    a, b, own = first[forward], second[forward], owner[forward]
    # Unused edges are a point of the hull, beside faces of one normal.
    used = a < b
    start, end = (Vec3.of(vertices[jnp.where(used, index, 0)]) for index in (a, b))
    # The triangle on the other side runs from b to a.
    other = owner[jnp.argmax((first[None] == b[:, None]) & (second[None] == a[:, None]), axis=1)]
    left, right = (
        jax.tree.map(lambda leaf, face=face: leaf[face], normal)
        for face in (own, jnp.where(used, other, own))
    )
    return Vec3.of(vertices), (start, end, left, right), (normal, corners[0], real)


def _box_outlines(box: Box) -> Vec3:
    """In the order of the faces of `_box`."""
    around = np.array([(1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0)])
    signs = np.zeros((6, 4, 3))
    for face in range(6):
        axis, side = face % 3, 1.0 if face < 3 else -1.0
        turned = around if side > 0 else around[:, ::-1]
        signs[face, :, axis] = side
        signs[face, :, (axis + 1) % 3], signs[face, :, (axis + 2) % 3] = turned.T
    return Vec3.of(jnp.asarray(signs, box.half_extents.dtype) * box.half_extents[None, None])


# Corners nearer than this part of the size to the plane of a triangle belong to its face.
_FLAT = 2 / 3  # of the digits


def flatness(dtype: jnp.dtype) -> float:
    """How far, relative to its size, a corner of a polyhedron is from a face that it belongs to."""
    return float(jnp.finfo(dtype).eps) ** _FLAT


def _polyhedron_outlines(solid: ConvexPolyhedron) -> Vec3:
    """Triangles in one plane belong to one face, and each has its whole outline: the corners in
    the plane, in the order of their angles around their middle."""
    assert solid.faces is not None
    faces, vertices = solid.faces, solid.vertices
    a, b, c = (Vec3.of(vertices[faces[:, k]]) for k in range(3))
    across = cross(b - a, c - a)
    area = norm(across)
    real = area > 0
    normal = across / jnp.where(real, area, 1.0)
    each, corners = _at((normal, a), (slice(None), None)), _at(Vec3.of(vertices), (None,))
    height = jnp.abs(dot(each[0], corners - each[1]))
    near = (height <= flatness(vertices.dtype) * solid.bounding_radius()) & real[:, None]
    # A corner in the midst of a face has triangles of that face alone.
    elsewhere = ~jnp.all(near[:, faces], axis=-1) & real[None]
    index = jnp.arange(len(vertices), dtype=faces.dtype)
    owned = jnp.any(faces[:, :, None] == index[None, None], axis=1)
    within = near & jnp.any(elsewhere[:, :, None] & owned[None], axis=1)
    number = jnp.sum(within, axis=1, keepdims=True)
    total = lambda x: jnp.sum(jnp.where(within, x, 0.0), axis=1, keepdims=True)  # noqa: E731
    middle = jax.tree.map(total, corners) / jnp.maximum(number, 1).astype(vertices.dtype)
    arm, first = corners - middle, each[1] - middle
    angle = jnp.arctan2(dot(arm, cross(each[0], first)), dot(arm, first))
    order = jnp.argsort(jnp.where(within, angle, jnp.inf), axis=1)
    place = jnp.minimum(jnp.arange(len(vertices))[None], jnp.maximum(number, 1) - 1)
    order = jax.lax.stop_gradient(jnp.take_along_axis(order, place, axis=1))
    return Vec3.of(vertices[order])


def _at(tree, index: tuple):
    return jax.tree.map(lambda leaf: leaf[index], tree)
