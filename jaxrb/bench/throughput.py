"""Body-steps per second, next to other engines."""

from __future__ import annotations

import jax
import numpy as np

from ..bodies import State
from ..simulate import RESULTS, Solution, World, simulate_batch
from ..simulate.method import Backend
from . import peers
from .problem import CASE, METHOD, N_STEPS, T1, describe, heights, set_precision, solve, start
from .timing import Quantiles, round_robin

BATCHES = (1, 64, 1024, 8192)


def run(batches: tuple[int, ...], rounds: int, dtype: str) -> None:
    """Prints the table of one dtype."""
    set_precision(dtype)
    print(describe(dtype))
    engines, notes = peers.available()
    print(f"{'batch':>6}  {'contender':<26} {'body-steps/s':>12}   over {peers.REFERENCE}")
    for batch in batches:
        _run_batch(batch, rounds, engines)
    for note in notes:
        print(f"  {note}")
    print(f"  body-steps/s: best of {rounds} rounds; ratio: median of rounds (least .. most)\n")


def _run_batch(batch: int, rounds: int, engines: list[peers.Engine]) -> None:
    world, state = CASE.build()
    states = jax.vmap(start, in_axes=(None, 0))(state, heights(batch))
    vmapped = jax.jit(jax.vmap(solve, in_axes=(None, 0)))
    contenders = {
        "jit(vmap(simulate))": lambda: vmapped(world, states),
        "simulate_batch": lambda: _batch(world, states, "xla"),
    }
    if np.all(_batch(world, states, "kernel").stats.kernel):
        contenders["simulate_batch, kernel"] = lambda: _batch(world, states, "kernel")
    lanes = dict.fromkeys(contenders, batch)
    initial_heights = np.asarray(heights(batch), float)
    for engine in engines:
        contenders[engine.name], lanes[engine.name] = engine.prepare(initial_heights)
    seconds = round_robin(contenders, rounds)
    rates = {name: lanes[name] * N_STEPS / seconds[name] for name in contenders}
    for name, rate in rates.items():
        ratio = Quantiles.of(rate / rates[peers.REFERENCE]) if peers.REFERENCE in rates else "-"
        print(f"{batch:>6}  {name:<26} {rate.max():>12.3g}   {ratio}")
    print(f"{'':>6}  {_work(vmapped(world, states))}")


def _batch(world: World, states: State, backend: Backend) -> Solution:
    return simulate_batch(world, states, METHOD, T1, throw=False, backend=backend)


def _work(sol: Solution) -> str:
    """What the trajectories took: more impacts make every engine slower."""
    impacts = float(sol.impacts.count.mean())
    turns = int(sol.stats.flow_evaluations.max()) / N_STEPS
    failed = int((sol.result != RESULTS.successful).sum())
    text = f"impacts per world {impacts:.2f}, loop turns per step {turns:.3f}"
    return text + (f", worlds that ended early {failed}" if failed else "")
