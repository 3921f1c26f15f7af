"""Jacobians of motions: closed forms of flight and of a bounce, differences through friction.

All but a few tests use one program, of two lanes at once.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, quick_jit

import jaxrb as rb
from jaxrb import optimize as ro

pytestmark = pytest.mark.slow  # the shared program takes half a minute to compile

G, RADIUS = 9.81, 0.1
METHOD = rb.EventDriven(rb.ExactFlight(), dt=None, on_zeno="stop")
IDENTITY = np.array([1.0, 0.0, 0.0, 0.0])


def world(friction=0.0, restitution=1.0, axes=(RADIUS,) * 3, moments=(4e-3,) * 3, gravity=G):
    body = rb.RigidBody(rb.Ellipsoid(jnp.asarray(axes)), 1.0, jnp.asarray(moments))
    law = rb.Coulomb(jnp.asarray(friction), jnp.asarray(restitution))
    return rb.World(
        [body], [rb.HalfSpace()], gravity=jnp.asarray([0, 0, -gravity]), contact_law=law
    )


def state(position, velocity, spin=(0.0, 0.0, 0.0), quaternion=IDENTITY):
    rows = (position, quaternion, velocity, spin)
    return rb.State(*(jnp.asarray(row, float)[None] for row in rows))


@quick_jit
@jax.vmap
def mapped(world, state, t1):
    return ro.flow_map(world, state, METHOD, t1, throw=False)


def both(*cases):
    """Two cases of a world, a state and a time, and what is found of each."""
    cases = [(w, s, jnp.asarray(t)) for w, s, t in cases]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *cases)
    found = mapped(*stacked)
    return [jax.tree.map(lambda leaf, k=k: np.asarray(leaf[k]), found) for k in range(2)]


@pytest.mark.long
def test_free_flight_and_an_elastic_bounce_without_gravity():
    """In flight a change of the start stays, and one of a velocity grows with time; at a wall the
    normal component of both is reflected. Of a ball that does not spin turns are the same."""
    flying = world(), state([0, 0, 5.0], [1.0, 0.5, 2.0]), 0.7
    bouncing = world(gravity=0.0), state([0, 0, 0.6], [1.0, 0.5, -1.0]), 0.8
    free, bounced = both(flying, bouncing)
    shear = np.kron(np.array([[1.0, 1.0], [0.0, 1.0]]), np.eye(6))

    def expected(t):
        return np.where(np.kron([[0, 1], [0, 0]], np.ones((6, 6))) > 0, t * shear, shear)

    np.testing.assert_allclose(free.by_state, expected(0.7), atol=1e-12)
    place = [0.7, 0.35, 5 + 2 * 0.7 - G * 0.7**2 / 2]
    np.testing.assert_allclose(free.state.position[0], place, atol=1e-13)
    reflected = expected(0.8)
    # Rows and columns 2 and 8 are the height and its rate.
    reflected[[2, 8]] *= -1.0
    np.testing.assert_allclose(bounced.by_state, reflected, atol=1e-12)
    np.testing.assert_allclose(bounced.state.position[0, 2], 0.1 + 0.3, atol=1e-13)


def test_the_time_of_a_bounce_moves_with_the_start():
    """From h above the contact at speed v, the impact is at t = (v + u)/g with speed
    u = sqrt(v^2 + 2 g h), and after it z = e u s - g s^2/2 with s = T - t."""
    cases = []
    for e, h, v, T in ((1.0, 0.9, 0.0, 0.6), (0.7, 0.5, 1.0, 0.75)):
        cases.append((world(restitution=e), state([0, 0, RADIUS + h], [0.3, 0, v]), T))
    for found, (e, h, v, T) in zip(
        both(*cases), ((1.0, 0.9, 0.0, 0.6), (0.7, 0.5, 1.0, 0.75)), strict=True
    ):
        u = np.sqrt(v**2 + 2 * G * h)
        s = T - (v + u) / G
        assert 0 < s < 2 * e * u / G  # one bounce
        u_by, t_by = np.array([G, v]) / u, np.array([1 / u, (1 + v / u) / G])
        expected = [e * u_by * s - (e * u - G * s) * t_by, e * u_by + G * t_by]
        block = found.by_state[np.ix_([2, 8], [2, 8])]
        np.testing.assert_allclose(block, expected, atol=1e-12)
        np.testing.assert_allclose(found.state.position[0, 2], 0.1 + e * u * s - G * s**2 / 2)
        # Volume of phase space shrinks by e^2 at an impact.
        np.testing.assert_allclose(np.linalg.det(block), e**2, rtol=1e-12)


TUMBLING = state([0, 0, 0.5], [1.5, -0.7, -0.4], [2.0, -3.0, 1.0], [0.8, 0.36, -0.48, 0.0])
AXES, MOMENTS = (0.1, 0.15, 0.2), (0.0125, 0.01, 0.0065)


@pytest.mark.parametrize("friction", [0.05, 2.0])
def test_differences_through_a_frictional_impact(friction):
    """Of an ellipsoid that slides through the impact, and of one that sticks."""
    where = world(friction, 0.6, AXES, MOMENTS)
    T = 0.35
    found, _ = both((where, TUMBLING, T), (where, TUMBLING, T))
    base = jax.tree.map(jnp.asarray, found.state)
    hit = jax.tree.map(jnp.asarray, (where, T))

    def end(step):
        moved = TUMBLING.retract(jnp.asarray(step).reshape(1, 12))
        one, _ = both((hit[0], moved, T), (hit[0], moved, T))
        return np.asarray(base.local(jax.tree.map(jnp.asarray, one.state))).reshape(-1)

    # Derivatives of some tens and higher ones that grow likewise: truncation h^4 with a step of
    # 1e-4 is 1e-10 of them, round-off 1e-16/h = 1e-12.
    expected = differences(end, np.zeros(12), step=1e-4)
    assert np.abs(expected).max() > 5  # the impact is in it
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found.by_state / scale, expected / scale, atol=1e-7)


def test_a_failed_simulation_has_no_derivative():
    """A body that starts in the ground, beside one that does not."""
    inside = world(), state([0, 0, 0.0], [0.0, 0, 0]), 0.5
    failed, flown = both(inside, (world(), state([0, 0, 5.0], [0.0, 0, 0]), 0.5))
    assert np.isnan(failed.by_state).all() and np.isnan(failed.state.position).all()
    assert np.isfinite(flown.by_state).all()


@pytest.mark.long
def test_it_is_differentiated_by_the_restitution():
    """The height after a bounce by the height before, e G s/u - (e u - G s)/u, by e: G s/u - 1."""
    h, T = 0.9, 0.6
    u = np.sqrt(2 * G * h)
    s = T - u / G

    def block(e):
        found = ro.flow_map(
            world(restitution=e), state([0, 0, RADIUS + h], [0.3, 0, 0]), METHOD, T, throw=False
        )
        return found.by_state[2, 2]

    value, slope = quick_jit(lambda e: jax.jvp(block, (e,), (jnp.ones(()),)))(jnp.asarray(0.8))
    np.testing.assert_allclose(value, 0.8 * G * s / u - (0.8 * u - G * s) / u, atol=1e-12)
    np.testing.assert_allclose(slope, G * s / u - 1, atol=1e-11)


def test_what_is_refused():
    with pytest.raises(ValueError, match="state must be a State; got dict"):
        ro.flow_map(world(), {}, METHOD, 1.0)
    with pytest.raises(RuntimeError, match="penetrat"):
        ro.flow_map(world(), state([0, 0, 0.0], [0.0, 0, 0]), METHOD, 0.5)
