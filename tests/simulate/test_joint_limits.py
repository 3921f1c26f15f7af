"""Joints that come to their limits, against ordinary differential equations and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxrb as rb
from jaxrb.simulate.joint_observables import farthest_beyond

pytestmark = pytest.mark.slow

G, LENGTH = 9.81, 0.5
ROD = rb.RigidBody(rb.Box((0.02, 0.02, LENGTH / 2)), mass=1.0)
TOP = (0, 0, LENGTH / 2)


def limited_rod(lower, gravity=(0.0, 0.0, -G)):
    limits = jnp.stack([lower, jnp.ones_like(lower)])
    hinge = rb.Hinge(0, axis=(0, 1, 0), anchor=TOP, limits=limits)
    return rb.World([ROD], [], joints=[hinge], gravity=gravity)


def swung(lower, angle, gravity, t1, dt=0.01):
    """The angle of a rod that is let go, and what its limits did."""
    turn = jnp.stack([jnp.cos(angle / 2), 0 * angle, jnp.sin(angle / 2), 0 * angle])
    down = -jnp.stack([jnp.sin(angle), 0 * angle, jnp.cos(angle)])
    still = jnp.zeros((1, 3))
    start = rb.State(LENGTH / 2 * down[None], turn[None], still, still)
    world = limited_rod(lower, gravity)
    save = rb.SaveAt(final=True, impacts=4)
    sol = rb.simulate(world, start, rb.LGVCI(dt), t1, save=save, throw=False, max_steps=320)
    angle, rate = rb.joint_coordinates(world, sol.final), rb.joint_velocities(world, sol.final)
    return angle[0], rate[0], sol


SWUNG = jax.jit(swung)


@pytest.mark.long
def test_a_limit_stops_a_rod():
    """At the angle, plastically, when the equation of the pendulum says; it then swings back."""
    inertia = float(ROD.inertia_matrix()[1, 1]) + LENGTH**2 / 4
    fall = lambda _, x: [x[1], -G * LENGTH / 2 * np.sin(x[0]) / inertia]  # noqa: E731
    meets = lambda _, x: x[0] + 0.5  # noqa: E731
    meets.terminal = True
    accuracy = {"rtol": 1e-12, "atol": 1e-12}
    first = solve_ivp(fall, (0, 2), [0.9, 0], "DOP853", events=meets, **accuracy)
    then = solve_ivp(fall, (first.t[-1], 1.3), [-0.5, 0], "DOP853", **accuracy)
    down = jnp.array([0.0, 0.0, -G])
    errors = []
    for dt in (0.01, 0.005):
        angle, _, sol = SWUNG(jnp.asarray(-0.5), jnp.asarray(0.9), down, 1.3, dt)
        assert bool(sol.successful) and int(sol.impacts.count) == 1
        # No obstacle, one body: the joint is counted next.
        assert sol.impacts.pair[0].tolist() == [0, 1]
        stopped = rb.joint_coordinates(
            limited_rod(jnp.asarray(-0.5)), jax.tree.map(lambda x: x[0], sol.impacts.after)
        )
        assert abs(stopped[0] + 0.5) <= 1e-13
        np.testing.assert_allclose(sol.impacts.after.angular_velocity[0], 0.0, atol=1e-14)
        errors.append([sol.impacts.time[0] - first.t[-1], angle - then.y[0, -1]])
    ratio = np.array(errors[0]) / np.array(errors[1])
    assert (ratio >= 3.5).all() and (ratio <= 4.5).all()


@pytest.mark.long
def test_a_rod_that_leans_on_its_limit_stays_there():
    """And its angle is that of the limit, in derivatives too."""
    aslant = jnp.array([8.0, 0.0, -2.0])

    def leaning(lower):
        angle, rate, sol = swung(lower, jnp.asarray(0.9), aslant, 1.3)
        return angle, (rate, sol.successful)

    run = jax.jit(jax.value_and_grad(leaning, has_aux=True))
    (angle, (rate, good)), slope = run(jnp.asarray(-0.5))
    assert bool(good)
    np.testing.assert_allclose([angle, rate], [-0.5, 0.0], atol=1e-12)
    np.testing.assert_allclose(slope, 1.0, atol=1e-9)


@pytest.mark.long
def test_derivatives_through_a_limit():
    """By the limit, the start and gravity, against differences of the fourth order."""
    x = jnp.array([-0.5, 0.9, 1.0, -G])

    def end(x):
        gravity = jnp.stack([x[2], 0 * x[2], x[3]])
        return jnp.stack(swung(x[0], x[1], gravity, 0.9)[:2])

    run = jax.jit(end)
    slope = jax.jit(jax.jacfwd(end))(x)
    h = 1e-4
    for k, unit in enumerate(jnp.eye(4)):
        f = [run(x + s * h * unit) for s in (-2, -1, 1, 2)]
        expected = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
        np.testing.assert_allclose(slope[:, k], expected, atol=1e-8)


def test_a_start_beyond_a_limit_is_a_code():
    *_, sol = SWUNG(jnp.asarray(-0.5), jnp.asarray(1.1), jnp.array([0.0, 0.0, -G]), 1.3)
    assert sol.result == rb.RESULTS.initial_penetration


def test_a_start_beyond_a_limit_is_named():
    """The joint that is farthest beyond, by how much, and none that is at its limit."""
    turn = [np.cos(0.6), 0.0, np.sin(0.6), 0.0]  # by 1.2 about y
    joints = [
        rb.Slider(0, (1.0, 0, 0), limits=(0.1, 1.0)),
        rb.Hinge(1, (0, 1.0, 0), limits=(-1.0, 1.0)),
    ]
    world = rb.World([rb.RigidBody(rb.Sphere(0.1))] * 2, joints=joints, pairs=[])

    def start(place, turn):
        at = np.array([[place, 0, 0], [0, 0, 0]])
        upright = [1.0, 0, 0, 0]
        return rb.State(at, [upright, turn], np.zeros((2, 3)), np.zeros((2, 3)))

    named = farthest_beyond(world, start(0.0, turn))
    assert named == "At the start World.joints[1], a Hinge, is 0.2 rad beyond a limit."
    named = farthest_beyond(world, start(0.0, [1.0, 0, 0, 0]))
    assert named == "At the start World.joints[0], a Slider, is 0.1 m beyond a limit."
    assert farthest_beyond(world, start(0.1, [1.0, 0, 0, 0])) == ""


def test_a_drawer_falls_open_to_its_stop():
    """A slider that slopes: it meets its limit at the time of a fall, and rests there."""
    axis = np.array([0.6, 0.0, -0.8])
    slider = rb.Slider(0, axis=axis, limits=(0.0, 0.4))
    world = rb.World([rb.RigidBody(rb.Box((0.1, 0.2, 0.05)), mass=3.0)], [], joints=[slider])
    start = rb.State(jnp.zeros((1, 3)), jnp.array([[1.0, 0, 0, 0]]), *[jnp.zeros((1, 3))] * 2)
    sol = rb.simulate(world, start, rb.LGVCI(0.01), 0.6, save=rb.SaveAt(final=True, impacts=4))
    np.testing.assert_allclose(sol.impacts.time[0], np.sqrt(2 * 0.4 / (0.8 * G)), atol=1e-12)
    np.testing.assert_allclose(sol.final.position[0], 0.4 * axis, atol=1e-13)
    np.testing.assert_allclose(sol.final.velocity, 0.0, atol=1e-13)
