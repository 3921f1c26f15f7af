"""Bryant angles: yaw, pitch and roll."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lie import quaternion
from ..math import Mat3
from .angles import aligned, matrix, split, turn
from .base import AbstractParametrization
from .checks import unit_vectors


class BryantAngles(AbstractParametrization):
    """(theta, psi, phi) [rad], shape (..., 3), with R = R3(theta) R2(psi) R1(phi).

    Yaw, pitch and roll, about successive body axes (3-2-1). `from_matrix` returns psi in
    [-pi/2, pi/2] and the others in (-pi, pi]. At psi = +-pi/2, to round-off, only
    theta -+ phi is definite: theta = 0 is returned there, and the inverse of the tangent
    operator is not finite.
    Geradin and Rixen, section 10.2.
    """

    @staticmethod
    def to_quaternion(a: Float[Array, "... 3"]) -> Float[Array, "... 4"]:
        """The product of the three rotations, eq. (285), shape (..., 4)."""
        theta, psi, phi = split(a)
        return (turn(3, theta) * turn(2, psi) * turn(1, phi)).array()

    @staticmethod
    def from_quaternion(q: Float[Array, "... 4"]) -> Float[Array, "... 3"]:
        """The angles with psi in [-pi/2, pi/2], by eq. (287)."""
        r = Mat3.of(quaternion.to_matrix(unit_vectors(q, "q", 4)))
        singular = aligned(r.row1.x, r.row2.x)
        theta = jnp.arctan2(jnp.where(singular, 0.0, r.row2.x), jnp.where(singular, 1.0, r.row1.x))
        s, c = jnp.sin(theta), jnp.cos(theta)
        psi = jnp.arctan2(-r.row3.x, r.row2.x * s + r.row1.x * c)
        phi = jnp.arctan2(r.row1.z * s - r.row2.z * c, r.row2.y * c - r.row1.y * s)
        return jnp.stack([theta, psi, phi], axis=-1)

    @staticmethod
    def tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """The matrix of eq. (291), with Omega = T (theta', psi', phi')."""
        _, psi, phi = split(a)
        s, c, sp, cp = jnp.sin(psi), jnp.cos(psi), jnp.sin(phi), jnp.cos(phi)
        return matrix([[-s, 0.0, 1.0], [c * sp, cp, 0.0], [c * cp, -sp, 0.0]])

    @staticmethod
    def spatial_tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """The matrix of eq. (289), which gives omega."""
        theta, psi, _ = split(a)
        st, ct, sp, cp = jnp.sin(theta), jnp.cos(theta), jnp.sin(psi), jnp.cos(psi)
        return matrix([[0.0, -st, cp * ct], [0.0, ct, cp * st], [1.0, 0.0, -sp]])

    @staticmethod
    def inverse_tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """The inverse of eq. (291); not finite where cos psi = 0."""
        _, psi, phi = split(a)
        s, c, sp, cp = jnp.sin(psi), jnp.cos(psi), jnp.sin(phi), jnp.cos(phi)
        return matrix(
            [
                [0.0, sp / c, cp / c],
                [0.0, cp, -sp],
                [1.0, sp * s / c, cp * s / c],
            ]
        )
