"""A thrust along a body axis and a torque that make a quadrotor follow a path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._validate import body_index
from ...math import Vec3, cross, direction, dot, rotate
from ..inertial import Inertial
from ..phase import Phase
from .base import Time, Wrench, angular_velocity, attitude, on_one
from .function import Function
from .position_tracking import AbstractPositionTracking
from .reference import DesiredAttitude, arrays_at, derivatives, time_of
from .tracking import TrackingError, gain, reference_function


class QuadrotorTracking(AbstractPositionTracking):
    """Geometric tracking control of the position and heading of a free body whose force has one
    direction in the body: a thrust along its z axis, and a torque.

    The force that the errors of the position ask for is A = -k_x e_x - k_v e_v + m (x_d'' - g). The
    thrust is its part along the body's z axis b_3, f = A.b_3. The torque is that of
    `AttitudeTracking` for the computed attitude R_c, whose z axis is along A and whose x axis is as
    near as it can be to the heading b_1d; Omega_c and its derivative are those of R_c along the
    motion that f gives, without what acts besides gravity and f. The paper's third axes point down
    where these point up.

    The position error decays if the thrust points less than a right angle away from A, and from
    almost all other attitudes after it has turned. The thrust may be negative; there is no
    attitude for A = 0 or a heading along A.

    Attributes:
        body: index in `World.bodies`.
        reference: of the time [s] and the args of `simulate` to a pair: where the centre of mass is
            to be, x_d, world frame [m], shape (3,), and the heading b_1d, world frame, of any
            length but zero, shape (3,); written in JAX, the position four times and the heading
            twice differentiable by the time. If it is an `equinox.Module`, the arrays it holds can
            be differentiated; those over which a plain function closes are constants.
        position_gain: k_x [N/m], positive, shape ().
        velocity_gain: k_v [N s/m], positive, shape ().
        attitude_gain: k_R [N m], positive, shape ().
        angular_velocity_gain: k_Omega [N m s], positive, shape ().
        gravity: g of the world, world frame [m/s^2], shape (3,); it comes from the world.

    Raises:
        ValueError: naming the argument that is not understood; in `simulate` if the reference
            returns anything else.

    Reference: T. Lee, M. Leok and N. H. McClamroch, *Geometric tracking control of a quadrotor UAV
    on SE(3)* (2010), the position controlled flight mode. DOI 10.1109/CDC.2010.5717652.
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
        name = "QuadrotorTracking"
        self.body = body_index(body, f"{name}.body")
        self.reference = reference_function(reference, f"{name}.reference")
        self.position_gain = gain(position_gain, f"{name}.position_gain")
        self.velocity_gain = gain(velocity_gain, f"{name}.velocity_gain")
        self.attitude_gain = gain(attitude_gain, f"{name}.attitude_gain")
        self.angular_velocity_gain = gain(angular_velocity_gain, f"{name}.angular_velocity_gain")
        self.gravity = None

    def desired(
        self, t: Time, phase: Phase, args: Any
    ) -> tuple[tuple[Vec3, ...], tuple[Vec3, ...]]:
        """What the reference says at a time [s], in the precision of the phase: the position and
        its derivatives up to the fourth, and the heading and its first two."""

        def part(index: int) -> Callable[[Float[Array, ""]], Vec3]:
            name, parts = "QuadrotorTracking.reference", {"position": (3,), "heading": (3,)}
            return lambda t: Vec3.of(arrays_at(self.reference, t, args, name, parts)[index])

        t = time_of(t, phase)
        return derivatives(part(0), t, 4), derivatives(part(1), t, 2)

    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        thrust, computed = self._thrust_and_attitude(phase, inertial, *self.desired(t, phase, args))
        force = self._axis(phase) * thrust
        return on_one(phase, self.body, force, self.torque(phase, inertial, computed))

    def error(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> TrackingError:
        """That of the attitude is from the computed one, R_c."""
        path, heading = self.desired(t, phase, args)
        _, computed = self._thrust_and_attitude(phase, inertial, path, heading)
        errors = self.position_errors(phase, inertial, path[0], path[1])
        return self.attitude_error(phase, inertial, computed).arrays(*errors)

    def _axis(self, phase: Phase) -> Vec3:
        """b_3, world frame."""
        return rotate(attitude(phase, self.body), _up(phase))

    def _thrust_and_attitude(
        self,
        phase: Phase,
        inertial: Inertial,
        path: tuple[Vec3, ...],
        heading: tuple[Vec3, ...],
    ) -> tuple[Float[Array, ""], DesiredAttitude]:
        """f [N], and R_c with its velocity and acceleration along the motion that f gives."""
        mass, gravity = inertial.mass[self.body], self.weight_acceleration(phase)
        omega = angular_velocity(phase, inertial, self.body)
        axis = self._axis(phase)
        turning = rotate(attitude(phase, self.body), cross(omega, _up(phase)))  # b_3'
        x_d, v_d, a_d, j_d, s_d = path
        # Each error gives the next derivative of the force, and that the one after the next error.
        e_x, e_v = self.position_errors(phase, inertial, x_d, v_d)
        force = self.force_for(phase, inertial, (e_x, e_v), a_d)
        thrust = dot(force, axis)
        e_a = axis * (thrust / mass) + gravity - a_d
        rate = j_d * mass - self.restoring(phase, e_v, e_a)
        thrust_rate = dot(rate, axis) + dot(force, turning)
        e_j = (axis * thrust_rate + turning * thrust) / mass - j_d
        bend = s_d * mass - self.restoring(phase, e_a, e_j)

        def frame(s: Float[Array, ""]) -> tuple[Vec3, Vec3, Vec3]:
            return _computed(_taylor((force, rate, bend), s), _taylor(heading, s))

        return thrust, DesiredAttitude.of_axes(*derivatives(frame, jnp.zeros_like(thrust), 2))


def _up(phase: Phase) -> Vec3:
    """The z axis, of shape ()."""
    zero = jnp.zeros_like(phase.position.x[0])
    return Vec3(zero, zero, zero + 1)


def _taylor(terms: tuple[Vec3, ...], s: Float[Array, ""]) -> Vec3:
    """The curve with a value and two derivatives at s = 0."""
    value, rate, bend = terms
    return value + (rate + bend * (0.5 * s)) * s


def _computed(force: Vec3, heading: Vec3) -> tuple[Vec3, Vec3, Vec3]:
    """The axes of R_c: the third along the force, the first as near as it can be to the heading."""
    third, _ = direction(force)
    second, _ = direction(cross(third, heading))
    return cross(second, third), second, third
