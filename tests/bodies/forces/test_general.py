"""Forces by a function: what it is given, what it may return, and potentials."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from loads import minus_gradient, potential_at, state, wrench_at

import jaxrb as rb


def attraction(t, here, args):
    """Of all bodies to the origin, with a torque that turns the z axis of each upward."""
    z = here.rotation_matrix[:, 2, :]  # of the world, in the frames of the bodies
    return -here.position, jnp.cross(jnp.array([0.0, 0.0, 1.0]), z)


def attraction_energy(here):
    return 0.5 * jnp.sum(here.position**2) - jnp.sum(here.rotation_matrix[:, 2, 2])


def test_function_of_time_state_and_args():
    here = state()

    def function(t, seen, args):
        assert isinstance(seen, rb.State)
        return t * args["gain"] * seen.velocity, jnp.cross(seen.angular_velocity, seen.position)

    load = rb.Force(function)
    force, torque = wrench_at(load, here, t=0.3, args={"gain": 2.0})
    np.testing.assert_allclose(force, 0.6 * here.velocity, rtol=1e-13)
    expected = np.cross(here.angular_velocity, here.position)
    np.testing.assert_allclose(torque, expected, atol=1e-14)
    assert load.velocity_dependent and not load.conservative and load.bodies == ()


def test_potential():
    here, load = state(), rb.Force(attraction, potential=attraction_energy)
    assert load.conservative and not load.velocity_dependent
    np.testing.assert_allclose(potential_at(load, here), attraction_energy(here), rtol=1e-14)
    for found, expected in zip(wrench_at(load, here), minus_gradient(load, here), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-14)


def test_velocities_that_are_not_to_be_used_are_no_numbers():
    here = state()

    def function(t, seen, args):
        return seen.velocity, seen.position

    force, torque = wrench_at(rb.Force(function, velocity_dependent=False), here)
    assert np.isnan(force).all()
    np.testing.assert_array_equal(torque, here.position)
    kinetic = rb.Force(function, potential=lambda seen: jnp.sum(seen.velocity**2))
    assert np.isnan(potential_at(kinetic, here))


def test_no_potential():
    with pytest.raises(NotImplementedError, match="Force has no potential"):
        potential_at(rb.Force(attraction), state())


class Field(eqx.Module):
    strength: jax.Array

    def __call__(self, t, here, args):
        return self.strength * here.position, jnp.zeros_like(here.position)


def test_parameters_of_modules_are_differentiated():
    here, load = state(), rb.Force(Field(jnp.asarray(2.0)), velocity_dependent=False)
    slope = jax.jacfwd(lambda load: wrench_at(load, here)[0])(load)
    np.testing.assert_allclose(slope.function.numbers.strength, here.position, rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes_and_batches(dtype):
    """Also of functions that return another dtype, or whole numbers."""
    here = state(dtype)

    def function(t, seen, args):
        return seen.position.astype(jnp.float64) * args.astype(jnp.float64), jnp.ones((3, 3), int)

    load = rb.Force(function)
    force, torque = jax.vmap(lambda gain: wrench_at(load, here, args=gain))(jnp.arange(3.0))
    assert force.dtype == torque.dtype == dtype
    np.testing.assert_array_equal(force[2], 2 * here.position)
    np.testing.assert_array_equal(torque, np.ones((3, 3, 3)))


ZERO = np.zeros((3, 3))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (ZERO, r"a pair \(forces, torques\), both of shape \(3, 3\); got one array of shape"),
        (np.zeros((2, 3, 3)), r"got one array of shape \(2, 3, 3\)"),
        (None, "got None"),
        ((ZERO,), "got a tuple of length 1"),
        ((np.zeros(3), ZERO), r"The forces .* must have shape \(3, 3\); got \(3,\)"),
        ((ZERO, np.zeros((2, 3))), r"The torques .* must have shape \(3, 3\); got \(2, 3\)"),
        ((1j * ZERO, ZERO), "The forces that Force.function returns must be real"),
        ((ZERO, "none"), "The torques that Force.function returns must be an array"),
    ],
)
def test_bad_results(returned, message):
    with pytest.raises(ValueError, match=message):
        wrench_at(rb.Force(lambda t, here, args: returned), state())


def test_bad_potential():
    load = rb.Force(attraction, potential=lambda here: here.position)
    with pytest.raises(ValueError, match=r"Force.potential returns must have shape \(\); got"):
        potential_at(load, state())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rb.Force(1.0), "Force.function must be a function; got 1.0"),
        (lambda: rb.Force(None), "Force.function must be a function; got None"),
        (lambda: rb.Force(attraction, 1.0), "Force.potential must be a function; got 1.0"),
        (lambda: rb.Force(attraction, None, 1), "Force.velocity_dependent must be True or False"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_missing_args_are_told():
    load = rb.Force(lambda t, here, args: args["forces"])
    with pytest.raises(TypeError, match="subscriptable") as raised:
        wrench_at(load, state())
    assert "args of simulate is None" in raised.value.__notes__[0]
