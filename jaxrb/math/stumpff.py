"""Stumpff's functions: the smooth coefficients in exponentials of rotations."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

# For x < 1 this many terms of the series leave out less than 1e-18 of the sum.
_TERMS = 10


def stumpff(order: int, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """c_n(x), the sum over k of (-x)^k / (2k + n)!, for n = `order` from 0 to 3 and x >= 0.

    With t = sqrt(x) they are cos t, sin(t)/t, (1 - cos t)/t^2 and (t - sin t)/t^3. As
    functions of x they are smooth at zero, and so are all derivatives of what is built on
    them. The series serves for t < 1, where the quotients would lose digits.
    """
    near = x < 1
    series = stumpff_series(order, jnp.where(near, x, 0.0))
    return jnp.where(near, series, _quotient(order, jnp.where(near, 1.0, x)))


def stumpff_series(order: int, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The same for 0 <= x < 1 only, where it is a polynomial to round-off."""
    series = jnp.full_like(x, 1 / math.factorial(2 * _TERMS + order))
    for k in reversed(range(_TERMS)):
        series = 1 / math.factorial(2 * k + order) - x * series
    return series


def _quotient(order: int, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The same for x >= 1, from sines and cosines."""
    t = jnp.sqrt(x)
    if order == 0:
        return jnp.cos(t)
    if order == 1:
        return jnp.sin(t) / t
    if order == 2:
        # 1 - cos t would keep few digits next to a full turn.
        return 2 * jnp.sin(t / 2) ** 2 / x
    return (t - jnp.sin(t)) / (t * x)
