"""Where functions of one variable change their sign."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

_PARTS = np.linspace(0.0, 1.0, 9)  # into which the bracket of a dip is cut in one turn
_DIP_TURNS = 10  # leave 1e-6 of it

Functions = Callable[[Float[Array, "n_lines n"]], Float[Array, "n_lines n"]]


def isolate(
    f: Functions, v: Float[Array, "n_lines n_ends"], reach: Float[Array, " n_lines"]
) -> tuple[
    Float[Array, "n_lines n_ends"], Float[Array, "n_lines n_ends"], Float[Array, " n_lines"]
]:
    """Points that cut intervals into segments with at most one change of sign each.

    The points given, of which those where |f| has a dip are moved to its bottom if the sign
    is another one there. A pair of changes is missed where |f| has two dips within a
    segment, or where the two are closer than 1e-6 of it.

    Args:
        f: one function for each line, of points in its interval.
        v: points at equal distances, in ascending order.
        reach: by how much f may change from one to the next.

    Returns:
        The points; the values there; and about how close |f| comes to zero elsewhere than at
        changes, infinity if it has no dip.
    """
    value = f(v)
    sign = jnp.where(value < 0, -1.0, 1.0).astype(value.dtype)
    size = sign * value
    before = jnp.concatenate([value[:, :1], value[:, :-1]], axis=1)
    after = jnp.concatenate([value[:, 1:], value[:, -1:]], axis=1)
    # Of points with one value the last.
    dip = (size <= sign * before) & (size < reach[:, None])
    dip &= jnp.pad(size[:, :-1] < (sign * after)[:, :-1], ((0, 0), (0, 1)), constant_values=True)
    step = v[:, 1:2] - v[:, :1]
    a, b = jnp.maximum(v - step, v[:, :1]), jnp.minimum(v + step, v[:, -1:])

    def lowest(a, b, sign):
        """The best of some nodes, then of nodes between its neighbours, and so on.

        Until f has the other sign there, or is known to a tenth and so cannot have it.
        """

        def unfinished(carry):
            a, b, _, least, turn = carry
            is_open = (least > 0) & (least * step < 16 * reach[:, None] * (b - a))
            return jnp.any(is_open) & (turn < _DIP_TURNS)

        def narrow(carry):
            a, b, *_, turn = carry
            nodes = a[..., None] + (b - a)[..., None] * jnp.asarray(_PARTS, a.dtype)[None, None]
            value = sign[..., None] * f(nodes.reshape(len(a), -1)).reshape(nodes.shape)
            best = jnp.argmin(value, axis=-1, keepdims=True)
            ends = jnp.maximum(best - 1, 0), jnp.minimum(best + 1, len(_PARTS) - 1), best
            a, b, bottom = (jnp.take_along_axis(nodes, k, axis=-1)[..., 0] for k in ends)
            return a, b, bottom, jnp.min(value, axis=-1), turn + 1

        unknown = jnp.where(b > a, jnp.finfo(a.dtype).tiny, 0.0)
        start = a, b, a, unknown, jnp.zeros((), jnp.int32)
        _, _, bottom, least, _ = lax.while_loop(unfinished, narrow, start)
        return bottom, sign * least

    bottom, least = _by_twos(lowest, 2, dip, a, b, sign)
    through = dip & ((least < 0) != (value < 0))
    # What is zero to round-off belongs to surfaces that coincide: nothing was missed there.
    close = dip & ~through & (jnp.abs(least) > 256 * jnp.finfo(v.dtype).eps)
    missed = jnp.min(jnp.where(close, jnp.abs(least), jnp.inf), axis=1)
    return jnp.where(through, bottom, v), jnp.where(through, least, value), missed


def roots(
    f: Functions, v: Float[Array, "n_lines n_ends"], value: Float[Array, "n_lines n_ends"]
) -> Float[Array, "n_lines n_segments"]:
    """The root in each segment at whose ends the sign differs; elsewhere its lower end.

    By the ITP method (Oliveira and Takahashi 2020, doi:10.1145/3423597): linear interpolation,
    kept close to the middle as far as bisection would need it.
    """
    ends = v[:, :-1], v[:, 1:], value[:, :-1], value[:, 1:]
    change = (ends[2] < 0) != (ends[3] < 0)
    eps = jnp.finfo(v.dtype).eps

    def solve(a, b, at_a, at_b):
        whole = b - a

        def unfinished(carry):
            a, b, at_a, at_b, allowed = carry
            is_open = (b - a > 4 * eps) & (jnp.minimum(jnp.abs(at_a), jnp.abs(at_b)) > 4 * eps)
            return jnp.any(is_open) & jnp.any(allowed > eps)

        def step(carry):
            a, b, at_a, at_b, allowed = carry
            middle, rise = (a + b) / 2, at_b - at_a
            linear = a - (b - a) * at_a / jnp.where(rise != 0, rise, 1.0)
            push = 0.2 * (b - a) ** 2 / jnp.where(whole != 0, whole, 1.0) + eps
            off = middle - linear
            x = jnp.where(push < jnp.abs(off), linear + jnp.sign(off) * push, middle)
            slack = allowed - (b - a) / 2
            x = jnp.clip(x, middle - slack, middle + slack)
            at_x = f(x)
            left = (at_x < 0) == (at_a < 0)
            a, at_a = jnp.where(left, x, a), jnp.where(left, at_x, at_a)
            b, at_b = jnp.where(left, b, x), jnp.where(left, at_b, at_x)
            return a, b, at_a, at_b, allowed / 2

        a, b, at_a, at_b, _ = lax.while_loop(unfinished, step, (a, b, at_a, at_b, whole))
        return [jnp.where(jnp.abs(at_a) < jnp.abs(at_b), a, b)]

    (root,) = _by_twos(solve, 1, change, *ends)
    return jnp.where(change, root, v[:, :-1])


def _by_twos(
    solve: Callable, n_results: int, wanted: Bool[Array, "n_lines n"], *columns: Array
) -> Float[Array, "n_results n_lines n"]:
    """Solves for the wanted entries of all lines, two entries of each line at a time.

    Most lines have no more, and all others need not be computed for nothing.
    """
    rank = jnp.where(wanted, jnp.cumsum(wanted, axis=1) - 1, -1)
    most = jnp.max(rank)
    table = jnp.stack(columns)

    def unfinished(carry):
        first, _ = carry
        return first <= most

    def next_two(carry):
        first, found = carry
        pair = first + jnp.arange(2, dtype=rank.dtype)
        place = (rank[:, None, :] == pair[None, :, None])[None]
        taken = jnp.sum(jnp.where(place, table[:, :, None, :], 0.0), axis=3)
        solved = jnp.stack(solve(*taken))
        return first + 2, found + jnp.sum(jnp.where(place, solved[..., None], 0.0), axis=2)

    start = jnp.zeros((n_results, *wanted.shape), table.dtype)
    return lax.while_loop(unfinished, next_two, (jnp.zeros((), rank.dtype), start))[1]
