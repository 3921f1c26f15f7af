"""The interface of joints, and the checks that their constructors share."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._validate import body_index, known, nonnegative, real_array, require
from ...math import Quat, Vec3, cross, dot, rotate

ORIGIN = (0.0, 0.0, 0.0)
UPRIGHT = (1.0, 0.0, 0.0, 0.0)


class AbstractJoint(eqx.Module):
    """What ties a point of a body to a point of another one, or of the world.

    Attributes:
        body: index in `World.bodies`.
        anchor: the point of the body, body frame, from its centre of mass [m], shape (3,).
        other: index of the other body; None means the world.
    """

    body: eqx.AbstractVar[int]
    anchor: eqx.AbstractVar[Float[Array, "3"]]
    other: eqx.AbstractVar[int | None]

    @abc.abstractmethod
    def held_at(self) -> Float[Array, "3"]:
        """The point of the other body, in its frame and from its centre of mass, or of the world,
        world frame [m], shape (3,)."""

    @property
    def bodies(self) -> tuple[int, ...]:
        """The bodies that it joins, the world not counted."""
        return (self.body,) if self.other is None else (self.body, self.other)


class Acting(NamedTuple):
    """What acts along one coordinate of a joint; units are those of angles or of lengths."""

    limits: Float[Array, "2"] | None  # least and greatest coordinate
    stiffness: Float[Array, ""] | None  # of a spring
    damping: Float[Array, ""] | None  # of a damper
    friction: Float[Array, ""] | None  # the largest dry friction
    armature: Float[Array, ""] | None  # inertia of a rotor that turns with it
    rest: Float[Array, ""]  # of the spring


class AbstractMovingJoint(AbstractJoint):
    """A joint that leaves some motions free, each along a coordinate: an angle or a displacement.

    Attributes:
        reference: turns vectors of the body frame into the frame of the other body, or of the
            world, where the coordinates are zero: a quaternion of any length but zero, shape (4,).
    """

    reference: eqx.AbstractVar[Float[Array, "4"]]

    @property
    @abc.abstractmethod
    def motion_axes(self) -> tuple[Float[Array, "3"], ...]:
        """Of each coordinate the axis where all are zero, body frame, of any length but zero."""

    @property
    @abc.abstractmethod
    def acting(self) -> tuple[Acting, ...]:
        """What acts along each coordinate."""

    @property
    def n_coordinates(self) -> int:
        """How many coordinates there are."""
        return len(self.acting)


class AbstractAxisJoint(AbstractMovingJoint):
    """A joint that leaves one motion free: about or along one axis.

    Attributes:
        axis: of the motion, body frame, of any length but zero, shape (3,).
        limits: least and greatest coordinate, shape (2,), or None.
        stiffness: of a spring along the coordinate, or None.
        damping: of a damper along it, or None.
        friction: the largest dry friction along it, or None.
        armature: inertia of a rotor that turns with it, or None.
    """

    axis: eqx.AbstractVar[Float[Array, "3"]]
    limits: eqx.AbstractVar[Float[Array, "2"] | None]
    stiffness: eqx.AbstractVar[Float[Array, ""] | None]
    damping: eqx.AbstractVar[Float[Array, ""] | None]
    friction: eqx.AbstractVar[Float[Array, ""] | None]
    armature: eqx.AbstractVar[Float[Array, ""] | None]

    @property
    @abc.abstractmethod
    def rest(self) -> Float[Array, ""]:
        """The coordinate at which the spring is at rest."""

    @property
    def motion_axes(self) -> tuple[Float[Array, "3"], ...]:
        return (self.axis,)

    @property
    def acting(self) -> tuple[Acting, ...]:
        parts = (self.limits, self.stiffness, self.damping, self.friction, self.armature)
        return (Acting(*parts, self.rest),)

    @property
    def other_axis(self) -> Float[Array, "3"]:
        """The axis in the frame of the other body, or of the world, as long as `axis`."""
        turn = Quat.of(self.reference).normalized()
        return rotate(turn, Vec3.of(self.axis)).array()


class Ends(NamedTuple):
    """The attributes of a joint."""

    body: int
    anchor: Array
    other: int | None
    other_anchor: Array


def ends(kind: str, body: Any, anchor: Any, other: Any, other_anchor: Any) -> Ends:
    """The attributes of a joint, checked.

    Raises:
        ValueError: naming the argument of `kind` that is not understood.
    """
    body = body_index(body, f"{kind}.body")
    if other is not None:
        other = body_index(other, f"{kind}.other", "another body, or None for the world")
        if other == body:
            raise ValueError(f"{kind}.other must be another body than {kind}.body = {body}.")
    here = finite_vector(anchor, f"{kind}.anchor")
    return Ends(body, here, other, finite_vector(other_anchor, f"{kind}.other_anchor"))


def finite_vector(value: Any, name: str) -> Float[Array, "3"]:
    """`value` as three finite numbers; raises `ValueError` otherwise."""
    vector = real_array(value, name, (3,))
    require(vector, name, np.isfinite, "finite")
    return vector


def axis_vector(value: Any, name: str) -> Float[Array, "3"]:
    """`value` as a vector that has a direction; raises `ValueError` otherwise."""
    vector = real_array(value, name, (3,))
    require(vector, name, _nonzero, "finite and not zero")
    return vector


def reference_turn(kind: str, axis: Array, other_axis: Any, reference: Any) -> Float[Array, "4"]:
    """The reference orientation, as it is given, or by the axis in the other frame.

    Raises:
        ValueError: if both are given, or what is given is not understood.
    """
    if reference is not None and other_axis is not None:
        raise ValueError(f"{kind}.reference and {kind}.other_axis: give one of them at most.")
    if other_axis is not None:
        return _shortest_turn(kind, axis, axis_vector(other_axis, f"{kind}.other_axis"))
    turn = real_array(UPRIGHT if reference is None else reference, f"{kind}.reference", (4,))
    require(turn, f"{kind}.reference", _nonzero, "finite and not zero")
    return turn


def interval(value: Any, name: str) -> Float[Array, "2"] | None:
    """`value` as a pair of limits, the lower one first, or None.

    Raises:
        ValueError: if they are not in order, or not finite.
    """
    if value is None:
        return None
    limits = real_array(value, name, (2,))
    ordered = lambda pair: np.isfinite(pair).all() and pair[0] <= pair[1]  # noqa: E731
    require(limits, name, ordered, "finite (lower, upper) with lower <= upper")
    return limits


def part(value: Any, name: str) -> Float[Array, ""] | None:
    """`value` as a number of at least 0; None for the Python number 0, which leaves the part out
    of the program."""
    if value is None or (isinstance(value, int | float) and value == 0):
        return None
    return nonnegative(value, name)


def finite_scalar(value: Any, name: str) -> Float[Array, ""]:
    """`value` as one finite number; raises `ValueError` otherwise."""
    number = real_array(value, name, ())
    require(number, name, np.isfinite, "finite")
    return number


def _nonzero(numbers: np.ndarray) -> bool:
    return bool(np.all(np.isfinite(numbers)) and np.any(numbers != 0))


def _shortest_turn(kind: str, axis: Array, other_axis: Array) -> Float[Array, "4"]:
    here, there = Vec3.of(axis), Vec3.of(other_axis)
    lengths = jnp.sqrt(dot(here, here) * dot(there, there))
    turn = Quat(lengths + dot(here, there), cross(here, there)).array()
    # Of opposite axes this quaternion is zero, and next to that it is round-off.
    numbers = known(turn / lengths)
    if numbers is not None and np.sum(numbers**2) <= 1e-12:
        raise ValueError(
            f"{kind}.other_axis is opposite to {kind}.axis, so that no turn between them is the "
            f"shortest: give {kind}.reference."
        )
    return turn
