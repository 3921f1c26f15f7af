"""Optimal control through impacts: an ellipsoid that hops to a goal pose by kicks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import control_gradient

import jaxrb as rb
from jaxrb import optimize as ro
from jaxrb.optimize.control_search import Search
from jaxrb.optimize.stages import Policy, Programs

pytestmark = pytest.mark.slow

STAGES, T1, TURN = 8, 2.0, 0.6
# Between two bounces, a little before the next one.
HEIGHT, FALL = 0.089, -0.735
GOAL = np.array([1.0, 0.5, HEIGHT])
ATTITUDE = np.array([np.cos(TURN / 2), 0.0, 0.0, np.sin(TURN / 2)])
KICK = np.array([0.0, 0.0, -0.84, 0.0, 0.0, 0.0])  # what makes up for the loss of a bounce

ASIDE = np.array([0.2, -0.1, 0.02, 0.0, 0.0, 0.1])  # kicks to another place


def cost(x, u):
    place = x.position[0, 2:] - HEIGHT, x.velocity[0, 2:] - FALL
    return jnp.concatenate([0.05 * u, 0.5 * place[0], 0.2 * place[1]])


def miss(weight, x):
    turn = rb.lie.quaternion.local(jnp.asarray(ATTITUDE), x.quaternion[0])
    return weight * jnp.concatenate([x.position[0] - GOAL, turn])


def plan(hard=1.0, soft=0.0):
    """The goal as a condition or as a cost; both are one program."""
    return ro.OptimalControl(
        rb.World(
            [rb.RigidBody(rb.Ellipsoid((0.06, 0.05, 0.04)), 0.5)],
            [rb.HalfSpace()],
            contact_law=rb.Frictionless(0.6),
        ),
        jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), line()),
        rb.EventDriven(rb.LieVariational(), 0.01, max_impacts_per_step=8, max_impacts=12),
        t1=T1,
        stages=STAGES,
        control=ro.Kick(0),
        cost=cost,
        terminal=jax.tree_util.Partial(miss, jnp.array(hard)),
        terminal_cost=jax.tree_util.Partial(miss, jnp.array(soft)),
    )


def line():
    """The sketch: at each node the same height and fall, on the straight line to the goal."""
    s = np.linspace(0.0, 1.0, STAGES + 1)
    half, zero = s * TURN / 2, 0.0 * s
    return rb.State(
        (s[:, None] * np.array([1.0, 0.5, 0.0]) + np.array([0.0, 0.0, HEIGHT]))[:, None],
        np.stack([np.cos(half), zero, zero, np.sin(half)], axis=1)[:, None],
        np.tile([0.5, 0.25, FALL], (STAGES + 1, 1, 1)),
        np.tile([0.0, 0.0, TURN / T1], (STAGES + 1, 1, 1)),
    )


@pytest.fixture(scope="module")
def hop():
    return ro.solve(plan(), ro.GaussNewtonShooting(), (np.tile(KICK, (STAGES, 1)), line()))


def test_from_a_sketch(hop):
    assert hop.result == ro.RESULTS.successful
    assert hop.iterations <= 20
    assert hop.defects < 1e-10
    assert hop.violation < 1e-9
    states = hop.states
    np.testing.assert_allclose(states.position[-1, 0], GOAL, atol=1e-9)
    stages = hop.plan.rollout(hop.controls)
    assert [int(sol.impacts.count) for sol in stages] == [1] * STAGES
    for k, sol in enumerate(stages):
        node = jax.tree.map(lambda leaf, k=k: jnp.asarray(leaf[k + 1]), states)
        np.testing.assert_allclose(node.local(sol.final), 0.0, atol=1e-9)


def test_gradient_through_impacts(hop):
    """By the chain of all stages, against differences of simulations."""
    soft = plan(0.0, 3.0)
    programs, start = Programs.of(soft), soft.state
    at = Search(soft, programs, free_nodes=False).begin((hop.controls + ASIDE, None))
    assert (at.known.code == 0).all()
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(8, *hop.controls.shape))
    # A tilt grows a hundredfold with each bounce, too much for differences over more than two.
    directions[:, :-2, 3:] = 0.0
    gradient = control_gradient(at.known)
    d = 1e-6
    both = np.concatenate([at.controls + d * directions, at.controls - d * directions])
    still = Policy(both, np.zeros((16, STAGES, 6, 12)))
    costs = programs.rollouts(start, still, at.nodes).cost
    differences = (costs[:8] - costs[8:]) / (2 * d)
    exact = np.tensordot(directions, gradient, 2)
    np.testing.assert_allclose(exact, differences, rtol=0, atol=1e-7 * np.abs(gradient).max())


def test_descent_without_nodes(hop):
    """The cost falls with each iteration, to the gains of a minimum."""
    soft = plan(0.0, 3.0)
    start = hop.controls + ASIDE
    sol = ro.solve(soft, ro.GaussNewtonShooting("none", 20), (start, None))
    assert sol.result in (ro.RESULTS.successful, ro.RESULTS.max_iterations_reached)
    assert (np.diff(sol.history) <= 1e-12).all()
    assert sol.history[-1] < 0.05 * sol.history[0]
    assert sol.defects < 1e-9
    assert np.isfinite(sol.gains).all()


@pytest.mark.parametrize("solver", [ro.CEM(128, 8, sd=0.3), ro.MPPI(128, 8, sd=0.3)])
def test_baselines(solver):
    guess = np.tile(KICK, (STAGES, 1)), None
    sol = ro.solve(plan(0.0, 3.0), solver, guess, jax.random.key(0))
    assert np.isfinite(sol.cost)
    assert sol.history[-1] < 0.3 * sol.history[0]


def test_predictive_control(hop):
    """Kicked about by noise after every stage, it keeps to the hops of the plan."""
    rng = np.random.default_rng(0)
    x, following = hop.plan.state, hop.plan
    for _ in range(STAGES):
        u, following = ro.mpc_step(following, x)
        start = following.control.apply(following.world, x, None, u)[1]
        x = rb.simulate(following.world, start, following.method, T1 / STAGES).final
        x = x.retract(jnp.asarray(1e-3 * rng.normal(size=(1, 12))))
        assert np.abs(x.local(following.state)).max() < 0.01
    # The end of the plan has moved on with it.
    assert abs(float(x.position[0, 0]) - 1.0) < 0.5


def test_an_ended_world():
    """The start lies in the ground."""
    below = dataclasses.replace(
        plan(), state=dataclasses.replace(plan().state, position=jnp.array([[0.0, 0.0, 0.01]]))
    )
    for nodes, guess in (("all", None), ("all", (np.zeros((8, 6)), line())), ("none", None)):
        sol = ro.solve(below, ro.GaussNewtonShooting(nodes), guess)
        assert sol.result == ro.RESULTS.simulation_failed
        assert sol.world_result == rb.RESULTS.initial_penetration
        assert sol.cost == np.inf and sol.gains is None
    sol = ro.solve(below, ro.CEM(16, 1))
    assert sol.result == ro.RESULTS.simulation_failed
    with pytest.raises(RuntimeError, match="cannot be simulated"):
        ro.mpc_step(below, below.state)
