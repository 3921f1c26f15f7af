"""The rotation group SO(3): matrices of shape (..., 3, 3), body to world."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Quat, Vec3
from . import quaternion


def hat(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
    """The skew matrix S(a) with S(a) b = a x b."""
    x, y, z = a[..., 0], a[..., 1], a[..., 2]
    zero = jnp.zeros_like(x)
    rows = [[zero, -z, y], [z, zero, -x], [-y, x, zero]]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def vee(matrix: Float[Array, "... 3 3"]) -> Float[Array, "... 3"]:
    """The inverse of `hat`, of the skew part of a matrix."""
    skew = (matrix - jnp.swapaxes(matrix, -1, -2)) / 2
    return jnp.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], axis=-1)


def exp(rotation_vector: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
    """The rotation by a rotation vector [rad]; smooth at zero."""
    return quaternion.to_matrix(quaternion.exp(rotation_vector))


def log(rotation: Float[Array, "... 3 3"]) -> Float[Array, "... 3"]:
    """The rotation vector [rad], of length at most pi, of a rotation matrix.

    Accurate over the whole group, half turns included (see `to_quaternion`).
    """
    return quaternion.log(to_quaternion(rotation))


def cayley(f: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
    """(I + S(f)) (I - S(f))^{-1}, the rotation about f by the angle 2 atan(|f|)."""
    return quaternion.to_matrix(quaternion.cayley(f))


def cayley_inverse(rotation: Float[Array, "... 3 3"]) -> Float[Array, "... 3"]:
    """The f of `cayley`; not finite at half a turn, where there is none."""
    q = Quat.of(to_quaternion(rotation))
    return (Vec3(q.v.x, q.v.y, q.v.z) / q.w).array()


def to_quaternion(rotation: Float[Array, "... 3 3"]) -> Float[Array, "... 4"]:
    """The unit quaternion with non-negative scalar part, by Spurrier's method.

    The largest of the four components is taken from a square root and the others from
    quotients by it, so no digit is lost at any rotation.
    """
    r = rotation
    trace = r[..., 0, 0] + r[..., 1, 1] + r[..., 2, 2]
    # Row k holds 4 q_k (q_0, q_1, q_2, q_3).
    rows = jnp.stack(
        [
            jnp.stack(
                [
                    1 + trace,
                    r[..., 2, 1] - r[..., 1, 2],
                    r[..., 0, 2] - r[..., 2, 0],
                    r[..., 1, 0] - r[..., 0, 1],
                ],
                axis=-1,
            ),
            jnp.stack(
                [
                    r[..., 2, 1] - r[..., 1, 2],
                    1 + 2 * r[..., 0, 0] - trace,
                    r[..., 0, 1] + r[..., 1, 0],
                    r[..., 0, 2] + r[..., 2, 0],
                ],
                axis=-1,
            ),
            jnp.stack(
                [
                    r[..., 0, 2] - r[..., 2, 0],
                    r[..., 0, 1] + r[..., 1, 0],
                    1 + 2 * r[..., 1, 1] - trace,
                    r[..., 1, 2] + r[..., 2, 1],
                ],
                axis=-1,
            ),
            jnp.stack(
                [
                    r[..., 1, 0] - r[..., 0, 1],
                    r[..., 0, 2] + r[..., 2, 0],
                    r[..., 1, 2] + r[..., 2, 1],
                    1 + 2 * r[..., 2, 2] - trace,
                ],
                axis=-1,
            ),
        ],
        axis=-2,
    )
    diagonal = jnp.diagonal(rows, axis1=-2, axis2=-1)
    best = jnp.argmax(diagonal, axis=-1)[..., None]
    row = jnp.take_along_axis(rows, best[..., None], axis=-2)[..., 0, :]
    largest = jnp.take_along_axis(diagonal, best, axis=-1)
    q = row / (2 * jnp.sqrt(largest))  # the largest is at least 1
    return q * jnp.where(q[..., :1] < 0, -1.0, 1.0)
