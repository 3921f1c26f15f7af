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
