"""Circles: the rims on which cylinders and cones stand."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Vec3
from ..math.safe import safe_sqrt
from .base import AbstractSolid, flat_sign
from .point import Point


class Circle(AbstractSolid):
    """The circle x^2 + y^2 = radius^2 in the plane z = height. The signed distance is exact.

    Attributes:
        radius: [m], positive.
        height: [m], of either sign.
    """

    radius: Float[Array, ""]
    height: Float[Array, ""]

    def support_map(self, direction: Vec3):
        """The one furthest point; for a direction along the axis to round-off (-radius, 0, height).

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
        point = Vec3(self.radius * x, self.radius * y, self.height + jnp.zeros_like(x))
        along = self.height * direction.z
        return self.radius * (x * direction.x + y * direction.y) + along, point

    def distance_map(self, point: Vec3):
        out = safe_sqrt(point.x**2 + point.y**2) - self.radius
        return safe_sqrt(out**2 + (point.z - self.height) ** 2)

    def lengths(self):
        return [self.radius]

    def bounding_radius(self):
        return jnp.sqrt(self.radius**2 + self.height**2)


def rim(radius: Float[Array, ""], height: Float[Array, ""]) -> tuple[AbstractSolid, ...]:
    """A circle and three of its points that stay, a third of a turn apart.

    The lowest point of all is on the circle; with the three the face within it stands, since its
    middle is well between them wherever the lowest is.
    """
    points = []
    for angle in (0.0, 2 * math.pi / 3, 4 * math.pi / 3):
        place = [radius * math.cos(angle), radius * math.sin(angle), height]
        points.append(Point(jnp.stack(place)))
    return (Circle(radius, height), *points)
