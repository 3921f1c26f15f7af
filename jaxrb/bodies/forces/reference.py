"""References that a body is to follow, with their velocities and accelerations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._validate import real_array
from ...lie import so3
from ...math import Quat, Vec3, dot
from ..phase import Phase
from .base import Time
from .function import Function, kind

Axes = tuple[Vec3, Vec3, Vec3]
Tree = TypeVar("Tree")


class DesiredAttitude(eqx.Module):
    """An attitude and how it changes."""

    orientation: Quat  # R_d, desired frame to world, unit
    angular_velocity: Vec3  # Omega_d, desired frame [rad/s]
    angular_acceleration: Vec3  # dOmega_d/dt, desired frame [rad/s^2]

    @staticmethod
    def along(curve: Callable[[Float[Array, ""]], Quat], t: Float[Array, ""]) -> DesiredAttitude:
        """Of a curve of unit quaternions at a time [s]."""
        q, rate, bend = derivatives(curve, t, 2)
        # q' = q (0, Omega)/2. One more derivative adds conj(q') q', which is a real number.
        back = q.conjugate()
        return DesiredAttitude(q, (back * rate).v * 2.0, (back * bend).v * 2.0)

    @staticmethod
    def of_axes(axes: Axes, rates: Axes, bends: Axes) -> DesiredAttitude:
        """Of the axes of the frame in the world, and their derivatives by the time."""
        matrix = jnp.stack([axis.array() for axis in axes], axis=-1)
        q = Quat.of(so3.to_quaternion(matrix))
        # Of the skew matrix R^T R', and of its derivative R^T R'' + R'^T R'.
        velocity = _skew(axes, rates)
        return DesiredAttitude(q, velocity, _skew(axes, bends) + _skew(rates, rates))


def _skew(a: Axes, b: Axes) -> Vec3:
    """The entries of A^T B that are those of a vector if that is skew."""
    return Vec3(dot(a[2], b[1]), dot(a[0], b[2]), dot(a[1], b[0]))


def derivatives(
    curve: Callable[[Float[Array, ""]], Tree], t: Float[Array, ""], order: int
) -> tuple[Tree, ...]:
    """The point of a curve at t and its derivatives by t up to an order."""
    if order == 0:
        return (curve(t),)
    found, rates = jax.jvp(lambda t: derivatives(curve, t, order - 1), (t,), (jnp.ones_like(t),))
    return (*found, rates[-1])


def pose_at(function: Function, t: Float[Array, ""], args: Any, name: str) -> tuple[Vec3, Quat]:
    """The position [m] and the unit quaternion that a function of the user gives at a time [s], in
    the precision of the time.

    Raises:
        ValueError: if it returns no such pair.
    """
    parts = {"position": (3,), "quaternion": (4,)}
    position, quaternion = arrays_at(function, t, args, name, parts)
    return Vec3.of(position), Quat.of(quaternion).normalized()


def arrays_at(
    function: Function, t: Float[Array, ""], args: Any, name: str, parts: dict[str, tuple[int, ...]]
) -> list[Array]:
    """What a function of the user gives at a time [s], in the precision of the time.

    Args:
        function: of the time and args.
        t: time [s].
        args: of `simulate`.
        name: of the function.
        parts: the names of the two arrays that it is to return, with their shapes.

    Raises:
        ValueError: if it returns no such pair.
    """
    found = function(t, args)
    if not isinstance(found, tuple | list) or len(found) != len(parts):
        names, shapes = ", ".join(parts), " and ".join(map(str, parts.values()))
        raise ValueError(
            f"{name} must return a pair ({names}) of shapes {shapes}; got {kind(found)}."
        )
    return [
        array_at(value, t, f"The {part} that {name} returns", shape)
        for value, (part, shape) in zip(found, parts.items(), strict=True)
    ]


def array_at(found: Any, t: Float[Array, ""], name: str, shape: tuple[int, ...]) -> Array:
    """What a function gave, as an array in the precision of the time; `ValueError` if it is none of
    that shape."""
    return real_array(found, name, shape).astype(t.dtype)


def time_of(t: Time, phase: Phase) -> Float[Array, ""]:
    """The time as an array in the precision of a phase, by which can be differentiated."""
    return jnp.asarray(t, phase.position.x.dtype)
