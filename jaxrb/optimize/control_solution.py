"""What optimal control finds."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._codes import code_names
from ..bodies import State
from ..simulate import RESULTS as WORLD_RESULTS
from .optimal_control import OptimalControl
from .results import RESULTS
from .stages import product


@dataclasses.dataclass(frozen=True, repr=False)
class ControlSolution:
    """Controls, and where they lead.

    Attributes:
        controls: of the stages, shape (stages, n_u).
        states: at the starts of the stages, and at the end; leading axis stages + 1.
        gains: feedback in the charts of `State.retract`: near a node the best controls are
            controls[k] + gains[k] @ states[k].local(x).reshape(-1), shape (stages, n_u,
            12 n_bodies); None of a method that knows none.
        cost: the sum of the squares of all residuals; infinite where the simulation failed.
        violation: the largest entry of `terminal` at the end; 0 if there is none.
        defects: by how much a stage misses the next node at most [m, rad, m/s, rad/s].
        iterations: that it took.
        result: `optimize.RESULTS`.
        world_result: the code of the simulation that failed, or successful.
        history: what was lessened, after each iteration, shape (iterations + 1,): of shooting
            with nodes everywhere the cost and what gaps and misses cost, at prices that change.
        plan: the problem, whose guess is this solution.
    """

    controls: Float[np.ndarray, "stages n_u"]
    states: State
    gains: Float[np.ndarray, "stages n_u n_x"] | None
    cost: float
    violation: float
    defects: float
    iterations: int
    result: RESULTS
    world_result: WORLD_RESULTS
    history: Float[np.ndarray, " n"]
    plan: OptimalControl

    def __repr__(self) -> str:
        return "\n".join(
            [
                f"{self.plan!r}",
                f"cost {self.cost:.6g}, violation {self.violation:.2g}, defects "
                f"{self.defects:.2g} after {self.iterations} iterations",
                f"result {code_names(RESULTS, self.result)}",
            ]
        )

    def feedback(self, stage: int, state: State) -> Float[Array, " n_u"]:
        """The controls of a stage for a state that deviates from the plan.

        Raises:
            ValueError: if the method found no gains.
        """
        if self.gains is None:
            raise ValueError("This solution has no gains: GaussNewtonShooting finds them.")
        node = jax.tree.map(lambda leaf: jnp.asarray(leaf[stage]), self.states)
        deviation = node.local(state).reshape(-1)
        return self.controls[stage] + product(
            jnp.asarray(self.gains[stage], deviation.dtype), deviation
        )
