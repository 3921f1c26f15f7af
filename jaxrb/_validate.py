"""Checks of user input shared by the public constructors.

Numbers that are known when an object is built are checked at once; traced ones cannot be,
and are checked when the simulation starts, where they yield a result code.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float


def real_array(value: Any, name: str, shape: tuple[int, ...] | None = None) -> Float[Array, "..."]:
    """`value` as a floating-point array, of the given shape if one is given.

    Raises:
        ValueError: naming the argument, if it is not real numbers of that shape.
    """
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of real numbers; got {value!r}.") from error
    if jnp.issubdtype(array.dtype, jnp.integer) or array.dtype == bool:
        array = array.astype(jnp.result_type(float))
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise ValueError(f"{name} must be real; got dtype {array.dtype}.")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}; got {array.shape}.")
    return array


def known(array: Any) -> np.ndarray | None:
    """The numbers of an array, or None while it is traced."""
    return None if isinstance(array, Tracer) else np.asarray(array)


def require(array: Any, name: str, predicate: Any, expected: str) -> None:
    """Raises `ValueError` unless `predicate` holds for all known numbers of `array`."""
    numbers = known(array)
    if numbers is not None and not np.all(predicate(numbers)):
        raise ValueError(f"{name} must be {expected}; got {numbers.tolist()}.")


def require_positive(array: Any, name: str) -> None:
    require(array, name, lambda a: np.isfinite(a) & (a > 0), "positive and finite")
