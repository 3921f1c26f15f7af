"""Directors: the body axes d_1, d_2, d_3 in world components, as nine coordinates.

Arrays of shape (..., 9), the columns of the rotation matrix one after the other. As
coordinates of a rigid body they are subject to six constraints of orthonormality. Betsch and
Siebert, section 3.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._help import publish
from ..math import Vec3, cross, dot
from . import quaternion, so3


def from_matrix(rotation: Float[Array, "... 3 3"]) -> Float[Array, "... 9"]:
    """The columns d_j of a matrix, eq. (16)."""
    return _join([rotation[..., :, j] for j in range(3)])


def to_matrix(q: Float[Array, "... 9"]) -> Float[Array, "... 3 3"]:
    """The matrix with the directors as columns."""
    return jnp.stack([q[..., 0:3], q[..., 3:6], q[..., 6:9]], axis=-1)


def from_quaternion(q: Float[Array, "... 4"]) -> Float[Array, "... 9"]:
    """The directors of a unit quaternion, eq. (24)."""
    return from_matrix(quaternion.to_matrix(q))


def to_quaternion(q: Float[Array, "... 9"]) -> Float[Array, "... 4"]:
    """The unit quaternion, with non-negative scalar part, of orthonormal directors."""
    return so3.to_quaternion(to_matrix(q))


def constraints(q: Float[Array, "... 9"]) -> Float[Array, "... 6"]:
    """Phi(q), eq. (17): zero where the directors are orthonormal.

    The order is (d1.d1 - 1)/2, (d2.d2 - 1)/2, (d3.d3 - 1)/2, d1.d2, d1.d3, d2.d3.
    """
    a, b, c = _split(q)
    lengths = [(dot(d, d) - 1) / 2 for d in (a, b, c)]
    return jnp.stack([*lengths, dot(a, b), dot(a, c), dot(b, c)], axis=-1)


def constraint_jacobian(q: Float[Array, "... 9"]) -> Float[Array, "... 6 9"]:
    """The derivative of `constraints`; admissible velocities are in its null space."""
    a, b, c = (d.array() for d in _split(q))
    zero = jnp.zeros_like(a)
    rows = [
        (a, zero, zero),
        (zero, b, zero),
        (zero, zero, c),
        (b, a, zero),
        (c, zero, a),
        (zero, c, b),
    ]
    return jnp.stack([_join(row) for row in rows], axis=-2)


def handedness(q: Float[Array, "... 9"]) -> Float[Array, "..."]:
    """d1 . (d2 x d3): 1 for right-handed orthonormal directors, -1 for left-handed ones."""
    a, b, c = _split(q)
    return dot(a, cross(b, c))


def kinematics(
    q: Float[Array, "... 9"], angular_velocity: Float[Array, "... 3"]
) -> Float[Array, "... 9"]:
    """The rate of the directors, R (Omega x e_j), for a body-frame angular velocity [rad/s]."""
    a, b, c = _split(q)
    omega = Vec3.of(angular_velocity)
    rates = [b * omega.z - c * omega.y, c * omega.x - a * omega.z, a * omega.y - b * omega.x]
    return _join([rate.array() for rate in rates])


def angular_velocity(
    q: Float[Array, "... 9"], rate: Float[Array, "... 9"]
) -> Float[Array, "... 3"]:
    """The body-frame angular velocity [rad/s] of orthonormal directors that change at `rate`.

    The inverse of `kinematics`, from the skew part of R^T R'.
    """
    a, b, c = _split(q)
    da, db, dc = _split(rate)
    twice = Vec3(
        dot(c, db) - dot(b, dc),
        dot(a, dc) - dot(c, da),
        dot(b, da) - dot(a, db),
    )
    return (twice * 0.5).array()


def retract(q: Float[Array, "... 9"], step: Float[Array, "... 3"]) -> Float[Array, "... 9"]:
    """The directors turned further about themselves by a rotation vector [rad]."""
    return from_matrix(so3.retract(to_matrix(q), step))


def local(start: Float[Array, "... 9"], end: Float[Array, "... 9"]) -> Float[Array, "... 3"]:
    """The step, of length at most pi, with retract(start, step) = end."""
    return so3.local(to_matrix(start), to_matrix(end))


def _split(q: Float[Array, "... 9"]) -> tuple[Vec3, Vec3, Vec3]:
    return Vec3.of(q[..., 0:3]), Vec3.of(q[..., 3:6]), Vec3.of(q[..., 6:9])


def _join(vectors) -> Float[Array, "... 9"]:
    return jnp.concatenate(vectors, axis=-1)


publish(__name__)
