"""Many worlds at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
from jaxtyping import Array, Float

from ..bodies import State
from ..exec.parallel import chosen_devices, chunk_size, in_parallel, on_cores, traced
from .method import AbstractMethod, Backend
from .progress import progress_bar
from .results import RESULTS
from .saving import SaveAt, Solution
from .solve import Program, Task, raise_failure, solve, wrong_start
from .unread import watch
from .world import World


def simulate_batch(
    world: World,
    states: State,
    method: AbstractMethod,
    t1: float | Float[Array, ""],
    t0: float | Float[Array, ""] = 0.0,
    save: SaveAt | None = None,
    throw: bool = True,
    *,
    args: Any = None,
    max_steps: int | None = None,
    failed: Literal["keep", "nan"] = "keep",
    batch_world: bool = False,
    chunk: int | None = None,
    devices=None,
    progress: bool | Callable = False,
    backend: Backend = "auto",
) -> Solution:
    """`jax.vmap` of `simulate` over a leading axis, spread over cores or devices.

    On several devices the lanes are sharded over them; on one CPU they are cut into chunks
    that run on all cores. Worlds do not wait for those of another chunk or device. The
    numbers are those of `jax.vmap`. Inside jit or grad it falls back to `jax.vmap`, on all devices
    only if `throw=False`. Where states span processes all of these call it, and fail alike.

    Args:
        world: one for all, or with `batch_world` one per state.
        states: with a leading axis over the batch.
        method, t1, t0, save, throw, args, max_steps, failed: as in `simulate`; one for all.
        batch_world: whether every leaf of `world` has a leading axis over the batch.
        chunk: number of lanes that advance together on a CPU core; chosen by default.
        devices: to use; by default all of this process, or of all where the states span processes.
            The solution stays spread over them if they divide the worlds evenly, as those of
            several processes must; otherwise it comes to the first.
        progress: show a bar of the worlds done, as in `simulate`; on one CPU alone, where
            they are done chunk by chunk.
        backend: "auto", "xla" or "kernel", as in `simulate`.

    Returns:
        A solution whose leaves have a leading axis over the batch. Without `throw`, and outside of
        jit, it warns once if states of worlds that ended early are read before any result code.
    """
    n_lanes = _n_lanes(world, states, batch_world)
    devices = chosen_devices(devices, (world, states, args))
    if throw and traced((world, states)):
        devices = devices[:1]  # one that raised a failure would leave the others waiting for it
    task = Task.of(world, states, method, t1, t0, save, args, max_steps, failed, backend)
    if batch_world:
        shared, batched = (task.numbers,), (world, states)
    else:
        shared, batched = (task.numbers, world), (states,)
    shows = on_cores(devices, (world, states, task.numbers))
    with progress_bar(shows and progress, n_lanes, "world") as bar:
        solution = in_parallel(
            _lanes,
            shared,
            batched,
            options={"program": task.program},
            devices=devices,
            chunk=chunk_size(n_lanes, chunk),
            # Lanes that fill up the last chunk do not count.
            report=None if bar is None else lambda n: bar.update(min(n, bar.total - bar.n)),
        )
    solution = task.trimmed(solution, axis=1)
    if throw:
        return raise_failure(solution, partial(_wrong_start, world, states, batch_world, t0, args))
    return watch(solution) if failed == "keep" else solution


@partial(jax.jit, static_argnames="program")
def _lanes(shared, batched, *, program: Program) -> Solution:
    def one(shared, batched):
        numbers, world, state = *shared, *batched
        return solve(world, state, numbers, program)

    return jax.vmap(one, in_axes=(None, 0))(shared, batched)


def _wrong_start(
    world: World, states: State, batch_world: bool, t0, args, number: int, result: RESULTS
) -> str:
    """What is wrong at the start of one of many worlds."""
    own = lambda tree: jax.tree.map(lambda leaf: leaf[number], tree)  # noqa: E731
    return wrong_start(result, own(world) if batch_world else world, own(states), t0, args)


def _n_lanes(world: World, states: State, batch_world: bool) -> int:
    """How many worlds there are; raises `ValueError` if that is not plain."""
    if not isinstance(states, State) or states.position.ndim < 3:
        raise ValueError("states must be a State with a leading axis over the batch.")
    if (n_lanes := states.position.shape[0]) == 0:
        raise ValueError("states must hold at least one state.")
    if batch_world and any(leaf.shape[:1] != (n_lanes,) for leaf in jax.tree.leaves(world)):
        raise ValueError(f"batch_world needs a leading axis of {n_lanes} on every leaf of world.")
    return n_lanes
