"""Optimal control by torques: of a body that floats, and of a motor in a hinge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import control_gradient

import jaxrb as rb
from jaxrb import optimize as ro
from jaxrb.optimize.control_search import Search
from jaxrb.optimize.stages import Policy, Programs

AXIS, ANGLE = np.array([2.0, -1.0, 2.0]) / 3, 1.2
T1, STAGES = 2.0, 8
# A hinge's step, which turns by less than this angle [s], [rad].
DT, TURN = 0.01, 0.01


def least_torques(inertia):
    """The torques, each held over a stage, of least squares that turn from rest to rest by the
    angle: the pseudo-inverse of where they lead."""
    h = T1 / STAGES
    left = T1 - h * (np.arange(STAGES) + 0.5)
    reach = np.stack([h * left, np.full(STAGES, h)]) / inertia
    return np.linalg.pinv(reach) @ [ANGLE, 0.0]


def at_rest(axis, x):
    """Turned by the angle about an axis, without spin."""
    goal = jnp.concatenate([jnp.cos(ANGLE / 2)[None], jnp.sin(ANGLE / 2) * axis])
    turn = rb.lie.quaternion.local(goal, x.quaternion[0])
    return jnp.concatenate([turn, x.angular_velocity[0]])


def planned(world, method, control, terminal, **options):
    turn, still = jnp.array([[1.0, 0.0, 0.0, 0.0]]), jnp.zeros((1, 3))
    given = {"cost": lambda x, u: u, "terminal": terminal} | options
    state = rb.State(still, turn, still, still)
    return ro.OptimalControl(world, state, method, t1=T1, stages=STAGES, control=control, **given)


@pytest.mark.slow
@pytest.mark.parametrize("nodes", ["all", "none"])
def test_a_ball_is_turned_with_the_least_torque(nodes):
    """Its exact flight turns it about the axis of the torque, as in a plane."""
    world = rb.World([rb.RigidBody(rb.Sphere(0.5), 1.5)], gravity=(0.0, 0.0, 0.0))
    method = rb.EventDriven(rb.ExactFlight(), 0.05)
    end = jax.tree_util.Partial(at_rest, jnp.asarray(AXIS))
    plan = planned(world, method, ro.Wrench(0, force=False), end)
    sol = ro.solve(plan, ro.GaussNewtonShooting(nodes))
    assert sol.result == ro.RESULTS.successful
    expected = least_torques(0.4 * 1.5 * 0.5**2)[:, None] * AXIS
    np.testing.assert_allclose(sol.controls, expected, atol=1e-9)


def swing(gravity, **options):
    """A rod on a hinge at its centre, or at its end where it is heavy, with a motor."""
    anchor = (0.0, 0.0, 0.4 if gravity else 0.0)
    hinge = rb.Hinge(0, axis=(0.0, 1.0, 0.0), anchor=anchor, other_anchor=anchor)
    motor = rb.Motor(0, lambda t, state, args: args[0])
    rod = rb.RigidBody(rb.Box((0.02, 0.02, 0.4)), 1.5)
    world = rb.World([rod], gravity=(0.0, 0.0, -gravity), joints=[hinge], forces=[motor])
    return planned(world, rb.LGVCI(DT), ro.Inputs(1), **options)


@pytest.mark.long
@pytest.mark.parametrize("nodes", ["all", "none"])
def test_a_motor_turns_a_rod_with_the_least_torque(nodes):
    """About its centre, as if in exact flight, to second order in the angle of a step."""

    def end(x):
        angle = 2 * jnp.arctan2(x.quaternion[0, 2], x.quaternion[0, 0])
        return jnp.stack([angle - ANGLE, x.angular_velocity[0, 1]])

    plan = swing(0.0, terminal=end)
    sol = ro.solve(plan, ro.GaussNewtonShooting(nodes))
    assert sol.result == ro.RESULTS.successful and sol.defects < 1e-10
    expected = least_torques(1.5 * (0.8**2 + 0.04**2) / 12)
    np.testing.assert_allclose(sol.controls[:, 0], expected, atol=TURN**2 * expected.max())


@pytest.mark.long
def test_gradient_by_the_torque_of_a_motor():
    """Of a heavy rod, against differences of simulations."""

    def cost(x, u):
        return jnp.concatenate([0.1 * u, x.angular_velocity[0, 1:2]])

    def end(x):
        return x.position[0] - jnp.array([0.3, 0.0, 0.8])

    plan = swing(9.81, cost=cost, terminal=None, terminal_cost=end)
    rng = np.random.default_rng(0)
    controls = rng.normal(size=(STAGES, 1))
    programs = Programs.of(plan)
    at = Search(plan, programs, free_nodes=False).begin((controls, None))
    assert (at.known.code == 0).all()
    gradient = control_gradient(at.known)
    d, directions = 1e-5, rng.normal(size=(4, STAGES, 1))
    both = np.concatenate([at.controls + d * directions, at.controls - d * directions])
    still = Policy(both, np.zeros((8, STAGES, 1, 12)))
    costs = programs.rollouts(plan.state, still, at.nodes).cost
    differences = (costs[:4] - costs[4:]) / (2 * d)
    exact = np.tensordot(directions, gradient, 2)
    np.testing.assert_allclose(exact, differences, rtol=0, atol=1e-7 * np.abs(gradient).max())
