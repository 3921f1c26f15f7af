"""How objects print: small numbers in digits, large or traced ones as dtype and shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

from ._hosts import spans_processes

# Arrays of more rows, or longer ones, are not written out: their dtype and shape say more.
MOST_ROWS, MOST_COLUMNS = 4, 6


def described(describe: Callable[[Any], str], thing: Any) -> str:
    """Its description; of a tree that holds no numbers, as filters and maps make them, what kind
    it is."""
    try:
        return describe(thing)
    except (AttributeError, TypeError, ValueError):  # a repr must not raise
        return f"{type(thing).__name__}({jax.tree.structure(thing).num_leaves} leaves)"


def readable(thing: Any) -> str:
    """A tree of modules as the call that would make it, with its numbers; for `__repr__`."""
    return eqx.tree_pformat(jax.tree.map(_Leaf, thing), width=100)


def numbers(array: Any) -> str:
    """An array of numbers: to six digits if it is small and known, else its dtype and shape."""
    if isinstance(array, Tracer | jax.ShapeDtypeStruct) or spans_processes(array):
        return eqx.tree_pformat(array, struct_as_array=True)
    values = np.asarray(array)
    columns = values.shape[-1] if values.ndim else 1
    if (
        values.dtype.kind not in "biuf"
        or values.size > columns * MOST_ROWS
        or columns > MOST_COLUMNS
    ):
        return eqx.tree_pformat(array)
    return _nested(values)


def _nested(values: np.ndarray) -> str:
    if values.ndim:
        return f"[{', '.join(map(_nested, values))}]"
    # Without the sign of a zero, which tells nothing.
    return f"{values + 0.0:.6g}" if values.dtype.kind == "f" else f"{values}"


class _Leaf:
    """Stands for a leaf of a tree that is printed."""

    def __init__(self, leaf: Any):
        self._leaf = leaf

    def __repr__(self) -> str:
        return numbers(self._leaf)
