"""Many worlds at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh, PartitionSpec

from ..bodies import State
from .event_driven import AbstractMethod
from .progress import progress_bar
from .saving import SaveAt, Solution
from .solve import raise_failure, simulate
from .world import World

# Lanes that advance in step on one core: enough to fill its vector units, few enough for
# their state to stay in its cache.
CPU_CHUNK = 512
# Fewer lanes a thread take longer to hand out than to fly.
SMALLEST_CHUNK = 128


def simulate_batch(
    world: World,
    states: State,
    method: AbstractMethod,
    t1: float,
    t0: float = 0.0,
    save: SaveAt | None = None,
    throw: bool = True,
    *,
    batch_world: bool = False,
    chunk: int | None = None,
    devices=None,
    progress: bool | Callable = False,
) -> Solution:
    """`jax.vmap` of `simulate` over a leading axis, spread over cores or devices.

    On several devices the lanes are sharded over them; on one CPU they are cut into chunks
    that run on all cores. Worlds do not wait for those of another chunk or device. The
    numbers are those of `jax.vmap`. Under a transformation (jit, grad, ...) on one device it
    is `jax.vmap`.

    Args:
        world: one for all, or with `batch_world` one per state.
        states: with a leading axis over the batch.
        method, t1, t0, save, throw: as in `simulate`.
        batch_world: whether every leaf of `world` has a leading axis over the batch.
        chunk: number of lanes that advance together on a CPU core; chosen by default.
        devices: to use; all of the default backend by default.
        progress: show a bar of the worlds done, as in `simulate`; on one CPU alone, where
            they are done chunk by chunk.

    Returns:
        A solution whose leaves have a leading axis over the batch.
    """
    if not isinstance(states, State) or states.position.ndim < 3:
        raise ValueError("states must be a State with a leading axis over the batch.")
    n_lanes = states.position.shape[0]
    if n_lanes == 0:
        raise ValueError("states must hold at least one state.")
    if batch_world and any(leaf.shape[:1] != (n_lanes,) for leaf in jax.tree.leaves(world)):
        raise ValueError(f"batch_world needs a leading axis of {n_lanes} on every leaf of world.")
    devices = list(jax.devices() if devices is None else devices)
    lanes = partial(_lanes, t1=t1, t0=t0, method=method, save=save, batch_world=batch_world)
    traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((world, states)))
    if len(devices) > 1:
        solution = _sharded(lanes, world, states, batch_world, devices)
    elif traced or devices[0].platform != "cpu":
        solution = lanes(world, states)
    else:
        with progress_bar(progress, n_lanes, "world") as bar:
            solution = _on_cores(lanes, world, states, batch_world, chunk or CPU_CHUNK, bar)
    return raise_failure(solution) if throw else solution


@partial(jax.jit, static_argnames=("method", "t1", "t0", "save", "batch_world"))
def _lanes(world, states, *, method, t1, t0, save, batch_world) -> Solution:
    def one(world, state):
        return simulate(world, state, method, t1, t0, save, throw=False)

    return jax.vmap(one, in_axes=(0 if batch_world else None, 0))(world, states)


def _sharded(lanes, world, states, batch_world, devices) -> Solution:
    """Lanes shared out evenly; a few are flown twice to fill up the last device."""
    # Inside shard_map each device runs its own loop; under jit with a sharded batch every
    # turn would wait for all of them to agree whether any lane is left.
    mesh = Mesh(np.asarray(devices), ("lanes",))
    split, whole = PartitionSpec("lanes"), PartitionSpec()
    n_lanes = states.position.shape[0]
    size = -(-n_lanes // len(devices)) * len(devices)
    world_spec = split if batch_world else whole
    pad = partial(_pad, size=size)
    solve = jax.jit(
        jax.shard_map(
            lanes, mesh=mesh, in_specs=(world_spec, split), out_specs=split, check_vma=False
        )
    )
    solution = solve(pad(world) if batch_world else world, pad(states))
    return _take(solution, n_lanes)


def _on_cores(lanes, world, states, batch_world, chunk, bar) -> Solution:
    """Chunks of equal size, each on one thread: XLA's own threads share out single
    operations, which are too small here, and leave a core idle half of the time."""
    n_lanes = states.position.shape[0]
    cores = os.cpu_count() or 1
    chunk = min(chunk, max(-(-n_lanes // cores), SMALLEST_CHUNK))

    def fly(piece):
        done = jax.block_until_ready(lanes(*piece))
        if bar is not None:
            bar.update(min(len(piece[1].position), bar.total - bar.n))
        return done

    if n_lanes <= chunk:
        return lanes(world, states) if bar is None else fly((world, states))
    n_chunks = -(-n_lanes // chunk)
    pad = partial(_pad, size=n_chunks * chunk)

    def cut(tree):
        arrays = jax.tree.map(np.asarray, pad(tree))
        return [
            jax.tree.map(lambda leaf, k=k: leaf[k * chunk : (k + 1) * chunk], arrays)
            for k in range(n_chunks)
        ]

    worlds = cut(world) if batch_world else [world] * n_chunks
    pieces = list(zip(worlds, cut(states), strict=True))
    done = [fly(pieces[0])] if _is_new(lanes, pieces[0]) else []
    with ThreadPoolExecutor(cores) as pool:
        done += pool.map(fly, pieces[len(done) :])
    solution = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *done)
    return _take(solution, n_lanes)


_seen: set = set()


def _is_new(lanes, piece) -> bool:
    """Whether a program is called for the first time: two threads would compile it twice."""
    leaves, structure = jax.tree.flatten(piece)
    key = (tuple(lanes.keywords.items()), structure, *((x.shape, x.dtype) for x in leaves))
    new = key not in _seen
    _seen.add(key)
    return new


def _pad(tree, size: int):
    """Repeats the last entry along the leading axis up to a size."""

    def fill(leaf):
        missing = size - leaf.shape[0]
        return leaf if missing == 0 else jnp.concatenate([leaf, jnp.repeat(leaf[-1:], missing, 0)])

    return jax.tree.map(fill, tree)


def _take(tree, n: int):
    return jax.tree.map(lambda leaf: leaf[:n] if eqx.is_array(leaf) else leaf, tree)
