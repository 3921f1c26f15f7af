"""What joints hold, one kind of condition a class: each with its violations and their rates.

All are lengths [m], zero where the condition holds. Rotations are multiplied by the `scale` of
their joint, for which a row that holds a rotation has about the same inverse inertia as one that
holds a point.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float

from ...math import Quat, Vec3, cross, dot, norm, rotate, rotate_inverse
from ..phase import Phase
from .base import AbstractJoint
from .distance import Distance
from .ends import Ends, Numbered, Row, point_row, stacked, turning_row
from .frames import (
    Frames,
    basis,
    rates_of_two_angles,
    references,
    rotation_rows,
    turned,
    two_angles,
)
from .gimbal import Gimbal
from .hinge import Hinge
from .pin import Pin
from .planar import Planar
from .slider import Slider
from .universal import Universal
from .weld import Weld


class AbstractConstraint(eqx.Module):
    """One condition, of all joints that have it; everything has the shape (n_joints,).

    Attributes:
        components: how many rows a joint has of it.
        angular: whether it holds a rotation.
        ends: where the joints hold.
        scale: length by which rotations are multiplied [m].
    """

    components: ClassVar[int]
    angular: ClassVar[bool] = False
    ends: eqx.AbstractVar[Ends]
    scale: eqx.AbstractVar[Float[Array, " n_joints"]]

    @classmethod
    @abc.abstractmethod
    def of(cls, joints: Numbered, ends: Ends, scale: Float[Array, " n_joints"]) -> Self:
        """That of joints."""

    @abc.abstractmethod
    def violation(self, phase: Phase) -> tuple[Float[Array, " n_joints"], ...]:
        """The residuals of each row [m]."""

    @abc.abstractmethod
    def rows(self, phase: Phase) -> tuple[Row, ...]:
        """What the rates of the violations depend on."""

    def error(self, phase: Phase) -> Float[Array, " n_joints"]:
        """How far each joint is off [m], of a rotation by how much it is turned [rad]."""
        return jnp.sqrt(sum(g * g for g in self.violation(phase)))

    def upright(self, phase: Phase) -> Bool[Array, " n_joints"]:
        """Whether a violation of zero is the one that is meant."""
        return jnp.ones(self.scale.shape, bool)


class SamePoint(AbstractConstraint):
    """The anchors coincide: the separation, along the axes of the world."""

    components = 3
    ends: Ends
    scale: Float[Array, " n_joints"]

    @classmethod
    def of(cls, joints, ends, scale):
        return cls(ends, scale)

    def violation(self, phase):
        d = self.ends.pose(phase).separation
        return d.x, d.y, d.z

    def rows(self, phase):
        pose = self.ends.pose(phase)
        return tuple(point_row(pose, unit, pose.other_arm) for unit in basis(self.scale))


class SameDirection(AbstractConstraint):
    """The axis a of the body is that of the other one, o: with b1, b2 across o and both in the
    frame of the other body, -b2 . a and b1 . a, the sines of the tilts about b1 and b2."""

    components = 2
    angular = True
    ends: Ends
    scale: Float[Array, " n_joints"]
    axis: Vec3  # body frame
    other_axis: Vec3  # frame of the other body
    across: tuple[Vec3, Vec3]  # likewise

    @classmethod
    def of(cls, joints, ends, scale):
        axis, other_axis, across = _axes(joints, scale.dtype)
        return cls(ends, scale, axis, other_axis, across)

    def violation(self, phase):
        axis = self.ends.pose(phase).into_other(self.axis)
        b1, b2 = self.across
        return -dot(b2, axis) * self.scale, dot(b1, axis) * self.scale

    def rows(self, phase):
        pose = self.ends.pose(phase)
        axis = pose.into_other(self.axis)
        b1, b2 = self.across
        # The axis moves by theta x a with the relative rotation theta.
        about = (cross(b2, axis), cross(axis, b1))
        return tuple(turning_row(pose, pose.from_other(u * self.scale)) for u in about)

    def error(self, phase):
        return _angle(self.ends.pose(phase).into_other(self.axis), self.other_axis)

    def upright(self, phase):
        return dot(self.ends.pose(phase).into_other(self.axis), self.other_axis) > 0


class CarriedPoint(AbstractConstraint):
    """The anchor is where the rotation about the first axis, fixed in the other body, carries the
    offset from the anchor there: their separation, along the axes of the world."""

    components = 3
    ends: Ends
    scale: Float[Array, " n_joints"]
    axes: tuple[Vec3, Vec3]  # at the reference, body frame
    offset: Vec3  # likewise
    reference: Quat

    @classmethod
    def of(cls, joints, ends, scale):
        own: list[Any] = [joint for _, joint in joints]
        offset = stacked([joint.offset for joint in own], scale.dtype)
        return cls(ends, scale, _two_axes(own, scale.dtype), offset, references(own, scale.dtype))

    def violation(self, phase):
        pose = self.ends.pose(phase)
        carried = self._carried(turned(pose, self.reference))
        d = pose.separation - rotate(pose.other_turn, rotate(self.reference, carried))
        return d.x, d.y, d.z

    def rows(self, phase):
        pose = self.ends.pose(phase)
        e = turned(pose, self.reference)
        carried = self._carried(e)
        held = pose.other_arm + rotate(self.reference, carried)
        swept = rotate(self.reference, cross(self.axes[0], carried))
        swept = rotate(pose.other_turn, swept)  # by one radian of the first angle
        turning = turning_row(pose, rates_of_two_angles(e, *self.axes)[0])
        rows = []
        for unit in basis(self.scale):
            still, share = point_row(pose, unit, held), dot(unit, swept)
            lever = still.lever - turning.lever * share
            other_lever = still.other_lever - turning.other_lever * share
            rows.append(Row(still.linear, lever, other_lever))
        return tuple(rows)

    def _carried(self, e: Quat) -> Vec3:
        """The offset, turned by the first angle."""
        first, offset = self.axes[0], self.offset
        angle, _ = two_angles(e, *self.axes)
        along = first * dot(first, offset)
        across = (offset - along) * jnp.cos(angle) + cross(first, offset) * jnp.sin(angle)
        return along + across


class SameAngle(AbstractConstraint):
    """The first axis, fixed in the other body, keeps its angle to the second one, fixed in the
    body: the difference of their cosines, by the sine."""

    components = 1
    angular = True
    ends: Ends
    scale: Float[Array, " n_joints"]
    axes: tuple[Vec3, Vec3]  # at the reference, body frame
    reference: Quat

    @classmethod
    def of(cls, joints, ends, scale):
        own: list[Any] = [joint for _, joint in joints]
        return cls(ends, scale, _two_axes(own, scale.dtype), references(own, scale.dtype))

    def violation(self, phase):
        first, second = self.axes
        now = rotate(turned(self.ends.pose(phase), self.reference), second)
        return ((dot(first, now) - dot(first, second)) * self._scale(),)

    def rows(self, phase):
        pose = self.ends.pose(phase)
        first, second = self.axes
        first = rotate_inverse(turned(pose, self.reference), first)
        return (turning_row(pose, cross(second, first) * self._scale()),)

    def error(self, phase):
        first, second = self.axes
        now = rotate(turned(self.ends.pose(phase), self.reference), second)
        return jnp.abs(_angle(first, now) - _angle(first, second))

    def _scale(self) -> Float[Array, " n_joints"]:
        return self.scale / norm(cross(*self.axes))


class SameLine(AbstractConstraint):
    """The anchor is on the axis of the other body: its separation across that."""

    components = 2
    ends: Ends
    scale: Float[Array, " n_joints"]
    across: tuple[Vec3, Vec3]  # frame of the other body

    @classmethod
    def of(cls, joints, ends, scale):
        return cls(ends, scale, _axes(joints, scale.dtype)[2])

    def violation(self, phase):
        pose = self.ends.pose(phase)
        d = rotate_inverse(pose.other_turn, pose.separation)
        return tuple(dot(b, d) for b in self.across)

    def rows(self, phase):
        pose = self.ends.pose(phase)
        d = rotate_inverse(pose.other_turn, pose.separation)
        return tuple(
            point_row(pose, rotate(pose.other_turn, b), pose.other_arm + d) for b in self.across
        )


class SamePlane(AbstractConstraint):
    """The anchor is in a plane of the other body: its separation along the normal of that."""

    components = 1
    ends: Ends
    scale: Float[Array, " n_joints"]
    normal: Vec3  # frame of the other body

    @classmethod
    def of(cls, joints, ends, scale):
        return cls(ends, scale, _axes(joints, scale.dtype)[1])

    def violation(self, phase):
        pose = self.ends.pose(phase)
        return (dot(self.normal, rotate_inverse(pose.other_turn, pose.separation)),)

    def rows(self, phase):
        pose = self.ends.pose(phase)
        d = rotate_inverse(pose.other_turn, pose.separation)
        normal = rotate(pose.other_turn, self.normal)
        return (point_row(pose, normal, pose.other_arm + d),)


class SameOrientation(AbstractConstraint):
    """The reference orientation is kept: 2 sin(angle / 2) along the axis of the rotation from it,
    body frame. It grows up to half a turn."""

    components = 3
    angular = True
    ends: Ends
    scale: Float[Array, " n_joints"]
    reference: Quat

    @classmethod
    def of(cls, joints, ends, scale):
        return cls(ends, scale, references([joint for _, joint in joints], scale.dtype))

    def violation(self, phase):
        v = turned(self.ends.pose(phase), self.reference).v * (2 * self.scale)
        return v.x, v.y, v.z

    def rows(self, phase):
        pose = self.ends.pose(phase)
        rows = rotation_rows(turned(pose, self.reference))
        return tuple(turning_row(pose, u * self.scale) for u in rows)

    def error(self, phase):
        e = turned(self.ends.pose(phase), self.reference)
        return 2 * jnp.arctan2(norm(e.v), e.w)


class SameDistance(AbstractConstraint):
    """The anchors are L apart: (d^2 - L^2) / (2 L), which is smooth where they meet."""

    components = 1
    ends: Ends
    scale: Float[Array, " n_joints"]
    length: Float[Array, " n_joints"]

    @classmethod
    def of(cls, joints, ends, scale):
        own: list[Any] = [joint for _, joint in joints]
        return cls(ends, scale, jnp.stack([joint.length.astype(scale.dtype) for joint in own]))

    def violation(self, phase):
        d = self.ends.pose(phase).separation
        return ((dot(d, d) / self.length - self.length) / 2,)

    def rows(self, phase):
        pose = self.ends.pose(phase)
        return (point_row(pose, pose.separation / self.length, pose.other_arm),)

    def error(self, phase):
        return jnp.abs(norm(self.ends.pose(phase).separation) - self.length)


# In the order of the rows of a world.
CONSTRAINTS: tuple[type[AbstractConstraint], ...] = (
    SamePoint,
    SameDirection,
    CarriedPoint,
    SameAngle,
    SameLine,
    SamePlane,
    SameOrientation,
    SameDistance,
)

_CONDITIONS: dict[type[AbstractJoint], tuple[type[AbstractConstraint], ...]] = {
    Pin: (SamePoint,),
    Gimbal: (SamePoint,),
    Hinge: (SamePoint, SameDirection),
    Weld: (SamePoint, SameOrientation),
    Universal: (CarriedPoint, SameAngle),
    Slider: (SameLine, SameOrientation),
    Distance: (SameDistance,),
}


def conditions_of(joint: AbstractJoint) -> tuple[type[AbstractConstraint], ...]:
    """What a joint holds."""
    if isinstance(joint, Planar):
        return SamePlane, SameDirection if joint.turns else SameOrientation
    return _CONDITIONS[type(joint)]


def _angle(a: Vec3, b: Vec3) -> Float[Array, " n_joints"]:
    """Between two vectors [rad]."""
    return jnp.arctan2(norm(cross(a, b)), dot(a, b))


def _two_axes(joints: list[Any], dtype: DTypeLike) -> tuple[Vec3, Vec3]:
    """The axes of universal joints."""
    first, second = (Frames.of([joint.axes[k] for joint in joints], dtype).axis for k in (0, 1))
    return first, second


def _axes(joints: Numbered, dtype: DTypeLike) -> tuple[Vec3, Vec3, tuple[Vec3, Vec3]]:
    """The axis in the body frame and in that of the other body, and two across the latter."""
    own: list[Any] = [joint for _, joint in joints]
    frames = Frames.of([joint.axis for joint in own], dtype)
    turn = references(own, dtype)
    one, two = (rotate(turn, b) for b in frames.across)
    return frames.axis, rotate(turn, frames.axis), (one, two)
