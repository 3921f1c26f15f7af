"""Capsules."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Vec3, norm
from .base import AbstractSolid, Moments, flat_sign, length_parameter
from .point import Point
from .rounded import Rounded


class Capsule(AbstractSolid):
    """All points within `radius` of the segment |z| <= half_length on the z-axis.

    The signed distance is exact.

    Attributes:
        radius: [m], positive.
        half_length: of the segment, without the caps [m], positive.
    """

    radius: Float[Array, ""]
    half_length: Float[Array, ""]

    def __init__(self, radius, half_length):
        self.radius = length_parameter(radius, "Capsule.radius", ())
        self.half_length = length_parameter(half_length, "Capsule.half_length", ())

    def support_map(self, direction: Vec3):
        d, r = direction, self.radius
        end = self.half_length * flat_sign(d.z)
        return r + self.half_length * jnp.abs(d.z), Vec3(r * d.x, r * d.y, r * d.z + end)

    def distance_map(self, point: Vec3):
        along = jnp.clip(point.z, -self.half_length, self.half_length)
        return norm(Vec3(point.x, point.y, point.z - along)) - self.radius

    def strictly_convex_parts(self):
        zero = jnp.zeros_like(self.half_length)
        ends = (jnp.stack([zero, zero, z]) for z in (-self.half_length, self.half_length))
        return tuple(Rounded(Point(end), self.radius) for end in ends)

    @property
    def is_convex(self):
        return True

    @property
    def is_centered(self):
        return True

    def bounding_radius(self):
        return self.half_length + self.radius

    def swing_radius(self):
        return self.half_length

    def rounded_moments(self, radius):
        return Capsule(self.radius + radius, self.half_length).uniform_moments()

    def uniform_moments(self):
        """A cylinder and two half balls, whose moments about z = +-l are those of a ball."""
        r, half = self.radius, self.half_length
        cylinder, ball = 2 * jnp.pi * r**2 * half, 4 / 3 * jnp.pi * r**3
        across = cylinder * r**2 / 4 + ball * r**2 / 5
        along = cylinder * half**2 / 3 + ball * (r**2 / 5 + 3 / 4 * half * r + half**2)
        return Moments.symmetric(cylinder + ball, jnp.stack([across, across, along]))
