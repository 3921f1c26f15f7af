"""Bounds of a free body's angular velocity that hold for all time."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Vec3, hadamard
from ..math.principal import PrincipalAxes


class SpinBounds(NamedTuple):
    """Of each body, from its energy and the size of its angular momentum alone."""

    rate: Float[Array, " n_bodies"]  # of |Omega| [rad/s]
    bend: Float[Array, " n_bodies"]  # C, of the norm of S(Omega)^2 + S(Omega') [1/s^2]


def spin_bounds(momentum: Vec3, principal: PrincipalAxes) -> SpinBounds:
    """Bounds along the free rotation of bodies, from their angular momenta in body frames.

    With k in principal axes and x_j = 1/J_j in order, where |k| and the energy are what they are,

        |Omega|^2 <= W^2 = sum_j k_j^2 (x_j (x_1 + x_3) - x_1 x_3),
        |Omega'|^2 <= w^2 = (sum_j k_j^2 (x_j - x_1)) min(x_3^2 sum_j k_j^2 (x_3 - x_j),
                                |k|^2 max(x_2^2 (x_3 - x_1), x_3^2 (x_2 - x_1))),

    the first of which is reached where k_2 = 0. The second follows from Euler's equations, such as
    Omega_1' = x_1 k_2 k_3 (x_3 - x_2), with k_2^2 (x_2 - x_1) and k_3^2 (x_3 - x_1) as the parts of
    the conserved sum; of thin rods, whose x_3 is large, it is 10^4 times less than without it. A
    point at the distance 1 is accelerated by at most C = (W^2 + sqrt(W^4 + 4 w^2))/2. No term is
    negative, and nothing is divided by a difference of moments.
    """
    k = principal.to_principal(momentum)
    square, x = hadamard(k, k), _inverse(principal.moments)
    least = jnp.minimum(jnp.minimum(x.x, x.y), x.z)
    most = jnp.maximum(jnp.maximum(x.x, x.y), x.z)
    both = list(zip((square.x, square.y, square.z), (x.x, x.y, x.z), strict=True))
    rate = sum(a * (y * y + (most - y) * (y - least)) for a, y in both)
    to_most, to_least = sum(a * (most - y) for a, y in both), sum(a * (y - least) for a, y in both)
    lower, upper = jnp.minimum(x.x, x.y), jnp.maximum(x.x, x.y)
    middle = jnp.maximum(lower, jnp.minimum(upper, x.z))
    whole = square.x + square.y + square.z
    steepest = jnp.maximum(middle**2 * (most - least), most**2 * (middle - least))
    turning = to_least * jnp.minimum(most * most * to_most, whole * steepest)
    return SpinBounds(jnp.sqrt(rate), 0.5 * (rate + jnp.sqrt(rate * rate + 4 * turning)))


def _inverse(v: Vec3) -> Vec3:
    return Vec3(1 / v.x, 1 / v.y, 1 / v.z)
