"""Work that a batch rarely needs.

Under `vmap`, `lax.cond` evaluates both branches for every lane, unless its predicate is the same
for all. Whether any lane of the batch needs some work is.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool

from .vec import tree_where


@custom_vmap
def any_of_batch(needed: Bool[Array, ""]) -> Bool[Array, ""]:
    """Whether it holds in any lane, however many `vmap`s there are around it."""
    return needed


@any_of_batch.def_vmap
def _(_, batched, needed):
    return any_of_batch(jnp.any(needed, axis=0) if batched[0] else needed), False


def if_any(needed: Bool[Array, ""], function: Callable, otherwise: Callable, *arguments) -> Any:
    """One of two functions, for the whole batch: the second if no lane needs the first.

    Both must give the same for a lane that does not need the first.
    """
    return jax.lax.cond(any_of_batch(needed), function, otherwise, *arguments)


def where_any(needed: Bool[Array, ""], function: Callable, *arguments) -> Any:
    """What a function gives where it is needed, zeros elsewhere."""

    def nothing(*arguments):
        like = jax.eval_shape(function, *arguments)
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)

    def masked(*arguments):
        return tree_where(needed, function(*arguments), nothing(*arguments))

    return if_any(needed, masked, nothing, *arguments)
