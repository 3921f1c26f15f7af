"""Worlds in which everything rests: they stay as they are to the last digit, and nothing else does.

What is wrongly taken for rest would show as motion that is missing: of bodies that tip about one
line, while all their contacts stick, and of what is pushed later.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit
from scipy.integrate import solve_ivp

import jaxrb as rb

G, DT = 9.81, 0.005
HALF = (0.2, 0.15, 0.1)
BOX = rb.RigidBody(rb.Box(HALF), 1.0)
FLOOR = rb.HalfSpace()
# Through the same line of the floor, and leaning away from it.
WALL = rb.HalfSpace((np.cos(0.4), 0.0, np.sin(0.4)))
METHOD = rb.MoreauJean(DT, impacts="stepped")


def world(n, obstacles=(FLOOR,), friction=0.5, **more):
    law = rb.Coulomb(friction, 0.0)
    return rb.World([BOX] * n, list(obstacles), gravity=(0, 0, -G), contact_law=law, **more)


def still(places, turn=(1.0, 0.0, 0.0, 0.0), dtype=None):
    zero = np.zeros((len(places), 3))
    rows = (places, [turn] * len(places), zero, zero)
    return rb.State(*(jnp.asarray(row, dtype or float) for row in rows))


def stack(n, dtype=None):
    aside = np.random.default_rng(1).uniform(-0.03, 0.03, (n, 2))
    return still(np.column_stack([aside, HALF[2] * (1 + 2 * np.arange(n))]), dtype=dtype)


def leaves(state):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state)]


@pytest.mark.parametrize("dtype", [jnp.float64, pytest.param(jnp.float32, marks=pytest.mark.slow)])
def test_a_stack_stays_to_the_last_digit(dtype):
    start = stack(4, dtype)
    end = rb.simulate(world(4), start, METHOD, 2.0).final
    for before, after in zip(leaves(start), leaves(end), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.slow
def test_what_has_come_to_rest_stays_where_it_is():
    """Of stacks that were shoved, and slid; at the same place a second later, without velocities.
    Alone and in a batch they come to rest alike."""
    shoves = 0.02 * np.random.default_rng(0).normal(size=(6, 3, 3))

    def places(shove):
        start = dataclasses.replace(stack(3), velocity=shove)
        sol = rb.simulate(world(3), start, METHOD, 1.2, save=rb.SaveAt(ts=jnp.array([0.2, 1.2])))
        return sol.states, sol.final

    states, final = quick_jit(jax.vmap(places))(jnp.asarray(shoves))
    moved = np.abs(np.asarray(states.position[:, 0]) - np.asarray(stack(3).position)).max((1, 2))
    assert moved.min() > 1e-5  # they have slid
    np.testing.assert_array_equal(states.position[:, 0], states.position[:, 1])
    np.testing.assert_array_equal(final.velocity, 0.0)
    np.testing.assert_array_equal(final.angular_velocity, 0.0)
    _, alone = quick_jit(places)(jnp.asarray(shoves[2]))
    np.testing.assert_allclose(alone.position, final.position[2], atol=1e-12)


def about_the_edge(angle, heights, t1):
    """The angle after a time, of boxes on top of each other that turn as one about the lower edge:
    I phi'' = -g sum of x."""
    own = (HALF[0] ** 2 + HALF[2] ** 2) / 3
    inertia = sum(own + HALF[0] ** 2 + h**2 for h in heights)

    def rate(_, y):
        x = sum(HALF[0] * np.cos(y[0]) - h * np.sin(y[0]) for h in heights)
        return [y[1], -G * x / inertia]

    return solve_ivp(rate, (0, t1), [angle, 0.0], rtol=1e-10, atol=1e-12).y[0, -1]


@pytest.mark.parametrize(
    ("n", "obstacles"),
    [
        (1, (FLOOR, WALL)),
        pytest.param(1, (FLOOR,), marks=pytest.mark.slow),
        pytest.param(2, (FLOOR,), marks=pytest.mark.slow),
    ],
)
def test_what_tips_about_an_edge_does_not_rest(n, obstacles):
    """Contacts all stick, with a wall at four places of which two are one, and the upper of two
    boxes is held by the lower one; but all turn about the edge."""
    angle, t1 = 0.3, 0.1
    heights = HALF[2] * (1 + 2 * np.arange(n))
    cos, sin = np.cos(angle), np.sin(angle)
    places = [[HALF[0] * cos - h * sin, 0.0, HALF[0] * sin + h * cos] for h in heights]
    start = still(places, [np.cos(angle / 2), 0.0, -np.sin(angle / 2), 0.0])
    end = rb.simulate(world(n, obstacles, friction=2.0), start, METHOD, t1).final
    found = -2 * np.arctan2(*np.asarray(end.quaternion)[:, [2, 0]].T)
    expected = about_the_edge(angle, heights, t1)
    assert expected < 0.9 * angle
    # Steps of 5 ms have an error of some 5e-3 of what it has turned.
    np.testing.assert_allclose(found, expected, atol=2e-2 * (angle - expected))


@pytest.mark.slow
def test_what_lies_beyond_an_edge_tips():
    """A box that lies still on one that has four of its corners, and its weight beside them."""
    beyond, t1 = 0.04, 0.1
    below = rb.RigidBody(rb.Box(HALF), 1000.0)
    law = rb.Coulomb(2.0, 0.0)
    two = rb.World([below, BOX], [FLOOR], gravity=(0, 0, -G), contact_law=law)
    start = still([[0.0, 0.0, HALF[2]], [HALF[0] + beyond, 0.0, 3 * HALF[2]]])
    end = rb.simulate(two, start, METHOD, t1).final

    inertia = (HALF[0] ** 2 + HALF[2] ** 2) / 3 + beyond**2 + HALF[2] ** 2

    def rate(_, y):
        x = beyond * np.cos(y[0]) + HALF[2] * np.sin(y[0])
        return [y[1], G * x / inertia]

    expected = solve_ivp(rate, (0, t1), [0.0, 0.0], rtol=1e-10, atol=1e-12).y[0, -1]
    _, found = 2 * np.arctan2(*np.asarray(end.quaternion)[:, [2, 0]].T)
    # Steps of 5 ms have an error of half a per cent of it.
    np.testing.assert_allclose(found, expected, rtol=2e-2)


def test_what_rests_is_pushed_later():
    """By a force, as Newton's second law with friction says: v = (F/m - mu g) t."""
    start, friction, push = still([[0.0, 0.0, HALF[2]]]), 0.5, 8.0

    def force(t, args):
        return jnp.where(t > 0.5, push, 0.0) * jnp.array([1.0, 0.0, 0.0])

    pushed = world(1, friction=friction, forces=[rb.Thruster(0, force)])
    sol = rb.simulate(pushed, start, METHOD, 0.8, save=rb.SaveAt(ts=jnp.array([0.5])))
    np.testing.assert_array_equal(sol.states.velocity[0], 0.0)
    speed = (push - friction * G) * 0.3
    np.testing.assert_allclose(sol.final.velocity[0], [speed, 0, 0], atol=1e-10)


@pytest.mark.slow
def test_what_rests_on_a_table_goes_with_it():
    """A table that begins to move after a while, x = a (t - 1/2)^2/2."""
    acceleration = 2.0

    def motion(t, args):
        x = acceleration * jnp.maximum(t - 0.5, 0.0) ** 2 / 2
        return jnp.stack([x, 0 * x, 0 * x]), jnp.array([1.0, 0, 0, 0])

    table = world(1, [rb.Moving(FLOOR, motion)])
    end = rb.simulate(table, still([[0.0, 0.0, HALF[2]]]), METHOD, 1.0).final
    np.testing.assert_allclose(end.velocity[0], [acceleration * 0.5, 0, 0], atol=1e-10)
    # Places follow by the mean velocity of each step.
    np.testing.assert_allclose(end.position[0, 0], acceleration * 0.25 / 2, atol=DT**2)


@pytest.mark.slow
def test_a_derivative_goes_through_rest():
    """Where a box lies that slid and came to rest, by its first velocity, long after: that nothing
    moves any more is no derivative. The other components keep it where it is, or do not move it."""

    def end(velocity):
        start = dataclasses.replace(still([[0.0, 0.0, HALF[2]]]), velocity=velocity[None])
        return rb.simulate(world(1), start, METHOD, 1.0, throw=False).final.position[0]

    at = jnp.array([0.3, 0.1, 0.0])
    rows = quick_jit(jax.jacrev(end))(at)
    run, step = quick_jit(end), 1e-5
    for k in range(2):
        shift = step * jnp.eye(3)[k]
        expected = (run(at + shift) - run(at - shift)) / (2 * step)
        np.testing.assert_allclose(rows[:, k], expected, atol=1e-8)
    # At speed v it slides v^2/(2 mu g), and along x by v_x v/(2 mu g).
    x, y = at[:2]
    speed = np.hypot(x, y)
    np.testing.assert_allclose(rows[0, 0], (speed + x**2 / speed) / G, rtol=0.05)
