"""Boxes that slide over edges and tip about them, where contact points change their places."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit
from scipy.integrate import solve_ivp

import jaxrb as rb

HALF = np.array([0.2, 0.15, 0.1])
BOX = rb.RigidBody(rb.Box(HALF), 1.0)
TABLE = rb.Placed(rb.Box((0.3, 0.3, 0.2)), (0.0, 0.0, -0.2))
GRAVITY = 9.81


def method(dt):
    return rb.EventDriven(rb.LieVariational(), dt, on_zeno="rest")


@quick_jit
def ends(friction, states, dt):
    world = rb.World([BOX], [TABLE], contact_law=rb.Coulomb(friction, 0.0))

    def one(state):
        return rb.simulate(world, state, method(dt), 0.8, throw=False, max_steps=80)

    return jax.vmap(one)(states)


def thrown(n, seed):
    """Boxes that lie on the table and slide to its edges, turned and turning."""
    rng = np.random.default_rng(seed)
    angle, heading = rng.uniform(0, 2 * np.pi, (2, n))
    way, speed = angle + 0.5 * rng.normal(size=n), rng.uniform(0.5, 2.0, n)
    zero = np.zeros(n)
    rows = (
        [0.15 * np.cos(angle), 0.15 * np.sin(angle), zero + HALF[2]],
        [np.cos(heading / 2), zero, zero, np.sin(heading / 2)],
        [speed * np.cos(way), speed * np.sin(way), zero],
        [zero, zero, 2 * rng.normal(size=n)],
    )
    return rb.State(*(np.stack(row, axis=-1)[:, None] for row in rows))


def energies(states):
    velocity, spin = np.asarray(states.velocity)[:, 0], np.asarray(states.angular_velocity)[:, 0]
    moments = (np.sum(HALF**2) - HALF**2) / 3
    height = np.asarray(states.position)[:, 0, 2]
    return 0.5 * (velocity**2).sum(-1) + 0.5 * (moments * spin**2).sum(-1) + GRAVITY * height


@pytest.mark.slow
def test_boxes_slide_over_the_edges_of_a_table():
    """Onto corners of the table, over its edges, or until they lie: of 64, none fails or takes many
    turns, and friction takes energy alone."""
    start = thrown(64, seed=5)
    solution = ends(0.4, start, 0.01)
    assert np.asarray(solution.successful).all()
    fell = np.asarray(solution.final.position)[:, 0, 2] < -0.3
    assert 10 < fell.sum() < 40
    assert np.asarray(solution.stats.flow_evaluations).max() < 400
    assert (energies(solution.final) <= energies(start) + 1e-9).all()
    lies = ~fell & (np.abs(np.asarray(solution.final.velocity)).max((1, 2)) < 1e-9)
    np.testing.assert_allclose(np.asarray(solution.final.position)[lies, 0, 2], 0.1, atol=1e-9)
    assert lies.sum() > 20


def tipping(t, offset):
    """The angle of a box that sticks to the edge of a table, about which it tips, and its rate."""
    arm = np.array([offset, HALF[2]])
    inertia = (HALF[0] ** 2 + HALF[2] ** 2) / 3 + arm @ arm

    def rates(_, y):
        return [y[1], GRAVITY * (arm[0] * np.cos(y[0]) + arm[1] * np.sin(y[0])) / inertia]

    return solve_ivp(rates, (0, t), [0.0, 0.0], rtol=1e-12, atol=1e-14).y[:, -1]


def motion(x, t1, dt):
    """The angle and the rate of a box whose middle is so far beyond the edge at x = 0.3 m, and
    whether it was simulated."""
    world = rb.World([BOX], [TABLE], contact_law=rb.Coulomb(20.0, 0.0))
    zero = 0.0 * x
    place = jnp.stack([0.3 + x, zero + 0.03, zero + HALF[2]])[None]
    turn = jnp.array([[1.0, 0.0, 0.0, 0.0]])
    state = rb.State(place, turn, 0 * place, 0 * place)
    solution = rb.simulate(world, state, method(dt), t1, throw=False, max_steps=512)
    w, _, y, _ = solution.final.quaternion[0]
    rate = solution.final.angular_velocity[0, 1]
    return jnp.stack([2 * jnp.arctan2(y, w), rate]), solution.successful


@quick_jit
def tipped(x, t1, dt):
    return motion(x, t1, dt)


@quick_jit
def tipped_by(x, t1, dt):
    return jax.jacfwd(lambda x: motion(x, t1, dt)[0])(x)


def test_a_box_tips_about_the_edge_of_a_table():
    """Beyond 45 degrees, where another face of the table is turned to the box, and with the
    derivative of where it lay: as the pendulum does that it is while it sticks."""
    offset, t = 0.02, 0.4
    angle, rate = tipping(t, offset)
    assert 0.85 < angle < 1.0
    errors = []
    for dt in (0.01, 0.005):
        found, successful = tipped(offset, t, dt)
        assert successful
        errors.append(np.abs(found - np.array([angle, rate])).max())
    # Of order two.
    assert errors[1] < 1e-4 and errors[1] < 0.35 * errors[0]


@pytest.mark.slow
def test_tipping_has_the_derivative_of_the_pendulum():
    offset, t, h = 0.02, 0.4, 1e-4
    expected = (tipping(t, offset + h) - tipping(t, offset - h)) / (2 * h)
    np.testing.assert_allclose(tipped_by(offset, t, 0.005), expected, rtol=5e-4)


@pytest.mark.slow
def test_numbering_does_not_matter_where_corners_change_places():
    """A box that spins and slides on a heavy one, which either comes first: with the first turn the
    directions of contact points, to which the corners of the other come one after the other."""
    heavy, dt = rb.RigidBody(rb.Box((2.0, 2.0, 0.5)), 1e3), 0.01
    floor = rb.HalfSpace((0.0, 0.0, 1.0), 0.0)
    place = np.array([[0, 0, 0.5], [0, 0, 1.1]])
    turn = np.tile([1.0, 0, 0, 0], (2, 1))
    velocity, spin = np.array([[0, 0, 0], [0.6, 0.3, 0]]), np.array([[0, 0, 0], [0, 0, 12.0]])
    found = []
    for order in ([0, 1], [1, 0]):
        bodies = [[heavy, BOX][k] for k in order]
        world = rb.World(bodies, [floor], contact_law=rb.Coulomb(0.3, 0.0))
        start = rb.State(place[order], turn, velocity[order], spin[order])
        final = rb.simulate(world, start, method(dt), 0.45).final
        found.append([np.asarray(leaf)[order] for leaf in jax.tree.leaves(final)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-10)
    assert 2.0 < 2 * np.arccos(found[0][1][1, 0]) < 2.4
