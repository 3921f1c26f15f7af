"""Entries at indices: known ones are looked up, others are choices among all they can be."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from jax.lax import GatherScatterMode

from .values import Builder, Entry, is_constant

Entries = np.ndarray  # of dtype object


def _fills(mode) -> bool:
    return mode == GatherScatterMode.FILL_OR_DROP


def _bounded(builder: Builder, index: Entry, last: int, dtype) -> Entry:
    low, high = np.dtype(dtype).type(0), np.dtype(dtype).type(last)
    return builder.operate("clamp", dtype, low, index, high)


def _inside(builder: Builder, index: Entry, last: int, dtype) -> Entry:
    low, high = np.dtype(dtype).type(0), np.dtype(dtype).type(last)
    above = builder.operate("ge", bool, index, low)
    below = builder.operate("le", bool, index, high)
    return builder.operate("and", bool, above, below)


def _at(
    builder: Builder, array: Entries, starts: Sequence[tuple[Entry, int]], offset, dtype, of
) -> Entry:
    """The entry of an array at some starts, each with the last it can be, plus an offset."""
    places = []
    for start, last in starts:
        places.append([int(start)] if is_constant(start) else list(range(last + 1)))
    chosen = None
    for place in itertools.product(*places):
        entry = array[tuple(k + o for k, o in zip(place, offset, strict=True))]
        if chosen is None:
            chosen = entry
            continue
        here: Entry = np.bool_(True)
        for (start, _), k in zip(starts, place, strict=True):
            if not is_constant(start):
                equal = builder.operate("eq", bool, start, np.dtype(of).type(k))
                here = builder.operate("and", bool, here, equal)
        chosen = builder.select(here, chosen, entry, dtype)
    return chosen


def _dynamic_slice(builder: Builder, eqn, array: Entries, *starts: Entries):
    sizes, of = eqn.params["slice_sizes"], [v.aval.dtype for v in eqn.invars[1:]]
    lasts = [n - size for n, size in zip(array.shape, sizes, strict=True)]
    begins = [
        (_bounded(builder, start[()], last, dtype), last)
        for start, last, dtype in zip(starts, lasts, of, strict=True)
    ]
    result = np.empty(sizes, object)
    for place in np.ndindex(*sizes):
        index_dtype = of[0] if of else np.int32
        result[place] = _at(builder, array, begins, place, eqn.outvars[0].aval.dtype, index_dtype)
    return [result]


def _dynamic_update_slice(builder: Builder, eqn, array: Entries, update: Entries, *starts: Entries):
    of = [v.aval.dtype for v in eqn.invars[2:]]
    dtype = eqn.outvars[0].aval.dtype
    begins = []
    for start, n, size, index_dtype in zip(starts, array.shape, update.shape, of, strict=True):
        begins.append((_bounded(builder, start[()], n - size, index_dtype), n - size))
    result = array.copy()
    places = [[int(b)] if is_constant(b) else list(range(last + 1)) for b, last in begins]
    for place in itertools.product(*places):
        here: Entry = np.bool_(True)
        for (begin, _), k, index_dtype in zip(begins, place, of, strict=True):
            if not is_constant(begin):
                equal = builder.operate("eq", bool, begin, np.dtype(index_dtype).type(k))
                here = builder.operate("and", bool, here, equal)
        for offset in np.ndindex(*update.shape):
            target = tuple(k + o for k, o in zip(place, offset, strict=True))
            result[target] = builder.select(here, result[target], update[offset], dtype)
    return [result]


def _gather(builder: Builder, eqn, array: Entries, indices: Entries):
    p, out = eqn.params, eqn.outvars[0].aval
    numbers, sizes = p["dimension_numbers"], p["slice_sizes"]
    of = eqn.invars[1].aval.dtype
    collapsed = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    kept = [axis for axis in range(array.ndim) if axis not in collapsed]
    batch_axes = [axis for axis in range(len(out.shape)) if axis not in numbers.offset_dims]
    result = np.empty(out.shape, object)
    for place in np.ndindex(*out.shape):
        batch = tuple(place[axis] for axis in batch_axes)
        offset = [0] * array.ndim
        for axis, at in zip(kept, numbers.offset_dims, strict=True):
            offset[axis] = place[at]
        starts: list[Entry] = [np.dtype(of).type(0)] * array.ndim
        for axis, component in zip(numbers.start_index_map, indices[batch], strict=True):
            starts[axis] = component
        batching = zip(
            numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
        )
        for axis, at in batching:
            starts[axis] = np.dtype(of).type(batch[at])
        lasts = [n - size for n, size in zip(array.shape, sizes, strict=True)]
        inside: Entry = np.bool_(True)
        if _fills(p["mode"]):
            for start, last in zip(starts, lasts, strict=True):
                within = _inside(builder, start, last, of)
                inside = builder.operate("and", bool, inside, within)
        begins = [
            (_bounded(builder, start, last, of), last)
            for start, last in zip(starts, lasts, strict=True)
        ]
        found = _at(builder, array, begins, offset, out.dtype, of)
        if not (is_constant(inside) and inside):
            filling = _filling(p.get("fill_value"), out.dtype)
            found = builder.select(inside, filling, found, out.dtype)
        result[place] = found
    return [result]


def _filling(value, dtype):
    """What stands for entries that are not there."""
    dtype = np.dtype(dtype)
    if value is not None:
        return dtype.type(value)
    if np.issubdtype(dtype, np.floating):
        return dtype.type(np.nan)
    return dtype.type(np.iinfo(dtype).min) if np.issubdtype(dtype, np.integer) else dtype.type(True)


def _scatter(operation: str | None):
    """Updates at indices, one after another; those beyond the array are left out."""

    def rule(builder: Builder, eqn, array: Entries, indices: Entries, updates: Entries):
        p, dtype = eqn.params, eqn.outvars[0].aval.dtype
        numbers, of = p["dimension_numbers"], np.dtype(eqn.invars[1].aval.dtype)
        inserted = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        kept = [axis for axis in range(array.ndim) if axis not in inserted]
        scatter_axes = [a for a in range(updates.ndim) if a not in numbers.update_window_dims]
        window = [1] * array.ndim
        for axis, at in zip(kept, numbers.update_window_dims, strict=True):
            window[axis] = updates.shape[at]
        lasts = [n - size for n, size in zip(array.shape, window, strict=True)]
        result = array.copy()
        for place in np.ndindex(*updates.shape):
            batch = tuple(place[axis] for axis in scatter_axes)
            offset = [0] * array.ndim
            for axis, at in zip(kept, numbers.update_window_dims, strict=True):
                offset[axis] = place[at]
            starts: list[Entry] = [of.type(0)] * array.ndim
            for axis, component in zip(
                numbers.scatter_dims_to_operand_dims, indices[batch], strict=True
            ):
                starts[axis] = component
            for axis, at in zip(
                numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True
            ):
                starts[axis] = of.type(batch[at])
            if p["mode"] == GatherScatterMode.CLIP:
                starts = [
                    _bounded(builder, start, last, of)
                    for start, last in zip(starts, lasts, strict=True)
                ]
            _update(builder, result, starts, lasts, offset, updates[place], operation, dtype, of)
        return [result]

    return rule


def _update(builder, result, starts, lasts, offset, update, operation, dtype, of) -> None:
    """Writes one entry into an array, at some starts plus an offset."""
    places = []
    for start, last in zip(starts, lasts, strict=True):
        known = [int(start)] if is_constant(start) else list(range(last + 1))
        places.append([k for k in known if 0 <= k <= last])
    for place in itertools.product(*places):
        here: Entry = np.bool_(True)
        for start, k in zip(starts, place, strict=True):
            if not is_constant(start):
                equal = builder.operate("eq", bool, start, of.type(k))
                here = builder.operate("and", bool, here, equal)
        target = tuple(k + o for k, o in zip(place, offset, strict=True))
        new = update
        if operation is not None:
            new = builder.operate(operation, dtype, result[target], update)
        result[target] = builder.select(here, result[target], new, dtype)


_COMBINED = ("add", "sub", "mul", "min", "max")
INDEX_RULES = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter(None),
    # JAX has written them with a hyphen and without.
    **{f"scatter{mark}{name}": _scatter(name) for mark in "-_" for name in _COMBINED},
}
