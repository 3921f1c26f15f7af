"""Euler angles."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lie import quaternion
from ..math import Mat3
from .angles import aligned, matrix, split, turn
from .base import AbstractParametrization
from .checks import unit_vectors


class EulerAngles(AbstractParametrization):
    """(psi, theta, phi) [rad], shape (..., 3), with R = R3(psi) R1(theta) R3(phi).

    Precession, nutation and spin of a top, about successive body axes (3-1-3). `from_matrix`
    returns theta in [0, pi] and the others in (-pi, pi]. At theta = 0 and theta = pi, to
    round-off, only psi + phi and psi - phi are definite: phi = 0 is returned there, and the
    inverse of the tangent operator is not finite.
    Geradin and Rixen, section 10.1.
    """

    @staticmethod
    def to_quaternion(a: Float[Array, "... 3"]) -> Float[Array, "... 4"]:
        """The product of the three rotations, eq. (277), shape (..., 4)."""
        psi, theta, phi = split(a)
        return (turn(3, psi) * turn(1, theta) * turn(3, phi)).array()

    @staticmethod
    def from_quaternion(q: Float[Array, "... 4"]) -> Float[Array, "... 3"]:
        """The angles with theta in [0, pi], by eq. (279), its last line for sin psi."""
        r = Mat3.of(quaternion.to_matrix(unit_vectors(q, "q", 4)))
        singular = aligned(r.row3.x, r.row3.y)
        phi = jnp.arctan2(jnp.where(singular, 0.0, r.row3.x), jnp.where(singular, 1.0, r.row3.y))
        s, c = jnp.sin(phi), jnp.cos(phi)
        theta = jnp.arctan2(r.row3.x * s + r.row3.y * c, r.row3.z)
        psi = jnp.arctan2(r.row2.x * c - r.row2.y * s, r.row1.x * c - r.row1.y * s)
        return jnp.stack([psi, theta, phi], axis=-1)

    @staticmethod
    def tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """The matrix of eq. (283), with Omega = T (psi', theta', phi')."""
        _, theta, phi = split(a)
        st, ct, sp, cp = jnp.sin(theta), jnp.cos(theta), jnp.sin(phi), jnp.cos(phi)
        return matrix([[sp * st, cp, 0.0], [cp * st, -sp, 0.0], [ct, 0.0, 1.0]])

    @staticmethod
    def spatial_tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """The matrix of eq. (281), which gives omega."""
        psi, theta, _ = split(a)
        st, ct, sp, cp = jnp.sin(theta), jnp.cos(theta), jnp.sin(psi), jnp.cos(psi)
        return matrix([[0.0, cp, sp * st], [0.0, sp, -cp * st], [1.0, 0.0, ct]])

    @staticmethod
    def inverse_tangent_operator(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
        """The inverse, eq. (345); not finite where sin theta = 0."""
        _, theta, phi = split(a)
        st, ct, sp, cp = jnp.sin(theta), jnp.cos(theta), jnp.sin(phi), jnp.cos(phi)
        return matrix(
            [
                [sp / st, cp / st, 0.0],
                [cp, -sp, 0.0],
                [-sp * ct / st, -cp * ct / st, 1.0],
            ]
        )
