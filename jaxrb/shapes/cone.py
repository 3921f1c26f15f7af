"""Cones."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Vec3
from ..math.safe import safe_sqrt
from .base import AbstractSolid, Moments, flat_sign, length_parameter
from .csg.normal_form import Surfaces, planes, quadric
from .cylinder import rim_support
from .point import Point
from .rim import rim


class Cone(AbstractSolid):
    """The solid x^2 + y^2 <= (radius (1 - z/height))^2, 0 <= z <= height.

    Its base stands in the plane z = 0, its apex is (0, 0, height); the centre of mass lies at
    a quarter of the height. The signed distance is exact.

    Attributes:
        radius: of the base [m], positive.
        height: [m], positive.
    """

    radius: Float[Array, ""]
    height: Float[Array, ""]

    def __init__(self, radius, height):
        self.radius = length_parameter(radius, "Cone.radius", ())
        self.height = length_parameter(height, "Cone.height", ())

    def support_map(self, direction: Vec3):
        """The apex or a point of the rim; the middle of the line between, or of the base."""
        rim, across = rim_support(direction, self.radius)
        at_rim, at_apex = self.radius * across, self.height * direction.z
        # 1 for the apex, -1 for the rim, 0 for the line between.
        slant = jnp.sqrt(self.radius**2 + self.height**2)
        side = flat_sign((at_apex - at_rim) / slant)
        apex = (1 + side) / 2
        point = Vec3(rim.x * (1 - apex), rim.y * (1 - apex), self.height * apex)
        return jnp.maximum(at_rim, at_apex), point

    def standing_parts(self):
        zero = jnp.zeros_like(self.height)
        return (Point(jnp.stack([zero, zero, self.height])), *rim(self.radius, zero))

    @property
    def is_convex(self):
        return True

    def distance_map(self, point: Vec3):
        """The distance in the half-plane of the point, where the solid is a triangle."""
        r, h = self.radius, self.height
        slant = jnp.sqrt(r**2 + h**2)
        out = safe_sqrt(point.x**2 + point.y**2) - r  # from the rim
        z = point.z
        side = (h * out + r * z) / slant  # signed distance from the line of the side
        along = (h * z - r * out) / slant  # along it, from the rim towards the apex
        to_rim = safe_sqrt(out**2 + z**2)
        to_apex = safe_sqrt((out + r) ** 2 + (z - h) ** 2)
        beside = jnp.where(along < 0, to_rim, jnp.where(along > slant, to_apex, side))
        outside = jnp.where((z < 0) & (out < 0), -z, jnp.where(z < 0, to_rim, beside))
        deepest = jnp.maximum(-z, side)
        return jnp.where(deepest > 0, outside, deepest)

    def surfaces(self):
        """x^2 + y^2 <= (r (h - z)/h)^2, of which the plane z = h cuts off the other half."""
        r, h = self.radius, self.height
        zero, slope = jnp.zeros_like(h), r / h
        scale = 1 / (r * jnp.sqrt(1 + slope**2))
        apex = Vec3(zero, zero, h)
        side = quadric(Vec3(scale, scale, -scale * slope**2), zero, apex)
        axis = jnp.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], h.dtype)
        ends = planes(axis, jnp.stack([h, zero]))
        return Surfaces(jnp.concatenate([side, ends]), (False, True, True), apex.array()[None])

    def bounding_radius(self):
        return jnp.maximum(self.radius, self.height)

    def uniform_moments(self):
        r, h = self.radius, self.height
        volume = jnp.pi * r**2 * h / 3
        across, along = volume * 3 * r**2 / 20, volume * 3 * h**2 / 80
        zero = jnp.zeros_like(h)
        return Moments(volume, jnp.stack([zero, zero, h / 4]), jnp.stack([across, across, along]))
