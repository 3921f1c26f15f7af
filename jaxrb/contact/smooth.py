"""The separation of ellipsoids from each other, from polyhedra and from segments."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..math import (
    Diag3,
    Mat3,
    Sym3,
    Vec3,
    cross,
    direction,
    dot,
    hadamard,
    norm,
    rotate,
    rotate_inverse,
    select,
    solve3,
    zeros_like,
)
from ..math.newton import newton3
from ..shapes.ellipsoid import closest_on_ellipsoid
from .forms import Polytope, Separation, Smooth
from .polytopes import indexed, join, pick

_MOST_TURNS = 200
_NEWTON_STEPS = 8


class _Pair(NamedTuple):
    """Two ellipsoids: h(n) = sqrt(n . Q n) about their centres."""

    apart: Vec3  # from the second centre to the first [m]
    first: Sym3  # Q [m^2]
    second: Sym3
    size: Float[Array, ""]  # [m]


def between_smooth(a: Smooth, b: Smooth) -> Separation:
    """Of two of them in one frame."""
    largest = [jnp.maximum(s.x, jnp.maximum(s.y, s.z)) for s in (a.semi_axes, b.semi_axes)]
    pair = _Pair(a.center - b.center, a.squared(), b.squared(), largest[0] + largest[1])
    guess = _climb(jax.lax.stop_gradient(pair))
    normal = newton3(_slope, guess, pair, _NEWTON_STEPS)
    normal = normal / norm(normal)
    below, _ = _support(pair.first, normal)
    above, point = _support(pair.second, normal)
    gap = dot(normal, pair.apart) - below - above
    return Separation(gap - a.radius - b.radius, normal, b.center + point + normal * b.radius)


def _support(q: Sym3, normal: Vec3) -> tuple[Float[Array, ""], Vec3]:
    """h(n) = sqrt(n . Q n), reached at Q n/h."""
    image = q.matvec(normal)
    height = jnp.sqrt(dot(normal, image))
    return height, image / height


def _separation(pair: _Pair, normal: Vec3) -> tuple[Float[Array, ""], Vec3]:
    """s(n), and its gradient: from the point of the second to that of the first."""
    below, lowest = _support(pair.first, normal)
    above, highest = _support(pair.second, normal)
    return dot(normal, pair.apart) - below - above, pair.apart - lowest - highest


def _slope(normal: Vec3, pair: _Pair) -> Vec3:
    """What is zero where s is greatest on the unit sphere."""
    _, gradient = _separation(pair, normal)
    along = dot(normal, gradient)
    excess = pair.size * (dot(normal, normal) - 1) / 2
    return gradient - normal * (along - excess)


def _climb(pair: _Pair) -> Vec3:
    """About where s is greatest, from the direction between the centres.

    Newton's rule on the unit sphere. Where the solids are apart s is concave and each step
    climbs, or is halved until it does; where they penetrate each other the curvature by -s is
    left out, lest a step goes down.
    """

    def unfinished(carry) -> Bool[Array, ""]:
        _, _, _, change, turns = carry
        return (change > 1e-3) & (turns < _MOST_TURNS)

    def turn(carry) -> tuple[Vec3, Float[Array, ""], Vec3, Float[Array, ""], Int[Array, ""]]:
        normal, value, step, _, turns = carry
        trial = normal + step
        trial = trial / norm(trial)
        there, gradient = _separation(pair, trial)
        climbs = there >= value
        following = _newton_step(pair, trial, there, gradient)
        normal = jax.tree.map(lambda t, n: jnp.where(climbs, t, n), trial, normal)
        step = jax.tree.map(lambda f, s: jnp.where(climbs, f, s / 2), following, step)
        return normal, jnp.maximum(there, value), step, norm(step), turns + 1

    start, _ = direction(pair.apart)
    value, gradient = _separation(pair, start)
    step = _newton_step(pair, start, value, gradient)
    carry = (start, value, step, norm(step), jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(unfinished, turn, carry)[0]


def _newton_step(pair: _Pair, normal: Vec3, value: Float[Array, ""], gradient: Vec3) -> Vec3:
    """The tangent step to where the quadratic model of s is greatest, at most half a radian.

    The Hessian of h is (Q - (Qn/h)(Qn/h)^T)/h; that of s along the sphere has -s in addition.
    """
    bent = [_bend(q, normal) for q in (pair.first, pair.second)]
    lift = jnp.maximum(value, 0.0)
    # Along the normal, where nothing is asked, the matrix becomes regular.
    along = _outer(normal, pair.size - lift)
    matrix = bent[0] + bent[1] + along + Diag3(Vec3(lift, lift, lift)).rows()
    step = solve3(matrix, gradient - normal * dot(normal, gradient))
    return step * (0.5 / jnp.maximum(norm(step), 0.5))


def _bend(q: Sym3, normal: Vec3) -> Mat3:
    """The Hessian of h at a normal."""
    height, point = _support(q, normal)
    bend = q.rows() - _outer(point, jnp.ones_like(height))
    return jax.tree.map(lambda leaf: leaf / height, bend)


def _outer(a: Vec3, scale: Float[Array, ""]) -> Mat3:
    """scale a a^T."""
    return Mat3(a * (a.x * scale), a * (a.y * scale), a * (a.z * scale))


class _Corners(NamedTuple):
    """A polyhedron or segment next to an ellipsoid about the origin, in its axes."""

    axes: Vec3  # of the ellipsoid [m]
    points: Vec3  # of each vertex, and of each edge one of the vertices (n,) [m]
    along: Vec3  # of each edge, unit; zero for vertices
    vertices: Vec3  # (n_vertices,) [m]

    def separation(self, outward: Vec3) -> Float[Array, " n"]:
        """Along normals that point from the ellipsoid to the polyhedron [m]."""
        heights = dot(indexed(outward, (slice(None), None)), indexed(self.vertices, (None,)))
        return jnp.min(heights, axis=1) - norm(hadamard(self.axes, outward))


class _Closest(NamedTuple):
    """An ellipsoid about the origin and a point or a line."""

    axes: Vec3  # [m]
    point: Vec3  # [m]
    along: Vec3  # unit; zero for a point
    size: Float[Array, ""]  # [m]


def smooth_and_polytope(a: Smooth, b: Polytope) -> Separation:
    """Of an ellipsoid and a polyhedron or segment in one frame, rounded or not.

    The greatest separation is along the normal of a face, or that from the ellipsoid to a
    vertex or to the line of an edge. Those are all tried; each separates no more than the
    greatest.
    """
    vertices, start, along, normal = (
        rotate_inverse(a.turn, v)
        for v in (b.vertices - a.center, b.start - a.center, b.along, b.normal)
    )
    length = norm(along)
    along = along / jnp.where(length > 0, length, 1.0)
    none = jnp.zeros_like(vertices.x)
    directions = join([Vec3(none, none, none), along])
    corners = _Corners(a.semi_axes, join([vertices, start]), directions, vertices)
    guess, value, best = _best_corner(jax.lax.stop_gradient(corners))
    on_face, toward_face = jnp.full_like(value, -jnp.inf), guess
    if b.has_faces:
        over = dot(b.normal, a.center) - b.offset - norm(hadamard(a.semi_axes, normal))
        over = jax.lax.stop_gradient(over)
        on_face, toward_face = jnp.max(over), -pick(normal, jnp.argmax(over))

    # Where a face separates more, a problem without difficulty is solved and its root dropped.
    at_corner = value >= on_face
    zero, size = jnp.zeros_like(value), jax.lax.stop_gradient(norm(a.semi_axes))
    easy = Vec3(zero + 1, zero, zero)
    guess, point, along = select(
        at_corner,
        (guess, pick(corners.points, best), pick(directions, best)),
        (easy, easy * (2 * size), zeros_like(easy)),
    )
    root = newton3(_off_foot, guess, _Closest(a.semi_axes, point, along, size), _NEWTON_STEPS)
    outward = select(at_corner, root / norm(root), toward_face)

    stretched = hadamard(a.semi_axes, outward)
    height = norm(stretched)
    reach = dot(outward, vertices)
    nearest = pick(vertices, jnp.argmin(jax.lax.stop_gradient(reach)))
    gap = dot(outward, nearest) - height
    foot = hadamard(a.semi_axes, stretched) / height + outward * (gap - b.radius)
    normal, point = -rotate(a.turn, outward), rotate(a.turn, foot) + a.center
    return Separation(gap - a.radius - b.radius, normal, point)


def _best_corner(corners: _Corners) -> tuple[Vec3, Float[Array, ""], Int[Array, ""]]:
    """Which vertex or edge separates most, along what and how much.

    Seen along an edge the ellipsoid is an ellipse and the edge a point: as a point in the
    plane of two of the axes of an ellipsoid with this ellipse as section.
    """
    e = corners.along
    is_edge = dot(e, e) > 0
    one, zero = jnp.ones_like(e.x), jnp.zeros_like(e.x)
    e = select(is_edge, e, Vec3(zero, zero, one))
    # Two vectors across the edge (Duff et al. 2017), turned to the axes of the ellipse.
    sign = jnp.where(e.z < 0, -one, one)
    scale = sign * e.x / (sign + e.z)
    u = Vec3(one - scale * e.x, -scale * e.y, -sign * e.x)
    w = cross(e, u)
    uu, uw, ww = (
        dot(hadamard(corners.axes, p), hadamard(corners.axes, q))
        for p, q in ((u, u), (u, w), (w, w))
    )
    turn = jnp.arctan2(2 * uw, uu - ww) / 2
    u, w = u * jnp.cos(turn) + w * jnp.sin(turn), w * jnp.cos(turn) - u * jnp.sin(turn)
    longer = jnp.sqrt((uu + ww) / 2 + jnp.sqrt(((uu - ww) / 2) ** 2 + uw**2))
    x, y, z = corners.axes.x, corners.axes.y, corners.axes.z
    # The area of the shadow, over pi.
    area = norm(hadamard(Vec3(y * z, z * x, x * y), e))
    section = Vec3(longer, area / longer, longer)
    own = Vec3(*(jnp.broadcast_to(axis, one.shape) for axis in (x, y, z)))
    flat = Vec3(dot(u, corners.points), dot(w, corners.points), zero)
    _, slope = closest_on_ellipsoid(
        select(is_edge, section, own), select(is_edge, flat, corners.points)
    )
    outward = select(is_edge, u * slope.x + w * slope.y, slope)
    outward = outward / norm(outward)
    values = corners.separation(outward)
    values = jnp.where(jnp.isfinite(values), values, -jnp.inf)
    best = jnp.argmax(values)
    return pick(outward, best), jnp.max(values), best


def _off_foot(outward: Vec3, problem: _Closest) -> Vec3:
    """What is zero if a unit vector is along the shortest way to the point or line."""
    stretched = hadamard(problem.axes, outward)
    foot = hadamard(problem.axes, stretched) / norm(stretched)
    way = problem.point - foot
    e = problem.along
    way = way - e * dot(e, way)
    along = dot(outward, way)
    excess = problem.size * (dot(outward, outward) - 1) / 2
    return way - outward * (along - excess) + e * (problem.size * dot(e, outward))
