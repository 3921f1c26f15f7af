"""The separation of cylinders and cones from polyhedra and from segments.

The greatest separation is along the normal of a plane face of either, or in a direction given by a
feature of each: a corner or an edge of one, a rim, the apex or a line of the side of the other. All
of these are tried. Each is known in closed form but that of a rim and an edge: seen along the edge
it is the way from a point to an ellipse. No direction separates more than the greatest, so that one
which is wrong does no harm.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Vec3, cross, direction, dot, norm, tree_where
from ..math.safe import safe_divide
from .colliders import FrustumCollider, PolytopeCollider, Separation
from .frustums import Circle, Extreme, Features, radial, settled
from .separating_axis import closest_points, pick

_MOST_TURNS = 100


class _Candidates(NamedTuple):
    """Directions from the frustum to the polytope, and the features which give them; (n,)."""

    outward: Vec3  # unit
    corner: Float[Array, " n"]  # the number of the corner, or of the edge, of the polytope
    edge: Float[Array, " n"]  # 1 if the edge is meant
    top: Float[Array, " n"]  # 1 if the upper circle of the frustum is meant
    side: Float[Array, " n"]  # 1 if a line of the side is meant

    @staticmethod
    def of(outward: Vec3, *, edge: bool, top: bool, side: bool) -> _Candidates:
        x = outward.x
        flags = [jnp.full_like(x, 1.0 if flag else 0.0) for flag in (edge, top, side)]
        return _Candidates(outward, jnp.arange(len(x), dtype=x.dtype), *flags)


def frustum_and_polytope(a: FrustumCollider, b: PolytopeCollider) -> Separation:
    """The separation of a cylinder or a cone and a polytope in one frame.

    Where the closest points are many, one of them is taken.
    """
    vertices, start = b.vertices - a.center, b.start - a.center
    offset = b.offset - dot(b.normal, a.center)
    size = jax.lax.stop_gradient(a.size + jnp.max(norm(vertices)))
    fixed = jax.lax.stop_gradient((a, b, vertices, start))
    found = _candidates(*fixed)
    # Planes win where they separate as much to round-off.
    planes = _join([-fixed[1].normal, _caps(fixed[0])])
    near = 8 * jnp.finfo(size.dtype).eps * size
    of_planes = separations(fixed[0], fixed[2], planes) + near
    real = jnp.concatenate([jnp.isfinite(offset), jnp.ones(2, bool)])
    of_planes = jnp.where(real, of_planes, -jnp.inf)
    of_features = separations(fixed[0], fixed[2], found.outward)
    is_plane = jnp.max(of_planes) >= jnp.max(of_features)
    plane = pick(_join([-b.normal, _caps(a)]), jnp.argmax(of_planes))

    best = pick(found, jnp.argmax(of_features))
    corner = best.corner.astype(jnp.int32)
    is_edge = best.edge > 0
    line = pick(b.along, corner)
    line = line / jnp.where(norm(line) > 0, norm(line), 1.0)
    point = tree_where(is_edge, pick(start, corner), pick(vertices, corner))
    circle, middle = Circle.of(a, best.top > 0, best.side)
    features = Features(point - middle, circle, line * best.edge, size)
    root, wanted = settled(best.outward, features, ~is_plane)

    def separation(outward: Vec3) -> Float[Array, ""]:
        return jax.lax.stop_gradient(jnp.min(dot(outward, vertices)) - a.extent(outward))

    # The root is the guess, but for round-off and with derivatives: it must not lose by round-off.
    slack = jnp.sqrt(jnp.finfo(size.dtype).eps) * size
    wanted &= separation(root) >= separation(best.outward) - slack
    outward = tree_where(is_plane, plane, tree_where(wanted, root, best.outward))
    heights = dot(outward, vertices)
    lowest = pick(vertices, jnp.argmin(jax.lax.stop_gradient(heights)))
    distance = dot(outward, lowest) - a.extent(outward)
    on_line = wanted & (best.side > 0)
    point = _point(a, b, (vertices, start, offset), outward, distance, (size, on_line))
    return Separation(
        distance - a.radius - b.radius, -outward, point + a.center - outward * b.radius
    )


def separations(a: FrustumCollider, vertices: Vec3, outward: Vec3) -> Float[Array, " n"]:
    """Along directions away from a frustum about the origin [m]."""
    each = jax.tree.map(lambda leaf: leaf[:, None], outward)
    every = jax.tree.map(lambda leaf: leaf[None], vertices)
    return jnp.min(dot(each, every), axis=1) - a.extent(outward)


def _caps(a: FrustumCollider) -> Vec3:
    """The normals of the plane faces; that of an apex separates no more than others."""
    return jax.tree.map(lambda leaf: jnp.stack([-leaf, leaf]), a.axis)


def _candidates(
    a: FrustumCollider, b: PolytopeCollider, vertices: Vec3, start: Vec3
) -> _Candidates:
    """All directions that are given by two features."""
    growth, rise = a.top - a.base, 2 * a.half_height
    slant = jnp.sqrt(growth**2 + rise**2)
    lift, out = -growth / slant, rise / slant  # of the normals of the side
    away = radial(vertices, a.axis)
    kinds = [_Candidates.of(a.axis * lift + away * out, edge=False, top=False, side=True)]
    length = norm(b.along)
    line = b.along / jnp.where(length > 0, length, 1.0)
    # Seen along an edge the axis has the direction `upright`.
    foreshortened = norm(cross(a.axis, line))
    # Of an edge along the axis any will do: a rim is a circle there.
    parallel = foreshortened < jnp.sqrt(jnp.finfo(length.dtype).eps)
    upright = tree_where(parallel, radial(a.aside, line), radial(a.axis, line))
    across = cross(line, upright)
    for top in (False, True):
        circle, middle = Circle.of(a, jnp.asarray(top), jnp.zeros_like(slant))
        way = vertices - middle - away * circle.radius
        kinds.append(_Candidates.of(direction(way)[0], edge=False, top=top, side=False))
        way = start - middle
        x, y = dot(way, across), dot(way, upright)
        x, y = _from_ellipse(x, y, circle.radius, circle.radius * jnp.abs(dot(a.axis, line)))
        way, _ = direction(across * x + upright * y)
        kinds.append(_Candidates.of(way, edge=True, top=top, side=False))
    part = jnp.clip(safe_divide(jnp.broadcast_to(lift, length.shape), foreshortened), -1.0, 1.0)
    rest = jnp.sqrt(1 - part**2)
    for sign in (1.0, -1.0):
        way = upright * part + across * (sign * rest)
        kinds.append(_Candidates.of(direction(way)[0], edge=True, top=False, side=True))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *kinds)


def _from_ellipse(x: Array, y: Array, long: Float[Array, ""], short: Array) -> tuple[Array, Array]:
    """A vector along the way from the closest point of an ellipse to a point, or against it inside.

    It is (x/(t + long^2), y/(t + short^2)) with the greatest root t of
    (x long/(t + long^2))^2 + (y short/(t + short^2))^2 = 1 (Eberly, "Distance from a point to an
    ellipse, an ellipsoid, or a hyperellipsoid", 2013). One over the root of the left side is
    concave and nearly linear in t, so that Newton's rule climbs to the root from below. The unknown
    is w = t + short^2, which keeps its digits where a disc is seen from its edge.
    """
    more = (long - short) * (long + short)
    x_part, y_part = jnp.abs(x) * long, jnp.abs(y) * short
    begin = jnp.maximum(jnp.maximum(x_part - more, y_part), 0.0)

    def unfinished(carry):
        _, change, turns = carry
        return (turns < _MOST_TURNS) & jnp.any(change)

    def turn(carry):
        w, _, turns = carry
        u, v = safe_divide(x_part, w + more), safe_divide(y_part, w)
        value = u**2 + v**2
        slope = safe_divide(u**2, w + more) + safe_divide(v**2, w)
        step = safe_divide(value * (jnp.sqrt(value) - 1), slope)
        going = step > 4 * jnp.finfo(w.dtype).eps * w
        return w + jnp.where(going, step, 0.0), going, turns + 1

    carry = begin, jnp.ones(begin.shape, bool), jnp.zeros((), jnp.int32)
    w = jax.lax.while_loop(unfinished, turn, carry)[0]
    # Multiplied by w, which leaves a point or a segment in place.
    return x * safe_divide(w, w + more, 1.0), y


def _point(
    a: FrustumCollider,
    b: PolytopeCollider,
    about: tuple[Vec3, Vec3, Array],
    outward: Vec3,
    distance: Array,
    size_and_line: tuple[Array, Array],
) -> Vec3:
    """A point of the polytope that is closest to the frustum, from the center of that."""
    vertices, start, offset = about
    size, line = size_and_line
    near = 32 * jnp.finfo(size.dtype).eps * size
    extreme = Extreme.of(a, outward, near, line)
    begin = extreme.start + outward * distance
    middle = begin + extreme.along * 0.5
    starts = _join([start, vertices])
    along = _join([b.along, jax.tree.map(jnp.zeros_like, vertices)])
    other = jax.tree.map(lambda leaf: leaf[None], (begin, extreme.along))
    on_edge, on_other = closest_points(starts, along, *other)
    level, apart = jax.lax.stop_gradient((dot(outward, on_edge), norm(on_edge - on_other)))
    lowest = jnp.min(jax.lax.stop_gradient(dot(outward, vertices)))
    point = pick(on_edge, jnp.argmin(jnp.where(level <= lowest + near, apart, jnp.inf)))
    if b.has_faces:
        inside = jnp.max(dot(b.normal, middle) - offset) <= near
        point = tree_where(jax.lax.stop_gradient(inside), middle, point)
    return point


def _join(vectors: list[Vec3]) -> Vec3:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *vectors)
