"""Cylinders and cones that hit boxes, stand and roll on them, and hit each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences, quick_jit

import jaxrb as rb

CAN = rb.RigidBody(rb.Cylinder(0.1, 0.15), 0.5)
TABLE = rb.Placed(rb.Box((0.5, 0.5, 0.1)), (0.0, 0.0, -0.1))
METHOD = rb.EventDriven(rb.LieVariational(), 0.01, on_zeno="rest")
FLOOR = rb.HalfSpace()
HALF = np.sqrt(0.5)


def state(position, quaternion=(1.0, 0, 0, 0), velocity=(0.0, 0, 0), spin=(0.0, 0, 0)):
    rows = [
        jnp.atleast_2d(jnp.asarray(row, float)) for row in (position, quaternion, velocity, spin)
    ]
    n = len(rows[0])
    place, turn, speed, spin = (jnp.broadcast_to(row, (n, row.shape[1])) for row in rows)
    return rb.State(place, turn / jnp.linalg.norm(turn, axis=1, keepdims=True), speed, spin)


def upright(quaternion):
    """The height of the unit vector along the axis."""
    _, x, y, _ = np.asarray(quaternion).T
    return 1 - 2 * (x**2 + y**2)


@pytest.mark.long
@pytest.mark.parametrize(
    "second", [CAN, *before_releases(rb.RigidBody(rb.Box((0.1, 0.15, 0.08)), 0.7))]
)
def test_a_collision_in_flight(second):
    """Without friction and loss: momentum, angular momentum and energy stay."""
    world = rb.World([CAN, second], gravity=(0, 0, 0))
    start = state(
        [[-0.4, 0, 0], [0.0, 0.05, 0.03]],
        [[1.0, 0.3, -0.2, 0.5], [0.4, 1.0, 0.1, -0.3]],
        [[1.0, 0, 0], [0.0, 0, 0]],
        [[0.5, -1.0, 0.3], [0.0, 2.0, 0.0]],
    )
    sol = rb.simulate(world, start, rb.LGVCI(dt=0.01), t1=1.0)
    assert int(sol.impacts.count) >= 1
    for of in (rb.linear_momentum, rb.angular_momentum, rb.kinetic_energy):
        np.testing.assert_allclose(of(world, sol.final), of(world, start), rtol=0, atol=2e-14)


@pytest.mark.long
@pytest.mark.parametrize("fixed", [True, *before_releases(False)])
def test_a_can_that_falls_on_a_box_stands_on_it(fixed):
    """Upright, without restitution; on a box that is an obstacle or lies on a plane."""
    law, spin = rb.Coulomb(0.5, 0.0), (0.0, 0, 1.0)
    if fixed:
        world = rb.World([CAN], [TABLE], contact_law=law)
        start = state([0.1, 0.0, 0.2], spin=spin)
    else:
        box = rb.RigidBody(rb.Box((0.5, 0.5, 0.1)), 50.0)
        world = rb.World([CAN, box], [rb.HalfSpace((0, 0, 1.0), -0.2)], contact_law=law)
        start = state([[0.1, 0.0, 0.2], [0, 0, -0.1]], spin=[spin, (0.0, 0, 0)])
    final = rb.simulate(world, start, METHOD, 1.0).final
    np.testing.assert_allclose(final.position[0], [0.1, 0.0, 0.15], rtol=0, atol=1e-9)
    np.testing.assert_allclose(upright(final.quaternion)[0], 1.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(final.velocity, 0.0, atol=1e-8)
    np.testing.assert_allclose(final.angular_velocity[0, :2], 0.0, atol=1e-8)


def rocked(tilt, t1, floor=FLOOR, corner=0.0, **options):
    """A can that stands on the point of its rim on the x-axis, tilted by an angle, and is let go,
    without slip; the point is a corner of the hexagon by which its disc touches the floor."""
    world = rb.World([CAN], [floor], contact_law=rb.Coulomb(2.0, 0.0))
    c, s, zero = jnp.cos(tilt), jnp.sin(tilt), jnp.zeros_like(tilt)
    place = jnp.stack([0.1 - 0.1 * c + 0.15 * s, zero, 0.1 * s + 0.15 * c])
    turn = rb.lie.quaternion.multiply(
        jnp.stack([jnp.cos(tilt / 2), zero, jnp.sin(tilt / 2), zero]),
        jnp.array([np.cos(corner / 2), 0, 0, -np.sin(corner / 2)]),
    )
    return world, rb.simulate(world, state(place, turn), METHOD, t1, **options)


@pytest.mark.long
@pytest.mark.parametrize(("floor", "corner"), [(FLOOR, 0.0), *before_releases((TABLE, 0.7))])
def test_a_can_rocks_as_housners_block(floor, corner):
    """It turns about one point of its rim, falls flat, and goes on about the opposite one: about
    this the angular momentum stays, I + m (h^2 + r^2) times the new angular velocity (Housner, "The
    behavior of inverted pendulum structures during earthquakes", 1963)."""
    r, h, tilt = 0.1, 0.15, jnp.asarray(0.1)
    moment = 0.5 * (3 * r**2 + 4 * h**2) / 12
    ratio = (moment + 0.5 * (h**2 - r**2)) / (moment + 0.5 * (h**2 + r**2))
    # It is flat after 0.098 s.
    program = jax.jit(lambda t1: rocked(tilt, t1, floor, corner, max_steps=16))
    (world, before), (_, after) = program(0.09), program(0.11)
    weight = 0.5 * -float(world.gravity[2])
    start, flat = weight * (r * np.sin(0.1) + h * np.cos(0.1)), weight * h
    # The scheme is of second order in the step.
    np.testing.assert_allclose(rb.energy(world, before.final), start, atol=1e-3 * (start - flat))
    left = (rb.energy(world, after.final) - flat) / (start - flat)
    np.testing.assert_allclose(left, ratio**2, atol=2e-3)
    assert after.final.angular_velocity[0, 1] < 0


@pytest.mark.long
def test_the_derivative_of_rocking():
    """Of where it is after it has gone through flat, by the tilt of its start."""

    def final(tilt):
        end = rocked(tilt[0], 0.13)[1].final
        return jnp.concatenate([end.position[0], end.quaternion[0], end.angular_velocity[0]])

    x = jnp.array([0.1])
    expected = differences(jax.jit(final), x, step=1e-5)
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(quick_jit(mode(final))(x), expected, rtol=0, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("floor", [FLOOR, *before_releases(TABLE)])
def test_cans_that_rock_gain_no_energy(floor):
    """Dropped with tilts from 1e-4 to 1, spinning and sliding."""
    n, rng = 16, np.random.default_rng(0)
    world = rb.World([CAN], [floor], contact_law=rb.Coulomb(0.5, 0.0))
    tilt, azimuth = 10 ** np.linspace(-4, 0, n), rng.uniform(0, 2 * np.pi, n)
    turn = [np.ones(n), tilt / 2 * np.cos(azimuth), tilt / 2 * np.sin(azimuth), rng.normal(size=n)]
    moving = np.arange(n)[:, None] % 2
    starts = jax.vmap(state)(
        jnp.tile(jnp.array([0.1, 0, 0.22]), (n, 1)),
        jnp.asarray(np.stack(turn, axis=1)),
        jnp.asarray(moving * rng.normal(size=(n, 3)) * 0.3),
        jnp.asarray(moving * rng.normal(size=(n, 3)) * [0.5, 0.5, 3.0]),
    )
    save = rb.SaveAt(ts=jnp.linspace(0, 0.6, 121))
    sol = rb.simulate_batch(world, starts, METHOD, 0.6, save=save)
    energy = jax.vmap(jax.vmap(lambda s: rb.energy(world, s)))(sol.states) / 0.5
    # Of 2.2 J/kg. Steps of second order do not keep it to round-off while a rim rolls.
    assert np.diff(energy, axis=1).max() < 0.01
    assert np.all(energy[:, -1] < energy[:, 0])


@pytest.mark.slow
def test_a_can_rolls_on_a_box_without_loss():
    """On its side, v = omega r: it goes on so; one that is at rest stays."""
    world = rb.World([CAN], [TABLE], contact_law=rb.Coulomb(0.5, 0.0))
    # The axis is along y: turned about x by -90 degrees, the z axis of the body is along +y.
    side = [HALF, -HALF, 0, 0]
    rolling = rb.simulate(
        world, state([-0.3, 0.05, 0.1], side, (0.5, 0, 0), (0, 0, 5.0)), METHOD, 1.0
    ).final
    np.testing.assert_allclose(rolling.position[0], [0.2, 0.05, 0.1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(rolling.velocity[0], [0.5, 0, 0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(rolling.angular_velocity[0], [0, 0, 5.0], rtol=0, atol=1e-8)
    start = state([-0.3, 0.05, 0.1], side)
    final = rb.simulate(world, start, METHOD, 1.0).final
    np.testing.assert_allclose(final.position, start.position, rtol=0, atol=1e-10)
    np.testing.assert_allclose(final.quaternion, start.quaternion, rtol=0, atol=1e-10)


@pytest.mark.long
def test_a_stack_of_cans_stays():
    world = rb.World([CAN] * 3, [TABLE], contact_law=rb.Coulomb(0.5, 0.0))
    start = state([[0.0, 0, 0.15], [0.02, 0.01, 0.45], [0.0, -0.01, 0.75]])
    final = rb.simulate(world, start, METHOD, 0.5).final
    np.testing.assert_allclose(final.position, start.position, rtol=0, atol=1e-9)
    np.testing.assert_allclose(final.quaternion, start.quaternion, rtol=0, atol=1e-9)


@pytest.mark.long
def test_a_coin_lands_on_a_box():
    """Without spin it bounces, rocks from edge to edge and lies on a face, in the plane in which it
    was thrown."""
    coin = rb.RigidBody(rb.Cylinder(0.012, 0.001), 0.006)
    world = rb.World([coin], [TABLE], contact_law=rb.Coulomb(0.3, 0.3))
    start = state([0.1, 0.02, 0.03], [1.0, 0.0, 0.1, 0.0], (0.1, 0, 0), (0, 2.0, 0))
    method = rb.EventDriven(rb.LieVariational(), 0.002, on_zeno="rest")
    final = rb.simulate(world, start, method, 1.0).final
    np.testing.assert_allclose(final.position[0, 1:], [0.02, 0.001], rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.abs(upright(final.quaternion)[0]), 1.0, rtol=0, atol=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("other", [TABLE, *before_releases(CAN)])
def test_derivative_of_an_impact(other):
    """Of the end by the start, in both modes, against central differences."""
    turn = [1.0, 0.3, -0.2, 0.5]
    if isinstance(other, rb.RigidBody):
        world = rb.World([CAN, other], gravity=(0, 0, 0), contact_law=rb.Frictionless())
    else:
        world = rb.World([CAN], [other], gravity=(0, 0, 0), contact_law=rb.Frictionless())

    def final(x):
        place, speed, spin = [x[:3]], [x[3:6]], [jnp.array([0.5, -1.0, 0.3])]
        turns = [jnp.array(turn)]
        if len(world.bodies) == 2:
            place.append(jnp.array([0.05, 0.03, -0.15]))
            speed.append(jnp.zeros(3))
            spin.append(jnp.zeros(3))
            turns.append(jnp.array([0.4, 1.0, 0.1, -0.3]))
        start = state(*(jnp.stack(rows) for rows in (place, turns, speed, spin)))
        end = rb.simulate(world, start, rb.LGVCI(dt=0.02), t1=0.3).final
        return jnp.concatenate([end.position[0], end.quaternion[0], end.angular_velocity[0]])

    x = jnp.array([0.1, 0.05, 0.4, 0.1, 0.0, -1.0])
    expected = differences(jax.jit(final), x, step=1e-4)
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(quick_jit(mode(final))(x), expected, rtol=0, atol=1e-8)
