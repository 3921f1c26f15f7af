"""Linear equations by repetition with nearly the inverse, against their solution by elimination."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrb.stepping.refinement import refined


@jax.jit
def solve(matrix, inverse, right):
    return refined(lambda x: inverse @ x, lambda _, x, __: (matrix @ x, ()), ([], right, []))[0]


def equations(size, off, rng, shears=False):
    """A matrix, a right side, and an inverse of which each turn leaves a part of a size; a shear
    of the error, where asked for, so that it grows before it falls."""
    matrix = rng.normal(size=(size, size)) + 4 * np.eye(size)
    part = rng.normal(size=(size, size))
    part *= off / np.abs(np.linalg.eigvals(part)).max()
    if shears:
        part = np.triu(np.ones((size, size)), 1) + off * np.eye(size)
    # x + B (r - A x) leaves the part (1 - B A) of an error.
    inverse = (np.eye(size) - part) @ np.linalg.inv(matrix)
    return matrix, rng.normal(size=size), inverse


@pytest.mark.parametrize("off", [0.0, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.3])
@pytest.mark.parametrize(("dtype", "atol"), [("float64", 1e-13), ("float32", 1e-5)])
def test_the_solution_is_that_of_elimination(off, dtype, atol):
    """To round-off, however near the inverse is. Tolerances are 80 to 450 units of it."""
    for seed in range(20):
        matrix, right, inverse = equations(5, off, np.random.default_rng(seed))
        expected = np.linalg.solve(matrix, right)
        a, b, r = (jnp.asarray(array, dtype) for array in (matrix, inverse, right))
        found = solve(a, b, r)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol * (1 + abs(expected).max()))


def test_an_error_may_grow_before_it_falls():
    """One that a turn moves from each unknown to all before it: it is gone after five."""
    matrix, right, inverse = equations(5, 1e-3, np.random.default_rng(1), shears=True)
    found = solve(matrix, inverse, right)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), atol=1e-12)


def test_what_does_not_settle_is_not_a_number():
    matrix, right, _ = equations(5, 0.0, np.random.default_rng(2))
    found = solve(matrix, 3 * np.eye(5), right)
    assert jnp.isnan(found).all()


@jax.jit
def solve_with_more(matrix, inverse, by_given, more, given, right, found):
    def apply(given, x, found):
        return matrix @ x + by_given @ given[0], [found[0] + more @ x]

    return refined(lambda x: inverse @ x, apply, ([given], right, [found]))


@pytest.mark.parametrize("off", [0.0, 1e-4, 0.1])
@pytest.mark.parametrize("unit", [1.0, 1e-290, 1e250])
def test_what_is_given_and_what_comes_of_it(off, unit):
    """A x + C g = r, and s + M x beside it; with derivatives as small as numbers may be."""
    rng = np.random.default_rng(3)
    matrix, right, inverse = equations(5, off, rng)
    by_given, more = rng.normal(size=(5, 3)), rng.normal(size=(4, 5))
    given, found = rng.normal(size=3), rng.normal(size=4)
    expected = np.linalg.solve(matrix, right - by_given @ given)
    numbers = (unit * each for each in (given, right, found))
    x, (beside,) = solve_with_more(matrix, inverse, by_given, more, *numbers)
    np.testing.assert_allclose(x / unit, expected, atol=1e-12)
    np.testing.assert_allclose(beside / unit, found + more @ expected, atol=1e-12)


@jax.jit
def solve_in_few_numbers(matrix, inverse, right, kept, least):
    """The inverse rounds up to the next multiple of a number, as if it were the least there is."""
    rough = lambda x: jnp.ceil(inverse @ x / least) * least  # noqa: E731
    return refined(rough, lambda _, x, kept: (matrix @ x, kept), ([kept], right, [kept]))


@pytest.mark.parametrize(("dtype", "least"), [("float64", 1e-300), ("float32", 1e-30)])
def test_what_dies_away_beside_what_does_not(dtype, least):
    """A derivative that has become as small as numbers may be, of a place that keeps another: it
    has few digits left or none, and is none that is not found."""
    matrix, right, inverse = equations(5, 0.1, np.random.default_rng(4))
    expected, kept = np.linalg.solve(matrix, right), np.ones(4)
    for part in 10.0 ** np.arange(-2, 12):
        numbers = (matrix, inverse, least * part * right, kept, least)
        x, (beside,) = solve_in_few_numbers(*(jnp.asarray(each, dtype) for each in numbers))
        error = np.asarray(x, float) / (least * part) - expected
        assert (np.abs(error) <= 1e-4 + 10 / part).all()
        np.testing.assert_array_equal(beside, kept)


@pytest.mark.parametrize("off", [1e-4, 1e-3, 1e-2, 0.1])
@pytest.mark.parametrize(
    ("dtype", "units", "atol"),
    [("float64", (1e-100, 1e-170, 1e-260), 1e-12), ("float32", (1e-15, 1e-22), 1e-4)],
)
def test_what_is_small_beside_what_is_kept_has_all_its_digits(off, dtype, units, atol):
    """Squares of it end as zeros: as of derivatives out of the plane in which a body moves."""
    matrix, right, inverse = equations(5, off, np.random.default_rng(5))
    expected, kept = np.linalg.solve(matrix, right), np.ones(4)
    for unit in units:
        numbers = (matrix, inverse, unit * right, kept)
        x, _ = solve_with_kept(*(jnp.asarray(each, dtype) for each in numbers))
        np.testing.assert_allclose(np.asarray(x, float) / unit, expected, rtol=0, atol=atol)


@jax.jit
def solve_with_kept(matrix, inverse, right, kept):
    apply = lambda _, x, kept: (matrix @ x, kept)  # noqa: E731
    return refined(lambda x: inverse @ x, apply, ([kept], right, [kept]))
