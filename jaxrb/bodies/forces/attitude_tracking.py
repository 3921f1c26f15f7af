"""A torque that makes a body follow an attitude."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from ..._validate import body_index
from ...math import Quat
from ..inertial import Inertial
from ..phase import Phase
from .base import Time, Wrench, on_one
from .function import Function
from .reference import DesiredAttitude, array_at, time_of
from .tracking import AbstractTracking, TrackingError, gain, reference_function


class AttitudeTracking(AbstractTracking):
    """Geometric tracking control of the attitude of a free body, by a torque.

    M = -k_R e_R - k_Omega e_Omega + Omega x J Omega
        - J (Omega x R^T R_d Omega_d - R^T R_d Omega_d'),

    with the errors of `TrackingError`. On the reference it is the torque that the motion needs;
    near it the error about each principal axis is a damped oscillator,
    J e'' + k_Omega e' + k_R e = 0. It decays from almost every start, but stays where it is at
    exactly half a turn, where e_R is zero. The velocity and acceleration of the reference come from
    its derivatives by the time.

    Attributes:
        body: index in `World.bodies`.
        reference: R_d, of the time [s] and the args of `simulate` to the quaternion that turns the
            body into the world, scalar first, of any length but zero, shape (4,); written in JAX,
            twice differentiable by the time. If it is an `equinox.Module`, the arrays it holds can
            be differentiated; those over which a plain function closes are constants.
        attitude_gain: k_R [N m], positive, shape ().
        angular_velocity_gain: k_Omega [N m s], positive, shape ().

    Raises:
        ValueError: naming the argument that is not understood; in `simulate` if the reference
            returns anything else.

    Reference: T. Lee, M. Leok and N. H. McClamroch, *Geometric tracking control of a quadrotor UAV
    on SE(3)* (2010), the attitude controlled flight mode. DOI 10.1109/CDC.2010.5717652.
    """

    body: int = eqx.field(static=True)
    reference: Function
    attitude_gain: Float[Array, ""]
    angular_velocity_gain: Float[Array, ""]

    def __init__(
        self,
        body: int,
        reference: Callable[[Time, Any], Float[Array, "4"]],
        attitude_gain,
        angular_velocity_gain,
    ):
        name = "AttitudeTracking"
        self.body = body_index(body, f"{name}.body")
        self.reference = reference_function(reference, f"{name}.reference")
        self.attitude_gain = gain(attitude_gain, f"{name}.attitude_gain")
        self.angular_velocity_gain = gain(angular_velocity_gain, f"{name}.angular_velocity_gain")

    def desired(self, t: Time, phase: Phase, args: Any) -> DesiredAttitude:
        """What the reference says at a time [s], in the precision of the phase."""

        def curve(t):
            name = "What AttitudeTracking.reference returns"
            return Quat.of(array_at(self.reference(t, args), t, name, (4,))).normalized()

        return DesiredAttitude.along(curve, time_of(t, phase))

    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        desired = self.desired(t, phase, args)
        return on_one(phase, self.body, None, self.torque(phase, inertial, desired))

    def error(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> TrackingError:
        return self.attitude_error(phase, inertial, self.desired(t, phase, args)).arrays()
