"""The interface of parametrizations of rotations."""

from __future__ import annotations

import abc

import equinox as eqx
from jaxtyping import Array, Float

from ..lie import quaternion, so3
from .checks import rotation_matrices


class AbstractParametrization(eqx.Module):
    """A family of rotation parameters `a`; x = R(a) X takes body vectors to world vectors.

    The functions need no instance, and can be called on one: a family is passed as an
    argument by its class or by `Family()`, which has no leaves. Arrays may have leading axes,
    which broadcast. Families meet in the unit quaternion, which is never singular.

    A subclass gives the two maps to and from unit quaternions and the tangent operators.
    """

    @staticmethod
    @abc.abstractmethod
    def to_quaternion(a: Float[Array, "... n"]) -> Float[Array, "... 4"]:
        """The unit quaternion, scalar first."""

    @staticmethod
    @abc.abstractmethod
    def from_quaternion(q: Float[Array, "... 4"]) -> Float[Array, "... n"]:
        """The parameters of a unit quaternion; q and -q are one rotation."""

    @staticmethod
    @abc.abstractmethod
    def tangent_operator(a: Float[Array, "... n"]) -> Float[Array, "... 3 n"]:
        """T with Omega = T(a) a', the angular velocity in the body frame."""

    @staticmethod
    @abc.abstractmethod
    def spatial_tangent_operator(a: Float[Array, "... n"]) -> Float[Array, "... 3 n"]:
        """The operator that gives omega = R Omega, the angular velocity in the world frame."""

    @staticmethod
    @abc.abstractmethod
    def inverse_tangent_operator(a: Float[Array, "... n"]) -> Float[Array, "... n 3"]:
        """The rates of the parameters from the body-frame angular velocity, a' = T^{-1} Omega."""

    @classmethod
    def to_matrix(cls, a: Float[Array, "... n"]) -> Float[Array, "... 3 3"]:
        """The rotation matrix R(a), shape (..., 3, 3)."""
        return quaternion.to_matrix(cls.to_quaternion(a))

    @classmethod
    def from_matrix(cls, rotation: Float[Array, "... 3 3"]) -> Float[Array, "... n"]:
        """The parameters of a rotation matrix, through Spurrier's extraction.

        Raises:
            ValueError: if `rotation` is known and not orthogonal to 1e-5, or a reflection. A
                traced one is not checked; the result is undefined then.
        """
        return cls.from_quaternion(so3.to_quaternion(rotation_matrices(rotation, "rotation")))

    @classmethod
    def compose(
        cls, first: Float[Array, "... n"], second: Float[Array, "... n"]
    ) -> Float[Array, "... n"]:
        """The parameters of R(first) R(second).

        An increment in the body frame (a material one) is given as `second`, one in the world
        frame as `first`: Geradin and Rixen, eqs. (159) and (226).
        """
        product = quaternion.multiply(cls.to_quaternion(first), cls.to_quaternion(second))
        return cls.from_quaternion(product)


def convert(
    a: Float[Array, "... n"],
    source: type[AbstractParametrization] | AbstractParametrization,
    target: type[AbstractParametrization] | AbstractParametrization,
) -> Float[Array, "... m"]:
    """The parameters of family `target` for the rotation with parameters `a` of `source`."""
    return target.from_quaternion(source.to_quaternion(a))
