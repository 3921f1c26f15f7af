"""One turn of a safeguarded root search, for use inside a flat loop."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def next_trial(
    newton: Float[Array, ""],
    lower: Float[Array, ""],
    upper: Float[Array, ""],
    resolution: Float[Array, ""],
    turn: Int[Array, ""],
) -> Float[Array, ""]:
    """The next point to try in the bracket (lower, upper).

    Newton's prediction where it falls inside. Where it does not, the root is either next to
    the lower end (contact right at the start of the segment: tried first, as it then ends
    the search at once) or Newton is of no use and the bracket is halved: the two alternate,
    so the bracket shrinks to `resolution` in a bounded number of turns. After a dozen turns
    every second trial is a bisection, whatever Newton says.

    Args:
        newton: predicted root; may be infinite, must not be NaN.
        lower: end with the sign sought to keep.
        upper: end with the other sign.
        resolution: smallest distance to an end worth trying.
        turn: number of trials so far in this search.
    """
    inside: Bool[Array, ""] = (newton > lower + resolution) & (newton < upper - resolution)
    odd = turn % 2 == 1
    halve = (~inside & ((newton >= upper) | odd)) | ((turn > 12) & odd)
    middle = lower + 0.5 * (upper - lower)
    edge = jnp.clip(newton, lower + resolution, jnp.maximum(lower + resolution, upper - resolution))
    return jnp.where(halve, middle, edge)
