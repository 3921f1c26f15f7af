"""What the separations of cylinders and cones from other solids have in common.

Both are frustums: convex hulls of two discs about one axis. Along the best direction the discs'
rims, an apex or a line of the side touch corners, edges or curved features of the other solid, or a
plane face of either touches something. The direction is found by a search, then it is the root of
the conditions for that pair of features, whose derivatives are those of the implicit function
theorem.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..math import Sym3, Vec3, cross, dot, norm, tree_where, zeros_like
from ..math.newton import linearize, newton3
from ..math.safe import safe_divide, safe_sqrt
from .colliders import FrustumCollider

_NEWTON_STEPS = 12


class Circle(NamedTuple):
    """A rim of a frustum, or its apex, by itself or as the end of a line of the side."""

    axis: Vec3  # unit
    radius: Float[Array, "..."]  # [m]
    rise: Float[Array, "..."]  # of a line of the side, along the axis [m]
    growth: Float[Array, "..."]  # and away from it [m]
    side: Float[Array, "..."]  # 1 if the line is meant, 0 for the rim

    @staticmethod
    def of(frustum: FrustumCollider, top: Bool[Array, "..."], side: Array) -> tuple[Circle, Vec3]:
        """The upper or the lower one, and its middle from the center of the frustum [m]."""
        radius = jnp.where(top, frustum.top, frustum.base)
        rise, growth = 2 * frustum.half_height, frustum.top - frustum.base
        middle = frustum.axis * jnp.where(top, frustum.half_height, -frustum.half_height)
        return Circle(frustum.axis, radius, rise, growth, side), middle

    def foot(self, outward: Vec3) -> Vec3:
        """The point that is furthest along a direction, from the middle [m]."""
        return radial(outward, self.axis) * self.radius

    def line(self, outward: Vec3) -> Vec3:
        """The unit vector along the line of the side there; zero if the rim is meant."""
        along = self.axis * self.rise + radial(outward, self.axis) * self.growth
        return along * (self.side / norm(along))


class Features(NamedTuple):
    """A circle of a frustum and what is next to it."""

    apart: Vec3  # from the middle of the circle to the other: a middle, a corner, a point [m]
    first: Circle
    # A circle, the matrix of an ellipsoid, or the unit vector along an edge; zero for a corner.
    second: Circle | Sym3 | Vec3
    size: Float[Array, "..."]  # [m]


def radial(outward: Vec3, axis: Vec3) -> Vec3:
    """The unit vector away from the axis; zero for a direction along it."""
    across = outward - axis * dot(outward, axis)
    # Of a direction near the axis few digits are left, which round-off has turned along it.
    across = across - axis * dot(across, axis)
    length = norm(across)
    return across / jnp.where(length > 0, length, 1.0)


def off(outward: Vec3, features: Features) -> Vec3:
    """A function that is zero if a unit vector is along the shortest way between two features.

    It is normal to the lines of the features, and the way between their points is along it but for
    what goes along these lines.
    """
    way = features.apart - features.first.foot(outward)
    lines = [features.first.line(outward)]
    if isinstance(features.second, Circle):
        way = way + features.second.foot(-outward)
        lines.append(features.second.line(-outward))
    elif isinstance(features.second, Sym3):
        image = features.second.matvec(outward)
        way = way - image / jnp.sqrt(dot(outward, image))
    else:
        lines.append(features.second)
    aside, crossing = way - outward * dot(outward, way), jnp.ones_like(features.size)
    rest = outward * ((dot(outward, outward) - 1) / 2)
    for line in lines:
        aside = aside - line * dot(line, aside)
        rest = rest + line * dot(line, outward)
        crossing = crossing * dot(line, line)
    # Of two lines the direction is the common normal, whatever the way.
    if len(lines) == 1:
        crossing = jnp.zeros_like(crossing)
    return aside * (1 - crossing) + rest * features.size


def settled(
    guess: Vec3, features: Features, wanted: Bool[Array, ""]
) -> tuple[Vec3, Bool[Array, ""]]:
    """The direction for two features near a guess, and whether it is theirs.

    Where they are not wanted, or have no such direction of their own as two points that coincide,
    it is the guess.
    """
    guess, fixed = jax.lax.stop_gradient((guess, features))
    _, slope = linearize(off, guess, fixed)
    determinant = dot(slope.row1, cross(slope.row2, slope.row3))
    regular = jnp.abs(determinant) > 1024 * jnp.finfo(guess.x.dtype).eps * fixed.size**3
    wanted = wanted & regular
    # Elsewhere a problem without difficulty is solved: the way to a point.
    size, second, zero = fixed.size, fixed.second, jnp.zeros_like(fixed.size)
    if isinstance(second, Circle):
        none = second._replace(radius=zero, side=zero)
    elif isinstance(second, Sym3):
        square = size**2
        none = Sym3(Vec3(square, square, square), zeros_like(second.off))
    else:
        none = zeros_like(second)
    easy = Features(guess * (3 * size), fixed.first._replace(radius=zero, side=zero), none, size)
    problem = tree_where(wanted, features._replace(size=size), easy)
    root = newton3(off, guess, problem, _NEWTON_STEPS)
    return root / norm(root), wanted


class Extreme(NamedTuple):
    """The points of a frustum that are furthest along a direction, from its center."""

    start: Vec3  # a point, or the start of a line of the side; of a disc the middle [m]
    along: Vec3  # to its end; zero for a point [m]
    wide: Float[Array, ""]  # the radius of the disc, else zero [m]

    @staticmethod
    def of(frustum: FrustumCollider, outward: Vec3, near: Array, line: Array) -> Extreme:
        """To a length that is round-off; a line of the side where it is known to be one."""
        across = norm(outward - frustum.axis * dot(outward, frustum.axis))
        rise = frustum.axis * frustum.half_height
        away = radial(outward, frustum.axis)
        along = frustum.half_height * dot(outward, frustum.axis)
        above = (frustum.top - frustum.base) * across + 2 * along
        radius = jnp.where(above > 0, frustum.top, frustum.base)
        level = line | (jnp.abs(above) <= near)
        # An apex is no disc.
        flat = ~level & (across * radius <= near)
        low, high = away * frustum.base - rise, away * frustum.top + rise
        middle = rise * jnp.where(above > 0, 1.0, -1.0)
        point = tree_where(above > 0, high, low)
        start = tree_where(flat, middle, tree_where(level, low, point))
        along = tree_where(level, high - low, zeros_like(high))
        return Extreme(start, along, jnp.where(flat, jax.lax.stop_gradient(radius), 0.0))


def proved(
    frustum: FrustumCollider,
    point: Vec3,
    distance: Float[Array, ""],
    size: Float[Array, ""],
    *,
    likely: Bool[Array, ""],
) -> Bool[Array, ""]:
    """Whether a distance is that of the core from a point of the other solid, from its center.

    No direction separates two solids more than any of their points are apart, so this shows that
    the search has found the best one. Where the solids penetrate each other it says nothing, and
    whether it is likely decides.
    """
    frustum, point, distance, size = jax.lax.stop_gradient((frustum, point, distance, size))
    z = dot(point, frustum.axis)
    out = norm(point - frustum.axis * z)
    half, zero = frustum.half_height, jnp.zeros_like(z)
    corners = [(zero, -half), (frustum.base, -half), (frustum.top, half), (zero, half)]
    found = jnp.full_like(z, jnp.inf)
    for (x0, y0), (x1, y1) in pairwise(corners):
        dx, dy = x1 - x0, y1 - y0
        part = jnp.clip(safe_divide((out - x0) * dx + (z - y0) * dy, dx**2 + dy**2), 0.0, 1.0)
        found = jnp.minimum(
            found, safe_sqrt((out - x0 - part * dx) ** 2 + (z - y0 - part * dy) ** 2)
        )
    enough = jnp.finfo(z.dtype).eps ** (1 / 3) * size
    return jnp.where(distance > enough, jnp.abs(found - distance) <= enough, likely)
