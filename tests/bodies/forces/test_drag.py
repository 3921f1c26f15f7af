"""Drag: its power, its direction, and rest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit
from loads import power, state, wrench_at

import jaxrb as rb


def test_force_torque_and_power():
    here, load = state(), rb.Drag(1, linear=0.7, quadratic=0.3, angular=0.2)
    v, omega = np.asarray(here.velocity[1]), np.asarray(here.angular_velocity[1])
    speed = np.linalg.norm(v)
    force, torque = wrench_at(load, here)
    np.testing.assert_allclose(force[1], -(0.7 + 0.3 * speed) * v, rtol=1e-14)
    np.testing.assert_allclose(torque[1], -0.2 * omega, rtol=1e-13)
    lost = -0.7 * speed**2 - 0.3 * speed**3 - 0.2 * omega @ omega
    np.testing.assert_allclose(power(here, force, torque), lost, rtol=1e-13)
    for others in (force, torque):
        assert not np.any(others[np.array([0, 2])])
    assert load.velocity_dependent and not load.conservative and load.bodies == (1,)


def test_default_is_none():
    for part in wrench_at(rb.Drag(0), state()):
        assert not np.any(part)


def test_smooth_at_rest():
    load = rb.Drag(0, linear=0.7, quadratic=0.3, angular=0.2)
    here = state(n=1)

    def force(v):
        moving = rb.State(here.position, here.quaternion, v[None], here.angular_velocity)
        return wrench_at(load, moving)[0][0]

    @quick_jit
    def all_of(v):
        slope = jax.jacrev(force)
        return force(v), slope(v), jax.jacfwd(force)(v), jax.jacfwd(slope)(v)

    rest, slope, forward, curvature = all_of(jnp.zeros(3))
    np.testing.assert_array_equal(rest, 0)
    for found in (slope, forward):
        np.testing.assert_allclose(found, -0.7 * np.eye(3), rtol=1e-15)
    assert np.isfinite(curvature).all()


def test_batches_in_single_precision():
    coefficients = jnp.array([0.1, 0.2, 0.4])
    here = state(np.float32)
    found, _ = jax.vmap(lambda c: wrench_at(rb.Drag(0, c), here))(coefficients)
    assert found.dtype == np.float32
    expected = -np.outer(coefficients, np.asarray(here.velocity[0], float))
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["linear", "quadratic", "angular"])
def test_bad_input(name):
    for value in (-1.0, np.inf, [0.1, 0.1]):
        with pytest.raises(ValueError, match=rf"Drag.{name} must"):
            rb.Drag(0, **{name: value})
    with pytest.raises(ValueError, match=r"Drag.body must be the index of a body"):
        rb.Drag(None)
