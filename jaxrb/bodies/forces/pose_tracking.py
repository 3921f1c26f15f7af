"""A force and a torque that make a body follow a pose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from ..._validate import body_index
from ...math import Vec3
from ..inertial import Inertial
from ..phase import Phase
from .base import Time, Wrench, on_one
from .function import Function
from .position_tracking import AbstractPositionTracking
from .reference import DesiredAttitude, derivatives, pose_at, time_of
from .tracking import TrackingError, gain, reference_function


class PoseTracking(AbstractPositionTracking):
    """Geometric tracking control of the pose of a free body, by a force in any direction and a
    torque: a spacecraft, a submarine, a body in a hand.

    F = -k_x e_x - k_v e_v + m (x_d'' - g), and the torque of `AttitudeTracking`, with the errors of
    `TrackingError`. On the reference they are what the motion needs; the error of the position
    follows m e_x'' + k_v e_x' + k_x e_x = 0 everywhere. What acts besides gravity is a disturbance,
    constant forces too. The velocities and accelerations of the reference come from its derivatives
    by the time.

    Attributes:
        body: index in `World.bodies`.
        reference: of the time [s] and the args of `simulate` to a pair, like the motion of a
            `Moving`: where the centre of mass is to be, x_d, world frame [m], shape (3,), and the
            quaternion that turns the body into the world, R_d, scalar first, of any length but
            zero, shape (4,); written in JAX, twice differentiable by the time. If it is an
            `equinox.Module`, the arrays it holds can be differentiated; those over which a plain
            function closes are constants.
        position_gain: k_x [N/m], positive, shape ().
        velocity_gain: k_v [N s/m], positive, shape ().
        attitude_gain: k_R [N m], positive, shape ().
        angular_velocity_gain: k_Omega [N m s], positive, shape ().
        gravity: g of the world, world frame [m/s^2], shape (3,); it comes from the world.

    Raises:
        ValueError: naming the argument that is not understood; in `simulate` if the reference
            returns anything else.

    Reference: T. Lee, M. Leok and N. H. McClamroch, *Geometric tracking control of a quadrotor UAV
    on SE(3)* (2010), with the force that the position asks for in place of its part along the
    thrust. DOI 10.1109/CDC.2010.5717652.
    """

    body: int = eqx.field(static=True)
    reference: Function
    position_gain: Float[Array, ""]
    velocity_gain: Float[Array, ""]
    attitude_gain: Float[Array, ""]
    angular_velocity_gain: Float[Array, ""]
    gravity: Float[Array, "3"] | None

    def __init__(
        self,
        body: int,
        reference: Callable[[Time, Any], tuple[Array, Array]],
        position_gain,
        velocity_gain,
        attitude_gain,
        angular_velocity_gain,
    ):
        name = "PoseTracking"
        self.body = body_index(body, f"{name}.body")
        self.reference = reference_function(reference, f"{name}.reference")
        self.position_gain = gain(position_gain, f"{name}.position_gain")
        self.velocity_gain = gain(velocity_gain, f"{name}.velocity_gain")
        self.attitude_gain = gain(attitude_gain, f"{name}.attitude_gain")
        self.angular_velocity_gain = gain(angular_velocity_gain, f"{name}.angular_velocity_gain")
        self.gravity = None

    def desired(
        self, t: Time, phase: Phase, args: Any
    ) -> tuple[tuple[Vec3, Vec3, Vec3], DesiredAttitude]:
        """What the reference says at a time [s], in the precision of the phase: position, velocity
        and acceleration, and the attitude."""

        def pose(t):
            return pose_at(self.reference, t, args, "PoseTracking.reference")

        t = time_of(t, phase)
        position, velocity, acceleration = derivatives(lambda t: pose(t)[0], t, 2)
        return (position, velocity, acceleration), DesiredAttitude.along(lambda t: pose(t)[1], t)

    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        (x_d, v_d, a_d), desired = self.desired(t, phase, args)
        errors = self.position_errors(phase, inertial, x_d, v_d)
        force = self.force_for(phase, inertial, errors, a_d)
        return on_one(phase, self.body, force, self.torque(phase, inertial, desired))

    def error(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> TrackingError:
        (x_d, v_d, _), desired = self.desired(t, phase, args)
        errors = self.position_errors(phase, inertial, x_d, v_d)
        return self.attitude_error(phase, inertial, desired).arrays(*errors)
