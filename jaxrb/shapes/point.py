"""Points: what solids with corners stand on."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Vec3, dot, norm
from .base import AbstractSolid


class Point(AbstractSolid):
    """A single point.

    Attributes:
        position: [m], shape (3,).
    """

    position: Float[Array, "3"]

    def support_map(self, direction: Vec3):
        position = Vec3.of(self.position)
        return dot(position, direction), position

    @property
    def is_convex(self):
        return True

    def distance_map(self, point: Vec3):
        return norm(point - Vec3.of(self.position))

    def strictly_convex_parts(self):
        return (self,)

    def lengths(self):
        return []

    def bounding_radius(self):
        return jnp.sqrt(jnp.sum(self.position**2))
