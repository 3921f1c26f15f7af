"""Angular velocity and acceleration from the invariants of a rotation, axis n and angle phi.

The axis stays a unit vector: n . n' = 0 and n . n'' = -n' . n' are taken for granted. Axes
and their rates have shape (..., 3); the angle [rad] and its rates have the leading shape.
Names without a frame give body-frame vectors, as everywhere; for `spatial_` ones the world
frame. Geradin and Rixen, sections 3.2, 4.2 and 4.3.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Vec3, cross, norm, safe_divide
from .checks import unit_vectors, vectors


def angular_velocity(
    axis: Float[Array, "... 3"],
    angle: Float[Array, "..."],
    axis_rate: Float[Array, "... 3"],
    angle_rate: Float[Array, "..."],
) -> Float[Array, "... 3"]:
    """Omega = M n' + n phi' [rad/s], eqs. (104) and (105), in the body frame."""
    return _velocity(-1.0, axis, angle, axis_rate, angle_rate)


def spatial_angular_velocity(
    axis: Float[Array, "... 3"],
    angle: Float[Array, "..."],
    axis_rate: Float[Array, "... 3"],
    angle_rate: Float[Array, "..."],
) -> Float[Array, "... 3"]:
    """omega = M^T n' + n phi' [rad/s], eqs. (104) and (105), in the world frame."""
    return _velocity(1.0, axis, angle, axis_rate, angle_rate)


def angular_acceleration(
    axis: Float[Array, "... 3"],
    angle: Float[Array, "..."],
    axis_rate: Float[Array, "... 3"],
    angle_rate: Float[Array, "..."],
    axis_acceleration: Float[Array, "... 3"],
    angle_acceleration: Float[Array, "..."],
) -> Float[Array, "... 3"]:
    """Omega' = M n'' + n phi'' + N n' + n' phi' [rad/s^2], eqs. (130) and (131), body frame."""
    return _acceleration(
        -1.0, axis, angle, axis_rate, angle_rate, axis_acceleration, angle_acceleration
    )


def spatial_angular_acceleration(
    axis: Float[Array, "... 3"],
    angle: Float[Array, "..."],
    axis_rate: Float[Array, "... 3"],
    angle_rate: Float[Array, "..."],
    axis_acceleration: Float[Array, "... 3"],
    angle_acceleration: Float[Array, "..."],
) -> Float[Array, "... 3"]:
    """omega' = M^T n'' + n phi'' + N^T n' + n' phi' [rad/s^2], eqs. (130), (131), world frame."""
    return _acceleration(
        1.0, axis, angle, axis_rate, angle_rate, axis_acceleration, angle_acceleration
    )


def instantaneous_axis_rate(
    angular_velocity_world: Float[Array, "... 3"],
    angular_acceleration_world: Float[Array, "... 3"],
) -> Float[Array, "... 3"]:
    """The rate f' [1/s] of the instantaneous axis f = omega/|omega|, eq. (138).

    (I - f f^T) omega'/|omega|; zero at rest, where there is no axis.
    """
    omega = Vec3.of(vectors(angular_velocity_world, "angular_velocity_world", 3))
    rate = Vec3.of(vectors(angular_acceleration_world, "angular_acceleration_world", 3))
    inverse = safe_divide(jnp.ones_like(omega.x), norm(omega))
    f = omega * inverse
    return (cross(f, cross(rate, f)) * inverse).array()


def _velocity(sign, axis, angle, axis_rate, angle_rate):
    """Applies M for sign -1 and M^T for sign 1."""
    n, dn = _vectors(axis, axis_rate)
    return (_m(sign, n, angle, dn) + n * angle_rate).array()


def _acceleration(sign, axis, angle, axis_rate, angle_rate, axis_acceleration, angle_acceleration):
    n, dn = _vectors(axis, axis_rate)
    ddn = Vec3.of(vectors(axis_acceleration, "axis_acceleration", 3))
    # N n' + n' phi', with N = phi' (cos phi I - sin phi S(n)) or its transpose.
    turning = dn * (1 + jnp.cos(angle)) + cross(n, dn) * (sign * jnp.sin(angle))
    return (_m(sign, n, angle, ddn) + n * angle_acceleration + turning * angle_rate).array()


def _vectors(axis, axis_rate) -> tuple[Vec3, Vec3]:
    return Vec3.of(unit_vectors(axis, "axis", 3)), Vec3.of(vectors(axis_rate, "axis_rate", 3))


def _m(sign, n: Vec3, angle, a: Vec3) -> Vec3:
    """M a, or M^T a, with M = sin phi I - (1 - cos phi) S(n), eq. (105)."""
    # 1 - cos phi would keep no digit at small angles.
    versine = 2 * jnp.sin(angle / 2) ** 2
    return a * jnp.sin(angle) + cross(n, a) * (sign * versine)
