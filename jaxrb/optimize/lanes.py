"""Programs over lanes whose number compiles nothing anew."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..exec.parallel import in_parallel


def in_lanes(program: Callable, shared: Any, lanes: Any, *, size: int, **options: Hashable) -> Any:
    """program(shared, lanes, **options), on all cores or devices.

    Args:
        program: jitted, with static options; each lane of its result depends on `shared` and on
            the same lane of `lanes` alone.
        shared: a tree of arrays.
        lanes: a tree of arrays with a leading axis; the last lane fills it up to a multiple of
            the size.
        size: number of lanes that a core takes at once.
        options: of the program.

    Returns:
        What the program does, of the given lanes, in arrays of NumPy.
    """
    n_lanes = len(jax.tree.leaves(lanes)[0])
    missing = -n_lanes % size

    # By NumPy, as JAX compiles each of these few operations anew for every number of lanes.
    def filled(leaf):
        leaf = np.asarray(leaf)
        return np.concatenate([leaf, np.repeat(leaf[-1:], missing, 0)]) if missing else leaf

    found = in_parallel(
        program,
        _strong(shared, lanes),
        jax.tree.map(filled, lanes),
        options=options,
        devices=jax.local_devices(),
        chunk=size,
    )
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:n_lanes], found)


def _strong(shared: Any, lanes: Any) -> Any:
    """Shared numbers without a precision of their own, in that of the lanes: a world made of
    Python's numbers and the same world after a fit share a program then."""
    floats = [leaf for leaf in jax.tree.leaves(lanes) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    dtype = jnp.result_type(*floats)

    def strong(leaf):
        weak = getattr(leaf, "weak_type", False) and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(leaf, dtype) if weak else leaf

    return jax.tree.map(strong, shared)
