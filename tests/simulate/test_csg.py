"""Solids whose closest point is searched bounce like all others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit
from scipy.spatial.transform import Rotation

import jaxrb as rb

APART, G = 0.6, 9.81
RIM = np.sqrt(1 - APART**2)
INERTIA = np.array([0.2, 0.2, 0.3])
LENS = rb.Intersection(
    rb.Placed(rb.Sphere(1.0), (0.0, 0.0, APART)), rb.Placed(rb.Sphere(1.0), (0.0, 0.0, -APART))
)


def reach(d):
    """The support function of the lens: of its rim, or of the far side of a sphere."""
    d = np.asarray(d) / np.linalg.norm(d)
    across = np.hypot(d[0], d[1])
    return RIM * across if abs(d[2]) < APART else 1 - APART * abs(d[2])


def scene(height=1.5, spin=(2.0, 3.0, 1.0), e=1.0):
    body = rb.RigidBody(LENS, mass=1.0, inertia=INERTIA)
    world = rb.World([body], [rb.HalfSpace()], contact_law=rb.Frictionless(e))
    height = jnp.asarray(height)
    zero = jnp.zeros_like(height)
    state = rb.State(
        jnp.stack([zero, zero, height])[None],
        jnp.array([[0.9, 0.1, 0.4, 0.1]]) / jnp.sqrt(0.99),
        jnp.array([[0.3, 0.0, -1.0]]),
        jnp.asarray(spin, float)[None],
    )
    return world, state


@pytest.mark.long
def test_a_lens_bounces_on_its_rim_and_on_its_sides():
    world, state = scene()
    save = rb.SaveAt(every=10, impacts=16)
    sol = rb.simulate(world, state, rb.LGVCI(dt=0.01), 3.0, save=save)
    n = int(sol.impacts.count)
    assert n >= 4
    # At impacts the lowest point is on the plane, by the closed form.
    before = jax.tree.map(lambda leaf: np.asarray(leaf[:n, 0]), sol.impacts.before)
    turns = Rotation.from_quat(before.quaternion, scalar_first=True)
    downs = turns.inv().apply([0.0, 0.0, -1.0])
    low = before.position[:, 2] - [reach(d) for d in downs]
    np.testing.assert_allclose(low, 0.0, atol=1e-13)
    energy = np.asarray(jax.vmap(lambda s: rb.energy(world, s))(sol.states))
    np.testing.assert_allclose(energy, energy[0], rtol=1e-11)


@pytest.mark.long
def test_the_derivative_of_a_bounce_in_both_modes():
    """Against central differences of fourth order; one impact."""

    def height(start):
        world, state = scene(start)
        return rb.simulate(world, state, rb.LGVCI(dt=0.02), 0.6).final.position[0, 2]

    h, at = 1e-4, 1.5
    run = jax.jit(height)
    f = [float(run(jnp.asarray(at + k * h))) for k in (-2, -1, 1, 2)]
    expected = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
    assert abs(expected - 1) > 0.1  # it did bounce
    forward = quick_jit(jax.jacfwd(height))(jnp.asarray(at))
    reverse = quick_jit(jax.grad(height))(jnp.asarray(at))
    np.testing.assert_allclose(forward, expected, rtol=1e-8)
    np.testing.assert_allclose(reverse, forward, rtol=1e-12)


@pytest.mark.slow
def test_a_closest_point_that_is_not_found_has_a_code():
    """Two balls that do not meet: nothing is there to touch the plane."""
    nothing = rb.Intersection(rb.Sphere(0.5), rb.Placed(rb.Sphere(0.5), (2.0, 0.0, 0.0)))
    world, state = scene()
    body = rb.RigidBody(nothing, mass=1.0, inertia=INERTIA)
    world = rb.World([body], world.obstacles)
    sol = rb.simulate(world, state, rb.LGVCI(dt=0.01), 0.1, throw=False)
    assert sol.result == rb.RESULTS.closest_point_not_found
    with pytest.raises(RuntimeError, match="closest to an obstacle or a ball was not found"):
        rb.simulate(world, state, rb.LGVCI(dt=0.01), 0.1)
