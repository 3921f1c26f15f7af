"""Constructive solid geometry (Tran and Leok, eqs. 95-99)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Vec3
from .base import AbstractShape, AbstractSolid, Moments


class Union(AbstractSolid):
    """All points of either solid (eq. 95).

    The signed distance is exact outside and no larger than the true depth inside.

    Attributes:
        a, b: the solids.
    """

    a: AbstractSolid
    b: AbstractSolid

    def __init__(self, a: AbstractSolid, b: AbstractSolid):
        self.a = _solid(a, "Union.a")
        self.b = _solid(b, "Union.b")

    def convex_parts(self):
        return self.a.convex_parts() + self.b.convex_parts()

    def lengths(self):
        return self.a.lengths() + self.b.lengths()

    def distance_map(self, point: Vec3):
        return jnp.minimum(self.a.distance_map(point), self.b.distance_map(point))

    def bounding_radius(self):
        return jnp.maximum(self.a.bounding_radius(), self.b.bounding_radius())

    def uniform_moments(self, radius=0.0):
        raise _no_closed_form(self)


class Intersection(AbstractSolid):
    """All points of both shapes, of which at least one is bounded (eq. 97).

    The signed distance is exact inside and no larger than the true distance outside.

    Attributes:
        a, b: the shapes.
    """

    a: AbstractShape
    b: AbstractShape

    def __init__(self, a: AbstractShape, b: AbstractShape):
        self.a = _shape(a, "Intersection.a")
        self.b = _shape(b, "Intersection.b")
        if not (isinstance(a, AbstractSolid) or isinstance(b, AbstractSolid)):
            raise ValueError("Intersection needs at least one bounded shape.")

    def lengths(self):
        return self.a.lengths() + self.b.lengths()

    def distance_map(self, point: Vec3):
        return jnp.maximum(self.a.distance_map(point), self.b.distance_map(point))

    def bounding_radius(self):
        radii = [s.bounding_radius() for s in (self.a, self.b) if isinstance(s, AbstractSolid)]
        return radii[0] if len(radii) == 1 else jnp.minimum(*radii)

    def uniform_moments(self, radius=0.0):
        raise _no_closed_form(self)


class Complement(AbstractShape):
    """All points outside of a shape (eq. 99). The signed distance is as good as the shape's.

    Attributes:
        shape: what is left out.
    """

    shape: AbstractShape

    def __init__(self, shape: AbstractShape):
        self.shape = _shape(shape, "Complement.shape")

    def lengths(self):
        return self.shape.lengths()

    def distance_map(self, point: Vec3):
        return -self.shape.distance_map(point)


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
        self.a = _solid(a, "Difference.a")
        self.b = _shape(b, "Difference.b")

    def lengths(self):
        return self.a.lengths() + self.b.lengths()

    def distance_map(self, point: Vec3):
        return jnp.maximum(self.a.distance_map(point), -self.b.distance_map(point))

    def bounding_radius(self) -> Float[Array, ""]:
        return self.a.bounding_radius()

    def uniform_moments(self, radius=0.0) -> Moments:
        raise _no_closed_form(self)


def _shape(value, name: str) -> AbstractShape:
    if not isinstance(value, AbstractShape):
        raise ValueError(f"{name} must be a shape; got {type(value).__name__}.")
    return value


def _solid(value, name: str) -> AbstractSolid:
    if not isinstance(value, AbstractSolid):
        raise ValueError(f"{name} must be a bounded shape; got {type(value).__name__}.")
    return value


def _no_closed_form(shape: AbstractSolid) -> ValueError:
    return ValueError(
        f"{type(shape).__name__} has no mass properties in closed form; give "
        "RigidBody(inertia=...)."
    )
