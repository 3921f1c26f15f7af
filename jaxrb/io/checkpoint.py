"""Long simulations in segments, with a file after each."""

from __future__ import annotations

import dataclasses
import math
from os import PathLike
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from .._validate import finite_number, positive_number
from ..bodies import State
from ..simulate import RESULTS, EventDriven, Impacts, SaveAt, Solution, Stats, World, simulate
from ..simulate.solve import raise_failure
from .files import load_file, save as save_file

_KIND = "simulation with checkpoints"


def simulate_with_checkpoints(
    world: World,
    state: State,
    method: EventDriven,
    t1: float,
    path: str | PathLike,
    *,
    every: float,
    t0: float = 0.0,
    save: SaveAt | None = None,
    throw: bool = True,
) -> Solution:
    """Simulates a world from t0 to t1 in segments and writes a file after each.

    If the process ends early, `resume(path)` goes on from the last file, and finds bit by bit
    what this call would have found. A script that may be killed at any time says

        done = resume(path) if path.exists() else simulate_with_checkpoints(..., path, every=1.0)

    A segment ends in a `State`, of velocities, while within it momenta are carried on: a
    trajectory in segments agrees with that of one call of `simulate` to round-off, and with
    another in the same segments bit by bit.

    Args:
        world, state, method, t1, t0, throw: of `simulate`.
        path: the file, with the suffix `.jaxrb`. It holds all that is needed to go on, what is
            saved included.
        every: length of a segment [s]; a whole number of steps of the method, if it has any. The
            last one may be shorter.
        save: of `simulate`; not `SaveAt(ts=...)`. A segment must be a multiple of
            `SaveAt(every=...)` steps. `SaveAt(impacts=N)` keeps the first N of the whole run.

    Returns:
        The solution of the whole run.

    Raises:
        FileExistsError: if there is a file at `path`.
        ValueError: if the arguments do not fit together, naming the argument, or the world
            holds functions of yours, which files do not.
        RuntimeError: if `throw` and the simulation ended early, with the remedy.
    """
    path = Path(path)
    if path.exists():
        raise FileExistsError(f"{path} exists: go on with resume({str(path)!r}), or remove it.")
    if not isinstance(method, EventDriven):
        raise ValueError(f"method must be a method such as LGVCI(dt=0.01); got {method!r}.")
    save = SaveAt(final=True) if save is None else save
    t0, t1 = finite_number(t0, "t0"), finite_number(t1, "t1")
    if t1 < t0:
        raise ValueError(f"t1 must not lie before t0; got t0 = {t0}, t1 = {t1}.")
    _check_segment(positive_number(every, "every"), method, save)
    run = {
        "file": _KIND,
        "world": world,
        "state": state,
        "method": method,
        "save": save,
        "t0": t0,
        "t1": t1,
        "every": float(every),
        "segments": 0,
        "solution": None,
    }
    save_file(path, run)
    return _go_on(path, run, throw)


def resume(path: str | PathLike, *, throw: bool = True) -> Solution:
    """Goes on with a simulation from the file of `simulate_with_checkpoints`.

    Args:
        path: the file, which is written after each segment as before. If the simulation was at
            its end, nothing is computed.
        throw: raise if the simulation ended early.

    Returns:
        The solution of the whole run, bit by bit as without interruption (with the same
        versions, on the same kind of machine).

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is none of `simulate_with_checkpoints`, or `load` does not open it.
        RuntimeError: if `throw` and the simulation ended early, with the remedy.
    """
    run = load_file(path)
    if not (isinstance(run, dict) and run.get("file") == _KIND):
        raise ValueError(f"{path} was not written by simulate_with_checkpoints.")
    return _go_on(Path(path), run, throw)


def _check_segment(every: float, method: EventDriven, save: SaveAt) -> None:
    if save.ts is not None:
        raise ValueError("save: SaveAt(ts=...) is not supported; use SaveAt(every=...).")
    if method.dt is None:  # a segment is as long as it is
        if save.every is not None:
            raise ValueError("save: SaveAt(every=...) needs a method with dt.")
        return
    steps = round(every / method.dt)
    if steps < 1 or abs(every / method.dt - steps) > 1e-9 * steps:
        raise ValueError(
            f"every must be a whole number of steps of {method.dt} s; got {every}, that is "
            f"{every / method.dt} steps."
        )
    if save.every is not None and steps % save.every:
        raise ValueError(
            f"every must be a multiple of SaveAt(every={save.every}) steps; got {steps} steps."
        )


def _go_on(path: Path, run: dict[str, Any], throw: bool) -> Solution:
    t0, t1, every, save = run["t0"], run["t1"], run["every"], run["save"]
    n_segments = max(1, math.ceil((t1 - t0) / every - 1e-9))
    while run["segments"] < n_segments:
        start = t0 + run["segments"] * every
        last = run["segments"] == n_segments - 1
        duration = t1 - start if last else every
        if abs(duration - every) <= 1e-9 * every:
            duration = every
        solution = simulate(
            run["world"], run["state"], run["method"], start + duration, start, save, throw=False
        )
        if run["solution"] is not None:
            solution = _joined(run["solution"], solution, save)
        failed = bool(solution.result != RESULTS.successful)
        if last and not failed:  # exactly
            solution = _ending_at(solution, t1)
        run["segments"] = n_segments if failed else run["segments"] + 1
        run["state"], run["solution"] = solution.final, solution
        save_file(path, run)
    return raise_failure(run["solution"]) if throw else run["solution"]


def _ending_at(solution: Solution, t1: float) -> Solution:
    """Restores the last time, which round-off of the segments' starts may have moved."""
    return dataclasses.replace(
        solution,
        ts=solution.ts.at[-1].set(t1),
        stats=dataclasses.replace(solution.stats, time=jnp.full_like(solution.stats.time, t1)),
    )


def _joined(before: Solution, after: Solution, save: SaveAt) -> Solution:
    """One solution of two in a row."""
    saved = (after.ts, after.states, after.reached)
    if save.every is not None:  # the end of one is the start of the other
        saved = jax.tree.map(
            lambda a, b: jnp.concatenate([a, b[1:]]),
            (before.ts, before.states, before.reached),
            saved,
        )
    ts, states, reached = saved
    ended = jnp.isfinite(before.zeno_time)
    return dataclasses.replace(
        after,
        ts=ts,
        states=states,
        reached=reached,
        impacts=_joined_impacts(before.impacts, after.impacts, save.impacts),
        zeno_time=jnp.where(ended, before.zeno_time, after.zeno_time),
        stats=Stats(
            steps=before.stats.steps + after.stats.steps,
            flow_evaluations=before.stats.flow_evaluations + after.stats.flow_evaluations,
            crowded=before.stats.crowded + after.stats.crowded,
            time=after.stats.time,
            energy=jnp.stack([before.stats.energy[0], after.stats.energy[1]]),
            kernel=before.stats.kernel & after.stats.kernel,
            work=_total(before.stats.work, after.stats.work),
        ),
    )


def _total(a: jax.Array | None, b: jax.Array | None) -> jax.Array | None:
    return None if a is None or b is None else a + b


def _joined_impacts(before: Impacts, after: Impacts, capacity: int) -> Impacts:
    """Joins the records, as many as there is room for."""
    used = min(int(before.count), capacity)
    records = [dataclasses.replace(impacts, count=None) for impacts in (before, after)]
    joined = jax.tree.map(lambda a, b: jnp.concatenate([a[:used], b])[:capacity], *records)
    return dataclasses.replace(joined, count=before.count + after.count)
