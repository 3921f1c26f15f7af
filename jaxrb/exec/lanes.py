"""Functions of many lanes from those of one, in one pass.

`jax.vmap` finds out which numbers that a loop carries differ between lanes by tracing its body
until no more of them do, and once more when it knows; so does each loop within it, each time. Here
that is found without tracing, and what is left for derivatives alone is left out: rules for
derivatives, the matrices of linear systems, operations on which no result depends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun

from .kernel.scalarise import CALLS
from .traced import arguments_of_solve, bound, called, evaluated, opened, pruned, shape_of

Mask = tuple[bool, ...]
Traced = ClosedJaxpr | Jaxpr


class Lanes(NamedTuple):
    """Those of one `vmap`."""

    mapped: Mask  # which arguments have them, as their first axis
    number: int

    def of(self, arguments) -> Lanes:
        """Likewise, for a call with some of the arguments."""
        return self._replace(mapped=tuple(self.mapped[i] for i in arguments))

    def beside(self, n: int) -> Lanes:
        """Likewise, with so many more arguments that have them."""
        return self._replace(mapped=(*self.mapped, *[True] * n))


def in_all_lanes(function: ClosedJaxpr, lanes: tuple[Lanes, ...]) -> ClosedJaxpr:
    """The function of all lanes, in which nothing stands for derivatives alone.

    Args:
        function: of one lane.
        lanes: those of each `vmap`, of which the first came first; results have all of them.
    """
    if not lanes:
        nowhere = [(False,) * len(avals) for avals in (function.in_avals, function.out_avals)]
        return _Lanewise(1, last=True).traced(function, *nowhere)
    for k, each in enumerate(lanes, 1):
        everywhere = (True,) * len(function.out_avals)
        last = k == len(lanes)
        function = _Lanewise(each.number, last).traced(function, each.mapped, everywhere)
    return function


class _Value(NamedTuple):
    """A number, and whether it has lanes."""

    array: Any
    has_lanes: bool


class _Lanewise:
    """What one `vmap` makes of functions.

    Functions and operations are told by their addresses; what is kept of each keeps it alive.

    Attributes:
        number: of lanes.
        last: whether no other `vmap` follows, to which functions show rules of their own.
    """

    def __init__(self, number: int, last: bool):
        self.number = number
        self.last = last
        self._traced: dict[tuple, tuple] = {}
        self._spreads: dict[tuple, tuple] = {}
        self._rules: dict[tuple, tuple] = {}

    def traced(self, function: Traced, mapped: Mask, wanted: Mask) -> ClosedJaxpr:
        """The function of arguments of which some have lanes, as first axis.

        Args:
            function: of one lane.
            mapped: which arguments have lanes.
            wanted: which results have them, those that have to at least.
        """
        key = id(function), mapped, wanted
        if key not in self._traced:
            axes, results = ([0 if has else None for has in m] for m in (mapped, wanted))
            no_lanes = not any(mapped) and not any(wanted)

            # Neither a partial function nor what `vmap` makes of one: JAX (0.10.1) looks for their
            # names by printing the whole program.
            def run(*leaves):
                of_lane = partial(self._of_lane, function, mapped)
                if no_lanes:
                    return of_lane(*leaves)
                return jax.vmap(of_lane, tuple(axes), results, axis_size=self.number)(*leaves)

            found = jax.make_jaxpr(run)(*self._shapes(opened(function)[0].invars, mapped))
            self._traced[key] = function, pruned(found)
        return self._traced[key][1]

    def _shapes(self, atoms, mapped: Mask) -> list:
        pairs = zip(atoms, mapped, strict=True)
        return [shape_of(atom.aval, *[self.number] * has_lanes) for atom, has_lanes in pairs]

    def _of_lane(self, function: Traced, mapped: Mask, *leaves) -> list:
        values = [_Value(*pair) for pair in zip(leaves, mapped, strict=True)]
        return [_value(result).array for result in self._evaluated(function, values)]

    def _evaluated(self, function: Traced, values) -> list:
        return evaluated(function, values, self._performed)

    def _performed(self, eqn, sources) -> list:
        """The results of an operation, where `jax.vmap` looks at one lane."""
        values = [_value(source) for source in sources]
        arrays, mapped = [value.array for value in values], _mask(values)
        name = eqn.primitive.name
        if self._is_call(name, mapped):
            if _keeps_apart(eqn):
                arrays = jax.lax.optimization_barrier(arrays)
                values = [_Value(*pair) for pair in zip(arrays, mapped, strict=True)]
            return self._evaluated(*_call(eqn, values))
        if name == "cond" and mapped[0]:
            branches = [self._evaluated(branch, values[1:]) for branch in called(eqn)]
            return [self._selected(values[0], cases) for cases in zip(*branches, strict=True)]
        if name in _OF_LANES and any(mapped):
            found = self._outside(eqn)(*arrays)
        elif name in _OF_LANES and name != "custom_vmap_call":
            found = _OF_LANES[name](self, eqn, mapped, arrays)
        else:
            found = bound(eqn, arrays, eqn.params)
        has_lanes = self._spread(eqn, mapped)
        return [_Value(*pair) for pair in zip(found, has_lanes, strict=True)]

    def _is_call(self, name: str, mapped: Mask) -> bool:
        """Whether an operation calls a function that can be evaluated in its place."""
        if name == "custom_vmap_call":
            return self.last and not any(mapped)
        return name in CALLS or name in ("lane_call", "custom_linear_solve")

    def _selected(self, index: _Value, cases) -> _Value:
        cases = [_value(case).array for case in cases]
        return _Value(jax.lax.select_n(index.array, *cases), True)

    def _outside(self, eqn) -> Callable:
        """An operation as one of all lanes, where `jax.vmap` looks at one."""

        @custom_vmap
        def call(*arrays):  # JAX asks for its types alone
            return bound(eqn, arrays, eqn.params)

        @call.def_vmap
        def _(number, mapped, *arrays):
            mapped = tuple(mapped)
            found = _OF_LANES[eqn.primitive.name](self, eqn, mapped, arrays)
            return found, list(self._spread(eqn, mapped))

        return call

    # Which results have lanes

    def _spread(self, eqn, mapped: Mask) -> Mask:
        """Which results of an operation have lanes if some arguments have."""
        n = len(eqn.outvars)
        if not any(mapped) or n == 0:
            return (False,) * n
        if (rule := _SPREAD.get(eqn.primitive.name)) is not None:
            return rule(self, eqn, mapped)
        if eqn.primitive.name in (*CALLS, "custom_linear_solve"):
            return self._spread_through(*_call(eqn, mapped))
        return (True,) * n

    def _spread_through(self, function: Traced, mapped: Mask) -> Mask:
        """Likewise, of a function."""
        key = id(function), mapped
        if key not in self._spreads:

            def spread(eqn, sources):
                return [_HAS if has else None for has in self._spread(eqn, of(sources))]

            def of(sources) -> Mask:
                return tuple(source is _HAS for source in sources)

            found = evaluated(function, [_HAS if has else None for has in mapped], spread)
            self._spreads[key] = function, of(found)
        return self._spreads[key][1]

    def _of_while(self, eqn, mapped: Mask) -> Mask:
        carried, unequal = self._carried_by_while(eqn, mapped)
        return (True,) * len(carried) if unequal else carried

    def _of_cond(self, eqn, mapped: Mask) -> Mask:
        found = [self._spread_through(branch, mapped[1:]) for branch in called(eqn)]
        return tuple(mapped[0] or any(results) for results in zip(*found, strict=True))

    def _of_rule(self, eqn, mapped: Mask) -> Mask:
        return self._ruled(eqn, mapped)[1]

    def _carried_by_while(self, eqn, mapped: Mask) -> tuple[Mask, bool]:
        """Which of the numbers that a loop carries have lanes, and whether these end unequally."""
        of_cond, of_body, carried = _parts(mapped, eqn.params, "cond_nconsts", "body_nconsts")
        body, cond = eqn.params["body_jaxpr"], eqn.params["cond_jaxpr"]
        carried = self._fixed_point(lambda c: self._spread_through(body, (*of_body, *c)), carried)
        return carried, self._spread_through(cond, (*of_cond, *carried))[0]

    def _of_scan(self, eqn, mapped: Mask) -> Mask:
        consts, carried, along = _parts(mapped, eqn.params, "num_consts", "num_carry")
        n = len(carried)

        def results(carried: Mask) -> Mask:
            return self._spread_through(eqn.params["jaxpr"], (*consts, *carried, *along))

        carried = self._fixed_point(lambda carried: results(carried)[:n], carried)
        return (*carried, *results(carried)[n:])

    def _fixed_point(self, following: Callable[[Mask], Mask], carried: Mask) -> Mask:
        while True:
            further = tuple(map(any, zip(carried, following(carried), strict=True)))
            if further == carried:
                return carried
            carried = further

    def _ruled(self, eqn, mapped: Mask) -> tuple[ClosedJaxpr, Mask]:
        """What a function's own rule makes of it, and which results have lanes."""
        key = id(eqn), mapped
        if key not in self._rules:
            rule, structure = eqn.params["rule"], eqn.params["in_tree"]
            has_lanes: list[bool] = []

            def run(*leaves):
                which = list(jax.tree.unflatten(structure, mapped))
                arguments = jax.tree.unflatten(structure, leaves)
                found, batched = rule(self.number, which, *arguments)
                has_lanes[:] = jax.tree.leaves(batched)
                return jax.tree.leaves(found)

            found = jax.make_jaxpr(run)(*self._shapes(eqn.invars, mapped))
            self._rules[key] = eqn, found, tuple(has_lanes)
        return self._rules[key][1:]

    # Operations of all lanes: the results, of which those that have lanes have them as first axis

    def _spread_out(self, arrays, mapped: Mask, wanted: Mask) -> list:
        """Numbers, each with lanes if it is to have some."""
        triples = zip(arrays, mapped, wanted, strict=True)
        return [
            jax.lax.broadcast(array, (self.number,)) if want and not has else array
            for array, has, want in triples
        ]

    def _while(self, eqn, mapped: Mask, arrays) -> list:
        params, names = eqn.params, ("cond_nconsts", "body_nconsts")
        of_cond, of_body, carried = _parts(mapped, params, *names)
        cond, body, start = _parts(arrays, params, *names)
        lasting, unequal = self._carried_by_while(eqn, mapped)
        if unequal:
            return self._unequal_while(eqn, mapped, arrays)
        going = self.traced(params["cond_jaxpr"], (*of_cond, *lasting), (False,))
        turn = self.traced(params["body_jaxpr"], (*of_body, *lasting), lasting)
        start = self._spread_out(start, carried, lasting)
        return bound(
            eqn, [*cond, *body, *start], {**params, "cond_jaxpr": going, "body_jaxpr": turn}
        )

    def _unequal_while(self, eqn, mapped: Mask, arrays) -> list:
        """A loop that goes on until the last lane has come to its end, while others stay there."""
        params, names = eqn.params, ("cond_nconsts", "body_nconsts")
        of_cond, of_body, carried = _parts(mapped, params, *names)
        cond, body, start = _parts(arrays, params, *names)
        all_of_them = (True,) * len(carried)
        going = jaxpr_as_fun(self.traced(params["cond_jaxpr"], (*of_cond, *all_of_them), (True,)))
        turn = self.traced(params["body_jaxpr"], (*of_body, *all_of_them), all_of_them)
        turn = jaxpr_as_fun(turn)

        def any_goes_on(carry):
            return jnp.any(going(*cond, *carry)[0])

        def turned(carry):
            (goes_on,) = going(*cond, *carry)
            return [
                jax.lax.select(jax.lax.broadcast_in_dim(goes_on, new.shape, (0,)), new, old)
                for new, old in zip(turn(*body, *carry), carry, strict=True)
            ]

        return jax.lax.while_loop(
            any_goes_on, turned, self._spread_out(start, carried, all_of_them)
        )

    def _scan(self, eqn, mapped: Mask, arrays) -> list:
        params, names = eqn.params, ("num_consts", "num_carry")
        consts, carried, along = _parts(mapped, params, *names)
        given, start, rows = _parts(arrays, params, *names)
        results = self._of_scan(eqn, mapped)
        lasting, n = results[: len(carried)], len(carried)
        body = self.traced(params["jaxpr"], (*consts, *lasting, *along), results)
        start = self._spread_out(start, carried, lasting)
        found = bound(eqn, [*given, *start, *_swapped(rows, along)], {**params, "jaxpr": body})
        return [*found[:n], *_swapped(found[n:], results[n:])]

    def _cond(self, eqn, mapped: Mask, arrays) -> list:
        results = self._spread(eqn, mapped)
        branches = [self.traced(branch, mapped[1:], results) for branch in called(eqn)]
        return bound(eqn, arrays, {**eqn.params, "branches": tuple(branches)})

    def _by_rule(self, eqn, mapped: Mask, arrays) -> list:
        function, _ = self._ruled(eqn, mapped)
        found = self._evaluated(function, [_Value(array, False) for array in arrays])
        return [_value(result).array for result in found]


_OF_LANES = {
    "while": _Lanewise._while,
    "scan": _Lanewise._scan,
    "cond": _Lanewise._cond,
    "custom_vmap_call": _Lanewise._by_rule,
}
_SPREAD = {
    "while": _Lanewise._of_while,
    "scan": _Lanewise._of_scan,
    "cond": _Lanewise._of_cond,
    "custom_vmap_call": _Lanewise._of_rule,
}
_HAS = object()  # what stands for a number with lanes, where only that is asked


def _value(source) -> _Value:
    """A number that is none of the arguments is a constant."""
    return source if isinstance(source, _Value) else _Value(source, False)


def _mask(values) -> Mask:
    return tuple(value.has_lanes for value in values)


def _call(eqn, arguments) -> tuple[Traced, Any]:
    """The function that an operation calls, and its arguments of those of the operation."""
    if eqn.primitive.name == "lane_call":
        return in_all_lanes(eqn.params["traced"], eqn.params["lanes"]), arguments
    if eqn.primitive.name == "custom_linear_solve":
        return called(eqn)[0], arguments_of_solve(eqn, arguments)
    return called(eqn)[0], arguments


def _parts(entries, params, first: str, second: str) -> tuple:
    """Of the arguments of a loop two groups, by the names of their numbers, and the others."""
    a, b = params[first], params[first] + params[second]
    return entries[:a], entries[a:b], entries[b:]


def _swapped(rows, mapped: Mask) -> list:
    """The first two axes of those arrays that have lanes."""
    return [
        jax.lax.transpose(row, (1, 0, *range(2, row.ndim))) if has else row
        for row, has in zip(rows, mapped, strict=True)
    ]


def _keeps_apart(eqn) -> bool:
    """Whether XLA must not take what is computed again for reverse mode for what was before."""
    apart = eqn.params.get("prevent_cse", False)
    any_apart = any(apart) if isinstance(apart, tuple) else apart
    return any_apart and eqn.params.get("differentiated", False)
