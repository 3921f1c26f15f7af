"""Controls by random search: baselines that need no derivatives."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._validate import (
    nonnegative_number,
    positive_count,
    positive_number,
    real_array,
    require_positive,
)
from ..simulate import RESULTS as WORLD_RESULTS
from .control_search import VIOLATION
from .control_solution import ControlSolution
from .control_step import Coordinates
from .levenberg_marquardt import as_numpy
from .optimal_control import OptimalControl
from .results import RESULTS, items
from .stages import Policy, Programs, Rollout


class _Sampling(eqx.Module):
    """The loop: draw about a mean, simulate, move the mean."""

    samples: eqx.AbstractVar[int]
    iterations: eqx.AbstractVar[int]
    sd: eqx.AbstractVar[Float[Array, "..."]]
    penalty: eqx.AbstractVar[float]

    @abc.abstractmethod
    def following(
        self, controls: np.ndarray, values: np.ndarray, mean: np.ndarray, sd: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The next mean and standard deviation.

        Args:
            controls: of the samples, shape (samples, *`OptimalControl.control_shape`).
            values: of each; infinite where the simulation failed, but not of all.
            mean, sd: from which they were drawn, without the axis of the samples.
        """

    def solve(self, plan: OptimalControl, guess: tuple | None, key: Array) -> ControlSolution:
        """The best of all samples; see `optimize.solve`."""
        programs = Programs.of(plan)
        shape = plan.control_shape
        mean = np.zeros(shape, plan.dtype) if guess is None else guess[0]
        sd = np.broadcast_to(np.asarray(self.sd, plan.dtype), shape)
        best: Rollout | None = None
        value, history = np.inf, []
        for _ in range(self.iterations):
            key, now = jax.random.split(key)
            noise = np.array(jax.random.normal(now, (self.samples, *shape), plan.dtype))
            noise[0] = 0.0  # the mean itself
            drawn = mean + sd * noise
            if plan.initial_control is not None:
                drawn[:, 0] = plan.initial_control
            found = _rolled_out(plan, programs, drawn)
            values = self._values(found)
            first = int(np.argmin(values))
            if best is None or values[first] < value:
                value = values[first]
                best = jax.tree.map(lambda leaf, first=first: leaf[first], found)
            history.append(float(value))
            if np.isfinite(values).any():
                mean, sd = self.following(found.controls, values, mean, sd)
        assert best is not None
        return _solution(plan, best, value, history)

    def _values(self, found: Rollout) -> np.ndarray:
        with np.errstate(invalid="ignore", over="ignore"):
            values = found.cost + self.penalty * np.sum(found.terminal**2, axis=-1)
        return np.where((found.code == 0) & np.isfinite(values), values, np.inf)


class CEM(_Sampling):
    """The cross-entropy method: the mean and the spread of the best samples are drawn from next
    (Rubinstein, Methodology and Computing in Applied Probability 1 (1999)).

    Attributes:
        samples: drawn in each iteration, and simulated together.
        iterations: how many.
        elite: the part of the samples that counts as best.
        sd: standard deviation of the controls at first, one for all or shape (n_u,).
        least_sd: the part of `sd` below which the spread does not fall.
        penalty: on the square of what `terminal` is missed by.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    samples: int = eqx.field(static=True)
    iterations: int = eqx.field(static=True)
    elite: float = eqx.field(static=True)
    sd: Float[Array, "..."]
    least_sd: float = eqx.field(static=True)
    penalty: float = eqx.field(static=True)

    def __init__(
        self, samples=512, iterations=20, *, elite=0.1, sd=1.0, least_sd=1e-3, penalty=1e3
    ):
        self.samples = positive_count(samples, "CEM.samples")
        self.iterations = positive_count(iterations, "CEM.iterations")
        self.elite = positive_number(elite, "CEM.elite")
        if self.elite > 1:
            raise ValueError(f"CEM.elite must be at most 1; got {elite}.")
        self.sd = real_array(sd, "CEM.sd")
        require_positive(self.sd, "CEM.sd")
        self.least_sd = nonnegative_number(least_sd, "CEM.least_sd")
        self.penalty = nonnegative_number(penalty, "CEM.penalty")

    def following(self, controls, values, mean, sd):
        n = max(2, round(self.elite * self.samples))
        chosen = controls[np.argsort(values)[: min(n, int(np.isfinite(values).sum()))]]
        least = np.asarray(self.least_sd * np.asarray(self.sd), sd.dtype)
        return chosen.mean(axis=0), np.maximum(chosen.std(axis=0), least)


class MPPI(_Sampling):
    """Model predictive path integrals: the mean moves to the samples, weighted by exp(-value /
    temperature) (Williams, Aldrich and Theodorou, Journal of Guidance, Control, and Dynamics 40
    (2017)).

    Attributes:
        samples: drawn in each iteration, and simulated together.
        iterations: how many.
        sd: standard deviation of the controls, one for all or shape (n_u,).
        temperature: in units of the standard deviation of the values of the samples.
        penalty: on the square of what `terminal` is missed by.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    samples: int = eqx.field(static=True)
    iterations: int = eqx.field(static=True)
    sd: Float[Array, "..."]
    temperature: float = eqx.field(static=True)
    penalty: float = eqx.field(static=True)

    def __init__(self, samples=512, iterations=20, *, sd=1.0, temperature=0.1, penalty=1e3):
        self.samples = positive_count(samples, "MPPI.samples")
        self.iterations = positive_count(iterations, "MPPI.iterations")
        self.sd = real_array(sd, "MPPI.sd")
        require_positive(self.sd, "MPPI.sd")
        self.temperature = positive_number(temperature, "MPPI.temperature")
        self.penalty = nonnegative_number(penalty, "MPPI.penalty")

    def following(self, controls, values, mean, sd):
        finite = np.isfinite(values)
        above = values - values.min()
        spread = self.temperature * above[finite].std()
        weights = np.exp(-above / spread) if spread > 0 else finite.astype(values.dtype)
        return np.tensordot(weights / weights.sum(), controls, 1), sd


def _rolled_out(plan: OptimalControl, programs: Programs, controls: np.ndarray) -> Rollout:
    start = as_numpy(plan.state)
    nodes = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (plan.stages + 1, *leaf.shape)), start)
    gains = np.zeros((len(controls), *Coordinates.of(plan).gains), controls.dtype)
    return programs.rollouts(plan.state, Policy(controls, gains), nodes)


def _solution(plan: OptimalControl, best: Rollout, value, history: list[float]) -> ControlSolution:
    violation = float(np.abs(best.terminal).max(initial=0.0))
    known = bool(np.isfinite(value))
    result: Any = RESULTS.successful if violation <= VIOLATION else RESULTS.infeasible
    return ControlSolution(
        best.controls,
        jax.tree.map(jnp.asarray, best.nodes),
        None,
        float(best.cost) if known else float("inf"),
        violation,
        0.0,
        len(history),
        result if known else RESULTS.simulation_failed,
        items(WORLD_RESULTS, int(best.code)),
        np.asarray(history),
        plan.starting_from(best.controls, best.nodes) if known else plan,
    )
