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
    direction,
    dot,
    hadamard,
    norm,
    rotate,
    rotate_inverse,
    solve3,
    tree_where,
    zeros_like,
)
from ..math.newton import newton3
from ..math.safe import safe_divide
from .colliders import EllipsoidCollider, PolytopeCollider, Separation
from .separating_axis import pick

_MOST_TURNS = 200
_NEWTON_STEPS = 8


class _Pair(NamedTuple):
    """Two ellipsoids: h(n) = sqrt(n . Q n) about their centres."""

    apart: Vec3  # from the second centre to the first [m]
    first: Sym3  # Q [m^2]
    second: Sym3
    size: Float[Array, ""]  # [m]


def between_smooth(a: EllipsoidCollider, b: EllipsoidCollider) -> Separation:
    """The separation of two ellipsoids in one frame."""
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
    """A function that is zero where s is greatest on the unit sphere."""
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


class _Closest(NamedTuple):
    """An ellipsoid about the origin and a point or a line."""

    axes: Vec3  # [m]
    point: Vec3  # [m]
    along: Vec3  # unit; zero for a point
    size: Float[Array, ""]  # [m]


class _Solid(NamedTuple):
    """A polyhedron or segment next to an ellipsoid about the origin, in its axes."""

    axes: Vec3  # of the ellipsoid [m]
    vertices: Vec3  # (n_vertices,) [m]
    start: Vec3  # of each edge (n_edges,) [m]
    along: Vec3  # from there to its end [m]
    normal: Vec3  # of each face, unit (n_faces,); zero where it is only filled up
    offset: Float[Array, " n_faces"]  # [m]; infinite there


class _Feature(NamedTuple):
    """The feature of a polyhedron that is closest to an ellipsoid."""

    outward: Vec3  # unit, about from the ellipsoid to it
    edge: Int[Array, ""]  # the closest one
    part: Float[Array, ""]  # of it up to the closest point: 0 or 1 at a vertex
    face: Int[Array, ""]
    is_face: Bool[Array, ""]  # whether the face, not the edge, is meant


def smooth_and_polytope(a: EllipsoidCollider, b: PolytopeCollider) -> Separation:
    """The separation of an ellipsoid and a polyhedron or segment in one frame, rounded or not.

    The greatest separation is along the normal of a face, or from the ellipsoid to a vertex or
    to the line of an edge. Which it is, is found first, without derivatives. Where the cores
    penetrate each other deeply another one may be better, but the sign is right; the normal may
    have no derivatives there.
    """
    vertices, start, along, normal = (
        rotate_inverse(a.turn, v)
        for v in (b.vertices - a.center, b.start - a.center, b.along, b.normal)
    )
    offset = b.offset - dot(b.normal, a.center)
    solid = _Solid(a.semi_axes, vertices, start, along, normal, offset)
    found = _closest_feature(jax.lax.stop_gradient(solid))

    start, along = pick(start, found.edge), pick(along, found.edge)
    point, line = tree_where(
        (found.part > 0) & (found.part < 1),
        (start, along / norm(along)),
        (start + along * found.part, zeros_like(along)),
    )
    # At a face a problem without difficulty is solved, and its root dropped.
    zero, size = jnp.zeros_like(found.part), jax.lax.stop_gradient(norm(a.semi_axes))
    easy = Vec3(zero + 1, zero, zero)
    guess, point, line = tree_where(
        found.is_face,
        (easy, easy * (2 * size), zeros_like(easy)),
        (found.outward, point, line),
    )
    root = newton3(_off_foot, guess, _Closest(a.semi_axes, point, line, size), _NEWTON_STEPS)
    root = root / norm(root)

    def separation(outward: Vec3) -> Float[Array, ""]:
        return jnp.min(dot(outward, vertices)) - norm(hadamard(a.semi_axes, outward))

    # In deep penetration there may be no such root. Elsewhere the root is the guess, but for
    # round-off and with derivatives: it must not lose to it by round-off.
    slack = jnp.sqrt(jnp.finfo(size.dtype).eps) * (size + jnp.min(norm(vertices)))
    found_root = separation(root) >= separation(found.outward) - slack
    outward = tree_where(found_root & ~found.is_face, root, found.outward)
    if b.has_faces:
        outward = tree_where(found.is_face, -pick(normal, found.face), outward)

    stretched = hadamard(a.semi_axes, outward)
    height = norm(stretched)
    reach = dot(outward, vertices)
    nearest = pick(vertices, jnp.argmin(jax.lax.stop_gradient(reach)))
    gap = dot(outward, nearest) - height
    foot = hadamard(a.semi_axes, stretched) / height + outward * (gap - b.radius)
    normal, point = -rotate(a.turn, outward), rotate(a.turn, foot) + a.center
    return Separation(gap - a.radius - b.radius, normal, point)


def _closest_feature(solid: _Solid) -> _Feature:
    """Found by the multiplier t of the condition that x is on the ellipsoid.

    For x on the ellipsoid and z in the polyhedron the squared distance is the greatest value of
    t (z . (A^2 + t)^-1 z - 1) over t >= 0, each at the z for which it is least: the point closest
    to the origin in the metric of a confocal ellipsoid (Boyd and Vandenberghe, section 5.1, for
    the dual function). Its slope vanishes where z . A^2 (A^2 + t)^-2 z = 1.
    """
    squares = hadamard(solid.axes, solid.axes)
    longest = jnp.maximum(solid.axes.x, jnp.maximum(solid.axes.y, solid.axes.z))
    enough = 32 * jnp.finfo(longest.dtype).eps

    def unfinished(carry) -> Bool[Array, ""]:
        *_, settled, turns = carry
        return ~settled & (turns < _MOST_TURNS)

    def turn(carry):
        t, below, above, _, _, turns = carry
        feature, root, scale = _at_multiplier(solid, squares, t)
        further = root > t
        below, above = jnp.where(further, t, below), jnp.where(further, above, t)
        inside = (root > below) & (root < above)
        following = jnp.where(inside, root, (below + above) / 2)
        settled = jnp.abs(root - t) <= enough * scale
        settled |= (t == 0) & ~further  # they penetrate each other
        return following, below, above, feature, settled, turns + 1

    zero = jnp.zeros_like(longest)
    none = jnp.zeros((), jnp.int32)
    feature = _Feature(Vec3(zero, zero, zero), none, zero, none, jnp.zeros((), bool))
    farthest = longest * jnp.min(norm(solid.vertices))
    carry = zero, zero, farthest, feature, jnp.zeros((), bool), none
    return jax.lax.while_loop(unfinished, turn, carry)[3]


def _at_multiplier(
    solid: _Solid, squares: Vec3, t: Float[Array, ""]
) -> tuple[_Feature, Float[Array, ""], Float[Array, ""]]:
    """The feature closest to the origin in the metric of a multiplier; the multiplier that it asks
    for, of a face exactly, of an edge or vertex by Newton's rule; and what its error is relative
    to."""
    metric = jax.tree.map(lambda a: 1 / (a + t), squares)

    def dual(v: Vec3) -> Vec3:
        return hadamard(metric, v)

    part = safe_divide(-dot(solid.start, dual(solid.along)), dot(solid.along, dual(solid.along)))
    part = jnp.clip(part, 0.0, 1.0)
    points = solid.start + solid.along * part
    nearness = dot(points, dual(points))
    edge = jnp.argmin(nearness).astype(jnp.int32)
    z, along, part = pick(points, edge), pick(solid.along, edge), pick(part, edge)
    slope = dual(z)
    length = norm(slope)
    outward = slope / jnp.where(length > 0, length, 1.0)

    # Newton's rule for 1/sqrt(z . A^2 (A^2 + t)^-2 z) = 1, which is nearly linear in t; as t
    # changes, z goes along its edge.
    twice, pull = dual(slope), hadamard(squares, dual(slope))
    value = dot(slope, hadamard(squares, slope))
    on_edge = (part > 0) & (part < 1)
    drift = jnp.where(on_edge, safe_divide(dot(along, twice), dot(along, dual(along))), 0.0)
    change = 2 * (drift * dot(along, pull) - dot(slope, pull))
    scale = jnp.abs(safe_divide(2 * value, change))
    root = t + scale * (jnp.sqrt(value) - 1)
    corner = _Feature(outward, edge, part, jnp.zeros((), jnp.int32), jnp.zeros((), bool))
    if not solid.offset.shape[-1]:
        return corner, root, scale

    extent = safe_divide(jnp.min(dot(slope, solid.vertices)), jnp.sqrt(jnp.min(nearness)))
    stretched = jax.tree.map(lambda a, n: (a + t) * n * n, squares, solid.normal)
    thickness = jnp.sqrt(stretched.x + stretched.y + stretched.z)
    real = thickness > 0
    over = jnp.where(real, -solid.offset / jnp.where(real, thickness, 1.0), -jnp.inf)
    face = jnp.argmax(over).astype(jnp.int32)
    normal = pick(solid.normal, face)
    height = norm(hadamard(solid.axes, normal))
    distance = -pick(jnp.where(real, solid.offset, 0.0), face)
    at_face = _Feature(-normal, edge, part, face, jnp.ones((), bool))
    return tree_where(
        jnp.max(over) > extent,
        (at_face, height * (distance - height), height * distance),
        (corner, root, scale),
    )


def _off_foot(outward: Vec3, problem: _Closest) -> Vec3:
    """A function that is zero if a unit vector is along the shortest way to the point or line."""
    stretched = hadamard(problem.axes, outward)
    foot = hadamard(problem.axes, stretched) / norm(stretched)
    way = problem.point - foot
    e = problem.along
    way = way - e * dot(e, way)
    along = dot(outward, way)
    excess = problem.size * (dot(outward, outward) - 1) / 2
    return way - outward * (along - excess) + e * (problem.size * dot(e, outward))
