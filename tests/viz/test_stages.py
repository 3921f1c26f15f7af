"""Replays of several simulations that follow one another."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb import optimize as ro
from jaxrb.simulate import ContactForces
from jaxrb.viz import replay

GRAVITY, RADIUS, FALL = 10.0, 0.5, 0.4  # [m/s^2], [m], how long it falls at first [s]
ASIDE = (1.0, -3.0, 0.5)  # kicks at 0, 1 and 2 s [m/s]


def lift(t, args):
    """Up, at a rate [m/s]."""
    zero = jnp.zeros_like(t)
    return jnp.stack([zero, zero, args * t]), jnp.array([1.0, 0.0, 0.0, 0.0])


WORLD = rb.World(
    [rb.RigidBody(rb.Sphere(RADIUS), mass=2.0)],
    [rb.HalfSpace(), rb.Moving(rb.HalfSpace(offset=-20.0), lift)],  # the latter is out of reach
    gravity=(0.0, 0.0, -GRAVITY),
    contact_law=rb.Frictionless(restitution=1.0),
)


@pytest.fixture(scope="module")
def stages():
    """A ball bounces without loss for three seconds, in three simulations, each of which begins
    with a kick to the side."""
    height, still = RADIUS + GRAVITY * FALL**2 / 2, jnp.zeros((1, 3))
    start = rb.State(
        jnp.array([[0.0, 0.0, height]]), jnp.array([[1.0, 0.0, 0.0, 0.0]]), still, still
    )
    plan = ro.OptimalControl(
        WORLD, start, rb.LGVCI(dt=0.01, on_zeno="stop"), t1=3.0, stages=3, control=ro.Kick(0),
        cost=lambda x, u: u, args=jnp.asarray(0.0),
    )  # fmt: skip
    kicks = np.zeros((3, 6))
    kicks[:, 1] = ASIDE
    return plan.rollout(kicks, rb.SaveAt(every=10, impacts=4))


def test_they_are_one_motion(stages):
    """It falls and rises, and aside it goes straight from kick to kick."""
    found = replay(WORLD, stages, fps=71, args=[0.0] * 3)
    t = found.times
    np.testing.assert_allclose(t, np.arange(214) / 71, atol=1e-12)
    assert found.duration == pytest.approx(3.0) and found.note == ""
    since_top = (t + FALL) % (2 * FALL) - FALL
    height = RADIUS + GRAVITY * (FALL**2 - since_top**2) / 2
    aside = sum(v * np.maximum(t - k, 0.0) for k, v in enumerate(ASIDE))
    place = np.stack([0 * t, aside, height], axis=-1)
    np.testing.assert_allclose(found.position[0, :, 0], place, atol=1e-9)
    np.testing.assert_allclose(found.impact_time, FALL * np.array([1, 3, 5, 7]), atol=1e-9)


def test_each_has_args_for_what_moves(stages):
    rates = np.array([0.5, 1.0, 2.0])
    found = replay(WORLD, stages, args=rates)
    t = found.times
    position, turn = found.obstacle_poses[1]
    rate = rates[np.minimum(np.floor(t + 1e-9).astype(int), 2)]
    np.testing.assert_allclose(position, np.stack([0 * t, 0 * t, rate * t], -1), atol=1e-12)
    np.testing.assert_array_equal(turn, np.tile([1.0, 0.0, 0.0, 0.0], (len(t), 1)))


def test_each_has_forces_of_its_own(stages):
    """The second has a contact that bears a load, the others have one that does not."""
    n = len(stages[0].ts)
    one, zero = jnp.ones((n, 1, 3)), jnp.zeros((n, 1))
    axes = jnp.broadcast_to(jnp.eye(3), (n, 1, 3, 3))
    rest = zero, zero.astype(int), one, axes, jnp.ones(n, bool), jnp.zeros(n), ((0, 0),)
    held = [
        dataclasses.replace(sol, contacts=ContactForces(load * one, *rest))
        for sol, load in zip(stages, (0.0, 2.0, 0.0), strict=True)
    ]
    found = replay(WORLD, held, args=[0.0] * 3)
    tails, tips = np.moveaxis(found.force_arrows, 2, 0)
    middle = (found.times > 1 - 1e-9) & (found.times < 2 - 1e-9)
    np.testing.assert_array_equal(np.any(tails != tips, axis=(1, 2)), middle)
    assert not replay(WORLD, [*held[:2], stages[2]], args=[0.0] * 3).force_arrows.size


def test_one_that_ended_early_is_told(stages):
    early = (rb.RESULTS.grazing, jnp.asarray(1.5))
    failed = eqx.tree_at(lambda s: (s.result, s.stats.time), stages[1], early)
    found = replay(WORLD, [stages[0], failed, stages[2]], args=[0.0] * 3)
    assert found.label(0) == "t = 0.00 s (grazing)"
    assert found.times[-1] == pytest.approx(3.0)


def test_messages(stages):
    with pytest.raises(ValueError, match=r"sol\[1\] begins at 1 s, before sol\[0\] ends at 2 s"):
        replay(WORLD, [stages[1], stages[1]], args=[0.0] * 2)
    with pytest.raises(ValueError, match="got none"):
        replay(WORLD, [])
    with pytest.raises(ValueError, match="sol must be a Solution"):
        replay(WORLD, [stages[0], stages[1].states], args=[0.0] * 2)
    for wrong in (np.zeros((2, 3)), jnp.asarray(0.5), 0.5, [None] * 4):
        with pytest.raises(ValueError, match="args must be one for each of 3 solutions"):
            replay(WORLD, stages, args=wrong)
