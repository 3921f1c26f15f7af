"""Dampers in joints, from weak to so strong that they stop their joint in a part of a step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, quick_jit, slope

import jaxrb as rb

pytestmark = pytest.mark.slow

INERTIA = np.array([0.3, 0.7])
REDUCED = 1 / np.sum(1 / INERTIA)
STIFFNESS, ANGLE, RATE = 5.0, 0.8, 0.9
METHODS = {
    "LGVCI": rb.LGVCI,
    "MoreauJean": lambda dt: rb.MoreauJean(dt, impacts="stepped"),
}


def discs(damping):
    """Two discs on one axis with a spring and a damper between them."""
    bodies = [rb.RigidBody(rb.Sphere(0.1), 1.0, (0.5, 0.5, j)) for j in INERTIA]
    hinge = rb.Hinge(0, (0, 0, 1), other=1, stiffness=STIFFNESS, damping=damping)
    turns = [[np.cos(ANGLE / 2), 0.0, 0.0, np.sin(ANGLE / 2)], [1.0, 0, 0, 0]]
    spins = [[0, 0, RATE + 0.4], [0, 0, 0.4]]
    still = np.zeros((2, 3))
    return rb.World(bodies, joints=[hinge], gravity=(0, 0, 0)), rb.State(still, turns, still, spins)


def exact(t, damping):
    """x = a exp(p t) + b exp(q t) with the roots of J x'' + c x' + k x = 0."""
    p = (-damping + np.emath.sqrt(damping**2 - 4 * REDUCED * STIFFNESS)) / (2 * REDUCED)
    q = -damping / REDUCED - p
    a = (RATE - q * ANGLE) / (p - q)
    return float((a * np.exp(p * t) + (ANGLE - a) * np.exp(q * t)).real)


def turning(method, dtype=np.float64):
    """A program from a damping and a step size to what the discs do in 2 s."""

    @jax.jit
    def run(damping, dt):
        world, start = discs(damping)
        start = jax.tree.map(lambda leaf: leaf.astype(dtype), start)
        save = rb.SaveAt(every=1)
        sol = rb.simulate(world, start, method(dt), 2.0, max_steps=800, save=save)
        rates = jax.vmap(lambda state: rb.joint_velocities(world, state)[0])(sol.states)
        energy = rb.energy(world, sol.final) - rb.energy(world, start)
        angle = rb.joint_coordinates(world, sol.final)[0]
        return angle, rates, energy - sol.stats.work, sol.stats.flow_evaluations

    return run


@pytest.mark.parametrize("method", METHODS)
def test_a_torsional_oscillator(method):
    """Of second order, with what the damper takes as its work, underdamped and overdamped."""
    run, steps = turning(METHODS[method]), np.array([200, 400, 800])
    for damping in (0.2, 2.0, 20.0):
        found = [run(damping, 2 / n) for n in steps]
        errors = [abs(float(angle) - exact(2.0, damping)) for angle, *_ in found]
        assert abs(slope(2 / steps, errors) - 2) < 0.1, errors
        assert errors[-1] < 2e-6 * (1 + damping)
        lost = [abs(float(left)) for _, _, left, _ in found]
        assert abs(slope(2 / steps, lost) - 2) < 0.1, lost
        assert [int(taken) for *_, taken in found] == list(steps)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_damper_of_any_strength(dtype):
    """What is too fast to be seen is over within a step: no step is taken in parts, the rate keeps
    the sign that the spring gives it, and the angle is that of the slow motion from where the fast
    one ended, within what the start moves in a step: twice J v/c, instead of J v/c."""
    run = turning(rb.LGVCI, dtype)
    for damping in (2e2, 2e4, 2e6):
        angle, rates, _, taken = run(damping, 0.02)
        assert taken == 100
        assert angle.dtype == dtype
        # c x' = -k x to first order in 1/c, after the first step.
        slow, moved = STIFFNESS / damping, REDUCED * RATE / damping
        x = (ANGLE + 2 * moved) * np.exp(-slow * 0.02 * np.arange(100))
        # Rates are as exact as what the angle changes by in a step.
        round_off = np.finfo(dtype).eps / 0.02
        np.testing.assert_allclose(rates[1:101], -slow * x, rtol=2e-3, atol=round_off)
        assert abs(float(angle) - exact(2.0, damping)) < 1.1 * moved + 2 * round_off


@pytest.mark.long
def test_derivatives_by_the_damping_in_both_modes():
    """Where the damper is seen, and where it stops the discs within a step. Differences over 1e-3
    leave 1e-10 of the 1e-13 to which a step is solved."""

    def angle(x):
        world, start = discs(x[0])
        final = rb.simulate(world, start, rb.LGVCI(0.02), 0.2).final
        return rb.joint_coordinates(world, final)[0]

    value, forward = quick_jit(angle), quick_jit(jax.jacfwd(angle))
    reverse = quick_jit(jax.grad(angle))
    for x in (jnp.array([2.0]), jnp.array([200.0])):
        expected = differences(value, x)
        np.testing.assert_allclose(forward(x), expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(reverse(x), expected, rtol=0, atol=1e-9)


BASE, ARM = rb.RigidBody(rb.Box((0.2, 0.15, 0.1)), 2.0), rb.RigidBody(rb.Capsule(0.03, 0.15), 0.3)
LEVER = 0.15


def lowered(x, t1=0.2):
    """An arm that a damper lowers beside a box which lies on a slope and slides: the angle, how far
    the box is then, and whether steps were taken in parts.

    Args:
        x: damping [N m s], friction, mass of the arm [kg].
    """
    damping, friction, mass = x
    turn = np.array([np.cos(np.pi / 4), 0, np.sin(np.pi / 4), 0])
    ends = {"anchor": (0, 0, -LEVER), "other": 0, "other_anchor": (0.26, 0, 0.2)}
    hinge = rb.Hinge(1, (0, 1, 0), reference=turn, damping=damping, **ends)
    arm = rb.RigidBody(ARM.shape, mass)
    law = rb.Coulomb(friction, restitution=0.0)
    world = rb.World(
        [BASE, arm],
        [rb.HalfSpace()],
        joints=[hinge],
        contact_law=law,
        gravity=(0, 2.0, -9.81),
        pairs=[],
    )
    position = jnp.array([[0, 0, 0.1], [0.26 + LEVER, 0, 0.3]])
    turns, still = jnp.stack([jnp.array([1.0, 0, 0, 0]), turn]), jnp.zeros((2, 3))
    method = rb.MoreauJean(0.005, impacts="stepped")
    sol = rb.simulate(world, rb.State(position, turns, still, still), method, t1, max_steps=40)
    return jnp.stack([rb.joint_coordinates(world, sol.final)[0], sol.final.position[0, 1]]), sol


@pytest.mark.long
def test_an_arm_on_a_box_that_slides():
    """c x' = m g l cos(x) - J x'', and the box slides with both weights: derivatives
    against differences of the fourth order, whose steps leave 1e-9."""
    x = jnp.array([40.0, 0.1, 0.3])
    run = quick_jit(lowered)
    (angle, slid), sol = run(x)
    assert sol.stats.flow_evaluations == sol.stats.steps == 40
    inertia = float(ARM.inertia_matrix()[0, 0]) + 0.3 * LEVER**2
    torque = 0.3 * 9.81 * LEVER
    # Its rate is torque/c after some J/c, which is a twentieth of a step.
    np.testing.assert_allclose(
        angle, torque / 40 * (0.2 - inertia / 40), rtol=2 * inertia / 40 / 0.2
    )
    np.testing.assert_allclose(slid, (2.0 - 0.1 * 9.81) * 0.2**2 / 2, rtol=1e-3)

    expected = differences(lambda x: run(x)[0], x)
    forward = quick_jit(jax.jacfwd(lambda x: lowered(x)[0]))(x)
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-8)


def test_a_load_that_is_too_strong_is_said():
    """Drag takes a body as it is: its implicit equation settles for c h < 2 m, and shorter steps
    are tried up to a limit."""
    ball = rb.RigidBody(rb.Sphere(0.1), 1.0)
    start = rb.State([[0, 0, 1.0]], [[1.0, 0, 0, 0]], [[1.0, 0, 0]], [[0, 0, 0.0]])

    @jax.jit
    def run(drag):
        world = rb.World([ball], forces=[rb.Drag(0, linear=drag)])
        return rb.simulate(world, start, rb.LGVCI(0.01), 0.1, throw=False)

    fine = run(1e3)
    assert fine.successful and fine.stats.flow_evaluations > 10
    # By the terminal velocity, after m v/c.
    np.testing.assert_allclose(fine.final.position[0], [1e-3, 0, 1 - 9.81e-4], atol=2e-4)
    for drag in (1e9, 1e30):
        sol = run(drag)
        assert rb.RESULTS[sol.result].startswith("nonlinear_solve_failed")
        assert np.isfinite(sol.final.position).all()
