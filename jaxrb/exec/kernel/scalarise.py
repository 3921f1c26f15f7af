"""A function of small arrays as a program of scalars.

The function is traced by JAX once, as it stands; then every array of the trace is an array of
entries. Shapes, known indices, reductions and concatenations are dealt with here, so that nothing
is left of them but operations on scalars, loops and branches.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from .indices import INDEX_RULES
from .operations import OPERATIONS, NotScalarError
from .shapes import SHAPE_RULES, constant_entries
from .values import Builder, Entry, is_constant

Entries = np.ndarray  # of dtype object


class Scalariser:
    """Evaluates a trace with entries for arrays."""

    def __init__(self, builder: Builder):
        self.builder = builder

    def closed(self, traced: ClosedJaxpr | Jaxpr, arguments: list[Entries]) -> list[Entries]:
        """The results of a traced function."""
        if not isinstance(traced, ClosedJaxpr):
            return self.evaluate(traced, [], arguments)
        return self.evaluate(traced.jaxpr, [_known(const) for const in traced.consts], arguments)

    def evaluate(self, jaxpr: Jaxpr, consts: list[Entries], arguments) -> list[Entries]:
        """The results of a traced function with its constants."""
        env: dict[Any, Entries] = dict(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, arguments, strict=True))

        def read(atom) -> Entries:
            if isinstance(atom, Literal):
                aval = cast(ShapedArray, atom.aval)
                return constant_entries(np.asarray(atom.val, aval.dtype))
            return env[atom]

        for eqn in jaxpr.eqns:
            sources = [read(atom) for atom in eqn.invars]
            results = self._equation(eqn, sources)
            for variable, result in zip(eqn.outvars, results, strict=True):
                env[variable] = result
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, eqn, sources: list[Entries]) -> list[Entries]:
        name = eqn.primitive.name
        if name in OPERATIONS:
            return [self._elementwise(eqn, sources)]
        if name in SHAPE_RULES:
            return SHAPE_RULES[name](eqn, *sources)
        if name in INDEX_RULES:
            return INDEX_RULES[name](self.builder, eqn, *sources)
        if name in RULES:
            return RULES[name](self, eqn, *sources)
        if name in CALLS:
            inner = next(v for v in eqn.params.values() if isinstance(v, ClosedJaxpr | Jaxpr))
            return self.closed(inner, sources)
        raise NotScalarError(f"{name} is no operation of scalars")

    def _elementwise(self, eqn, sources: list[Entries]) -> Entries:
        out = eqn.outvars[0].aval
        parameters = (eqn.params["y"],) if eqn.primitive.name == "integer_pow" else ()
        if eqn.primitive.name == "round" and int(eqn.params["rounding_method"]) != 1:
            raise NotScalarError("round away from zero is no operation of scalars")
        result = np.empty(out.shape, object)
        spread = [np.broadcast_to(source, out.shape) for source in sources]
        operate, name = self.builder.operate, eqn.primitive.name
        for place in np.ndindex(*out.shape):
            entries = (source[place] for source in spread)
            result[place] = operate(name, out.dtype, *entries, parameters=parameters)
        return result

    def pairwise(self, operation: str, dtype, entries) -> Entry:
        """One entry of many, by an operation on two, from the first to the last."""
        first, *rest = entries
        for entry in rest:
            first = self.builder.operate(operation, dtype, first, entry)
        return first


def _known(const) -> Entries:
    if isinstance(const, np.ndarray) and const.dtype == object:
        return const
    return constant_entries(np.asarray(const))


def flat(arrays: list[Entries]) -> list[Entry]:
    """The entries of some arrays, one after another."""
    return [entry for array in arrays for entry in array.reshape(-1)]


def unflat(entries: list[Entry], avals) -> list[Entries]:
    """Arrays of these shapes from their entries."""
    arrays, at = [], 0
    for aval in avals:
        size = int(np.prod(aval.shape))
        array = np.empty(size, object)
        array[:] = entries[at : at + size]
        arrays.append(array.reshape(aval.shape))
        at += size
    return arrays


def flat_dtypes(avals) -> list[np.dtype]:
    """The dtypes of the entries of arrays."""
    return [np.dtype(aval.dtype) for aval in avals for _ in range(int(np.prod(aval.shape)))]


# ------------------------------------------------------------------------------ loops and branches


def _while(scalariser: Scalariser, eqn, *sources: Entries):
    params = eqn.params
    n_condition, n_body = params["cond_nconsts"], params["body_nconsts"]
    of_condition = list(sources[:n_condition])
    of_body = list(sources[n_condition : n_condition + n_body])
    carry = list(sources[n_condition + n_body :])
    avals = [variable.aval for variable in eqn.outvars]

    def condition(entries):
        arrays = unflat(entries, avals)
        return scalariser.closed(params["cond_jaxpr"], of_condition + arrays)[0][()]

    def body(entries):
        arrays = unflat(entries, avals)
        return flat(scalariser.closed(params["body_jaxpr"], of_body + arrays))

    dtypes = flat_dtypes(avals)
    entries = scalariser.builder.loop(id(eqn), flat(carry), dtypes, condition, body)
    return unflat(entries, avals)


def _cond(scalariser: Scalariser, eqn, index: Entries, *sources: Entries):
    arguments = list(sources)
    sides, avals = eqn.params["branches"], [variable.aval for variable in eqn.outvars]
    which = index[()]
    if is_constant(which):
        return scalariser.closed(sides[min(max(int(which), 0), len(sides) - 1)], arguments)

    def side(closed):
        return lambda: flat(scalariser.closed(closed, arguments))

    functions = [side(closed) for closed in sides]
    return unflat(scalariser.builder.branch(which, functions, flat_dtypes(avals)), avals)


def _scan(scalariser: Scalariser, eqn, *sources: Entries):
    """Turn by turn: scans of a lane are short."""
    params = eqn.params
    if "num_consts" in params:
        n_consts, n_carry = params["num_consts"], params["num_carry"]
    else:  # from JAX 0.11 on
        n_consts, n_carry, _ = (len(tuple(part)) for part in params["ft_in"].unpack())
    consts, carry = list(sources[:n_consts]), list(sources[n_consts : n_consts + n_carry])
    sequences = sources[n_consts + n_carry :]
    length = params["length"]
    if length > LONGEST_SCAN:
        raise NotScalarError(f"a scan of {length} turns is too long to be written out")
    order = range(length)
    outputs: list[list[Entries]] = [[] for _ in order]
    for k in reversed(order) if params["reverse"] else order:
        items = [np.asarray(sequence[k], object) for sequence in sequences]
        results = scalariser.closed(params["jaxpr"], consts + carry + items)
        carry, outputs[k] = results[:n_carry], results[n_carry:]
    avals = [variable.aval for variable in eqn.outvars[n_carry:]]
    stacked = [
        np.stack(list(column)) if length else np.empty(aval.shape, object)
        for column, aval in zip(zip(*outputs, strict=True), avals, strict=True)
    ]
    return carry + stacked


# A scan is written out turn by turn; more than so many would make a program too long.
LONGEST_SCAN = 64


# --------------------------------------------------------------------------------------- reductions


def _reduction(operation: str):
    def rule(scalariser: Scalariser, eqn, array: Entries):
        axes = eqn.params["axes"]
        kept = [axis for axis in range(array.ndim) if axis not in axes]
        shape = [array.shape[axis] for axis in kept]
        n = int(np.prod([array.shape[axis] for axis in axes]))
        rows = np.transpose(array, [*kept, *axes]).reshape(*shape, n)
        dtype, result = eqn.outvars[0].aval.dtype, np.empty(shape, object)
        for place in np.ndindex(*shape):
            entries = rows[place] if n else [_neutral(operation, dtype)]
            result[place] = scalariser.pairwise(operation, dtype, entries)
        return [result]

    return rule


def _neutral(operation: str, dtype) -> np.generic:
    """The result of a reduction of nothing."""
    dtype = np.dtype(dtype)
    if operation in ("max", "min"):
        limits = np.iinfo if np.issubdtype(dtype, np.integer) else np.finfo
        least, most = limits(dtype).min, limits(dtype).max
        if np.issubdtype(dtype, np.floating):
            least, most = -np.inf, np.inf
        return dtype.type(least if operation == "max" else most)
    return dtype.type(operation in ("mul", "and"))


def _cumulative(operation: str):
    def rule(scalariser: Scalariser, eqn, array: Entries):
        axis, reverse = eqn.params["axis"], eqn.params["reverse"]
        rows = np.moveaxis(array, axis, 0).copy()
        rows = rows[::-1].copy() if reverse else rows
        operate, dtype = scalariser.builder.operate, eqn.outvars[0].aval.dtype
        for k in range(1, rows.shape[0]):
            for place in np.ndindex(*rows.shape[1:]):
                entries = rows[(k - 1, *place)], rows[(k, *place)]
                rows[(k, *place)] = operate(operation, dtype, *entries)
        return [np.moveaxis(rows[::-1] if reverse else rows, 0, axis)]

    return rule


def _place_of_extreme(comparison: str):
    def rule(scalariser: Scalariser, eqn, array: Entries):
        builder, (axis,) = scalariser.builder, eqn.params["axes"]
        dtype, of = np.dtype(eqn.params["index_dtype"]), eqn.invars[0].aval.dtype
        rows = np.moveaxis(array, axis, -1)
        result = np.empty(rows.shape[:-1], object)
        for place in np.ndindex(*result.shape):
            best, at = rows[place][0], dtype.type(0)
            for k, entry in enumerate(rows[place][1:], start=1):
                # As XLA does, NaN is taken for the extreme, the first of several.
                better = builder.operate(comparison, bool, entry, best)
                if np.issubdtype(of, np.floating):
                    wrong = builder.operate("ne", bool, entry, entry)
                    right = builder.operate("eq", bool, best, best)
                    wrong = builder.operate("and", bool, wrong, right)
                    better = builder.operate("or", bool, better, wrong)
                best = builder.select(better, best, entry, of)
                at = builder.select(better, at, dtype.type(k), dtype)
            result[place] = at
        return [result]

    return rule


def _dot(scalariser: Scalariser, eqn, a: Entries, b: Entries):
    (of_a, of_b), (batch_a, batch_b) = eqn.params["dimension_numbers"]
    free_a = [axis for axis in range(a.ndim) if axis not in (*of_a, *batch_a)]
    free_b = [axis for axis in range(b.ndim) if axis not in (*of_b, *batch_b)]
    a = np.transpose(a, [*batch_a, *free_a, *of_a])
    b = np.transpose(b, [*batch_b, *free_b, *of_b])
    n, n_a = len(batch_a), len(free_a)
    shape, dtype = eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype
    operate, result = scalariser.builder.operate, np.empty(shape, object)
    for place in np.ndindex(*shape):
        left = a[place[:n] + place[n : n + n_a]].reshape(-1)
        right = b[place[:n] + place[n + n_a :]].reshape(-1)
        products = [operate("mul", dtype, x, y) for x, y in zip(left, right, strict=True)]
        result[place] = scalariser.pairwise("add", dtype, products)
    return [result]


# What calls a function that is written out, by the names that JAX has had for it.
CALLS = {
    *("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2"),
    *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_vmap_call"),
}
RULES = {
    "reduce_sum": _reduction("add"),
    "reduce_prod": _reduction("mul"),
    "reduce_max": _reduction("max"),
    "reduce_min": _reduction("min"),
    "reduce_and": _reduction("and"),
    "reduce_or": _reduction("or"),
    "cumsum": _cumulative("add"),
    "cumprod": _cumulative("mul"),
    "cummax": _cumulative("max"),
    "cummin": _cumulative("min"),
    "argmin": _place_of_extreme("lt"),
    "argmax": _place_of_extreme("gt"),
    "dot_general": _dot,
    "while": _while,
    "cond": _cond,
    "scan": _scan,
}
