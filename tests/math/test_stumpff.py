"""Stumpff's functions against their series in 40 digits, across the switch at x = 1."""

import jax
import mpmath
import numpy as np
import pytest
from helpers import quick_jit

from jaxrb.math import stumpff

X = [0.0, 1e-24, 1e-12, 1e-3, 0.5, 0.999, 1.0, 1.001, 4.0, 9.8, 39.0, 39.47841760435743, 100.0]
ORDERS = range(4)


def exact(order, x, derivative):
    """The derivative of c_n of the given order at x, from the series."""
    with mpmath.workdps(60):
        total = mpmath.mpf(0)
        for k in range(derivative, 80):
            falling = mpmath.ff(k, derivative)
            power = mpmath.mpf(x) ** (k - derivative)
            total += (-1) ** k * falling * power / mpmath.factorial(2 * k + order)
        return float(total)


@quick_jit
def derivatives(x):
    """Values of all four, and in float64 their first and second derivatives."""

    def at(x):
        kinds = [[lambda y, n=n: stumpff(n, y) for n in ORDERS]]
        for _ in range(2 if x.dtype == np.float64 else 0):
            kinds.append([jax.jacfwd(f) for f in kinds[-1]])
        return [[f(x) for f in functions] for functions in kinds]

    return jax.vmap(at)(x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_against_the_series(dtype):
    x = np.array(X, dtype)
    eps = float(np.finfo(dtype).eps)
    for derivative, found in enumerate(derivatives(x)):
        for order in ORDERS:
            assert found[order].dtype == dtype
            expected = [exact(order, float(v), derivative) for v in x]
            # The quotients' derivatives next to x = 1 lose a digit each; sin and cos of a large
            # angle are known to eps times the angle.
            np.testing.assert_allclose(
                found[order], expected, rtol=0, atol=eps * (4, 8, 40)[derivative]
            )


def test_full_turns():
    """c_2 vanishes at a full turn with the square of the distance: no digit is lost."""
    angle = 2 * np.pi + 1e-6
    with mpmath.workdps(40):
        expected = (1 - mpmath.cos(mpmath.mpf(angle))) / mpmath.mpf(angle) ** 2
    # x = angle^2 is rounded: the distance, 1e-6, is known to 1e-9 of itself.
    np.testing.assert_allclose(stumpff(2, np.array(angle**2)), float(expected), rtol=4e-9)
