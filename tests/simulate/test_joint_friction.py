"""Dry friction in joints, against closed forms and ordinary differential equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit
from scipy.integrate import solve_ivp

import jaxrb as rb

pytestmark = pytest.mark.slow

G, LENGTH = 9.81, 0.5
ROD = rb.RigidBody(rb.Box((0.02, 0.02, LENGTH / 2)), mass=1.0)
INERTIA = float(ROD.inertia_matrix()[1, 1]) + LENGTH**2 / 4


@jax.jit
def let_go(friction, angle, dt, t1):
    """A rod that hangs from a hinge with dry friction: its angle and rate at the end."""
    turn = jnp.stack([jnp.cos(angle / 2), 0 * angle, jnp.sin(angle / 2), 0 * angle])
    down = -jnp.stack([jnp.sin(angle), 0 * angle, jnp.cos(angle)])
    still = jnp.zeros((1, 3))
    start = rb.State(LENGTH / 2 * down[None], turn[None], still, still)
    hinge = rb.Hinge(0, axis=(0, 1, 0), anchor=(0, 0, LENGTH / 2), friction=friction)
    world = rb.World([ROD], [], joints=[hinge])
    sol = rb.simulate(world, start, rb.LGVCI(dt), t1, throw=False, max_steps=512)
    angle, rate = rb.joint_coordinates(world, sol.final), rb.joint_velocities(world, sol.final)
    return jnp.stack([angle[0], rate[0]]), sol.successful


def swings(friction, angle):
    """Where the rod comes to rest: each swing has friction against it and ends at its turn."""
    while abs(weight := G * LENGTH / 2 * np.sin(angle)) > friction:
        back = np.sign(weight)

        def rate(_, x, back=back):
            return [x[1], (-G * LENGTH / 2 * np.sin(x[0]) + back * friction) / INERTIA]

        def turns(t, x, back=back):
            return x[1] if t > 1e-6 else -back

        turns.terminal = True
        found = solve_ivp(rate, (0, 9), [angle, 0], "DOP853", events=turns, rtol=1e-12, atol=1e-12)
        angle = found.y[0, -1]
    return angle


@pytest.mark.long
def test_a_drawer_stops():
    """After m v^2/(2 F): steps meet that where it stops at the end of one."""
    drawer = rb.RigidBody(rb.Box((0.1, 0.2, 0.05)), mass=3.0)
    world = rb.World([drawer], [], joints=[rb.Slider(0, axis=(2, 0, 0), friction=5.0)])
    still = jnp.zeros((1, 3))
    turn = jnp.array([[1.0, 0, 0, 0]])
    start = rb.State(still, turn, jnp.array([[1.0, 0, 0]]), still)
    sol = rb.simulate(world, start, rb.LGVCI(0.01), 1.0, save=rb.SaveAt(every=10))
    t = np.minimum(np.asarray(sol.ts), 0.6)
    way = t - 5.0 / 3.0 * t**2 / 2
    np.testing.assert_allclose(sol.states.position[:, 0, 0], way, atol=1e-13)
    np.testing.assert_allclose(sol.final.velocity, 0.0, atol=1e-13)


def test_a_hinge_holds_a_rod_up_to_its_friction():
    weight = G * LENGTH / 2 * np.sin(0.7)
    held, good = let_go(weight * (1 + 1e-6), jnp.asarray(0.7), 0.01, 1.0)
    assert bool(good)
    np.testing.assert_allclose(held, [0.7, 0.0], atol=1e-12)
    # Its weight grows with what it has fallen, some 2e-9 rad.
    falls, good = let_go(weight * (1 - 1e-6), jnp.asarray(0.7), 0.01, 0.02)
    assert bool(good)
    np.testing.assert_allclose(falls[1], -1e-6 * weight / INERTIA * 0.02, rtol=5e-3)


def test_a_rod_swings_until_friction_holds_it():
    """It comes to rest where the equation of each swing says, with an error of order 2."""
    expected = swings(0.4, 1.2)
    errors = []
    for dt in (0.01, 0.005):
        (angle, rate), good = let_go(0.4, jnp.asarray(1.2), dt, 2.4)
        assert bool(good) and abs(rate) <= 1e-12
        errors.append(abs(angle - expected))
    assert errors[0] <= 2e-4
    # At each turn the error depends on where in its step it falls.
    assert errors[1] <= errors[0] / 3


def test_without_friction_it_swings_freely():
    """Zero may be traced."""
    free, good = let_go(0.0, jnp.asarray(1.2), 0.01, 0.3)
    assert bool(good)
    pull = lambda _, x: [x[1], -G * LENGTH / 2 * np.sin(x[0]) / INERTIA]  # noqa: E731
    exact = solve_ivp(pull, (0, 0.3), [1.2, 0], "DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    # The flow is of order 2: 60 (dt)^2 at 6 rad/s.
    np.testing.assert_allclose(free, exact, atol=6e-3)


@pytest.mark.long
def test_derivatives_while_it_swings_and_where_it_rests():
    """By friction and the start, against differences of the fourth order."""
    x, h = jnp.array([0.4, 1.2]), 1e-4
    slope_of = quick_jit(jax.grad(lambda x, t1: let_go(x[0], x[1], 0.01, t1)[0][0]))
    for t1 in (0.5, 2.4):
        slope = slope_of(x, t1)
        for k, unit in enumerate(jnp.eye(2)):
            f = [let_go(*(x + s * h * unit), 0.01, t1)[0][0] for s in (-2, -1, 1, 2)]
            expected = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
            np.testing.assert_allclose(slope[k], expected, atol=1e-9)
