"""Rounding: the solid of all points within a radius of another."""

import numpy as np
from jaxtyping import Array, Float

from .._validate import real_array, require
from ..math import Vec3
from .base import AbstractSolid, solid_parameter
from .csg.normal_form import Region


class Rounded(AbstractSolid):
    """The Minkowski sum of a solid and a ball (Tran and Leok, eq. 91).

    The signed distance is exact where that of the solid is, inside for convex ones only.

    Attributes:
        shape: the solid that is rounded.
        radius: [m], not negative.
    """

    shape: AbstractSolid
    radius: Float[Array, ""]

    def __init__(self, shape, radius):
        self.shape = solid_parameter(shape, "Rounded.shape")
        self.radius = real_array(radius, "Rounded.radius", ())
        usable = lambda r: np.isfinite(r) & (r >= 0)  # noqa: E731
        require(self.radius, "Rounded.radius", usable, "non-negative and finite")

    def distance_map(self, point: Vec3):
        return self.shape.distance_map(point) - self.radius

    def support_map(self, direction: Vec3):
        height, point = self.shape.support_map(direction)
        return height + self.radius, point + direction * self.radius

    def parts(self):
        return tuple(Rounded(part, self.radius) for part in self.shape.parts())

    def pieces(self):
        return tuple(Rounded(piece, self.radius) for piece in self.shape.pieces())

    def region(self, inside: bool = True):
        core = self.shape.region()
        if not core.single:
            raise ValueError(
                f"Rounded.shape must be one solid within an Intersection or Difference; got a "
                f"{type(self.shape).__name__}. Round its solids, or the whole, instead."
            )
        return Region.of_distance(self, inside, seeded=any(core.seeded))

    def strictly_convex_parts(self):
        return tuple(Rounded(part, self.radius) for part in self.shape.strictly_convex_parts())

    def standing_parts(self):
        return tuple(Rounded(part, self.radius) for part in self.shape.standing_parts())

    @property
    def is_convex(self):
        return self.shape.is_convex

    @property
    def is_centered(self):
        return self.shape.is_centered

    def bounding_radius(self):
        return self.shape.bounding_radius() + self.radius

    def swing_radius(self):
        return self.shape.swing_radius()

    def uniform_moments(self):
        return self.shape.rounded_moments(self.radius)

    def rounded_moments(self, radius):
        return self.shape.rounded_moments(self.radius + radius)
