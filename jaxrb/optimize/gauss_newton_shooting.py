"""Gauss-Newton shooting: multiple shooting and iLQR, which differ in where a trial leads.

Both linearise all stages at once and solve for all controls by one recursion (Giftthaler et al.,
A family of iterative Gauss-Newton shooting methods for nonlinear optimal control, IROS 2018). With
nodes everywhere, a trial moves all of them by the step, and stages may miss each other on the way;
with none, it simulates the stages in turn, with the gains as feedback.
"""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import numpy as np

from .._validate import one_of, positive_count, positive_number
from .control_search import MEETING, Found, Search, closing, slope_of, steep_parts
from .control_solution import ControlSolution
from .control_step import Step, step_of
from .optimal_control import OptimalControl
from .results import RESULTS
from .stages import Programs

# Steps that close less than this part of what is missed say nothing of its price.
LITTLE = 0.1
# The functions of a plan, in the order of `steep_parts` without the motion.
_FUNCTIONS = ("cost", "terminal", "terminal_cost")


class GaussNewtonShooting(eqx.Module):
    """Gauss-Newton steps of all controls, with the derivatives of all stages.

    Attributes:
        nodes: "all": multiple shooting. The states between the stages are unknowns too, and may
            be a sketch at first that no simulation follows. "none": iLQR. The states are those
            of a simulation, and the cost falls with each iteration.
        max_iterations: at most.
        tolerance: relative decrease of the cost that is left, to first order, at the end.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    nodes: Literal["all", "none"] = eqx.field(static=True)
    max_iterations: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)

    def __init__(
        self,
        nodes: Literal["all", "none"] = "all",
        max_iterations: int = 50,
        tolerance: float = 1e-10,
    ):
        self.nodes = one_of(nodes, ("all", "none"), "nodes")
        self.max_iterations = positive_count(max_iterations, "max_iterations")
        self.tolerance = positive_number(tolerance, "tolerance")

    def solve(self, plan: OptimalControl, guess: tuple | None, key: Any) -> ControlSolution:
        """The best controls near a guess; see `optimize.solve`."""
        del key
        search = Search(plan, Programs.of(plan), self.nodes == "all")
        here = search.begin(guess)
        if not np.isfinite(here.cost):
            check_finite(here)
            ended = (here.known.code != 0).any()
            why = RESULTS.simulation_failed if ended else RESULTS.derivative_not_finite
            return search.solution(here, why, [np.inf])
        return self._iterate(search, here)

    def _iterate(self, search: Search, here: Found) -> ControlSolution:
        price, history = 0.0, [float(here.cost)]
        result = RESULTS.max_iterations_reached
        for _ in range(self.max_iterations):
            step = step_of(here.known, search.coordinates)
            # Not far above the multipliers, for steps along curved constraints.
            price = float(np.clip(price, 1.5 * step.price, 10 * step.price))
            price = max(price, _needed(here, step))
            if self._done(here, step, price):
                result = RESULTS.successful
                break
            trial = search.improved(here, step, price)
            if trial is None:
                result = RESULTS.stalled
                break
            here = trial
            history.append(float(here.merit(price)))
        if result != RESULTS.max_iterations_reached and not search.feasible(here):
            result = RESULTS.infeasible
        return search.solution(here, result, history)

    def _done(self, here: Found, step: Step, price: float) -> bool:
        """Whether hardly anything is left to gain, and to close."""
        eps = float(np.finfo(here.controls.dtype).eps)
        if max(np.abs(step.controls).max(), np.abs(step.nodes).max()) < eps:
            return True
        flown = here.known
        missed = max(np.abs(flown.terminal[-1]).max(initial=0.0), np.abs(flown.defect).max())
        open_still = missed > MEETING * eps and not _stuck(here, step)
        # What is round-off of the cost, and of what is missed, is no gain.
        least = max(self.tolerance, 10 * eps) * float(here.merit(price)) + eps**2
        least += 100 * eps * price
        return not open_still and -slope_of(here, step, price) <= least


def _stuck(here: Found, step: Step) -> bool:
    """Whether a step closes hardly anything of what is missed."""
    return closing(here, step) <= LITTLE * float(here.gaps + here.misses)


def _needed(here: Found, step: Step) -> float:
    """A price at which a step is worth what it costs (Nocedal and Wright, Numerical Optimization
    (2006), eq. (18.36)); 0 of one that closes hardly anything."""
    if _stuck(here, step):
        return 0.0
    return max(2 * (step.cost_slope + step.curvature / 2) / closing(here, step), 0.0)


def check_finite(here: Found) -> None:
    """Raises `ValueError` if residuals, or their derivatives, are not finite although no simulation
    failed."""
    flown = here.known
    if (flown.code != 0).any():
        return
    names = {"cost": flown.residual, "terminal_cost": flown.terminal_cost[-1]}
    for name, values in names.items():
        if not np.isfinite(values).all():
            raise ValueError(f"{name} is not finite where the search starts.")
    for name, steep in zip(_FUNCTIONS, steep_parts(flown)[1:], strict=True):
        if steep:
            raise ValueError(
                f"{name} has no finite derivative where the search starts: a norm or a root of "
                "zero has none. Return the vector itself, of which every component counts."
            )
