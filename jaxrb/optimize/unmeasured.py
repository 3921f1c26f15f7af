"""What was not measured of poses, from a simulation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bodies import State
from ..simulate import SaveAt, World, simulate
from ..simulate.method import AbstractMethod
from ..simulate.time_grid import rounded_up
from .data import AbstractData

# Of a body that was seen so many times at least, the measurements tell where it was.
SEEN = 2

PoseArrays = tuple[np.ndarray, np.ndarray]


def completed(
    world: World, data: AbstractData, state: State | None, method: AbstractMethod, args: Any
) -> PoseArrays:
    """Positions (T, n_bodies, 3) and quaternions (T, n_bodies, 4) of one throw.

    Positions of bodies whose positions the measurements hardly tell, and likewise attitudes, are
    those of a simulation, NaN after it ended early.

    Args:
        world, method, args: as in `simulate`.
        data: what was measured.
        state: at the first time, from which to simulate; None to take the measurements alone.
    """
    measured = data.poses(len(world.bodies))
    known = [np.isfinite(array).all(-1).sum(0) >= SEEN for array in measured]
    if state is None or all(own.all() for own in known):
        return measured
    ts = np.append(data.ts, np.repeat(data.ts[-1:], rounded_up(data.ts.size) - data.ts.size))
    sol = simulate(
        world, state, method, ts[-1], ts[0], SaveAt(ts=ts), args, throw=False, failed="nan"
    )
    n = data.ts.size
    simulated = np.asarray(sol.states.position)[:n], np.asarray(sol.states.quaternion)[:n]
    position, attitude = (
        np.where(own[:, None], array, other)
        for own, array, other in zip(known, measured, simulated, strict=True)
    )
    return position, attitude
