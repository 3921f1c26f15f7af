"""The separation of ellipsoids from each other, and from polyhedra."""

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
)
from ..math.newton import newton3
from .forms import Polytope, Separation, Smooth
from .polytopes import closest_to_origin

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


def smooth_and_polytope(a: Smooth, b: Polytope) -> Separation:
    """Of an ellipsoid and a polyhedron in one frame.

    In coordinates in which the ellipsoid is the unit ball. What touches there touches, and its
    normal is taken back; so the gap has the right sign, zero and slope, but where the solids are
    apart it is that along this normal, which is less than the distance.
    """

    def to_ball(vector: Vec3) -> Vec3:
        v = rotate_inverse(a.turn, vector)
        return Vec3(v.x / a.semi_axes.x, v.y / a.semi_axes.y, v.z / a.semi_axes.z)

    def normal_to_ball(normal: Vec3) -> Vec3:
        """Not of length 1."""
        return hadamard(a.semi_axes, rotate_inverse(a.turn, normal))

    distance, toward, point = closest_to_origin(
        to_ball(b.vertices - a.center),
        to_ball(b.start - a.center),
        to_ball(b.along),
        normal_to_ball(b.normal),
        b.offset - dot(b.normal, a.center),
    )
    inverse = Vec3(toward.x / a.semi_axes.x, toward.y / a.semi_axes.y, toward.z / a.semi_axes.z)
    length = norm(inverse)
    normal = rotate(a.turn, inverse / length)
    back = rotate(a.turn, hadamard(a.semi_axes, point)) + a.center
    return Separation((distance - 1) / length, normal, back)
