"""The director-based energy-momentum scheme that Betsch and Siebert compare with, section 3.

The columns of R, the directors, and their rates V are advanced by the midpoint rule,

    R' - R = h (V + V')/2,
    (V' - V) E = h P - h R_{1/2} Lambda,      R'^T R' = 1,

with R_{1/2} = (R + R')/2, the Euler tensor E = tr(J)/2 - J, eq. (20), the forces P = g (m a)^T
of gravity on a body pinned at -a, and multipliers Lambda, a symmetric matrix. With the
half-turn F and Y = R^T V E the first two combine, in the frame half-way, to

    X = (F - F^T) E 2/h - 2 F^T Y - h F^T R^T P = -h C Lambda,      C = (F + F^T)/2,

so that C^{-1} X and with it X C is symmetric: three equations for F, written here for Omega
with tan(phi/4) = h |Omega|/4. The constraints hold at the ends of steps only; on the way the
rates leave those of a rigid body by O(h^2). So Y = S(Omega') E + S has a symmetric part S of
its own, `State.stretch`, beside that of the angular velocity Omega' = J^{-1} m, and
tr(S E^{-1} S)/2 of the energy, which the scheme conserves in all, is in it.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp

from ..bodies.stretch import euler_tensor
from ..math import (
    InertiaTensor,
    Mat3,
    Quat,
    Vec3,
    axial,
    cross,
    dot,
    symmetric_part,
    zeros_like,
)
from ..math.newton import newton3, relative_error
from .base import AbstractFlow
from .rigid_rotation import (
    Duration,
    GravityMoment,
    angular_velocity_half_way,
    rotation_problem,
    turned,
)


class DirectorEnergyMomentum(AbstractFlow):
    """DIR.EM: the energy-momentum scheme in directors, Betsch and Siebert, section 3.

    Order 2. Keeps the directors orthonormal to round-off and conserves the energy exactly, of
    pinned bodies under gravity too, and the angular momentum about axes about which the scene
    is symmetric. States along its trajectories carry `State.stretch`.

    Attributes:
        iterations: at most, of Newton's rule for Omega. With the default a step can turn the
            body by about 1.2 rad; beyond, it may have to be taken in parts.
    """

    has_stretch = True
    iterations: int = eqx.field(default=12, static=True)

    def drift(self, duration, phase, inertial, gravity):
        m, inertia, weight, size = rotation_problem(duration, phase, inertial, gravity)
        assert phase.stretch is not None
        euler = euler_tensor(inertia).rows()
        start = phase.stretch.rows() + _rigid(inertia.solve(m), euler)
        step = _Step(duration, m, start, inertia, euler, weight)
        guess = angular_velocity_half_way(duration, m, inertia)
        omega = newton3(_residual, guess, step, self.iterations)
        error = relative_error(_residual(omega, step), size)

        u = omega * (0.25 * duration)
        # At a turn by pi the directors half-way have no length along two axes, and every X C
        # is symmetric: such a root is none of the scheme.
        error = jnp.where(jnp.any(dot(u, u) > 0.8), jnp.inf, error)
        back = _half_turn(-u)
        sum_of_momenta = _rigid(omega * (2 / (1 + dot(u, u))), euler)  # (F - F^T) E 2/h
        following = back.matmul(sum_of_momenta - back.matmul(start))
        # From the balance of angular momentum, so that what Newton's rule leaves of the
        # equation does not reach it.
        momentum = _turn_back(u, _turn_back(u, m) + _moment(u, step))
        rigid = _rigid(inertia.solve(momentum), euler)
        stretch = symmetric_part(following - rigid)
        p = Quat(jnp.ones_like(u.x), u)
        return turned(duration, phase, p * p, momentum, inertial, gravity, stretch), error


class _Step(NamedTuple):
    duration: Duration  # [s]
    momentum: Vec3  # m, in the frame of the body at the start, like all here [kg m^2/s]
    start: Mat3  # Y [kg m^2/s]
    inertia: InertiaTensor
    euler: Mat3  # E [kg m^2]
    weight: GravityMoment | None


def _residual(omega: Vec3, step: _Step) -> Vec3:
    """Half the axial vector of X C: J Omega - m for slow turns.

    Written with vectors: u = h Omega/4 and c = 2/(1 + u.u) give F^T = (1 - c u.u) - c S(u) +
    c u u^T and C = (1 - c u.u) + c u u^T; the axial vectors of S(u) A and a b^T are
    tr(A) u - A u and b x a.
    """
    h, m, y, inertia, euler, weight = step
    u = omega * (0.25 * h)
    c = 2 / (1 + dot(u, u))
    rest = 1 - c * dot(u, u)
    yu = y.matvec(u)
    turned_back = m * rest + (yu - u * y.trace() - cross(u, y.transpose().matvec(u))) * c
    axial_of_x = inertia.matvec(omega) * c - turned_back * 2.0
    x_u = cross(omega, euler.matvec(u)) * c - _turn_back(u, yu) * 2.0
    if weight is not None:
        gravity = _turn_back(u, weight.gravity) * h
        axial_of_x = axial_of_x - cross(weight.lever, gravity)
        x_u = x_u - gravity * dot(weight.lever, u)
    return (axial_of_x * rest + cross(u, x_u) * c) * 0.5


def _turn_back(u: Vec3, a: Vec3) -> Vec3:
    """F^T a."""
    across = cross(u, a)
    return a + (cross(u, across) - across) * (2 / (1 + dot(u, u)))


def _rigid(omega: Vec3, euler: Mat3) -> Mat3:
    """S(Omega) E."""
    return axial(omega, 0.0, 1.0, 0.0).matmul(euler)


def _half_turn(u: Vec3) -> Mat3:
    """F for u = h Omega/4 = tan(phi/4) n."""
    c = 2 / (1 + dot(u, u))
    return axial(u, jnp.ones_like(c), c, c)


def _moment(u: Vec3, step: _Step) -> Vec3:
    """The angular impulse C l x h F^T g of gravity on the directors, in the frame half-way."""
    if step.weight is None:
        return zeros_like(u)
    lever, gravity = step.weight
    chord = lever + cross(u, cross(u, lever)) * (2 / (1 + dot(u, u)))
    return cross(chord, _turn_back(u, gravity)) * step.duration
