"""The collider of a solid: how shapes, moved, scaled and rounded, become collision geometries."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from types import UnionType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..math import Quat, Vec3, cross, dot, norm, rotate
from ..math.alike import alike, stacked_results
from ..shapes import (
    AbstractSolid,
    Box,
    Capsule,
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
from ..shapes.csg.seeds import prepare
from ..shapes.point import Point
from .colliders import (
    AbstractCollider,
    DistanceCollider,
    EllipsoidCollider,
    FrustumCollider,
    PolytopeCollider,
    SearchedCollider,
    SphereCollider,
)


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
    for kinds, _, make in _MAKERS:
        if isinstance(core, kinds):
            return make(core, pose, radius)
    return DistanceCollider.of(solid)


def collider_type(solid: AbstractSolid) -> type[AbstractCollider]:
    """Of which kind its collider is."""
    core = _core(solid)
    return next((kind for kinds, kind, _ in _MAKERS if isinstance(core, kinds)), DistanceCollider)


def outlined(solid: AbstractSolid) -> AbstractCollider:
    """The collider of a solid; one with faces with their outlines, to lie on them."""
    found = collider(solid)
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


class Recipe(NamedTuple):
    """A collider that is yet to be made, of a solid."""

    solid: AbstractShape
    make: Callable[[Any], AbstractCollider]

    def made(self) -> AbstractCollider:
        """The collider."""
        return self.make(self.solid)


def made_together(recipes: Sequence[Recipe]) -> AbstractCollider:
    """Colliders of one form, stacked; each solid's is made once, in however many pairs it is."""
    distinct = {(id(solid), make): Recipe(solid, make) for solid, make in recipes}
    place = {key: k for k, key in enumerate(distinct)}
    own, order, found = list(distinct.values()), [], []
    by_make: dict[Callable, list[int]] = {}
    for k, recipe in enumerate(own):
        by_make.setdefault(recipe.make, []).append(k)
    for make, numbers in by_make.items():
        for group in alike([own[k].solid for k in numbers]):
            members = [numbers[k] for k in group]
            order += members
            found.append(stacked_results(make, [own[k].solid for k in members]))
    row = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *found)
    wanted = np.argsort(order)[[place[id(solid), make] for solid, make in recipes]]
    if np.array_equal(wanted, np.arange(len(order))):
        return row
    return jax.tree.map(lambda leaf: leaf[wanted], row)


def kind(shape: AbstractShape) -> str:
    """The name of a shape, moved, scaled and rounded or not."""
    return type(_core(shape)).__name__


def _core(shape: AbstractShape) -> AbstractShape:
    """What is moved, scaled and rounded."""
    while isinstance(shape, Rounded | Scaled | Placed):
        shape = shape.shape
    return shape


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


def _cylinder(core: Cylinder, pose: _Pose, radius: Array) -> FrustumCollider:
    zero = jnp.zeros_like(core.radius)
    return _frustum(pose, zero, core.half_height, core.radius, core.radius, radius)


def _cone(core: Cone, pose: _Pose, radius: Array) -> FrustumCollider:
    zero, half = jnp.zeros_like(core.radius), core.height / 2
    return _frustum(pose, half, half, core.radius, zero, radius)


def _segment(capsule: Capsule, pose: _Pose, radius: Array) -> PolytopeCollider:
    half, radius = capsule.half_length, radius + capsule.radius * pose.scale
    zero, none, no_face = (jnp.zeros_like(half, shape=shape) for shape in [(2,), (1,), (0,)])
    ends = pose(Vec3(zero, zero, jnp.stack([-half, half])))
    start, end = (jax.tree.map(lambda leaf, k=k: leaf[k : k + 1], ends) for k in range(2))
    flat, no_faces = Vec3(none, none, none), Vec3(no_face, no_face, no_face)
    return PolytopeCollider(ends, start, end - start, flat, flat, no_faces, no_face, radius)


def _box(core: Box, pose: _Pose, radius: Array) -> PolytopeCollider:
    return _polytope(*_features_of_box(core), pose, radius)


def _polyhedron(core: ConvexPolyhedron, pose: _Pose, radius: Array) -> PolytopeCollider:
    return _polytope(*_features_of_polyhedron(core), pose, radius)


def _features_of_box(box: Box):
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


def _features_of_polyhedron(solid: ConvexPolyhedron):
    """Like those of a box. Each edge belongs to two triangles, which run along it in opposite
    directions; n vertices have at most 3 n - 6 edges."""
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
    """In the order of the faces of `_features_of_box`."""
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


def _ball(core: Sphere, pose: _Pose, radius: Array) -> SphereCollider:
    return SphereCollider(pose.position, radius + core.radius * pose.scale)


def _point(core: Point, pose: _Pose, radius: Array) -> SphereCollider:
    return SphereCollider(pose(Vec3.of(core.position)), radius)


def _ellipsoid(core: Ellipsoid, pose: _Pose, radius: Array) -> EllipsoidCollider:
    axes = Vec3.of(core.semi_axes * pose.scale)
    return EllipsoidCollider(axes, pose.position, pose.turn, radius)


def _searched(core: AbstractSolid, pose: _Pose, radius: Array) -> SearchedCollider:
    whole = Placed(Scaled(core, pose.scale), pose.position.array(), pose.turn.array())
    return SearchedCollider(components(prepare(whole, near=True)), radius)


# Of kinds of cores the collider, and how it is made of a core, its pose and the radius by which it
# is rounded. All others are known by their distance alone.
_MAKERS: tuple[tuple[type | UnionType, type[AbstractCollider], Callable[..., Any]], ...] = (
    (Sphere, SphereCollider, _ball),
    (Point, SphereCollider, _point),
    (Ellipsoid, EllipsoidCollider, _ellipsoid),
    (Capsule, PolytopeCollider, _segment),
    (Cylinder, FrustumCollider, _cylinder),
    (Cone, FrustumCollider, _cone),
    (Box, PolytopeCollider, _box),
    (ConvexPolyhedron, PolytopeCollider, _polyhedron),
    (Intersection | Difference | Implicit, SearchedCollider, _searched),
)
