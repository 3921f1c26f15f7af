"""Trees of one form, treated together: a program is then no longer for many than for one."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def alike(trees: Sequence[Any]) -> list[list[int]]:
    """The numbers of trees with one structure and arrays of the same shapes, in groups."""
    groups: dict[tuple, list[int]] = {}
    for number, tree in enumerate(trees):
        leaves, structure = jax.tree.flatten(tree)
        groups.setdefault((structure, *map(jnp.shape, leaves)), []).append(number)
    return list(groups.values())


def stacked_results(function: Callable[[Any], Any], trees: Sequence[Any]) -> Any:
    """What a function gives of each of some trees that are alike, in leaves with a leading axis."""
    if len(trees) == 1:
        return jax.tree.map(lambda leaf: leaf[None], function(trees[0]))
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
    return jax.vmap(function)(together)
