"""When to save, as numbers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .recorder import SaveSpec, Times
from .saving import SaveAt
from .time_grid import TimeGrid, known_time, rounded_up

# Of a step: times that are closer to the end of one count as its end.
_SLACK = 1e-9


class Schedule(NamedTuple):
    """When to save.

    Attributes:
        ts: the times [s], shape (n,).
        times: where they fall.
        sorted: whether they are in order and between t0 and t1.
        wanted: what of it is part of the program.
        used: how many of the times there are, if that is known; the rest is capacity.
    """

    ts: Float[Array, " n"]
    times: Times
    sorted: Bool[Array, ""]
    wanted: SaveSpec
    used: int | None


def schedule(save: SaveAt, t0: Any, t1: Any, dt: Any, grid: TimeGrid) -> Schedule:
    """When to save on a grid of times.

    Args:
        save: what is asked for.
        t0, t1, dt: numbers or traced [s].
        grid: the steps between them.

    Raises:
        ValueError: if known times are not sorted or not between t0 and t1.
    """
    impacts = save.impacts
    if save.spacing is not None and dt is not None:
        raise ValueError("SaveAt.spacing belongs to continuous time: with dt the steps are of it.")
    if dt is None and save.every is not None:
        return _spaced(save, t0, t1, grid, impacts)
    if save.ts is not None:
        if dt is None:
            return _in_one_step(save.ts, t0, t1, grid, impacts)
        return _at_times(save.ts, t0, t1, dt, grid, impacts)
    known = isinstance(grid.t1, np.ndarray) and isinstance(grid.n_steps, np.ndarray)
    xp: Any = np if known else jnp
    end, last = xp.reshape(grid.t1, (1,)), xp.reshape(grid.n_steps, (1,))
    if save.every is None:
        times = Times(last, xp.zeros_like(end))
        return Schedule(end, times, xp.ones((), bool), SaveSpec(0, 1, False, impacts), 1)
    every = save.every
    step = xp.arange(0, grid.capacity, every, dtype=np.int32)
    along = step < grid.n_steps
    ts = xp.where(along, grid.t0 + grid.dt * step.astype(grid.dt.dtype), end)
    n_steps = known_time(grid.n_steps)
    used = None if n_steps is None else len(range(0, min(int(n_steps), grid.capacity), every)) + 1
    step = xp.concatenate([step, last])
    return Schedule(
        xp.concatenate([ts, end]),
        Times(step, xp.zeros_like(step, grid.dt.dtype)),
        xp.ones((), bool),
        SaveSpec(step.size, 1, False, impacts),
        used,
    )


def _spaced(save: SaveAt, t0, t1, grid: TimeGrid, impacts: int) -> Schedule:
    """Times at a spacing, in continuous time.

    Raises:
        ValueError: without a spacing, or if the times that make their number are traced.
    """
    assert save.every is not None
    if save.spacing is None:
        raise ValueError(
            "SaveAt.every counts steps, and with dt=None there are none: give their size as well, "
            "SaveAt(every=..., spacing=...), or SaveAt(ts=...)."
        )
    if known_time(t0) is None or known_time(t1) is None:
        raise ValueError(
            "SaveAt(every=..., spacing=...) needs t0 and t1 that are not traced, as they make the "
            "number of times: use SaveAt(ts=...)."
        )
    between = save.every * save.spacing
    n = math.ceil((t1 - t0) / between * (1 - _SLACK))
    ts = np.append(t0 + between * np.arange(n), t1)
    return _in_one_step(ts, t0, t1, grid, impacts)


def _in_one_step(ts, t0, t1, grid: TimeGrid, impacts: int) -> Schedule:
    """Times in continuous time, of which all but the last are within the one step."""
    ts, t0, t1, dtype, in_order = _checked(ts, t0, t1, 0.0, grid)
    xp = np if isinstance(ts, np.ndarray) else jnp
    step = xp.where(ts >= t1, grid.n_steps, np.int32(0))
    times = Times(jnp.asarray(step), jnp.asarray(ts - t0, dtype))
    spec = SaveSpec(int(ts.size), int(ts.size), True, impacts)
    return Schedule(jnp.asarray(ts, dtype), times, jnp.asarray(in_order), spec, int(ts.size))


def _checked(ts, t0, t1, slack, grid: TimeGrid):
    """The times in double precision if they are known, sorted and clipped to [t0, t1].

    Raises:
        ValueError: if known times are not sorted or not between t0 and t1.
    """
    known = all(known_time(number) is not None for number in (ts, t0, t1, slack))
    xp = np if known else jnp
    dtype = np.float64 if known else grid.t0.dtype
    ts, t0, t1, slack = (xp.asarray(number, dtype) for number in (ts, t0, t1, slack))
    in_order = (xp.diff(ts) >= 0).all() & (ts[0] >= t0 - slack) & (ts[-1] <= t1 + slack)
    if known and not in_order:
        shown = ts.tolist() if ts.size < 10 else f"{ts.size} times from {ts[0]} to {ts[-1]}"
        raise ValueError(
            f"SaveAt.ts must be a non-empty, sorted sequence of times in [{t0}, {t1}]; got {shown}."
        )
    return xp.clip(ts, t0, t1), t0, t1, grid.t0.dtype, in_order


def _at_times(ts, t0, t1, dt, grid: TimeGrid, impacts: int) -> Schedule:
    known = all(known_time(number) is not None for number in (ts, t0, t1, dt))
    xp = np if known else jnp
    dtype = np.float64 if known else grid.t0.dtype
    dt = xp.asarray(dt, dtype)
    slack = max(_SLACK, 16 * float(jnp.finfo(dtype).eps)) * dt
    ts, t0, t1, _, in_order = _checked(ts, t0, t1, slack, grid)
    step = xp.floor((ts - t0) / dt + slack / dt)
    offset = ts - t0 - step * dt
    # Exactly at the end of a step, whatever round-off says.
    offset = xp.where(xp.abs(offset) <= slack, 0.0, offset)
    at_end = ts >= t1 - slack
    step = xp.where(at_end, grid.n_steps, step.astype(np.int32))
    most, within = ts.size, True
    if known:
        along = step[~at_end]
        first = np.searchsorted(along, along)
        last = np.searchsorted(along, along, side="right")
        most = rounded_up(int((last - first).max(initial=1)))
        within = most > 1 or bool(offset[~at_end].any())
    to = lambda array: jnp.asarray(array, grid.t0.dtype)  # noqa: E731
    times = Times(jnp.asarray(step), to(offset))
    spec = SaveSpec(int(ts.size), most, within, impacts)
    return Schedule(to(ts), times, jnp.asarray(in_order), spec, int(ts.size))
