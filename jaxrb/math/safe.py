"""Elementary functions whose derivatives stay finite where the plain ones do not.

`where` hides a NaN value but not its gradient: the argument is made safe before the
function sees it, and the wanted value is chosen after.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def safe_sqrt(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """sqrt(x) for x >= 0, with derivative 0 (not infinity) at x = 0."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


def safe_divide(
    numerator: Float[Array, "..."],
    denominator: Float[Array, "..."],
    otherwise: float = 0.0,
) -> Float[Array, "..."]:
    """numerator / denominator, and `otherwise` (a constant) where the denominator is 0."""
    regular = denominator != 0
    return jnp.where(regular, numerator / jnp.where(regular, denominator, 1.0), otherwise)
