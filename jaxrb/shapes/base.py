"""What a shape is: a solid that knows its mass properties and, if convex, its support."""

from __future__ import annotations

import abc
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._validate import real_array, require_positive
from ..math import Vec3, dot


class MassProperties(eqx.Module):
    """Mass properties of a solid of uniform density, in the frame of the shape."""

    volume: Float[Array, ""]  # [m^3]
    mass: Float[Array, ""]  # [kg]
    center_of_mass: Float[Array, 3]  # [m]
    inertia: Float[Array, 3] | Float[Array, "3 3"]  # about the centre of mass [kg m^2]


class AbstractShape(eqx.Module):
    """A solid. Every number it holds is a leaf that can be differentiated."""


class AbstractConvexShape(AbstractShape):
    """A bounded convex solid, described by its support function.

    Subclasses give the support function in component form; their parameters of shape (3,)
    arrive there as `Vec3` (see `components`).
    """

    @abc.abstractmethod
    def support_map(self, direction: Vec3) -> tuple[Float[Array, ...], Vec3]:
        """The support function h and the support point for unit directions.

        h(d) = max {d . z : z in the solid} [m], and a point where it is reached [m].
        """

    @abc.abstractmethod
    def bounding_radius(self) -> Float[Array, ""]:
        """Radius of a ball about the shape's origin that holds the solid [m]."""

    @abc.abstractmethod
    def _volume_and_moments(self, radius: Float[Array, ""] | float) -> tuple[Array, Array]:
        """The volume of the solid rounded by `radius`, and the integrals of x^2, y^2, z^2.

        For a solid symmetric in its three coordinate planes.

        Raises:
            ValueError: if there is no closed form.
        """

    def support(self, direction: Float[Array, "... 3"]) -> Float[Array, "... 3"]:
        """The point of the solid furthest along `direction` (of any length but zero).

        Shape frame, metres; shape (..., 3). Where a face or an edge is furthest, its middle.
        """
        d = Vec3.of(jnp.asarray(direction))
        _, point = components(self).support_map(d / jnp.sqrt(dot(d, d)))
        return point.array()

    def mass_properties(
        self,
        density: Float[Array, ""] | float | None = None,
        mass: Float[Array, ""] | float | None = None,
    ) -> MassProperties:
        """Volume, mass, centre of mass and inertia at uniform density, in closed form.

        Args:
            density: [kg/m^3]; give this or `mass`.
            mass: total mass [kg].

        Raises:
            ValueError: if not exactly one of the two is given, or the solid has no closed
                form (give the inertia of the body instead).
        """
        return self._rounded_mass_properties(0.0, density, mass)

    def _rounded_mass_properties(self, radius, density, mass) -> MassProperties:
        if (density is None) == (mass is None):
            raise ValueError("mass_properties needs exactly one of density and mass.")
        volume, moments = self._volume_and_moments(radius)
        if mass is None:
            mass = density * volume
        mass = jnp.asarray(mass, volume.dtype)
        second = moments * (mass / volume)
        return MassProperties(volume, mass, jnp.zeros(3, volume.dtype), jnp.sum(second) - second)


Shape = TypeVar("Shape", bound=AbstractShape)


def components(shape: Shape) -> Shape:
    """The shape with every parameter of shape (3,) split into a `Vec3`."""
    return jax.tree.map(lambda leaf: Vec3.of(leaf) if jnp.shape(leaf) == (3,) else leaf, shape)


def length_parameter(value, name: str, shape: tuple[int, ...]) -> Array:
    """A parameter that must be positive lengths of the given shape."""
    array = real_array(value, name, shape)
    require_positive(array, name)
    return array
