"""Motors in joints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ..._validate import body_index
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
        axis: of a `Universal` or a `Gimbal` which of its angles is driven, from 0; of several
            joints a tuple, in which a joint may occur once for each of its angles. None: joints
            have one coordinate each.
        torque: [N m], of sliders [N], shape (), or (n,) for n indices: numbers, or a control input
            that gives them, such as `PiecewiseLinear`, or a function of the time [s], the `State`
            and the args of `simulate`, written in JAX. The arrays that a function holds can be
            differentiated if it is an `equinox.Module`.
        uses_velocities: whether a function depends on velocities.

    Args:
        velocity_dependent: whether the function depends on velocities; steps cost less where it
            does not: it then gets a state whose velocities are not a number.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    joint: int | tuple[int, ...] = eqx.field(static=True)
    torque: Source
    uses_velocities: bool = eqx.field(static=True)
    axis: int | tuple[int, ...] | None = eqx.field(static=True)

    def __init__(
        self,
        joint: int | Sequence[int],
        torque: Any | AbstractInput | Torque,
        velocity_dependent: bool = True,
        axis: int | Sequence[int] | None = None,
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
        if not isinstance(velocity_dependent, bool):
            raise ValueError(
                f"Motor.velocity_dependent must be True or False; got {velocity_dependent!r}."
            )
        self.torque = source(torque, "Motor.torque", self._shape)
        self.uses_velocities = velocity_dependent and isinstance(self.torque, Function)

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
        return self.uses_velocities

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
                    f"Motor.joint must be a Hinge, a Slider, a Universal or a Gimbal; "
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

    def in_joints(self, joints: Sequence[AbstractJoint], dtype: Any) -> AbstractLoad:
        motions = []
        for index, axis in self._driven:
            joint = joints[index]
            assert isinstance(joint, AbstractMovingJoint)
            motions.append(Motion(index, joint, axis))
        coordinates = JointCoordinates.along(motions, dtype)
        return JointMotors(
            coordinates, self.torque, self._shape, coordinates.order, self.uses_velocities
        )

    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        raise NotImplementedError("A Motor acts through the joints of its world: see `in_joints`.")


def _indices(indices: Any, name: str, kind: str) -> tuple[int, ...]:
    try:
        found = tuple(body_index(index, name, kind) for index in indices)
    except TypeError as error:
        raise ValueError(f"{name} must be an index or several indices; got {indices!r}.") from error
    if not found:
        raise ValueError(f"{name} must hold at least one index.")
    return found
