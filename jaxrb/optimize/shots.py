"""Motions to a residual of their end, with its derivative: the one program of shooting."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._validate import positive_count, positive_number
from ..bodies import State
from ..simulate import SaveAt, StopAfter, StopWhen, World, simulate
from ..simulate.method import AbstractMethod
from .flow_map import value_and_jacobian
from .lanes import in_lanes
from .parameters import Parameters
from .segments import LANES, whole


class Shot(NamedTuple):
    """What one lane is given.

    Attributes:
        state: at t0, from which the steps are counted.
        t1: end [s].
        step: of the unknowns: of the free coordinates of the state, of the parameters, and of the
            logarithm of the duration, as far as they are free, shape (n,).
    """

    state: State
    t1: Float[Array | np.ndarray, ""]
    step: Float[Array | np.ndarray, " n"]


class Landed(NamedTuple):
    """What one lane returns.

    Attributes:
        residual: shape (m,).
        residual_by: its derivative by the unknowns, shape (m, n).
        code: why the simulation ended early, 0 if it did not; -1 where the event to stop at did
            not come.
        impacts: how many there were.
        start, end: the states at t0 and where the residual was taken.
        time: when that was [s].
    """

    residual: Float[Array | np.ndarray, " m"]
    residual_by: Float[Array | np.ndarray, "m n"]
    code: Int[Array | np.ndarray, ""]
    impacts: Int[Array | np.ndarray, ""]
    start: State
    end: State
    time: Float[Array | np.ndarray, ""]

    def steep(self) -> np.ndarray:
        """Of which lanes a derivative is not finite, as that of a norm at zero."""
        return np.asarray(~np.isfinite(self.residual_by).all((-1, -2)))


class Aim(NamedTuple):
    """What is static in the program.

    Attributes:
        method: how to simulate.
        free: the parameters; None without.
        coordinates: which of the 12 n_bodies coordinates of the state are free.
        free_time: whether t1 is.
        stop: where the residual is taken; None is t1.
        max_steps: capacity.
        static: of what else is given.
    """

    method: AbstractMethod
    free: Parameters | None
    coordinates: tuple[int, ...]
    free_time: bool
    stop: StopAfter | None
    max_steps: int
    static: tuple


class Given(NamedTuple):
    """What all lanes share."""

    world: World
    t0: Float[Array | np.ndarray, ""]
    residual: Any
    condition: Any  # of `StopWhen`, another residual; None without
    args: Any


class Limits(NamedTuple):
    """When a start is done; see `shoot`."""

    tolerance: float
    max_iterations: int
    impacts: tuple[int, ...] | None

    def allow(self, landed: Landed) -> np.ndarray:
        """Of which lanes there are as many impacts as there may be."""
        if self.impacts is None:
            return np.ones(np.shape(landed.impacts), bool)
        return np.isin(landed.impacts, self.impacts)

    def costs(self, landed: Landed, code: np.ndarray) -> np.ndarray:
        """The sum of the squares of each residual; infinite where it does not count."""
        with np.errstate(over="ignore"):
            cost = np.sum(landed.residual**2, axis=1)
        return np.where((code == 0) & np.isfinite(cost) & self.allow(landed), cost, np.inf)

    @staticmethod
    def of(tolerance, max_iterations, impacts, stop: StopAfter | StopWhen | None) -> Limits:
        """Those of arguments of `shoot`.

        Raises:
            ValueError: if they are none.
        """
        positive_number(tolerance, "tolerance")
        positive_count(max_iterations, "max_iterations")
        if impacts is None:
            return Limits(tolerance, max_iterations, None)
        if isinstance(stop, StopAfter):
            raise ValueError("shoot: impacts are counted until t1: leave them out with StopAfter.")
        counts = np.asarray(impacts)
        if (
            counts.ndim != 1
            or not counts.size
            or counts.dtype.kind not in "iu"
            or (counts < 0).any()
        ):
            raise ValueError(
                f"shoot: impacts must be some whole numbers, as (2, 3); got {impacts!r}."
            )
        return Limits(tolerance, max_iterations, tuple(counts.tolist()))


# The code of a motion in which the event to stop at did not come.
NOT_STOPPED = -1
# Times at which a condition is looked at first.
N_SCAN = 129


def shoot_all(given: Given, shots: Shot, aim: Aim) -> Landed:
    """All lanes, on all cores or devices."""
    return in_lanes(_lanes, given, shots, size=LANES, aim=aim)


@partial(jax.jit, static_argnames="aim")
def _lanes(given: Given, shots: Shot, *, aim: Aim) -> Landed:
    return jax.vmap(lambda shot: _land(given, shot, aim))(shots)


def unknowns(given: Given, shot: Shot, step: Array, aim: Aim) -> tuple[World, State, Array]:
    """The world, the first state and the end of a motion, moved by a step of the unknowns."""
    n_state = len(aim.coordinates)
    n_parameters = 0 if aim.free is None else aim.free.size
    flat = jnp.zeros(12 * shot.state.position.shape[-2], step.dtype)
    flat = flat.at[np.asarray(aim.coordinates, int)].set(step[:n_state])
    state = shot.state.retract(flat.reshape(-1, 12))
    world = given.world
    if aim.free is not None:
        world = aim.free.apply(world, step[n_state : n_state + n_parameters])
    t1 = jnp.asarray(shot.t1)
    if aim.free_time:
        t1 = jnp.asarray(given.t0 + (t1 - given.t0) * jnp.exp(step[-1]))
    return world, state, t1


def _land(given: Given, shot: Shot, aim: Aim) -> Landed:
    residual, condition, args = whole((given.residual, given.condition, given.args), aim.static)
    n_impacts = 0 if aim.stop is None else aim.stop.impacts

    def flight(step):
        world, start, t1 = unknowns(given, shot, step, aim)
        sol = simulate(
            world,
            start,
            aim.method,
            t1,
            jnp.asarray(given.t0),
            SaveAt(final=True, impacts=n_impacts),
            args,
            throw=False,
            max_steps=aim.max_steps,
        )
        (code,) = jax.tree.leaves(sol.result)
        end, time = sol.final, t1
        if n_impacts:
            # What comes after the impact does not matter.
            came = sol.impacts.count >= n_impacts
            record = sol.impacts
            end = jax.tree.map(lambda leaf: leaf[n_impacts - 1], record.after)
            time = jnp.where(came, record.time[n_impacts - 1], t1)  # type: ignore[index]
            ended = jnp.where(code == 0, jnp.int32(NOT_STOPPED), code)
            code = jnp.where(came, 0, ended)
            # In unused slots there is no state: the last one stands there, with a code.
            end = jax.tree.map(lambda at, last: jnp.where(came, at, last), end, sol.final)
        missed = jnp.ravel(jnp.asarray(residual(end)))
        if condition is not None:
            missed = jnp.append(missed, condition.function(time, end))
        return missed, (code, sol.impacts.count, start, end, time)

    missed, by, rest = value_and_jacobian(flight, jnp.asarray(shot.step))
    return Landed(missed, by, *rest)


@partial(jax.jit, static_argnames="aim")
def _scan(given: Given, shots: Shot, *, aim: Aim):
    """When the condition first changes its sign, roughly [s], t1 where it does not."""
    _, condition, args = whole((given.residual, given.condition, given.args), aim.static)

    def one(shot):
        world, start, t1 = unknowns(given, shot, jnp.asarray(shot.step), aim)
        ts = given.t0 + (t1 - given.t0) * jnp.linspace(0.0, 1.0, N_SCAN, dtype=t1.dtype)
        sol = simulate(
            world,
            start,
            aim.method,
            t1,
            jnp.asarray(given.t0),
            SaveAt(ts=ts),
            args,
            throw=False,
            max_steps=aim.max_steps,
        )
        values = jax.vmap(condition.function)(ts, sol.states)
        # The start may lie on the surface itself, which is no crossing.
        crossed = (values[1:-1] * values[2:] <= 0) & sol.reached[2:]
        first = jnp.argmax(crossed) + 1
        share = values[first] / jnp.where(crossed.any(), values[first] - values[first + 1], 1.0)
        found = ts[first] + (ts[first + 1] - ts[first]) * jnp.clip(share, 0.0, 1.0)
        return jnp.where(crossed.any(), found, t1), crossed.any()

    return jax.vmap(one)(shots)


def scan(given: Given, shots: Shot, aim: Aim) -> tuple[np.ndarray, np.ndarray]:
    """Of all lanes, when the condition first changes its sign, roughly [s], and whether it does."""
    times, came = in_lanes(_scan, given, shots, size=LANES, aim=aim)
    return np.asarray(times), np.asarray(came)
