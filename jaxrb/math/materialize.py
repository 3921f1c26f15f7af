"""Decisions and numbers that XLA computes once."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def choose_once(*cases: Bool[Array, ""], dtype) -> tuple[Bool[Array, ""], ...]:
    """The same mutually exclusive conditions, computed in one kernel.

    On CPU, XLA fuses a cheap expression into every kernel that uses it, so the conditions on
    which a loop's carried arrays depend would be evaluated once per array. It does not do so
    across a square root: the index of the case passes through one (of its square).
    """
    square = jnp.zeros((), dtype)
    for index, case in enumerate(cases, start=1):
        square = jnp.where(case, jnp.asarray(index**2, dtype), square)
    chosen = jnp.sqrt(square)
    return tuple(
        (chosen > index - 0.5) & (chosen < index + 0.5) for index in range(1, len(cases) + 1)
    )


def opaque_one(count: Int[Array, ""], dtype) -> Float[Array, ""]:
    """The number 1, of which XLA does not know that it is.

    Args:
        count: of something, not negative.
        dtype: of the result.
    """
    return jnp.where(count >= 0, jnp.ones((), dtype), 0.5)


def compute_once(numbers: Any, one: Float[Array, ""] | None = None) -> Any:
    """Numbers as they are, computed once however many use them; and so are their derivatives.

    XLA on CPU computes what is cheap again in every kernel that uses it, divisions seldom: here
    each number is divided by a 1 of which XLA does not know that it is. Without such waists every
    number of a derivative would have a kernel that computes all it depends on, and programs would
    be a multiple as long. A waist pays after a number that needs many and that many need.

    Args:
        numbers: of any sign, infinite or NaN too. Leaves that are not floating stay as they are.
        one: the divisor, as `opaque_one`; of tangents, which may only be used linearly, it must be
            given. Left out, each number makes its own.
    """

    def of(leaf: Array) -> Array:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return leaf
        divisor = jnp.where(leaf < jnp.inf, jnp.ones_like(leaf), 0.5) if one is None else one
        return leaf / divisor.astype(leaf.dtype)

    return jax.tree.map(of, numbers)
