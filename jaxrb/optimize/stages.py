"""The two programs of optimal control: one stage with its derivative, and rollouts of all stages.

Lanes of the first are stages, from any nodes, so that it is the same however many there are.

A stage has an input, which is chosen, and its node has coordinates. Held controls are the input,
and the state is the node. Linear controls go from those at the start of a stage, which the stage
before has chosen, to those at its end: these are the input, and the controls at the start belong
to the node. So the node has n_z = n_x + n_u coordinates then, and n_x otherwise.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..bodies import State
from ..control import PiecewiseLinear
from ..simulate import World, simulate
from ..simulate.method import AbstractMethod
from ..simulate.time_grid import rounded_up
from .control_inputs import AbstractControl
from .flow_map import value_and_jacobian
from .free_directions import free_directions
from .lanes import in_lanes
from .optimal_control import OptimalControl, function_of
from .segments import parted, product, whole
from .user_function import UserFunction

# Stages that a core takes at once, and rollouts.
STAGES, ROLLOUTS = 8, 16


class Model(NamedTuple):
    """What all lanes share."""

    world: World
    args: Any
    control: AbstractControl
    cost: UserFunction
    terminal: UserFunction
    terminal_cost: UserFunction


class Settings(NamedTuple):
    """What is static in the programs."""

    method: AbstractMethod
    max_steps: int
    static: tuple  # of the args
    cost_at_end: bool


class Stage(NamedTuple):
    """One stage: the states of its node and of the next one, its controls, when, and in which
    directions its start can move (see `free_directions`).

    Linear controls are those at its start and its end, shape (2, n_u).
    """

    start: State
    target: State
    controls: Float[Array | np.ndarray, "..."]
    t0: Float[Array | np.ndarray, ""]
    t1: Float[Array | np.ndarray, ""]
    free: Float[Array | np.ndarray, "n_x n_free"] | None


class Linearised(NamedTuple):
    """A stage and its derivatives by (input, node), of n = n_u + n_z coordinates.

    Attributes:
        residual, residual_by: of the cost, shapes (m,) and (m, n).
        defect, defect_by: the end in the chart of the target, shapes (n_z,), (n_z, n). Linear
            controls never miss each other.
        terminal, terminal_by: as if the target was the end; shapes (p,) and (p, n_z).
        terminal_cost, terminal_cost_by: likewise, with the cost at the end, if it counts.
        code: why the simulation ended early, 0 if it did not.
    """

    residual: Float[np.ndarray, "*batch m"]
    residual_by: Float[np.ndarray, "*batch m n"]
    defect: Float[np.ndarray, "*batch n_z"]
    defect_by: Float[np.ndarray, "*batch n_z n"]
    terminal: Float[np.ndarray, "*batch p"]
    terminal_by: Float[np.ndarray, "*batch p n_z"]
    terminal_cost: Float[np.ndarray, "*batch q"]
    terminal_cost_by: Float[np.ndarray, "*batch q n_z"]
    code: Int[np.ndarray, "*batch"]


class Policy(NamedTuple):
    """Controls that depend on the nodes: the input of stage k is controls[k] + gains[k] dz, where
    dz is how the node deviates from one that all lanes share, nodes[k].local(state) and, of linear
    controls, what they are at the start less knots[k]; their inputs are controls[k + 1] + ..."""

    controls: Float[np.ndarray, "*batch n n_u"]
    gains: Float[np.ndarray, "*batch N n_u n_z"]


class Rollout(NamedTuple):
    """What a policy leads to.

    Attributes:
        controls: of the stages, shape (N, n_u); of linear ones also at the end, (N + 1, n_u).
        nodes: the starts of the stages and the end, leading axis N + 1.
        cost: the sum of the squares of all residuals.
        terminal: at the end, shape (p,).
        code: of the first stage that ended early, 0 if none did.
    """

    controls: Float[np.ndarray, "*batch n n_u"]
    nodes: State
    cost: Float[Array | np.ndarray, "*batch"]
    terminal: Float[Array | np.ndarray, "*batch p"]
    code: Int[Array | np.ndarray, "*batch"]


class Programs(NamedTuple):
    """The programs for one plan."""

    model: Model
    settings: Settings
    ts: Float[np.ndarray, " N+1"]

    @staticmethod
    def of(plan: OptimalControl) -> Programs:
        """Those of a plan; plans that differ in numbers share them."""
        dt = plan.method.dt
        steps = 1 if dt is None else round((plan.t1 - plan.t0) / plan.stages / float(dt))
        given, static = parted(plan.args)
        functions = map(function_of, (plan.cost, plan.terminal, plan.terminal_cost))
        model = Model(plan.world, given, plan.control, *functions)
        settings = Settings(plan.method, rounded_up(steps + 1), static, bool(plan.cost_at_end))
        return Programs(model, settings, plan.ts.astype(plan.dtype))

    def linearise(self, controls: np.ndarray, nodes: State) -> Linearised:
        """All stages at nodes, with any leading axes before those of stages and nodes."""
        lead = controls.shape[:-2]
        n = len(self.ts) - 1
        if self.model.control.linear:
            controls = np.stack([controls[..., :-1, :], controls[..., 1:, :]], axis=-2)

        def flat(leaf):
            return leaf.reshape(-1, *leaf.shape[len(lead) + 1 :])

        def between(first, last):
            return jax.tree.map(
                lambda leaf: flat(
                    np.asarray(leaf)[(*[slice(None)] * len(lead), slice(first, last))]
                ),
                nodes,
            )

        t0, t1 = (flat(np.broadcast_to(ts, (*lead, n))) for ts in (self.ts[:-1], self.ts[1:]))
        starts = between(0, -1)
        free = free_directions(self.model.world, starts)
        stages = Stage(starts, between(1, None), flat(controls), t0, t1, free)
        found = in_lanes(_linearised, self.model, stages, size=STAGES, settings=self.settings)
        return jax.tree.map(lambda leaf: np.asarray(leaf).reshape(*lead, n, *leaf.shape[1:]), found)

    def rollouts(
        self, start: State, policies: Policy, nodes: State, knots: np.ndarray | None = None
    ) -> Rollout:
        """All stages in turn, by policies with a leading axis over the lanes.

        Args:
            start: at t0.
            policies: for the controls.
            nodes: about which the policies are.
            knots: likewise, of linear controls, shape (N + 1, n_u); zero by default.
        """
        rolled_out, shared = _rolled_out, (self.model, start, nodes, self.ts)
        if self.model.control.linear:
            knots = np.zeros_like(policies.controls[0]) if knots is None else knots
            rolled_out, shared = _rolled_out_linearly, (self.model, start, nodes, knots, self.ts)
        found = in_lanes(rolled_out, shared, policies, size=ROLLOUTS, settings=self.settings)
        return jax.tree.map(np.asarray, found)


@partial(jax.jit, static_argnames="settings")
def _linearised(model: Model, stages: Stage, *, settings: Settings) -> Linearised:
    return jax.vmap(lambda stage: _linearise(model, stage, settings))(stages)


def _linearise(model: Model, stage: Stage, settings: Settings) -> Linearised:
    n_u, n_x = model.control.size, 12 * stage.start.position.shape[-2]
    free, dtype, linear = stage.free, stage.controls.dtype, model.control.linear
    n_free = n_x if free is None else free.shape[-1]
    n_x_u = n_u + n_free  # of the coordinates without the controls at the start

    def flight(step):
        move = step[n_u:n_x_u] if free is None else product(free, step[n_u:n_x_u])
        start, own = stage.start.retract(move.reshape(-1, 12)), step[:n_u]
        u = stage.controls + (jnp.stack([step[n_x_u:], own]) if linear else own)
        final, code = _fly(model, settings, start, u, stage.t0, stage.t1)
        residual = model.cost(start, u[0] if linear else u)
        defect = stage.target.local(final).reshape(-1)
        return (residual, jnp.concatenate([defect, own]) if linear else defect), code

    def at_target(step):
        end = stage.target.retract(step[:n_x].reshape(-1, 12))
        u = stage.controls[1] + step[n_x:] if linear else None
        return (model.terminal(end), _cost_at_end(model, settings, end, u)), None

    n_knot = n_u if linear else 0
    values, slopes, code = value_and_jacobian(flight, jnp.zeros(n_x_u + n_knot, dtype))
    if free is not None:
        slopes = jax.tree.map(lambda by: _by_all(by, free, n_u), slopes)
    ends, by_end, _ = value_and_jacobian(at_target, jnp.zeros(n_x + n_knot, dtype))
    residual, defect = zip(values, slopes, strict=True)
    terminal, terminal_cost = zip(ends, by_end, strict=True)
    return Linearised(*residual, *defect, *terminal, *terminal_cost, code)


def _by_all(by: Array, free: Array | np.ndarray, n_u: int) -> Array:
    """Derivatives by all coordinates of a state, from those by its free ones, which come after
    n_u others."""
    end = n_u + free.shape[-1]
    parts = [by[:, :n_u], product(by[:, n_u:end], free.T)]
    return jnp.concatenate(parts + ([by[:, end:]] if end < by.shape[1] else []), axis=1)


def _cost_at_end(model: Model, settings: Settings, end: State, u: Array | None) -> Array:
    """Residuals at the end, with linear controls u there."""
    last = model.terminal_cost(end)
    return jnp.concatenate([model.cost(end, u), last]) if settings.cost_at_end else last


@partial(jax.jit, static_argnames="settings")
def _rolled_out(shared, policies: Policy, *, settings: Settings) -> Rollout:
    return jax.vmap(lambda policy: _roll_out(shared, policy, settings))(policies)


def _roll_out(shared, policy: Policy, settings: Settings) -> Rollout:
    model, start, nodes, ts = shared

    def stage(carry, given):
        state, first = carry
        u, gain, node, t0, t1 = given
        u = u + product(gain, node.local(state).reshape(-1))
        final, code = _fly(model, settings, state, u, t0, t1)
        after = State(final.position, final.quaternion, final.velocity, final.angular_velocity)
        cost = jnp.sum(model.cost(state, u) ** 2)
        return (after, jnp.where(first == 0, code, first)), (u, state, cost)

    before = jax.tree.map(lambda leaf: leaf[:-1], nodes)
    begin = State(start.position, start.quaternion, start.velocity, start.angular_velocity)
    given = (*policy, before, ts[:-1], ts[1:])
    (end, code), (used, states, costs) = jax.lax.scan(stage, (begin, jnp.int32(0)), given)
    path = jax.tree.map(lambda leaf, last: jnp.concatenate([leaf, last[None]]), states, end)
    cost = jnp.sum(costs) + jnp.sum(model.terminal_cost(end) ** 2)
    return Rollout(used, path, cost, model.terminal(end), code)


@partial(jax.jit, static_argnames="settings")
def _rolled_out_linearly(shared, policies: Policy, *, settings: Settings) -> Rollout:
    return jax.vmap(lambda policy: _roll_out_linearly(shared, policy, settings))(policies)


def _roll_out_linearly(shared, policy: Policy, settings: Settings) -> Rollout:
    """As `_roll_out`, of linear controls, which are carried from stage to stage."""
    model, start, nodes, knots, ts = shared

    def stage(carry, given):
        state, u, first = carry
        end, gain, node, knot, t0, t1 = given
        deviation = jnp.concatenate([node.local(state).reshape(-1), u - knot])
        end = end + product(gain, deviation)
        final, code = _fly(model, settings, state, jnp.stack([u, end]), t0, t1)
        after = State(final.position, final.quaternion, final.velocity, final.angular_velocity)
        cost = jnp.sum(model.cost(state, u) ** 2)
        return (after, end, jnp.where(first == 0, code, first)), (u, state, cost)

    before = jax.tree.map(lambda leaf: leaf[:-1], nodes)
    begin = State(start.position, start.quaternion, start.velocity, start.angular_velocity)
    given = (policy.controls[1:], policy.gains, before, knots[:-1], ts[:-1], ts[1:])
    carry = (begin, policy.controls[0], jnp.int32(0))
    (end, last, code), (used, states, costs) = jax.lax.scan(stage, carry, given)
    used, path = jax.tree.map(
        lambda leaf, last: jnp.concatenate([leaf, last[None]]), (used, states), (last, end)
    )
    cost = jnp.sum(costs) + jnp.sum(_cost_at_end(model, settings, end, last) ** 2)
    return Rollout(used, path, cost, model.terminal(end), code)


def _fly(model: Model, settings: Settings, state: State, u, t0, t1):
    """The state after a stage, and why it ended early."""
    args = whole(model.args, settings.static)
    if model.control.linear:
        u = PiecewiseLinear(jnp.stack([t0, t1]), u)
    world, start, args = model.control.apply(model.world, state, args, u)
    with model.control.helping():
        sol = simulate(
            world,
            start,
            settings.method,
            jnp.asarray(t1),
            jnp.asarray(t0),
            args=args,
            throw=False,
            max_steps=settings.max_steps,
        )
    (code,) = jax.tree.leaves(sol.result)
    return sol.final, code
