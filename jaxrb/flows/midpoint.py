"""Midpoint schemes that conserve energy and momentum.

With the half-turn F, R_{1/2} = R F and R' = R F^2, they balance the momentum m about the
point about which a body turns in the frame half-way,

    F m' - F^T m = h tau,     m + m' = 2 J Omega,

where Omega is the angular velocity half-way and tau the moment there, and differ in the
half-turn F that they make of h Omega. Its axis is Omega in all of them; hence Omega.(m' - m) =
h Omega.tau: the energy (m.J^{-1} m)/2 changes by the work of the moment.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import InertiaTensor, Quat, Vec3, cross, dot, zeros_like
from ..math.newton import newton3, relative_error
from .base import AbstractFlow
from .rigid_rotation import Duration, angular_velocity_half_way, rotation_problem, turned

HalfTurn = Callable[[Vec3], Quat]


class Balance(NamedTuple):
    """The numbers in the equation of a step."""

    duration: Duration  # [s]
    momentum: Vec3  # at the start, body frame [kg m^2/s]
    inertia: InertiaTensor
    load: Any  # what the moment depends on


# The impulse h tau in the frame half-way [kg m^2/s], times the squared length of the
# quaternion p of the half-turn: from p, Omega and the balance.
Impulse = Callable[[Quat, Vec3, Balance], Vec3]


class AbstractMidpoint(AbstractFlow):
    """A scheme given by its half-turn, for free bodies and for pinned ones under gravity.

    Attributes:
        iterations: at most, of Newton's rule for Omega. With the default a step can turn the
            body by about 1.5 rad; beyond, it may have to be taken in parts.
    """

    iterations: int = eqx.field(default=12, static=True)

    @staticmethod
    @abc.abstractmethod
    def half_turn(y: Vec3) -> Quat:
        """F for y = h Omega/4, as a quaternion of any length but 0."""

    def drift(self, duration, phase, inertial, gravity):
        m, inertia, weight, size = rotation_problem(duration, phase, inertial, gravity)
        impulse = no_impulse if weight is None else _of_weight
        balance = Balance(duration, m, inertia, weight)
        _, p, following, error = solve(self.half_turn, impulse, balance, size, self.iterations)
        return turned(duration, phase, p * p, following, inertial, gravity), error


def solve(
    half_turn: HalfTurn,
    impulse: Impulse,
    balance: Balance,
    size: Float[Array, " n_bodies"],
    iterations: int,
    *,
    reach: float = 1.0,
    mean_momentum: bool = False,
) -> tuple[Vec3, Quat, Vec3, Float[Array, ""]]:
    """Omega, the quaternion of F, m' and the error of the equation.

    `size` is the square of what the momentum and the impulse h tau are rounded like; at an
    equilibrium the impulse itself is smaller.
    A step fails where h |Omega|/4 is larger than `reach`, where the half-turn is not defined.
    With `mean_momentum` 2 J Omega is the sum of the momenta in the frame half-way, F^T m +
    F m', as Geradin and Rixen print in eq. (310); the energy is then not conserved.
    """
    h, m, inertia, _ = balance
    residual = partial(_of_mean_momentum if mean_momentum else _residual, half_turn, impulse)
    omega = newton3(residual, angular_velocity_half_way(h, m, inertia), balance, iterations)
    p = half_turn(omega * (0.25 * h))
    back, n = p.conjugate(), p.norm_squared()
    pushed = impulse(p, omega, balance)
    # From the balance, not from 2 J Omega - m: so that what Newton's rule leaves of the
    # equation does not reach the momentum.
    following = scaled(back, scaled(back, m) + pushed) / (n * n)
    error = relative_error(residual(omega, balance), size)
    too_far = dot(omega, omega) * (h * h) > (4 * reach) ** 2
    error = jnp.where(jnp.any(too_far), jnp.inf, error)
    return omega, p, following, error


def _residual(half_turn: HalfTurn, impulse: Impulse, omega: Vec3, balance: Balance) -> Vec3:
    """F m' - F^T m - h tau, times the squared length of the quaternion of F."""
    h, m, inertia, _ = balance
    p = half_turn(omega * (0.25 * h))
    following = inertia.matvec(omega) * 2.0 - m
    return scaled(p, following) - scaled(p.conjugate(), m) - impulse(p, omega, balance)


def _of_mean_momentum(half_turn: HalfTurn, impulse: Impulse, omega: Vec3, balance: Balance) -> Vec3:
    """2 (J Omega - F^T m) - h tau, times the squared length of the quaternion of F."""
    h, m, inertia, _ = balance
    p = half_turn(omega * (0.25 * h))
    twice = inertia.matvec(omega) * p.norm_squared() - scaled(p.conjugate(), m)
    return twice * 2.0 - impulse(p, omega, balance)


def no_impulse(p: Quat, omega: Vec3, balance: Balance) -> Vec3:
    """The impulse on bodies on which no moment acts."""
    return zeros_like(omega)


def _of_weight(p: Quat, omega: Vec3, balance: Balance) -> Vec3:
    """The impulse of gravity at the midpoint (q + q')/2 of the quaternions, not of unit length."""
    weight = balance.load
    along = scaled(p.conjugate(), weight.gravity) / p.norm_squared()
    return cross(weight.lever, along) * balance.duration


def scaled(p: Quat, a: Vec3) -> Vec3:
    """p a conj(p): a vector turned, and stretched by the squared length of p."""
    return a * (p.w * p.w - dot(p.v, p.v)) + (cross(p.v, a) * p.w + p.v * dot(p.v, a)) * 2.0
