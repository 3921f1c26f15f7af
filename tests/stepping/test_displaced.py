"""What the law of contact adds to the slip at the end of a step with contacts that last."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrb.stepping.displaced import _turned

LEAST = 1e-9


def added(before, moved):
    return _turned(jnp.asarray(before)[:, None], jnp.asarray(moved)[:, None], LEAST)[:, 0]


def test_what_the_slip_before_has_across_the_mean_one():
    """Of a slip that turns by the angle a on each side of the mean, to the second order in it."""
    angle, size = 1e-3, 0.4
    before = [0.0, size * np.cos(angle), -size * np.sin(angle)]
    found = added(before, [0.1, size, 0.0])
    np.testing.assert_allclose(found, [0.0, 0.0, -size * np.sin(angle)], atol=3 * angle**3)


@pytest.mark.parametrize("moved", [(0.0, 0.0, 0.0), (0.0, 1e-17, -3e-17), (0.0, 1e-10, 2e-10)])
def test_what_sticks_has_no_direction(moved):
    """Whatever round-off leaves of its slip: it adds nothing, to derivatives neither."""
    zero = jnp.zeros(3)
    np.testing.assert_array_equal(added(zero, moved), 0.0)
    for by in (0, 1):
        slope = jax.jacfwd(added, by)(zero, jnp.asarray(moved))
        np.testing.assert_array_equal(slope, 0.0)
