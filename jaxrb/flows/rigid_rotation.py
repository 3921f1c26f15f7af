"""Rigid rotation about a point, which most flows share.

The point is the centre of mass, or the pivot of a pinned body. A free centre of mass moves on
its parabola, which every scheme of second order here follows exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bodies import Inertial, Phase
from ..bodies.inertial import Pivot
from ..math import InertiaTensor, Quat, Sym3, Vec3, cross, dot, rotate, rotate_inverse, tree_where
from ..math.materialize import compute_once

Duration = Float[Array, ""] | float


class GravityMoment(NamedTuple):
    """Gravity on pinned bodies: a moment about the pivot."""

    lever: Vec3  # mass times the arm from the pivot to the centre of mass, body [kg m]
    gravity: Vec3  # in the frame of the body at the start of a step [m/s^2]

    def moment(self, turn: Quat) -> Vec3:
        """About the pivot after a turn since the start, in the frame of the body then [N m]."""
        return cross(self.lever, rotate_inverse(turn, self.gravity))

    def size(self) -> Float[Array, " n_bodies"]:
        """The square of what its moments are rounded like, however small they are [N^2 m^2]."""
        return dot(self.lever, self.lever) * dot(self.gravity, self.gravity)

    def potential(self, turn: Quat) -> Float[Array, " n_bodies"]:
        """Zero where the centre of mass is level with the pivot [J]."""
        return -dot(self.lever, rotate_inverse(turn, self.gravity))


class RotationProblem(NamedTuple):
    """The rotation of bodies about their points, at the start of a step."""

    momentum: Vec3  # about the point, body frame [kg m^2/s]
    inertia: InertiaTensor  # about the point, body frame [kg m^2]
    weight: GravityMoment | None  # None where every body is free
    size: Float[Array, " n_bodies"]  # the square of what momentum and impulse are rounded like


def rotation_problem(
    h: Duration, phase: Phase, inertial: Inertial, gravity: Vec3
) -> RotationProblem:
    """The rotational part of a phase, for a step of size h."""
    pivot = inertial.pivot
    if pivot is None:
        m = phase.angular_momentum
        return RotationProblem(m, inertial.inertia, None, dot(m, m))
    m = _momentum(phase, inertial, pivot)
    weight = GravityMoment(pivot.arm * inertial.mass, rotate_inverse(phase.orientation, gravity))
    return RotationProblem(m, pivot.inertia, weight, dot(m, m) + weight.size() * (h * h))


def _momentum(phase: Phase, inertial: Inertial, pivot: Pivot) -> Vec3:
    """About the pivots, body frame [kg m^2/s]."""
    return pivot.inertia.matvec(inertial.angular_velocity(phase))


def angular_velocity_half_way(h: Duration, momentum: Vec3, inertia: InertiaTensor) -> Vec3:
    """The angular velocity of free bodies in the middle of a step, to first order [rad/s]."""
    omega = inertia.solve(momentum)
    return omega + inertia.solve(cross(momentum, omega)) * (0.5 * h)


def ballistic(h: Duration, phase: Phase, inertial: Inertial, gravity: Vec3) -> tuple[Vec3, Vec3]:
    """Position and linear momentum of free bodies after a time h."""
    m, gamma = inertial.mass, phase.linear_momentum
    # Adding the constant g h^2/2 to x by itself would round the same way at every step, and
    # the energy would drift with time.
    position = phase.position + (gamma / m + gravity * (0.5 * h)) * h
    return position, gamma + gravity * (m * h)


def following_orientation(q: Quat, increment: Quat) -> Quat:
    """After a turn by an increment (of any length but 0), q' = q f."""
    # Divided by its own length, it does not drift from unit length.
    following = q * increment
    return following / jnp.sqrt(compute_once(following.norm_squared()))


def turned(
    h: Duration,
    phase: Phase,
    increment: Quat,
    momentum: Vec3,
    inertial: Inertial,
    gravity: Vec3,
    stretch: Sym3 | None = None,
) -> Phase:
    """The phase after a turn by an increment (of any length but 0)."""
    q = following_orientation(phase.orientation, increment)
    position, linear = ballistic(h, phase, inertial, gravity)
    pivot = inertial.pivot
    if pivot is not None:
        omega = pivot.inertia.solve(momentum)
        # The change only: to convert the momentum to the pivot and back at every step would
        # round the same way again and again, and the energy would drift.
        change = pivot.inertia.solve(momentum - _momentum(phase, inertial, pivot))
        momentum = phase.angular_momentum + inertial.inertia.matvec(change)
        velocity = rotate(q, cross(omega, pivot.arm))
        held = (pivot.point + rotate(q, pivot.arm), velocity * inertial.mass)
        position, linear = tree_where(pivot.pinned, held, (position, linear))
    return Phase(position, q, linear, momentum, stretch)
