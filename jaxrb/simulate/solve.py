"""The main call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .._validate import finite_number, raise_inside
from ..bodies import State
from .event_driven import AbstractMethod
from .progress import progress_bar
from .results import RESULTS
from .saving import SaveAt, Solution
from .world import World


def simulate(
    world: World,
    state: State,
    method: AbstractMethod,
    t1: float,
    t0: float = 0.0,
    save: SaveAt | None = None,
    args: Any = None,
    throw: bool = True,
    *,
    progress: bool | Callable = False,
) -> Solution:
    """Simulates a world from t0 to t1.

    Everything can be jitted, vmapped and differentiated, in any order and both modes, with
    respect to every number in `world` and `state`, through any number of impacts: derivatives
    include the shift of the times of impact.

    Args:
        world: bodies, obstacles and laws.
        state: of all bodies at t0.
        method: how to simulate, such as `LGVCI(dt=0.01)`.
        t1: end [s]; a concrete number, like t0 and the step size of the method, because they
            set the number of steps. If t1 - t0 is no multiple of it, the last step is shorter.
        t0: start [s].
        save: what to return besides the final state; `SaveAt(final=True)` by default.
        args: must be None; reserved for forces that take arguments.
        throw: raise if the simulation ended early. In a batch, use False and look at
            `Solution.result`, which holds one code per world.
        progress: show a bar of the steps done, by tqdm, or by what is called as
            progress(total=..., unit=...) and used like tqdm. Under a transformation (jit,
            vmap, grad, ...) there is none. The first run with a bar compiles anew.

    Returns:
        The solution.

    Raises:
        ValueError: if the arguments do not fit together, naming the argument.
        RuntimeError: if `throw` and the simulation ended early, with the remedy.
    """
    t0, t1 = finite_number(t0, "t0"), finite_number(t1, "t1")
    if t1 < t0:
        raise ValueError(f"t1 must not lie before t0; got t0 = {t0}, t1 = {t1}.")
    if not isinstance(method, AbstractMethod):
        raise ValueError(f"method must be a method such as LGVCI(dt=0.01); got {method!r}.")
    if not isinstance(world, World):
        raise ValueError(f"world must be a World; got {type(world).__name__}.")
    if not isinstance(state, State):
        raise ValueError(f"state must be a State; got {type(state).__name__}.")
    if args is not None:
        raise ValueError("args must be None: no force in this world takes arguments.")
    save = SaveAt(final=True) if save is None else save
    traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((world, state)))
    shows = progress is not False and not traced
    with progress_bar(shows and progress, method.n_steps(t0, t1), "step"):
        solution = _solve(world, state, method, t0, t1, save, shows)
        if shows:
            jax.block_until_ready(solution)
    return raise_failure(solution) if throw else solution


@partial(jax.jit, static_argnums=(2, 3, 4, 5, 6))
def _solve(world, state, method, t0, t1, save, progress) -> Solution:
    return method.solve(world, state, t0, t1, save, progress)


def raise_failure(solution: Solution) -> Solution:
    """The solution, if it was successful; raises otherwise, also from inside a jitted call."""
    failed = solution.result != RESULTS.successful
    if isinstance(failed, Tracer):
        return raise_inside(solution, failed)
    failed = np.asarray(failed)
    if failed.any():
        first = int(np.argmax(failed.reshape(-1)))
        item = jax.tree.map(lambda leaf: jnp.reshape(leaf, -1)[first], solution.result)
        message = RESULTS[item]
        if failed.ndim:
            message = (
                f"{int(failed.sum())} of {failed.size} worlds; the first, world {first}: {message}"
            )
        raise RuntimeError(f"The simulation ended early: {message}")
    return solution
