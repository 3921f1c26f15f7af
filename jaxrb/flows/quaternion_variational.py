"""The quaternion-based variational integrator of Betsch and Siebert, appendix E.

The discrete Euler-Lagrange equations (E1) are advanced in position and momentum. With the
relative rotation f = (f0, v) = conj(q) q', and the potential V(q_{1/2}) at q_{1/2} =
(q + q')/2, the discrete momenta J^-, rotated into the body, at both ends of a step are

    m  = (2/h) (f0 J v + v x J v) + (h/4) (V v - (1 + f0) tau - v x tau),
    m' = (2/h) (f0 J v - v x J v) + (h/4) (V v + (1 + f0) tau - v x tau),

where V and tau are potential and moment at the orientation half-way; V enters because
q_{1/2} is shorter than 1 and the potential is extended there as a quadratic form. Multipliers
do not appear: they act along q. Without a potential the first is the discrete Moser-Veselov
equation (70c) of Tran and Leok.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp

from ..math import InertiaTensor, Quat, Vec3, cross, dot, rotate_inverse, zeros_like
from ..math.newton import newton3, relative_error
from .base import AbstractFlow, steep_growth
from .lie_variational import cayley_vector
from .rigid_rotation import Duration, GravityMoment, rotation_problem, turned


class QuaternionVariational(AbstractFlow):
    """QUAT.VI of Betsch and Siebert, appendix E.

    Order 2, symplectic. Conserves the discrete angular momentum, which is the momentum of the
    states it returns, and the energy of free bodies; that of pinned ones oscillates without
    drift. It starts from the given momentum. Its equations have no real solution once
    |Omega| dt is above about 1; such a step is taken in parts.

    Attributes:
        iterations: of Halley's rule for the free motion and, for pinned bodies, of Newton's
            rule from there.
    """

    iterations: int = eqx.field(default=6, static=True)

    def bend_growth(self, angle):
        return steep_growth(angle, 1.0)

    def drift(self, duration, phase, inertial, gravity):
        h = duration
        m, inertia, weight, size = rotation_problem(h, phase, inertial, gravity)
        step = _Step(h, m, inertia, weight)
        f = cayley_vector(m * (0.5 * h), inertia, self.iterations)
        if weight is not None:
            f = newton3(_residual, f, step, self.iterations)
        error = relative_error(_residual(f, step), size * (0.25 * h * h))

        increment = _unit(f)
        pulled, pushed = _impulses(increment, step)
        following = rotate_inverse(increment, m - pulled) + pushed
        return turned(h, phase, increment, following, inertial, gravity), error


class _Step(NamedTuple):
    duration: Duration  # [s]
    momentum: Vec3  # m
    inertia: InertiaTensor
    weight: GravityMoment | None


def _residual(f: Vec3, step: _Step) -> Vec3:
    """The residual of the first equation times h/2, J f + f x J f - (1 + f.f) k with f = v/f0."""
    pulled, _ = _impulses(_unit(f), step)
    jf = step.inertia.matvec(f)
    k = (step.momentum - pulled) * (0.5 * step.duration)
    return jf + cross(f, jf) - k * (1 + dot(f, f))


def _impulses(f: Quat, step: _Step) -> tuple[Vec3, Vec3]:
    """The terms with the potential, at the start and at the end."""
    weight, h = step.weight, step.duration
    if weight is None:
        return zeros_like(f.v), zeros_like(f.v)
    half = Quat(1 + f.w, f.v).normalized()
    moment = weight.moment(half)
    even = moment * (1 + f.w)
    odd = f.v * weight.potential(half) - cross(f.v, moment)
    return (odd - even) * (0.25 * h), (odd + even) * (0.25 * h)


def _unit(f: Vec3) -> Quat:
    """(1, f) of unit length."""
    length = jnp.sqrt(1 + dot(f, f))
    return Quat(1 / length, f / length)
