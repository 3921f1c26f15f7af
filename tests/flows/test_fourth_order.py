"""Composed flows: order 4 under loads and through impacts, and what they keep."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit, slope
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import jaxrb as rb

EXACT = rb.FourthOrder(rb.ExactFlight())
G = 9.81


# --- a ball in a viscous fluid, in closed form -------------------------------------------------

RATE, DROP, E = 0.7, 1.0, 0.8  # c/m [1/s], the height that it falls [m], restitution


def height(t, z, v, rate=RATE):
    """After a time, of v' = -g - rate v."""
    return z - G / rate * t + (v + G / rate) * (1 - np.exp(-rate * t)) / rate


def speed(t, v, rate=RATE):
    return -G / rate + (v + G / rate) * np.exp(-rate * t)


def bounce(t1, rate=RATE):
    """The height at t1, after one impact."""
    t = brentq(lambda t: height(t, DROP, 0.0, rate), 0.1, 1.0, xtol=1e-15)
    return height(t1 - t, 0.0, -E * speed(t, 0.0, rate), rate)


def drop(flow, dt, rate=RATE, restitution=E):
    law, drag = rb.Frictionless(restitution), rb.Drag(0, linear=2.0 * rate)
    body = rb.RigidBody(rb.Sphere(0.1), 2.0)
    world = rb.World([body], [rb.HalfSpace()], contact_law=law, forces=[drag])
    zero = jnp.zeros((1, 3), jnp.result_type(rate))
    start = rb.State(zero.at[0, 2].set(DROP + 0.1), jnp.eye(1, 4, dtype=zero.dtype), zero, zero)
    method = rb.EventDriven(flow, dt, on_zeno="stop")
    return world, start, rb.simulate(world, start, method, 0.8, max_steps=40)


@pytest.mark.slow
@pytest.mark.parametrize("flow", [rb.FourthOrder(rb.LieVariational()), EXACT], ids=["lie", "exact"])
def test_a_bounce_with_drag_is_of_order_4(flow):
    numbers, errors = np.array([4, 6, 8, 12, 24]), []
    for n in numbers:
        sol = drop(flow, 0.8 / n)[2]
        assert int(sol.impacts.count) == 1
        errors.append(abs(float(sol.final.position[0, 2]) - 0.1 - bounce(0.8)))
    # The impact comes somewhere within a step, which roughens the slope.
    assert 3.5 < slope(1 / numbers, errors) < 4.5
    assert errors[-1] < 3e-8


@pytest.mark.long
def test_derivatives_by_a_load_in_both_modes_and_precisions():
    """Of the height after the bounce by the drag, against differences of its closed form."""

    def end(rate):
        return drop(rb.FourthOrder(rb.LieVariational()), 0.02, rate)[2].final.position[0, 2]

    step = 1e-3
    values = [bounce(0.8, RATE + k * step) for k in (-2, -1, 1, 2)]
    expected = np.dot(values, [1, -8, 8, -1]) / (12 * step)
    for mode in (jax.grad, jax.jacfwd):
        by_rate = quick_jit(jax.vmap(mode(end)))
        np.testing.assert_allclose(by_rate(jnp.full(2, RATE)), expected, rtol=1e-8)
    single = by_rate(jnp.full(2, RATE, jnp.float32))
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, expected, rtol=1e-4)


@pytest.mark.slow
def test_the_work_of_a_load_is_the_energy_that_is_lost():
    """To round-off: each kick changes the kinetic energy by its work; flights and impacts without
    loss keep it."""
    world, start, sol = drop(EXACT, 0.05, restitution=1.0)
    assert int(sol.impacts.count) == 1 and float(sol.stats.work) < -1.0
    lost = float(rb.energy(world, start) - rb.energy(world, sol.final))
    assert abs(lost + float(sol.stats.work)) < 1e-12


# --- rotation ----------------------------------------------------------------------------------

MOMENTS, SPIN, TORQUE = np.array([1.0, 1.25, 2.0]), np.array([1.0, 2.0, -0.5]), [0.3, -0.2, 0.5]


def test_a_body_under_a_torque_is_of_order_4():
    """A torque that is constant in the body, against DOP853 at 1e-13."""

    def rate(_, y):
        q, w = y[:4], y[4:]
        spin = (np.cross(MOMENTS * w, w) + TORQUE) / MOMENTS
        scalar, vector = -q[1:] @ w, q[0] * w + np.cross(q[1:], w)
        return np.concatenate([[scalar / 2], vector / 2, spin])

    start = np.concatenate([[1.0, 0, 0, 0], SPIN])
    exact = solve_ivp(rate, (0, 2.0), start, method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]

    world = rb.World(
        [rb.RigidBody(rb.Sphere(0.1), 1.0, MOMENTS)],
        gravity=(0, 0, 0.0),
        forces=[rb.Torque(0, TORQUE)],
    )
    zero = np.zeros((1, 3))
    state = rb.State(zero, np.eye(1, 4), zero, SPIN[None])
    numbers, errors = np.array([10, 14, 20, 28]), []
    for n in numbers:
        final = rb.simulate(world, state, rb.EventDriven(EXACT, 2.0 / n), 2.0, max_steps=28).final
        found = np.concatenate([final.quaternion[0], final.angular_velocity[0]])
        errors.append(np.abs(found - exact).max())
    assert abs(slope(1 / numbers, errors) - 4) < 0.2


@pytest.mark.slow
def test_the_energy_of_a_pinned_body_stays():
    """A composition of steps that keep the energy keeps it."""
    body = rb.RigidBody(rb.Sphere(0.1), 1.0, MOMENTS / 10)
    world = rb.World([body], joints=[rb.Pin(0, (0.0, 0.0, -0.5))])
    # At rest in the first moment, tilted by 60 degrees.
    q = np.array([[np.cos(np.pi / 6), np.sin(np.pi / 6), 0, 0]])
    at = np.array([[0.0, -0.5 * np.sin(np.pi / 3), 0.5 * np.cos(np.pi / 3)]])
    state = rb.State(at, q, np.zeros((1, 3)), np.zeros((1, 3)))
    flow = rb.FourthOrder(rb.QuaternionEnergyMomentum())
    sol = rb.simulate(world, state, rb.EventDriven(flow, 0.02), 5.0)
    assert abs(float(sol.final.velocity[0, 2])) > 0.1
    first, last = sol.stats.energy
    assert abs(float(last - first)) < 1e-12


@pytest.mark.parametrize("flow", [3, EXACT])
def test_what_is_refused(flow):
    with pytest.raises(ValueError, match="must be a flow of order 2"):
        rb.FourthOrder(flow)


def test_pinned_bodies_are_refused_by_the_name_of_the_flow():
    body = rb.RigidBody(rb.Sphere(0.1), 1.0)
    world = rb.World([body], joints=[rb.Pin(0, (0.0, 0.0, -0.5))])
    state = rb.State([[0, 0, 0.5]], np.eye(1, 4), np.zeros((1, 3)), np.zeros((1, 3)))
    with pytest.raises(ValueError, match=r"FourthOrder.*joints"):
        rb.simulate(world, state, rb.EventDriven(EXACT, 0.1), 1.0)
