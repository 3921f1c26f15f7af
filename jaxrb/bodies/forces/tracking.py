"""What geometric tracking controllers have in common: errors, gains and the torque.

The attitude error is that of the matrix R_d^T R itself, not of any of its coordinates; it depends
neither on a parametrization nor on the sign of quaternions, so nothing unwinds. T. Lee, M. Leok and
N. H. McClamroch, *Geometric tracking control of a quadrotor UAV on SE(3)*, 49th IEEE Conference on
Decision and Control (2010), DOI 10.1109/CDC.2010.5717652; of an attitude alone: F. Bullo and
A. D. Lewis, *Geometric control of mechanical systems* (2005).
"""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from ..._validate import real_array, require_positive
from ...math import Quat, Vec3, cross, dot, rotate_inverse
from ..inertial import Inertial
from ..phase import Phase
from .base import AbstractBodyLoad, Time, angular_velocity, attitude, cast, inertia
from .function import Function
from .reference import DesiredAttitude


class TrackingError(eqx.Module):
    """How far a body is from its reference.

    Attributes:
        attitude: e_R, the vector of the skew matrix (R_d^T R - R^T R_d)/2, body frame, shape (3,):
            the sine of the angle of the rotation from the reference, along its axis.
        angular_velocity: e_Omega = Omega - R^T R_d Omega_d, body frame [rad/s], shape (3,).
        configuration: Psi = tr(I - R_d^T R)/2, 1 minus the cosine of that angle: 0 on the
            reference, 2 at half a turn from it; shape ().
        position: e_x = x - x_d of the centre of mass, world frame [m], shape (3,); None where
            only the attitude is tracked.
        velocity: e_v = v - x_d', world frame [m/s], shape (3,); None likewise.
    """

    attitude: Float[Array, "3"]
    angular_velocity: Float[Array, "3"]
    configuration: Float[Array, ""]
    position: Float[Array, "3"] | None = None
    velocity: Float[Array, "3"] | None = None


class AbstractTracking(AbstractBodyLoad):
    """A controller that makes a body follow a reference.

    Attributes:
        reference: of the time [s] and the args of `simulate`.
        attitude_gain: k_R [N m].
        angular_velocity_gain: k_Omega [N m s].
    """

    reference: eqx.AbstractVar[Function]
    attitude_gain: eqx.AbstractVar[Float[Array, ""]]
    angular_velocity_gain: eqx.AbstractVar[Float[Array, ""]]

    @property
    def velocity_dependent(self) -> bool:
        return True

    @abc.abstractmethod
    def error(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> TrackingError:
        """How far the body is from its reference; arguments as of `wrench`."""

    def attitude_error(
        self, phase: Phase, inertial: Inertial, desired: DesiredAttitude
    ) -> AttitudeError:
        """That of the body."""
        omega = angular_velocity(phase, inertial, self.body)
        return AttitudeError.of(attitude(phase, self.body), omega, desired)

    def torque(self, phase: Phase, inertial: Inertial, desired: DesiredAttitude) -> Vec3:
        """M = -k_R e_R - k_Omega e_Omega + Omega x J Omega
        - J (Omega x R^T R_d Omega_d - R^T R_d Omega_d'), body frame [N m]."""
        J, omega = inertia(inertial, self.body), angular_velocity(phase, inertial, self.body)
        error = self.attitude_error(phase, inertial, desired)
        push = error.attitude * cast(self.attitude_gain, phase)
        damp = error.angular_velocity * cast(self.angular_velocity_gain, phase)
        change = error.desired_acceleration - cross(omega, error.desired_velocity)
        return cross(omega, J.matvec(omega)) + J.matvec(change) - push - damp


class AttitudeError(eqx.Module):
    """The errors of an attitude, in components, and what is desired in the body frame."""

    attitude: Vec3  # e_R
    angular_velocity: Vec3  # e_Omega [rad/s]
    configuration: Float[Array, ""]  # Psi
    desired_velocity: Vec3  # R^T R_d Omega_d [rad/s]
    desired_acceleration: Vec3  # R^T R_d dOmega_d/dt [rad/s^2]

    @staticmethod
    def of(orientation: Quat, omega: Vec3, desired: DesiredAttitude) -> AttitudeError:
        """Of an attitude and a body-frame angular velocity [rad/s]."""
        # Of R_d^T R: with a quaternion (w, v) its skew part is that of 2 w v, and its trace is
        # 3 - 4 v.v. Neither cancels near the reference, or changes with the quaternion's sign.
        q = desired.orientation.conjugate() * orientation
        velocity = rotate_inverse(q, desired.angular_velocity)
        return AttitudeError(
            q.v * (2 * q.w),
            omega - velocity,
            2 * dot(q.v, q.v),
            velocity,
            rotate_inverse(q, desired.angular_acceleration),
        )

    def arrays(self, position: Vec3 | None = None, velocity: Vec3 | None = None) -> TrackingError:
        """For the user, with the errors of the position, if there are any."""
        return TrackingError(
            self.attitude.array(),
            self.angular_velocity.array(),
            self.configuration,
            None if position is None else position.array(),
            None if velocity is None else velocity.array(),
        )


def gain(value: Any, name: str) -> Float[Array, ""]:
    """`value` as a scalar; raises `ValueError` unless, if known, it is positive and finite."""
    number = real_array(value, name, ())
    require_positive(number, name)
    return number


def reference_function(given: Any, name: str) -> Function:
    """A reference of the user; raises `ValueError` if it is no function."""
    if not callable(given):
        raise ValueError(f"{name} must be a function of the time and args; got {given!r}.")
    return Function(given)
