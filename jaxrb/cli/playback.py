"""The speed of a replay, chosen by the motion that it shows."""

from __future__ import annotations

import math

import numpy as np

from ..simulate import Solution

SHORTEST, LONGEST = 6.0, 12.0  # how long it plays, if it need not be faster than real [s]
SLOWEST_RATE, FASTEST_RATE = 30.0, 60.0  # frames per second of playing
TURN = 0.25  # of a body from one frame to the next, at most where that is possible [rad]


def playback(sol: Solution) -> tuple[float, float]:
    """Speed and frame rate of a replay, so that the eye can follow.

    Fast turns are played more slowly and with more frames, up to `LONGEST`; what is over soon
    is stretched to `SHORTEST`; nothing is played faster than real.

    Args:
        sol: of one world, with saved states.

    Returns:
        Seconds of the simulation per second of playing, to one digit, and frames per second.
    """
    span = float(sol.ts[-1] - sol.ts[0])
    rate = float(np.linalg.norm(sol.states.angular_velocity, axis=-1).max())  # [rad/s]
    followed = TURN * SLOWEST_RATE / rate if rate > 0 else math.inf
    speed = min(1.0, max(span / LONGEST, min(span / SHORTEST, followed)))
    speed = float(f"{speed:.1g}")
    return speed, float(np.clip(rate * speed / TURN, SLOWEST_RATE, FASTEST_RATE))
