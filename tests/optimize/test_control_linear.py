"""Optimal control of a free body by a force: a linear system, with closed forms."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb import optimize as ro

MASS, STAGES, T1 = 2.0, 8, 2.0
H = T1 / STAGES
A = np.block([[np.eye(3), H * np.eye(3)], [np.zeros((3, 3)), np.eye(3)]])
B = np.vstack([H**2 / 2 / MASS * np.eye(3), H / MASS * np.eye(3)])
# Positions and velocities among the coordinates of a state.
LINEAR = [0, 1, 2, 6, 7, 8]
WORLD = rb.World([rb.RigidBody(rb.Sphere(0.1), MASS)], gravity=(0.0, 0.0, 0.0))
METHOD = rb.LGVCI(0.05)
START = np.array([1.0, -2.0, 0.5, 0.3, 0.2, -0.1])
TARGET = np.array([1.0, 1.0, 1.0])


def state_of(x):
    one = jnp.array([[1.0, 0.0, 0.0, 0.0]])
    return rb.State(jnp.asarray(x[None, :3]), one, jnp.asarray(x[None, 3:]), jnp.zeros((1, 3)))


class Weighted:
    """Residuals whose weights are numbers of the program."""

    @staticmethod
    def cost(weight, x, u):
        return jnp.concatenate([weight[0] * x.position[0], 0.1 * x.velocity[0], weight[1] * u])

    @staticmethod
    def end(x):
        return jnp.concatenate([2.0 * x.position[0], 1.5 * x.velocity[0]])


def regulator(weights=(0.3, 0.2), **options):
    cost = jax.tree_util.Partial(Weighted.cost, jnp.array(weights))
    given = {"t1": T1, "stages": STAGES} | options
    return ro.OptimalControl(
        WORLD,
        state_of(START),
        METHOD,
        control=ro.Wrench(0, torque=False),
        cost=cost,
        terminal_cost=Weighted.end,
        **given,
    )


def riccati(weights):
    """Gains, controls and the least cost of the discrete linear-quadratic regulator."""
    Q = np.diag([weights[0] ** 2] * 3 + [0.01] * 3)
    R = weights[1] ** 2 * np.eye(3)
    P, gains = np.diag([4.0] * 3 + [2.25] * 3), []
    for _ in range(STAGES):
        K = -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        P = Q + A.T @ P @ (A + B @ K)
        gains.append(K)
    x, controls = START, []
    for K in gains[::-1]:
        controls.append(K @ x)
        x = A @ x + B @ controls[-1]
    return np.array(gains[::-1]), np.array(controls), START @ P @ START


@pytest.mark.slow
@pytest.mark.parametrize("nodes", ["all", "none"])
def test_regulator(nodes):
    gains, controls, cost = riccati((0.3, 0.2))
    sol = ro.solve(regulator(), ro.GaussNewtonShooting(nodes))
    assert sol.result == ro.RESULTS.successful
    assert sol.iterations == 1  # the problem is linear
    np.testing.assert_allclose(sol.controls, controls, atol=1e-12)
    np.testing.assert_allclose(sol.gains[:, :, LINEAR], gains, atol=1e-12)
    np.testing.assert_allclose(np.delete(sol.gains, LINEAR, axis=2), 0.0, atol=1e-12)
    np.testing.assert_allclose(sol.cost, cost, rtol=1e-12)
    assert sol.defects < 1e-12
    # The gains are those of the feedback.
    moved = np.array([0.1, 0.0, -0.2, 0.3, 0.0, 0.1])
    away = state_of(START + moved)
    np.testing.assert_allclose(sol.feedback(0, away), controls[0] + gains[0] @ moved, atol=1e-12)
    assert "successful" in repr(sol) and "8 stages" in repr(sol)


@pytest.mark.slow
def test_other_numbers_compile_nothing():
    """Weights, times and the number of stages are numbers; lanes are filled up."""
    from jaxrb.optimize.stages import _linearised

    ro.solve(regulator(), ro.GaussNewtonShooting(), (np.zeros((STAGES, 3)), None))
    before = _linearised._cache_size()
    other = regulator((0.5, 0.1))
    sol = ro.solve(other, ro.GaussNewtonShooting())
    np.testing.assert_allclose(sol.controls, riccati((0.5, 0.1))[1], atol=1e-12)
    later = dataclasses.replace(other, t0=1.0, t1=3.0)
    np.testing.assert_allclose(ro.solve(later, ro.GaussNewtonShooting()).cost, sol.cost, rtol=1e-12)
    longer = dataclasses.replace(other, t1=4.0, stages=16)
    assert ro.solve(longer, ro.GaussNewtonShooting()).result == ro.RESULTS.successful
    assert _linearised._cache_size() == before


def least_energy():
    """Of the force that leads to rest at the target: the pseudo-inverse of where it leads."""
    reach = np.hstack([np.linalg.matrix_power(A, STAGES - 1 - k) @ B for k in range(STAGES)])
    end = np.concatenate([TARGET, np.zeros(3)])
    drift = np.linalg.matrix_power(A, STAGES) @ START
    return (np.linalg.pinv(reach) @ (end - drift)).reshape(STAGES, 3)


def at_rest(x):
    return jnp.concatenate([x.position[0] - 1.0, x.velocity[0]])


def reaching(terminal=at_rest, **options):
    return dataclasses.replace(
        regulator(), cost=lambda x, u: u, terminal=terminal, terminal_cost=None, **options
    )


@pytest.mark.slow
def test_least_energy_and_one_simulation():
    plan = reaching()
    sol = ro.solve(plan, ro.GaussNewtonShooting())
    assert sol.result == ro.RESULTS.successful
    assert sol.violation < 1e-12
    np.testing.assert_allclose(sol.controls, least_energy(), atol=1e-10)
    # The controls as an input, in one simulation of all stages.
    force = rb.PiecewiseConstant(plan.ts[:-1], sol.controls)
    loads = [rb.Force(lambda t, x, args: (force(t)[None], jnp.zeros((1, 3))))]
    world = dataclasses.replace(WORLD, forces=loads)
    whole = rb.simulate(world, plan.state, METHOD, T1, save=rb.SaveAt(ts=plan.ts))
    for name in ("position", "velocity", "quaternion"):
        np.testing.assert_allclose(
            getattr(whole.states, name), getattr(sol.states, name), atol=1e-9
        )


@pytest.mark.slow
def test_what_cannot_be_met():
    """An end that no control reaches, with what is missed of it."""
    plan = reaching(lambda x: jnp.concatenate([x.position[0] - 1.0, 0.5 + 0.0 * x.velocity[0]]))
    for nodes in ("all", "none"):
        sol = ro.solve(plan, ro.GaussNewtonShooting(nodes))
        assert sol.result == ro.RESULTS.infeasible
        np.testing.assert_allclose(sol.violation, 0.5, atol=1e-9)


@pytest.mark.long
def test_controls_of_args():
    """Inputs give u to the forces of the world; other forces go on working."""
    push = rb.Force(lambda t, x, args: (args["push"][None], jnp.zeros((1, 3))))
    wind = rb.ConstantForce(0, (0.5, 0.0, 0.0))
    plan = dataclasses.replace(
        reaching(),
        world=dataclasses.replace(WORLD, forces=[wind, push]),
        control=ro.Inputs(3, lambda u: {"push": u}),
    )
    sol = ro.solve(plan, ro.GaussNewtonShooting())
    assert sol.result == ro.RESULTS.successful
    # The wind is a control that is there already; the least energy is that of the sum, less it.
    wanted = least_energy()
    ends = [plan.rollout(sol.controls)[-1].final]
    np.testing.assert_allclose(ends[0].position[0], TARGET, atol=1e-9)
    reach = np.hstack([np.linalg.matrix_power(A, STAGES - 1 - k) @ B for k in range(STAGES)])
    shift = np.tile([0.5, 0.0, 0.0], STAGES)
    wanted = wanted.reshape(-1) - np.linalg.pinv(reach) @ (reach @ shift)
    np.testing.assert_allclose(sol.controls.reshape(-1), wanted, atol=1e-9)


@pytest.mark.slow
def test_predictive_control_meets_a_disturbance():
    """Each plan is that of the regulator for what was measured; a wind that it does not know
    leaves an offset that stays small."""
    plan = ro.solve(regulator(), ro.GaussNewtonShooting()).plan
    gains = riccati((0.3, 0.2))[0]
    x = START + np.array([0.2, 0.0, 0.0, 0.0, 0.3, 0.0])
    sizes = [np.linalg.norm(x)]
    for k in range(40):
        u, plan = ro.mpc_step(plan, state_of(x))
        np.testing.assert_allclose(u, gains[0] @ x, atol=1e-9)
        x = A @ x + B @ (np.asarray(u) + 0.02 * np.sin(np.array([1.0, 2.0, 3.0]) * k))
        sizes.append(np.linalg.norm(x))
    np.testing.assert_allclose(plan.t0, 40 * H)
    assert max(sizes[-10:]) < 0.05 < sizes[0]


@pytest.mark.parametrize("solver", [ro.CEM(256, 30, sd=2.0), ro.MPPI(256, 30, sd=0.5)])
def test_baselines_lower_the_cost(solver):
    plan = regulator()
    sol = ro.solve(plan, solver, key=jax.random.key(1))
    start, least = plan_cost(plan), riccati((0.3, 0.2))[2]
    assert sol.result == ro.RESULTS.successful
    assert sol.gains is None
    assert (np.diff(sol.history) <= 0).all()
    assert least < sol.cost < least + 0.1 * (start - least)
    again = ro.solve(plan, solver, key=jax.random.key(1))
    np.testing.assert_array_equal(again.controls, sol.controls)


def plan_cost(plan):
    """Without any control."""
    x, total = START, 0.0
    for _ in range(STAGES):
        total += 0.09 * x[:3] @ x[:3] + 0.01 * x[3:] @ x[3:]
        x = A @ x
    return total + 4.0 * x[:3] @ x[:3] + 2.25 * x[3:] @ x[3:]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"t1": 2.1}, "whole number of steps"),
        ({"t1": np.inf}, "t1 must be finite"),
        ({"t1": -1.0}, "t1 must lie after t0"),
        ({"stages": 0}, "stages must be a positive"),
        ({"control": ro.Kick(3)}, "there is no body 3"),
        ({"control": "kick"}, "control must be a Kick"),
        ({"control": ro.Inputs(3)}, "no force and no motion"),
        ({"cost": lambda x, u: jnp.sum(u**2)}, r"cost\(x, u\) must return residuals"),
        ({"cost": lambda x, u: (u, u)}, r"cost\(x, u\) must return residuals"),
        ({"terminal": lambda x: x.position}, r"terminal\(x\) must return residuals"),
        ({"guess": (np.zeros((3, 3)), None)}, "guess: the controls must have shape"),
        ({"guess": (np.full((8, 3), np.nan), None)}, "guess: the controls must be finite"),
        ({"guess": np.zeros((8, 3))}, "guess must be a pair"),
        ({"state": state_of(np.full(6, np.nan))}, "state must be finite"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(regulator(), **options)


@pytest.mark.slow
def test_bad_numbers_on_the_way():
    nowhere = dataclasses.replace(regulator(), cost=lambda x, u: u / 0.0 * 0.0)
    with pytest.raises(ValueError, match="cost is not finite"):
        ro.solve(nowhere, ro.GaussNewtonShooting())
    with pytest.raises(ValueError, match="solver must be"):
        ro.solve(regulator(), "ilqr")
    # Norms at zero: of the controls of the first guess, and of the place where the body rests.
    length = lambda x, u: jnp.linalg.norm(u)[None]  # noqa: E731
    steep = dataclasses.replace(regulator(), cost=length)
    for nodes in ("all", "none"):
        with pytest.raises(ValueError, match="cost has no finite derivative where the search"):
            ro.solve(steep, ro.GaussNewtonShooting(nodes))
    with pytest.raises(ValueError, match="cost has no finite derivative"):
        ro.mpc_step(steep, steep.state)
    distance = lambda x: jnp.linalg.norm(x.position[0])[None]  # noqa: E731
    for name in ("terminal", "terminal_cost"):
        still = dataclasses.replace(regulator(), state=state_of(np.zeros(6)), **{name: distance})
        with pytest.raises(ValueError, match=f"^{name} has no finite derivative"):
            ro.solve(still, ro.GaussNewtonShooting())
    with pytest.raises(ValueError, match="force or a torque"):
        ro.Wrench(0, force=False, torque=False)


@pytest.mark.slow
def test_single_precision():
    """Everything in the dtype of the state, as near as that allows."""

    def single(tree):
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)

    plan = regulator()
    parts = {name: single(getattr(plan, name)) for name in ("world", "state", "cost")}
    sol = ro.solve(dataclasses.replace(plan, **parts), ro.GaussNewtonShooting())
    assert sol.result == ro.RESULTS.successful
    assert sol.controls.dtype == sol.gains.dtype == sol.states.position.dtype == np.float32
    np.testing.assert_allclose(sol.controls, riccati((0.3, 0.2))[1], atol=1e-5)
