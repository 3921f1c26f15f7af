"""Arrays that are spread over several processes, each of which holds a part of their numbers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


def spans_processes(tree: Any) -> bool:
    """Whether some arrays of a tree have numbers that this process does not hold."""
    return any(
        isinstance(leaf, jax.Array)
        and not isinstance(leaf, Tracer)
        and not (leaf.is_fully_addressable or leaf.is_fully_replicated)
        for leaf in jax.tree.leaves(tree)
    )


def held_here(array: Any) -> np.ndarray:
    """The numbers of an array, or those along its first axis that this process holds.

    It communicates with nobody: one process alone may call it.
    """
    if not spans_processes(array):
        return np.asarray(array)
    # Devices may hold copies of the same rows.
    pieces = {(piece.index[0].start or 0): piece.data for piece in array.addressable_shards}
    return np.concatenate([np.asarray(pieces[start]) for start in sorted(pieces)])


def first_of(mask: Any) -> tuple[int, int] | None:
    """How many entries of a mask are True, and which is the first of them, counted through all
    axes; None if none is.

    Of a mask that spans processes all of them must ask, and all get the same answer: the devices
    reduce it to single numbers, of which each process has a copy.
    """
    xp = np if isinstance(mask, np.ndarray | np.bool_) else jnp
    if not bool(xp.any(mask)):
        return None
    return int(xp.sum(mask)), int(xp.argmax(xp.ravel(mask)))


def entry(tree: Any, index: int) -> Any:
    """One entry of all arrays of a tree, which hold whole numbers, counted through all axes.

    Of arrays that span processes all must ask for it, as with `first_of`.
    """

    def one(leaf):
        flat = jnp.ravel(leaf)
        # A sum, as which device has the entry may be for the compiler alone to know.
        return jnp.sum(jnp.where(jnp.arange(flat.size) == index, flat, 0), dtype=flat.dtype)

    return jax.tree.map(one, tree)
