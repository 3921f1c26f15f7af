"""The separation of cylinders and cones from each other and from ellipsoids.

The separation along a direction is made smooth: with corners rounded in proportion to a number that
falls from turn to turn, Newton's rule climbs to about where it is greatest. Which features touch is
tried there: a rim or a line of the side, of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..math import (
    Diag3,
    Mat3,
    Sym3,
    Vec3,
    cross,
    direction,
    dot,
    norm,
    solve3,
    tree_where,
    zeros_like,
)
from ..math.newton import linearize
from ..math.safe import safe_divide, safe_sqrt
from .colliders import EllipsoidCollider, FrustumCollider, Separation
from .frustums import Circle, Extreme, Features, off, proved, settled
from .separating_axis import closest_points, pick

_MOST_TURNS = 400
_NEWTON_STEPS = 12
# The first roundness, and by what it falls.
_ROUND, _FALL = 2.0, 0.25


class _Pair(NamedTuple):
    """Two solids, the first a frustum."""

    apart: Vec3  # from its center to the other's [m]
    first: FrustumCollider
    second: FrustumCollider | Sym3  # or the matrix of an ellipsoid
    size: Float[Array, ""]  # [m]

    def separation(self, outward: Vec3) -> Float[Array, ""]:
        """Of the cores along a unit direction, from the first [m]."""
        if isinstance(self.second, Sym3):
            extent = jnp.sqrt(dot(outward, self.second.matvec(outward)))
        else:
            extent = self.second.extent(-outward)
        return dot(outward, self.apart) - self.first.extent(outward) - extent

    def rounded(self, outward: Vec3, roundness: Float[Array, ""]) -> Float[Array, ""]:
        """The same with corners rounded."""
        if isinstance(self.second, Sym3):
            extent = jnp.sqrt(dot(outward, self.second.matvec(outward)))
        else:
            extent = _rounded_extent(self.second, -outward, roundness)
        first = _rounded_extent(self.first, outward, roundness)
        return dot(outward, self.apart) - first - extent


def between_frustums(a: FrustumCollider, b: FrustumCollider) -> Separation:
    """The separation of two cylinders or cones in one frame.

    Where the closest points are many, one of them is taken. NaN if the search does not end, or its
    direction is not the best, as the distance of the closest points shows.
    """
    apart = b.center - a.center
    pair = _Pair(apart, a, b, a.size + b.size)
    best = _best(pair)
    outward, lines = best.outward, best.lines
    distance = pair.separation(outward)
    near = 32 * jnp.finfo(distance.dtype).eps * jax.lax.stop_gradient(pair.size + norm(apart))
    own, other = Extreme.of(a, outward, near, lines[0]), Extreme.of(b, -outward, near, lines[1])
    here, there = closest_points(
        own.start + outward * distance, own.along, other.start + apart, other.along
    )
    # Where discs lie on each other, the middle of what they share on the line of their middles.
    way = here - there
    along, between = direction(way - outward * dot(outward, way))
    low = jnp.maximum(-other.wide, between - own.wide)
    high = jnp.minimum(other.wide, between + own.wide)
    point = there + along * jnp.clip((low + high) / 2, -other.wide, other.wide)
    gap = jnp.where(
        best.certain(a, point, distance, pair.size), distance - a.radius - b.radius, jnp.nan
    )
    return Separation(gap, -outward, point + a.center - outward * b.radius)


def frustum_and_smooth(a: FrustumCollider, b: EllipsoidCollider) -> Separation:
    """The separation of a cylinder or a cone and an ellipsoid in one frame; NaN as between two
    cylinders."""
    apart, square = b.center - a.center, b.squared()
    pair = _Pair(apart, a, square, a.size + norm(b.semi_axes))
    best = _best(pair)
    outward = best.outward
    distance = pair.separation(outward)
    image = square.matvec(outward)
    point = apart - image / jnp.sqrt(dot(outward, image))
    gap = jnp.where(
        best.certain(a, point, distance, pair.size), distance - a.radius - b.radius, jnp.nan
    )
    return Separation(gap, -outward, point + a.center - outward * b.radius)


class _Tried(NamedTuple):
    """Directions from the first, and the features of each that are tried from there; (n,)."""

    outward: Vec3
    tops: tuple[Array, Array]  # 1 if the upper circle is meant
    sides: tuple[Array, Array]  # 1 if a line of the side is meant

    def features(self, pair: _Pair) -> Features:
        first, middle = Circle.of(pair.first, self.tops[0] > 0, self.sides[0])
        if isinstance(pair.second, Sym3):
            return Features(pair.apart - middle, first, pair.second, pair.size)
        second, other = Circle.of(pair.second, self.tops[1] > 0, self.sides[1])
        return Features(pair.apart + other - middle, first, second, pair.size)


class _Best(NamedTuple):
    """The direction of the greatest separation."""

    outward: Vec3  # from the first to the second
    lines: tuple[Array, Array]  # whether a line of the side of each touches there
    plane: Bool[Array, ""]  # whether it is the normal of a plane face
    ended: Bool[Array, ""]  # whether the search for it has

    def certain(
        self, frustum: FrustumCollider, point: Vec3, distance: Array, size: Array
    ) -> Bool[Array, ""]:
        """Whether it is the best one, as far as is known.

        Of faces that are parallel to round-off the points need not be above each other, which says
        nothing against their normal.
        """
        close = proved(frustum, point, distance, size, likely=self.ended)
        return close | (self.plane & self.ended)


def _best(pair: _Pair) -> _Best:
    """Of the greatest separation of all features that are tried."""
    fixed = jax.lax.stop_gradient(pair)
    guess, ended = _climb(fixed)
    tried = _tried(fixed, guess)
    features = jax.vmap(lambda one: one.features(fixed))(tried)
    roots = _roots(tried.outward, features)
    planes = _planes(pair)
    slack = 8 * jnp.finfo(guess.x.dtype).eps * (fixed.size + norm(fixed.apart))
    # Planes win where they separate as much to round-off; rims over lines of the side.
    rank = slack * (3 - tried.sides[0] - tried.sides[1])
    of_planes = jax.vmap(fixed.separation)(jax.lax.stop_gradient(planes)) + 4 * slack
    of_roots = jax.vmap(fixed.separation)(roots) + rank
    of_roots = jnp.where(jnp.isfinite(of_roots), of_roots, -jnp.inf)
    best, plane = jnp.argmax(of_roots), jnp.argmax(of_planes)
    is_plane = of_planes[plane] >= of_roots[best]
    ended &= jnp.isfinite(jnp.maximum(of_planes[plane], of_roots[best]))

    chosen = tree_where(jnp.isfinite(of_roots[best]), pick(roots, best), guess)
    root, _ = settled(chosen, pick(tried, best).features(pair), ~is_plane)
    lines = tuple(~is_plane & (side[best] > 0) for side in tried.sides)
    return _Best(tree_where(is_plane, pick(planes, plane), root), lines, is_plane, ended)


def _roots(guess: Vec3, features: Features) -> Vec3:
    """By Newton's rule to round-off: about the normal of a disc the foot on its rim depends on the
    last digits of a direction."""

    def improve(_, root: Vec3) -> Vec3:
        value, slope = linearize(off, root, features)
        return root - solve3(slope, value)

    found = jax.lax.fori_loop(0, _NEWTON_STEPS, improve, guess)
    return found / norm(found)


def _tried(pair: _Pair, guess: Vec3) -> _Tried:
    """All features of both near a guess; where faces are nearly parallel, what crosses a rim, for
    about a normal of a disc the foot on its rim is nowhere near that of the guess; and both normals
    of the axes, for thin solids that pass each other."""
    x = guess.x
    kinds = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)]  # a rim, the other, a line of the side
    two = not isinstance(pair.second, Sym3)
    table = np.array([(*a, *b) for a in kinds for b in (kinds if two else kinds[:1])])
    top, side, other_top, other_side = jnp.asarray(table.T, x.dtype)
    outward = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, len(table)), guess)
    found = _Tried(outward, (top, other_top), (side, other_side))
    if isinstance(pair.second, Sym3):
        return found
    first, second, none = pair.first, pair.second, jnp.zeros_like(x)
    tops = dot(guess, first.axis) > 0, dot(guess, second.axis) < 0
    numbers = (tops[0].astype(x.dtype), tops[1].astype(x.dtype))
    passing, _ = direction(cross(first.axis, second.axis))
    passing = jax.tree.map(lambda leaf: jnp.stack([leaf, -leaf]), passing)
    others = [
        (passing, none + 1, none + 1),
        (_rims_crossing(pair, tops), none, none),
        (_line_crossing(first, second, pair.apart, tops[0]), none, none + 1),
        (-_line_crossing(second, first, -pair.apart, tops[1]), none + 1, none),
    ]
    for outward, side, other_side in others:
        more = jnp.broadcast_arrays(outward.x, *numbers, side, other_side)[1:]
        more = _Tried(outward, (more[0], more[1]), (more[2], more[3]))
        found = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), found, more)
    return found


def _face(frustum: FrustumCollider, top: Bool[Array, ""]) -> tuple[Vec3, Circle, Vec3]:
    """The outward normal of a disc, its rim, and its middle from the center [m]."""
    circle, middle = Circle.of(frustum, top, jnp.zeros_like(frustum.radius))
    return frustum.axis * jnp.where(top, 1.0, -1.0), circle, middle


def _rims_crossing(pair: _Pair, tops: tuple) -> Vec3:
    """Where the rims of discs that nearly face each other cross, seen along their normals.

    The direction n is a + alpha u and b - beta v with the normals a of the first disc and -b of the
    other one, and u and v from their middles to the crossing; (2,).
    """
    assert isinstance(pair.second, FrustumCollider)
    a, own, start = _face(pair.first, tops[0])
    b, other, end = _face(pair.second, tops[1])
    way = pair.apart + end - start
    way = way - a * dot(a, way)
    square = dot(way, way)
    part = safe_divide(square + own.radius**2 - other.radius**2, 2 * square)
    beside = safe_sqrt(safe_divide(own.radius**2, square) - part**2)
    u = way * part + cross(a, way) * jnp.stack([beside, -beside])
    v = u - way
    return direction(a + u * safe_divide(dot(a, cross(-b, v)), dot(a, cross(u, v))))[0]


def _line_crossing(a: FrustumCollider, b: FrustumCollider, apart: Vec3, top: Array) -> Vec3:
    """Where the side of the other nearly lies on a disc of the first and crosses its rim.

    The direction n is a + alpha u, normal to the line, with the normal a of the disc and u from its
    middle to the crossing; (2,).
    """
    normal, own, start = _face(a, top)
    other, end = Circle.of(b, jnp.ones((), bool), jnp.ones_like(b.radius))
    line = other.line(-normal)
    way = apart + end + other.foot(-normal) - start
    flat = line - normal * dot(normal, line)
    way = way - normal * dot(normal, way)
    square = dot(flat, flat)
    middle = safe_divide(-dot(way, flat), square)
    nearest = way + flat * middle
    half = safe_sqrt(safe_divide(own.radius**2 - dot(nearest, nearest), square))
    u = nearest + flat * jnp.stack([half, -half])
    return direction(normal - u * safe_divide(dot(normal, line), dot(u, line)))[0]


def _planes(pair: _Pair) -> Vec3:
    """The directions normal to the plane faces."""
    axes = [pair.first.axis, -pair.first.axis]
    if not isinstance(pair.second, Sym3):
        axes += [pair.second.axis, -pair.second.axis]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *axes)


def _rounded_extent(
    frustum: FrustumCollider, outward: Vec3, roundness: Float[Array, ""]
) -> Float[Array, ""]:
    """The support function about the center with |n x a| and the maximum made smooth; convex and
    proportional to the length of the direction as it is."""
    along = dot(outward, frustum.axis)
    aside = outward - frustum.axis * along
    across = jnp.sqrt(dot(aside, aside) + (roundness * along) ** 2)
    mean, half = (frustum.base + frustum.top) / 2, (frustum.top - frustum.base) / 2
    edge = roundness * frustum.size
    above = frustum.half_height * along + half * across
    return mean * across + jnp.sqrt(above**2 + edge**2 * dot(outward, outward))


class _Climber(NamedTuple):
    """A turn of the search."""

    outward: Vec3
    value: Float[Array, ""]  # the rounded separation there [m]
    step: Vec3
    roundness: Float[Array, ""]
    turns: Array
    ended: Bool[Array, ""]


def _climb(pair: _Pair) -> tuple[Vec3, Bool[Array, ""]]:
    """About where the separation is greatest, from the direction between the centers.

    As that of two ellipsoids: where the solids are apart the rounded separation is concave and each
    step climbs, or is halved until it does; where they penetrate each other the curvature by minus
    the separation is left out, lest a step goes down.
    """
    last = jnp.finfo(pair.size.dtype).eps ** (1 / 3)
    slope: Callable = jax.grad(_Pair.rounded, argnums=1)

    def follow(outward: Vec3, roundness) -> tuple[Float[Array, ""], Vec3]:
        gradient, hessian = linearize(lambda n, r: slope(pair, n, r), outward, roundness)
        value = pair.rounded(outward, roundness)
        return value, _newton_step(hessian, outward, value, gradient, pair.size)

    def turn(carry: _Climber) -> _Climber:
        trial = carry.outward + carry.step
        trial = trial / norm(trial)
        climbs = pair.rounded(trial, carry.roundness) >= carry.value
        small = norm(carry.step) <= carry.roundness / 4
        outward = tree_where(climbs, trial, carry.outward)
        roundness = jnp.where(small, carry.roundness * _FALL, carry.roundness)
        value, step = follow(outward, roundness)
        step = tree_where(climbs | small, step, carry.step * 0.5)
        ended = small & (carry.roundness <= last)
        return _Climber(outward, value, step, roundness, carry.turns + 1, ended)

    start, _ = direction(pair.apart)
    # Not along an axis, where Newton's rule may see no way down from a ridge.
    start = start + pair.first.aside * 0.1
    start = start / norm(start)
    # The first turn stays there.
    nothing = jnp.full_like(pair.size, -jnp.inf), zeros_like(start), pair.size * 0 + _ROUND
    carry = _Climber(start, *nothing, jnp.zeros((), jnp.int32), jnp.zeros((), bool))
    found = jax.lax.while_loop(lambda c: ~c.ended & (c.turns < _MOST_TURNS), turn, carry)
    return found.outward, found.ended


def _newton_step(hessian: Mat3, outward: Vec3, value: Array, gradient: Vec3, size: Array) -> Vec3:
    """The tangent step to where the quadratic model is greatest, at most half a radian."""
    lift = jnp.maximum(value, 0.0)
    along = jax.tree.map(lambda x: x * (size - lift), _square(outward))
    matrix = along - hessian + Diag3(Vec3(lift, lift, lift)).rows()
    step = solve3(matrix, gradient - outward * dot(outward, gradient))
    return step * (0.5 / jnp.maximum(norm(step), 0.5))


def _square(n: Vec3) -> Mat3:
    """n n^T."""
    return Mat3(n * n.x, n * n.y, n * n.z)
