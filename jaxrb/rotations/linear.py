"""The linear parameters of a rotation."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Quat, Vec3, axial, dot
from .base import AbstractParametrization
from .checks import unit_vectors


class LinearParameters(AbstractParametrization):
    """(s0, s) = (cos phi, n sin phi), shape (..., 4), of unit length: half trace and vector of R.

    At half a turn s vanishes and no longer holds the axis: `to_matrix` is not a number there,
    and next to it, with |s| small, knows the axis to eps/|s|. The tangent operators are with
    respect to s, s0 following from the unit length with the sign it has: they are not finite
    at quarter turns, s0 = 0, where s cannot grow along n.
    Geradin and Rixen, section 9.

    Raises:
        ValueError: if known parameters are not of unit length to 1e-3. Closer ones, and traced
            ones whatever their length, are normalised.
    """

    @staticmethod
    def to_quaternion(a: Float[Array, "... 4"]) -> Float[Array, "... 4"]:
        """(cos phi/2, n sin phi/2), shape (..., 4)."""
        s0, s = _split(a)
        w = _one_plus(s0, s)
        return (Quat(w, s) / jnp.sqrt(w * w + dot(s, s))).array()

    @staticmethod
    def from_quaternion(q: Float[Array, "... 4"]) -> Float[Array, "... 4"]:
        """(e0^2 - e.e, 2 e0 e)."""
        p = Quat.of(unit_vectors(q, "q", 4))
        return Quat(p.w * p.w - dot(p.v, p.v), p.v * (2 * p.w)).array()

    @staticmethod
    def tangent_operator(a: Float[Array, "... 4"]) -> Float[Array, "... 3 3"]:
        """T with Omega = T s', eq. (273), corrected: I + (s s^T/s0 - S(s))/(1 + s0)."""
        s0, s = _split(a)
        k = 1 / _one_plus(s0, s)
        return axial(s, 1 / s0, -k, k / s0).matrix()

    @staticmethod
    def spatial_tangent_operator(a: Float[Array, "... 4"]) -> Float[Array, "... 3 3"]:
        """T^T, with omega = T^T s'; the operator printed as eq. (273)."""
        s0, s = _split(a)
        k = 1 / _one_plus(s0, s)
        return axial(s, 1 / s0, k, k / s0).matrix()

    @staticmethod
    def inverse_tangent_operator(a: Float[Array, "... 4"]) -> Float[Array, "... 3 3"]:
        """T^{-1} = ((1 + s0) I + S(s) - s s^T/(1 + s0))/2, with s' = T^{-1} Omega.

        Finite at quarter turns, where it loses rank.
        """
        s0, s = _split(a)
        return axial(s, s0, 0.5, -0.5 / _one_plus(s0, s)).matrix()


def _split(a) -> tuple[Float[Array, "..."], Vec3]:
    array = unit_vectors(a, "a", 4)
    return array[..., 0], Vec3.of(array[..., 1:])


def _one_plus(s0, s: Vec3) -> Float[Array, "..."]:
    """1 + s0, which is s.s/(1 - s0) where the sum would lose digits."""
    near_half_turn = s0 < 0
    return jnp.where(near_half_turn, dot(s, s) / (1 - jnp.where(near_half_turn, s0, 0.0)), 1 + s0)
