"""Many small problems of different length, solved together.

A problem is a column of an array of shape (n_numbers, lanes), and so is its result. Solving
one takes an unknown number of turns. Under `vmap` a loop would run until its slowest lane
has ended; here a batch of problems is put into one array, whatever the nesting of `vmap`,
and worked off by a row of workers, each of which takes the next problem when it has ended
one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float, Int

from .tangents import keep_rule

Columns = Float[Array, "numbers lanes"]

# Enough to fill the vector units, few enough for their state to stay in the cache.
WORKERS = 128


class Work(NamedTuple):
    """How problems are solved; everything acts on each lane by itself."""

    needed: Callable[[Columns], Bool[Array, " lanes"]]  # others are left as they start
    start: Callable[[Columns], Any]  # the state before the first turn
    turn: Callable[[Any, Columns], Any]  # the state after one more
    ended: Callable[[Any], Bool[Array, " lanes"]]


def work_off(work: Work, problems: Columns) -> Any:
    """The states of all problems at their ends; leaves have lanes as their last axis."""
    n = problems.shape[1]
    if n <= WORKERS:
        return _together(work, problems)
    needed = work.needed(problems)
    order = jnp.nonzero(needed, size=n, fill_value=n)[0].astype(jnp.int32)
    n_needed = jnp.sum(needed, dtype=jnp.int32)

    def idle(team: _Team):
        return (team.number == n) | work.ended(team.state)

    def take(team: _Team, results: Any) -> tuple[_Team, Any]:
        """Those who have ended hand in their result and take the next problems."""
        free = idle(team)
        rank = team.taken + jnp.cumsum(free, dtype=jnp.int32) - 1
        number = order.at[rank].get(mode="fill", fill_value=n)
        problem = problems.at[:, number].get(mode="clip")
        fresh = _Team(number, problem, work.start(problem), team.taken)
        following = jax.tree.map(lambda new, old: jnp.where(free, new, old), fresh, team)
        taken = team.taken + jnp.sum(free, dtype=jnp.int32)
        return following._replace(taken=taken), _hand_in(team, results, free)

    def unfinished(carry):
        team, _ = carry
        return (team.taken < n_needed) | jnp.any(~idle(team))

    def turn(carry):
        team, results = carry
        state = _turn(work, team.state, team.problem)
        team = team._replace(state=state)
        free = jnp.sum(idle(team), dtype=jnp.int32)
        # To hand over costs about as much as a turn: not for one or two.
        worth = (team.taken < n_needed) & (free >= WORKERS // 4)
        return jax.lax.cond(worth, take, lambda *carry: carry, team, results)

    # At first nobody has anything to hand in.
    nothing = problems[:, :WORKERS]
    nobody = jnp.full(WORKERS, n, jnp.int32)
    team = _Team(nobody, nothing, work.start(nothing), jnp.zeros((), jnp.int32))
    carry = take(team, work.start(problems))
    team, results = jax.lax.while_loop(unfinished, turn, carry)
    return _hand_in(team, results, idle(team))


class _Team(NamedTuple):
    """The workers."""

    number: Int[Array, " workers"]  # of the problem of each; the number of all for none
    problem: Columns
    state: Any
    taken: Int[Array, ""]  # how many of the needed problems have been


def _hand_in(team: _Team, results: Any, free: Bool[Array, " workers"]) -> Any:
    n = jax.tree.leaves(results)[0].shape[-1]
    place = jnp.where(free, team.number, n)
    return jax.tree.map(
        lambda everyone, own: everyone.at[..., place].set(own, mode="drop"), results, team.state
    )


def _together(work: Work, problems: Columns) -> Any:
    """All at once, until the slowest has ended."""
    idle = ~work.needed(problems)

    def unfinished(state):
        return jnp.any(~idle & ~work.ended(state))

    def turn(state):
        return _turn(work, state, problems, idle)

    return jax.lax.while_loop(unfinished, turn, work.start(problems))


def _turn(work: Work, state: Any, problems: Columns, idle: Array | bool = False) -> Any:
    """One more turn of those that have not ended."""
    ended = work.ended(state) | idle
    following = work.turn(state, problems)
    return jax.tree.map(lambda new, old: jnp.where(ended, old, new), following, state)


def of_lanes(
    function: Callable[[Columns], Array], derived: Callable[[Columns], Array] | None = None
) -> Callable[[Columns], Array]:
    """A function of columns that `vmap` calls once, with derivatives in both modes.

    The function acts on each lane by itself, lanes being the last axis of its result, and may
    hold a `while_loop`: every derivative, of any order, is computed in forward mode, as the
    whole Jacobian of each lane, and contracted. So reverse mode needs no reversed loop.

    Args:
        function: of an array of shape (numbers, lanes).
        derived: what is differentiated in its place; equal to it to round-off.
    """
    derived = function if derived is None else derived
    batched = _in_one_batch(function)

    @jax.custom_jvp
    def solve(columns: Columns) -> Array:
        return batched(columns)

    def jacobian(columns: Columns) -> Array:
        """With a second last axis over the numbers."""
        unit = jnp.eye(columns.shape[0], dtype=columns.dtype)
        along = jnp.broadcast_to(unit[:, :, None], (*unit.shape, columns.shape[1]))
        push = lambda direction: jax.jvp(derived, (columns,), (direction,))[1]  # noqa: E731
        return jax.vmap(push, out_axes=-2)(along)

    @solve.defjvp
    def _(primals, tangents):
        (columns,), (direction,) = primals, tangents
        slope = keep_rule(of_lanes(jacobian))(columns)
        direction = jnp.expand_dims(direction, range(slope.ndim - 2))
        return keep_rule(solve)(columns), jnp.sum(slope * direction, axis=-2)

    return solve


def _in_one_batch(function: Callable[[Columns], Array]) -> Callable[[Columns], Array]:
    """The function, under any number of `vmap`s called once on all lanes."""

    @custom_vmap
    def call(columns: Columns) -> Array:
        return function(columns)

    @call.def_vmap
    def _(size, batched, columns):
        if not batched[0]:
            return call(columns), False
        lanes = columns.shape[-1]
        together = jnp.moveaxis(columns, 0, -2).reshape(columns.shape[1], size * lanes)
        result = call(together)
        result = result.reshape(*result.shape[:-1], size, lanes)
        return jnp.moveaxis(result, -2, 0), True

    return call
