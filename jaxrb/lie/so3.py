"""The rotation group SO(3): matrices of shape (..., 3, 3), body to world.

The Lie algebra is that of angular velocities; `left` is the world frame and `right` the body
frame, by the side of the rotation on which the increment stands.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._help import publish
from ..math import Mat3, Quat, Vec3, tree_where
from . import quaternion
from .dexp import (
    left_jacobian as left_jacobian,
    left_jacobian_inverse as left_jacobian_inverse,
    right_jacobian as right_jacobian,
    right_jacobian_inverse as right_jacobian_inverse,
)


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
    """The f of `cayley`; at half a turn there is none (see `quaternion.cayley_inverse`)."""
    return quaternion.cayley_inverse(to_quaternion(rotation))


def Ad(rotation: Float[Array, "... 3 3"]) -> Float[Array, "... 3 3"]:
    """The adjoint action, S(Ad(R) a) = R S(a) R^T: the rotation matrix itself."""
    return rotation


def ad(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
    """The bracket, ad(a) b = a x b: the skew matrix itself."""
    return hat(a)


def retract(
    rotation: Float[Array, "... 3 3"], step: Float[Array, "... 3"]
) -> Float[Array, "... 3 3"]:
    """R exp(step): turned further about the body's own axes by a rotation vector [rad]."""
    return Mat3.of(rotation).matmul(Mat3.of(exp(step))).matrix()


def local(start: Float[Array, "... 3 3"], end: Float[Array, "... 3 3"]) -> Float[Array, "... 3"]:
    """The step, of length at most pi, with retract(start, step) = end."""
    return log(Mat3.of(start).transpose().matmul(Mat3.of(end)).matrix())


def to_quaternion(rotation: Float[Array, "... 3 3"]) -> Float[Array, "... 4"]:
    """The unit quaternion with non-negative scalar part, by Spurrier's method.

    The largest of the four components is taken from a square root and the others from
    quotients by it, so no digit is lost at any rotation. Geradin and Rixen, eqs. (203)-(205).
    """
    r = Mat3.of(rotation)
    trace = r.row1.x + r.row2.y + r.row3.z
    skew = Vec3(r.row3.y - r.row2.z, r.row1.z - r.row3.x, r.row2.x - r.row1.y)
    yz, zx, xy = r.row2.z + r.row3.y, r.row3.x + r.row1.z, r.row1.y + r.row2.x
    xx, yy, zz = (1 + 2 * entry - trace for entry in (r.row1.x, r.row2.y, r.row3.z))
    # Row k of eq. (204) holds 4 q_k (q_0, q_1, q_2, q_3); take that of the largest 4 q_k^2.
    row, largest = Quat(1 + trace, skew), 1 + trace
    for diagonal, other in (
        (xx, Quat(skew.x, Vec3(xx, xy, zx))),
        (yy, Quat(skew.y, Vec3(xy, yy, yz))),
        (zz, Quat(skew.z, Vec3(zx, yz, zz))),
    ):
        larger = diagonal > largest
        row, largest = tree_where(larger, other, row), jnp.where(larger, diagonal, largest)
    q = row / (2 * jnp.sqrt(largest))  # the largest is at least 1
    return tree_where(q.w < 0, Quat(-q.w, -q.v), q).array()


publish(__name__)
