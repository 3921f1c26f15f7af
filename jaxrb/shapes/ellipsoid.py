"""Ellipsoids and spheres."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Vec3, dot, hadamard
from .base import AbstractConvexShape, length_parameter


class Ellipsoid(AbstractConvexShape):
    """The solid {z : (x/a)^2 + (y/b)^2 + (z/c)^2 <= 1}.

    Attributes:
        semi_axes: (a, b, c) [m], positive.
    """

    semi_axes: Float[Array, "3"]

    def __init__(self, semi_axes):
        self.semi_axes = length_parameter(semi_axes, "Ellipsoid.semi_axes", (3,))

    def support_map(self, direction: Vec3):
        """h(d) = |A d| at A^2 d/|A d|, A = diag(a, b, c) (Tran and Leok, eq. 84)."""
        axes = Vec3.of(self.semi_axes)
        stretched = hadamard(axes, direction)
        height = jnp.sqrt(dot(stretched, stretched))
        return height, hadamard(axes, stretched) / height

    def bounding_radius(self):
        return jnp.max(self.semi_axes)

    def _volume_and_moments(self, radius):
        if not (isinstance(radius, float) and radius == 0.0):
            raise ValueError(
                "A rounded ellipsoid has no inertia in closed form; give RigidBody(inertia=...)."
            )
        volume = 4 / 3 * jnp.pi * jnp.prod(self.semi_axes)
        return volume, volume * self.semi_axes**2 / 5


class Sphere(AbstractConvexShape):
    """The ball of a given radius about the origin.

    Attributes:
        radius: [m], positive.
    """

    radius: Float[Array, ""]

    def __init__(self, radius):
        self.radius = length_parameter(radius, "Sphere.radius", ())

    def support_map(self, direction: Vec3):
        return self.radius, direction * self.radius

    def bounding_radius(self):
        return self.radius

    def _volume_and_moments(self, radius):
        full = self.radius + radius
        volume = 4 / 3 * jnp.pi * full**3
        return volume, jnp.full(3, volume * full**2 / 5)
