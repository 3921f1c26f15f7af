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


@pytest.mark.slow
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


UNION = rb.RigidBody(
    rb.Union(rb.Ellipsoid((0.2, 0.3, 0.4)), rb.Placed(rb.Sphere(0.2), (0.4, 0, 0))),
    1.0,
    (1, 1, 1.2),
)


def swing(t, args):
    """Moves and turns, far from uniformly."""
    half = 0.4 * jnp.sin(2 * t)
    place = jnp.stack([0.3 * jnp.sin(3 * t), 0.2 * t, -0.5 * t**2])
    return place, jnp.stack([jnp.cos(half), 0.6 * jnp.sin(half), 0.8 * jnp.sin(half), 0 * t])


@pytest.mark.slow
@pytest.mark.parametrize("body", [BALL, BOX, UNION])
def test_normal_velocities_are_the_rates_of_gaps(body):
    """At obstacles that move and turn: by differences of all gaps along a motion of the body."""
    shapes = [rb.HalfSpace((0.1, 0.2, 1.0), -1.0), rb.HalfSpace((1.0, 0.0, 0.2), -2.0)]
    shapes += [rb.Complement(rb.Box((3.0, 4.0, 5.0))), rb.Placed(rb.Sphere(0.5), (1.2, 0.3, 0.4))]
    if body is not UNION:
        shapes += [rb.Complement(rb.Ellipsoid((4.0, 3.0, 3.5))), rb.Placed(BOX.shape, (-2, 0, 1.0))]
    world = rb.World([body], [rb.Moving(shape, swing) for shape in shapes])
    rng = np.random.default_rng(3)
    place, velocity, spin = rng.normal(size=(3, 3)) * [[0.2], [1.0], [1.0]]
    turn = np.array([0.8, 0.0, 0.6, 0.0])

    def contacts(t):
        """After a time t of a motion that has these velocities at its start."""
        quaternion = turn + t * quaternion_rate
        quaternion = quaternion / jnp.sqrt(jnp.sum(quaternion**2))
        rows = (place + t * velocity, quaternion, velocity, spin)
        system, phase = build(world, rb.State(*(jnp.asarray(row)[None] for row in rows)))
        found = system.contacts.find(jnp.asarray(0.3 + t), phase)
        return found.gap, found.kinematics(phase, system.inertial).normal_velocity

    w, v = turn[0], turn[1:]
    quaternion_rate = np.concatenate([[-v @ spin], w * spin + np.cross(v, spin)]) / 2
    gap, rate = contacts(0.0)
    step = 1e-5
    expected = (contacts(step)[0] - contacts(-step)[0]) / (2 * step)
    np.testing.assert_allclose(rate, expected, rtol=0, atol=1e-8)
    assert gap.size > 6


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("shape", [rb.Sphere(0.2), rb.Box((0.3, 0.2, 0.1))])
def test_round_off_bounds_the_errors_of_gaps(shape, moves):
    """Far along planes that are not normal to an axis, where a small gap is a sum of large terms:
    in single precision against the same poses in double precision. A plane that moves is carried
    far along itself, from under a body that stays."""
    rng = np.random.default_rng(5)
    n = 200
    normals = rng.normal(size=(n, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    along = rng.normal(size=(n, 3)) * 10.0 ** rng.uniform(0, 3, size=(n, 1))
    along -= normals * np.sum(normals * along, axis=1, keepdims=True)
    places = normals * 0.3 if moves else along + normals * 0.3
    turns = rng.normal(size=(n, 4))
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)

    @jax.jit
    @jax.vmap
    def found(normal, place, turn, carried):
        zero = jnp.zeros_like(place)[None]
        plane = rb.HalfSpace(normal, jnp.zeros_like(place[0]))
        if moves:
            plane = rb.Moving(plane, lambda t, place: (place, jnp.eye(4, dtype=place.dtype)[0]))
        world = rb.World([rb.RigidBody(shape)], [plane], gravity=zero[0])
        world = jax.tree.map(lambda leaf: leaf.astype(place.dtype), world)
        state = rb.State(place[None], turn[None], zero, zero)
        system, phase = build(world, state, carried)
        contacts = system.contacts.find(jnp.zeros_like(place[0]), phase)
        return contacts.gap.reshape(-1), contacts.round_off.reshape(-1)

    single = tuple(np.float32(array) for array in (normals, places, turns, along))
    gap, round_off = (np.asarray(array, float) for array in found(*single))
    exact, _ = found(*(np.float64(array) for array in single))
    assert gap.dtype == float and np.max(np.abs(gap - exact)) > 1e-5
    np.testing.assert_array_less(np.abs(gap - exact), round_off)
