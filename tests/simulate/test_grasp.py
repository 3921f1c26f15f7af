"""Two fingers grip a box and are lifted: it slips, lags behind or is lifted, as the grip is strong.

The fingers slide on a carriage, pressed together by motors; a servo moves the carriage upwards.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit

import jaxrb as rb

G, FRICTION, MASS, DT, STEPS = 9.81, 0.6, 0.2, 0.005, 50
BEGIN, SPEED, STIFFNESS, HEIGHT, HALF = 0.1, 0.5, 2000.0, 0.15, 0.03


class Lift(eqx.Module):
    """The force of a servo that follows a steady rise, and carries the weight of its load."""

    weight: float = eqx.field(static=True)

    def __call__(self, t, state, args):
        aim = HEIGHT + SPEED * jnp.maximum(t - BEGIN, 0.0)
        return STIFFNESS * (aim - state.position[0, 2]) + self.weight


def gripper():
    """The carriage, two fingers on it, and a box on the ground; and where they are."""
    finger = rb.RigidBody(rb.Box((0.01, HALF, 0.04)), 0.1)
    bodies = [
        rb.RigidBody(rb.Box((0.1, 0.05, 0.02)), 1.0),
        finger,
        finger,
        rb.RigidBody(rb.Box((HALF, HALF, HALF)), MASS),
    ]
    rail = {"other": 0, "anchor": (0, 0, 0.05)}
    joints = [
        rb.Slider(0, (0, 0, 1)),
        rb.Slider(1, (1, 0, 0), other_anchor=(-0.05, 0, -0.05), **rail),
        rb.Slider(2, (1, 0, 0), other_anchor=(0.05, 0, -0.05), **rail),
    ]
    forces = [
        rb.Motor(0, Lift(1.2 * G), damping=60.0),
        rb.Motor(1, lambda t, state, args: args, damping=1.0),
        rb.Motor(2, lambda t, state, args: -args, damping=1.0),
    ]
    world = rb.World(
        bodies,
        [rb.HalfSpace()],
        gravity=(0, 0, -G),
        joints=joints,
        forces=forces,
        contact_law=rb.Coulomb(FRICTION, 0.0),
        pairs=[(1, 3), (2, 3)],
    )
    place = jnp.array([[0, 0, HEIGHT], [-0.05, 0, 0.05], [0.05, 0, 0.05], [0, 0, HALF]])
    zero = jnp.zeros_like(place)
    return world, rb.State(place, jnp.zeros((4, 4)).at[:, 0].set(1.0), zero, zero)


@pytest.mark.slow
def test_a_box_is_lifted_by_its_faces():
    (world, start), method = gripper(), rb.LGVCI(DT, on_zeno="rest")

    @quick_jit
    @jax.vmap
    def run(grip):
        save = rb.SaveAt(every=1)
        return rb.simulate(
            world, start, method, DT * STEPS, args=grip, max_steps=STEPS, save=save, throw=False
        )

    weak, middle, strong = 0.8 * MASS * G / (2 * FRICTION), 1.904, 8.0
    sol = run(jnp.array([weak, middle, strong]))
    assert np.all(sol.successful)
    velocity, place = np.array(sol.states.velocity), np.array(sol.states.position)
    box, finger = velocity[:, :, 3], velocity[:, :, 1]
    np.testing.assert_allclose(place[:, :, 3, :2], 0.0, atol=1e-7)
    np.testing.assert_allclose(box[0], 0.0, atol=1e-9)
    # Sliding, it is pulled up by friction alone.
    pull = 2 * FRICTION * middle / MASS - G
    lags = slice(int(BEGIN / DT) + 2, None)
    assert np.all(finger[1, lags, 2] > box[1, lags, 2])
    np.testing.assert_allclose(np.diff(box[1, lags, 2]), pull * DT, atol=1e-8)
    np.testing.assert_allclose(box[2, lags, 2], finger[2, lags, 2], atol=1e-9)
    # The servo lags by what its damping takes, 60 N s/m over its stiffness.
    assert place[2, -1, 3, 2] - HALF > SPEED * (DT * STEPS - BEGIN - 60.0 / STIFFNESS) - 0.002
