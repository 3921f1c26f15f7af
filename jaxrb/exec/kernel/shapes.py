"""Operations that only move entries of arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def constant_entries(array: np.ndarray) -> np.ndarray:
    """An array of constants as one of entries."""
    entries = np.empty(array.shape, object)
    for place in np.ndindex(*array.shape):
        entries[place] = array[place] if array.ndim else array[()]
    return entries


def _shaped(eqn, a, *_):
    return [a.reshape(eqn.outvars[0].aval.shape)]


def _same(eqn, *arrays):
    return list(arrays)


def _broadcast(eqn, a, *_):
    shape = [1] * len(eqn.params["shape"])
    for axis, size in zip(eqn.params["broadcast_dimensions"], a.shape, strict=True):
        shape[axis] = size
    return [np.broadcast_to(a.reshape(shape), eqn.params["shape"])]


def _slice(eqn, a):
    p = eqn.params
    strides = p["strides"] or (1,) * a.ndim
    bounds = zip(p["start_indices"], p["limit_indices"], strides, strict=True)
    return [a[tuple(slice(*bound) for bound in bounds)]]


def _split(eqn, a):
    return list(np.split(a, np.cumsum(eqn.params["sizes"])[:-1], axis=eqn.params["axis"]))


def _unstack(eqn, a):
    parts = np.moveaxis(a, eqn.params["axis"], 0)
    return [np.asarray(part, object) for part in parts]


def _pad(eqn, a, filling):
    result = np.empty(eqn.outvars[0].aval.shape, object)
    result.fill(filling[()])
    for place in np.ndindex(*a.shape):
        padding = zip(place, eqn.params["padding_config"], strict=True)
        target = tuple(low + k * (inner + 1) for k, (low, _, inner) in padding)
        if all(0 <= k < size for k, size in zip(target, result.shape, strict=True)):
            result[target] = a[place]
    return [result]


def _iota(eqn):
    p = eqn.params
    axis = p["dimension"]
    numbers = np.arange(p["shape"][axis]).astype(p["dtype"])
    numbers = numbers.reshape([-1 if k == axis else 1 for k in range(len(p["shape"]))])
    return [constant_entries(np.broadcast_to(numbers, p["shape"]))]


SHAPE_RULES: dict[str, Callable] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _shaped,
    "squeeze": _shaped,
    "expand_dims": _shaped,
    "transpose": lambda eqn, a: [np.transpose(a, eqn.params["permutation"])],
    "rev": lambda eqn, a: [np.flip(a, eqn.params["dimensions"])],
    "slice": _slice,
    "concatenate": lambda eqn, *a: [np.concatenate(a, axis=eqn.params["dimension"])],
    "stack": lambda eqn, *a: [np.stack(a, axis=eqn.params["axis"])],
    "unstack": _unstack,
    "split": _split,
    "pad": _pad,
    "iota": _iota,
    "copy": _same,
    "copy_p": _same,
    "optimization_barrier": _same,
    "name": _same,
    "stop_gradient": _same,
    "sharding_constraint": _same,
    "reduce_precision": _same,
}
