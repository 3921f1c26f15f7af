"""A few of many, chosen while a program runs."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


def first_that_hold(holds: Bool[Array, " n"], places: int) -> Int[Array, " places"]:
    """The numbers of the first entries that hold; 0 in empty places.

    By words of 32 entries, of which only so many sums are needed as there are words.
    """
    table = jnp.pad(holds, (0, -holds.size % 32)).reshape(-1, 32)
    bits = jnp.uint32(1) << jnp.arange(32, dtype=jnp.uint32)
    words = jnp.sum(jnp.where(table, bits[None], jnp.uint32(0)), axis=1, dtype=jnp.uint32)
    up_to = jnp.cumsum(jax.lax.population_count(words).astype(jnp.int32))
    rank = jnp.arange(1, places + 1, dtype=jnp.int32)
    index = jnp.searchsorted(up_to, rank).astype(jnp.int32)
    found = rank <= up_to[-1]
    index = jnp.where(found, index, 0)
    rank = rank - jnp.where(index > 0, up_to[index - 1], 0)
    word, place = words[index], jnp.zeros(places, jnp.uint32)
    for width in (16, 8, 4, 2, 1):
        half = (word >> place) & jnp.uint32((1 << width) - 1)
        below = jax.lax.population_count(half).astype(jnp.int32)
        beyond = rank > below
        rank = jnp.where(beyond, rank - below, rank)
        place = jnp.where(beyond, place + jnp.uint32(width), place)
    return jnp.where(found, 32 * index + place.astype(jnp.int32), 0)
