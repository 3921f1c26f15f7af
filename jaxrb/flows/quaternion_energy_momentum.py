"""The quaternion-based energy-momentum scheme of Betsch and Siebert, eqs. (51)-(54).

With p = q (0, 2 m), m the momentum in the body frame, and w = h Omega/4, where Omega =
J^{-1} (m + m')/2, the two equations (52) are

    q' (1 - w) = q (1 + w),
    p' (1 - w) = p (1 + w) - h (grad V + lambda q_{1/2}).

The first says that q'= q (1 + w)^2/(1 + w.w): the half-turn F is the quaternion 1 + w. The
vector part of the second, multiplied by the conjugate of q_{1/2}, is free of the multiplier
lambda - as after (53) - and balances the momentum as `midpoint` says. So the nine equations
(51) become three for Omega, and unit length, eq. (40) and both conservation laws are kept to
round-off. The potential is taken at q_{1/2} = (q + q')/2, which is shorter than 1.
"""

from __future__ import annotations

import jax.numpy as jnp

from ..math import Quat, Vec3
from .midpoint import AbstractMidpoint


class QuaternionEnergyMomentum(AbstractMidpoint):
    """QUAT.EM of Betsch and Siebert, eq. (51): tan(phi/4) = h |Omega|/4 for a turn by phi.

    Order 2. Conserves the energy exactly, of pinned bodies under gravity too, and the angular
    momentum about axes about which the scene is symmetric.
    """

    @staticmethod
    def half_turn(y: Vec3) -> Quat:
        return Quat(jnp.ones_like(y.x), y)

    def bend_growth(self, angle):
        return jnp.ones_like(angle)
