"""What is sought on a solid: the point furthest along a direction, or the one closest to a point.

Both are where a height is greatest: d . z, whose surfaces of equal height are planes, and
-|c - z|, whose are spheres about the point.
"""

from __future__ import annotations

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...math import Vec3, dot
from ..base import AbstractSolid


class AbstractObjective(eqx.Module):
    """A height over all points z."""

    flat: ClassVar[bool]  # whether points of one height are on a plane

    @abc.abstractmethod
    def height(self, z: Vec3) -> Float[Array, "..."]:
        """[m]."""

    @abc.abstractmethod
    def gradient(self, z: Vec3) -> Vec3:
        """Its gradient, a unit vector; NaN where there is none."""

    @abc.abstractmethod
    def level_curvature(self, z: Vec3) -> Float[Array, "..."]:
        """The curvature of the surface of equal height [1/m]."""

    @abc.abstractmethod
    def best_of(self, solid: AbstractSolid) -> Vec3:
        """The highest point of the surface of a convex solid of known support and distance."""


class Along(AbstractObjective):
    """The furthest point along a unit direction."""

    flat: ClassVar[bool] = True
    direction: Vec3

    def height(self, z):
        return dot(self.direction, z)

    def gradient(self, z):
        return self.direction

    def level_curvature(self, z):
        return jnp.zeros_like(self.direction.x)

    def best_of(self, solid):
        return solid.support_map(self.direction)[1]


class Near(AbstractObjective):
    """The point closest to a point outside [m]."""

    flat: ClassVar[bool] = False
    point: Vec3

    def height(self, z):
        return -self._distance(z)

    def gradient(self, z):
        return (self.point - z) / self._distance(z)

    def level_curvature(self, z):
        return 1 / self._distance(z)

    def best_of(self, solid):
        distance, outward = jax.value_and_grad(solid.distance_map)(self.point)
        return self.point - outward * distance

    def _distance(self, z: Vec3) -> Float[Array, "..."]:
        apart = self.point - z
        return jnp.sqrt(dot(apart, apart))
