"""Solids scaled uniformly."""

from jaxtyping import Array, Float

from ..math import Vec3
from .base import AbstractSolid, Moments, length_parameter, solid_parameter


class Scaled(AbstractSolid):
    """A solid scaled about its origin. The signed distance is as good as its own.

    Attributes:
        shape: the solid.
        factor: by which its lengths are multiplied, positive.
    """

    shape: AbstractSolid
    factor: Float[Array, ""]

    def __init__(self, shape, factor):
        self.shape = solid_parameter(shape, "Scaled.shape")
        self.factor = length_parameter(factor, "Scaled.factor", ())

    def distance_map(self, point: Vec3):
        return self.shape.distance_map(point / self.factor) * self.factor

    def support_map(self, direction: Vec3):
        height, point = self.shape.support_map(direction)
        return height * self.factor, point * self.factor

    def parts(self):
        return tuple(Scaled(part, self.factor) for part in self.shape.parts())

    def pieces(self):
        return tuple(Scaled(piece, self.factor) for piece in self.shape.pieces())

    def region(self, inside: bool = True):
        return self.shape.region(inside).mapped(
            lambda solid: Scaled(solid, self.factor),
            lambda quadric: quadric.scaled(self.factor),
            lambda point: point * self.factor,
        )

    def strictly_convex_parts(self):
        return tuple(Scaled(part, self.factor) for part in self.shape.strictly_convex_parts())

    def standing_parts(self):
        return tuple(Scaled(part, self.factor) for part in self.shape.standing_parts())

    @property
    def is_convex(self):
        return self.shape.is_convex

    @property
    def is_centered(self):
        return self.shape.is_centered

    def bounding_radius(self):
        return self.shape.bounding_radius() * self.factor

    def swing_radius(self):
        return self.shape.swing_radius() * self.factor

    def uniform_moments(self):
        return self._scaled(self.shape.uniform_moments())

    def rounded_moments(self, radius):
        return self._scaled(self.shape.rounded_moments(radius / self.factor))

    def _scaled(self, moments: Moments) -> Moments:
        volume, center, second = moments
        return Moments(volume * self.factor**3, center * self.factor, second * self.factor**5)
