"""Constructive solid geometry (Tran and Leok, eqs. 95-99)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from ...math import Vec3, tree_where
from ..base import AbstractShape, AbstractSolid, shape_parameter, solid_parameter
from .normal_form import Region
from .seeds import prepare, searched_support


class Union(AbstractSolid):
    """All points of either solid (eq. 95).

    The signed distance is exact outside and no larger than the true depth inside.

    Attributes:
        a, b: the solids.
    """

    a: AbstractSolid
    b: AbstractSolid

    def __init__(self, a: AbstractSolid, b: AbstractSolid):
        self.a = solid_parameter(a, "Union.a")
        self.b = solid_parameter(b, "Union.b")

    def parts(self):
        return self.a.parts() + self.b.parts()

    def pieces(self):
        return self.a.pieces() + self.b.pieces()

    def region(self, inside: bool = True):
        return Region.combined(not inside, self.a.region(inside), self.b.region(inside))

    def strictly_convex_parts(self):
        return self.a.strictly_convex_parts() + self.b.strictly_convex_parts()

    def standing_parts(self):
        return self.a.standing_parts() + self.b.standing_parts()

    def distance_map(self, point: Vec3):
        return jnp.minimum(self.a.distance_map(point), self.b.distance_map(point))

    def support_map(self, direction: Vec3):
        height, point = self.a.support_map(direction)
        other, there = self.b.support_map(direction)
        return tree_where(height >= other, (height, point), (other, there))

    def bounding_radius(self):
        return jnp.maximum(self.a.bounding_radius(), self.b.bounding_radius())

    def swing_radius(self):
        return jnp.maximum(self.a.swing_radius(), self.b.swing_radius())


class Intersection(AbstractSolid):
    """All points of both shapes, of which at least one is bounded (eq. 97).

    The signed distance is exact inside and no larger than the true distance outside.

    Attributes:
        a, b: the shapes.
    """

    a: AbstractShape
    b: AbstractShape

    def __init__(self, a: AbstractShape, b: AbstractShape):
        self.a = shape_parameter(a, "Intersection.a")
        self.b = shape_parameter(b, "Intersection.b")
        if not (isinstance(a, AbstractSolid) or isinstance(b, AbstractSolid)):
            raise ValueError("Intersection needs at least one bounded shape.")

    def distance_map(self, point: Vec3):
        return jnp.maximum(self.a.distance_map(point), self.b.distance_map(point))

    def support_map(self, direction: Vec3):
        return searched_support(self, direction)

    def parts(self):
        return (prepare(self),)

    def region(self, inside: bool = True):
        return Region.combined(inside, self.a.region(inside), self.b.region(inside))

    def bounding_radius(self):
        radii = [s.bounding_radius() for s in (self.a, self.b) if isinstance(s, AbstractSolid)]
        return radii[0] if len(radii) == 1 else jnp.minimum(*radii)


class Complement(AbstractShape):
    """All points outside of a shape (eq. 99). The signed distance is as good as the shape's.

    Attributes:
        shape: what is left out.
    """

    shape: AbstractShape

    def __init__(self, shape: AbstractShape):
        self.shape = shape_parameter(shape, "Complement.shape")

    def distance_map(self, point: Vec3):
        return -self.shape.distance_map(point)

    def region(self, inside: bool = True):
        return self.shape.region(not inside)


class Difference(AbstractSolid):
    """All points of a solid that are not in another shape (eqs. 97, 99).

    The signed distance is exact inside, where that of both shapes is, and no larger than the
    true distance outside.

    Attributes:
        a: the solid.
        b: what is taken from it.
    """

    a: AbstractSolid
    b: AbstractShape

    def __init__(self, a: AbstractSolid, b: AbstractShape):
        self.a = solid_parameter(a, "Difference.a")
        self.b = shape_parameter(b, "Difference.b")

    def distance_map(self, point: Vec3):
        return jnp.maximum(self.a.distance_map(point), -self.b.distance_map(point))

    def support_map(self, direction: Vec3):
        return searched_support(self, direction)

    def parts(self):
        return (prepare(self),)

    def region(self, inside: bool = True):
        return Region.combined(inside, self.a.region(inside), self.b.region(not inside))

    def bounding_radius(self) -> Float[Array, ""]:
        return self.a.bounding_radius()
