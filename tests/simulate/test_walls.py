"""Friction at upright faces, of whose normals round-off says whether they look up or down."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit

import jaxrb as rb
from jaxrb.math import Vec3
from jaxrb.stepping.contact_rows import frame

GRAVITY, FRICTION, MASS, PUSH = 9.81, 0.5, 2.0, 20.0
DT, STEPS = 0.01, 20


def test_tangents_of_level_and_upright_normals_keep_their_signs():
    """Round-off of a height changes them by as much."""
    angle = np.linspace(0, 2 * np.pi, 1001)
    for height in (0.0, 1.0, np.sqrt(0.5), 0.5, -np.sqrt(0.5), -0.5):
        across = np.sqrt(1 - height**2)
        side = across * np.cos(angle), across * np.sin(angle)
        below, above = (
            [
                axis.array()
                for axis in frame(Vec3(*map(jnp.asarray, (*side, np.full_like(angle, z)))))
            ]
            for z in (height - 1e-15, height + 1e-15)
        )
        np.testing.assert_allclose(below, above, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("method", [rb.LGVCI(DT, on_zeno="rest"), rb.MoreauJean(DT)])
def test_a_box_slides_down_a_wall(method):
    """It is pressed by a force, and slides with g - mu F/m; forces are those of Coulomb's law at
    each time. The wall is a box that is turned about the vertical, as the body is."""
    yaw = jnp.array([np.cos(0.35), 0, 0, np.sin(0.35)])
    out = np.array([np.cos(0.7), np.sin(0.7), 0.0])
    wall = rb.Placed(rb.Box((0.1, 1.0, 1.0)), (0.3, 0.2, 0.1), yaw)
    box = rb.RigidBody(rb.Box((0.1, 0.2, 0.15)), MASS)
    world = rb.World(
        [box],
        [wall],
        gravity=(0, 0, -GRAVITY),
        contact_law=rb.Coulomb(FRICTION, 0.0),
        forces=[rb.ConstantForce(0, -PUSH * out)],
    )
    place = jnp.asarray([0.3, 0.2, 0.1]) + 0.2 * out
    zero = jnp.zeros((1, 3))
    start = rb.State(place[None], yaw[None], zero, zero)

    @quick_jit
    def run(start):
        save = rb.SaveAt(every=1, contacts=True)
        sol = rb.simulate(world, start, method, DT * STEPS, max_steps=STEPS, save=save)
        return sol.states, sol.contacts.vector

    states, force = run(start)
    fall = GRAVITY - FRICTION * PUSH / MASS
    np.testing.assert_allclose(
        states.velocity[:, 0, 2], -fall * DT * np.arange(STEPS + 1), atol=1e-9
    )
    np.testing.assert_allclose(states.angular_velocity, 0.0, atol=1e-8)
    total = np.array([*(PUSH * out[:2]), FRICTION * PUSH])
    # At rest at first, it slides from then on.
    np.testing.assert_allclose(
        jnp.sum(force, axis=1)[1:], np.broadcast_to(total, (STEPS, 3)), atol=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_boxes_slide_without_impacts(dtype):
    """However fast, and turned against what they slide on: round-off of velocities, which in
    float32 moves them off it by more than gaps are exact, makes none fall and bounce. Speeds fall
    by mu g in each second, but for what is left of the step in which a box stops."""
    steps, rng = 300, np.random.default_rng(0)
    speed, friction, yaw = rng.uniform((0.1, 0.05, 0), (8, 0.3, 1.5), (64, 3)).T

    def run(speed, friction, yaw):
        zero = jnp.zeros((1, 3), dtype)
        turn = jnp.stack([jnp.cos(yaw / 2), 0 * yaw, 0 * yaw, jnp.sin(yaw / 2)])
        world = rb.World(
            [rb.RigidBody(rb.Box((0.1, 0.15, 0.1)), 1.0)],
            [rb.HalfSpace()],
            gravity=(0, 0, -GRAVITY),
            contact_law=rb.Coulomb(friction, 0.3),
        )
        start = rb.State(
            zero.at[0, 2].set(0.1), turn[None], zero.at[0, 0].set(speed), jnp.zeros_like(zero)
        )
        sol = rb.simulate(world, start, rb.MoreauJean(DT), DT * steps, max_steps=steps, throw=False)
        return sol.final.position[0], sol.impacts.count, sol.successful

    numbers = (jnp.asarray(each, dtype) for each in (speed, friction, yaw))
    place, impacts, successful = quick_jit(jax.vmap(run))(*numbers)
    assert place.dtype == dtype and successful.all()
    # With each box that loses the ground again and again there are thousands.
    assert int(impacts.sum()) <= (3 if dtype == "float32" else 0)
    slides = np.minimum(speed / (friction * GRAVITY), DT * steps)
    way = speed * slides - friction * GRAVITY * slides**2 / 2
    # Of the step in which a box stops: its square. Of float32: that of hundreds of places.
    allowed = 1e-3 if dtype == "float32" else 1e-4
    np.testing.assert_allclose(place[:, 0], way, atol=allowed)
    np.testing.assert_allclose(place[:, 2], 0.1, atol=2e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        rb.MoreauJean(DT),
        rb.MoreauJean(DT, impacts="stepped"),
        rb.MoreauJean(DT, impacts="stepped", scheme="implicit"),
    ],
    ids=["located", "variational", "implicit"],
)
def test_boxes_in_touch_keep_the_ground_in_float32(method):
    """One slides into another, and both slide on, in touch, until they lie: in each step both lose
    mu g h of their speed. Steps leave gaps open by more than these are exact; a box that is taken
    to have lost the ground for one step falls and slides on faster. Between the boxes nothing
    presses, and their gap is less exact than those of the ground, far as they are from the origin.
    """
    steps, friction, speeds = 100, 0.2, np.linspace(1.2, 3.0, 32, dtype=np.float32)

    def run(speed):
        zero = jnp.zeros((2, 3), speed.dtype)
        box = rb.RigidBody(rb.Box((0.1, 0.1, 0.1)), 1.0)
        law = rb.Coulomb(friction, 0.0)
        world = rb.World([box, box], [rb.HalfSpace()], gravity=(0, 0, -GRAVITY), contact_law=law)
        place = zero.at[:, 2].set(0.1).at[1, 0].set(0.35)
        upright = jnp.zeros((2, 4), speed.dtype).at[:, 0].set(1)
        start = rb.State(place, upright, zero.at[0, 0].set(speed), zero)
        every = rb.SaveAt(every=1)
        sol = rb.simulate(
            world, start, method, DT * steps, max_steps=steps, throw=False, save=every
        )
        return sol.states.position[..., 2], sol.states.velocity[..., 0], sol.successful

    height, velocity, successful = quick_jit(jax.vmap(run))(jnp.asarray(speeds))
    assert velocity.dtype == np.float32 and successful.all()
    # A step in which a box falls takes it 1e-4 m down.
    np.testing.assert_allclose(height, 0.1, atol=5e-6)
    for each in np.asarray(velocity):
        first = int(np.argmax(each[:, 1] > 0))
        assert 0 < first < 20
        together = each[first:]
        slowed = np.maximum(together[:-1] - friction * GRAVITY * DT, 0)
        # Relative to about a metre per second, the largest residual with which a step is taken.
        np.testing.assert_allclose(together[1:], slowed, atol=2e-4)
        np.testing.assert_allclose(together[:, 0], together[:, 1], atol=2e-4)
