"""ALGO.C1 of Simo and Wong (1991), which Betsch and Siebert compare with.

The body turns by the rotation vector h Omega, Omega = J^{-1} (m + m')/2, in a step.
"""

from __future__ import annotations

from ..math import Quat, Vec3, dot, stumpff_series
from .midpoint import AbstractMidpoint


class SimoWong(AbstractMidpoint):
    """ALGO.C1 of Simo and Wong: a turn by phi = h |Omega|.

    Order 2. Conserves energy and angular momentum of free bodies exactly. The moment of
    gravity on pinned bodies is taken at the orientation half-way, R exp(h Omega/2); their
    energy then oscillates.
    """

    @staticmethod
    def half_turn(y: Vec3) -> Quat:
        # A step can turn a body by less than 4 |y| = 4 rad, the range of the series.
        square = dot(y, y)
        return Quat(stumpff_series(0, square), y * stumpff_series(1, square))

    def bend_growth(self, angle):
        """Of steady spin 1; of tumbling bodies a little more."""
        return 1 + angle**4 / 32
