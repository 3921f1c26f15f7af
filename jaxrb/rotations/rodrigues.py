"""Rodrigues parameters, the Cayley form of rotations."""

from jaxtyping import Array, Float

from ..lie import quaternion
from ..math import Vec3, axial, dot
from .base import AbstractParametrization
from .checks import unit_vectors, vectors


class RodriguesParameters(AbstractParametrization):
    """b = n tan(phi/2), shape (..., 3), with R = (I - S(b))^{-1} (I + S(b)).

    Every vector is a rotation, by less than half a turn. At half a turn there are no finite
    parameters: `from_matrix` returns infinite components there (zero where the axis has no
    component), and next to it is as accurate as b allows, eps |b|^2.
    Geradin and Rixen, section 6.2.
    """

    @staticmethod
    def to_quaternion(a: Float[Array, "... 3"]) -> Float[Array, "... 4"]:
        """(1, b)/sqrt(1 + b.b), eq. (197), shape (..., 4)."""
        return quaternion.cayley(vectors(a, "a", 3))

    @staticmethod
    def from_quaternion(q: Float[Array, "... 4"]) -> Float[Array, "... 3"]:
        """e/e0, eq. (197)."""
        return quaternion.cayley_inverse(unit_vectors(q, "q", 4))

    @staticmethod
    def tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """T with Omega = T(b) b', eq. (192)."""
        b, scale = _with_scale(a)
        return axial(b, scale, -scale, 0.0).matrix()

    @staticmethod
    def spatial_tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """T^T, with omega = T^T b', eq. (191)."""
        b, scale = _with_scale(a)
        return axial(b, scale, scale, 0.0).matrix()

    @staticmethod
    def inverse_tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """T^{-1} = (I + S(b) + b b^T)/2, with b' = T^{-1} Omega; from eq. (182)."""
        b, scale = _with_scale(a)
        return axial(b, 1 / scale, 0.5, 0.5).matrix()


def _with_scale(a) -> tuple[Vec3, Float[Array, "..."]]:
    """b and 2/(1 + b.b)."""
    b = Vec3.of(vectors(a, "a", 3))
    return b, 2 / (1 + dot(b, b))
