"""Starts that penetrate a little, as measured poses do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit

import jaxrb as rb

RADIUS, G, DEPTH = 0.5, 9.81, 1e-4


def drop(height, speed, e, t1=0.1, *, depth=1e-3, law=None, **options):
    """A ball whose centre starts at a height, with a velocity along z."""
    law = rb.Frictionless(e) if law is None else law
    world = rb.World([rb.RigidBody(rb.Sphere(RADIUS))], [rb.HalfSpace()], contact_law=law)
    state = rb.State(
        jnp.stack([0 * height, 0 * height, height])[None],
        jnp.array([[1.0, 0, 0, 0]]),
        jnp.stack([0 * speed, 0 * speed, speed])[None],
        jnp.zeros((1, 3)),
    )
    method = rb.LGVCI(dt=0.01, penetration=depth, **options)
    save = rb.SaveAt(final=True, impacts=2)
    return rb.simulate(world, state, method, t1, save=save, throw=False)


@pytest.mark.parametrize("law", [None, rb.Coulomb(0.2, 0.5)])
@pytest.mark.slow
def test_a_contact_that_approaches_is_an_impact_at_once(law):
    """From there on it flies as from the same height with the velocity after."""
    sol = drop(jnp.asarray(RADIUS - DEPTH), jnp.asarray(-1.0), 0.5, law=law, on_zeno="stop")
    assert sol.successful and int(sol.impacts.count) == 1
    assert 0 <= float(sol.impacts.time[0]) < 1e-15
    expected = RADIUS - DEPTH + 0.5 * 0.1 - G * 0.1**2 / 2
    np.testing.assert_allclose(sol.final.position[0, 2], expected, rtol=0, atol=1e-14)


@pytest.mark.slow
def test_its_derivatives_are_those_of_a_flight_from_there():
    def height(start, speed, e):
        return drop(start, speed, e, on_zeno="stop").final.position[0, 2]

    at = (jnp.asarray(RADIUS - DEPTH), jnp.asarray(-1.0), jnp.asarray(0.5))
    for mode in (jax.jacfwd, jax.jacrev):
        found = quick_jit(mode(height, argnums=(0, 1, 2)))(*at)
        np.testing.assert_allclose(found, [1.0, -0.5 * 0.1, 0.1], rtol=1e-12)


@pytest.mark.slow
def test_one_that_recedes_flies_on():
    sol = drop(jnp.asarray(RADIUS - DEPTH), jnp.asarray(1.0), 0.5)
    assert sol.successful and int(sol.impacts.count) == 0
    expected = RADIUS - DEPTH + 0.1 - G * 0.1**2 / 2
    np.testing.assert_allclose(sol.final.position[0, 2], expected, rtol=0, atol=1e-14)


@pytest.mark.slow
def test_one_that_lies_there_is_pushed_out():
    sol = drop(jnp.asarray(RADIUS - DEPTH), jnp.asarray(0.0), 0.5)
    assert sol.successful
    np.testing.assert_allclose(sol.final.position[0, 2], RADIUS, rtol=0, atol=1e-14)
    np.testing.assert_allclose(sol.final.velocity, 0, atol=1e-13)


@pytest.mark.slow
def test_more_than_is_allowed_is_a_code():
    sol = drop(jnp.asarray(RADIUS - 2e-3), jnp.asarray(-1.0), 0.5)
    assert sol.result == rb.RESULTS.initial_penetration
    sol = drop(jnp.asarray(RADIUS - 1e-9), jnp.asarray(-1.0), 0.5, depth=0.0)
    assert sol.result == rb.RESULTS.initial_penetration
    with pytest.raises(ValueError, match="penetration must not be negative"):
        rb.LGVCI(dt=0.01, penetration=-1e-3)
