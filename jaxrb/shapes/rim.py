"""Rims: the circles on which cylinders and cones stand, rock and roll.

The lowest point of a circle that falls flat runs, in no time, from one side to the other. A contact
there never opens, and would not know of the impact of the far side; an impulse that acts at the old
place to keep the new one up creates energy. So a rim that is nearly flat touches by a hexagon of
points that stay: those of the far side close as the disc goes through the plane, each by itself.
The circle is drawn in by

    b(s) = (1 - cos 30 deg) s0 (1 - s/A)^2,   b = 0 for s > A,

times its radius, for s the sine of its tilt, s0 = 0.025 and A = 0.2. So it is within the hexagon as
the disc falls flat, and is itself where discs roll and wobble. Between them the gap is too large:
by 0.0027 radii at s = 0.02, where the hexagon ends, by 0.0008 at s = 0.1. Forces act along its
gradient, r (1 - b') from the axis instead of r, so that contacts that last keep the energy; b' is
small, as what goes from the hexagon to the circle falls on it by as much as these differ.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Vec3
from ..math.safe import safe_sqrt
from .base import AbstractSolid, flat_sign
from .point import Point

N_CORNERS = 6
_LOW = 0.2  # A
_DEEP = (1 - math.cos(math.pi / N_CORNERS)) * 0.025  # b(0)


class DrawnIn(NamedTuple):
    """How far a circle of radius 1 is drawn in where it is nearly flat."""

    depth: Float[Array, "..."]  # b(s)
    slope: Float[Array, "..."]  # b'(s), negative

    @staticmethod
    def at(tilt: Float[Array, "..."]) -> DrawnIn:
        """At a tilt s, which is not negative."""
        left = jnp.maximum(1 - tilt / _LOW, 0.0)
        return DrawnIn(_DEEP * left**2, -2 * _DEEP / _LOW * left)


class Circle(AbstractSolid):
    """The circle x^2 + y^2 = radius^2 in the plane z = height, drawn in where it is nearly flat.

    Attributes:
        radius: [m], positive.
        height: [m], of either sign.
    """

    radius: Float[Array, ""]
    height: Float[Array, ""]

    def support_map(self, direction: Vec3):
        """The furthest point, drawn in; for a direction along the axis that of (-1, 0).

        As the axis comes to the direction at an angle a, the point runs around the circle and its
        derivatives grow like radius/a: below a = eps^(1/3) they are those of a point that stays.
        The height's own derivative needs no other.
        """
        across = safe_sqrt(direction.x**2 + direction.y**2)
        upright = flat_sign(across) == 0
        length = jnp.where(upright, 1.0, across)
        x = jnp.where(upright, -1.0, direction.x / length)
        y = jnp.where(upright, 0.0, direction.y / length)
        stays = across < jnp.finfo(across.dtype).eps ** (1 / 3)
        x, y = (jnp.where(stays, jax.lax.stop_gradient(part), part) for part in (x, y))
        drawn_in = DrawnIn.at(across)
        along = x * direction.x + y * direction.y
        # The gradient, and along the direction what makes it a point of that height.
        out, rise = 1 - drawn_in.slope, drawn_in.slope * along - drawn_in.depth
        point = (Vec3(out * x, out * y, jnp.zeros_like(x)) + direction * rise) * self.radius
        height = self.radius * (along - drawn_in.depth) + self.height * direction.z
        return height, Vec3(point.x, point.y, point.z + self.height)

    def distance_map(self, point: Vec3):
        """The distance of the circle that is not drawn in."""
        out = safe_sqrt(point.x**2 + point.y**2) - self.radius
        return safe_sqrt(out**2 + (point.z - self.height) ** 2)

    def lengths(self):
        return [self.radius]

    def bounding_radius(self):
        """Of the points at which it is touched."""
        return jnp.sqrt(((1 + 2 * _DEEP / _LOW) * self.radius) ** 2 + self.height**2)


def rim(radius: Float[Array, ""], height: Float[Array, ""]) -> tuple[AbstractSolid, ...]:
    """A circle and the corners of a hexagon in it, by which what ends in a disc touches a plane."""
    points = []
    for k in range(N_CORNERS):
        angle = 2 * math.pi * k / N_CORNERS
        place = [radius * math.cos(angle), radius * math.sin(angle), height]
        points.append(Point(jnp.stack(place)))
    return (Circle(radius, height), *points)
