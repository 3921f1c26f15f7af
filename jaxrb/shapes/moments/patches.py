"""The surfaces of basic shapes as smooth maps of the unit square."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ...math import Vec3, cross
from ..base import AbstractShape, AbstractSolid
from ..box import Box
from ..capsule import Capsule
from ..cone import Cone
from ..convex_polyhedron import ConvexPolyhedron
from ..cylinder import Cylinder
from ..ellipsoid import Ellipsoid, Sphere
from ..half_space import HalfSpace
from .assembly import Leaf
from .surface_net import surface_net

_QUARTER = np.pi / 2


def transform(matrix: Float[Array, "3 3"], vectors: Float[Array, "*s 3"]) -> Float[Array, "*s 3"]:
    """The product with each vector."""
    rows = matrix.reshape((1,) * (vectors.ndim - 1) + (3, 3))
    return jnp.sum(vectors[..., None, :] * rows, axis=-1)


class Patches(NamedTuple):
    """Pieces of a surface, each a map of u and v in [0, 1].

    x(u, v) = sum_ab form[a, b] p_a(u) q_b(v) with
    p = (1, u, cos phi, sin phi), phi = turn[0] + turn[1] u;
    q = (1, v, cos alpha, sin alpha), alpha = arc[0] + arc[1] v;
    but where `normal` is not zero, the point of the surface that lies next to x along the line
    sum_ab normal[a, b] p_a(u) q_b(v).
    The cross product of dx/du and dx/dv points out of the shape.
    """

    form: Float[Array, "n 4 4 3"]
    turn: Float[Array, "n 2"]
    arc: Float[Array, "n 2"]
    normal: Float[Array, "n 4 4 3"] | None = None

    def mapped(self, matrix: Float[Array, "3 3"], shift: Float[Array, "3"]) -> Patches:
        """The patches at matrix x + shift; the matrix turns and scales."""
        form = transform(matrix, self.form).at[:, 0, 0].add(shift)
        normal = None if self.normal is None else transform(matrix, self.normal)
        return self._replace(form=form, normal=normal)


def join(parts: Sequence[Patches]) -> Patches:
    """All patches in one."""
    if any(part.normal is not None for part in parts):
        parts = [
            part._replace(normal=jnp.zeros_like(part.form)) if part.normal is None else part
            for part in parts
        ]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


class Ball(NamedTuple):
    """A ball that holds a solid, in the frame of one of its shapes."""

    center: Float[Array, "3"]  # [m]
    radius: Float[Array, ""]  # [m]


def patches(leaf: Leaf, within: Ball) -> Patches:
    """The surface of a leaf in its own frame; of an unbounded shape what is in the ball."""
    return _patches(leaf.shape, leaf.rounding, within) or _net_patches(leaf)


@singledispatch
def _patches(
    shape: AbstractShape, rounding: Float[Array, ""] | None, within: Ball
) -> Patches | None:
    """The patches of a shape, rounded by a radius [m] unless it is None; None if unknown."""
    del shape, rounding, within


@_patches.register
def _(shape: Sphere, rounding, within):
    radius = shape.radius if rounding is None else shape.radius + rounding
    return _revolved([((0.0, 0.0), (0.0, 0.0), -_QUARTER, _QUARTER, radius)], radius.dtype)


@_patches.register
def _(shape: Ellipsoid, rounding, within):
    axes = shape.semi_axes
    ball = _revolved([((0.0, 0.0), (0.0, 0.0), -_QUARTER, _QUARTER, 1.0)], axes.dtype)
    solid = ball.mapped(jnp.diag(axes), jnp.zeros_like(axes))
    if rounding is None:
        return solid
    return solid._replace(normal=transform(jnp.diag(1 / axes), ball.form))


@_patches.register
def _(shape: Capsule, rounding, within):
    radius = shape.radius if rounding is None else shape.radius + rounding
    low, high = (0.0, -shape.half_length), (0.0, shape.half_length)
    pieces = [
        (low, low, -_QUARTER, 0.0, radius),
        (low, high, 0.0, 0.0, radius),
        (high, high, 0.0, _QUARTER, radius),
    ]
    return _revolved(pieces, radius.dtype)


@_patches.register
def _(shape: Cylinder, rounding, within):
    radius, half = shape.radius, shape.half_height
    corners = [(0.0, -half), (radius, -half), (radius, half), (0.0, half)]
    return _revolved(_polygon(corners, [-_QUARTER, 0.0, _QUARTER], rounding), radius.dtype)


@_patches.register
def _(shape: Cone, rounding, within):
    radius, height = shape.radius, shape.height
    corners = [(0.0, 0.0), (radius, 0.0), (0.0, height)]
    side = jnp.arctan2(radius, height)
    return _revolved(_polygon(corners, [-_QUARTER, side], rounding, True), radius.dtype)


@_patches.register
def _(shape: Box, rounding, within):
    half = shape.half_extents
    dtype = half.dtype
    # For each face its axis, and two across that make a right-handed frame with its normal.
    frames = np.stack([np.eye(3)[[k, (k + s) % 3, (k - s) % 3]] for k in range(3) for s in (1, 2)])
    normals = np.tile([[1.0], [-1.0]], (3, 1)) * frames[:, 0]
    extents = jnp.asarray(frames, dtype) * half[None, None]
    outer = half if rounding is None else half + rounding
    middle = jnp.asarray(normals, dtype) * outer[None]
    along, across = extents[:, 1], extents[:, 2]
    faces = _flat(middle - along - across, 2 * along, 2 * across, jnp.zeros_like(along))
    if rounding is None:
        return faces
    parts, zero = [faces], jnp.zeros((), dtype)
    for k in range(3):
        frame = jnp.asarray(np.eye(3)[[(k + 1) % 3, (k + 2) % 3, k]].T, dtype)
        top = half[k]
        pieces = [((zero, -top), (zero, top), 0.0, 0.0, rounding)]
        if k == 2:
            low, high = (zero, -top), (zero, top)
            pieces += [
                (low, low, -_QUARTER, 0.0, rounding),
                (high, high, 0.0, _QUARTER, rounding),
            ]
        for quarter, signs in enumerate([(1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0)]):
            shift = transform(frame, jnp.asarray((*signs, 0.0), dtype)) * half
            parts.append(_revolved(pieces, dtype, (quarter,)).mapped(frame, shift))
    return join(parts)


@_patches.register
def _(shape: ConvexPolyhedron, rounding, within):
    if rounding is not None or shape.faces is None:
        return None
    a, b, c = (shape.vertices[shape.faces[:, k]] for k in range(3))
    return _flat(a, jnp.zeros_like(a), c - a, b - c)


@_patches.register
def _(shape: HalfSpace, rounding, within):
    """The disc of the plane around the point closest to the ball's centre."""
    normal, offset = shape.unit_normal_and_offset()
    least = jnp.arange(3) == jnp.argmin(jnp.abs(normal))
    aside = jnp.where(least, 1.0, 0.0).astype(normal.dtype)
    first = cross(Vec3.of(aside), Vec3.of(normal)).array()
    first = first / jnp.sqrt(jnp.sum(first**2))
    second = cross(Vec3.of(normal), Vec3.of(first)).array()
    disc = _revolved([((within.radius, 0.0), (0.0, 0.0), 0.0, 0.0, 0.0)], normal.dtype)
    foot = within.center + normal * (offset - jnp.sum(normal * within.center))
    return disc.mapped(jnp.stack([first, second, normal], axis=1), foot)


def _flat(origin: Array, along: Array, across: Array, twist: Array) -> Patches:
    """x = origin + along u + across v + twist u v, each of shape (n, 3)."""
    zero = jnp.zeros_like(origin)
    rows = [(origin, across), (along, twist), (zero, zero), (zero, zero)]
    form = jnp.stack([jnp.stack([one, by_v, zero, zero], axis=1) for one, by_v in rows], axis=1)
    still = jnp.zeros((len(origin), 2), origin.dtype)
    return Patches(form, still, still)


def _net_patches(leaf: Leaf) -> Patches:
    """Patches of a smooth surface that is known only by its function."""
    solid = leaf.shape
    assert isinstance(solid, AbstractSolid)
    radius = solid.bounding_radius()
    radius = radius if leaf.rounding is None else radius + leaf.rounding
    numbers = jax.tree.map(lax.stop_gradient, (leaf, radius))
    net = surface_net(numbers[0].distance, numbers[1])
    bilinear = (_flat(a, b - a, d - a, a - b + c - d) for a, b, c, d in net)
    flat, normal = bilinear
    return flat._replace(normal=normal.form)


def _revolved(pieces: Sequence[tuple], dtype: Any, quarters: Sequence[int] = range(4)) -> Patches:
    """Curves (rho, z)(v) turned about the z-axis, by one of the four quarters each.

    They are given as (start, end, from, to, radius): a point that moves from start to end,
    plus radius (cos alpha, sin alpha) with an angle alpha that moves as well. They run so
    that the shape lies on their left: upwards where the axis is inside.
    """

    def table(rows):
        return jnp.stack([jnp.stack([jnp.asarray(x, dtype) for x in row]) for row in rows])

    radial = table([(a[0], b[0] - a[0], r, 0.0) for a, b, _, _, r in pieces])
    axial = table([(a[1], b[1] - a[1], 0.0, r) for a, b, _, _, r in pieces])
    arc = table([(start, end - start) for _, _, start, end, _ in pieces])
    across = [radial[:, :, None] * jnp.asarray(e, dtype)[None, None] for e in np.eye(3)[:2]]
    along = axial[:, :, None] * jnp.asarray(np.eye(3)[2], dtype)[None, None]
    form = jnp.stack([along, jnp.zeros_like(along), *across], axis=1)
    turn = jnp.asarray([(k * _QUARTER, _QUARTER) for k in quarters], dtype)
    n = len(pieces)
    return Patches(
        jnp.tile(form, (len(quarters), 1, 1, 1)),
        jnp.repeat(turn, n, axis=0),
        jnp.tile(arc, (len(quarters), 1)),
    )


def _polygon(corners: Sequence, normals: Sequence, rounding, tip: bool = False) -> list[tuple]:
    """The edges of a polygon in the half-plane (rho, z), and arcs around its corners.

    Args:
        corners: from one point of the axis to another.
        normals: of the edges, as angles from the rho-axis.
        rounding: radius of the arcs [m]; None for none.
        tip: whether there is an arc on the axis, around the last corner.
    """
    radius = 0.0 if rounding is None else rounding
    edges = zip(corners[:-1], corners[1:], normals, strict=True)
    pieces = [(start, end, angle, angle, radius) for start, end, angle in edges]
    if rounding is not None:
        angles = [*normals, _QUARTER] if tip else normals
        turns = zip(corners[1:], angles[:-1], angles[1:], strict=False)
        pieces += [(corner, corner, before, after, radius) for corner, before, after in turns]
    return pieces
