"""The directions in which joints let states move: joints hold along them to first order, their
number is that of the freedoms, and the derivative of a flight along them is the whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.optimize.free_directions import free_directions, onto_joints
from jaxrb.simulate import joint_violations


def stacked(state):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], state)


def double_pendulum():
    """On two hinges, one behind the other."""
    rod = rb.RigidBody(rb.Box((0.1, 0.02, 0.02)), 1.0)
    axis, half = (0.0, 0.0, 1.0), (0.1, 0.0, 0.0)
    joints = [
        rb.Hinge(0, axis=axis, anchor=(-0.1, 0.0, 0.0)),
        rb.Hinge(1, axis=axis, anchor=(-0.1, 0.0, 0.0), other=0, other_anchor=half),
    ]
    world = rb.World([rod] * 2, joints=joints, gravity=(0.0, -9.81, 0.0))
    spin = jnp.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    place = jnp.array([[0.1, 0.0, 0.0], [0.3, 0.0, 0.0]])
    velocity = jnp.array([[0.0, 0.1, 0.0], [0.0, 0.3, 0.0]])
    return world, rb.State(place, jnp.tile(jnp.array([1.0, 0, 0, 0]), (2, 1)), velocity, spin)


def four_bar():
    """A rectangle of three bars and the world: two cranks that turn and a coupler that does not.
    Its four hinges have twenty rows, of which three repeat others."""
    crank, coupler = (
        rb.RigidBody(rb.Box(half)) for half in ((0.01, 0.1, 0.01), (0.15, 0.01, 0.01))
    )
    axis, up, along = (0.0, 0.0, 1.0), np.array([0.0, 0.1, 0.0]), np.array([0.15, 0.0, 0.0])
    joints = [
        rb.Hinge(0, axis=axis, anchor=-up),
        rb.Hinge(1, axis=axis, anchor=-along, other=0, other_anchor=up),
        rb.Hinge(2, axis=axis, anchor=up, other=1, other_anchor=along),
        rb.Hinge(2, axis=axis, anchor=-up, other_anchor=2 * along),
    ]
    world = rb.World([crank, coupler, crank], joints=joints)
    place = jnp.stack([jnp.asarray(x) for x in (up, 2 * up + along, up + 2 * along)])
    turn = jnp.tile(jnp.array([1.0, 0.0, 0.0, 0.0]), (3, 1))
    velocity = jnp.zeros((3, 3)).at[:, 0].set(jnp.array([-0.1, -0.2, -0.1]))
    spin = jnp.zeros((3, 3)).at[:, 2].set(jnp.array([1.0, 0.0, 1.0]))
    return world, rb.State(place, turn, velocity, spin)


@pytest.mark.slow
@pytest.mark.parametrize("scene, number", [(double_pendulum, 4), (four_bar, 2)])
def test_joints_hold_along_them(scene, number):
    """Of angles and rates; those of a loop too, whose rows repeat each other."""
    world, state = scene()
    (basis,) = free_directions(world, stacked(state))
    assert basis.shape == (12 * len(world.bodies), number)
    np.testing.assert_allclose(basis.T @ basis, np.eye(number), atol=1e-12)
    h = 1e-4
    for direction in basis.T:
        ahead = state.retract(jnp.asarray(h * direction).reshape(-1, 12))
        for error in joint_violations(world, ahead):
            assert np.abs(error).max() < 30 * h**2


@pytest.mark.slow
@pytest.mark.parametrize("scene", [double_pendulum, four_bar])
def test_states_are_led_back_onto_joints(scene):
    """By no more than they are moved away, and one that is not finite does not end the others."""
    world, state = scene()
    rng = np.random.default_rng(0)
    steps = 0.03 * rng.normal(size=(3, len(world.bodies), 12))
    steps[1, 0, 0] = np.nan
    away = jax.vmap(state.retract)(jnp.asarray(steps))
    back = onto_joints(world, away)
    for k in (0, 2):
        one, before = (
            jax.tree.map(lambda leaf, k=k: jnp.asarray(leaf[k]), x) for x in (back, away)
        )
        for error in joint_violations(world, one):
            assert np.abs(error).max() < 1e-13
        moved = np.linalg.norm(before.local(one))
        assert 0 < moved < 1.1 * np.linalg.norm(steps[k])
    assert np.isnan(np.asarray(back.position[1, 0, 0]))


def test_a_world_without_joints_moves_in_all():
    world = rb.World([rb.RigidBody(rb.Sphere(0.1))])
    assert free_directions(world, None) is None
