"""Resistance of a medium."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from ..._validate import body_index, nonnegative
from ...math import norm
from ..inertial import Inertial
from ..phase import Phase
from .base import AbstractBodyLoad, Time, Wrench, angular_velocity, cast, on_one, velocity


class Drag(AbstractBodyLoad):
    """Resistance against motion: F = -(c1 + c2 |v|) v and a torque -c omega.

    F acts at the centre of mass, whose velocity is v.

    Attributes:
        body: index in `World.bodies`.
        linear: c1 [N s/m], at least 0, shape ().
        quadratic: c2 [N s^2/m^2], at least 0, shape ().
        angular: c [N m s], at least 0, shape ().

    Raises:
        ValueError: naming the argument that is not understood.
    """

    body: int = eqx.field(static=True)
    linear: Float[Array, ""]
    quadratic: Float[Array, ""]
    angular: Float[Array, ""]

    def __init__(self, body: int, linear=0.0, quadratic=0.0, angular=0.0):
        self.body = body_index(body, "Drag.body")
        self.linear = nonnegative(linear, "Drag.linear")
        self.quadratic = nonnegative(quadratic, "Drag.quadratic")
        self.angular = nonnegative(angular, "Drag.angular")

    @property
    def velocity_dependent(self) -> bool:
        return True

    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        v = velocity(phase, inertial, self.body)
        omega = angular_velocity(phase, inertial, self.body)
        resistance = cast(self.linear, phase) + cast(self.quadratic, phase) * norm(v)
        return on_one(phase, self.body, -(v * resistance), -(omega * cast(self.angular, phase)))
