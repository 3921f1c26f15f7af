"""Functions on [0, 1] by their values at Chebyshev points.

Arrays of values have shape (n_points, lanes), or (n_points, n, lanes) for n functions: the
points lead, so that the lanes fill the vector units and every integral is one product with a
constant matrix.
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
    def _weights(self) -> np.ndarray:
        """The weights of the points in the barycentric formula."""
        weights = (-1.0) ** np.arange(self.degree + 1)
        weights[[0, -1]] /= 2
        return weights

    @cached_property
    def _to_coefficients(self) -> np.ndarray:
        return np.linalg.inv(np.polynomial.chebyshev.chebvander(self.points, self.degree))

    @cached_property
    def _to_integral(self) -> np.ndarray:
        series = np.polynomial.chebyshev.chebint(self._to_coefficients, lbnd=-1)
        return np.polynomial.chebyshev.chebval(self.points, series).T / 2

    @cached_property
    def _to_slope(self) -> np.ndarray:
        # Off the diagonal in closed form; the slope of a constant vanishes.
        steps = self.points[:, None] - self.points + np.eye(self.degree + 1)
        slope = self._weights / self._weights[:, None] / steps
        np.fill_diagonal(slope, 0.0)
        np.fill_diagonal(slope, -slope.sum(axis=1))
        return slope

    def unit_points(self, like: Float[Array, " lanes"]) -> Float[Array, "n_points 1"]:
        """The points in [0, 1]."""
        return jnp.asarray((self.points + 1)[:, None] / 2, like.dtype)

    def last_coefficients(self, values: Values) -> Float[Array, " lanes"]:
        """The sum of the magnitudes of the last two, which tells how good the fit is."""
        rows = jnp.asarray(self._to_coefficients[-2:, :, None], values.dtype)
        last = [jnp.abs(jnp.sum(row * values, axis=0)) for row in rows]
        return last[0] + last[1]

    def integrals(self, *functions: Values) -> list[Values]:
        """The integrals from 0 to each point."""
        return _at_once(self._to_integral, functions)

    def interpolate(self, x: Float[Array, " lanes"], *functions: Values) -> list:
        """The values of functions at x in [-1, 1]."""
        weights = self.values_at(x)
        return [jnp.sum(weights * values, axis=0) for values in functions]

    def values_at(self, x: Float[Array, " lanes"]) -> Values:
        """Weights of the points, of which the sum is the value of a function at x in [-1, 1]."""
        return _values_at(self, x)

    def integrals_to(self, x: Float[Array, " lanes"]) -> Values:
        """Weights of the points, of which the sum is the integral from 0 to x in [-1, 1].

        Without a running integral, which costs much more.
        """
        return _integrals_to(self, x)

    def first_crossing(
        self, values: Values, after: Float[Array, " lanes"] | None = None
    ) -> tuple[Array, Float[Array, " lanes"]]:
        """Whether and where, in [-1, 1], a function first becomes non-negative.

        It starts at or below 0. The place is 1 where it stays negative; its derivative is that
        of the implicit function theorem.

        Args:
            values: of the function.
            after: look beyond this place. A crossing next to it, between the same two points,
                is not found.
        """
        fixed = jax.lax.stop_gradient(values)
        points = jnp.asarray(self.points[:, None], values.dtype)
        begin = -jnp.ones_like(values[0]) if after is None else after
        positive = (fixed >= 0) & (points > begin[None])
        # As minima of floats, which are vectorised; so is no search for an index.
        high = jnp.min(jnp.where(positive, points, 2.0), axis=0)
        before = jnp.where(points < high[None], points, -1.0)
        low = jnp.max(before, axis=0)
        found = (high <= 1) & (low >= begin)
        (coefficients,) = _at_once(self._to_coefficients, (values,))
        root = _root(coefficients, low, jnp.minimum(high, 1.0))
        return found, jnp.where(found, root, 1.0)


def _at_once(matrix: np.ndarray, functions: tuple[Values, ...]) -> list[Values]:
    """One product for several functions: each would cost a call of its own."""
    together = _product(matrix, jnp.concatenate(functions, axis=1))
    return jnp.split(together, len(functions), axis=1)


def _product(matrix: np.ndarray, values: Values) -> Values:
    """The product in the precision of its numbers, which a GPU rounds to 10 bits by default."""
    constant = jnp.asarray(matrix, values.dtype)
    return jnp.tensordot(constant, values, 1, precision=jax.lax.Precision.HIGHEST)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _values_at(grid: ChebyshevGrid, x: Float[Array, " lanes"]) -> Values:
    """Uses the barycentric formula, which is stable; its own derivative by x would not be."""
    offset = x[None] - jnp.asarray(grid.points[:, None], x.dtype)
    # At a point itself its weight outdoes all others.
    offset = jnp.where(offset == 0, float(jnp.finfo(x.dtype).tiny) ** 0.5, offset)
    weights = jnp.asarray(grid._weights[:, None], x.dtype) / offset
    # Once for all functions, which the compiler would not do.
    return jax.lax.optimization_barrier(weights / jnp.sum(weights, axis=0)[None])


@_values_at.defjvp
def _(grid, primals, tangents):
    values = _values_at(grid, *primals)
    return values, _product(grid._to_slope.T, values) * tangents[0][None]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _integrals_to(grid: ChebyshevGrid, x: Float[Array, " lanes"]) -> Values:
    return jax.lax.optimization_barrier(_product(grid._to_integral.T, _values_at(grid, x)))


@_integrals_to.defjvp
def _(grid, primals, tangents):
    return _integrals_to(grid, *primals), _values_at(grid, *primals) * (tangents[0] / 2)[None]


@jax.custom_jvp
def _root(coefficients: Values, low, high) -> Float[Array, " lanes"]:
    """The root of a series between two neighbouring points, where it is almost linear."""

    def improve(_, x):
        value, slope = _series(coefficients, x)
        return jnp.clip(x - value / jnp.where(slope == 0, 1.0, slope), low, high)

    # As a loop: its body is a large part of the program of an impact.
    return jax.lax.fori_loop(0, 5, improve, (low + high) / 2)


@_root.defjvp
def _(primals, tangents):
    coefficients, *bracket = primals
    x = _root(coefficients, *bracket)
    _, slope = _series(coefficients, x)
    change, _ = _series(tangents[0], x)
    return x, -change / jnp.where(slope == 0, 1.0, slope)


@jax.jit
def _series(coefficients: Values, x: Float[Array, " lanes"]):
    """A sum of Chebyshev polynomials and its derivative, by Clenshaw's recurrence.

    Row by row: lanes fill the vector units, which a reduction over the rows would not. Behind
    a `jit`: so many operations are traced, and transformed, once.
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
