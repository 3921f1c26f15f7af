"""Many small problems of different length, solved together.

A problem is a column of an array of shape (n_numbers, lanes), and so is its result. Solving
one takes an unknown number of turns. Under `vmap` a loop would run until its slowest lane
has ended; here a batch of problems is put into one array, whatever the nesting of `vmap`, and
processed by a fixed set of workers; a worker that finishes takes the next problem from the
queue.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float, Int

from ..math.autodiff import keep_rule

Columns = Float[Array, "numbers lanes"]


class Task(NamedTuple):
    """How problems are solved; everything acts on each lane by itself."""

    needed: Callable[[Columns], Bool[Array, " lanes"]]  # the results of others are 0
    start: Callable[[Columns], Any]  # the state before the first turn; leaves end with the lanes
    turn: Callable[[Any, Columns], Any]  # the state after one more
    ended: Callable[[Any], Bool[Array, " lanes"]]
    finish: Callable[[Any, Columns], Columns]  # the result, of the state at the end


def along_numbers(task: Task, n: int) -> Task:
    """The same work with its derivatives along the first n numbers of each problem.

    Results are followed by their slopes, a row for each result and number. The state carries its
    tangents, so that a turn is differentiated as it stands: JAX would trace a loop several times
    to find out which of its numbers have tangents, and as often again for a batch of these.
    """

    def pushed(function, numbers, tangents, problems):
        """`function`, of numbers and problems, and its derivatives along each direction."""

        def push(tangent, direction):
            arguments, along = (numbers, problems), (tangent, direction)
            value, change, rest = jax.jvp(function, arguments, along, has_aux=True)
            return value, change, rest

        directions = unit_directions(problems)[:n]
        return jax.vmap(push, out_axes=(None, 0, None))(tangents, directions)

    def start(problems: Columns) -> _Pushed:
        def function(_, problems):
            return eqx.partition(task.start(problems), eqx.is_inexact_array)

        numbers, tangents, rest = pushed(function, (), (), problems)
        return _Pushed(eqx.combine(numbers, rest), tangents)

    def turn(pushed_state: _Pushed, problems: Columns) -> _Pushed:
        numbers, fixed = eqx.partition(pushed_state.state, eqx.is_inexact_array)

        def function(numbers, problems):
            following = task.turn(eqx.combine(numbers, fixed), problems)
            return eqx.partition(following, eqx.is_inexact_array)

        numbers, tangents, rest = pushed(function, numbers, pushed_state.tangents, problems)
        return _Pushed(eqx.combine(numbers, rest), tangents)

    def finish(pushed_state: _Pushed, problems: Columns) -> Columns:
        numbers, fixed = eqx.partition(pushed_state.state, eqx.is_inexact_array)

        def function(numbers, problems):
            return task.finish(eqx.combine(numbers, fixed), problems), None

        results, slopes, _ = pushed(function, numbers, pushed_state.tangents, problems)
        slopes = jnp.moveaxis(slopes, 0, 1).reshape(-1, slopes.shape[-1])
        return jnp.concatenate([results, slopes])

    return Task(task.needed, start, turn, lambda pushed: task.ended(pushed.state), finish)


class _Pushed(NamedTuple):
    """The state of work with its derivatives."""

    state: Any
    tangents: Any  # of its numbers, leaves of shape (n, lanes); None elsewhere


def run_queue(task: Task, problems: Columns) -> Columns:
    """The results of all problems."""
    if problems.shape[1] <= _n_workers(problems.shape[1]):
        return _all_at_once(task, problems)
    # A GPU has a thread for each problem: a queue would leave nearly all of them idle.
    return jax.lax.platform_dependent(
        problems, cuda=partial(_all_at_once, task), default=partial(_by_workers, task)
    )


def _all_at_once(task: Task, problems: Columns) -> Columns:
    """The results of problems that are solved side by side, until the slowest has ended."""
    needed = task.needed(problems)
    state = _together(task, problems, needed)
    return jnp.where(needed[None], task.finish(state, problems), 0.0)


def _by_workers(task: Task, problems: Columns) -> Columns:
    """The results of problems that are handed out to workers."""
    n = problems.shape[1]
    needed = task.needed(problems)
    n_workers = _n_workers(n)
    # The queue: numbers of the needed problems, and beyond them those of none, from n on. What is
    # written has columns of its own throughout, or derivatives of writing it would be searched for.
    n_needed = jnp.sum(needed, dtype=jnp.int32)
    place = jnp.where(needed, jnp.cumsum(needed, dtype=jnp.int32) - 1, n + n_workers)
    numbers = jnp.arange(n, dtype=jnp.int32)
    queue = n + jnp.arange(n + n_workers, dtype=jnp.int32)
    queue = queue.at[place].set(numbers, mode="drop")
    workers = jnp.arange(n_workers, dtype=jnp.int32)

    def problems_at(place: Int[Array, " workers"]) -> Columns:
        return problems.at[:, queue.at[place].get(mode="clip")].get(mode="clip")

    def idle(team: _Team):
        return (team.place >= n_needed) | task.ended(team.state)

    def hand_in(team: _Team, those: Bool[Array, " workers"], ends: Columns) -> Columns:
        column = jnp.where(those, team.place, n + n_workers + workers)
        return ends.at[:, column].set(_pack(team.state), unique_indices=True)

    def take(team: _Team, ends: Columns) -> tuple[_Team, Columns]:
        """Stores the states of workers that have finished and gives them the next problems."""
        free = idle(team)
        ends = hand_in(team, free, ends)
        place = team.taken + jnp.cumsum(free, dtype=jnp.int32) - 1
        problem = problems_at(place)
        fresh = _Team(place, problem, task.start(problem), team.taken)
        following = _choose(free, fresh, team)
        return following._replace(taken=team.taken + jnp.sum(free, dtype=jnp.int32)), ends

    def unfinished(carry):
        team, _ = carry
        return (team.taken < n_needed) | jnp.any(~idle(team))

    def turn(carry):
        team, ends = carry
        team = team._replace(state=_turn(task, team.state, team.problem))
        free = jnp.sum(idle(team), dtype=jnp.int32)
        # To hand over costs about as much as a turn: not for one or two.
        worth = (team.taken < n_needed) & (free >= n_workers // 4)
        return jax.lax.cond(worth, take, lambda *carry: carry, team, ends)

    problem = problems_at(workers)
    team = _Team(workers, problem, task.start(problem), jnp.asarray(n_workers, jnp.int32))
    ends = jnp.zeros((_pack(team.state).shape[0], n + 2 * n_workers), problems.dtype)
    team, ends = jax.lax.while_loop(unfinished, turn, (team, ends))
    ends = hand_in(team, idle(team), ends)

    def finish(index, results):
        """Writes the results of `n_workers` problems, in the order of the queue."""
        place = index * n_workers + workers
        state = jax.lax.dynamic_slice_in_dim(ends, index * n_workers, n_workers, axis=1)
        result = task.finish(_unpack(state, team.state), problems_at(place))
        column = queue.at[place].get(mode="clip")
        return results.at[:, column].set(result, mode="drop", unique_indices=True)

    n_results = jax.eval_shape(task.finish, team.state, problem).shape[0]
    results = jnp.zeros((n_results, n), problems.dtype)
    return jax.lax.fori_loop(0, (n_needed + n_workers - 1) // n_workers, finish, results)


def _n_workers(n: int) -> int:
    """Enough to fill the vector units, few enough for their state to stay in the cache.

    And fewer if not many problems are given, of which often only some are needed.
    """
    return min(128, max(16, n // 32))


class _Team(NamedTuple):
    """The workers."""

    place: Int[Array, " workers"]  # in the queue, of the problem of each
    problem: Columns
    state: Any
    taken: Int[Array, ""]  # how many problems have been


def _choose(where: Bool[Array, " lanes"], new: Any, old: Any) -> Any:
    """Lane by lane one of two trees."""

    def of(new: Array, old: Array) -> Array:
        return jnp.where(jnp.expand_dims(where, range(new.ndim - 1)), new, old)

    return jax.tree.map(of, new, old)


def _pack(state: Any) -> Columns:
    """A state as one array, which is written at once."""
    leaves = jax.tree.leaves(state)
    dtype = jnp.result_type(*(leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact)))
    return jnp.concatenate([leaf.astype(dtype).reshape(-1, leaf.shape[-1]) for leaf in leaves])


def _unpack(columns: Columns, like: Any) -> Any:
    leaves, structure = jax.tree.flatten(like)
    rows = np.cumsum([leaf.size // leaf.shape[-1] for leaf in leaves])[:-1]
    parts = zip(jnp.split(columns, rows), leaves, strict=True)
    parts = [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in parts]
    return jax.tree.unflatten(structure, parts)


def _together(task: Task, problems: Columns, needed: Bool[Array, " lanes"]) -> Any:
    """All at once, until the slowest has ended."""

    def unfinished(state):
        return jnp.any(needed & ~task.ended(state))

    def turn(state):
        return _turn(task, state, problems, needed)

    return jax.lax.while_loop(unfinished, turn, task.start(problems))


def _turn(task: Task, state: Any, problems: Columns, needed: Array | bool = True) -> Any:
    """One more turn of those that have not ended."""
    going = ~task.ended(state) & needed
    following = task.turn(state, problems)
    return _choose(going, following, state)


# Lanes that are worked on at once where few may be needed of many, on a CPU.
_CHUNK = 512
# On a GPU a chunk is this part of all: it takes as long for a thousand lanes as for one.
_PART_ON_GPU = 8


def where_needed(
    function: Callable[[Columns], Array],
    needed: Callable[[Columns], Bool[Array, " lanes"]],
    idle: tuple[float, ...],
) -> Callable[[Columns], Array]:
    """A function that costs as much as the columns that are needed, and is 0 elsewhere.

    Args:
        function: of columns; its results have the lanes as their last axis.
        needed: which columns are.
        idle: a column that is not, of which the function is finite.
    """

    function = jax.jit(function)  # traced once for its shape and for its use

    def thrifty(columns: Columns) -> Array:
        n, mask = columns.shape[1], needed(columns)
        harmless = jnp.asarray(idle, columns.dtype)[:, None]
        columns = jnp.where(mask[None], columns, harmless)
        if n <= _CHUNK:
            found = function(columns)
            return jnp.where(jnp.expand_dims(mask, range(found.ndim - 1)), found, 0.0)
        on_gpu = partial(in_chunks, max(_CHUNK, -(-n // _PART_ON_GPU)))
        on_cpu = partial(in_chunks, _CHUNK)
        return jax.lax.platform_dependent(columns, mask, cuda=on_gpu, default=on_cpu)

    def in_chunks(size: int, columns: Columns, mask: Bool[Array, " lanes"]) -> Array:
        n = columns.shape[1]
        (queue,) = jnp.nonzero(mask, size=n + size, fill_value=n)
        queue = queue.astype(jnp.int32)
        harmless = jnp.asarray(idle, columns.dtype)[:, None]
        columns = jnp.concatenate([columns, harmless], axis=1)

        def chunk(index, results):
            those = jax.lax.dynamic_slice_in_dim(queue, index * size, size)
            found = function(columns.at[:, those].get(mode="clip"))
            return results.at[..., those].set(found, mode="drop")

        like = jax.eval_shape(function, columns[:, :size])
        count = jnp.sum(mask, dtype=jnp.int32)
        n_chunks = (count + size - 1) // size
        results = jnp.zeros((*like.shape[:-1], n), like.dtype)
        return jax.lax.fori_loop(0, n_chunks, chunk, results)

    return thrifty


class Lanewise:
    """A function of columns that `vmap` calls once, with derivatives in both modes.

    Every derivative, of any order, is computed in forward mode, as the whole Jacobian of each
    lane, and contracted. So reverse mode needs no reversed loop.
    """

    def __init__(self, function: Callable[[Columns], Array], jacobian: Callable[[Columns], Array]):
        batched = _in_one_batch(function)

        @jax.custom_jvp
        def solve(columns: Columns, known: Array | None, slope: Array | None) -> Array:
            return batched(columns) if known is None else known

        @solve.defjvp
        def _(primals, tangents):
            (columns, _, slope), direction = primals, tangents[0]
            slope = keep_rule(self.slopes)(columns, slope)
            direction = jnp.expand_dims(direction, range(slope.ndim - 2))
            return keep_rule(solve)(*primals), jnp.sum(slope * direction, axis=-2)

        self._solve = solve
        self._jacobian = jacobian

    def __call__(
        self, columns: Columns, known: Array | None = None, slope: Array | None = None
    ) -> Array:
        """The value of the function.

        Args:
            columns: shape (numbers, lanes).
            known: the value, if it is known from before: then only derivatives are computed.
            slope: those of first order, if they are known from before, as `slopes` gives them:
                then only higher ones are computed.
        """
        return self._solve(columns, known, slope)

    @cached_property
    def slopes(self) -> Lanewise:
        """The Jacobian: the value with a second last axis over the numbers."""
        return of_lanes(self._jacobian)


def of_lanes(
    function: Callable[[Columns], Array], jacobian: Callable[[Columns], Array] | None = None
) -> Lanewise:
    """A function that acts on each lane by itself, lanes being the last axis of its result.

    Args:
        function: of an array of shape (numbers, lanes); it may hold a `while_loop`.
        jacobian: its derivatives, as `Lanewise.slopes`, itself differentiable in forward mode;
            by default that of the function.
    """
    return Lanewise(function, partial(_jacobian, function) if jacobian is None else jacobian)


def _jacobian(function: Callable[[Columns], Array], columns: Columns) -> Array:
    """In forward mode, along all numbers: the second last axis."""
    push = lambda direction: jax.jvp(function, (columns,), (direction,))[1]  # noqa: E731
    return jax.vmap(push, out_axes=-2)(unit_directions(columns))


def unit_directions(columns: Columns) -> Float[Array, "numbers numbers lanes"]:
    """Along each of the numbers."""
    unit = jnp.eye(columns.shape[0], dtype=columns.dtype)
    return jnp.broadcast_to(unit[:, :, None], (*unit.shape, columns.shape[1]))


def _in_one_batch(function: Callable[[Columns], Array]) -> Callable[[Columns], Array]:
    """The function, under any number of `vmap`s called once on all lanes."""

    @custom_vmap
    def call(columns: Columns) -> Array:
        return function(columns)

    # Traced once, however often what is around it is transformed.
    once = jax.jit(call)

    @call.def_vmap
    def _(size, batched, columns):
        if not batched[0]:
            return once(columns), False
        lanes = columns.shape[-1]
        together = jnp.moveaxis(columns, 0, -2).reshape(columns.shape[1], size * lanes)
        result = once(together)
        result = result.reshape(*result.shape[:-1], size, lanes)
        return jnp.moveaxis(result, -2, 0), True

    return once
