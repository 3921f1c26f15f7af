"""Exponents and growth along trajectories: invariants of the flow, and closed forms of flight.

The tests but one share two programs, of the trajectory and of the parts.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb import optimize as ro

slow = pytest.mark.slow  # the programs take half a minute to compile

METHOD = rb.EventDriven(rb.ExactFlight(), dt=None, on_zeno="stop")
WORLD = rb.World(
    [
        rb.RigidBody(
            rb.Ellipsoid(jnp.asarray([0.1, 0.15, 0.2])), 1.0, jnp.asarray([0.0125, 0.01, 0.0065])
        )
    ],
    [rb.HalfSpace()],
    contact_law=rb.Frictionless(1.0),
)


def state(height, velocity=(0.5, 0.2, 0.0), spin=(2.0, -3.0, 1.0)):
    rows = ([0.0, 0.0, height], [0.8, 0.36, -0.48, 0.0], velocity, spin)
    return rb.State(*(jnp.asarray([row]) for row in rows))


@pytest.fixture(scope="module")
def bounces():
    """Sixteen parts of a body that bounces without loss."""
    return ro.lyapunov(WORLD, state(0.5), METHOD, 8.0, every=0.5)


@pytest.mark.long
@slow
def test_shapes_and_times(bounces):
    np.testing.assert_allclose(bounces.ts, np.linspace(0, 8, 17), atol=1e-14)
    assert bounces.by_state.shape == (16, 12, 12)
    assert bounces.growth.shape == (16,) and bounces.exponents.shape == (12,)
    assert (np.diff(bounces.exponents) <= 0).all()


@slow
def test_volume_is_kept_and_exponents_are_pairs(bounces):
    """Impacts without friction and loss are canonical, as flight is: Liouville's theorem holds of
    each part to round-off, some 1e2 an impact. The Jacobians are canonical up to the units and
    frames of the two ends, which do not grow, so that pairs cancel as their logarithm over time."""
    np.testing.assert_allclose(np.abs(np.linalg.det(bounces.by_state)), 1.0, rtol=1e-9)
    np.testing.assert_allclose(np.sum(bounces.exponents), 0.0, atol=1e-10)
    sums = bounces.exponents + bounces.exponents[::-1]
    # A chaotic body: differences grow by exp(8) or more. Factors of exp(0.26 * 8) = 8 are allowed.
    assert bounces.exponents[0] > 1.0
    np.testing.assert_allclose(sums, 0.0, atol=0.05 * bounces.exponents[0])


@slow
def test_exponents_are_those_of_the_whole_map(bounces):
    """The largest is the logarithm of how much the product of all parts stretches, over the time,
    up to that of the angle at which the first direction was chosen."""
    whole = np.linalg.multi_dot(bounces.by_state[::-1])
    largest = np.log(np.linalg.norm(whole, 2)) / 8.0
    assert abs(bounces.exponents[0] - largest) < np.log(100) / 8.0


@slow
def test_growth_is_the_largest_singular_value(bounces):
    """Of `flow_map` from the state at the start of a part, in a simulation of its own."""
    start = rb.simulate(WORLD, state(0.5), METHOD, 1.0).final
    by_state = ro.flow_map(WORLD, start, METHOD, 1.5, 1.0).by_state
    largest = np.sqrt(np.linalg.eigvalsh(by_state.T @ by_state).max())
    np.testing.assert_allclose(bounces.growth[2], largest, rtol=1e-9)


@slow
def test_free_flight_stretches_as_a_shear():
    """Of [[1, t], [0, 1]] the largest singular value is t/2 + sqrt(1 + t^2/4); a body that does
    not spin is sheared so in each coordinate. A difference grows only as fast as time."""
    found = ro.lyapunov(WORLD, state(1e3, spin=(0.0, 0.0, 0.0)), METHOD, 8.0, every=0.5)
    np.testing.assert_allclose(found.growth, 0.25 + np.sqrt(1 + 0.25**2), rtol=1e-12)
    # Of QR of [[1, T], [0, 1]], of columns (1, 0) and (T, 1): 1 and 1.
    np.testing.assert_allclose(found.exponents, 0.0, atol=1e-12)


@slow
def test_the_last_part_may_be_shorter():
    found = ro.lyapunov(WORLD, state(1e3, spin=(0.0, 0.0, 0.0)), METHOD, 7.75, every=0.5)
    np.testing.assert_allclose(np.diff(found.ts), [0.5] * 15 + [0.25])
    np.testing.assert_allclose(found.growth[-1], 0.125 + np.sqrt(1 + 0.125**2), rtol=1e-12)


@slow
def test_the_same_call_compiles_nothing_anew(bounces):
    # The function hides the module of its name from `from jaxrb.optimize import`.
    program = sys.modules["jaxrb.optimize.lyapunov"]._jacobians
    before = program._cache_size()
    assert before > 0
    ro.lyapunov(WORLD, state(0.6), METHOD, 8.0, every=0.5)
    assert program._cache_size() == before


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"t1": 0.0}, "t1 must lie after t0; got t0 = 0.0, t1 = 0.0"),
        ({"t1": 1.0, "t0": 2.0}, "t1 must lie after t0"),
        ({"t1": np.inf}, "t1 must be finite"),
        ({"t1": 1.0, "every": 0.0}, "every must be positive"),
        ({"t1": 1.0, "every": np.nan}, "every must be finite"),
    ],
)
def test_times_that_are_refused(changed, says):
    given = {"every": 0.5, **changed}
    with pytest.raises(ValueError, match=says):
        ro.lyapunov(WORLD, state(0.5), METHOD, **given)


def test_traced_times_are_refused():
    with pytest.raises(ValueError, match="t1 must be a number"):
        jax.jit(lambda t: ro.lyapunov(WORLD, state(0.5), METHOD, t, every=0.5).growth)(1.0)
