"""Rigid motions as screws: a rotation about a line and a translation along it.

All vectors are in the world frame. Geradin and Rixen, sections 2.3 and 3.3.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lie import so3
from ..math import Quat, Vec3, cross, dot, norm, safe_divide, tree_where, zeros_like
from .checks import rotation_matrices, vectors


class Screw(eqx.Module):
    """A finite motion x = R X + x_0 as a screw; leading axes are a batch.

    Attributes:
        axis: unit vector n along the axis of rotation, shape (..., 3).
        angle: of rotation about it [rad], in [0, pi], shape (...).
        pose: the point of the axis nearest to the origin [m], shape (..., 3).
        translation: k, along the axis [m], shape (...).
    """

    axis: Float[Array, "... 3"]
    angle: Float[Array, "..."]
    pose: Float[Array, "... 3"]
    translation: Float[Array, "..."]

    @property
    def pitch(self) -> Float[Array, "..."]:
        """2 pi k/phi [m], the advance per turn, eq. (71); infinite for a pure translation.

        Zero where there is no motion.
        """
        return _pitch(self.translation, self.angle)

    def displacement(self, points: Float[Array, "... 3"]) -> Float[Array, "... 3"]:
        """The displacements k n + (R - I) (X - X_M) of material points [m], eq. (65).

        Shape (..., 3).
        """
        n = Vec3.of(self.axis)
        arm = Vec3.of(vectors(points, "points", 3)) - Vec3.of(self.pose)
        across = cross(n, arm)
        turned = across * jnp.sin(self.angle) + cross(n, across) * (
            2 * jnp.sin(self.angle / 2) ** 2
        )
        return (n * self.translation + turned).array()


def finite_screw(rotation: Float[Array, "... 3 3"], displacement: Float[Array, "... 3"]) -> Screw:
    """The screw of the motion x = R X + x_0.

    At half a turn the axis is that whose largest component is positive. A pure translation
    has the axis of the translation, through the origin; no motion has the axis (1, 0, 0).

    Args:
        rotation: R, shape (..., 3, 3).
        displacement: x_0, of the material point at the origin [m], shape (..., 3).

    Raises:
        ValueError: if shapes disagree or a known `rotation` is not orthogonal to 1e-5.
    """
    q = Quat.of(so3.to_quaternion(rotation_matrices(rotation, "rotation")))
    u = Vec3.of(vectors(displacement, "displacement", 3))
    sine = norm(q.v)
    n = _direction(q.v, u)
    k = dot(n, u)
    # Eq. (69), -D^T u/(2 (1 - cos phi)), without the small denominator.
    inward = cross(n, u) * safe_divide(q.w, sine) + cross(n, cross(u, n))
    pose = tree_where(sine > 0, inward * 0.5, zeros_like(u))
    return Screw(n.array(), 2 * jnp.arctan2(sine, q.w), pose.array(), k)


class InstantaneousScrew(eqx.Module):
    """The velocity field of a rigid body as a screw; leading axes are a batch.

    Attributes:
        axis: unit vector along the angular velocity, shape (..., 3).
        angular_speed: about it [rad/s], shape (...).
        pose: the point x_M of the axis nearest to the world's origin [m], shape (..., 3).
        sliding: u, the velocity along the axis [m/s], shape (...).
    """

    axis: Float[Array, "... 3"]
    angular_speed: Float[Array, "..."]
    pose: Float[Array, "... 3"]
    sliding: Float[Array, "..."]

    @property
    def pitch(self) -> Float[Array, "..."]:
        """2 pi u/|omega| [m], the advance per turn, eq. (120); infinite in pure translation.

        Zero at rest.
        """
        return _pitch(self.sliding, self.angular_speed)

    def velocity(self, points: Float[Array, "... 3"]) -> Float[Array, "... 3"]:
        """The velocities of the body's points at these places [m/s], eq. (121), shape (..., 3)."""
        n = Vec3.of(self.axis)
        arm = Vec3.of(vectors(points, "points", 3)) - Vec3.of(self.pose)
        return (n * self.sliding + cross(n, arm) * self.angular_speed).array()


def instantaneous_screw(
    position: Float[Array, "... 3"],
    velocity: Float[Array, "... 3"],
    angular_velocity_world: Float[Array, "... 3"],
) -> InstantaneousScrew:
    """The screw of a body's motion at one instant.

    Without rotation the axis is that of the velocity, through the origin; at rest it is
    (1, 0, 0).

    Args:
        position: x_0 of the body's reference point [m], shape (..., 3).
        velocity: v_0 of that point [m/s], shape (..., 3).
        angular_velocity_world: omega [rad/s], in the world frame, shape (..., 3).

    Raises:
        ValueError: if shapes disagree.
    """
    x = Vec3.of(vectors(position, "position", 3))
    v = Vec3.of(vectors(velocity, "velocity", 3))
    omega = Vec3.of(vectors(angular_velocity_world, "angular_velocity_world", 3))
    speed = norm(omega)
    n = _direction(omega, v)
    # Eq. (119): the part of x_0 across the axis, and omega x v_0/|omega|^2.
    across = cross(n, cross(x, n)) + cross(n, v) * safe_divide(jnp.ones_like(speed), speed)
    pose = tree_where(speed > 0, across, zeros_like(x))
    return InstantaneousScrew(n.array(), speed, pose.array(), dot(n, v))


def _direction(first: Vec3, second: Vec3) -> Vec3:
    """The unit vector along the first that is not zero, else (1, 0, 0)."""
    one, zero = jnp.ones_like(first.x), jnp.zeros_like(first.x)
    chosen = tree_where(norm(second) > 0, second, Vec3(one, zero, zero))
    chosen = tree_where(norm(first) > 0, first, chosen)
    return chosen / norm(chosen)


def _pitch(translation, angle) -> Float[Array, "..."]:
    moving = (translation != 0) | (angle != 0)
    return jnp.where(moving, 2 * jnp.pi * translation / jnp.where(moving, angle, 1.0), 0.0)
