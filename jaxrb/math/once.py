"""Decisions that XLA computes once."""

import jax.numpy as jnp
from jaxtyping import Array, Bool


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
