"""Euler parameters: the unit quaternion as rotation parameters."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lie import quaternion
from .base import AbstractParametrization
from .checks import unit_vectors
from .linear import LinearParameters


class EulerParameters(AbstractParametrization):
    """p = (e0, e) = (cos phi/2, n sin phi/2), shape (..., 4), scalar first, of unit length.

    There is no singularity. `from_matrix` is Spurrier's extraction, eqs. (203)-(205), with
    e0 >= 0; at exactly half a turn the largest component is positive.
    Geradin and Rixen, section 6.3.

    Raises:
        ValueError: if known parameters are not of unit length to 1e-3. Closer ones, and traced
            ones whatever their length, are normalised.
    """

    @staticmethod
    def to_quaternion(a: Float[Array, "... 4"]) -> Float[Array, "... 4"]:
        """The parameters themselves, normalised."""
        return unit_vectors(a, "a", 4)

    @staticmethod
    def from_quaternion(q: Float[Array, "... 4"]) -> Float[Array, "... 4"]:
        """The quaternion itself, normalised, its sign as it is."""
        return unit_vectors(q, "q", 4)

    @staticmethod
    def tangent_operator(a: Float[Array, "... 4"]) -> Float[Array, "... 3 4"]:
        """2 G(p), with Omega = 2 G(p) p', eqs. (201) and (208); shape (..., 3, 4)."""
        return 2 * quaternion.G(unit_vectors(a, "a", 4))

    @staticmethod
    def spatial_tangent_operator(a: Float[Array, "... 4"]) -> Float[Array, "... 3 4"]:
        """2 H(p), with omega = 2 H(p) p', eqs. (201) and (208); shape (..., 3, 4)."""
        return 2 * quaternion.E(unit_vectors(a, "a", 4))

    @staticmethod
    def inverse_tangent_operator(a: Float[Array, "... 4"]) -> Float[Array, "... 4 3"]:
        """G(p)^T/2, with p' = G^T Omega/2 tangent to the sphere; shape (..., 4, 3)."""
        return jnp.swapaxes(quaternion.G(unit_vectors(a, "a", 4)), -1, -2) / 2

    @staticmethod
    def half_rotation(a: Float[Array, "... 4"]) -> Float[Array, "... 3 3"]:
        """F with R = F^2, eqs. (274) and (275): by half the angle, in [0, pi], of p.

        Not a number at p = (-1, 0, 0, 0): half of a full turn has no definite axis.
        """
        # The linear parameters of F are the Euler parameters of R.
        return LinearParameters.to_matrix(unit_vectors(a, "a", 4))
