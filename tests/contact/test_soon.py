"""Contacts that are looked for only where bodies can touch soon, beside all contacts: what is
looked for is the same, and of the rest nothing closes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxrb as rb
from jaxrb.simulate.system import build

DURATION, TOLERANCE = 0.01, 1e-3  # [s], [m]
POINTS = 5  # of two boxes
BOX = rb.Box((0.2, 0.15, 0.1))
# Three pairs, looked at together, and ten, a few at a time.
NUMBERS = (3, 5)


def heap(n, seed, dtype=jnp.float64, spread=1.0):
    """A world of boxes without obstacles, and a state in which some of them touch, or all or none
    do where they are less or more spread."""
    rng = np.random.default_rng(seed)
    world = rb.World([rb.RigidBody(BOX, 1.0)] * n)
    width = 0.35 * spread * n ** (1 / 3)
    position = rng.uniform(-width, width, size=(n, 3))
    turn = Rotation.random(n, random_state=rng).as_quat()[:, [3, 0, 1, 2]]
    velocity, spin = rng.normal(size=(2, n, 3))
    return world, rb.State(*(jnp.asarray(x, dtype) for x in (position, turn, velocity, spin)))


def found(world, state, soon):
    system, phase = build(world, state, standing=True)
    if soon:
        system = system.soon(jnp.asarray(DURATION, phase.position.x.dtype), TOLERANCE)
    contacts = system.contacts.find(jnp.zeros_like(phase.position.x[0]), phase)
    assert system.contacts.partners.shape == (contacts.gap.size, 2)
    return contacts, contacts.kinematics(phase, system.inertial).normal_velocity


@pytest.mark.slow
@pytest.mark.parametrize(
    "n, dtype",
    [(n, "float64") for n in NUMBERS] + [pytest.param(5, "float32", marks=pytest.mark.slow)],
)
def test_nothing_is_left_out_that_can_close(n, dtype):
    """Of all states at once, whose pairs are near in different numbers, none of one, more in
    another than are looked at in one turn."""
    world, far = heap(n, 0, dtype, spread=20.0)
    states = [far, heap(n, 1, dtype, spread=0.3)[1]]
    states += [heap(n, seed, dtype)[1] for seed in range(2, 12)]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    round_off = 45 * float(np.finfo(dtype).eps)
    both = jax.jit(jax.vmap(lambda state: [found(world, state, soon) for soon in (False, True)]))
    (exact, rate), (near, near_rate) = both(batch)
    pairs = len(states), -1, POINTS
    gap, bound = (np.asarray(x.gap).reshape(pairs) for x in (exact, near))
    # To round-off: the two programs are not compiled alike.
    same = np.all(np.isclose(gap, bound, rtol=0, atol=round_off), axis=2)
    for one, other in zip(jax.tree.leaves(exact), jax.tree.leaves(near), strict=True):
        if one.shape == exact.gap.shape and one.dtype == exact.gap.dtype:
            both = (np.asarray(x).reshape(pairs)[same] for x in (one, other))
            np.testing.assert_allclose(*both, rtol=0, atol=100 * round_off)
    least, rest = gap.min(axis=2), bound[~same]
    assert np.all(bound.min(axis=2) <= least + round_off)
    # In one world none is left out, in one all are.
    left_out = ~same
    assert left_out[0].all()
    assert not left_out[1].any()
    assert 0.2 < left_out[2:].mean() < 0.95
    # A gap that is a bound stays open, at twice the speeds of now.
    speed = -np.asarray(near_rate).reshape(pairs)[~same]
    assert np.all(rest > TOLERANCE)
    assert np.all(rest - 2 * DURATION * speed > 0)
    assert np.all(least[~same] > TOLERANCE)
    closing = -np.asarray(rate).reshape(pairs)[~same]
    assert np.all(gap[~same] - 2 * DURATION * closing > 0)


@pytest.mark.slow
@pytest.mark.parametrize("n", NUMBERS)
def test_derivatives_are_those_of_all_contacts(n):
    """In both modes, of contacts that are looked for."""
    world, state = heap(n, 3)

    def gaps(position, soon):
        moved = rb.State(position, state.quaternion, state.velocity, state.angular_velocity)
        return found(world, moved, soon)[0].gap

    exact, forward, reverse = (
        jax.jit(mode, static_argnums=1)(state.position, soon)
        for mode, soon in (
            (jax.jacfwd(gaps), False),
            (jax.jacfwd(gaps), True),
            (jax.jacrev(gaps), True),
        )
    )
    same = np.isclose(gaps(state.position, False), gaps(state.position, True), rtol=0, atol=1e-14)
    assert 0 < same.sum() < same.size
    np.testing.assert_allclose(forward[same], exact[same], atol=1e-12)
    np.testing.assert_allclose(reverse, forward, atol=1e-12)


@pytest.mark.slow
def test_a_box_that_comes_in_fast_is_not_missed():
    """In a step it moves by more than its size, towards one of ten that are too far away for all
    but that step."""
    half, speed, number = 0.1, 30.0, 10
    box = rb.RigidBody(rb.Box((half, half, half)), 1.0)
    position, velocity = np.zeros((2, number, 3))
    position[:, 1] = np.arange(number)
    position[-1] = (-1.5, 0.0, 0.0)
    velocity[-1, 0] = speed
    turn = np.tile([1.0, 0, 0, 0], (number, 1))
    state = rb.State(*map(jnp.asarray, (position, turn, velocity, 0 * velocity)))
    world = rb.World([box] * number, [], gravity=(0, 0, 0), contact_law=rb.Frictionless(0.0))
    method, save = rb.LGVCI(0.01, on_zeno="rest"), rb.SaveAt(final=True, impacts=4)
    sol = rb.simulate(world, state, method, 0.1, save=save)
    np.testing.assert_allclose(sol.impacts.time[0], (1.5 - 2 * half) / speed, rtol=1e-12)
    expected = np.zeros((number, 3))
    expected[[0, -1], 0] = speed / 2
    np.testing.assert_allclose(sol.final.velocity, expected, atol=1e-12)
