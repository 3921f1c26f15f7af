"""Unit quaternions, scalar first, Hamilton product, body to world.

Arrays of shape (..., 4); a rotation vector has shape (..., 3) and unit radian. q and -q
are one rotation. The Lie algebra is that of angular velocities [rad/s] in body axes, which
`hat` takes to pure quaternions; the Jacobians of `exp` are those of `so3`.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._help import publish
from ..math import (
    Quat,
    Vec3,
    axial,
    cross,
    dot,
    rotate as _rotate,
    safe_divide,
    safe_sqrt,
    stumpff,
)
from .dexp import (
    left_jacobian as left_jacobian,
    left_jacobian_inverse as left_jacobian_inverse,
    right_jacobian as right_jacobian,
    right_jacobian_inverse as right_jacobian_inverse,
)


def multiply(p: Float[Array, "... 4"], q: Float[Array, "... 4"]) -> Float[Array, "... 4"]:
    """The Hamilton product p q: first q, then p."""
    return (Quat.of(p) * Quat.of(q)).array()


def conjugate(q: Float[Array, "... 4"]) -> Float[Array, "... 4"]:
    """The inverse rotation of a unit quaternion."""
    return Quat.of(q).conjugate().array()


def inverse(q: Float[Array, "... 4"]) -> Float[Array, "... 4"]:
    """conj(q)/|q|^2, the inverse of a quaternion of any length but zero."""
    p = Quat.of(q)
    return (p.conjugate() / p.norm_squared()).array()


def rotate(q: Float[Array, "... 4"], a: Float[Array, "... 3"]) -> Float[Array, "... 3"]:
    """q a conj(q): the body vector `a` in world axes."""
    return _rotate(Quat.of(q), Vec3.of(a)).array()


def hat(a: Float[Array, "... 3"]) -> Float[Array, "... 4"]:
    """The pure quaternion (0, a/2) of an angular velocity: q' = q hat(Omega)."""
    v = Vec3.of(a)
    return Quat(jnp.zeros_like(v.x), v * 0.5).array()


def vee(q: Float[Array, "... 4"]) -> Float[Array, "... 3"]:
    """The inverse of `hat`, of the vector part: twice that."""
    return (Quat.of(q).v * 2.0).array()


def to_matrix(q: Float[Array, "... 4"]) -> Float[Array, "... 3 3"]:
    """The rotation matrix R with R a = q a conj(q), shape (..., 3, 3)."""
    w, x, y, z = q[..., 0], q[..., 1], q[..., 2], q[..., 3]
    row1 = jnp.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1)
    row2 = jnp.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1)
    row3 = jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1)
    return jnp.stack([row1, row2, row3], axis=-2)


def exp(rotation_vector: Float[Array, "... 3"]) -> Float[Array, "... 4"]:
    """cos(t/2), sin(t/2) n for the rotation vector t n; smooth at zero."""
    a = Vec3.of(rotation_vector)
    x = dot(a, a) / 4
    return Quat(stumpff(0, x), a * (0.5 * stumpff(1, x))).array()


def log(q: Float[Array, "... 4"]) -> Float[Array, "... 3"]:
    """The rotation vector [rad], of length at most pi, of a unit quaternion.

    Smooth at the identity; at half a turn one of the two vectors +-pi n is returned.
    """
    sign = jnp.where(q[..., :1] < 0, -1.0, 1.0)
    p = Quat.of(q * sign)
    squared = dot(p.v, p.v)
    small = squared < jnp.finfo(squared.dtype).eps ** 0.5
    sine = safe_sqrt(jnp.where(small, 0.0, squared))
    cosine = jnp.where(small, 1.0, p.w)
    # 2 atan2(s, w)/s; for small s, w = sqrt(1 - s^2) makes it 2 asin(s)/s = 2 + s^2/3 + ...
    factor = jnp.where(
        small, 2 + squared / 3, safe_divide(2 * jnp.arctan2(sine, cosine), sine, otherwise=2.0)
    )
    return (p.v * factor).array()


def cayley(f: Float[Array, "... 3"]) -> Float[Array, "... 4"]:
    """(1, f)/sqrt(1 + f.f), the unit quaternion of the Cayley rotation of `f` = tan(t/2) n."""
    v = Vec3.of(f)
    return (Quat(jnp.ones_like(v.x), v) / jnp.sqrt(1 + dot(v, v))).array()


def kinematics(
    q: Float[Array, "... 4"], angular_velocity: Float[Array, "... 3"]
) -> Float[Array, "... 4"]:
    """The rate of q, q (0, Omega)/2, for a body-frame angular velocity [rad/s]."""
    p, omega = Quat.of(q), Vec3.of(angular_velocity)
    return Quat(-0.5 * dot(p.v, omega), (omega * p.w + cross(p.v, omega)) * 0.5).array()


def cayley_inverse(q: Float[Array, "... 4"]) -> Float[Array, "... 3"]:
    """The f = tan(t/2) n of `cayley`, the same for q and -q.

    At half a turn there is none: the components along which the axis lies are infinite then.
    """
    p = Quat.of(q)

    def quotient(component):
        # 0/0 at half a turn is 0: the axis has no such component.
        none = (component == 0) & (p.w == 0)
        return jnp.where(none, 0.0, component / jnp.where(none, 1.0, p.w))

    return Vec3(quotient(p.v.x), quotient(p.v.y), quotient(p.v.z)).array()


def Ad(q: Float[Array, "... 4"]) -> Float[Array, "... 3 3"]:
    """The adjoint action of a unit quaternion on angular velocities: its rotation matrix."""
    return to_matrix(q)


def ad(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
    """The bracket: ad(a) b = a x b, for hat(a) hat(b) - hat(b) hat(a) = hat(a x b)."""
    return axial(Vec3.of(a), 0.0, 1.0, 0.0).matrix()


def retract(q: Float[Array, "... 4"], step: Float[Array, "... 3"]) -> Float[Array, "... 4"]:
    """q exp(step): turned further about its own axes by a rotation vector [rad]."""
    return multiply(q, exp(step))


def local(p: Float[Array, "... 4"], q: Float[Array, "... 4"]) -> Float[Array, "... 3"]:
    """The step, of length at most pi, with retract(p, step) = q up to sign."""
    return log(multiply(conjugate(p), q))


def E(q: Float[Array, "... 4"]) -> Float[Array, "... 3 4"]:
    """E(q) = [-v, w I + S(v)], with omega = 2 E(q) q' in the world frame, R = E G^T.

    Betsch and Siebert, eqs. (11), (12), (14); Geradin and Rixen's H, eq. (201).
    """
    return _three_by_four(q, 1.0)


def G(q: Float[Array, "... 4"]) -> Float[Array, "... 3 4"]:
    """G(q) = [-v, w I - S(v)], with Omega = 2 G(q) q' in the body frame, q' = G^T Omega/2.

    Betsch and Siebert, eqs. (11), (12), (14); Geradin and Rixen, eq. (201); the transpose of
    Acary and Bonnefon's Psi, eq. (95).
    """
    return _three_by_four(q, -1.0)


def _three_by_four(q, spin):
    p = Quat.of(q)
    return jnp.concatenate([-q[..., 1:, None], axial(p.v, p.w, spin, 0.0).matrix()], axis=-1)


def Q_l(q: Float[Array, "... 4"]) -> Float[Array, "... 4 4"]:
    """The matrix of multiplication from the left: q p = Q_l(q) p.

    Betsch and Siebert, eq. (10); Geradin and Rixen's A, eq. (242).
    """
    return jnp.concatenate([q[..., None], jnp.swapaxes(G(q), -1, -2)], axis=-1)


def Q_r(q: Float[Array, "... 4"]) -> Float[Array, "... 4 4"]:
    """The matrix of multiplication from the right: p q = Q_r(q) p.

    Betsch and Siebert, eq. (10); Geradin and Rixen's B, eq. (242).
    """
    return jnp.concatenate([q[..., None], jnp.swapaxes(E(q), -1, -2)], axis=-1)


publish(__name__)
