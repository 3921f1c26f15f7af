"""Optimal control by forces that go linearly through stages: free flight, with closed forms."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_compiled_once import compiled
from test_control_linear import (
    MASS,
    METHOD,
    STAGES,
    START,
    T1,
    TARGET,
    H,
    at_rest,
    regulator,
    state_of,
)

import jaxrb as rb
from jaxrb import optimize as ro
from jaxrb.optimize.control_search import Search
from jaxrb.optimize.control_step import Coordinates, Penalty, soft_step, step_of
from jaxrb.optimize.stages import Programs

FIRST = np.array([1.0, 0.5, -2.0])
FORCE = ro.Wrench(0, torque=False, interpolation="linear")


def ramped(**options):
    return dataclasses.replace(regulator(), **({"control": FORCE} | options))


def stage_maps(inertia=MASS, size=3, dt=METHOD.dt):
    """What a stage makes of position and velocity, of the force at its start and of that at its
    end. A step moves by the velocity, half before and half after the force of its middle."""
    one, none = np.eye(size), np.zeros((size, size))
    drift = np.block([[one, dt * one], [none, one]])
    push = np.vstack([dt**2 / 2 * one, dt * one]) / inertia
    A, start, end = np.eye(2 * size), np.zeros((2 * size, size)), np.zeros((2 * size, size))
    steps = round(H / dt)
    for part in (np.arange(steps) + 0.5) / steps:
        A, start, end = drift @ A, drift @ start + (1 - part) * push, drift @ end + part * push
    return A, start, end


def positions(start=START, stages=STAGES, **options):
    """The states at all nodes as matrices for all knots and one: x[k] @ (u, 1)."""
    A, by_start, by_end = stage_maps(**options)
    size = by_start.shape[1]
    knots = np.eye(size * (stages + 1) + 1)[:-1].reshape(stages + 1, size, -1)
    x = [np.hstack([np.zeros((len(A), size * (stages + 1))), np.reshape(start, (-1, 1))])]
    for k in range(stages):
        x.append(A @ x[-1] + by_start @ knots[k] + by_end @ knots[k + 1])
    return x, knots


def least_squares(start=START, first=None, at_end=False, stages=STAGES):
    """The knots, and the least cost, of the regulator: dense."""
    x, knots = positions(start, stages)
    weight = np.diag([0.3] * 3 + [0.1] * 3)
    rows = [part for k in range(stages + at_end) for part in (weight @ x[k], 0.2 * knots[k])]
    rows = np.vstack([*rows, np.diag([2.0] * 3 + [1.5] * 3) @ x[-1]])
    known = np.zeros(3) if first is None else first
    fixed = 0 if first is None else 3
    right = rows[:, :fixed] @ known[:fixed] + rows[:, -1]
    found = -np.linalg.lstsq(rows[:, fixed:-1], right, rcond=None)[0]
    u = np.concatenate([known[:fixed], found])
    return u.reshape(-1, 3), np.sum((rows @ np.append(u, 1.0)) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("nodes", ["all", "none"])
@pytest.mark.parametrize("first", [None, FIRST])
@pytest.mark.parametrize("at_end", [False, True])
def test_regulator(nodes, first, at_end):
    knots, cost = least_squares(first=first, at_end=at_end)
    plan = ramped(initial_control=first, cost_at_end=at_end)
    sol = ro.solve(plan, ro.GaussNewtonShooting(nodes))
    assert sol.result == ro.RESULTS.successful
    assert sol.iterations == 1  # the problem is linear
    np.testing.assert_allclose(sol.controls, knots, atol=1e-12)
    np.testing.assert_allclose(sol.cost, cost, rtol=1e-12)
    assert sol.defects < 1e-12
    assert "3 linear controls by Wrench" in repr(sol)


@pytest.mark.slow
def test_gains_are_those_of_the_best_controls():
    """From any stage on, in a state and with controls that deviate."""
    sol = ro.solve(ramped(), ro.GaussNewtonShooting())
    assert sol.gains.shape == (STAGES, 3, 15)
    moved = np.array([0.1, 0.0, -0.2, 0.3, 0.0, 0.1])
    for k in (0, 3, STAGES - 1):
        node = np.concatenate([sol.states.position[k, 0], sol.states.velocity[k, 0]])
        start, first = node + moved, sol.controls[k] + 0.5 * FIRST
        knots, _ = least_squares(start, first, stages=STAGES - k)
        found = sol.feedback(k, state_of(start), first)
        np.testing.assert_allclose(found, knots[1], atol=1e-11)
        knots, _ = least_squares(start, sol.controls[k], stages=STAGES - k)
        np.testing.assert_allclose(sol.feedback(k, state_of(start)), knots[1], atol=1e-11)
    with pytest.raises(ValueError, match="control must have shape"):
        sol.feedback(0, sol.plan.state, np.zeros(2))


@pytest.mark.slow
def test_least_effort_and_one_simulation():
    """To rest at the target, with no force at the start and the end; the force is continuous."""
    plan = ramped(
        cost=lambda x, u: u, terminal=at_rest, terminal_cost=None, initial_control=np.zeros(3)
    )
    plan = dataclasses.replace(plan, cost_at_end=True)
    sol = ro.solve(plan, ro.GaussNewtonShooting())
    assert sol.result == ro.RESULTS.successful
    assert sol.violation < 1e-12
    reach = positions()[0][-1]
    end = np.concatenate([TARGET, np.zeros(3)])
    expected = np.linalg.pinv(reach[:, 3:-1]) @ (end - reach[:, -1])
    np.testing.assert_allclose(sol.controls[1:], expected.reshape(-1, 3), atol=1e-10)
    np.testing.assert_array_equal(sol.controls[0], 0.0)
    # As one input of the time.
    force, knots = sol.input, np.asarray(plan.ts)
    assert isinstance(force, rb.PiecewiseLinear)
    at = jax.vmap(force)
    np.testing.assert_allclose(at(jnp.asarray(knots)), sol.controls, atol=1e-15)
    steepest = np.abs(np.diff(sol.controls, axis=0)).max() / H
    for near in (-1e-9, 1e-9):
        away = np.abs(at(jnp.asarray(knots + near)) - sol.controls).max()
        # The slope, and round-off.
        assert away <= 1e-9 * steepest + 1e-14
    world, start, args = plan.control.apply(plan.world, plan.state, plan.args, force)
    whole = rb.simulate(world, start, METHOD, T1, save=rb.SaveAt(ts=plan.ts), args=args)
    for name in ("position", "velocity", "quaternion"):
        np.testing.assert_allclose(
            getattr(whole.states, name), getattr(sol.states, name), atol=1e-12
        )
    stages = plan.rollout(sol.controls)
    np.testing.assert_allclose(stages[-1].final.position[0], TARGET, atol=1e-12)


@pytest.mark.slow
def test_force_and_torque():
    """A ball among others, whose exact flight turns it about the axis of the torque as in a
    plane."""
    mass, radius, angle, axis = 1.5, 0.5, 1.2, np.array([2.0, -1.0, 2.0]) / 3
    balls = [rb.RigidBody(rb.Sphere(0.1), 1.0), rb.RigidBody(rb.Sphere(radius), mass)]
    at = jnp.array([[5.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    still, turn = jnp.zeros((2, 3)), jnp.tile(jnp.array([1.0, 0.0, 0.0, 0.0]), (2, 1))
    goal = jnp.concatenate([jnp.cos(angle / 2)[None], jnp.sin(angle / 2) * jnp.asarray(axis)])

    def end(x):
        turned = rb.lie.quaternion.local(goal, x.quaternion[1])
        place = x.position[1] - 1.0, x.velocity[1]
        return jnp.concatenate([*place, turned, x.angular_velocity[1]])

    plan = ramped(
        world=rb.World(balls, gravity=(0.0, 0.0, 0.0)),
        state=rb.State(at, turn, still, still),
        method=rb.EventDriven(rb.ExactFlight(), METHOD.dt),
        control=ro.Wrench(1, interpolation="linear"),
        cost=lambda x, u: u,
        cost_at_end=True,
        terminal=end,
        terminal_cost=None,
    )
    sol = ro.solve(plan, ro.GaussNewtonShooting())
    assert sol.result == ro.RESULTS.successful
    for columns, inertia, way in (
        (slice(0, 3), mass, np.ones(3)),
        (slice(3, 6), 0.4 * mass * radius**2, angle * axis),
    ):
        reach = positions(np.zeros(6), inertia=inertia)[0][-1][:, :-1]
        expected = np.linalg.pinv(reach) @ np.concatenate([way, np.zeros(3)])
        np.testing.assert_allclose(sol.controls[:, columns], expected.reshape(-1, 3), atol=1e-9)
    np.testing.assert_allclose(sol.states.position[:, 0], at[None, 0].repeat(STAGES + 1, 0))


@pytest.mark.slow
def test_other_numbers_compile_nothing(caplog):
    solvers = [ro.GaussNewtonShooting(nodes) for nodes in ("all", "none")]
    for solver in solvers:
        ro.solve(ramped(), solver)
    other = dataclasses.replace(ramped(initial_control=FIRST), cost=regulator((0.5, 0.1)).cost)
    _, programs = compiled(caplog, lambda: [ro.solve(other, solver) for solver in solvers])
    assert not programs
    later = dataclasses.replace(other, t0=1.0, t1=3.0, state=state_of(START + 0.3))
    _, programs = compiled(caplog, lambda: [ro.solve(later, solver) for solver in solvers])
    assert not programs


@pytest.mark.slow
@pytest.mark.parametrize("first", [None, FIRST])
def test_predictive_control(first):
    """Undisturbed, each plan goes on with the one before, and so does the input if it is told
    where it starts; else the controls are those that are best now."""
    plan = ro.solve(ramped(initial_control=first), ro.GaussNewtonShooting()).plan
    x, last = START + np.array([0.2, 0.0, 0.0, 0.0, 0.3, 0.0]), first
    for k in range(3):
        force, plan = ro.mpc_step(plan, state_of(x))
        knots, _ = least_squares(x, last)
        assert isinstance(force, rb.PiecewiseLinear)
        np.testing.assert_allclose(force.ts, [k * H, (k + 1) * H], atol=1e-15)
        np.testing.assert_allclose(force.values, knots[:2], atol=1e-11)
        np.testing.assert_allclose(plan.guess[0], [*knots[1:], knots[-1]], atol=1e-11)
        A, by_start, by_end = stage_maps()
        x = A @ x + by_start @ force.values[0] + by_end @ force.values[1]
        last = None if first is None else np.asarray(force.values[1])
    np.testing.assert_allclose(plan.t0, 3 * H)
    assert (plan.initial_control is None) == (first is None)


@pytest.mark.slow
@pytest.mark.parametrize("first", [None, FIRST])
def test_damped_steps(first):
    """At a high penalty and without damping they are steps that close gaps; with much, short."""
    plan = ramped(initial_control=first)
    search = Search(plan, Programs.of(plan), free_nodes=True)
    still = jax.tree.map(
        lambda leaf: np.broadcast_to(leaf, (STAGES + 1, *leaf.shape)), jax.device_get(plan.state)
    )
    at, parts = search.begin((np.zeros((STAGES + 1, 3)), still)), Coordinates.of(plan)
    whole = step_of(at.known, parts)
    penalty = Penalty.of(at.known, parts, search.sizes)
    dear = penalty._replace(gaps=1e5 * penalty.gaps)
    controls, nodes = soft_step(at.known, parts, 0.0, dear)
    # A gap is left by the part of the costs, squared, that a penalty is not infinite.
    np.testing.assert_allclose(controls, whole.controls, atol=1e-8)
    np.testing.assert_allclose(nodes, whole.nodes, atol=1e-8)
    short, moves = soft_step(at.known, parts, 1e12, penalty)
    # Damping, of the squares, is 1e12 here; the last node is held by its gap alone.
    assert max(np.abs(short).max(), np.abs(moves[:-1]).max()) < 1e-4
    # The search takes them where no part of the whole step gains enough.
    trial = search._bridged(at)
    assert trial.merit(whole.price) < at.merit(whole.price)
    assert trial.controls.shape == at.controls.shape
    if first is not None:
        np.testing.assert_array_equal(at.controls[0], first)
        np.testing.assert_array_equal(trial.controls[0], first)
        for step in (whole.controls, controls, short):
            np.testing.assert_array_equal(step[0], 0.0)


@pytest.mark.parametrize("solver", [ro.CEM(256, 30, sd=2.0), ro.MPPI(256, 30, sd=0.5)])
def test_baselines_lower_the_cost(solver):
    plan = ramped(initial_control=FIRST, cost_at_end=True)
    sol = ro.solve(plan, solver, key=jax.random.key(1))
    least = least_squares(first=FIRST, at_end=True)[1]
    assert sol.result == ro.RESULTS.successful
    assert sol.controls.shape == (STAGES + 1, 3)
    np.testing.assert_array_equal(sol.controls[0], FIRST)
    assert (np.diff(sol.history) <= 0).all()
    assert least < sol.cost < least + 0.3 * (sol.history[0] - least)
    # The cost is that of the knots.
    x, _ = positions()
    at = np.array([rows @ np.append(sol.controls, 1.0) for rows in x])
    cost = 0.09 * np.sum(at[:, :3] ** 2) + 0.01 * np.sum(at[:, 3:] ** 2)
    cost += 0.04 * np.sum(sol.controls**2)
    cost += 4.0 * np.sum(at[-1, :3] ** 2) + 2.25 * np.sum(at[-1, 3:] ** 2)
    np.testing.assert_allclose(sol.cost, cost, rtol=1e-12)


@pytest.mark.slow
def test_single_precision():
    def single(tree):
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)

    plan = ramped(initial_control=FIRST)
    parts = {name: single(getattr(plan, name)) for name in ("world", "state", "cost")}
    plan = dataclasses.replace(plan, **parts)
    for nodes in ("all", "none"):
        sol = ro.solve(plan, ro.GaussNewtonShooting(nodes))
        assert sol.result == ro.RESULTS.successful
        assert sol.controls.dtype == sol.gains.dtype == np.float32
        assert sol.feedback(1, sol.plan.state).dtype == sol.input.values.dtype == np.float32
        np.testing.assert_allclose(sol.controls, least_squares(first=FIRST)[0], atol=3e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial_control": np.zeros(2)}, r"initial_control must have shape \(3,\)"),
        ({"initial_control": np.full(3, np.inf)}, "initial_control must be finite"),
        ({"guess": (np.zeros((8, 3)), None)}, r"guess: the controls must have shape \(9, 3\)"),
        ({"control": ro.Wrench(0), "cost_at_end": True}, "cost_at_end is of controls with"),
        ({"control": ro.Kick(0), "initial_control": FIRST}, "initial_control is of controls with"),
        ({"control": ro.Inputs(3, interpolation="linear")}, "no force and no motion"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        ramped(**options)


def test_bad_controls():
    for make in (ro.Wrench, ro.Inputs):
        with pytest.raises(ValueError, match="interpolation must be one of 'held', 'linear'"):
            make(1, interpolation="cubic")
    plan = ramped()
    with pytest.raises(ValueError, match=r"controls must have shape \(9, 3\)"):
        plan.rollout(np.zeros((8, 3)))
    with pytest.raises(ValueError, match=r"controls must have shape \(9, 3\)"):
        plan.input(np.zeros((8, 3)))
    with pytest.raises(ValueError, match="kicks act at once"):
        dataclasses.replace(regulator(), control=ro.Kick(0)).input(np.zeros((8, 6)))


def test_held_controls_as_an_input():
    plan = regulator()
    force = plan.input(np.arange(24.0).reshape(8, 3))
    assert isinstance(force, rb.PiecewiseConstant)
    np.testing.assert_array_equal(force(2.5 * H), [6.0, 7.0, 8.0])


def test_args_that_are_no_function_of_the_time():
    """What is wrong is told where a force reads args as if controls were held."""
    push = rb.Force(lambda t, x, args: (args[None], jnp.zeros((1, 3))))
    world = dataclasses.replace(regulator().world, forces=[push])
    plan = ramped(world=world, control=ro.Inputs(3, interpolation="linear"))
    for run in (
        lambda: plan.rollout(np.zeros((9, 3))),
        lambda: ro.solve(plan, ro.GaussNewtonShooting()),
    ):
        with pytest.raises(TypeError) as error:
            run()
        assert any("read args(t)" in note for note in error.value.__notes__)
