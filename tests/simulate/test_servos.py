"""Motors that feed the rate of their joint back by a damping, within limits of their torque."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, quick_jit, slope
from scipy.integrate import solve_ivp

import jaxrb as rb

INERTIA, AIM, T = np.array([0.3, 0.7]), 1.0, 0.5
REDUCED = 1 / np.sum(1 / INERTIA)
UPRIGHT = np.array([[1.0, 0, 0, 0]] * 2)


class TowardsAim(eqx.Module):
    """A torque that grows with the angle that is missing between two discs on one axis."""

    stiffness: jax.Array

    def __call__(self, t, state, args):
        angle = 2 * jnp.arctan2(state.quaternion[:, 3], state.quaternion[:, 0])
        return self.stiffness * (AIM - (angle[0] - angle[1]))


def discs(stiffness, damping, limit=None, armature=0.0):
    """Two discs on one axis, with a servo between them that turns them apart."""
    bodies = [rb.RigidBody(rb.Sphere(0.1), 1.0, (0.5, 0.5, j)) for j in INERTIA]
    hinge = rb.Hinge(0, (0, 0, 1), other=1, armature=armature)
    limits = None if limit is None else jnp.stack([-limit, limit])
    servo = rb.Motor(0, TowardsAim(jnp.asarray(stiffness)), damping=damping, limits=limits)
    still = jnp.zeros((2, 3), jnp.result_type(stiffness))
    start = rb.State(still, jnp.asarray(UPRIGHT, still.dtype), still, still)
    return rb.World(bodies, joints=[hinge], forces=[servo], gravity=(0, 0, 0)), start


def exact(stiffness, damping, limit, armature):
    """The angle and its rate by the equation of motion, which is stiff for strong servos."""

    def rate(_, x):
        torque = np.clip(stiffness * (AIM - x[0]) - damping * x[1], -limit, limit)
        return [x[1], torque / (REDUCED + armature)]

    accuracy = {"rtol": 1e-10, "atol": 1e-12, "max_step": 1e-3}
    return solve_ivp(rate, (0, T), [0.0, 0.0], "LSODA", **accuracy).y[:, -1]


@jax.jit
def turned(stiffness, damping, limit, armature, dt):
    world, start = discs(stiffness, damping, limit, armature)
    sol = rb.simulate(world, start, rb.LGVCI(dt), T, max_steps=400, throw=False)
    energy = rb.energy(world, sol.final) - rb.energy(world, start)
    angle, rate = (f(world, sol.final)[0] for f in (rb.joint_coordinates, rb.joint_velocities))
    return angle, rate, energy - sol.stats.work, sol.stats.flow_evaluations, sol.successful


@pytest.mark.slow
def test_a_servo_without_a_limit_that_is_met():
    """Of second order, with what it does as its work: energy changes by that to round-off, as there
    is nothing else."""
    numbers, steps = (10.0, 1.0, 1e3, 0.0), np.array([50, 100, 200])
    angle, _ = exact(*numbers)
    found = [turned(*numbers, T / n) for n in steps]
    errors = [abs(float(one[0]) - angle) for one in found]
    assert abs(slope(T / steps, errors) - 2) < 0.1 and errors[-1] < 1e-6, errors
    for n, (_, _, missing, taken, successful) in zip(steps, found, strict=True):
        assert successful and int(taken) == n
        assert abs(float(missing)) < 1e-13


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stiffness", "damping", "limit", "armature"),
    [(10.0, 1.0, 3.0, 0.0), (1000.0, 100.0, 20.0, 0.1), (4000.0, 400.0, 5.0, 0.0)],
)
def test_servos_of_any_strength_within_limits(stiffness, damping, limit, armature):
    """At first they push as they may, then they brake at the limit or creep to the aim. The damping
    of the strongest would stop the discs within a two thousandth of a second: every step is taken
    as a whole, and errors are of the step in which the limit is left, and of the switches while
    it is met again and again along the way."""
    angle, rate = exact(stiffness, damping, limit, armature)
    for n, allowed in ((50, 6e-3), (200, 1e-3)):
        found = turned(stiffness, damping, limit, armature, T / n)
        assert found[4] and int(found[3]) == n
        assert abs(found[0] - angle) < allowed
        assert abs(found[1] - rate) < 12 * allowed
        assert abs(found[2]) < 1e-4


@pytest.mark.slow
def test_servos_of_a_batch_in_single_precision():
    """Weak and strong ones, within limits and beyond, are those that run alone in double."""
    numbers = np.array([[10.0, 1.0, 3.0, 0.0], [1000.0, 100.0, 20.0, 0.1], [10.0, 1.0, 1e3, 0.0]])
    single = jnp.asarray(numbers, jnp.float32)
    found = jax.vmap(lambda x: turned(*x, jnp.float32(0.01)))(single)
    assert found[0].dtype == jnp.float32 and found[4].all()
    alone = [float(turned(*x, 0.01)[0]) for x in numbers]
    np.testing.assert_allclose(found[0], alone, atol=1e-4)


def braked(x):
    """The angle and its rate after pushing at the limit, leaving it, and braking.

    Args:
        x: stiffness, damping, limit, armature.
    """
    world, start = discs(*x)
    final = rb.simulate(world, start, rb.LGVCI(0.02), 0.4).final
    return jnp.stack([f(world, final)[0] for f in (rb.joint_coordinates, rb.joint_velocities)])


@pytest.mark.long
@pytest.mark.parametrize("x", [[10.0, 1.0, 3.0, 0.1], [300.0, 30.0, 8.0, 0.05]])
def test_derivatives_in_both_modes(x):
    """By all numbers, while steps meet the limit and later ones do not."""
    x = jnp.asarray(x)
    expected = differences(quick_jit(braked), x, 1e-4)
    assert jnp.all(jnp.abs(expected[:, 2]) > 1e-4)  # the limit counts
    forward = quick_jit(jax.jacfwd(braked))(x)
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-8)
    np.testing.assert_allclose(quick_jit(jax.jacrev(braked))(x), forward, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"damping": -1.0}, r"Motor\.damping"),
        ({"damping": np.nan}, r"Motor\.damping"),
        ({"damping": [1.0, 2.0]}, r"Motor\.damping"),
        ({"limits": (1.0, -1.0)}, r"Motor\.limits"),
        ({"limits": (np.nan, 1.0)}, r"Motor\.limits"),
        ({"limits": 3.0}, r"Motor\.limits"),
        ({"joint": (0, 1), "torque": (1.0, 1.0), "limits": (-1.0, 1.0)}, r"Motor\.limits"),
        ({"velocity_dependent": "no"}, r"Motor\.velocity_dependent"),
    ],
)
def test_bad_input(arguments, name):
    with pytest.raises(ValueError, match=name):
        rb.Motor(**({"joint": 0, "torque": 1.0} | arguments))
