"""What the families of three successive angles share."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Quat, Vec3
from .checks import vectors


def split(a: Float[Array, "... 3"]) -> list[Float[Array, "..."]]:
    """The three angles."""
    array = vectors(a, "a", 3)
    return [array[..., 0], array[..., 1], array[..., 2]]


def turn(axis: int, angle: Float[Array, "..."]) -> Quat:
    """The quaternion of a rotation about coordinate axis 1, 2 or 3, from body to world."""
    sine = jnp.sin(angle / 2)
    return Quat(jnp.cos(angle / 2), Vec3(*(sine if axis == k else 0.0 for k in (1, 2, 3))))


def matrix(rows: list[list]) -> Float[Array, "... 3 3"]:
    """An array of shape (..., 3, 3) from its entries, numbers among them."""
    flat = jnp.broadcast_arrays(*(entry for row in rows for entry in row))
    return jnp.stack(flat, axis=-1).reshape(*flat[0].shape, 3, 3)


def aligned(first: Float[Array, "..."], second: Float[Array, "..."]) -> Float[Array, "..."]:
    """Whether two entries of a rotation matrix are zero to round-off.

    The outer axes of rotation coincide there: one of their angles is set to zero, so that
    values are definite and derivatives finite.
    """
    return first * first + second * second <= (4 * jnp.finfo(first.dtype).eps) ** 2
