"""Motors in joints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ..._validate import body_index, real_array, require
from ...control import AbstractInput
from ..inertial import Inertial
from ..joints.base import AbstractJoint, AbstractMovingJoint
from ..joints.coordinate import Motion
from ..joints.coordinates import JointCoordinates
from ..phase import Phase
from ..state import State
from .base import AbstractLoad, Time, Wrench
from .function import Function
from .in_joints import JointMotors
from .source import Source, source

Torque = Callable[[Time, State, Any], Float[Array, "..."]]


class Motor(AbstractLoad):
    """Torques about the axes of joints, and forces along those of sliders, as from motors in
    these joints.

    A positive torque turns `body` of a `Hinge` positively about its axis against the other body,
    which gets the opposite torque; a positive force moves `body` of a `Slider` along its axis. A
    torque along an angle of a `Universal` or a `Gimbal` does work with the rate of that angle
    alone.

    Attributes:
        joint: index in `World.joints`, or a tuple of several.
        axis: of a `Universal`, a `Gimbal` or a `Planar` which of its coordinates is driven, from
            0; of several joints a tuple, in which a joint may occur once for each of its
            coordinates. None: joints have one coordinate each.
        torque: [N m], of sliders [N], shape (), or (n,) for n indices: numbers, or a control input
            that gives them, such as `PiecewiseLinear`, or a function of the time [s], the `State`
            and the args of `simulate`, written in JAX. The arrays that a function holds can be
            differentiated if it is an `equinox.Module`.
        damping: c of a servo that feeds the rate back [N m s/rad], at least 0, shape () or (n,):
            the torque on the joint is `torque - damping * rate`. It may be of any strength, as that
            of a damper in the joint, but for one whose torque is a function of velocities. None if
            the Python number 0 is given.
        limits: the least and the greatest torque on the joint [N m], to which that is clipped,
            shape (2,) or (n, 2), or None.
        uses_velocities: whether a function depends on velocities.

    Args:
        velocity_dependent: whether the function depends on velocities; steps cost less where it
            does not: it then gets a state whose velocities are not a number. By default it does,
            unless there is a damping.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    joint: int | tuple[int, ...] = eqx.field(static=True)
    torque: Source
    damping: Float[Array, "..."] | None
    limits: Float[Array, "... 2"] | None
    uses_velocities: bool = eqx.field(static=True)
    axis: int | tuple[int, ...] | None = eqx.field(static=True)

    def __init__(
        self,
        joint: int | Sequence[int],
        torque: Any | AbstractInput | Torque,
        velocity_dependent: bool | None = None,
        axis: int | Sequence[int] | None = None,
        *,
        damping: Any = 0.0,
        limits: Any = None,
    ):
        if isinstance(joint, int | np.integer):
            self.joint = body_index(joint, "Motor.joint", "a joint")
            self.axis = None if axis is None else body_index(axis, "Motor.axis", "a coordinate")
        else:
            self.joint = _indices(joint, "Motor.joint", "a joint")
            self.axis = None if axis is None else _indices(axis, "Motor.axis", "a coordinate")
            if self.axis is not None and len(self.axis) != len(self.joint):
                raise ValueError(
                    f"Motor.axis must hold as many indices as Motor.joint, {len(self.joint)}; got "
                    f"{list(self.axis)}."
                )
            if len(set(self._driven)) < len(self.joint):
                what = "different indices" if axis is None else "each axis of a joint once"
                raise ValueError(f"Motor.joint must hold {what}; got {list(self.joint)}.")
        if velocity_dependent is not None and not isinstance(velocity_dependent, bool):
            raise ValueError(
                f"Motor.velocity_dependent must be True or False; got {velocity_dependent!r}."
            )
        self.torque = source(torque, "Motor.torque", self._shape)
        self.damping = self._damping(damping)
        self.limits = self._limits(limits)
        if velocity_dependent is None:
            velocity_dependent = self.damping is None
        self.uses_velocities = bool(velocity_dependent) and isinstance(self.torque, Function)

    def _damping(self, given: Any) -> Array | None:
        if given is None or (isinstance(given, int | float) and given == 0):
            return None
        damping = real_array(given, "Motor.damping", self._shape)
        holds = lambda c: np.isfinite(c) & (c >= 0)  # noqa: E731
        require(damping, "Motor.damping", holds, "finite and at least 0")
        return damping

    def _limits(self, given: Any) -> Array | None:
        if given is None:
            return None
        limits = real_array(given, "Motor.limits", (*self._shape, 2))
        ordered = lambda pair: pair[..., 0] <= pair[..., 1]  # noqa: E731
        require(limits, "Motor.limits", ordered, "(least, greatest) with least <= greatest")
        return limits

    @property
    def _shape(self) -> tuple[int, ...]:
        return () if isinstance(self.joint, int) else (len(self.joint),)

    @property
    def _driven(self) -> tuple[tuple[int, int], ...]:
        """The joints, and of each the number of its coordinate."""
        joints = (self.joint,) if isinstance(self.joint, int) else self.joint
        axes = (self.axis,) if isinstance(self.axis, int) else self.axis
        return tuple(zip(joints, (0,) * len(joints) if axes is None else axes, strict=True))

    @property
    def bodies(self) -> tuple[int, ...]:
        return ()

    @property
    def velocity_dependent(self) -> bool:
        return self.uses_velocities or self.damping is not None

    @property
    def conservative(self) -> bool:
        return False

    def check_joints(self, joints: Sequence[AbstractJoint]) -> None:
        for index, axis in self._driven:
            if index >= len(joints):
                raise ValueError(
                    f"Motor.joint: there is no joint {index}; World.joints has {len(joints)}."
                )
            joint = joints[index]
            if not isinstance(joint, AbstractMovingJoint):
                raise ValueError(
                    f"Motor.joint must be a Hinge, a Slider, a Universal, a Gimbal or a Planar; "
                    f"World.joints[{index}] is a {type(joint).__name__}."
                )
            if self.axis is None and joint.n_coordinates > 1:
                raise ValueError(
                    f"Motor.axis must say which of the {joint.n_coordinates} coordinates of "
                    f"World.joints[{index}], a {type(joint).__name__}, is driven."
                )
            if axis >= joint.n_coordinates:
                raise ValueError(
                    f"Motor.axis: World.joints[{index}], a {type(joint).__name__}, has no "
                    f"coordinate {axis}; it has {joint.n_coordinates}."
                )

    def motions(self, joints: Sequence[AbstractJoint]) -> list[Motion]:
        """What it drives, of the joints of its world."""
        found = []
        for index, axis in self._driven:
            joint = joints[index]
            assert isinstance(joint, AbstractMovingJoint)
            found.append(Motion(index, joint, axis))
        return found

    @property
    def is_servo(self) -> bool:
        """Whether it feeds the rate back by its damping alone."""
        return self.damping is not None and not self.uses_velocities

    def in_joints(self, joints: Sequence[AbstractJoint], dtype: Any) -> AbstractLoad:
        coordinates = JointCoordinates.along(self.motions(joints), dtype)
        chosen = np.array(coordinates.order)
        return JointMotors(
            coordinates,
            self.torque,
            _rows(self.damping, 0, chosen, dtype),
            _rows(self.limits, 1, chosen, dtype),
            self._shape,
            coordinates.order,
            self.uses_velocities,
            self.is_servo,
        )

    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        raise NotImplementedError("A Motor acts through the joints of its world: see `in_joints`.")


def _rows(given: Array | None, more: int, chosen: np.ndarray, dtype: Any) -> Array | None:
    """Numbers of each joint that is driven, in the order of coordinates; each has more axes."""
    if given is None:
        return None
    return (given[None] if given.ndim == more else given[chosen]).astype(dtype)


def _indices(indices: Any, name: str, kind: str) -> tuple[int, ...]:
    try:
        found = tuple(body_index(index, name, kind) for index in indices)
    except TypeError as error:
        raise ValueError(f"{name} must be an index or several indices; got {indices!r}.") from error
    if not found:
        raise ValueError(f"{name} must hold at least one index.")
    return found
