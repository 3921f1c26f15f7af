"""Checks of user input shared by the public constructors.

Numbers that are known when an object is built are checked at once; traced ones cannot be,
and are checked when the simulation starts, where they yield a result code.
"""

import math
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float

Solved = TypeVar("Solved", bound=Any)


def real_array(value: Any, name: str, shape: tuple[int, ...] | None = None) -> Float[Array, "..."]:
    """`value` as a floating-point array, of the given shape if one is given.

    Raises:
        ValueError: naming the argument, if it is not real numbers of that shape.
    """
    try:
        array = _array(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of real numbers; got {value!r}.") from error
    if jnp.issubdtype(array.dtype, jnp.integer) or array.dtype == bool:
        array = array.astype(jnp.result_type(float))
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise ValueError(f"{name} must be real; got dtype {array.dtype}.")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}; got {array.shape}.")
    return array


def _array(value: Any) -> Array:
    """As an array; numbers that are known stay so inside of jit, and can be checked there."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value)):
        return jnp.asarray(value)
    with jax.ensure_compile_time_eval():
        return jnp.asarray(value)


def known(array: Any) -> np.ndarray | None:
    """The numbers of an array, or None while it is traced."""
    return None if isinstance(array, Tracer) else np.asarray(array)


def require(array: Any, name: str, predicate: Any, expected: str) -> None:
    """Raises `ValueError` unless `predicate` holds for all known numbers of `array`."""
    numbers = known(array)
    if numbers is not None and not np.all(predicate(numbers)):
        raise ValueError(f"{name} must be {expected}; got {numbers.tolist()}.")


def require_positive(array: Any, name: str) -> None:
    """Raises `ValueError` unless all known numbers of `array` are positive and finite."""
    require(array, name, lambda a: np.isfinite(a) & (a > 0), "positive and finite")


def nonnegative(value: Any, name: str) -> Float[Array, ""]:
    """`value` as a scalar; raises `ValueError` unless, if known, it is finite and at least 0."""
    number = real_array(value, name, ())
    require(number, name, lambda a: np.isfinite(a) & (a >= 0), "finite and at least 0")
    return number


def raise_inside(solution: Solved, failed: Bool[Array, "..."]) -> Solved:
    """A traced solution that, when its program runs, raises the reason in its `result` if it
    `failed` anywhere.

    Also in a program that returns its derivatives alone: these depend on the check by a factor
    of one, without which it would be left out as unused.
    """
    solution, one = solution.result.error_if((solution, jnp.ones(())), failed)

    def checked(leaf):
        inexact = jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)
        return leaf * one.astype(leaf.dtype) if inexact else leaf

    return jax.tree.map(checked, solution)


def finite_number(value: Any, name: str) -> float:
    """`value` as a Python number.

    Raises:
        ValueError: naming the argument, if it is traced, no number, or not finite.
    """
    try:
        number = float(value)
    except Exception as error:  # traced, or no number
        raise ValueError(
            f"{name} must be a number, known or traced by JAX; got {value!r}."
        ) from error
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite; got {number}.")
    return number


def positive_number(value: Any, name: str) -> float:
    """`finite_number` that must be positive."""
    number = finite_number(value, name)
    if number <= 0:
        raise ValueError(f"{name} must be positive; got {number}.")
    return number


def nonnegative_number(value: Any, name: str) -> float:
    """`finite_number` that must not be negative."""
    number = finite_number(value, name)
    if number < 0:
        raise ValueError(f"{name} must not be negative; got {number}.")
    return number


def positive_count(value: Any, name: str) -> int:
    """`value` as a Python integer of at least 1; raises `ValueError` otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name} must be a positive whole number; got {value!r}.")
    return int(value)


def body_index(value: Any, name: str, of: str = "a body") -> int:
    """`value` as the index of a body or other thing; raises `ValueError` if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise ValueError(f"{name} must be the index of {of}, 0 or more; got {value!r}.")
    return int(value)


def one_of(value: Any, allowed: tuple[str | None, ...], name: str) -> Any:
    """`value`, if it is allowed; raises `ValueError` otherwise."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}.")
    return value


def true_or_false(value: Any, name: str) -> bool:
    """`value` as a bool; raises `ValueError` if it is anything else."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def step_size(value: Any) -> float | Float[Array, ""]:
    """`value` as a Python number if it is known, else as it is traced; positive.

    Raises:
        ValueError: if it is no single number, or known and not positive.
    """
    if isinstance(value, Tracer):
        return real_array(value, "dt", ())
    return positive_number(value, "dt")


def time_number(value: Any, name: str) -> float | Float[Array, ""]:
    """`value` as a finite Python number if it is known, else as it is traced.

    Raises:
        ValueError: naming the argument, if it is no single finite number.
    """
    if isinstance(value, Tracer):
        return real_array(value, name, ())
    return finite_number(value, name)
