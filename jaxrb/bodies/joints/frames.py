"""Axes of joints, and how their two bodies are turned against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ...math import Quat, Vec3, cross, dot, rotate, rotate_inverse
from .ends import Pose


def references(joints: Sequence[Any], dtype: DTypeLike) -> Quat:
    """The reference orientations of joints that have one, of length one; components of shape
    (n_joints,)."""
    return Quat.of(jnp.stack([joint.reference.astype(dtype) for joint in joints])).normalized()


class Frames(eqx.Module):
    """Right-handed frames whose third axis is that of a joint; components of shape (n_joints,),
    body frame."""

    across: tuple[Vec3, Vec3]
    axis: Vec3

    @staticmethod
    def of(axes: Sequence[Array], dtype: DTypeLike) -> Frames:
        """Those of axes of any length but zero."""
        axis = Vec3.of(jnp.stack([given.astype(dtype) for given in axes]))
        axis = axis / jnp.sqrt(dot(axis, axis))
        # Two vectors across (Duff et al. 2017). They jump where the third component passes -1/2,
        # and not at 0 as theirs: axes along x and y are common, and derivatives are taken there.
        x, y, z = axis.x, axis.y, axis.z
        sign = jnp.where(z < -0.5, -1.0, 1.0).astype(z.dtype)
        a = -1 / (sign + z)
        b = x * y * a
        one = Vec3(1 + sign * x * x * a, sign * b, -sign * x)
        return Frames((one, Vec3(b, sign + y * y * a, -y)), axis)


def turned(pose: Pose, reference: Quat) -> Quat:
    """The rotation of the body against the other one, from the reference: the unit quaternion
    exp(angle axis / 2) of the body frame, with a scalar part of at least 0.

    Of the two quaternions of a rotation it is the one of less than half a turn, whichever sign
    those of the bodies have.
    """
    e = reference.conjugate() * pose.other_turn.conjugate() * pose.turn
    sign = jnp.where(e.w < 0, -1.0, 1.0).astype(e.w.dtype)
    return Quat(e.w * sign, e.v * sign)


def basis(like: Array) -> tuple[Vec3, Vec3, Vec3]:
    """The three unit vectors, with components of the shape of an array."""
    zero = jnp.zeros_like(like)
    one = zero + 1
    return Vec3(one, zero, zero), Vec3(zero, one, zero), Vec3(zero, zero, one)


def rotation_rows(e: Quat) -> tuple[Vec3, Vec3, Vec3]:
    """The derivatives of the components of 2 v by the relative rotation in the body frame, of a
    rotation e = (w, v): w Omega + v x Omega."""
    x, y, z = (unit * e.w + cross(unit, e.v) for unit in basis(e.w))
    return x, y, z


def angle_about(axis: Vec3, start: Vec3, end: Vec3) -> Float[Array, " n"]:
    """The angle about an axis of length one from one vector to another."""
    cosine = dot(start, end) - dot(axis, start) * dot(axis, end)
    return defined_angle(dot(axis, cross(start, end)), cosine)


def defined_angle(y: Float[Array, " n"], x: Float[Array, " n"]) -> Float[Array, " n"]:
    """arctan2, with the derivative 0 where no angle is defined."""
    return jnp.arctan2(y, jnp.where((x == 0) & (y == 0), 1.0, x).astype(x.dtype))


def two_angles(e: Quat, first: Vec3, second: Vec3) -> tuple[Array, Array]:
    """The angles of the rotation e = exp(q1 a1) exp(q2 a2), which turns a2 by q1 about a1."""
    return (
        angle_about(first, second, rotate(e, second)),
        angle_about(second, rotate_inverse(e, first), first),
    )


def rates_of_two_angles(e: Quat, first: Vec3, second: Vec3) -> tuple[Vec3, Vec3]:
    """The vectors of the body frame whose products with the angular velocity are the rates of
    `two_angles`, exactly so for every rotation e."""
    first = rotate_inverse(e, first)
    along = dot(first, second)
    share = 1 / (1 - along * along)
    return (first - second * along) * share, (second - first * along) * share
