"""Control inputs against numpy's interpolation, values by hand, and differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences

import jaxrb as rb

TS = np.array([0.5, 0.8, 1.5, 2.0])
VALUES = np.random.default_rng(0).normal(size=(4, 3))
KINDS = [rb.PiecewiseConstant, rb.PiecewiseLinear]
# Before, between, on and after the knots.
TIMES = np.array([-1.0, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 1.99, 2.0, 7.0])


def test_constant_holds_values():
    found = jax.vmap(rb.PiecewiseConstant(TS, VALUES))(jnp.asarray(TIMES))
    np.testing.assert_array_equal(found, VALUES[[0, 0, 0, 0, 1, 1, 2, 2, 3, 3]])


def test_one_knot_holds_for_ever():
    held = rb.PiecewiseConstant([1.0], [[2.0, 3.0]])
    for t in (0.0, 1.0, 2.0):
        np.testing.assert_array_equal(held(t), [2.0, 3.0])


def test_linear_interpolates_as_numpy():
    found = jax.vmap(rb.PiecewiseLinear(TS, VALUES))(jnp.asarray(TIMES))
    expected = np.stack([np.interp(TIMES, TS, column) for column in VALUES.T], axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)
    # At the knots and outside these are the values themselves.
    np.testing.assert_array_equal(found[jnp.array([0, 2, 4, 6, 8, 9])], VALUES[[0, 0, 1, 2, 3, 3]])


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_any_shape(kind, shape):
    values = np.random.default_rng(1).normal(size=(4, *shape))
    found = kind(TS, values)(0.8)
    assert found.shape == shape
    np.testing.assert_array_equal(found, values[1])


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives(kind):
    """By knots, values and time: both modes, and second derivatives."""

    @jax.jit
    def of_all(numbers):
        return kind(numbers[:4], numbers[4:12].reshape(4, 2))(numbers[12])

    forward, backward = jax.jit(jax.jacfwd(of_all)), jax.jit(jax.jacrev(of_all))
    second = jax.jit(jax.jacfwd(jax.jacrev(of_all)))
    for t in (0.2, 0.6, 1.7, 3.0):  # no knot is within the differences
        numbers = np.concatenate([TS, VALUES[:, :2].ravel(), [t]])
        expected = differences(of_all, numbers)
        for found in (forward(numbers), backward(numbers)):
            np.testing.assert_allclose(found, expected, atol=1e-11)
        np.testing.assert_allclose(second(numbers), differences(backward, numbers), atol=1e-9)


def test_slopes_at_knots_are_those_from_the_right():
    slopes = jax.vmap(jax.jacfwd(rb.PiecewiseLinear(TS, VALUES)))(jnp.asarray(TS))
    expected = np.diff(VALUES, axis=0) / np.diff(TS)[:, None]
    np.testing.assert_allclose(slopes, [*expected, np.zeros(3)], rtol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_dtypes(kind):
    """That of the time, if it has one of its own."""
    single = kind(TS.astype(np.float32), VALUES.astype(np.float32))
    double = kind(TS, VALUES)
    assert double(jnp.float32(0.6)).dtype == jnp.float32
    assert double(0.6).dtype == double(1).dtype == jnp.float64
    assert single(0.6).dtype == jnp.float32
    assert single(jnp.float64(0.6)).dtype == jnp.float64
    assert eqx.filter_jit(single)(0.6).dtype == jnp.float32  # traced, but a Python number
    np.testing.assert_allclose(double(jnp.float32(0.6)), double(0.6), rtol=1e-6)


def test_knots_that_fall_together_when_rounded():
    steep = rb.PiecewiseLinear([0.0, 1000.0, 1000.00001], [[0.0], [1.0], [2.0]])
    for t, expected in ((500.0, 0.5), (1000.0, 2.0), (2000.0, 2.0)):
        value, slopes = jax.value_and_grad(lambda i, t: i(t)[0])(steep, jnp.float32(t))
        assert value == expected
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_inputs(kind):
    """Each lane with knots, values and time of its own."""
    shifts = jnp.arange(3.0)
    inputs = jax.vmap(lambda s: kind(jnp.asarray(TS) + s, jnp.asarray(VALUES) * s))(shifts)
    found = jax.vmap(lambda each, s: each(0.6 + s))(inputs, shifts)
    for s, row in zip(shifts, found, strict=True):
        np.testing.assert_allclose(row, kind(TS, VALUES)(0.6) * s, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_prints_its_numbers(kind):
    assert repr(kind([0.0, 1.0], [2.0, 3.0])) == f"{kind.__name__}(ts=[0, 1], values=[2, 3])"


@pytest.mark.parametrize(
    ("ts", "values", "message"),
    [
        ([0.0, 2.0, 1.0], np.zeros(3), r"ts must be strictly increasing; got \[0.0, 2.0, 1.0\]"),
        ([0.0, 1.0, 1.0], np.zeros(3), "ts must be strictly increasing"),
        ([0.0, np.inf], np.zeros(2), "ts must be finite"),
        ([0.0, 1.0], [0.0, np.nan], "values must be finite"),
        ([0.0, 1.0], np.zeros((3, 2)), r"values must have shape \(n, ...\) with n = 2 knots"),
        ([0.0, 1.0], 1.0, r"values must have shape .* got \(\)"),
        ([], np.zeros((0, 3)), r"ts must have shape \(n,\) with n at least [12]; got \(0,\)"),
        ([[0.0, 1.0]], np.zeros((1, 2)), r"ts must have shape \(n,\)"),
        ([None], [1.0], "ts must be an array of real numbers"),
        ([0.0, 1.0], [1j, 2j], "values must be real"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_bad_input(kind, ts, values, message):
    with pytest.raises(ValueError, match=f"{kind.__name__}.{message}"):
        kind(ts, values)


def test_a_line_takes_two_knots():
    with pytest.raises(ValueError, match=r"n at least 2; got \(1,\)"):
        rb.PiecewiseLinear([0.0], [1.0])


@pytest.mark.parametrize("kind", KINDS)
def test_times_are_scalars(kind):
    with pytest.raises(ValueError, match=r"scalar time t; got shape \(10,\). Use jax.vmap"):
        kind(TS, VALUES)(jnp.asarray(TIMES))
