"""The coordinates of joints that move: angles, and displacements of sliders."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ...math import Quat, Vec3, cross, dot, rotate, rotate_inverse, safe_divide
from ..inertial import Inertial
from ..phase import Phase
from .base import AbstractJoint, AbstractMovingJoint
from .coordinate import AbstractAngle, AbstractCoordinate, Middle, Motion
from .ends import Directions, Ends, point_row, turning_row
from .frames import Frames, references, turned
from .gimbal import Gimbal
from .hinge import Hinge
from .planar import Planar
from .slider import Slider
from .successive_angles import AnglesOfGimbals, AnglesOfUniversals
from .universal import Universal


class Angles(AbstractAngle):
    """The angle of a hinge or a planar joint about its axis, by the twist about it of the relative
    rotation."""

    ends: Ends
    axis: Vec3  # body frame
    reference: Quat
    middle: Middle

    @staticmethod
    def of(motions: Sequence[Motion], ends: Ends, dtype: DTypeLike) -> Angles:
        """Those of hinges and planar joints."""
        joints = [motion.joint for motion in motions]
        axis = Frames.of([motion.direction for motion in motions], dtype).axis
        middle = Middle.of([motion.acting for motion in motions], dtype)
        return Angles(ends=ends, axis=axis, reference=references(joints, dtype), middle=middle)

    def row(self, phase):
        pose = self.ends.pose(phase)
        e = turned(pose, self.reference)
        along = dot(e.v, self.axis)
        swing = e.v - self.axis * along
        # Of 2 atan2(along, w), by Omega; where no twist is defined, of a tilt by half a turn.
        bent = cross(self.axis, swing) * e.w + swing * along
        share = safe_divide(jnp.ones_like(along), e.w * e.w + along * along)
        return turning_row(pose, self.axis + bent * share)

    def near(self, phase, middle):
        e = turned(self.ends.pose(phase), self.reference)
        along = dot(e.v, self.axis)
        cosine, sine = jnp.cos(middle / 2), jnp.sin(middle / 2)
        w, s = e.w * cosine + along * sine, along * cosine - e.w * sine
        flip = jnp.where(w < 0, -1.0, 1.0).astype(w.dtype)
        # A tilt by half a turn leaves no twist, and arctan2 no derivative.
        beyond = 2 * jnp.arctan2(s * flip, jnp.where((w == 0) & (s == 0), 1.0, w * flip))
        return middle + beyond + jnp.where(beyond <= -np.pi, 2 * np.pi, 0.0).astype(w.dtype)


class Displacements(AbstractCoordinate):
    """The displacement of a slider or a planar joint along an axis that is fixed in the other
    body."""

    angular = False
    ends: Ends
    other_axis: Vec3  # frame of the other body

    @staticmethod
    def of(motions: Sequence[Motion], ends: Ends, dtype: DTypeLike) -> Displacements:
        """Those of sliders and planar joints."""
        joints = [motion.joint for motion in motions]
        axis = Frames.of([motion.direction for motion in motions], dtype).axis
        return Displacements(ends, rotate(references(joints, dtype), axis))

    def value(self, phase):
        pose = self.ends.pose(phase)
        return dot(self.other_axis, rotate_inverse(pose.other_turn, pose.separation))

    def stretch(self, phase, rest):
        return self.value(phase) - rest

    def row(self, phase):
        pose = self.ends.pose(phase)
        d = rotate_inverse(pose.other_turn, pose.separation)
        return point_row(pose, rotate(pose.other_turn, self.other_axis), pose.other_arm + d)


class JointCoordinates(eqx.Module):
    """The coordinates of joints, and what acts along them; arrays of shape (n_coordinates,).

    Units are those of angles and torques at hinges, universal joints and gimbals and about the
    last axis of planar joints, and of lengths and forces at sliders and along the others.

    Attributes:
        parts: one for each kind of joint; in each the coordinates in their order.
        order: of each coordinate its place among those that were asked for.
        lower, upper: limits, infinite where there are none.
        stiffness, damping, rest, friction, armature: of the joints, 0 where there is none.
    """

    parts: tuple[AbstractCoordinate, ...]
    order: tuple[int, ...] = eqx.field(static=True)
    lower: Float[Array, " n_coordinates"]
    upper: Float[Array, " n_coordinates"]
    stiffness: Float[Array, " n_coordinates"]
    damping: Float[Array, " n_coordinates"]
    rest: Float[Array, " n_coordinates"]
    friction: Float[Array, " n_coordinates"]
    armature: Float[Array, " n_coordinates"]

    @staticmethod
    def of(
        joints: Sequence[AbstractJoint],
        dtype: DTypeLike,
        place: np.ndarray | None = None,
        having: str | None = None,
    ) -> JointCoordinates | None:
        """The coordinates of the joints of a world; None where there are none.

        Args:
            joints: in their order.
            dtype: of the numbers.
            place: of each body in the phase, by its number in the world; None: the same.
            having: the name of an attribute, to take only coordinates for which it is not None:
                "limits", "stiffness", "damping", "friction" or "armature".
        """
        motions = [
            Motion(number, joint, axis)
            for number, joint in enumerate(joints)
            if isinstance(joint, AbstractMovingJoint)
            for axis in range(joint.n_coordinates)
        ]
        if having is not None:
            motions = [one for one in motions if getattr(one.acting, having) is not None]
        return JointCoordinates.along(motions, dtype, place) if motions else None

    @staticmethod
    def along(
        motions: Sequence[Motion], dtype: DTypeLike, place: np.ndarray | None = None
    ) -> JointCoordinates:
        """Some coordinates of joints, at least one."""
        parts, order = [], []
        for is_one, make in _KINDS:
            own = [i for i, motion in enumerate(motions) if is_one(motion)]
            if own:
                of_kind = [motions[i] for i in own]
                ends = Ends.of([(one.number, one.joint) for one in of_kind], place, dtype)
                parts.append(make(of_kind, ends, dtype))
                order += own
        acting = [motions[i].acting for i in order]

        def numbers(name: str):
            given = [getattr(own, name) for own in acting]
            zero = jnp.zeros((), dtype)
            return jnp.stack([zero if g is None else g.astype(dtype) for g in given])

        free = jnp.array([-jnp.inf, jnp.inf], dtype)
        pairs = [free if own.limits is None else own.limits.astype(dtype) for own in acting]
        lower, upper = jnp.stack(pairs).T
        return JointCoordinates(
            tuple(parts),
            tuple(order),
            lower,
            upper,
            numbers("stiffness"),
            numbers("damping"),
            numbers("rest"),
            numbers("friction"),
            numbers("armature"),
        )

    @property
    def joints(self) -> tuple[int, ...]:
        """Of each coordinate the place of its joint in `World.joints`."""
        return tuple(joint for part in self.parts for joint in part.ends.joints)

    def in_order(self, values: Float[Array, " n_coordinates"]) -> Float[Array, " n_coordinates"]:
        """Numbers of these coordinates, as they were asked for."""
        order = np.argsort(self.order)
        return values if np.array_equal(order, np.arange(len(order))) else values[order]

    def value(self, phase: Phase) -> Float[Array, " n_coordinates"]:
        """The coordinates."""
        return jnp.concatenate([part.value(phase) for part in self.parts])

    def stretch(self, phase: Phase) -> Float[Array, " n_coordinates"]:
        """By how much springs along the coordinates are stretched."""
        counts = np.cumsum([len(part.ends.joints) for part in self.parts])[:-1]
        rests = jnp.split(self.rest, counts)
        pairs = zip(self.parts, rests, strict=True)
        return jnp.concatenate([part.stretch(phase, rest) for part, rest in pairs])

    def difference(self, start: Phase, end: Phase) -> Float[Array, " n_coordinates"]:
        """How the coordinates change between phases, angles by less than half a turn."""
        change = self.value(end) - self.value(start)
        angles = np.concatenate(
            [np.full(len(part.ends.joints), part.angular) for part in self.parts]
        )
        return change - jnp.where(angles, 2 * jnp.pi * jnp.round(change / (2 * jnp.pi)), 0.0)

    def directions(self, phase: Phase) -> Directions:
        """Of each coordinate one row: the number whose rate it gives is the coordinate."""
        return Directions.of([(part.ends, (part.row(phase),)) for part in self.parts])

    def rate(self, phase: Phase, inertial: Inertial) -> Float[Array, " n_coordinates"]:
        """The rates of the coordinates."""
        v, omega = inertial.velocity(phase), inertial.angular_velocity(phase)
        return self.directions(phase).rate(v, omega)


def _is_angle(motion: Motion) -> bool:
    """Whether a coordinate is an angle about an axis that is fixed in both bodies."""
    in_plane = isinstance(motion.joint, Planar) and motion.axis == 2
    return in_plane or isinstance(motion.joint, Hinge)


def _is_displacement(motion: Motion) -> bool:
    in_plane = isinstance(motion.joint, Planar) and motion.axis < 2
    return in_plane or isinstance(motion.joint, Slider)


_KINDS: tuple[tuple[Callable[[Motion], bool], Callable[..., AbstractCoordinate]], ...] = (
    (_is_angle, Angles.of),
    (_is_displacement, Displacements.of),
    (lambda motion: isinstance(motion.joint, Universal), AnglesOfUniversals.of),
    (lambda motion: isinstance(motion.joint, Gimbal), AnglesOfGimbals.of),
)
