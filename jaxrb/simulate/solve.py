"""The main call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from .._hosts import entry, first_of, spans_processes
from .._validate import one_of, raise_inside, time_number
from ..bodies import State
from ..control.base import all_in_order
from ..exec.uncollected import uncollected
from .assemble import assemble
from .contact_forces import forces_of
from .joint_observables import farthest_beyond, worst_joint
from .method import AbstractMethod, Backend
from .observables import deepest_penetration
from .progress import progress_bar
from .recorder import SaveSpec
from .results import RESULTS, Code
from .saving import SaveAt, Solution
from .schedule import schedule
from .system import initial_code
from .time_grid import TimeGrid
from .world import World


def simulate(
    world: World,
    state: State,
    method: AbstractMethod,
    t1: float | Float[Array, ""],
    t0: float | Float[Array, ""] = 0.0,
    save: SaveAt | None = None,
    args: Any = None,
    throw: bool = True,
    max_steps: int | None = None,
    *,
    failed: Literal["keep", "nan"] = "keep",
    progress: bool | Callable = False,
    backend: Backend = "auto",
) -> Solution:
    """Simulates a world from t0 to t1.

    Everything can be jitted, vmapped and differentiated, in any order and both modes, with
    respect to every number in `world`, `state` and `args`, the times t0, t1 and dt and those to
    save, through any number of impacts: derivatives include the shift of the times of impact.

    Args:
        world: bodies, obstacles and laws.
        state: of all bodies at t0.
        method: how to simulate, such as `LGVCI(dt=0.01)`.
        t1: end [s], not before t0. If t1 - t0 is no multiple of dt, the last step is shorter.
        t0: start [s].
        save: what to return besides the final state; `SaveAt(final=True)` by default.
        args: what the forces of the world and the motions of its obstacles are given, any pytree.
        throw: raise if the simulation ended early. In a batch, use False and look at
            `Solution.successful` and `Solution.result`, one per world.
        max_steps: the most steps from t0 to t1; more end with a result code. It sets the size of
            the program, so that t0, t1 and dt are only numbers: by default the number of steps,
            rounded up to the next of eight numbers between powers of two (512, 576, 640, ...),
            so that a run of another length rarely compiles anew. Needed where jit or vmap
            trace t0, t1 or dt. A run without derivatives and records costs nothing for steps
            that it does not make.
        failed: what the states hold that a simulation which ended early did not reach: "keep"
            the last good state; "nan" NaN, also in all their derivatives, so that an ended
            world cannot enter a loss unnoticed.
        progress: show a bar of the steps done, by tqdm, or by what is called as
            progress(total=..., unit=...) and used like tqdm. Under a transformation (jit,
            vmap, grad, ...) there is none. The first run with a bar compiles anew.
        backend: "kernel" makes the whole simulation one kernel, on an NVIDIA GPU by NVRTC, which
            comes with JAX for GPUs, and on a CPU by the system's C compiler. "auto" does so on
            a GPU alone; on a CPU it asks XLA to make one kernel of each loop, of derivatives
            too, where the loop is not too long and the batch not large: a world alone is then five
            to ten times as fast. "xla" compiles as JAX does by itself. Derivatives, what is saved
            along the way, and worlds that are too large for a kernel are XLA's;
            `Solution.stats.kernel` says whether it was one of ours, and a warning why it was not
            if it was asked for.

    Returns:
        The solution.

    Raises:
        ValueError: if the arguments do not fit together, naming the argument.
        RuntimeError: if `throw` and the simulation ended early, with the remedy.
    """
    if not isinstance(state, State):
        raise ValueError(f"state must be a State; got {type(state).__name__}.")
    task = Task.of(world, state, method, t1, t0, save, args, max_steps, failed, backend)
    inside = traced((world, state, task.numbers))
    shows = progress is not False and not inside
    n_steps = int(task.numbers.grid.n_steps) if shows else 0
    with progress_bar(shows and progress, n_steps, "step"):
        # Inside a transformation nothing runs, and more is traced than `solve` is called for.
        call = uncollected(_solve) if inside else _solve
        solution = call(world, state, task.numbers, task.program, shows)
        if shows:
            jax.block_until_ready(solution)
    solution = task.trimmed(solution)
    if not throw:
        return solution
    return raise_failure(solution, lambda _, result: wrong_start(result, world, state, t0, args))


class Numbers(NamedTuple):
    """The arguments of a program besides world and state."""

    grid: TimeGrid
    ts: Float[Array, " n"]  # to save [s]
    times: Any  # where these fall
    in_order: Any  # whether they do
    args: Any


class Program(NamedTuple):
    """The static arguments of the compiled program."""

    method: AbstractMethod  # without its step size
    wanted: SaveSpec
    n_impacts: int
    contacts: bool
    failed: str
    backend: Backend
    args: tuple  # what of the arguments is no number: leaves and structure


class Task(NamedTuple):
    """A simulation, as numbers and a program for them."""

    numbers: Numbers
    program: Program
    used: int | None  # how many of the times to save there are, if that is known

    @staticmethod
    def of(world, state, method, t1, t0, save, args, max_steps, failed, backend="auto") -> Task:
        """The task of the arguments of `simulate`; the state may have leading axes.

        Raises:
            ValueError: as `simulate` does.
        """
        if not isinstance(method, AbstractMethod):
            raise ValueError(f"method must be a method such as LGVCI(dt=0.01); got {method!r}.")
        if not isinstance(world, World):
            raise ValueError(f"world must be a World; got {type(world).__name__}.")
        method = method.chosen(world)
        t0, t1 = time_number(t0, "t0"), time_number(t1, "t1")
        if isinstance(t0, float) and isinstance(t1, float) and t1 < t0:
            raise ValueError(f"t1 must not lie before t0; got t0 = {t0}, t1 = {t1}.")
        if save is not None and save.contacts and method.dt is None:
            raise ValueError("SaveAt.contacts: contacts last in steps; the method must have a dt.")
        if args is not None and not world.takes_args:
            raise ValueError(
                "args must be None: no force and no motion in this world takes arguments."
            )
        save = SaveAt(final=True) if save is None else save
        grid = TimeGrid.of(t0, t1, method.dt, max_steps, state.position.dtype)
        when = schedule(save, t0, t1, method.dt, grid)
        given, rest = eqx.partition(args, eqx.is_array_like)
        leaves, structure = jax.tree.flatten(rest)
        return Task(
            Numbers(grid, when.ts, when.times, when.sorted, given),
            Program(
                # The step size is a number of the program; whether there is one is part of it.
                method if method.dt is None else eqx.tree_at(lambda m: m.dt, method, 0.0),
                when.wanted,
                save.impacts,
                save.contacts,
                one_of(failed, ("keep", "nan"), "failed"),
                one_of(backend, ("auto", "xla", "kernel"), "backend"),
                (tuple(leaves), structure),
            ),
            when.used,
        )

    def trimmed(self, solution: Solution, axis: int = 0) -> Solution:
        """A solution without the times to save that are unused capacity, along an axis."""
        if self.used is None or self.used == self.numbers.ts.shape[0]:
            return solution
        names = ("ts", "states", "reached", "contacts")
        parts = {name: getattr(solution, name) for name in names}
        return dataclasses.replace(solution, **_cut(parts, self.used, axis))


@partial(jax.jit, static_argnums=(1, 2))
def _cut(parts, used: int, axis: int):
    """The first numbers and the last one, which is of the end, as one program: the leaves one by
    one would take longer than short runs do."""

    def of(leaf):
        begin = jax.lax.slice_in_dim(leaf, 0, used - 1, axis=axis)
        end = jax.lax.slice_in_dim(leaf, leaf.shape[axis] - 1, None, axis=axis)
        return jnp.concatenate([begin, end], axis=axis)

    return jax.tree.map(of, parts)


@uncollected
def solve(world: World, state: State, numbers: Numbers, program: Program, progress: bool = False):
    """The solution of one world; pure and traceable."""
    method, (leaves, structure) = program.method, program.args
    args = eqx.combine(numbers.args, jax.tree.unflatten(structure, leaves))
    state = method.prepare(world, state)
    system, phase = method.build(world, state, args)
    grid = numbers.grid
    depth = method.penetration + method.events(system, grid.dt).unevenness(grid.t0, phase)
    code = initial_code(grid.t0, world, state, system, phase, depth)
    in_order = numbers.in_order & (grid.t1 >= grid.t0) & (grid.dt > 0)
    in_order &= all_in_order((world, args))
    code = jnp.where((code == Code.successful) & ~in_order, jnp.int32(Code.invalid_times), code)
    run = method.run(
        system, phase, code, grid, numbers.times, program.wanted, progress, program.backend
    )

    def contacts(t, phase):
        return forces_of(world, system, method, t, grid.dt, phase)

    kept = contacts if program.contacts else None
    solution = assemble(world, state, args, system, grid, numbers.ts, program.n_impacts, run, kept)
    return _marked(solution) if program.failed == "nan" else solution


_solve = jax.jit(solve, static_argnums=(3, 4))


def _marked(solution: Solution) -> Solution:
    """The solution with NaN at times that were not reached, in derivatives too."""

    def mark(tree, reached):
        return jax.tree.map(lambda leaf: _present(leaf, reached), tree)

    marked = eqx.tree_at(
        lambda sol: (sol.states, sol.final),
        solution,
        (mark(solution.states, solution.reached), mark(solution.final, solution.successful)),
    )
    if solution.contacts is None:
        return marked
    numbers, rest = eqx.partition(solution.contacts, eqx.is_inexact_array)
    contacts = eqx.combine(mark(numbers, solution.reached), rest)
    return dataclasses.replace(marked, contacts=contacts)


def _present(leaf: Array, reached: Array) -> Array:
    """The leaf where it was reached, NaN elsewhere. The tangent is so too, as the derivative of a
    constant would be zero; a cotangent that is zero stays zero, so that a state that was not
    reached spoils no derivative of one that was.
    """
    reached = reached.reshape(*reached.shape, *[1] * (leaf.ndim - reached.ndim))

    def marked(_, leaf):
        return jnp.where(reached, leaf, jnp.full_like(leaf, jnp.nan))

    def transposed(_, cotangent):
        spoilt = jnp.full_like(cotangent, jnp.nan)
        lost = jnp.where(cotangent == 0, cotangent, spoilt)
        return jnp.where(reached, cotangent, lost)

    # A linear map with a transpose of its own; of what JAX has for that, only this has vmap.
    return jax.lax.custom_linear_solve(lambda x: x, leaf, marked, transposed)


def traced(arrays: Any) -> bool:
    """Whether some are, by a transformation."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arrays))


def wrong_start(result: RESULTS, world: World, state: State, t0, args) -> str:
    """A sentence on what of the state at the start of one world led to a result; empty where no
    more is known."""
    # The result can be a number where the start is traced: where derivatives are taken, and where
    # of many starts all end alike. In the first case the start is a number, but for its direction.
    arrays, other = eqx.partition((world, state, t0, args), eqx.is_array)
    world, state, t0, args = eqx.combine(jax.lax.stop_gradient(arrays), other)
    if traced((world, state, t0, args)):
        return ""
    if result == RESULTS.initial_penetration:
        return deepest_penetration(world, state, t0, args) or farthest_beyond(world, state)
    return worst_joint(world, state) if result == RESULTS.joint_violated else ""


def raise_failure(
    solution: Solution, wrong: Callable[[int, RESULTS], str] | None = None
) -> Solution:
    """The solution, if it was successful; raises otherwise, also from inside a jitted call.

    Of a batch that spans processes each of them raises, and names the same world.

    Args:
        solution: of one world or of a batch.
        wrong: a sentence on what is wrong at the start of a world, by its number and result, empty
            if nothing is; None where that is not known.
    """
    (code,) = jax.tree.leaves(solution.result)
    if isinstance(code, Tracer):
        return raise_inside(solution, code != int(Code.successful))
    # With NumPy: JAX takes longer for this than a short run.
    failed = (code if spans_processes(code) else np.asarray(code)) != int(Code.successful)
    if (found := first_of(failed)) is not None:
        count, first = found
        result = entry(solution.result, first)
        message = RESULTS[result]
        # Of several processes one alone may not look at the numbers of a world.
        if wrong is not None and not spans_processes(code):
            message = f"{message} {wrong(first, result)}".rstrip()
        if failed.ndim:
            message = f"{count} of {failed.size} worlds; the first, world {first}: {message}"
        raise RuntimeError(f"The simulation ended early: {message}")
    return solution
