"""Derivatives of a controlled flight by what its input is given by, through an impact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences, quick_jit

import jaxrb as rb

DT, STEP = 0.02, 1e-4
# Loads act at the middles of steps, where a knot has a derivative of either side: none is nearer
# to one, and to the end of a step, than the differences reach. The last one is after the end.
KNOTS = np.array([0.053, 0.314, 0.637, 0.9])
PUSH = np.array([[0.3, -1.0, 2.0], [1.0, 0.4, -6.0], [-0.5, 0.8, 9.0], [0.2, -0.3, 1.0]])
NUMBERS = np.concatenate([KNOTS, PUSH.ravel()])


def flown(numbers, kind, by_args):
    """A ball with a thruster beside its centre is thrown, spinning, at a floor with friction."""
    thrust, args = kind(numbers[:4], numbers[4:].reshape(4, 3)), None
    if by_args:
        thrust, args = (lambda t, args: args["thrust"](t)), {"thrust": thrust}
    world = rb.World(
        [rb.RigidBody(rb.Sphere(0.1), 0.7)],
        [rb.HalfSpace()],
        gravity=(0, 0, -9.81),
        forces=[rb.Thruster(0, thrust, anchor=(0.02, 0.0, 0.01))],
        contact_law=rb.Coulomb(0.2, 0.8),
    )
    start = rb.State([[0.0, 0, 0.8]], [[1.0, 0, 0, 0]], [[0.5, 0.1, -0.4]], [[1.0, -2.0, 0.5]])
    save = rb.SaveAt(final=True, impacts=2)
    return rb.simulate(world, start, rb.LGVCI(dt=DT), 0.8, save=save, args=args)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "by_args"),
    [(rb.PiecewiseLinear, False), *before_releases((rb.PiecewiseConstant, True))],
)
def test_derivatives_by_knots_and_values(kind, by_args):
    """In both modes, by an input in the world and by one in args."""
    middles = DT * (np.arange(40) + 0.5)
    assert np.abs(np.subtract.outer(KNOTS, middles)).min() > 2 * STEP

    def motion(numbers):
        sol = flown(numbers, kind, by_args)
        end = sol.final
        parts = (end.position, end.quaternion, end.velocity, end.angular_velocity)
        return jnp.concatenate([part[0] for part in parts]), sol.impacts.time

    def final(numbers):
        return motion(numbers)[0]

    numbers, run = jnp.asarray(NUMBERS), jax.jit(motion)
    times = np.asarray(run(numbers)[1])
    assert KNOTS[1] < times[0] < KNOTS[2] and np.isinf(times[1])
    expected = differences(lambda x: run(x)[0], numbers, STEP)
    # Some derivatives are of order 40: round-off over the step, and truncation, are below 1e-9.
    for mode in (jax.jacfwd, jax.jacrev):
        found = quick_jit(mode(final))(numbers)
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-9)
    by_knots, by_values = np.abs(expected[:, :4]).max(0), np.abs(expected[:, 4:]).max(0)
    if kind is rb.PiecewiseLinear:
        # The last value is approached from the third knot on.
        assert by_knots.min() > 1 and by_values.min() > 0.1
    else:
        # Knots that are moved by less than to the next middle of a step change nothing.
        np.testing.assert_allclose(by_knots, 0.0, atol=1e-10)
        np.testing.assert_array_equal(found[:, :4], 0.0)
        assert by_values[:9].min() > 0.1
