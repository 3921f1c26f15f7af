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
from ..joints.coordinates import JointCoordinates
from ..phase import Phase
from ..state import State
from .base import AbstractLoad, Time, Wrench
from .function import Function
from .in_joints import JointMotors
from .source import Source, source

Torque = Callable[[Time, State, Any], Float[Array, "..."]]


class Motor(AbstractLoad):
    """Torques about the axes of hinges, and forces along those of sliders, as from motors in
    these joints.

    A positive torque turns `body` of a `Hinge` positively about its axis against the other body,
    which gets the opposite torque; a positive force moves `body` of a `Slider` along its axis.

    Attributes:
        joint: index in `World.joints`, or a tuple of several.
        torque: [N m], of sliders [N], shape (), or (n,) for n joints: numbers, or a control input
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

    def __init__(
        self,
        joint: int | Sequence[int],
        torque: Any | AbstractInput | Torque,
        velocity_dependent: bool = True,
    ):
        if isinstance(joint, int | np.integer):
            self.joint = body_index(joint, "Motor.joint", "a joint")
        else:
            self.joint = _indices(joint)
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
    def bodies(self) -> tuple[int, ...]:
        return ()

    @property
    def velocity_dependent(self) -> bool:
        return self.uses_velocities

    @property
    def conservative(self) -> bool:
        return False

    def check_joints(self, joints: Sequence[AbstractJoint]) -> None:
        for index in (self.joint,) if isinstance(self.joint, int) else self.joint:
            if index >= len(joints):
                raise ValueError(
                    f"Motor.joint: there is no joint {index}; World.joints has {len(joints)}."
                )
            if not isinstance(joints[index], AbstractMovingJoint):
                raise ValueError(
                    f"Motor.joint must be a Hinge or a Slider; World.joints[{index}] is a "
                    f"{type(joints[index]).__name__}."
                )

    def in_joints(self, joints: Sequence[AbstractJoint], dtype: Any) -> AbstractLoad:
        wanted = (self.joint,) if isinstance(self.joint, int) else self.joint
        coordinates = JointCoordinates.of([joints[index] for index in wanted], dtype)
        assert coordinates is not None
        return JointMotors(
            coordinates, self.torque, self._shape, coordinates.joints, self.uses_velocities
        )

    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        raise NotImplementedError("A Motor acts through the joints of its world: see `in_joints`.")


def _indices(joint: Any) -> tuple[int, ...]:
    try:
        found = tuple(body_index(index, "Motor.joint", "a joint") for index in joint)
    except TypeError as error:
        raise ValueError(
            f"Motor.joint must be an index or several indices; got {joint!r}."
        ) from error
    if not found or len(set(found)) < len(found):
        raise ValueError(f"Motor.joint must hold different indices; got {list(found)}.")
    return found
