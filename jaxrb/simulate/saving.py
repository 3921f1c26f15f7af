"""What to save, and what comes back."""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from ..bodies import State
from .describe import describe_solution, described
from .results import RESULTS


class SaveAt(eqx.Module):
    """What a simulation returns besides its final state.

    Give exactly one of `every`, `ts` and `final`.

    Attributes:
        every: save at t0, after every so many steps, and at t1.
        ts: save at these times [s], sorted, within [t0, t1]. They do not disturb the
            trajectory: the flow is evaluated part of the way into the segment they fall in.
        final: save at t1 only.
        impacts: capacity of the record of impacts; 0 keeps none.
    """

    every: int | None = eqx.field(static=True)
    ts: tuple[float, ...] | None = eqx.field(static=True)
    final: bool = eqx.field(static=True)
    impacts: int = eqx.field(static=True)

    def __init__(self, *, every: int | None = None, ts=None, final: bool = False, impacts: int = 0):
        if (every is not None) + (ts is not None) + bool(final) != 1:
            raise ValueError("SaveAt needs exactly one of every=..., ts=... and final=True.")
        if every is not None and (int(every) != every or every < 1):
            raise ValueError(f"SaveAt.every must be a positive whole number; got {every!r}.")
        if int(impacts) != impacts or impacts < 0:
            raise ValueError(f"SaveAt.impacts must be a whole number >= 0; got {impacts!r}.")
        self.every = None if every is None else int(every)
        self.ts = None if ts is None else concrete_times(ts, "SaveAt.ts")
        self.final = bool(final)
        self.impacts = int(impacts)

    def times(self, t0: float, t1: float, dt: float, n_steps: int) -> np.ndarray:
        """The times that are saved [s]."""
        if self.final:
            return np.array([t1])
        if self.every is not None:
            return np.append(t0 + dt * np.arange(0, n_steps, self.every), t1)
        ts = np.asarray(self.ts, float)
        slack = 1e-9 * dt
        if ts.size == 0 or np.any(np.diff(ts) < 0) or ts[0] < t0 - slack or ts[-1] > t1 + slack:
            raise ValueError(
                f"SaveAt.ts must be a non-empty, sorted sequence of times in [{t0}, {t1}]; got "
                f"{ts.tolist() if ts.size < 10 else f'{ts.size} times from {ts[0]} to {ts[-1]}'}."
            )
        return np.clip(ts, t0, t1)


def concrete_times(ts, name: str) -> tuple[float, ...]:
    """`ts` as Python numbers.

    Raises:
        ValueError: naming the argument, if they are traced, no numbers, or not finite.
    """
    try:
        values = np.asarray(ts, float).reshape(-1)
    except Exception as error:  # traced, or no numbers
        raise ValueError(
            f"{name} must be concrete numbers: they set the program's shape."
        ) from error
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} must be finite; got {values.tolist()}.")
    return tuple(values.tolist())


class Impacts(eqx.Module):
    """The impacts of a trajectory, in order, in arrays of length N = SaveAt(impacts=N).

    Attributes:
        count: how many there were in all, more than N included.
        time: [s]; unused slots hold infinity.
        pair: indices of the body and of what it hit, shape (N, 2): an obstacle, or, counted
            after all obstacles, another body; unused slots hold -1.
        impulse: on the body, world frame [N s], shape (N, 3); unused slots hold 0, as in
            what follows.
        position: of the contact point, world frame [m], shape (N, 3).
        normal: from what it hit into the body, world frame, shape (N, 3).
        before, after: the states just before and after, leading axis N.
    """

    count: Int[Array, ""]
    time: Float[Array, " N"] | None = None
    pair: Int[Array, "N 2"] | None = None
    impulse: Float[Array, "N 3"] | None = None
    position: Float[Array, "N 3"] | None = None
    normal: Float[Array, "N 3"] | None = None
    before: State | None = None
    after: State | None = None


class Stats(eqx.Module):
    """Counts of the work done.

    Attributes:
        steps: completed.
        flow_evaluations: turns of the loop this world was active in; the largest over a
            batch is the number of turns of its loop.
        time: reached [s]; t1 unless the simulation ended early.
        energy: total, at t0 and at the end [J], shape (2,).
    """

    steps: Int[Array, ""]
    flow_evaluations: Int[Array, ""]
    time: Float[Array, ""]
    energy: Float[Array, "2"]


class Solution(eqx.Module):
    """A simulated trajectory.

    Attributes:
        ts: the times saved [s], shape (n_saves,).
        states: the states at these times, leading axis n_saves. Times that a failed
            simulation did not reach hold its last good state.
        final: the last good state, that at t1 if successful.
        result: `RESULTS.successful` or why the simulation ended early.
        impacts: how many, and their record.
        accumulation_time: of each body, when the infinitely many impacts of a Zeno sequence
            end [s], shape (n_bodies,); infinite without one. With on_zeno="stop" that is after
            the end of the simulation, with "rest" the body's first sustained contact begins.
            With friction, or where bodies touch each other, it is not predicted: NaN after `zeno`.
        stats: counts of the work done.
    """

    ts: Float[Array, " n_saves"]
    states: State
    final: State
    result: RESULTS
    impacts: Impacts
    accumulation_time: Float[Array, " n_bodies"]
    stats: Stats

    def __repr__(self) -> str:
        return described(describe_solution, self)
