"""Collision geometries: the representation that the narrow phase works on.

A solid is a core, turned and moved within its body, and a radius by which it is rounded:
spheres are rounded points, capsules rounded segments. What the closest points of two cores
need is prepared once, before a simulation.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import (
    Quat,
    Sym3,
    Vec3,
    cross,
    dot,
    hadamard,
    norm,
    rotate,
    rotate_inverse,
)
from ..shapes import AbstractSolid, Complement
from ..shapes.base import AbstractShape, components
from ..shapes.csg.extremum import Searched
from .clearance import Reach


class Separation(NamedTuple):
    """The separation of two solids, in the frame of the first body."""

    gap: Float[Array, ""]  # [m]
    normal: Vec3  # unit, into the first
    point: Vec3  # of the second that is closest to the first [m]


class AbstractCollider(eqx.Module):
    """The collision geometry of a solid in its body's frame."""

    @abc.abstractmethod
    def moved(self, shift: Vec3, turn: Quat) -> AbstractCollider:
        """Turned and then shifted."""

    @property
    def has_support(self) -> bool:
        """Whether it is convex and `height` is known."""
        return True

    @property
    def standing(self) -> bool:
        """Whether it has what it takes to lie on another, in several points."""
        return False

    def height(self, direction: Vec3) -> Float[Array, ""]:
        """The support function: the greatest height of its points along a unit direction [m]."""
        raise NotImplementedError

    def reach(self) -> Reach:
        """How far it is from the origin."""
        raise NotImplementedError


class SphereCollider(AbstractCollider):
    """A point, rounded."""

    center: Vec3  # [m]
    radius: Float[Array, ""]  # [m]

    def moved(self, shift: Vec3, turn: Quat) -> SphereCollider:
        """Turned and then shifted."""
        return SphereCollider(rotate(turn, self.center) + shift, self.radius)

    def height(self, direction):
        return dot(direction, self.center) + self.radius

    def reach(self):
        swing = norm(self.center)
        return Reach(swing, swing + self.radius)


class PolytopeCollider(AbstractCollider):
    """A polyhedron or a segment, rounded. Components are arrays over its features."""

    vertices: Vec3  # (n_vertices,) [m]
    start: Vec3  # of each edge, (n_edges,) [m]
    along: Vec3  # from there to its end [m]
    left: Vec3  # unit outward normals of the two faces at it; zero for a segment
    right: Vec3
    normal: Vec3  # of each face, unit, (n_faces,); zero where a face is only filled up
    offset: Float[Array, " n_faces"]  # normal . z on the face [m]; infinite there
    radius: Float[Array, ""]  # [m]
    # Of each face its corners in turn, counter-clockwise from outside, the last one repeated to
    # fill up, (n_faces, n_corners); of a segment its ends. None where nobody asks for them.
    outlines: Vec3 | None = None

    @property
    def has_faces(self) -> bool:
        """Whether it is no segment."""
        return self.normal.x.shape[-1] > 0

    @property
    def standing(self):
        return self.outlines is not None

    def moved(self, shift: Vec3, turn: Quat) -> PolytopeCollider:
        """Turned and then shifted."""
        start, along, left, right, normal = (
            rotate(turn, v) for v in (self.start, self.along, self.left, self.right, self.normal)
        )
        vertices = rotate(turn, self.vertices) + shift
        offset = self.offset + dot(normal, shift)
        outlines = None if self.outlines is None else rotate(turn, self.outlines) + shift
        return PolytopeCollider(
            vertices, start + shift, along, left, right, normal, offset, self.radius, outlines
        )

    def height(self, direction):
        return jnp.max(dot(direction, self.vertices), axis=-1) + self.radius

    def reach(self):
        swing = jnp.max(norm(self.vertices), axis=-1)
        return Reach(swing, swing + self.radius)


class EllipsoidCollider(AbstractCollider):
    """An ellipsoid, rounded."""

    semi_axes: Vec3  # [m]
    center: Vec3  # [m]
    turn: Quat  # from its axes to the body's
    radius: Float[Array, ""]  # [m]

    def moved(self, shift: Vec3, turn: Quat) -> EllipsoidCollider:
        """Turned and then shifted."""
        center = rotate(turn, self.center) + shift
        return EllipsoidCollider(self.semi_axes, center, turn * self.turn, self.radius)

    def height(self, direction):
        stretched = norm(hadamard(self.semi_axes, rotate_inverse(self.turn, direction)))
        return dot(direction, self.center) + stretched + self.radius

    def reach(self):
        largest = jnp.maximum(jnp.maximum(self.semi_axes.x, self.semi_axes.y), self.semi_axes.z)
        swing = norm(self.center) + largest
        return Reach(swing, swing + self.radius)

    def squared(self) -> Sym3:
        """The matrix Q for which the support function of the core is sqrt(n . Q n)."""
        one, zero = jnp.ones_like(self.semi_axes.x), jnp.zeros_like(self.semi_axes.x)
        basis = (Vec3(one, zero, zero), Vec3(zero, one, zero), Vec3(zero, zero, one))
        stretched = [hadamard(self.semi_axes, rotate_inverse(self.turn, axis)) for axis in basis]

        def entry(i: int, j: int):
            return dot(stretched[i], stretched[j])

        return Sym3(
            Vec3(entry(0, 0), entry(1, 1), entry(2, 2)), Vec3(entry(1, 2), entry(0, 2), entry(0, 1))
        )


class FrustumCollider(AbstractCollider):
    """The convex hull of two discs about one axis, rounded: a cylinder; a cone, whose apex is a
    disc of radius zero."""

    center: Vec3  # halfway between the discs [m]
    axis: Vec3  # unit, from the base to the top
    aside: Vec3  # unit, across the axis
    half_height: Float[Array, ""]  # [m]
    base: Float[Array, ""]  # radii of the discs [m]
    top: Float[Array, ""]
    radius: Float[Array, ""]  # [m]
    outlined: bool = eqx.field(static=True, default=False)  # whether `standing`

    def moved(self, shift: Vec3, turn: Quat) -> FrustumCollider:
        """Turned and then shifted."""
        return dataclasses.replace(
            self,
            center=rotate(turn, self.center) + shift,
            axis=rotate(turn, self.axis),
            aside=rotate(turn, self.aside),
        )

    def height(self, direction):
        return dot(direction, self.center) + self.extent(direction) + self.radius

    def extent(self, direction: Vec3) -> Float[Array, ...]:
        """The support function of the core about its center [m]."""
        along = self.half_height * dot(direction, self.axis)
        across = norm(cross(direction, self.axis))
        return jnp.maximum(self.base * across - along, self.top * across + along)

    def reach(self):
        swing = norm(self.center) + self.size
        return Reach(swing, swing + self.radius)

    @property
    def standing(self):
        return self.outlined

    @property
    def size(self) -> Float[Array, ""]:
        """How far points of the core are from its center at most [m]."""
        return jnp.sqrt(self.half_height**2 + jnp.maximum(self.base, self.top) ** 2)


class DistanceCollider(AbstractCollider):
    """Any other shape of exact signed distance outside."""

    solid: AbstractShape  # in components
    radius: Float[Array, ""]  # of a ball about the origin that holds it [m]; 0 of a cavity

    @staticmethod
    def of(shape: AbstractShape) -> DistanceCollider:
        """Of a solid, or of the complement of one."""
        if isinstance(shape, AbstractSolid):
            return DistanceCollider(components(shape), shape.bounding_radius())
        return DistanceCollider(components(shape), jnp.zeros_like(jax.tree.leaves(shape)[0].sum()))

    @property
    def is_convex_cavity(self) -> bool:
        """Whether it is the complement of a convex solid."""
        solid = self.solid
        if not isinstance(solid, Complement) or not isinstance(solid.shape, AbstractSolid):
            return False
        return solid.shape.is_convex

    @property
    def has_support(self):
        return isinstance(self.solid, AbstractSolid) and self.solid.is_convex

    def height(self, direction):
        assert isinstance(self.solid, AbstractSolid)
        return self.solid.support_map(direction)[0]

    def reach(self):
        return Reach(self.radius, self.radius)

    def moved(self, shift: Vec3, turn: Quat) -> DistanceCollider:
        """Never asked for: balls are moved to such a solid."""
        raise NotImplementedError


class SearchedCollider(AbstractCollider):
    """A solid (optionally rounded) whose closest point is found numerically."""

    solid: Searched  # in components, prepared for points
    radius: Float[Array, ""]  # [m]

    @property
    def has_support(self):
        return False

    def moved(self, shift: Vec3, turn: Quat) -> SearchedCollider:
        """Never asked for, as of `DistanceCollider`."""
        raise NotImplementedError
