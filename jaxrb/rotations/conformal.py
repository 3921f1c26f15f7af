"""The conformal rotation vector."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Quat, Vec3, axial, dot
from .base import AbstractParametrization
from .checks import unit_vectors, vectors
from .rodrigues import RodriguesParameters


class ConformalRotationVector(AbstractParametrization):
    """c = 4 n tan(phi/4), shape (..., 3): Milenkovic's vector, close to n phi.

    Every vector is a rotation by less than a full turn, at which c is infinite. `from_matrix`
    returns |c| <= 4, a rotation by at most half a turn, and is nowhere singular; at exactly
    half a turn the largest component is positive.
    Geradin and Rixen, section 8.
    """

    @staticmethod
    def to_quaternion(a: Float[Array, "... 3"]) -> Float[Array, "... 4"]:
        """(c0, c)/(4 - c0), from eq. (252), with c0 = 2 - c.c/8; shape (..., 4)."""
        c, c0 = _with_scalar(a)
        return (Quat(c0, c) / (4 - c0)).array()

    @staticmethod
    def from_quaternion(q: Float[Array, "... 4"]) -> Float[Array, "... 3"]:
        """4 e/(1 + e0), eq. (252), of the sign with e0 >= 0."""
        p = Quat.of(unit_vectors(q, "q", 4))
        sign = jnp.where(p.w < 0, -1.0, 1.0)
        return (p.v * (4 * sign / (1 + p.w * sign))).array()

    @staticmethod
    def tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """T with Omega = T(c) c', eq. (266): 2 F^T/(4 - c0), with F of `half_rotation`."""
        c, c0 = _with_scalar(a)
        k = 2 / (4 - c0) ** 2
        return axial(c, 2 / (4 - c0), -k, 0.25 * k).matrix()

    @staticmethod
    def spatial_tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """T^T, with omega = T^T c', eq. (265)."""
        c, c0 = _with_scalar(a)
        k = 2 / (4 - c0) ** 2
        return axial(c, 2 / (4 - c0), k, 0.25 * k).matrix()

    @staticmethod
    def inverse_tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """T^{-1} = (4 - c0) F/2 = (c0 I + c c^T/4 + S(c))/2, with c' = T^{-1} Omega."""
        c, c0 = _with_scalar(a)
        return axial(c, (4 - c0) / 2, 0.5, 0.125).matrix()

    @staticmethod
    def half_rotation(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """F with R = F^2, by half the angle: eqs. (257) to (259), (258) corrected."""
        # The Rodrigues parameters of F are c/4.
        return RodriguesParameters.to_matrix(vectors(a, "a", 3) / 4)


def _with_scalar(a) -> tuple[Vec3, Float[Array, "..."]]:
    """c and c0 = (16 - c.c)/8, eq. (254)."""
    c = Vec3.of(vectors(a, "a", 3))
    return c, 2 - dot(c, c) / 8
