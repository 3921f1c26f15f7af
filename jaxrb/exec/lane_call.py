"""Calls whose lanes and derivatives are worked out as late as they can be.

What `jax.vmap` makes of a function is traced as long again as the function, once for each `vmap`
around it, and what stands in it for derivatives alone with it: the matrix of a linear system, and
twice the transposed one. Here a call keeps the function of one lane, and which of its arguments
have lanes, until it is compiled. Derivatives are those of the function of one lane, and when the
lanes come no more derivatives will.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching

from .lanes import Lanes
from .traced import shape_of, traced_at

# Beyond so many numbers the changes of what lanes share are not kept apart until the end: those of
# a shape on a lattice, say, would fill the memory.
_MOST_APART = 1 << 24


def lane_call(traced: ClosedJaxpr, leaves) -> list:
    """The results of a function that was traced."""
    return _call(traced, 0, (), leaves)


def _call(traced: ClosedJaxpr, n_linear: int, lanes: tuple[Lanes, ...], leaves) -> list:
    return lane_call_p.bind(*leaves, traced=traced, n_linear=n_linear, lanes=lanes)


# The function is linear in the last `n_linear` arguments: they are tangents or cotangents. Of the
# lanes, those of the `vmap` that came first come first; their axis is the last of all.
lane_call_p = Primitive("lane_call")
lane_call_p.multiple_results = True


@lane_call_p.def_abstract_eval
def _(*avals, traced: ClosedJaxpr, n_linear: int, lanes: tuple[Lanes, ...]):
    numbers = tuple(each.number for each in reversed(lanes))
    return [ShapedArray((*numbers, *aval.shape), aval.dtype) for aval in traced.out_avals]


@lane_call_p.def_impl
def _(*leaves, **params):
    return jax.jit(lambda *leaves: lane_call_p.bind(*leaves, **params))(*leaves)


def _batch(leaves, axes, *, traced, n_linear, lanes):
    pairs = list(zip(leaves, axes, strict=True))
    number = next(leaf.shape[axis] for leaf, axis in pairs if axis is not None)
    own = Lanes(tuple(axis is not None for axis in axes), number)
    leaves = [leaf if axis is None else jnp.moveaxis(leaf, axis, 0) for leaf, axis in pairs]
    found = _call(traced, n_linear, (*lanes, own), leaves)
    return found, [0] * len(found)


batching.primitive_batchers[lane_call_p] = _batch


def _push(primals, tangents, *, traced, n_linear, lanes):
    """Forward mode: the derivative is linear in those tangents that are not known to be zero."""
    moving = [i for i, tangent in enumerate(tangents) if not _is_zero(tangent)]
    smooth = [i for i, aval in enumerate(traced.out_avals) if _is_smooth(aval)]
    found = _call(traced, n_linear, lanes, primals)
    pushes = [ad.Zero(ShapedArray(out.shape, out.dtype).to_tangent_aval()) for out in found]
    if smooth:
        of_both = [*range(len(primals)), *moving]
        pushed = traced_at(_pushed(traced, moving, smooth), [traced.in_avals[i] for i in of_both])
        leaves = [*primals, *(tangents[i] for i in moving)]
        lanes = tuple(each.of(of_both) for each in lanes)
        derivative = _call(pushed, len(moving), lanes, leaves)
        for i, push in zip(smooth, derivative, strict=True):
            pushes[i] = push
    return found, pushes


def _pushed(traced: ClosedJaxpr, moving: list[int], smooth: list[int]) -> Callable:
    """The derivatives of some results along some arguments, by all arguments and the tangents."""
    function = jaxpr_as_fun(traced)

    def pushed(*leaves):
        n = len(traced.in_avals)
        primals, directions = leaves[:n], leaves[n:]

        def of_moving(*values):
            full = list(primals)
            for i, value in zip(moving, values, strict=True):
                full[i] = value
            found = function(*full)
            return [found[i] for i in smooth]

        return jax.jvp(of_moving, [primals[i] for i in moving], list(directions))[1]

    return pushed


ad.primitive_jvps[lane_call_p] = _push


def _pull(cotangents, *leaves, traced, n_linear, lanes):
    """Reverse mode: the transposed function, of what is known and of the cotangents."""
    unknown = [i for i, leaf in enumerate(leaves) if ad.is_undefined_primal(leaf)]
    if _n_apart(traced, unknown, lanes) > _MOST_APART:
        avals = [leaf.aval if i in unknown else leaf for i, leaf in enumerate(leaves)]
        traced, lanes = traced_at(_by_vmap(traced, lanes), avals), ()
    function = jaxpr_as_fun(traced)
    assert all(i >= len(leaves) - n_linear for i in unknown)
    known = [i for i in range(len(leaves)) if i not in unknown]
    pulled = [i for i, cotangent in enumerate(cotangents) if not _is_zero(cotangent)]

    def transposed(*given):
        fixed, pulls = given[: len(known)], given[len(known) :]

        def of_unknown(*values):
            rest, following = iter(fixed), iter(values)
            full = [next(following if i in unknown else rest) for i in range(len(leaves))]
            found = function(*full)
            return [found[i] for i in pulled]

        directions = [shape_of(traced.in_avals[i]) for i in unknown]
        return jax.linear_transpose(of_unknown, *directions)(list(pulls))

    avals = [*(traced.in_avals[i] for i in known), *(traced.out_avals[i] for i in pulled)]
    given = [*(leaves[i] for i in known), *(cotangents[i] for i in pulled)]
    of_known = tuple(each.of(known).beside(len(pulled)) for each in lanes)
    found = iter(_call(traced_at(transposed, avals), len(pulled), of_known, given))

    def of_all_lanes(i: int):
        # What lanes share changes by the sum of what it does in each.
        axes = [k for k, each in enumerate(reversed(lanes)) if not each.mapped[i]]
        return jnp.sum(next(found), axis=tuple(axes))

    return [of_all_lanes(i) if i in unknown else None for i in range(len(leaves))]


ad.primitive_transposes[lane_call_p] = _pull


def _n_apart(traced: ClosedJaxpr, unknown: list[int], lanes: tuple[Lanes, ...]) -> int:
    """How many numbers the changes of what lanes share have, while they are those of each lane."""
    total = 0
    for i in unknown:
        if not all(each.mapped[i] for each in lanes):
            total += traced.in_avals[i].size * math.prod(each.number for each in lanes)
    return total


def _by_vmap(traced: ClosedJaxpr, lanes: tuple[Lanes, ...]) -> Callable:
    """The function of all lanes with its rules, of which reverse mode sums up along the way what
    lanes share."""

    def run(*leaves):
        function = jaxpr_as_fun(traced)
        for each in lanes:
            axes = tuple(0 if has else None for has in each.mapped)
            function = jax.vmap(function, in_axes=axes, axis_size=each.number)
        return function(*leaves)

    return run


def _is_zero(tangent) -> bool:
    return isinstance(tangent, ad.Zero)


def _is_smooth(aval) -> bool:
    return jnp.issubdtype(aval.dtype, jnp.inexact)
