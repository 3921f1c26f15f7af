"""Contacts between bodies: what impulses at many of them do at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.simulate.system import build

BALL = rb.RigidBody(rb.Sphere(0.3), 1.5)
BOX = rb.RigidBody(rb.Box((0.2, 0.3, 0.25)), 2.0)
ELLIPSOID = rb.RigidBody(rb.Ellipsoid((0.2, 0.3, 0.4)), 1.3)


def scattered(bodies, seed=0):
    """Bodies apart from each other, turned and in motion."""
    rng = np.random.default_rng(seed)
    n = len(bodies)
    quaternion = rng.normal(size=(n, 4))
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    place = 2.0 * np.arange(n)[:, None] * [1.0, 0.1, -0.2] + 0.2 * rng.normal(size=(n, 3))
    return rb.State(place, quaternion, rng.normal(size=(n, 3)), rng.normal(size=(n, 3)))


@pytest.mark.parametrize("bodies", [[BALL] * 4, [BOX, ELLIPSOID, BALL, BOX], [BOX, BOX]])
def test_many_impulses_at_once(bodies):
    """They add up to those one after the other; linear and angular momentum stay, and the normal
    velocity of one contact changes by its impulse times W."""
    some = [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)]
    world = rb.World(bodies, pairs=some if bodies[1] is ELLIPSOID else None)
    state = scattered(bodies)
    system, phase = build(world, state)
    contacts = system.contacts.find(jnp.zeros(()), phase)
    rng = np.random.default_rng(1)
    impulse = jnp.asarray(rng.normal(size=contacts.gap.shape))
    touching = ~np.eye(len(bodies), dtype=bool)
    everywhere = jnp.asarray(
        np.broadcast_to(touching if impulse.ndim == 2 else True, impulse.shape)
    )
    together = contacts.apply_impulse(phase, impulse, everywhere, system.inertial)
    one_by_one = phase
    for index in np.argwhere(np.asarray(everywhere)):
        here = jnp.zeros(impulse.shape, bool).at[tuple(index)].set(True)
        before = contacts.kinematics(one_by_one, system.inertial)
        one_by_one = contacts.apply_impulse(one_by_one, impulse, here, system.inertial)
        change = contacts.kinematics(one_by_one, system.inertial).normal_velocity
        change = (change - before.normal_velocity)[tuple(index)]
        np.testing.assert_allclose(
            change, (impulse * before.inverse_mass)[tuple(index)], rtol=1e-12, atol=1e-13
        )
    for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(one_by_one), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13)
    total = lambda v: np.array([float(part.sum()) for part in (v.x, v.y, v.z)])  # noqa: E731
    np.testing.assert_allclose(
        total(together.linear_momentum), total(phase.linear_momentum), atol=1e-13
    )
