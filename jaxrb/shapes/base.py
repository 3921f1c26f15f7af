"""What a shape is: a solid that knows its distance, its support and its mass properties."""

from __future__ import annotations

import abc
import dataclasses
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._validate import real_array, require_positive
from ..math import Vec3, dot
from .csg.normal_form import Region, Surfaces


class MassProperties(eqx.Module):
    """Mass properties of a solid of uniform density, in the frame of the shape."""

    volume: Float[Array, ""]  # [m^3]
    mass: Float[Array, ""]  # [kg]
    center_of_mass: Float[Array, "3"]  # [m]
    inertia: Float[Array, "3"] | Float[Array, "3 3"]  # about the centre of mass [kg m^2]


class Moments(NamedTuple):
    """Integrals over a solid of density 1."""

    volume: Float[Array, ""]  # [m^3]
    center: Float[Array, "3"]  # [m]
    # Of (z - center)(z - center)^T [m^5]; its diagonal where the rest is zero.
    second: Float[Array, "3"] | Float[Array, "3 3"]

    @staticmethod
    def symmetric(volume: Array, second: Array) -> Moments:
        """The moments of a solid that has its centre in the origin."""
        return Moments(volume, jnp.zeros(3, volume.dtype), second)


class AbstractShape(eqx.Module):
    """A solid. Every number it holds is a leaf that can be differentiated.

    Subclasses give their signed distance in component form; their parameters of shape (3,)
    arrive there as `Vec3` (see `components`).
    """

    @abc.abstractmethod
    def distance_map(self, point: Vec3) -> Float[Array, ...]:
        """The signed distance from the surface, positive outside [m]."""

    def surfaces(self) -> Surfaces | None:
        """The planes and quadrics that bound the shape, if these alone do."""
        return None

    @abc.abstractmethod
    def region(self, inside: bool = True) -> Region:
        """The shape, or its complement, as a formula over surfaces."""

    def lengths(self) -> list[Array]:
        """The numbers that must not be negative."""
        found = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            found += value.lengths() if isinstance(value, AbstractShape) else [value]
        return found

    def signed_distance(self, point: Float[Array, "... 3"]) -> Float[Array, ...]:
        """The signed distance from the surface, positive outside [m], shape (...).

        Points in the shape's frame [m], shape (..., 3). Whether it is exact or a bound is
        said by each shape.
        """
        return components(self).distance_map(Vec3.of(jnp.asarray(point)))


class AbstractSolid(AbstractShape):
    """A bounded solid, described by its support function as well."""

    @property
    def is_centered(self) -> bool:
        """Whether the centre of mass at uniform density is known to be the origin."""
        return False

    @property
    def is_convex(self) -> bool:
        """Whether it is known that the solid is convex."""
        return False

    @abc.abstractmethod
    def bounding_radius(self) -> Float[Array, ""]:
        """Radius of a ball about the shape's origin that holds the solid [m]."""

    def swing_radius(self) -> Float[Array, ""]:
        """How far from the shape's origin the points are that turning it moves [m].

        The solid is a core, within a ball of this radius, and what it is rounded by: its support
        function is that of the core, which turns, and a constant.
        """
        return self.bounding_radius()

    @abc.abstractmethod
    def support_map(self, direction: Vec3) -> tuple[Float[Array, ...], Vec3]:
        """The support function h and the support point for unit directions.

        h(d) = max {d . z : z in the solid} [m], and a point where it is reached [m].
        """

    def support(self, direction: Float[Array, "... 3"]) -> Float[Array, "... 3"]:
        """The point of the solid furthest along `direction` (of any length but zero).

        Shape frame, metres; shape (..., 3). Where a face or an edge is furthest, its middle.
        """
        d = Vec3.of(jnp.asarray(direction))
        _, point = components(self).support_map(d / jnp.sqrt(dot(d, d)))
        return point.array()

    def parts(self) -> tuple[AbstractSolid, ...]:
        """Solids of which this is the union, each with what its support asks for."""
        return (self,)

    def pieces(self) -> tuple[AbstractSolid, ...]:
        """Solids of which this is the union, each with its signed distance."""
        return (self,)

    def region(self, inside: bool = True):
        return Region.of_solid(self, self.surfaces(), inside)

    def strictly_convex_parts(self) -> tuple[AbstractSolid, ...]:
        """Strictly convex solids that have the same convex hull, so that each touches a plane in
        one point at most, which moves continuously: what the solid can stand on.

        Raises:
            ValueError: if there are none, as for a cylinder.
        """
        raise ValueError(
            f"{type(self).__name__} cannot rest: it may touch a plane along a whole curve. Use "
            'on_zeno="stop", or spheres, ellipsoids, capsules, boxes, polyhedra and their unions.'
        )

    def standing_parts(self) -> tuple[AbstractSolid, ...]:
        """Solids that have the same convex hull, by whose lowest points it can stand on a plane.

        The strictly convex ones where it has such; a cylinder or a cone has more of its rims, to
        stand on a face. Others, as implicit solids, have their lowest point alone.
        """
        try:
            return self.strictly_convex_parts()
        except ValueError:
            return self.parts()

    def uniform_moments(self) -> Moments:
        """The moments at density 1; by quadrature, for solids without a closed form.

        Raises:
            ValueError: if they cannot be found with the accuracy of `mass_properties`.
        """
        # It knows all shapes, which need this module.
        from .moments import quadrature_moments  # noqa: PLC0415

        return quadrature_moments(self)

    def rounded_moments(self, radius: Float[Array, ""]) -> Moments:
        """The moments of the solid rounded by a radius [m].

        Raises:
            ValueError: as `uniform_moments`.
        """
        # They know all shapes, which need this module.
        from .moments import quadrature_moments  # noqa: PLC0415
        from .rounded import Rounded  # noqa: PLC0415

        return quadrature_moments(Rounded(self, radius))

    def mass_properties(
        self,
        density: Float[Array, ""] | float | None = None,
        mass: Float[Array, ""] | float | None = None,
    ) -> MassProperties:
        """Volume, mass, centre of mass and inertia at uniform density.

        In closed form for most solids. For unions, intersections, differences, implicit solids
        and what is made of them, by quadrature with a relative error of about 1e-9 in double
        and 1e-4 in single precision; this takes seconds to compile.

        Args:
            density: [kg/m^3]; give this or `mass`.
            mass: total mass [kg].

        Raises:
            ValueError: if not exactly one of the two is given; if the solid is empty, or the
                quadrature does not reach its accuracy (give the inertia of the body instead).
                Where the numbers are traced, the results are NaN then.
        """
        if (density is None) == (mass is None):
            raise ValueError("mass_properties needs exactly one of density and mass.")
        volume, center, second = self.uniform_moments()
        mass = jnp.asarray(mass if density is None else density * volume, volume.dtype)
        second = second * (mass / volume)
        if second.ndim == 1:
            inertia = jnp.sum(second) - second
        else:
            inertia = jnp.trace(second) * jnp.eye(3, dtype=second.dtype) - second
        return MassProperties(volume, mass, center, inertia)


Shape = TypeVar("Shape", bound=AbstractShape)


def components(shape: Shape) -> Shape:
    """The shape with every parameter of shape (3,) split into a `Vec3`."""
    return jax.tree.map(lambda leaf: Vec3.of(leaf) if jnp.shape(leaf) == (3,) else leaf, shape)


def arrays(shape: Shape) -> Shape:
    """The inverse of `components`."""
    return jax.tree.map(
        lambda leaf: leaf.array() if isinstance(leaf, Vec3) else leaf,
        shape,
        is_leaf=lambda leaf: isinstance(leaf, Vec3),
    )


def shape_parameter(value, name: str) -> AbstractShape:
    """A parameter that must be a shape."""
    if not isinstance(value, AbstractShape):
        raise ValueError(f"{name} must be a shape; got {type(value).__name__}.")
    return value


def solid_parameter(value, name: str) -> AbstractSolid:
    """A parameter that must be a bounded shape."""
    if not isinstance(value, AbstractSolid):
        raise ValueError(f"{name} must be a bounded shape; got {type(value).__name__}.")
    return value


def length_parameter(value, name: str, shape: tuple[int, ...]) -> Array:
    """A parameter that must be positive lengths of the given shape."""
    array = real_array(value, name, shape)
    require_positive(array, name)
    return array


def flat_sign(d: Float[Array, ...]) -> Float[Array, ...]:
    """The sign of a component of a unit direction, 0 where it is zero to round-off.

    What faces a flat side to round-off then finds its middle, not one of its edges.
    """
    return jnp.where(jnp.abs(d) > 8 * jnp.finfo(d.dtype).eps, jnp.sign(d), 0.0)
