"""Constant forces: parabolas, energy, bounces, and pins."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit

import jaxrb as rb

G = 9.81


def start(n, **changes):
    default = {
        "position": np.tile([0.0, 0.0, 1.0], (n, 1)),
        "quaternion": np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)),
        "velocity": np.zeros((n, 3)),
        "angular_velocity": np.zeros((n, 3)),
    }
    return rb.State(**(default | changes))


@pytest.mark.slow
@pytest.mark.parametrize("flow", [rb.LieVariational(), rb.QuaternionEnergyMomentum()])
def test_each_body_flies_its_own_parabola(flow):
    """Two shapes, given in an order in which the loop does not keep them."""
    shapes = [rb.Sphere(0.1), rb.Ellipsoid((0.1, 0.2, 0.3)), rb.Sphere(0.2)]
    bodies = [rb.RigidBody(shape, mass) for shape, mass in zip(shapes, (2, 0.5, 4), strict=True)]
    pushes = [
        rb.ConstantForce(2, (0.0, 0.0, 8.0)),
        rb.ConstantForce(0, (3.0, 0.0, 0.0)),
        rb.ConstantForce(0, (0.0, 1.0, 0.0)),
    ]
    world = rb.World(bodies, forces=pushes, pairs=())
    state = start(3, angular_velocity=np.tile([1.0, 2.0, 0.5], (3, 1)))
    sol = rb.simulate(world, state, rb.EventDriven(flow, dt=0.01), t1=2.0)
    accelerations = np.array([[1.5, 0.5, -G], [0, 0, -G], [0, 0, 2 - G]])
    expected = np.asarray(state.position) + 2 * accelerations  # t^2 / 2
    np.testing.assert_allclose(sol.final.position, expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(world.accelerations(), accelerations, atol=1e-15)
    energies = [float(rb.energy(world, s)) for s in (state, sol.final)]
    assert energies[1] == pytest.approx(energies[0], rel=1e-13)


@pytest.mark.slow
def test_bounce_and_derivative():
    """A ball dropped from h in the field g - F/m bounces elastically: z and dz/dF."""
    mass, t1 = 2.0, 1.0

    def height(force):
        body = rb.RigidBody(rb.Sphere(0.25), mass)
        world = rb.World(
            [body],
            [rb.HalfSpace()],
            forces=[rb.ConstantForce(0, jnp.array([0.0, 0.0, 1.0]) * force)],
        )
        return rb.simulate(world, start(1), rb.LGVCI(dt=0.01), t1=t1).final.position[0, 2]

    def exact(force):
        a = G - force / mass
        fall = jnp.sqrt(2 * 0.75 / a)
        return 0.25 + a * fall * (t1 - fall) - a * (t1 - fall) ** 2 / 2

    value, slope = jax.jit(jax.value_and_grad(height))(6.0)
    np.testing.assert_allclose(value, exact(6.0), rtol=1e-13)
    np.testing.assert_allclose(slope, jax.grad(exact)(6.0), rtol=1e-12)


CONTINUOUS = rb.EventDriven(rb.ExactFlight(), dt=None)


@pytest.mark.slow
def test_in_continuous_time_a_constant_force_is_a_part_of_gravity():
    """Impacts of a cuboid on an incline: a third of its weight is a force."""
    body = rb.RigidBody(rb.Box((0.1, 0.15, 0.2)), 2.0)
    plane = rb.HalfSpace((0.1, 0.0, 1.0), 0.0)
    state = start(1, angular_velocity=np.array([[1.0, 2.0, 3.0]]))

    def fly(gravity, force):
        push, field = (jnp.array([0.0, 0.0, 1.0]) * z for z in (force, gravity))
        world = rb.World([body], [plane], gravity=field, forces=[rb.ConstantForce(0, push)])
        return rb.simulate(world, state, CONTINUOUS, 1.2, save=rb.SaveAt(final=True, impacts=4))

    fly = quick_jit(fly)
    whole, parted = fly(-G, 0.0), fly(-G * 2 / 3, -2.0 * G / 3)
    assert int(whole.impacts.count) >= 3
    # Each impact amplifies round-off by some ten.
    np.testing.assert_allclose(parted.impacts.time, whole.impacts.time, rtol=0, atol=1e-12)
    np.testing.assert_allclose(parted.final.position, whole.final.position, rtol=0, atol=1e-11)


@pytest.mark.long
def test_in_continuous_time_a_force_on_one_body_drives_it_into_another():
    """Their relative acceleration is not zero, as it is under gravity. Two balls touch at
    t^2 = 2 d/a; spinning rods where small steps find them to."""
    ball = rb.RigidBody(rb.Sphere(0.1), 2.0)
    push = rb.ConstantForce(1, (-3.0, 0.0, 0.0))
    world = rb.World([ball, ball], forces=[push])
    state = start(2, position=np.array([[0, 0, 5.0], [1.2, 0, 5.0]]))
    save = rb.SaveAt(final=True, impacts=1)
    sol = rb.simulate(world, state, CONTINUOUS, 2.0, save=save)
    np.testing.assert_allclose(sol.impacts.time[0], np.sqrt(2 / 1.5), rtol=1e-14)

    rod = rb.RigidBody(rb.Capsule(0.01, 0.2), 2.0)
    world = rb.World([rod, rod], forces=[push])
    spin = np.array([[3.0, 8.0, 0.5], [-7.0, 2.0, 1.0]])
    state = start(2, position=np.array([[0, 0, 5.0], [0.6, 0, 5.0]]), angular_velocity=spin)
    steps = rb.EventDriven(rb.ExactFlight(), 1e-3, detect="interior")
    times = [
        quick_jit(lambda s, m=method: rb.simulate(world, s, m, 2.0, save=save))(state).impacts.time
        for method in (CONTINUOUS, steps)
    ]
    assert times[1][0] < 1.5
    np.testing.assert_allclose(times[0], times[1], rtol=0, atol=1e-12)


@pytest.mark.slow
def test_pendulum_in_a_tilted_field():
    """A force m g sideways turns the field by 45 degrees: there the pendulum can rest."""
    body = rb.RigidBody(rb.Sphere(0.1), mass=1.5)
    push = rb.ConstantForce(0, (1.5 * G, 0.0, 0.0))
    pin = rb.Pin(0, (0.0, 0.0, 0.5))
    world = rb.World([body], joints=[pin], forces=[push])
    half = np.pi / 8
    tilt = np.array([[np.cos(half), 0.0, -np.sin(half), 0.0]])
    position = 0.5 * np.array([[np.sin(np.pi / 4), 0.0, -np.cos(np.pi / 4)]])
    state = start(1, position=position, quaternion=tilt)
    method = rb.EventDriven(rb.QuaternionEnergyMomentum(), dt=0.01)
    rest = rb.simulate(world, state, method, t1=1.0).final
    np.testing.assert_allclose(rest.position, position, atol=1e-14)
    force = rb.reaction_forces(world, state)
    np.testing.assert_allclose(force, [[-1.5 * G, 0, 1.5 * G]], atol=1e-13)

    moving = start(1, position=[[0.0, 0.0, -0.5]])
    sol = rb.simulate(world, moving, method, t1=1.0, save=rb.SaveAt(every=1))
    energies = jax.vmap(lambda s: rb.energy(world, s))(sol.states)
    np.testing.assert_allclose(energies, energies[0], atol=1e-13)
    assert np.ptp(sol.states.position[:, 0, 0]) > 0.4
    # The balance of momentum with the force of the pin, over steps and at their ends.
    mean = rb.mean_reaction_forces(world, sol.ts, sol.states)[:, 0]
    instant = jax.vmap(lambda s: rb.reaction_forces(world, s)[0])(sol.states)
    np.testing.assert_allclose((mean[1:] + mean[:-1]) / 2, instant[1:-1], atol=0.05)
