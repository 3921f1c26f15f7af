"""Functions of users as parts of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array


class UserFunction(eqx.Module):
    """A function whose arrays are numbers of a program.

    Equal functions with other arrays are equal to a compiler, also of `jax.tree_util.Partial`,
    which is compared by what it calls. Arrays over which a plain function closes are constants.

    Attributes:
        numbers: its arrays.
        rest: its other leaves, None in place of arrays.
        structure: how they make the function.
    """

    numbers: tuple[Array | None, ...]
    rest: tuple = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    def __init__(self, function: Callable):
        leaves, self.structure = jax.tree.flatten(function)
        arrays = [eqx.is_array(leaf) or isinstance(leaf, np.ndarray) for leaf in leaves]
        pairs = list(zip(leaves, arrays, strict=True))
        self.numbers = tuple(leaf if is_array else None for leaf, is_array in pairs)
        self.rest = tuple(None if is_array else leaf for leaf, is_array in pairs)

    def __call__(self, *arguments: Any) -> Any:
        pairs = zip(self.numbers, self.rest, strict=True)
        leaves = [rest if number is None else number for number, rest in pairs]
        return jax.tree.unflatten(self.structure, leaves)(*arguments)
