"""Cylinders."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Vec3
from ..math.safe import safe_sqrt
from .base import AbstractSolid, Moments, flat_sign, length_parameter
from .csg.normal_form import Surfaces, planes, quadric
from .rim import rim


class Cylinder(AbstractSolid):
    """The solid x^2 + y^2 <= radius^2, |z| <= half_height. The signed distance is exact.

    Attributes:
        radius: [m], positive.
        half_height: [m], positive.
    """

    radius: Float[Array, ""]
    half_height: Float[Array, ""]

    def __init__(self, radius, half_height):
        self.radius = length_parameter(radius, "Cylinder.radius", ())
        self.half_height = length_parameter(half_height, "Cylinder.half_height", ())

    def support_map(self, direction: Vec3):
        """A point of a rim; the middle of the disc or of the side line that is furthest."""
        rim, across = rim_support(direction, self.radius)
        height = self.half_height * flat_sign(direction.z)
        return self.radius * across + height * direction.z, Vec3(rim.x, rim.y, height)

    def distance_map(self, point: Vec3):
        side = safe_sqrt(point.x**2 + point.y**2) - self.radius
        end = jnp.abs(point.z) - self.half_height
        deepest = jnp.maximum(side, end)
        beyond = safe_sqrt(jnp.maximum(side, 0.0) ** 2 + jnp.maximum(end, 0.0) ** 2)
        return jnp.where(deepest > 0, beyond, deepest)

    def surfaces(self):
        """(x^2 + y^2 - r^2)/2r <= 0 between the planes of the ends."""
        r, half = self.radius, self.half_height
        side = quadric(Vec3(1 / r, 1 / r, jnp.zeros_like(r)), -r / 2)
        axis = jnp.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], half.dtype)
        ends = planes(axis, jnp.stack([half, half]))
        return Surfaces(jnp.concatenate([side, ends]), (False, True, True))

    def standing_parts(self):
        return rim(self.radius, self.half_height) + rim(self.radius, -self.half_height)

    @property
    def is_convex(self):
        return True

    @property
    def is_centered(self):
        return True

    def bounding_radius(self):
        return jnp.sqrt(self.radius**2 + self.half_height**2)

    def uniform_moments(self):
        r, half = self.radius, self.half_height
        volume = 2 * jnp.pi * r**2 * half
        across = volume * r**2 / 4
        return Moments.symmetric(volume, jnp.stack([across, across, volume * half**2 / 3]))


def rim_support(direction: Vec3, radius: Float[Array, ""]) -> tuple[Vec3, Float[Array, ...]]:
    """The furthest point of the circle of a radius in the plane z = 0, and |(d.x, d.y)|.

    For a direction along z to round-off, its centre.
    """
    across = safe_sqrt(direction.x**2 + direction.y**2)
    upright = flat_sign(across) == 0
    scale = jnp.where(upright, 0.0, radius / jnp.where(upright, 1.0, across))
    return Vec3(direction.x * scale, direction.y * scale, jnp.zeros_like(scale)), across
