"""Unit quaternions, scalar first, Hamilton product, body to world.

Arrays of shape (..., 4); a rotation vector has shape (..., 3) and unit radian. q and -q
are one rotation.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Quat, Vec3, cross, dot, rotate as _rotate, safe_divide, safe_sqrt


def multiply(p: Float[Array, "... 4"], q: Float[Array, "... 4"]) -> Float[Array, "... 4"]:
    """The Hamilton product p q: first q, then p."""
    return (Quat.of(p) * Quat.of(q)).array()


def conjugate(q: Float[Array, "... 4"]) -> Float[Array, "... 4"]:
    """The inverse rotation of a unit quaternion."""
    return Quat.of(q).conjugate().array()


def rotate(q: Float[Array, "... 4"], a: Float[Array, "... 3"]) -> Float[Array, "... 3"]:
    """q a conj(q): the body vector `a` in world axes."""
    return _rotate(Quat.of(q), Vec3.of(a)).array()


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
    squared = dot(a, a)
    small = squared < jnp.finfo(squared.dtype).eps ** 0.5
    angle = safe_sqrt(jnp.where(small, 0.0, squared))
    # sin(t/2)/t and cos(t/2) from their series in t^2 where the quotient would lose its
    # derivative; the next terms are below round-off there.
    half_sinc = jnp.where(
        small, 0.5 - squared / 48, safe_divide(jnp.sin(angle / 2), angle, otherwise=0.5)
    )
    cosine = jnp.where(small, 1 - squared / 8 + squared * squared / 384, jnp.cos(angle / 2))
    return Quat(cosine, a * half_sinc).array()


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
