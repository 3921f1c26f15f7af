"""Functions on [0, 1] by their values at Chebyshev points.

Arrays of values have shape (n_points, lanes): the points lead, so that the lanes fill the
vector units and every integral is one product with a constant matrix.
"""

from __future__ import annotations

from functools import cached_property, partial

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

    @cached_property
    def barycentric(self) -> np.ndarray:
        signs = (-1.0) ** np.arange(self.degree + 1)
        signs[[0, -1]] /= 2
        return signs

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

    def slope(self, values: Values) -> Values:
        """The derivative with respect to the place in [-1, 1]."""
        return jnp.asarray(self._to_slope, values.dtype) @ values

    def interpolate(self, x: Float[Array, " lanes"], *functions: Values) -> list:
        """The values of functions at x in [-1, 1]."""
        return [_interpolate(self, x, values) for values in functions]

    def first_crossing(self, values: Values) -> tuple[Array, Float[Array, " lanes"]]:
        """Whether and where, in [-1, 1], a function first becomes non-negative.

        It starts at or below 0. The place is 1 where it stays negative; its derivative is that
        of the implicit function theorem.
        """
        positive = (values >= 0).at[0].set(False)
        found = jnp.any(positive, axis=0)
        order = jnp.arange(self.degree + 1, dtype=jnp.int32)[:, None]
        after = jnp.min(jnp.where(positive, order, self.degree), axis=0)

        def pick(index, column):
            return jnp.sum(jnp.where(order == index[None], column, 0), axis=0)

        points = jnp.asarray(self.points, values.dtype)[:, None]
        fixed = jax.lax.stop_gradient(values)
        low, high = pick(after - 1, points), pick(after, points)
        below, above = pick(after - 1, fixed), pick(after, fixed)
        rise = jnp.where(above > below, above - below, 1.0)
        guess = low + (high - low) * jnp.clip(-below / rise, 0, 1)
        root = _root(self, values, guess, low, high)
        return found, jnp.where(found, root, 1.0)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _interpolate(grid: ChebyshevGrid, x: Float[Array, " lanes"], values: Values):
    """By the barycentric formula, whose own derivative fails at a point."""
    away = x[None] - jnp.asarray(grid.points, x.dtype)[:, None]
    weight = jnp.asarray(grid.barycentric, x.dtype)[:, None]
    # At a point the weight is infinite: a huge one gives that point's value.
    weight = weight / jnp.where(away == 0, 1e-30, away)
    return jnp.sum(weight * values, axis=0) / jnp.sum(weight, axis=0)


@_interpolate.defjvp
def _(grid, primals, tangents):
    (x, values), (dx, dvalues) = primals, tangents
    slope = _interpolate(grid, x, grid.slope(values))
    return _interpolate(grid, x, values), slope * dx + _interpolate(grid, x, dvalues)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _root(grid: ChebyshevGrid, values: Values, guess, low, high) -> Float[Array, " lanes"]:
    """Where a function vanishes between two points next to each other."""
    slopes, x = grid.slope(values), guess
    for _ in range(4):
        value, slope = grid.interpolate(x, values, slopes)
        x = jnp.clip(x - value / jnp.where(slope == 0, 1.0, slope), low, high)
    return x


@_root.defjvp
def _(grid, primals, tangents):
    values, *bracket = primals
    x = _root(grid, values, *bracket)
    slope, change = grid.interpolate(x, grid.slope(values), tangents[0])
    return x, -change / jnp.where(slope == 0, 1.0, slope)
