"""Impacts of pinned bodies, against the balance of angular momentum about their pins."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, quick_jit

import jaxrb as rb

FLOW = rb.QuaternionEnergyMomentum()
METHOD = rb.EventDriven(FLOW, 0.01)
LENGTH, MASS = 0.6, 2.0
ROD = rb.RigidBody(rb.Capsule(0.05, LENGTH), MASS)
BALL = rb.RigidBody(rb.Sphere(0.1), 0.7)
PIN = rb.Pin(0, (0.0, 0.0, LENGTH), (0.0, 0.0, 0.0))
UP = [1.0, 0.0, 0.0, 0.0]


def hanging(position, velocity, spin=(0.0, 0.0, 0.0), n=1):
    """A rod that hangs at rest, and balls."""
    place = np.array([[0.0, 0.0, -LENGTH], *np.reshape(position, (n, 3))])
    speed = np.array([[0.0, 0.0, 0.0], *np.reshape(velocity, (n, 3))])
    turning = jnp.array([[0.0, 0.0, 0.0], *[spin] * n])
    return rb.State(place, jnp.array([UP] * (n + 1), float), speed, turning)


def about_the_pin(world, state):
    return np.asarray(rb.angular_momentum(world, state))


@pytest.mark.parametrize("law", [*before_releases(rb.Frictionless(0.8)), rb.Coulomb(0.3, 0.8)])
@pytest.mark.slow
def test_a_ball_hits_a_hanging_rod(law):
    """The angular momentum about the pin stays; the impulse without friction is that of a
    compound pendulum, and e is that of the normal velocities."""
    world = rb.World([ROD, BALL], gravity=(0, 0, 0), contact_law=law, joints=[PIN])
    depth, speed, aside = 0.8, 3.0, 0.03
    start = hanging((-0.5, aside, -depth), (speed, 0, 0), (1.0, -2.0, 0.5))
    save = rb.SaveAt(final=True, impacts=1)
    sol = rb.simulate(world, start, METHOD, 0.5, save=save)
    record = sol.impacts
    assert int(record.count) == 1
    before, after = (jax.tree.map(lambda leaf: leaf[0], s) for s in (record.before, record.after))
    np.testing.assert_allclose(about_the_pin(world, after), about_the_pin(world, start), atol=1e-12)
    np.testing.assert_allclose(
        about_the_pin(world, sol.final), about_the_pin(world, start), atol=1e-12
    )
    off, slip = rb.constraint_violation(world, after)
    np.testing.assert_allclose([off, slip], 0.0, atol=1e-13)
    ball = 0.7 * (after.velocity[1] - before.velocity[1])
    np.testing.assert_allclose(record.impulse[0], -np.asarray(ball), atol=1e-13)
    if isinstance(law, rb.Frictionless):
        normal = np.array([np.sqrt(0.15**2 - aside**2), -aside, 0.0]) / 0.15
        inertia = float(ROD.inertia_matrix()[0, 0]) + MASS * LENGTH**2
        w = 1 / 0.7 + (depth * normal[0]) ** 2 / inertia + (depth * normal[1]) ** 2 / inertia
        size = 1.8 * speed * normal[0] / w
        np.testing.assert_allclose(record.impulse[0], size * normal, atol=1e-12)
        turned = np.cross([0.0, 0.0, -depth], size * normal) / inertia
        np.testing.assert_allclose(after.angular_velocity[0], turned, atol=1e-12)


def against_a_wall(numbers, impacts=0):
    """A rod is let go at an angle and meets a wall beyond the vertical."""
    e, tilt = numbers
    wall = rb.HalfSpace((1.0, 0.0, 0.0), -0.2)
    law = rb.Frictionless(e)
    world = rb.World([ROD], [wall], gravity=(0, 0, -9.81), joints=[PIN], contact_law=law)
    zero = 0 * tilt
    place = jnp.stack([LENGTH * jnp.sin(tilt), zero, -LENGTH * jnp.cos(tilt)])
    turn = jnp.stack([jnp.cos(tilt / 2), zero, -jnp.sin(tilt / 2), zero])
    still = jnp.zeros((1, 3))
    start = rb.State(place[None], turn[None], still, still)
    save = rb.SaveAt(final=True, impacts=impacts)
    return rb.simulate(world, start, METHOD, 0.9, save=save, throw=False)


@pytest.mark.slow
def test_a_rod_swings_against_a_wall():
    """It comes back with e of its speed; where the normal passes through the pin, at the other end
    of the rod, nothing happens."""
    inertia = float(ROD.inertia_matrix()[0, 0]) + MASS * LENGTH**2
    record = against_a_wall(jnp.array([0.6, 0.5]), impacts=1).impacts
    assert int(record.count) == 1
    # J w^2/2 = m g l (cos angle - cos tilt), to the error of the flow; the end of the rod, which
    # is 2 l from the pin, is 0.15 from the vertical then.
    angle = np.arcsin(0.15 / (2 * LENGTH))
    before, after = record.before.angular_velocity[0, 0], record.after.angular_velocity[0, 0]
    fall = np.sqrt(2 * MASS * 9.81 * LENGTH * (np.cos(angle) - np.cos(0.5)) / inertia)
    np.testing.assert_allclose(before, [0, fall, 0], rtol=0, atol=2e-3)
    np.testing.assert_allclose(after, -0.6 * before, rtol=0, atol=1e-12)
    arm = 2 * LENGTH * np.cos(angle)
    np.testing.assert_allclose(
        record.impulse[0], [1.6 * float(before[1]) * inertia / arm, 0, 0], rtol=0, atol=1e-12
    )


@pytest.mark.long
def test_the_derivative_of_a_swing_against_a_wall():
    """By e and by the first angle, against differences, in both modes."""
    final = lambda x: against_a_wall(x).final.position[0, 0]  # noqa: E731
    numbers = jnp.array([0.6, 0.5])
    forward, reverse = (quick_jit(mode(final))(numbers) for mode in (jax.jacfwd, jax.grad))
    np.testing.assert_allclose(forward, reverse, atol=1e-11)
    step, go = 1e-5, jax.jit(final)
    for k in range(2):
        shift = step * jnp.eye(2)[k]
        difference = (go(numbers + shift) - go(numbers - shift)) / (2 * step)
        np.testing.assert_allclose(forward[k], difference, rtol=0, atol=1e-7)


@pytest.mark.slow
def test_two_pinned_balls():
    """Equal pendulums exchange their angular velocities."""
    ball = rb.RigidBody(rb.Sphere(0.1), 1.0)
    pins = [rb.Pin(k, (0.0, 0.0, 1.0), (0.21 * k, 0.0, 0.0)) for k in range(2)]
    world = rb.World([ball, ball], gravity=(0, 0, 0), joints=pins)
    tilt, rate = 0.3, 0.8  # the first one swings towards the other
    place = jnp.array([[-np.sin(tilt), 0, -np.cos(tilt)], [0.21, 0, -1.0]])
    turn = jnp.array([[np.cos(tilt / 2), 0, np.sin(tilt / 2), 0], UP])
    speed = jnp.array([[rate * np.cos(tilt), 0, -rate * np.sin(tilt)], [0.0, 0, 0]])
    start = rb.State(place, turn, speed, jnp.array([[0.0, -rate, 0], [0.0, 0, 0]]))
    sol = rb.simulate(world, start, METHOD, 0.5, save=rb.SaveAt(final=True, impacts=1))
    assert int(sol.impacts.count) == 1
    before, after = (s.angular_velocity[0] for s in (sol.impacts.before, sol.impacts.after))
    np.testing.assert_allclose(before, [[0, -rate, 0], [0, 0, 0]], atol=1e-12)
    # The normal is along x but for the 0.01 between the pins and the balls, and the arms of both
    # differ by what that tilts them.
    np.testing.assert_allclose(after, before[::-1], atol=2e-2)
    np.testing.assert_allclose(
        rb.kinetic_energy(world, sol.final), rb.kinetic_energy(world, start), rtol=1e-12
    )
    np.testing.assert_allclose(rb.constraint_violation(world, sol.final), 0.0, atol=1e-12)
