"""Chebyshev grids against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrb.math.chebyshev import ChebyshevGrid

GRID = ChebyshevGrid(24)
RATES = jnp.array([0.5, 1.0, -2.0])


def waves():
    """exp(k x) on [0, 1], one lane a rate."""
    return jnp.exp(GRID.unit_points(RATES) * RATES[None])


def test_integral_and_interpolation():
    x = GRID.unit_points(RATES)
    rates = RATES[None]
    np.testing.assert_allclose(GRID.integrals(waves())[0], jnp.expm1(rates * x) / rates, atol=4e-16)
    at = jnp.array([-1.0, 0.3, 1.0])
    (found,) = GRID.interpolate(at, waves())
    np.testing.assert_allclose(found, jnp.exp(RATES * (at + 1) / 2), rtol=4e-15)
    slope = jax.jacfwd(lambda at: GRID.interpolate(at, waves())[0])(at)
    np.testing.assert_allclose(jnp.diag(slope), found * RATES / 2, rtol=1e-12)


def test_weights_at_a_place():
    """Of values and of integrals, with the derivatives by the place; functions side by side."""
    at = jnp.array([-1.0, 0.3, 1.0])
    waves_twice = jnp.stack([waves(), 2 * waves()], axis=1)

    def value(at):
        return jnp.sum(GRID.values_at(at)[:, None] * waves_twice, axis=0)

    def integral(at):
        return jnp.sum(GRID.integrals_to(at) * waves(), axis=0)

    x = (at + 1) / 2
    np.testing.assert_allclose(value(at)[1], 2 * jnp.exp(RATES * x), rtol=4e-15)
    np.testing.assert_allclose(integral(at), jnp.expm1(RATES * x) / RATES, atol=4e-16)
    slope = lambda f: lambda at: jax.jvp(f, (at,), (jnp.ones_like(at),))[1]  # noqa: E731
    np.testing.assert_allclose(slope(integral)(at), jnp.exp(RATES * x) / 2, rtol=1e-14)
    second = RATES**2 / 4 * jnp.exp(RATES * x)
    np.testing.assert_allclose(slope(slope(value))(at)[0], second, rtol=1e-10)
    np.testing.assert_allclose(slope(slope(slope(integral)))(at), second / 2, rtol=1e-10)
    (running,) = GRID.integrals(waves_twice)
    np.testing.assert_allclose(running[:, 1], 2 * GRID.integrals(waves())[0], rtol=1e-15)


def test_last_coefficients_tell_a_good_fit_from_a_bad_one():
    assert GRID.last_coefficients(waves()).max() < 1e-15
    rough = jnp.abs(GRID.unit_points(RATES) - 0.4 * jnp.ones_like(RATES)[None])
    assert GRID.last_coefficients(rough).min() > 1e-4


@pytest.mark.slow
def test_first_crossing():
    """Of several, the first; at the start; never; with its derivative."""

    def crossing(shift):
        x = GRID.unit_points(shift)
        return GRID.first_crossing(jnp.sin(9 * x - shift[None]))

    shift = jnp.array([0.3, 1.7, 2.5])
    found, where = crossing(shift)
    assert found.all()
    np.testing.assert_allclose((where + 1) / 2, shift / 9, atol=1e-15)
    slope = jax.jacrev(lambda s: crossing(s)[1])(shift)
    np.testing.assert_allclose(jnp.diag(slope), 2 / 9, rtol=1e-12)
    second = jax.jacfwd(jax.jacfwd(lambda s: crossing(s**2)[1]))(shift)
    np.testing.assert_allclose(jnp.einsum("iii->i", second), 4 / 9, rtol=1e-10)
    at_start, where = crossing(jnp.zeros(1))
    assert at_start.all()
    np.testing.assert_allclose(where, -1, atol=1e-15)
    never, where = GRID.first_crossing(-waves())
    assert not never.any()
    np.testing.assert_array_equal(where, 1)


def test_first_crossing_beyond_a_place():
    """The next one; none if it is positive there, or becomes so before the next point."""
    x = GRID.unit_points(jnp.zeros(3))
    wave = jnp.sin(12 * x - 0.5 * jnp.ones(3)[None])
    beyond = jnp.array([-0.9, 0.0, 0.1306])
    found, where = GRID.first_crossing(wave, after=beyond)
    np.testing.assert_array_equal(found, [False, True, False])
    np.testing.assert_allclose((where[1] + 1) / 2, (0.5 + 2 * np.pi) / 12, atol=1e-15)
