"""Derivatives of the forces of contacts that last, in one step and along a trajectory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, quick_jit

import jaxrb as rb

GRAVITY, DT = 9.81, 0.01
RADIUS, BALL, MASS = 1.0, 0.2, 2.0
STEPPED = [
    pytest.param(rb.MoreauJean(DT, scheme=scheme, impacts="stepped"), marks=pytest.mark.slow)
    for scheme in ("implicit", "semi_explicit")
]
LASTING = [
    rb.MoreauJean(DT, impacts="stepped"),
    *STEPPED,
    pytest.param(rb.MoreauJean(DT), marks=pytest.mark.slow),
    *before_releases(rb.LGVCI(DT, on_zeno="rest")),
]


@pytest.mark.slow
@pytest.mark.parametrize("method", LASTING)
def test_a_box_that_is_pressed_to_a_wall_and_slides(method):
    """The wall pushes back with all of the force, and rubs with mu times it. Corners share both in
    one of many ways; their sums are unique."""
    yaw = jnp.array([np.cos(0.35), 0, 0, np.sin(0.35)])
    out = np.array([np.cos(0.7), np.sin(0.7), 0.0])
    place = np.array([0.3, 0.2, 0.1])
    wall, box = rb.Placed(rb.Box((0.1, 1.0, 1.0)), place, yaw), rb.Box((0.1, 0.2, 0.15))
    start = rb.State(
        place + 0.2 * out[None], yaw[None], jnp.array([[0, 0, -0.1]]), np.zeros((1, 3))
    )

    def force(numbers):
        push, friction = numbers
        world = rb.World(
            [rb.RigidBody(box, MASS)],
            [wall],
            gravity=(0, 0, -GRAVITY),
            contact_law=rb.Coulomb(friction, 0.0),
            forces=[rb.ConstantForce(0, -push * out)],
        )
        found = rb.contact_forces(world, start, method)
        return jnp.sum(found.vector, axis=0)

    push, friction, up = 20.0, 0.5, np.array([0, 0, 1.0])

    @quick_jit
    def both_modes(numbers):
        along = jax.jvp(force, (numbers,), (jnp.array([1.0, 0.0]),))
        return *along, jax.grad(lambda numbers: force(numbers) @ (out + up))(numbers)

    value, by_push, gradient = both_modes(jnp.array([push, friction]))
    np.testing.assert_allclose(value, push * (out + friction * up), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(by_push, out + friction * up, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient, [1 + friction, push], rtol=1e-9)


def test_a_box_on_a_frictionless_slope():
    """Its weight holds it to the slope by its cosine."""

    def force(angle):
        world = rb.World(
            [rb.RigidBody(rb.Box((0.1, 0.2, 0.15)), MASS)],
            [rb.HalfSpace()],
            gravity=(GRAVITY * jnp.sin(angle), 0, -GRAVITY * jnp.cos(angle)),
            contact_law=rb.Frictionless(0.0),
        )
        zero = jnp.zeros((1, 3))
        start = rb.State(zero.at[0, 2].set(0.15), jnp.eye(1, 4), zero, zero)
        return rb.contact_forces(world, start, rb.LGVCI(DT, on_zeno="rest")).force[:, 0]

    angle, weight = 0.3, MASS * GRAVITY
    value, slope = quick_jit(lambda angle: jax.jvp(force, (angle,), (jnp.ones(()),)))(angle)
    np.testing.assert_allclose(jnp.sum(value), weight * np.cos(angle), rtol=1e-12)
    np.testing.assert_allclose(jnp.sum(slope), -weight * np.sin(angle), rtol=1e-10)
    # Each corner's, in the way that four of them share it, and none's that is in the air.
    np.testing.assert_allclose(quick_jit(jax.jacrev(force))(angle), slope, rtol=1e-9)


@pytest.mark.slow
def test_a_ball_rolls_down_a_ball():
    """It presses on it with m (g cos(a) - v^2/(R + r)), by energy v^2 = v0^2 + 10/7 g (R + r)
    (1 - cos(a)), and less by more speed. Saved forces have the derivatives of their differences,
    which are those of the closed form to the order of the step."""
    world = rb.World(
        [rb.RigidBody(rb.Sphere(BALL), MASS)],
        [rb.Placed(rb.Sphere(RADIUS), (0, 0, -RADIUS))],
        gravity=(0, 0, -GRAVITY),
        contact_law=rb.Coulomb(1.0, 0.0),
    )
    times, zero = [0.1, 0.2, 0.3], jnp.zeros((1, 3))

    def run(speed):
        velocity, turning = zero.at[0, 0].set(speed), zero.at[0, 1].set(speed / BALL)
        start = rb.State(zero.at[0, 2].set(BALL), jnp.eye(1, 4), velocity, turning)
        save = rb.SaveAt(ts=times, contacts=True)
        sol = rb.simulate(world, start, rb.MoreauJean(DT), 0.4, max_steps=40, save=save)
        return sol.contacts.vector[:, 0], sol.states.position[:, 0]

    speed, h = 0.5, 1e-4
    (force, place), (change, _) = quick_jit(lambda v: jax.jvp(run, (v,), (jnp.ones(()),)))(speed)
    compiled = quick_jit(run)
    differences = (compiled(speed + h)[0] - compiled(speed - h)[0]) / (2 * h)
    np.testing.assert_allclose(change, differences, rtol=1e-6, atol=1e-6)
    gradient = quick_jit(jax.grad(lambda v: jnp.sum(run(v)[0])))(speed)
    np.testing.assert_allclose(gradient, jnp.sum(change), rtol=1e-9)
    # In the mean over a step from each time.
    force, place = np.asarray(force), np.asarray(place)
    up = (place[:, 2] + RADIUS) / (RADIUS + BALL)
    square = speed**2 + 10 / 7 * GRAVITY * (RADIUS + BALL) * (1 - up)
    pressed = MASS * (GRAVITY * up - square / (RADIUS + BALL))
    np.testing.assert_allclose(
        np.sum(force * (place + np.array([0, 0, RADIUS])), axis=1) / (RADIUS + BALL),
        pressed,
        rtol=0.02,
    )
