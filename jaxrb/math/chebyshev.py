"""Functions on [0, 1] by their values at Chebyshev points.

Arrays of values have shape (n_points, lanes): the points lead, so that the lanes fill the
vector units and every integral is one product with a constant matrix.
"""

from __future__ import annotations

from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Values = Float[Array, "n_points lanes"]


class ChebyshevGrid:
    """The Chebyshev points of the second kind of a given degree, both ends included."""

    def __init__(self, degree: int):
        self.degree = degree

    @cached_property
    def points(self) -> np.ndarray:
        """Ascending, in [-1, 1], shape (degree + 1,)."""
        return -np.cos(np.pi * np.arange(self.degree + 1) / self.degree)

    @cached_property
    def _to_coefficients(self) -> np.ndarray:
        return np.linalg.inv(np.polynomial.chebyshev.chebvander(self.points, self.degree))

    @cached_property
    def _to_integral(self) -> np.ndarray:
        series = np.polynomial.chebyshev.chebint(self._to_coefficients, lbnd=-1)
        return np.polynomial.chebyshev.chebval(self.points, series).T / 2

    @cached_property
    def _to_slope(self) -> np.ndarray:
        series = np.polynomial.chebyshev.chebder(self._to_coefficients)
        return np.polynomial.chebyshev.chebval(self.points, series).T

    def unit_points(self, like: Float[Array, " lanes"]) -> Float[Array, "n_points 1"]:
        """The points in [0, 1]."""
        return jnp.asarray((self.points + 1)[:, None] / 2, like.dtype)

    def last_coefficients(self, values: Values) -> Float[Array, " lanes"]:
        """The sum of the magnitudes of the last two, which tells how good the fit is."""
        last = jnp.asarray(self._to_coefficients[-2:], values.dtype) @ values
        return jnp.abs(last[0]) + jnp.abs(last[1])

    def integral(self, values: Values) -> Values:
        """From 0 to each point."""
        return jnp.asarray(self._to_integral, values.dtype) @ values

    def coefficients(self, values: Values) -> Values:
        """Of the Chebyshev polynomials."""
        return jnp.asarray(self._to_coefficients, values.dtype) @ values

    def interpolate(self, x: Float[Array, " lanes"], *functions: Values) -> list:
        """The values of functions at x in [-1, 1]."""
        return [_series(self.coefficients(values), x)[0] for values in functions]

    def first_crossing(self, values: Values) -> tuple[Array, Float[Array, " lanes"]]:
        """Whether and where, in [-1, 1], a function first becomes non-negative.

        It starts at or below 0. The place is 1 where it stays negative; its derivative is that
        of the implicit function theorem.
        """
        fixed = jax.lax.stop_gradient(values)
        positive = (fixed >= 0).at[0].set(False)
        found = jnp.any(positive, axis=0)
        after = jnp.where(found, jnp.argmax(positive, axis=0), self.degree)

        def at_both_ends(column):
            column = jnp.broadcast_to(column, values.shape)
            both = jnp.stack([after - 1, after])
            return jnp.take_along_axis(column, both, axis=0)

        points = jnp.asarray(self.points, values.dtype)[:, None]
        slopes = jnp.asarray(self._to_slope, values.dtype) @ fixed
        low, high = at_both_ends(points)
        guess = _inverse_cubic(low, high, *at_both_ends(fixed), *at_both_ends(slopes))
        root = _root(self.coefficients(values), guess, low, high)
        return found, jnp.where(found, root, 1.0)


def _inverse_cubic(low, high, below, above, slope_low, slope_high) -> Float[Array, " lanes"]:
    """Where a function vanishes, by Hermite's interpolation of its inverse."""
    rise = above - below
    rises = (rise > 0) & (slope_low > 0) & (slope_high > 0)
    safe = jnp.where(rises, rise, 1.0)
    t = jnp.clip(-below / safe, 0, 1)
    first = safe / jnp.where(rises, slope_low, 1.0) - (high - low)
    last = safe / jnp.where(rises, slope_high, 1.0) - (high - low)
    bend = t * (1 - t) * ((1 - t) * first - t * last)
    straight = low + (high - low) * t
    return jnp.clip(jnp.where(rises, straight + bend, (low + high) / 2), low, high)


@jax.custom_jvp
def _root(coefficients: Values, guess, low, high) -> Float[Array, " lanes"]:
    """Of a series between two points next to each other, where it is almost linear."""
    x = guess
    for _ in range(3):
        value, slope = _series(coefficients, x)
        x = jnp.clip(x - value / jnp.where(slope == 0, 1.0, slope), low, high)
    return x


@_root.defjvp
def _(primals, tangents):
    coefficients, *bracket = primals
    x = _root(coefficients, *bracket)
    _, slope = _series(coefficients, x)
    change, _ = _series(tangents[0], x)
    return x, -change / jnp.where(slope == 0, 1.0, slope)


def _series(coefficients: Values, x: Float[Array, " lanes"]):
    """A sum of Chebyshev polynomials and its derivative, by Clenshaw's recurrence.

    Row by row: lanes fill the vector units, which a reduction over the rows would not.
    """
    one = two = slope_one = slope_two = jnp.zeros_like(x)
    for k in range(coefficients.shape[0] - 1, 0, -1):
        one, two, slope_one, slope_two = (
            coefficients[k] + 2 * x * one - two,
            one,
            2 * one + 2 * x * slope_one - slope_two,
            slope_one,
        )
    return coefficients[0] + x * one - two, one + x * slope_one - slope_two
