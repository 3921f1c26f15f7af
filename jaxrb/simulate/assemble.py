"""Assembles the public solution from the results of a method."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..bodies import Phase, State
from ..math import tree_where
from .contact_forces import ContactForces
from .method import Run
from .observables import energy
from .results import Code, to_result
from .saving import Impacts, Solution, Stats
from .system import System, body_order, partners, to_state
from .time_grid import TimeGrid
from .world import World


def assemble(
    world: World,
    state: State,
    args: Any,
    system: System,
    grid: TimeGrid,
    ts: Float[Array, " n"],
    n_impacts: int,
    run: Run,
    contacts: Callable[[Float[Array, ""], Phase], ContactForces] | None,
) -> Solution:
    """The solution of a run.

    Args:
        world, state, args: what was simulated.
        system: the world in component form.
        grid: the steps.
        ts: the times saved [s].
        n_impacts: the capacity of the record of impacts.
        run: what the method has found.
        contacts: the forces of contacts at a time, if they are to be saved.
    """
    at_end = run.steps >= grid.n_steps
    code = jnp.where(
        (run.code == Code.successful) & ~at_end, jnp.int32(Code.max_steps_reached), run.code
    )
    successful = code == Code.successful
    saved, reached = _states(run, ts.shape[0], successful)
    states = jax.vmap(partial(to_state, system, world))
    final = to_state(system, world, run.phase)
    stats = Stats(
        steps=run.steps,
        flow_evaluations=run.evaluations,
        crowded=run.crowded,
        time=jnp.where(at_end, grid.t1, run.time),
        energy=jnp.stack([energy(world, state), energy(world, final)]),
        kernel=run.kernel,
        work=run.work,
    )
    return Solution(
        ts=ts,
        states=states(saved),
        reached=reached,
        final=final,
        result=to_result(code),
        impacts=_impacts(run, n_impacts, grid, system, world),
        zeno_time=jnp.take(run.zeno_time, np.argsort(body_order(world))),
        stats=stats,
        contacts=None if contacts is None else jax.vmap(contacts)(ts, saved),
    )


def _states(run: Run, n: int, successful: Bool[Array, ""]) -> tuple[Phase, Bool[Array, " n"]]:
    """The phases at the times to save, and which of them were reached.

    Those at the end of the trajectory, and those that were not reached, hold its last phase.
    """
    if run.saved is None:
        last = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], n, axis=0), run.phase)
        return last, jnp.broadcast_to(successful, (n,))
    passed, along = run.saved
    phases = jax.vmap(tree_where, in_axes=(0, 0, None))(passed, along, run.phase)
    return phases, passed | successful


def _impacts(run: Run, n: int, grid: TimeGrid, system: System, world: World) -> Impacts:
    """The record of the impacts."""
    contacts = system.contacts
    if n == 0:
        return Impacts(run.n_impacts)
    if run.impacts is None or contacts is None:
        return _no_impacts(run, n, world)
    record = run.impacts
    used = jnp.arange(n, dtype=jnp.int32) < record.count
    time = grid.begin(record.step) + record.offset

    def geometry(time, contact, before: Phase, after: Phase):
        found = contacts.find(time, before)
        order = jnp.arange(contacts.number, dtype=jnp.int32).reshape(contacts.shape)
        single = found.single(before, order == contact, system.inertial)
        impulse = single.impulse_between(before, after, system.inertial)
        vectors = (single.position(before), single.axes[2], impulse)
        return tuple(vector.array() for vector in vectors)

    # What is computed from empty slots is not used, but must be finite.
    where_used = partial(jax.vmap(tree_where, in_axes=(0, 0, None)), used)
    before, after = (where_used(phase, run.phase) for phase in (record.before, record.after))
    position, normal, impulse = jax.vmap(geometry)(time, record.contact, before, after)
    paired = jnp.asarray(partners(world, contacts), jnp.int32)
    blank = lambda tree, empty: jax.tree.map(  # noqa: E731
        lambda leaf: jnp.where(used.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, empty), tree
    )
    states = jax.vmap(partial(to_state, system, world))
    return Impacts(
        count=run.n_impacts,
        time=blank(time, jnp.inf),
        pair=blank(paired[record.contact], -1),
        impulse=blank(impulse, 0.0),
        position=blank(position, 0.0),
        normal=blank(normal, 0.0),
        before=blank(states(record.before), 0.0),
        after=blank(states(record.after), 0.0),
    )


def _no_impacts(run: Run, n: int, world: World) -> Impacts:
    dtype = run.time.dtype
    zeros = jnp.zeros((n, 3), dtype)
    bodies = len(world.bodies)
    vectors = jnp.zeros((n, bodies, 3), dtype)
    blank = State(vectors, jnp.zeros((n, bodies, 4), dtype), vectors, vectors)
    none = jnp.full((n, 2), -1, jnp.int32)
    return Impacts(
        run.n_impacts, jnp.full(n, jnp.inf, dtype), none, zeros, zeros, zeros, blank, blank
    )
