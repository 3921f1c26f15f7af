"""Forces and torques that are fixed in a body, and may be controlled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ..._validate import body_index, real_array, require
from ...control import AbstractInput
from ...math import Vec3, cross, rotate
from ..inertial import Inertial
from ..phase import Phase
from .base import AbstractBodyLoad, Time, Wrench, attitude, cast, on_one
from .function import Function
from .source import Source, source


class Thruster(AbstractBodyLoad):
    """A force on a point of a body that turns with the body: a rocket engine, a propeller.

    Attributes:
        body: index in `World.bodies`.
        force: body frame [N], shape (3,): numbers, or a control input that gives them, such as
            `PiecewiseLinear`, or a function of the time and the args of `simulate`.
        anchor: the point, body frame, from the centre of mass [m], shape (3,).

    Raises:
        ValueError: naming the argument that is not understood.
    """

    body: int = eqx.field(static=True)
    force: Source
    anchor: Float[Array, "3"]

    def __init__(
        self,
        body: int,
        force: Any | AbstractInput | Callable[[Time, Any], Float[Array, "3"]],
        anchor=(0.0, 0.0, 0.0),
    ):
        self.body = body_index(body, "Thruster.body")
        self.force = source(force, "Thruster.force", (3,))
        self.anchor = real_array(anchor, "Thruster.anchor", (3,))
        require(self.anchor, "Thruster.anchor", np.isfinite, "finite")

    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        force = _now(self.force, t, args, phase, "Thruster.force")
        torque = cross(Vec3.of(cast(self.anchor, phase)), force)
        return on_one(phase, self.body, rotate(attitude(phase, self.body), force), torque)


class Torque(AbstractBodyLoad):
    """A torque on a body that turns with the body: a reaction wheel, a motor.

    Attributes:
        body: index in `World.bodies`.
        torque: body frame [N m], shape (3,): numbers, or a control input that gives them, such
            as `PiecewiseLinear`, or a function of the time and the args of `simulate`.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    body: int = eqx.field(static=True)
    torque: Source

    def __init__(
        self, body: int, torque: Any | AbstractInput | Callable[[Time, Any], Float[Array, "3"]]
    ):
        self.body = body_index(body, "Torque.body")
        self.torque = source(torque, "Torque.torque", (3,))

    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        return on_one(phase, self.body, None, _now(self.torque, t, args, phase, "Torque.torque"))


def _now(source: Source, t: Time, args: Any, phase: Phase, name: str) -> Vec3:
    """The value of a source at a time, in components.

    Raises:
        ValueError: if that is not an array of three numbers.
    """
    if isinstance(source, AbstractInput):
        array = real_array(source(t), f"{name}(t)", (3,))
    elif isinstance(source, Function):
        array = real_array(source(t, args), f"{name}(t, args)", (3,))
    else:
        array = source
    return Vec3.of(cast(array, phase))
