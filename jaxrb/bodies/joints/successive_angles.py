"""The angles of universal joints and gimbals.

R is the rotation of the body against the other one, from the reference, and Omega its angular
velocity in the body frame. With the axes g_k about which the angles turn, in the same frame,

    Omega = g_1 dq_1/dt + g_2 dq_2/dt (+ g_3 dq_3/dt),

and the rates of the angles are the products of Omega with the vectors dual to the g_k.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ...math import (
    Quat,
    Vec3,
    cross,
    dot,
    rotate_inverse,
    safe_divide,
    safe_sqrt,
    tree_where,
)
from .coordinate import AbstractAngle, Middle, Motion
from .ends import Ends, turning_row
from .frames import (
    Frames,
    defined_angle,
    rates_of_two_angles,
    references,
    turned,
    two_angles,
)

# The sine within which a second angle is taken to be where it turns back.
_LOCKED = 1e-3


class AbstractSuccessive(AbstractAngle):
    """Angles about axes, one after the other; components of shape (n,).

    Attributes:
        axes: where the angles are 0, body frame.
        reference: the orientation there.
        which: of each coordinate the number of its axis.
    """

    axes: eqx.AbstractVar[tuple[Vec3, ...]]
    reference: eqx.AbstractVar[Quat]
    which: eqx.AbstractVar[tuple[int, ...]]

    @abc.abstractmethod
    def _angles(self, e: Quat) -> tuple[Float[Array, " n"], ...]:
        """All angles of each joint, up to full turns, of a rotation from the reference."""

    @abc.abstractmethod
    def _duals(self, e: Quat) -> tuple[Vec3, ...]:
        """What the rates of all angles are the products of the angular velocity with."""

    def row(self, phase):
        pose = self.ends.pose(phase)
        return turning_row(pose, self._own(self._duals(turned(pose, self.reference))))

    def near(self, phase, middle):
        beyond = self._own(self._angles(turned(self.ends.pose(phase), self.reference))) - middle
        return middle + beyond - 2 * np.pi * jnp.ceil(beyond / (2 * np.pi) - 0.5)

    def _own(self, of_axes: tuple[Any, ...]) -> Any:
        """Of what is known for all axes that of each coordinate."""
        chosen = of_axes[0]
        for axis, other in enumerate(of_axes[1:], start=1):
            chosen = tree_where(jnp.asarray(np.array(self.which) == axis), other, chosen)
        return chosen


class AnglesOfUniversals(AbstractSuccessive):
    """The angles (q1, q2) of R = exp(q1 a1) exp(q2 a2)."""

    ends: Ends
    axes: tuple[Vec3, Vec3]
    reference: Quat
    middle: Middle
    which: tuple[int, ...] = eqx.field(static=True)

    @staticmethod
    def of(motions: Sequence[Motion], ends: Ends, dtype: DTypeLike) -> AnglesOfUniversals:
        """Those of universal joints."""
        return AnglesOfUniversals(ends=ends, **_turning(motions, dtype))

    def _angles(self, e):
        return two_angles(e, *self.axes)

    def _duals(self, e):
        return rates_of_two_angles(e, *self.axes)


class AnglesOfGimbals(AbstractSuccessive):
    """The angles (q1, q2, q3) of R = exp(q1 a1) exp(q2 a2) exp(q3 a3), with a2 across the others.

    With the angle h about a2 from a3 to a1 it is exp(q1 a1) exp((q2 - h) a2) exp(q3 a1) exp(h a2),
    in which the first three factors are Euler's angles.
    """

    ends: Ends
    axes: tuple[Vec3, ...]
    reference: Quat
    middle: Middle
    which: tuple[int, ...] = eqx.field(static=True)
    second: Float[Array, " n"]  # a value of q2 on its side of where it turns back

    @staticmethod
    def of(motions: Sequence[Motion], ends: Ends, dtype: DTypeLike) -> AnglesOfGimbals:
        """Those of gimbals."""
        acting = [motion.joint.acting[1] for motion in motions]
        rest = jnp.stack([own.rest.astype(dtype) for own in acting])
        second = Middle.of(acting, dtype).otherwise(rest)
        return AnglesOfGimbals(ends=ends, second=second, **_turning(motions, dtype))

    def _angles(self, e):
        one, two, _ = self.axes
        h, side = self._shift()
        euler = e * Quat(jnp.cos(h / 2), two * -jnp.sin(h / 2))
        w, along = euler.w, dot(euler.v, one)
        # Of half q2 - h the sine times the sine and the cosine of half q1 - q3.
        sine, cosine = dot(euler.v, cross(one, two)) * side, dot(euler.v, two) * side
        total, difference = 2 * defined_angle(along, w), 2 * defined_angle(sine, cosine)
        tilt = 2 * defined_angle(_hypot(sine, cosine), _hypot(along, w))
        return (total + difference) / 2, h + side * tilt, (total - difference) / 2

    def _duals(self, e):
        one, _, three = self.axes
        one = rotate_inverse(e, one)
        middle = cross(three, one)
        squared = dot(middle, middle)
        share = safe_divide(jnp.ones_like(squared), squared)
        _, side = self._shift()
        across = middle * -side * safe_sqrt(share)
        return cross(middle, three) * share, across, cross(one, middle) * share

    def _shift(self) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """The angle h, and the sign of the sine of q2 - h."""
        one, two, three = self.axes
        h = jnp.arctan2(dot(two, cross(three, one)), dot(three, one))
        sine = jnp.sin(self.second - h)
        return h, jnp.where(sine < -_LOCKED, -1.0, 1.0).astype(h.dtype)


def _turning(motions: Sequence[Motion], dtype: DTypeLike) -> dict[str, Any]:
    """The axes, references and middles of angles, and which they are."""
    joints = [motion.joint for motion in motions]
    axes = tuple(
        Frames.of(list(own), dtype).axis
        for own in zip(*(joint.motion_axes for joint in joints), strict=True)
    )
    return {
        "axes": axes,
        "reference": references(joints, dtype),
        "middle": Middle.of([motion.acting for motion in motions], dtype),
        "which": tuple(motion.axis for motion in motions),
    }


def _hypot(a: Float[Array, " n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
    return safe_sqrt(a * a + b * b)
