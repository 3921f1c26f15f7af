"""Covariances of linear problems in closed form, directions that data do not tell, and runs."""

from math import erfc, sqrt

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrb import optimize as ro
from jaxrb.optimize import estimates

# Units of parameters over nine decades; over ten, the least is taken for round-off.
UNITS = 10.0 ** np.array([-5.0, 0.0, 3.0, -2.0, 4.0, 1.0])
NAMES = ("a", "b", "c", "d", "e", "f")


def root(M):
    return np.linalg.qr(M, mode="r")


@pytest.mark.parametrize("units", [np.ones(6), UNITS])
def test_covariance_of_a_linear_problem(units):
    """(M^T M)^-1 of residuals of unit variance, in whatever units the parameters have."""
    M = np.random.default_rng(0).normal(size=(40, 6))
    found, unknown = estimates.covariance(root(M * units))
    np.testing.assert_allclose(found * np.outer(units, units), np.linalg.inv(M.T @ M), rtol=1e-12)
    assert unknown.shape == (0, 6)


def test_covariance_is_that_of_estimates():
    """Of 4000 least squares of data with noise: the sample variance has a relative standard
    deviation of sqrt(2/4000) = 2 %, of which four are allowed."""
    rng = np.random.default_rng(1)
    M = rng.normal(size=(10, 3)) * UNITS[:3]
    solutions = np.linalg.lstsq(M, rng.normal(size=(10, 4000)), rcond=None)[0]
    found, _ = estimates.covariance(root(M))
    np.testing.assert_allclose(np.diagonal(found), np.var(solutions, axis=1), rtol=0.09)


@pytest.mark.parametrize("units", [np.ones(6), UNITS])
@pytest.mark.parametrize("seed", range(10))
def test_directions_that_are_unknown(seed, units):
    """Column b has no influence, and of c, e and f only two combinations have."""
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(40, 6))
    M[:, 1] = 0.0
    weights = rng.uniform(0.5, 2.0, size=2)
    M[:, 5] = M[:, [2, 4]] @ weights
    # The same length of each, so that the directions are one in all units.
    found, unknown = estimates.covariance(root(M * units))
    assert len(unknown) == 2
    np.testing.assert_allclose(np.linalg.norm(unknown, axis=1), 1.0)
    told = [estimates.named(direction, NAMES) for direction in unknown]
    told.sort(key=len)
    assert list(told[0]) == ["b"] and abs(told[0]["b"]) == pytest.approx(1)
    assert list(told[1]) == ["c", "e", "f"]
    # c weights[0] + e weights[1] - f moves nothing, each divided by its unit.
    ratios = np.array([told[1][name] for name in "cef"]) * units[[2, 4, 5]]
    np.testing.assert_allclose(ratios / ratios[2], [-weights[0], -weights[1], 1.0], rtol=1e-9)
    variances = np.diagonal(found) * units**2
    assert np.isinf(variances[[1, 2, 4, 5]]).all()
    # Of the others, as if f and b were fixed.
    kept = M[:, [0, 2, 3, 4]]
    expected = np.diagonal(np.linalg.inv(kept.T @ kept))[[0, 2]]
    np.testing.assert_allclose(variances[[0, 3]], expected, rtol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_random_rank_deficiency(seed):
    """All directions that are told move nothing, and there are as many as the rank lacks."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 6))
    M = rng.normal(size=(40, rank)) @ rng.normal(size=(rank, 6))
    units = 10.0 ** rng.uniform(-4, 4, size=6)
    found, unknown = estimates.covariance(root(M * units))
    assert len(unknown) == 6 - rank == np.linalg.matrix_rank(unknown * units, tol=1e-6)
    for direction in unknown * units:
        # Entries of less than a twentieth of the largest are left out.
        moved = M @ direction
        assert (
            np.linalg.norm(moved)
            < 0.05 * np.linalg.norm(M, axis=0) @ np.ones(6) * np.abs(direction).max()
        )
        # Of a space of so many dimensions, one direction needs no more than rank + 1 coordinates.
        assert np.sum(direction != 0) <= rank + 1
    assert np.isinf(np.diagonal(found)).all()


def test_a_nearly_unknown_direction():
    """The limit of the scaled singular values is 1e-6."""
    M = np.random.default_rng(2).normal(size=(40, 2))
    for distance, n_unknown in ((1e-4, 0), (1e-8, 1)):
        columns = np.column_stack([M[:, 0], M[:, 0] + distance * M[:, 1]])
        assert len(estimates.covariance(root(columns))[1]) == n_unknown


WORLD = {
    "mass": jnp.asarray(2.0),
    "ratio": jnp.asarray([0.3, 0.8]),
    "moments": jnp.asarray([2.0, 2.5, 3.0]),
    "fixed": jnp.asarray(7.0),
}
FREE = ro.Parameters(
    WORLD,
    {
        "['mass']": ro.Positive(),
        "['ratio']": ro.Bounded(0, 1),
        "['moments']": ro.PhysicalInertia(),
        "['fixed']": ro.Fixed(),
    },
)
# Of the second moments of mass.
S = np.array([1.75, 1.25, 0.75])
BY_STEP = np.array([[0, S[1], S[2]], [S[0], 0, S[2]], [S[0], S[1], 0]])
Z = 1.959963984540054


def test_intervals_of_estimates():
    factor = np.random.default_rng(3).normal(size=(6, 6)) / 4
    covariance = factor @ factor.T
    sd = np.sqrt(np.diagonal(covariance))
    found = estimates.estimates(FREE, WORLD, covariance)
    assert list(found) == list(FREE.names)
    # Of charts by entry, the ends of the interval of the coordinate.
    mass = found["['mass']"]
    np.testing.assert_allclose([mass.lower, mass.upper], 2 * np.exp([-Z * sd[0], Z * sd[0]]))
    ratio = found["['ratio']"]
    odds = np.array([0.3 / 0.7, 4.0])
    for side, end in ((-1, ratio.lower), (1, ratio.upper)):
        np.testing.assert_allclose(end, 1 / (1 + np.exp(-side * Z * sd[1:3]) / odds))
    # Of others, to first order.
    moments = found["['moments']"]
    width = Z * np.sqrt(np.diagonal(BY_STEP @ covariance[3:, 3:] @ BY_STEP.T))
    np.testing.assert_allclose(moments.value, WORLD["moments"])
    np.testing.assert_allclose(moments.upper - moments.value, width)
    np.testing.assert_allclose(moments.value - moments.lower, width)
    fixed = found["['fixed']"]
    assert fixed.lower == fixed.value == fixed.upper == 7.0


def test_intervals_of_what_is_unknown():
    covariance = np.diag([np.inf, 0.01, np.inf, np.inf, 0.04, 0.04])
    found = estimates.estimates(FREE, WORLD, covariance)
    mass, ratio, moments = (found[f"['{name}']"] for name in ("mass", "ratio", "moments"))
    assert (mass.lower, mass.upper) == (-np.inf, np.inf)
    assert np.isfinite([ratio.lower[0], ratio.upper[0]]).all()
    assert np.isinf([ratio.lower[1], ratio.upper[1]]).all()
    # The second moment along x is part of the moments of inertia about y and z alone.
    width = Z * 0.2 * np.hypot(S[1], S[2])
    np.testing.assert_allclose([moments.lower[0], moments.upper[0]], [2 - width, 2 + width])
    assert np.isinf(moments.upper[1:]).all() and np.isinf(moments.lower[1:]).all()


def signs(text):
    return np.array([[{"+": 1.0, "-": -1.0}[one]] for one in text])


def probability(runs, expected, variance):
    """That a normal number is so far from what is expected, to either side."""
    return erfc(abs(runs - expected) / sqrt(2 * variance))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Of n = a + b signs: 1 + 2 a b/n runs, with variance 2 a b (2 a b - n)/(n^2 (n - 1)).
        ("++-+---+", probability(5, 5, 12 / 7)),
        ("++++----", probability(2, 5, 12 / 7)),
        ("+-+-+-+-", probability(8, 5, 12 / 7)),
        ("--+++---", probability(3, 4.75, 660 / 448)),
        ("++++++++", 1.0),  # says nothing
    ],
)
def test_runs_by_hand(text, expected):
    residual = signs(text)
    found = estimates.runs_test(residual, np.ones_like(residual, bool))
    assert found == pytest.approx(expected, rel=1e-12)


def test_runs_leave_out_what_was_not_measured():
    residual = signs("+-+---+-")
    residual[[1, 3, 6]] = np.nan
    measured = np.isfinite(residual)
    # What is left has 2 runs, of 3.4 with variance 12 * 7/(25 * 4).
    assert "".join("+-"[int(one < 0)] for one in residual[measured]) == "++---"
    expected = probability(2, 3.4, 84 / 100)
    assert estimates.runs_test(residual, measured) == pytest.approx(expected, rel=1e-12)
    assert estimates.runs_test(residual, 0 * measured > 0) == 1.0


def test_runs_of_noise_and_of_a_trend():
    """At a level of 5 %: of 1000 throws of noise 50 alarms, give or take 7; the normal
    approximation of a distribution of whole numbers is off by as much."""
    rng = np.random.default_rng(4)
    measured = rng.uniform(size=(60, 3)) > 0.2
    noise = rng.normal(size=(1000, 60, 3))
    alarms = sum(estimates.runs_test(one, measured) < 0.05 for one in noise)
    assert 25 < alarms < 80
    # A wave of twice the noise in one of three channels is found in most throws.
    trend = noise[:200] + np.array([2.0, 0.0, 0.0]) * np.sin(np.linspace(0, 6, 60))[:, None]
    assert np.mean([estimates.runs_test(one, measured) < 0.05 for one in trend]) > 0.5
