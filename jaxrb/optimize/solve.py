"""The main call of optimal control."""

from __future__ import annotations

from typing import Any, Protocol

import jax
from jaxtyping import Array

from ..bodies import State
from .control_solution import ControlSolution
from .optimal_control import OptimalControl, checked_guess


class Solver(Protocol):
    """A way to find controls, such as `GaussNewtonShooting`, `CEM` or `MPPI`."""

    def solve(self, plan: OptimalControl, guess: tuple | None, key: Array) -> ControlSolution: ...


def solve(
    plan: OptimalControl,
    solver: Solver,
    guess: tuple[Any, State | None] | None = None,
    key: Array | None = None,
) -> ControlSolution:
    """Controls that solve a problem of optimal control.

    Args:
        plan: the problem.
        solver: `GaussNewtonShooting()`, `CEM()` or `MPPI()`.
        guess: where to start: controls, shape `plan.control_shape`, and states at the starts of
            the stages and at the end, or None. By default that of the plan; else controls of zero.
            Without states these are those that the controls lead to.
        key: of random numbers; only some solvers draw any.

    Returns:
        The best solution that was found. It never raises for what happens on the way: look at
        `result`.

    Raises:
        ValueError: if the arguments do not fit together, naming the argument.
    """
    if not isinstance(plan, OptimalControl):
        raise ValueError(f"plan must be an OptimalControl; got {type(plan).__name__}.")
    if not callable(getattr(solver, "solve", None)):
        raise ValueError(f"solver must be one such as GaussNewtonShooting(); got {solver!r}.")
    chosen = plan.guess if guess is None else checked_guess(plan, guess)
    return solver.solve(plan, chosen, jax.random.key(0) if key is None else key)
