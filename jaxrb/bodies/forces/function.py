"""Functions of users within loads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree


class Function(eqx.Module):
    """A function as a part of a load, called with the arguments of `simulate` last.

    Attributes:
        numbers, rest: the function, its arrays apart. If it is an `equinox.Module`, the arrays
            it holds can be differentiated; those over which a plain function closes are
            constants.
    """

    numbers: PyTree[Array]
    rest: Any = eqx.field(static=True)

    def __init__(self, function: Callable):
        convert = lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf  # noqa: E731
        self.numbers, self.rest = eqx.partition(jax.tree.map(convert, function), eqx.is_array)

    def __call__(self, *arguments: Any) -> Any:
        function = eqx.combine(self.numbers, self.rest)
        try:
            return function(*arguments)
        except (TypeError, AttributeError, ValueError) as error:
            if arguments[-1] is None:
                error.add_note(
                    "args of simulate is None: a function that needs them gets them by "
                    "simulate(..., args=...)."
                )
            raise


def kind(found: Any) -> str:
    """What a function returned in place of several arrays, for messages."""
    shape = getattr(found, "shape", None)
    if shape is not None:
        return f"one array of shape {shape}"
    if isinstance(found, tuple | list):
        return f"a {type(found).__name__} of length {len(found)}"
    return repr(found)
