"""What optimal control finds."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._codes import code_names
from .._validate import real_array
from ..bodies import State
from ..control import AbstractInput
from ..simulate import RESULTS as WORLD_RESULTS
from .optimal_control import OptimalControl
from .results import RESULTS
from .stages import product


@dataclasses.dataclass(frozen=True, repr=False)
class ControlSolution:
    """Controls, and where they lead.

    Attributes:
        controls: of the stages, shape (stages, n_u); of linear ones, those at the starts of the
            stages and at the end, shape (stages + 1, n_u).
        states: at the starts of the stages, and at the end; leading axis stages + 1.
        gains: feedback in the charts of `State.retract`: near a node the best controls are
            controls[k] + gains[k] @ states[k].local(x).reshape(-1), shape (stages, n_u,
            12 n_bodies); None of a method that knows none. Of linear controls see `feedback`.
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

    controls: Float[np.ndarray, "n n_u"]
    states: State
    gains: Float[np.ndarray, "stages n_u n"] | None
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

    @property
    def input(self) -> AbstractInput:
        """The controls as a function of time; see `OptimalControl.input`."""
        return self.plan.input(self.controls)

    def feedback(
        self, stage: int, state: State, control: Float[Array, " n_u"] | None = None
    ) -> Float[Array, " n_u"]:
        """The controls of a stage for a state that deviates from the plan.

        Linear controls of a stage start where those of the one before ended. So what can be chosen
        are those at its end: controls[k + 1] + gains[k] @ deviation, where the deviation is that
        of the state at the start, states[k].local(state).reshape(-1), and then that of the
        controls there, control - controls[k]; the gains have shape (stages, n_u, 12 n_bodies +
        n_u).

        Args:
            stage: k, from 0.
            state: at the start of the stage.
            control: of linear controls, those at the start of the stage; as planned by default.

        Returns:
            The controls of the stage; of linear ones, those at its end.

        Raises:
            ValueError: if the method found no gains, or controls are held but one is given.
        """
        if self.gains is None:
            raise ValueError("This solution has no gains: GaussNewtonShooting finds them.")
        linear = self.plan.control.linear
        node = jax.tree.map(lambda leaf: jnp.asarray(leaf[stage]), self.states)
        deviation = node.local(state).reshape(-1)
        if linear:
            planned = jnp.asarray(self.controls[stage])
            control = planned if control is None else real_array(control, "control", planned.shape)
            change = (control - planned).astype(deviation.dtype)
            deviation = jnp.concatenate([deviation, change])
        elif control is not None:
            raise ValueError("control is of linear controls; these are held.")
        return self.controls[stage + linear] + product(
            jnp.asarray(self.gains[stage], deviation.dtype), deviation
        )
