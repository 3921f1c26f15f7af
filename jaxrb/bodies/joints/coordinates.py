"""The coordinates of joints that move: angles of hinges, displacements of sliders."""

from __future__ import annotations

import abc
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
from .ends import Directions, Ends, Numbered, Row, point_row, turning_row
from .frames import Frames, references, turned
from .hinge import Hinge
from .slider import Slider


class AbstractCoordinate(eqx.Module):
    """The coordinates of all joints of one kind; everything has the shape (n_joints,)."""

    ends: eqx.AbstractVar[Ends]

    @abc.abstractmethod
    def value(self, phase: Phase) -> Float[Array, " n_joints"]:
        """The coordinates [rad] or [m]."""

    @abc.abstractmethod
    def stretch(self, phase: Phase, rest: Float[Array, " n_joints"]) -> Float[Array, " n_joints"]:
        """By how much the coordinates differ from those of springs at rest."""

    @abc.abstractmethod
    def row(self, phase: Phase) -> Row:
        """What the rates of the coordinates depend on."""


class Angles(AbstractCoordinate):
    """The angle of a hinge about its axis, by the twist about it of the relative rotation."""

    ends: Ends
    axis: Vec3  # body frame
    reference: Quat
    limits: tuple[Float[Array, " n_joints"], Float[Array, " n_joints"]]
    limited: tuple[bool, ...] = eqx.field(static=True)

    @staticmethod
    def of(joints: Numbered, ends: Ends, dtype: DTypeLike) -> Angles:
        """Those of hinges."""
        own = [joint for _, joint in joints if isinstance(joint, Hinge)]
        axis = Frames.of([joint.axis for joint in own], dtype).axis
        limited = tuple(joint.limits is not None for joint in own)
        return Angles(ends, axis, references(own, dtype), _limits(own, dtype), limited)

    def value(self, phase):
        # Between limits, angles are followed beyond half a turn from 0.
        return self._near(phase, self._middle(0.0))

    def stretch(self, phase, rest):
        return self._near(phase, self._middle(rest)) - rest

    def row(self, phase):
        pose = self.ends.pose(phase)
        e = turned(pose, self.reference)
        along = dot(e.v, self.axis)
        swing = e.v - self.axis * along
        # Of 2 atan2(along, w), by Omega; where no twist is defined, of a tilt by half a turn.
        bent = cross(self.axis, swing) * e.w + swing * along
        share = safe_divide(jnp.ones_like(along), e.w * e.w + along * along)
        return turning_row(pose, self.axis + bent * share)

    def _middle(self, otherwise: Float[Array, " n_joints"] | float) -> Float[Array, " n_joints"]:
        """The middle of the limits, and of the turn of those without."""
        limited = np.array(self.limited)
        lower, upper = (jnp.where(limited, limit, 0.0) for limit in self.limits)
        return jnp.where(limited, (lower + upper) / 2, otherwise)

    def _near(self, phase: Phase, middle: Float[Array, " n_joints"]) -> Float[Array, " n_joints"]:
        """The angles within half a turn of others, that of half a turn the larger one."""
        e = turned(self.ends.pose(phase), self.reference)
        along = dot(e.v, self.axis)
        cosine, sine = jnp.cos(middle / 2), jnp.sin(middle / 2)
        w, s = e.w * cosine + along * sine, along * cosine - e.w * sine
        flip = jnp.where(w < 0, -1.0, 1.0).astype(w.dtype)
        # A tilt by half a turn leaves no twist, and arctan2 no derivative.
        beyond = 2 * jnp.arctan2(s * flip, jnp.where((w == 0) & (s == 0), 1.0, w * flip))
        return middle + beyond + jnp.where(beyond <= -np.pi, 2 * np.pi, 0.0).astype(w.dtype)


class Displacements(AbstractCoordinate):
    """The displacement of a slider along its axis, which is fixed in the other body."""

    ends: Ends
    other_axis: Vec3  # frame of the other body

    @staticmethod
    def of(joints: Numbered, ends: Ends, dtype: DTypeLike) -> Displacements:
        """Those of sliders."""
        own = [joint for _, joint in joints if isinstance(joint, Slider)]
        axis = Frames.of([joint.axis for joint in own], dtype).axis
        return Displacements(ends, rotate(references(own, dtype), axis))

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

    Units are those of angles and torques at hinges, and of lengths and forces at sliders.

    Attributes:
        parts: hinges, then sliders; of each the joints in the order of the world.
        lower, upper: limits, infinite where there are none.
        stiffness, damping, rest, friction: of the joints, 0 where there is none.
    """

    parts: tuple[AbstractCoordinate, ...]
    lower: Float[Array, " n_coordinates"]
    upper: Float[Array, " n_coordinates"]
    stiffness: Float[Array, " n_coordinates"]
    damping: Float[Array, " n_coordinates"]
    rest: Float[Array, " n_coordinates"]
    friction: Float[Array, " n_coordinates"]

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
            having: the name of an attribute, to take only joints for which it is not None:
                "limits", "stiffness", "damping" or "friction".
        """
        moving = [
            (number, joint)
            for number, joint in enumerate(joints)
            if isinstance(joint, AbstractMovingJoint)
            and (having is None or getattr(joint, having) is not None)
        ]
        parts, own = [], []
        for kind, make in _KINDS:
            of_kind = [(number, joint) for number, joint in moving if isinstance(joint, kind)]
            if of_kind:
                parts.append(make(of_kind, Ends.of(of_kind, place, dtype), dtype))
                own += [joint for _, joint in of_kind]
        if not parts:
            return None

        def numbers(name: str):
            given = [getattr(joint, name) for joint in own]
            zero = jnp.zeros((), dtype)
            return jnp.stack([zero if g is None else g.astype(dtype) for g in given])

        rest = [j.rest_angle if isinstance(j, Hinge) else j.rest_displacement for j in own]
        lower, upper = _limits(own, dtype)
        return JointCoordinates(
            tuple(parts),
            lower,
            upper,
            numbers("stiffness"),
            numbers("damping"),
            jnp.stack([number.astype(dtype) for number in rest]),
            numbers("friction"),
        )

    @property
    def joints(self) -> tuple[int, ...]:
        """Of each coordinate the place of its joint in `World.joints`."""
        return tuple(joint for part in self.parts for joint in part.ends.joints)

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
            [np.full(len(part.ends.joints), isinstance(part, Angles)) for part in self.parts]
        )
        return change - jnp.where(angles, 2 * jnp.pi * jnp.round(change / (2 * jnp.pi)), 0.0)

    def directions(self, phase: Phase) -> Directions:
        """Of each coordinate one row: the number whose rate it gives is the coordinate."""
        return Directions.of([(part.ends, (part.row(phase),)) for part in self.parts])

    def rate(self, phase: Phase, inertial: Inertial) -> Float[Array, " n_coordinates"]:
        """The rates of the coordinates."""
        v, omega = inertial.velocity(phase), inertial.angular_velocity(phase)
        return self.directions(phase).rate(v, omega)


_KINDS: tuple[tuple[type[AbstractMovingJoint], Callable[..., AbstractCoordinate]], ...] = (
    (Hinge, Angles.of),
    (Slider, Displacements.of),
)


def _limits(
    joints: Sequence[AbstractMovingJoint], dtype: DTypeLike
) -> tuple[Float[Array, " n_joints"], Float[Array, " n_joints"]]:
    free = jnp.array([-jnp.inf, jnp.inf], dtype)
    pairs = [free if joint.limits is None else joint.limits.astype(dtype) for joint in joints]
    lower, upper = jnp.stack(pairs).T
    return lower, upper
