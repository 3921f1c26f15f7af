"""Rounding: the solid of all points within a radius of another."""

import numpy as np
from jaxtyping import Array, Float

from .._validate import real_array, require
from ..math import Vec3
from .base import AbstractConvexShape


class Rounded(AbstractConvexShape):
    """The Minkowski sum of a convex solid and a ball (Tran and Leok, eq. 91).

    The signed distance is exact where that of the solid is.

    Attributes:
        shape: the solid that is rounded.
        radius: [m], not negative.
    """

    shape: AbstractConvexShape
    radius: Float[Array, ""]

    def __init__(self, shape: AbstractConvexShape, radius):
        if not isinstance(shape, AbstractConvexShape):
            raise ValueError(f"Rounded.shape must be a convex shape; got {type(shape).__name__}.")
        self.shape = shape
        self.radius = real_array(radius, "Rounded.radius", ())
        require(
            self.radius,
            "Rounded.radius",
            lambda r: np.isfinite(r) & (r >= 0),
            "non-negative and finite",
        )

    def support_map(self, direction: Vec3):
        height, point = self.shape.support_map(direction)
        return height + self.radius, point + direction * self.radius

    def lengths(self):
        return [*self.shape.lengths(), self.radius]

    def distance_map(self, point: Vec3):
        return self.shape.distance_map(point) - self.radius

    @property
    def is_centered(self):
        return self.shape.is_centered

    def bounding_radius(self):
        return self.shape.bounding_radius() + self.radius

    def uniform_moments(self, radius=0.0):
        return self.shape.uniform_moments(self.radius + radius)
