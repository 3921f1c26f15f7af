"""Body-steps per second, next to other engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..bodies import State
from ..simulate import RESULTS, Solution, World, simulate_batch
from ..simulate.method import Backend
from . import peers
from .problem import CASE, METHOD, N_STEPS, PROBLEM, T1, heights, solve, start
from .record import LOSES, RATE, Column, Record, Table
from .timing import Quantiles, fastest_of, round_robin

BATCHES = (1, 64, 1024, 8192)
SCENES = ("Case I",)
TABLE = Table(
    PROBLEM,
    "contender",
    (
        RATE,
        Column("ratio", f"over {peers.REFERENCE}", "", 24, spread=True),
        LOSES,
        Column("impacts", "impacts a world", ".2f"),
        Column("turns", "turns a step", ".3f"),
        Column("failed", "ended early", "d"),
    ),
    (
        "body-steps/s: best of the rounds; ratio: median of the rounds (least .. most)",
        "turns a step: of the loop, of the world that takes most",
    ),
)


def measure(record: Record, scene: str, batches: tuple[int, ...]) -> None:
    """Adds the rows of a scene."""
    engines, notes = peers.available()
    for note in notes:
        record.remark(note)
    for batch in batches:
        _run_batch(record, batch, engines)


def _run_batch(record: Record, batch: int, engines: list[peers.Engine]) -> None:
    ours = _ours(batch)
    calls, lanes = dict(ours), dict.fromkeys(ours, batch)
    initial_heights = np.asarray(heights(batch), float)
    for engine in engines:
        calls[engine.name], lanes[engine.name] = engine.prepare(initial_heights)
    seconds = round_robin(calls, record.rounds)
    rates = {name: lanes[name] * N_STEPS / taken for name, taken in seconds.items()}
    others = {engine.name: rates[engine.name] for engine in engines}
    for name, rate in rates.items():
        values: dict[str, Any] = {"rate": rate.max()}
        if peers.REFERENCE in rates:
            values |= Quantiles.of(rate / rates[peers.REFERENCE]).named("ratio")
        if name in ours:
            values |= {"loses_to": fastest_of(others, rate), **_work(ours[name]())}
        record.add(batch, name, **values)


def _ours(batch: int) -> dict[str, Callable[[], Solution]]:
    """Calls that simulate all worlds."""
    world, state = CASE.build()
    states = jax.vmap(start, in_axes=(None, 0))(state, heights(batch))
    vmapped = jax.jit(jax.vmap(solve, in_axes=(None, 0)))
    calls = {
        "jit(vmap(simulate))": lambda: vmapped(world, states),
        "simulate_batch": lambda: _batch(world, states, "xla"),
    }
    if np.all(_batch(world, states, "kernel").stats.kernel):
        calls["simulate_batch, kernel"] = lambda: _batch(world, states, "kernel")
    return calls


def _batch(world: World, states: State, backend: Backend) -> Solution:
    return simulate_batch(world, states, METHOD, T1, throw=False, backend=backend)


def _work(sol: Solution) -> dict[str, Any]:
    """What the trajectories took: more impacts make every engine slower."""
    return {
        "impacts": float(sol.impacts.count.mean()),
        "turns": int(sol.stats.flow_evaluations.max()) / N_STEPS,
        "failed": int((sol.result != RESULTS.successful).sum()),
    }
