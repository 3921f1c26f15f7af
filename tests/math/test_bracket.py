"""The safeguarded search driven as the event loop drives it, on functions that defeat Newton.

A search starts with the trial at the upper end, keeps f >= 0 below and f < 0 above, and ends
when the bracket is as narrow as the resolution, 4 eps of its first length: 50 halvings in
float64, 21 in float32. Newton may have a dozen turns of its own, then every second turn is
a halving, so 13 + 2 * 50 turns, and a few for the alternation, always suffice.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrb.math.bracket import next_trial

TRIAL = jax.jit(next_trial)

# name: (f, f', root, most turns); each f is >= 0 at 0 and < 0 at 1.
FUNCTIONS = {
    "linear": (lambda t: 0.3 - t, lambda t: -1.0, 0.3, 110),
    "root at the lower end": (lambda t: -t, lambda t: -1.0, 0.0, 2),
    "root near the upper end": (lambda t: 1 - 1e-9 - t, lambda t: -1.0, 1 - 1e-9, 110),
    "parabola": (lambda t: 0.5 - t * t, lambda t: -2 * t, np.sqrt(0.5), 110),
    "flat cubic": (lambda t: (0.7 - t) ** 3, lambda t: -3 * (0.7 - t) ** 2, 0.7, 120),
    "step, rate zero": (lambda t: 1.0 if t < 0.3 else -1.0, lambda t: 0.0, 0.3, 120),
    "step, rate of the wrong sign": (lambda t: 1.0 if t < 0.3 else -1.0, lambda t: 1.0, 0.3, 120),
    "kink": (
        lambda t: 0.4 - t + 0.9 * abs(t - 0.4),
        lambda t: -1 + 0.9 * np.sign(t - 0.4),
        0.4,
        120,
    ),
    # Newton's step from t is the mirror image of t in the root: it would cycle for ever.
    "mirror": (
        lambda t: np.sign(0.4 - t) * np.sqrt(abs(t - 0.4)),
        lambda t: -0.5 / np.sqrt(max(abs(t - 0.4), 1e-300)),
        0.4,
        120,
    ),
    # Newton diverges on arctan from afar.
    "arctan": (
        lambda t: np.arctan(50 * (0.9 - t)),
        lambda t: -50 / (1 + 2500 * (0.9 - t) ** 2),
        0.9,
        120,
    ),
}


def search(f, rate, length, dtype, most):
    """The final bracket in units of `length`, and the number of trials."""
    resolution = 4 * np.finfo(dtype).eps * dtype(length)
    lower, upper, trial, turns = dtype(0), dtype(length), dtype(length), 0
    while upper - lower > resolution:
        assert turns < most, "too many turns"
        value, slope = f(float(trial / length)), rate(float(trial / length))
        newton = trial - length * value / slope if slope else np.inf * np.sign(value)
        found = TRIAL(*(jnp.asarray(u, dtype) for u in (newton, lower, upper, resolution)), turns)
        assert found.dtype == dtype
        trial = dtype(found)
        assert lower < trial < upper, "a trial outside the bracket"
        if f(float(trial / length)) >= 0:
            lower = trial
        else:
            upper = trial
        turns += 1
    return lower / length, upper / length, turns


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [1.0, 1e-3])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bracket_shrinks_to_the_root(name, length, dtype):
    f, rate, root, most = FUNCTIONS[name]
    lower, upper, _ = search(f, rate, length, dtype, most)
    # The resolution, and the rounding of times near the root (and, for the linear functions
    # in float64, of f itself).
    slack = 6 * np.finfo(dtype).eps
    assert lower - slack <= root <= upper + slack
    assert upper - lower <= slack


def test_newton_is_followed_inside():
    trial = TRIAL(0.3, 0.0, 1.0, 1e-15, 0)
    assert trial == 0.3


def test_newton_beyond_the_upper_end_halves():
    for newton in (1.0, 5.0, np.inf):
        assert TRIAL(newton, 0.2, 1.0, 1e-15, 0) == pytest.approx(0.6, rel=1e-15)


def test_newton_below_the_lower_end_tries_the_end_then_halves():
    for newton in (0.2, -5.0, -np.inf):
        assert TRIAL(newton, 0.2, 1.0, 0.01, 0) == pytest.approx(0.21, rel=1e-15)
        assert TRIAL(newton, 0.2, 1.0, 0.01, 1) == pytest.approx(0.6, rel=1e-15)


def test_every_second_trial_halves_after_a_dozen():
    trials = [float(TRIAL(0.3, 0.0, 1.0, 1e-15, turn)) for turn in range(11, 17)]
    assert trials == [0.3, 0.3, 0.5, 0.3, 0.5, 0.3]
