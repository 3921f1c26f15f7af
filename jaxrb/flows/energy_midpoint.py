"""The energy-preserving top of Geradin and Rixen, section 11.

Position of the centre of mass and rotation are advanced as six coordinates; a pin is imposed
on the velocities half-way, eq. (339), by a force lambda. With the half-turn F given by the
Euler parameters e of the whole turn, eqs. (323)-(324), Omega = 2 e/h half-way, eq. (326), and
p' - p = h (lambda + m g), eq. (306a), the balance of `midpoint` is (306b) with the moment of
lambda about the centre of mass; eliminating lambda leaves three equations for Omega.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._validate import one_of
from ..bodies import Phase
from ..math import Quat, Vec3, cross, dot, rotate, rotate_inverse, safe_sqrt, tree_where
from .base import AbstractFlow, steep_growth
from .midpoint import Balance, no_impulse, scaled, solve
from .rigid_rotation import ballistic, following_orientation


class EnergyMidpoint(AbstractFlow):
    """Geradin and Rixen's midpoint rule with e = h Omega/2 for the Euler parameters of a turn.

    Order 2. Conserves the energy exactly, of pinned bodies under gravity too. The position
    follows its constraint to round-off, the velocity to O(dt^2) only.

    Attributes:
        momentum_update: "corrected" takes Omega half-way as the mean of the angular velocities
            at both ends, eq. (326), on which the conservation of energy rests; "printed" takes
            the momentum there as the mean of the momenta, eq. (310), as the paper's algorithm
            does; its energy error is O(dt^2).
        iterations: at most, of Newton's rule for Omega. With the default a step can turn the
            body by about 1.2 rad; beyond, it may have to be taken in parts, and always where it
            would turn it by more than half a turn, h |Omega| = 2.
    """

    momentum_update: str = eqx.field(default="corrected", static=True)
    iterations: int = eqx.field(default=12, static=True)

    def __init__(
        self,
        momentum_update: Literal["corrected", "printed"] = "corrected",
        iterations: int = 12,
    ):
        self.momentum_update = one_of(momentum_update, ("corrected", "printed"), "momentum_update")
        self.iterations = iterations

    def bend_growth(self, angle):
        return steep_growth(angle, 2.0)

    def drift(self, duration, phase, inertial, gravity):
        q, m, h = phase.orientation, phase.angular_momentum, duration
        velocity, pivot = inertial.velocity(phase), inertial.pivot
        impulse, load, size = no_impulse, None, dot(m, m)
        if pivot is not None:
            turned_back = rotate_inverse(q, velocity), rotate_inverse(q, gravity)
            impulse, load = _of_pin, _Load(pivot.arm, inertial.mass, *turned_back)
            forces = 4 * dot(velocity, velocity) + dot(gravity, gravity) * (h * h)
            size += dot(pivot.arm, pivot.arm) * forces * inertial.mass**2
        balance = Balance(h, m, inertial.inertia, load)
        printed = self.momentum_update == "printed"
        omega, p, momentum, error = solve(
            _half_turn, impulse, balance, size, self.iterations, reach=0.5, mean_momentum=printed
        )

        orientation = following_orientation(q, p * p)
        position, linear = ballistic(h, phase, inertial, gravity)
        if pivot is not None:
            half_way = q * p / jnp.sqrt(p.norm_squared())
            mean = rotate(half_way, cross(omega, pivot.arm))  # (339)
            held = (phase.position + mean * h, (mean * 2.0 - velocity) * inertial.mass)  # (308)
            position, linear = tree_where(pivot.pinned, held, (position, linear))
        return Phase(position, orientation, linear, momentum, phase.stretch), error


class _Load(NamedTuple):
    """The numbers on which the force of the pin depends, in the body frame at the start."""

    arm: Vec3  # X_g: from the pin to the centre of mass [m]
    mass: Float[Array, " n_bodies"]
    velocity: Vec3  # of the centre of mass [m/s]
    gravity: Vec3  # [m/s^2]


def _half_turn(y: Vec3) -> Quat:
    """F for y = h Omega/4 = e/2: e is its vector part and e_0, eq. (196), its scalar one."""
    e = y * 2.0
    return Quat(1 + safe_sqrt(1 - dot(e, e)), e)


def _of_pin(p: Quat, omega: Vec3, balance: Balance) -> Vec3:
    """-X_g x lambda h in the frame half-way, eq. (306b), with lambda from (306a) and (339)."""
    h, (arm, mass, velocity, gravity) = balance.duration, balance.load
    back = p.conjugate()
    change = (cross(omega, arm) * p.norm_squared() - scaled(back, velocity)) * 2.0
    force = (change - scaled(back, gravity) * h) * mass  # h lambda = p' - p - h m g
    return -cross(arm, force)
