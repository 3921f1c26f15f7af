"""Linear equations solved by repetition, with nearly the inverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

# Turns in a round, and rounds at most. One round is enough where the equations are those of a cone
# problem; of displacements each turn leaves a part like the square of the angle of the step.
_TURNS, _ROUNDS = 3, 20
# Of the round-off of a solution, what is left of the equations at most.
_LEFT = 1000

Flat = Float[Array, " n_unknowns"]


class _At(NamedTuple):
    """Where a solution by repetition is."""

    x: Flat
    rest: Flat  # of the right side
    beside: Any  # what comes of all that was applied
    scale: Float[Array, ""]  # of the right side
    change: Float[Array, ""]  # of the rest, in this turn
    last: Float[Array, ""]  # and in the one before
    before: Float[Array, ""]  # and in the last of the round before
    turns: Int[Array, ""]


def refined(inverse: Callable[[Flat], Flat], apply: Callable, right: tuple) -> tuple[Flat, Any]:
    """The solution of linear equations by repetition and what comes of it beside; NaN where it does
    not settle.

    What is left need not vanish: of the transposed equations a part of the right side may have no
    answer where impulses are not unique. It is in directions in which the equations do not change.
    So it is of the equations themselves where more stick than can, as feet of a robot that bends
    its legs: what is left is slip that no impulse changes.

    Args:
        inverse: of the equations, nearly.
        apply: the equations as apply(given, x, found), and what comes of the three beside.
        right: what is given, the right side and what is found before: all linear.
    """
    info = jnp.finfo(right[1].dtype)
    round_off = info.eps
    # Derivatives of what has come to rest die away from step to step, until numbers end: in the
    # unit of the right side the last of them have as many digits as the first.
    unit = jnp.max(jnp.stack([_size(leaf) for leaf in jax.tree.leaves(right)]))
    unit = jnp.where(unit < info.smallest_normal, 1.0, unit)
    given, rest, found = jax.tree.map(lambda leaf: leaf / unit, right)
    # What is given changes the equations in a turn of its own.
    first = 1 if given else 0

    def turn(at: _At) -> _At:
        begins = at.turns == 0
        once = lambda leaf: jnp.where(begins, leaf, jnp.zeros_like(leaf))  # noqa: E731
        more = inverse(at.rest)
        missed, beside = apply(*jax.tree.map(once, (given,)), more, jax.tree.map(once, found))
        left, change = at.rest - missed, _size(missed)
        scale = jnp.where(begins, jnp.maximum(_size(rest), _size(left)), at.scale)
        before = jnp.where(_between_rounds(at.turns), at.change, at.before)
        beside = jax.tree.map(jnp.add, at.beside, beside)
        return _At(at.x + more, left, beside, scale, change, at.change, before, at.turns + 1)

    def _between_rounds(turns):
        return (turns > first) & ((turns - first) % _TURNS == 0)

    def unfinished(at: _At):
        # Each turn makes the change less by about the same factor: the next would be as large as
        # this. Where the factor is not small, it is not known so well.
        settles = at.change <= 1e-2 * at.last
        # As squares, small ones would end as zeros, and any of them would do.
        settles &= at.change <= round_off**0.5 * jnp.sqrt(at.scale) * jnp.sqrt(at.last)
        moves = (at.change > round_off * at.scale) & ~settles
        goes_on = moves & (at.change <= 0.5 * at.before) & (at.turns < first + _TURNS * _ROUNDS)
        return ~_between_rounds(at.turns) | goes_on

    far = jnp.full((), jnp.inf, rest.dtype)
    _, like = jax.eval_shape(apply, given, rest, found)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
    start = _At(jnp.zeros_like(rest), rest, nothing, far, far, far, far, jnp.zeros((), jnp.int32))
    end = jax.lax.while_loop(unfinished, turn, start)
    # What is left is no more exact than the terms that it is the difference of: in float32 that is
    # more than half of the digits where the solution is large.
    allowed = jnp.maximum(jnp.sqrt(round_off) * end.scale, _LEFT * round_off * _size(end.x))
    # Beside what does not die away, the last of them have no digits left that could be wrong.
    allowed = jnp.maximum(allowed, info.smallest_normal / round_off**2)
    known = end.change <= allowed
    return jax.tree.map(lambda leaf: jnp.where(known, leaf * unit, jnp.nan), (end.x, end.beside))


def _size(x: Array) -> Float[Array, ""]:
    return jnp.max(jnp.abs(x), initial=0.0)
