"""The Cartesian rotation vector."""

from jaxtyping import Array, Float

from ..lie import quaternion, so3
from .base import AbstractParametrization
from .checks import unit_vectors, vectors


class RotationVector(AbstractParametrization):
    """Psi = n phi [rad], shape (..., 3): along the axis, as long as the angle.

    Every vector is a rotation. `from_matrix` returns the one of length at most pi; at exactly
    half a turn, where +-pi n are the same rotation, that whose largest component is positive.
    The tangent operator loses rank at full turns (2 pi, 4 pi, ...), where its inverse grows
    without bound.
    Geradin and Rixen, section 6.1.
    """

    @staticmethod
    def to_quaternion(a: Float[Array, "... 3"]) -> Float[Array, "... 4"]:
        """(cos phi/2, n sin phi/2), shape (..., 4)."""
        return quaternion.exp(vectors(a, "a", 3))

    @staticmethod
    def from_quaternion(q: Float[Array, "... 4"]) -> Float[Array, "... 3"]:
        """The rotation vector of length at most pi."""
        return quaternion.log(unit_vectors(q, "q", 4))

    @staticmethod
    def tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """T with Omega = T(a) a', eq. (171)."""
        return so3.right_jacobian(vectors(a, "a", 3))

    @staticmethod
    def spatial_tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """T^T, with omega = T^T a', eq. (170)."""
        return so3.left_jacobian(vectors(a, "a", 3))

    @staticmethod
    def inverse_tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """T^{-1}, with a' = T^{-1} Omega."""
        return so3.right_jacobian_inverse(vectors(a, "a", 3))
