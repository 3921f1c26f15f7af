"""Continuous time close to grazing, and the turns that it takes."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb

CONTINUOUS = rb.EventDriven(rb.ExactFlight(), dt=None)
G, RADIUS, ROOM, T1 = 9.81, 0.1, 0.5, 0.6


def thrown_up(depths, along):
    """Balls thrown, spinning, towards a ceiling, into which they would rise by some depths; it is
    tilted with gravity, along a normal."""
    normal = np.asarray(along) / np.linalg.norm(along)
    world = rb.World(
        [rb.RigidBody(rb.Sphere(RADIUS), 0.7, (0.003, 0.0035, 0.004))],
        [rb.HalfSpace(-normal, -RADIUS - ROOM)],
        gravity=-G * normal,
    )
    n = len(depths)
    speeds = np.sqrt(2 * G * (ROOM + np.asarray(depths)))
    still = np.zeros((n, 1, 3))
    spin = np.random.default_rng(0).normal(size=(n, 1, 3)) * 20
    states = rb.State(
        jnp.asarray(still),
        jnp.tile(jnp.array([1.0, 0, 0, 0]), (n, 1, 1)),
        jnp.asarray(speeds[:, None, None] * normal),
        jnp.asarray(spin),
    )
    save = rb.SaveAt(final=True, impacts=1)
    sol = rb.simulate_batch(world, states, CONTINUOUS, T1, save=save)
    return normal, speeds, sol


DEPTHS = 10.0 ** -np.arange(1, 11)


@pytest.mark.slow
@pytest.mark.parametrize("along", [(0.0, 0.0, 1.0), (0.3, -0.5, 0.8)])
def test_balls_that_nearly_graze_a_ceiling(along):
    """From 0.1 m to 0.1 nm too high they hit it, with c = sqrt(2 g depth) at (v - c)/g, and fall
    from there with c; as much too low they do not."""
    normal, v, sol = thrown_up(np.concatenate([DEPTHS, -DEPTHS]), along)
    n, c = len(DEPTHS), np.sqrt(2 * G * DEPTHS)
    np.testing.assert_array_equal(sol.impacts.count, [1] * n + [0] * n)
    time = (v[:n] - c) / G
    height = v * T1 - G * T1**2 / 2
    height[:n] -= 2 * c * (T1 - time)
    # The gap has a round-off of eps times the lengths, and v^2 - 2 g h one of the squares: times
    # and speeds of hits have it over c.
    round_off = 4e-15 / c
    assert np.all(np.abs(sol.impacts.time[:n, 0] - time) <= round_off)
    found = sol.final.position[:, 0] @ normal
    # Heights have twice that of both.
    assert np.all(np.abs(found - height)[:n] <= 4 * round_off)
    np.testing.assert_allclose(found[n:], height[n:], rtol=0, atol=4e-15)
    across = sol.final.position[:, 0] - np.multiply.outer(found, normal)
    np.testing.assert_allclose(across, 0.0, atol=1e-15)
    # One turn to the impact and one to the end.
    assert np.asarray(sol.stats.flow_evaluations).max() <= 4


def coins(n, spin):
    rng = np.random.default_rng(1)
    quaternion = rng.normal(size=(n, 1, 4))
    omega = rng.normal(size=(n, 1, 3))
    omega *= spin / np.linalg.norm(omega, axis=-1, keepdims=True)
    place = np.zeros((n, 1, 3))
    place[..., 2] = rng.uniform(0.1, 0.3, (n, 1))
    return rb.State(
        jnp.asarray(place),
        jnp.asarray(quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)),
        jnp.asarray(rng.normal(size=(n, 1, 3)) * 0.3),
        jnp.asarray(omega),
    )


@pytest.mark.slow
def test_turns_of_fast_coins():
    """They follow the impacts, not the rotations, of which there are 0.6 or 64."""
    coin = rb.RigidBody(rb.Cylinder(0.012, 0.001), 0.005)
    world = rb.World([coin], [rb.HalfSpace()], gravity=(0, 0, -G))
    for spin in (10.0, 1000.0):
        sol = rb.simulate_batch(world, coins(4096, spin), CONTINUOUS, 0.4)
        turns, flights = np.asarray(sol.stats.flow_evaluations), np.asarray(sol.impacts.count) + 1
        assert flights.min() >= 2
        # Seen were 132 of a coin with 12 flights, 33 a flight, and 5.3 and 9.6 of all flights.
        assert turns.max() <= 200 and (turns / flights).max() <= 50
        assert turns.sum() <= 12 * flights.sum()
