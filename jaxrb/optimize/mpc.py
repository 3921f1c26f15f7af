"""Model predictive control: one step of the optimisation for each measured state."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import State
from ..control import PiecewiseLinear
from .control_search import Search, moved_nodes
from .control_solution import ControlSolution
from .control_step import Coordinates, step_of
from .gauss_newton_shooting import check_finite
from .optimal_control import OptimalControl
from .stages import Programs


def mpc_step(
    plan: OptimalControl | ControlSolution, measured: State
) -> tuple[Float[Array, " n_u"] | PiecewiseLinear, OptimalControl]:
    """The controls of the first stage from a measured state, and the plan for the next one.

    It makes one Gauss-Newton step from the guess of the plan (Diehl, Bock and Schloeder, SIAM
    Journal on Control and Optimization 43 (2005)), with the measured state in place of the first
    node. The next plan begins and ends one stage later, and its guess is what this one found,
    shifted by a stage. All calls for plans of one kind share one program.

    Args:
        plan: the problem, whose guess is followed; zero controls if it has none. Or a solution
            of it.
        measured: the state when the plan begins.

    Returns:
        The controls of the first stage, shape (n_u,), and the plan that begins when it ends. Linear
        controls are a `PiecewiseLinear` over the stage. They go on from those of the stage before
        if the plan has an `initial_control`; otherwise they may jump at each measurement.

    Raises:
        ValueError: if the arguments do not fit together.
        RuntimeError: if the simulation of a stage ends early, from the measured state or along
            the guess: nothing better than the guess is known then.
    """
    plan = plan.plan if isinstance(plan, ControlSolution) else plan
    if not isinstance(plan, OptimalControl):
        raise ValueError(f"plan must be an OptimalControl; got {type(plan).__name__}.")
    here = dataclasses.replace(plan, state=measured)
    at = Search(here, Programs.of(here), free_nodes=True).begin(here.guess)
    if not np.isfinite(at.cost):
        check_finite(at)
        raise RuntimeError(
            "mpc_step: a stage of the plan cannot be simulated from the measured state, or along "
            "the guess. Use the guess, or solve the plan anew from there."
        )
    step = step_of(at.known, Coordinates.of(plan))
    controls = (at.controls + step.controls).astype(plan.dtype)
    moves = step.nodes.astype(plan.dtype).reshape(1, len(step.nodes), -1, 12)
    nodes = jax.tree.map(lambda leaf: leaf[0], moved_nodes(plan.world, at.nodes, moves))

    def shifted(leaf):
        return np.concatenate([leaf[1:], leaf[-1:]])

    duration = (plan.t1 - plan.t0) / plan.stages
    going_on = None if plan.initial_control is None else controls[1]
    following = dataclasses.replace(
        plan,
        initial_control=going_on,
        state=jax.tree.map(lambda leaf: jnp.asarray(leaf[1]), nodes),
        t0=plan.t0 + duration,
        t1=plan.t1 + duration,
        guess=(shifted(controls), jax.tree.map(shifted, nodes)),
    )
    return here.of_stage(controls, 0), following
