"""Boxes that lie on boxes, with friction: they stay; what falls on them comes to rest."""

import jax
import numpy as np
import pytest
from helpers import before_releases

import jaxrb as rb

pytestmark = pytest.mark.slow

HALF = (0.2, 0.15, 0.1)
BOX = rb.RigidBody(rb.Box(HALF), 1.0)
LAW = rb.Coulomb(0.5, 0.0)
FLOOR = rb.HalfSpace((0.0, 0.0, 1.0), 0.0)
METHOD = rb.EventDriven(rb.LieVariational(), 0.01, on_zeno="rest")


def state(position, quaternion=(1.0, 0, 0, 0), velocity=(0.0, 0, 0), spin=(0.0, 0, 0)):
    position = np.atleast_2d(np.asarray(position, float))
    rows = (np.asarray(row, float) for row in (quaternion, velocity, spin))
    wide = (np.broadcast_to(row, (len(position), row.shape[-1])) for row in rows)
    return rb.State(position, *(np.array(row) for row in wide))


def stays(world, start, t1=1.0):
    """Places and attitudes after a time, which may differ by 1e-10 m."""
    solution = rb.simulate(world, start, METHOD, t1)
    np.testing.assert_allclose(solution.final.position, start.position, rtol=0, atol=1e-10)
    np.testing.assert_allclose(solution.final.quaternion, start.quaternion, rtol=0, atol=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("number", [2, *before_releases(10)])
def test_stack_on_a_plane(number):
    """Each box is offset by up to 2 cm."""
    rng = np.random.default_rng(0)
    offset = rng.uniform(-0.02, 0.02, (number, 2))
    place = np.concatenate([offset, 0.1 + 0.2 * np.arange(number)[:, None]], axis=1)
    stays(rb.World([BOX] * number, [FLOOR], contact_law=LAW), state(place))


TABLE = rb.Placed(rb.Box((0.5, 0.5, 0.1)), (0.0, 0.0, -0.1))
# Its axis is along x.
LYING = rb.RigidBody(rb.Placed(rb.Capsule(0.05, 0.1), (0, 0, 0), (1, 0, 1, 0)), 0.5)


@pytest.mark.parametrize(("body", "height"), [(BOX, 0.1), *before_releases((LYING, 0.05))])
def test_on_a_box_that_is_fixed(body, height):
    """Turned, and hanging over an edge."""
    world = rb.World([body], [TABLE], contact_law=LAW)
    stays(world, state([0.45, 0.1, height], [np.cos(0.15), 0, 0, np.sin(0.15)]))


def test_box_that_falls_on_a_box():
    """Tilted, without restitution: it comes to lie flat on the table."""
    world = rb.World([BOX], [TABLE], contact_law=LAW)
    tilt = np.array([1.0, 0.06, 0.04, 0.1])
    start = state([0.1, 0.0, 0.15], tilt / np.linalg.norm(tilt), velocity=(0.2, 0.1, 0.0))
    final = rb.simulate(world, start, METHOD, 1.0).final
    np.testing.assert_allclose(final.position[0, 2], 0.1, rtol=0, atol=1e-10)
    np.testing.assert_allclose(final.quaternion[0, 1:3], 0.0, atol=1e-10)
    np.testing.assert_allclose(final.velocity, 0.0, atol=1e-9)
    np.testing.assert_allclose(final.angular_velocity, 0.0, atol=1e-9)


@pytest.mark.long
def test_every_step_of_a_stack_that_is_shoved_is_solved():
    """Six boxes that slide, the lowest one faster. Now and then a face is on the verge of slipping
    and slips by 1e-9 of the speeds, in directions that only the end of the search shows."""
    worlds, boxes, dt = 16, 6, 0.005
    rng = np.random.default_rng(0)
    place = np.zeros((boxes, 3))
    place[:, :2] = rng.uniform(-0.02, 0.02, (boxes, 2))
    place[:, 2] = 0.1 + 0.2 * np.arange(boxes)
    velocity = np.zeros((worlds, boxes, 3))
    velocity[..., 0] = 0.5
    velocity[:, 0, 0] += 1.0
    velocity += 1e-3 * rng.normal(size=velocity.shape)
    world = rb.World([BOX] * boxes, [FLOOR], contact_law=rb.Coulomb(0.3, 0.0))
    still = state(place)
    start = rb.State(
        *(np.broadcast_to(x, (worlds, *x.shape)) for x in (still.position, still.quaternion)),
        velocity,
        np.zeros((worlds, boxes, 3)),
    )
    method = rb.MoreauJean(dt, impacts="stepped", penetration=0.01)
    sol = rb.simulate_batch(world, start, method, 40 * dt, throw=False)
    assert bool(sol.successful.all())
    energy = np.asarray(sol.stats.energy)
    assert (energy[:, 1] < energy[:, 0]).all()


@pytest.mark.long
def test_a_wall_of_bricks_that_is_shaken_comes_to_rest():
    """Twenty bricks in bond that all get velocities at once. Of a few steps the impulses are found
    to three digits only; these create no energy either, and what comes to rest lies still under its
    weight."""
    worlds, half, dt, duration, weight = 2, (0.1, 0.05, 0.05), 0.005, 1.0, 20 * 9.81
    place = np.array(
        [[0.2 * k + 0.06 * (row % 2), 0.0, 0.05 + 0.1 * row] for row in range(5) for k in range(4)]
    )
    brick = rb.RigidBody(rb.Box(half), 1.0)
    world = rb.World([brick] * 20, [FLOOR], gravity=(0, 0, -9.81), contact_law=LAW)
    rng = np.random.default_rng(0)
    shape = (worlds, 20, 3)
    moving = 0.1 * rng.normal(size=shape), 0.3 * rng.normal(size=shape)
    still = state(place)
    start = rb.State(
        *(np.broadcast_to(x, (worlds, *x.shape)) for x in (still.position, still.quaternion)),
        *moving,
    )
    method = rb.MoreauJean(dt, impacts="stepped", penetration=half[2], residual=1e-2)
    sol = rb.simulate_batch(
        world, start, method, duration, save=rb.SaveAt(every=1, contacts=True), throw=False
    )
    assert bool(sol.successful.all())
    energy = jax.vmap(jax.vmap(lambda state: rb.energy(world, state)))(sol.states)
    # Round-off of 50 J.
    assert np.diff(energy, axis=1).max() < 1e-12
    np.testing.assert_allclose(sol.final.velocity, 0.0, atol=1e-12)
    contacts = sol.contacts
    assert contacts is not None
    residual = np.asarray(contacts.residual)
    assert residual.max() < 1e-2 and (residual > 1e-9).mean() < 0.05
    floor = [k for k, (_, other) in enumerate(contacts.partners) if other == 0]
    lifted = np.asarray(contacts.vector)[:, -1, floor, 2].sum(axis=-1)
    np.testing.assert_allclose(lifted, weight, rtol=1e-9)
    # What they have penetrated the floor by is less than v dt.
    assert np.asarray(contacts.gap)[..., floor].min() > -0.6 * dt


@pytest.mark.long
def test_a_ball_thrown_into_a_stack():
    """It strikes a box beside the middle of faces that tilt by that, with restitution at some of
    their corners while all stick: every step is solved, and energy is lost."""
    boxes = 5
    cube, ball = rb.RigidBody(rb.Box((0.1,) * 3), 1.0), rb.RigidBody(rb.Sphere(0.1), 1.0)
    law = rb.Coulomb(0.5, 0.2)
    world = rb.World([cube] * boxes + [ball], [FLOOR], contact_law=law)
    place = np.zeros((boxes + 1, 3))
    place[:, 2] = 0.1 + 0.2 * np.arange(boxes + 1)
    place[-1] = -1.0, 0.01, 0.52
    velocity = np.zeros((boxes + 1, 3))
    velocity[-1] = 4.0, 0.0, 1.1
    method = rb.MoreauJean(0.005, impacts="stepped")
    sol = rb.simulate(world, state(place, velocity=velocity), method, 1.5)
    energy = np.asarray(sol.stats.energy)
    assert energy[1] < 0.8 * energy[0]
    # What the tumbling boxes have penetrated each other and the floor by is less than v dt.
    assert np.asarray(sol.final.position)[:, 2].min() > 0.1 - 0.02
