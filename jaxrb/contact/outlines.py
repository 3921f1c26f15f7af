"""The faces that solids turn to each other, seen along the normal of their contact.

The disc of a cylinder or a cone is a polygon of points of its rim, its side the line that is
closest.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..math import Vec3, cross, dot, norm, tree_where
from ..math.safe import safe_divide
from ..shapes.rim import N_CORNERS
from .collider_of import flatness
from .colliders import AbstractCollider, FrustumCollider, PolytopeCollider
from .frustums import radial
from .separating_axis import pick

# Directions across the normal, whose furthest corners are taken.
_DIRECTIONS = ((1.0, 0.9), (-0.9, 1.0), (-1.0, -0.9), (0.9, -1.0))
_ROUND_DIRECTIONS = tuple(
    (math.cos(0.7 + 2 * math.pi * k / N_CORNERS), math.sin(0.7 + 2 * math.pi * k / N_CORNERS))
    for k in range(N_CORNERS)
)
# Of faces that have no more sides than so many together, all corners are taken; of others so many.
_MANY = 8
_MANY_DIRECTIONS = tuple(
    (math.cos(0.3 + 2 * math.pi * k / _MANY), math.sin(0.3 + 2 * math.pi * k / _MANY))
    for k in range(_MANY)
)
# Corners of the outline of a disc.
_N_OUTLINE = 2 * N_CORNERS
# A face that is steeper to the normal than this cosine is not looked at.
_STEEP = 0.1
# Of a segment both ends are corners however steep it is, until they are one place to round-off: as
# a capsule that stands on a face tilts, its end keeps its place in the row.
_UPRIGHT = 16.0

Outlined: TypeAlias = PolytopeCollider | FrustumCollider


def directions(*solids: AbstractCollider) -> tuple[tuple[float, float], ...]:
    """In which the corners of a patch are taken; with a round solid or many corners there are more
    than of a segment."""
    if any(isinstance(solid, FrustumCollider) for solid in solids):
        return _ROUND_DIRECTIONS
    return _MANY_DIRECTIONS if all(map(_has_faces, solids)) else _DIRECTIONS


def n_sides(*solids: AbstractCollider) -> int | None:
    """How many sides the faces of two polyhedra have together; None where that is many, or one is
    no polyhedron."""
    number = 0
    for solid in solids:
        if not _has_faces(solid):
            return None
        assert solid.outlines is not None
        number += solid.outlines.x.shape[-1]
    return number if number <= _MANY else None


def _has_faces(solid: AbstractCollider) -> TypeGuard[PolytopeCollider]:
    return isinstance(solid, PolytopeCollider) and solid.has_faces


class Face(NamedTuple):
    """The face of a solid that looks along a direction, or a line of it."""

    normal: Vec3  # unit, outward
    side: Vec3  # in it, of any length but for points [m]
    is_face: bool | Bool[Array, ""]  # and no line


class Outline(NamedTuple):
    """A face or a segment, in a frame whose third axis is the normal; of shape (n_corners,)."""

    corners: Vec3  # [m]
    sides: Vec3  # to the next corner; of a segment the first one, and others along it or none
    slope: tuple[Float[Array, ""], Float[Array, ""]]  # of its plane, or along the segment
    steep: Bool[Array, ""]  # too much so to be looked at
    is_face: bool | Bool[Array, ""]  # and no segment

    @staticmethod
    def of(corners: Vec3, face: Face, origin: Vec3, frame: tuple) -> Outline:
        def seen(v: Vec3) -> Vec3:
            return Vec3(*(dot(axis, v) for axis in frame))

        corners, normal = seen(corners - origin), seen(face.normal)
        if face.is_face is False:
            sides = jax.tree.map(lambda leaf: leaf[1:] - leaf[:1], corners)
            eps = float(jnp.finfo(corners.x.dtype).eps)
            slope, steep = _along_segment(sides, _UPRIGHT * eps**0.5)
        else:
            sides = jax.tree.map(lambda leaf: jnp.roll(leaf, -1) - leaf, corners)
            steep = jnp.abs(normal.z) < _STEEP
            upright = jnp.where(steep, 1.0, normal.z)
            slope = (-normal.x / upright, -normal.y / upright)
            if face.is_face is not True:
                of_face = slope, steep
                slope, steep = tree_where(face.is_face, of_face, _along_segment(sides, _STEEP))
        return Outline(corners, sides, slope, jax.lax.stop_gradient(steep), face.is_face)

    def height(self, x: Array, y: Array) -> Array:
        """Of its plane over places [m]."""
        c = jax.tree.map(lambda leaf: leaf[0], self.corners)
        return c.z + self.slope[0] * (x - c.x) + self.slope[1] * (y - c.y)

    @property
    def starts(self) -> Vec3:
        """Where the sides start."""
        return jax.tree.map(lambda leaf, side: leaf[: len(side)], self.corners, self.sides)

    def covers(self, x: Array, y: Array, turn: float, slack: Array) -> Bool[Array, " n_places"]:
        """Whether places are within it, seen along the normal; its corners are in the order of
        that turn."""
        c, d = (jax.tree.map(lambda v: v[None], v) for v in (self.starts, self.sides))
        x, y, length = x[:, None] - c.x, y[:, None] - c.y, length_across(d)
        beside = (d.x * y - d.y * x) * turn
        within = jnp.all(beside >= -slack * length, axis=1)
        if self.is_face is True:
            return within
        # Beside a segment that is so far off its own, the distance is the same to round-off.
        off = jnp.sqrt(jnp.finfo(x.dtype).eps) * length
        along = (d.x * x + d.y * y) / jnp.where(length > 0, length, 1.0)
        near = (jnp.abs(beside) <= off * length) & (along >= -slack) & (along <= length + slack)
        return jnp.where(self.is_face, within, near[:, 0])


def _along_segment(sides: Vec3, least: float) -> tuple[tuple[Array, Array], Bool[Array, ""]]:
    """The slope along the first side, and whether its cosine to the normal's plane is too small."""
    d = jax.tree.map(lambda leaf: leaf[0], sides)
    across = d.x**2 + d.y**2
    rise = safe_divide(d.z, across)
    return (rise * d.x, rise * d.y), across < least**2 * dot(d, d)


def facing(solid: Outlined, outward: Vec3, slack: Array) -> tuple[Face, Vec3]:
    """The face that looks most along a direction, of those that hold all points which are furthest
    along it, or a line; and its corners, of a frustum none."""
    if isinstance(solid, FrustumCollider):
        return _facing_round(solid, outward), outward
    outlines = solid.outlines
    assert outlines is not None
    if not solid.has_faces:
        return Face(outward, _first_side(outlines), False), outlines
    vertices, normals, offset, direction, outlines_now = jax.lax.stop_gradient(
        (solid.vertices, solid.normal, solid.offset, outward, outlines)
    )
    height = dot(direction, vertices)
    furthest = height >= jnp.max(height) - slack
    depth = offset[:, None] - dot(
        jax.tree.map(lambda leaf: leaf[:, None], normals),
        jax.tree.map(lambda leaf: leaf[None], vertices),
    )
    extent = jnp.max(norm(outlines_now)) + slack
    holds = jnp.all(~furthest[None] | (depth <= 4 * flatness(extent.dtype) * extent), axis=1)
    # Of faces that look along it equally the first one, whatever round-off says.
    tie = jnp.sqrt(jnp.finfo(extent.dtype).eps) * jnp.arange(len(offset), dtype=extent.dtype)
    best = jnp.argmax(jnp.where(holds, dot(normals, direction) - tie, -jnp.inf))
    corners = pick(outlines, best)
    return Face(pick(solid.normal, best), _first_side(corners), True), corners


def _first_side(corners: Vec3) -> Vec3:
    return jax.tree.map(lambda leaf: leaf[1] - leaf[0], corners)


def _facing_round(solid: FrustumCollider, outward: Vec3) -> Face:
    """A disc or a line of the side."""
    growth, rise = solid.top - solid.base, 2 * solid.half_height
    slant = jnp.sqrt(growth**2 + rise**2)
    away = radial(outward, solid.axis)
    of_side = (away * rise - solid.axis * growth) / slant
    across, along = norm(cross(outward, solid.axis)), dot(outward, solid.axis)
    top = growth * across + rise * along > 0
    sign = jnp.where(top, 1.0, -1.0)
    # A cone has no disc at its apex.
    is_disc = (along * sign > dot(outward, of_side)) & (jnp.where(top, solid.top, solid.base) > 0)
    is_disc = jax.lax.stop_gradient(is_disc)
    normal = tree_where(is_disc, solid.axis * sign, of_side)
    side = tree_where(is_disc, solid.aside, solid.axis * rise + away * growth)
    return Face(normal, side, is_disc)


def corners_of(solid: Outlined, face: Face, corners: Vec3, axes: tuple[Vec3, Vec3]) -> Vec3:
    """Of its outline, in turn; those of a disc from the first of the directions on."""
    if isinstance(solid, PolytopeCollider):
        return corners
    along, across = _ROUND_DIRECTIONS[0]
    first, normal = axes[0] * along + axes[1] * across, face.normal
    first = radial(first, normal)
    angle = jnp.asarray(2 * np.pi / _N_OUTLINE * np.arange(_N_OUTLINE), first.x.dtype)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    ring = (first * cos + cross(normal, first) * sin) * disc_radius(solid, face)
    disc = ring + (solid.center + normal * solid.half_height)
    away, rise = radial(normal, solid.axis), solid.axis * solid.half_height
    low = solid.center + away * solid.base - rise
    high = solid.center + away * solid.top + rise
    line = tree_where(jnp.arange(_N_OUTLINE) == 0, low, high)
    return tree_where(jnp.asarray(face.is_face), disc, line)


def disc_radius(solid: Outlined, face: Face) -> Float[Array, ""]:
    """Of the disc that is its face; a polytope has none, and no end of it."""
    if isinstance(solid, PolytopeCollider):
        return jnp.full_like(solid.radius, jnp.inf)
    return jnp.where(dot(face.normal, solid.axis) > 0, solid.top, solid.base)


def unit(vector: Vec3) -> Vec3:
    """Of its direction; zero of none."""
    length = norm(vector)
    return vector / jnp.where(length > 0, length, 1.0)


def length_across(d: Vec3) -> Array:
    """Of sides, seen along the normal [m]."""
    return jnp.sqrt(jax.lax.stop_gradient(d.x**2 + d.y**2))
