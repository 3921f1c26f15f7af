"""Forces that go linearly through stages, through an impact, and in a joint."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import control_gradient

import jaxrb as rb
from jaxrb import optimize as ro
from jaxrb.optimize.control_search import Search
from jaxrb.optimize.stages import Policy, Programs

BOUNCE = np.array([0.5, 0.3, 0.9])
# How near the best controls a search ends: where the cost, some 20, is flat to ten round-offs of
# it, 4e-14, controls are known to the root of that.
FLAT = 1e-6


def miss(weight, x):
    return weight * jnp.concatenate([x.position[0] - jnp.asarray(BOUNCE), x.velocity[0]])


def pushed(t, x, args):
    return args(t)[None], jnp.zeros((1, 3))


def effort(x, u):
    return u


def bouncing(weight=0.0):
    """A ball that is to rest at a place after a bounce; with a weight, as a cost instead."""
    push = rb.Force(pushed, velocity_dependent=False)
    world = rb.World(
        [rb.RigidBody(rb.Sphere(0.1), 0.5)],
        [rb.HalfSpace()],
        contact_law=rb.Frictionless(0.9),
        forces=[push],
    )
    turn, still = jnp.array([[1.0, 0.0, 0.0, 0.0]]), jnp.zeros((1, 3))
    down = jnp.array([[0.0, 0.0, -1.0]])
    return ro.OptimalControl(
        world,
        rb.State(-down, turn, down, still),
        rb.EventDriven(rb.LieVariational(), 0.01, max_impacts_per_step=8, max_impacts=12),
        t1=0.8,
        stages=4,
        control=ro.Inputs(3, interpolation="linear"),
        cost=effort,
        cost_at_end=True,
        initial_control=None if weight else np.zeros(3),
        # Both are one program.
        terminal=jax.tree_util.Partial(miss, jnp.array(0.0 if weight else 1.0)),
        terminal_cost=jax.tree_util.Partial(miss, jnp.array(weight)),
    )


@pytest.mark.slow
def test_a_bounce_to_a_target():
    """Verified by one simulation, with the input as args."""
    plan, found = bouncing(), []
    for nodes in ("all", "none"):
        sol = ro.solve(plan, ro.GaussNewtonShooting(nodes, tolerance=1e-15))
        assert sol.result == ro.RESULTS.successful
        assert sol.violation < 1e-9
        whole = rb.simulate(plan.world, plan.state, plan.method, plan.t1, args=sol.input)
        assert int(whole.impacts.count) == 1
        np.testing.assert_allclose(whole.final.position[0], BOUNCE, atol=1e-9)
        np.testing.assert_allclose(whole.final.velocity[0], 0.0, atol=1e-9)
        found.append(sol)
    both, single = found
    np.testing.assert_allclose(both.controls, single.controls, atol=FLAT)
    np.testing.assert_allclose(both.cost, single.cost, rtol=1e-12)


@pytest.mark.slow
def test_a_bounce_near_a_target():
    """As a cost, with knots that are all free: the least is found, and by both ways."""
    plan = bouncing(3.0)
    both, single = (
        ro.solve(plan, ro.GaussNewtonShooting(nodes, tolerance=1e-15)) for nodes in ("all", "none")
    )
    np.testing.assert_allclose(both.controls, single.controls, atol=FLAT)
    assert (np.diff(single.history) <= 1e-12).all()
    for sol in (both, single):
        assert sol.result == ro.RESULTS.successful
        gradient = control_gradient(
            Search(plan, Programs.of(plan), free_nodes=False).begin(sol.plan.guess).known, True
        )
        # Second derivatives are some 10.
        np.testing.assert_allclose(gradient, 0.0, atol=10 * FLAT)


@pytest.mark.slow
def test_gradient_through_the_bounce():
    """By each knot, against central differences."""
    plan = bouncing(3.0)
    controls = np.random.default_rng(0).normal(size=(5, 3))
    programs = Programs.of(plan)
    at = Search(plan, programs, free_nodes=False).begin((controls, None))
    assert (at.known.code == 0).all()
    gradient = control_gradient(at.known, linear=True)
    d, directions = 1e-5, np.eye(15).reshape(15, 5, 3)
    both = np.concatenate([at.controls + d * directions, at.controls - d * directions])
    still = Policy(both, np.zeros((30, 4, 3, 15)))
    costs = programs.rollouts(plan.state, still, at.nodes).cost
    differences = ((costs[:15] - costs[15:]) / (2 * d)).reshape(5, 3)
    np.testing.assert_allclose(gradient, differences, rtol=0, atol=1e-7 * np.abs(gradient).max())


@pytest.mark.long
def test_gradient_by_the_torque_of_a_motor():
    """Of a heavy rod on a hinge, which moves along the freedom of the joint alone."""
    anchor = (0.0, 0.0, 0.4)
    hinge = rb.Hinge(0, axis=(0.0, 1.0, 0.0), anchor=anchor, other_anchor=anchor)
    motor = rb.Motor(0, lambda t, state, args: args(t)["torque"])
    rod = rb.RigidBody(rb.Box((0.02, 0.02, 0.4)), 1.5)
    turn, still = jnp.array([[1.0, 0.0, 0.0, 0.0]]), jnp.zeros((1, 3))
    plan = ro.OptimalControl(
        rb.World([rod], joints=[hinge], forces=[motor]),
        rb.State(still, turn, still, still),
        rb.LGVCI(0.01),
        t1=1.0,
        stages=4,
        control=ro.Inputs(1, lambda u: {"torque": u[0]}, interpolation="linear"),
        cost=lambda x, u: jnp.concatenate([0.1 * u, x.angular_velocity[0, 1:2]]),
        cost_at_end=True,
        terminal_cost=lambda x: x.position[0] - jnp.array([0.3, 0.0, 0.8]),
    )
    controls = np.random.default_rng(0).normal(size=(5, 1))
    programs = Programs.of(plan)
    at = Search(plan, programs, free_nodes=False).begin((controls, None))
    assert (at.known.code == 0).all()
    gradient = control_gradient(at.known, linear=True)
    d, directions = 1e-5, np.eye(5)[:, :, None]
    both = np.concatenate([at.controls + d * directions, at.controls - d * directions])
    costs = programs.rollouts(plan.state, Policy(both, np.zeros((10, 4, 1, 13))), at.nodes).cost
    differences = ((costs[:5] - costs[5:]) / (2 * d))[:, None]
    np.testing.assert_allclose(gradient, differences, rtol=0, atol=1e-7 * np.abs(gradient).max())
    # One simulation of the knots goes where the rollout does.
    world, start, args = plan.control.apply(plan.world, plan.state, None, plan.input(controls))
    whole = rb.simulate(world, start, plan.method, plan.t1, args=args)
    np.testing.assert_allclose(whole.final.position, at.nodes.position[-1], atol=1e-9)
