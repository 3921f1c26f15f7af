"""Options of saving, and the solution."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from .._text import described, readable
from .._validate import positive_number, real_array, require
from ..bodies import State
from .contact_forces import ContactForces
from .describe import describe_impacts, describe_solution
from .results import RESULTS
from .unread import CODES, STATES, notice


class SaveAt(eqx.Module):
    """The states that a simulation returns besides its final one.

    Give exactly one of `every`, `ts` and `final`.

    Attributes:
        every: save at t0, after every so many steps, and at t1.
        spacing: in continuous time, which has no steps, the ones that `every` counts [s]; they are
            output only.
        ts: save at these times [s], sorted, within [t0, t1]; how many is static, they may be
            traced. They do not disturb the trajectory: the flow is evaluated part of the way
            into the flight they fall in.
        final: save at t1 only.
        impacts: capacity of the record of impacts; 0 keeps none.
        contacts: whether to save the forces of contacts that last, as `contact_forces` gives them,
            at the same times.
    """

    every: int | None = eqx.field(static=True)
    spacing: float | None = eqx.field(static=True)
    ts: Float[np.ndarray, " n"] | Float[Array, " n"] | None
    final: bool = eqx.field(static=True)
    impacts: int = eqx.field(static=True)
    contacts: bool = eqx.field(static=True)

    def __init__(
        self,
        *,
        every: int | None = None,
        spacing: float | None = None,
        ts=None,
        final: bool = False,
        impacts: int = 0,
        contacts: bool = False,
    ):
        if (every is not None) + (ts is not None) + bool(final) != 1:
            raise ValueError("SaveAt needs exactly one of every=..., ts=... and final=True.")
        if every is not None and (int(every) != every or every < 1):
            raise ValueError(f"SaveAt.every must be a positive whole number; got {every!r}.")
        if int(impacts) != impacts or impacts < 0:
            raise ValueError(f"SaveAt.impacts must be a whole number >= 0; got {impacts!r}.")
        if spacing is not None and every is None:
            raise ValueError("SaveAt.spacing is that of SaveAt(every=...), which must be given.")
        self.every = None if every is None else int(every)
        self.spacing = None if spacing is None else positive_number(spacing, "SaveAt.spacing")
        self.ts = None if ts is None else _times(ts)
        self.final = bool(final)
        self.impacts = int(impacts)
        self.contacts = bool(contacts)


def _times(ts) -> np.ndarray | Array:
    """Known ones in double precision, traced ones as they are.

    Raises:
        ValueError: if they are no sequence of finite numbers.
    """
    if isinstance(ts, Tracer):
        return real_array(ts, "SaveAt.ts").reshape(-1)
    try:
        times = np.asarray(ts, np.float64).reshape(-1)
    except Exception:  # no numbers, or some of them traced
        times = real_array(jnp.stack(list(ts)), "SaveAt.ts").reshape(-1)
    if times.size == 0:
        raise ValueError("SaveAt.ts must hold at least one time.")
    require(times, "SaveAt.ts", np.isfinite, "finite")
    return times


class Impacts(eqx.Module):
    """The impacts of a trajectory, in order, in arrays of length N = SaveAt(impacts=N).

    Attributes:
        count: how many there were in all, more than N included.
        time: [s]; unused slots hold infinity.
        pair: indices of the body and of what it hit, shape (N, 2): an obstacle, or, counted
            after all obstacles, another body, or, counted after all bodies, the joint that came
            to its limit; unused slots hold -1.
        impulse: on the body, world frame [N s], shape (N, 3); unused slots hold 0, as in
            what follows.
        position: of the contact point, world frame [m], shape (N, 3).
        normal: from what it hit into the body, world frame, shape (N, 3); 0 at limits of joints,
            where the position is that of the joint.
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

    def __repr__(self) -> str:
        return described(describe_impacts, self)


class Stats(eqx.Module):
    """Counts of the work done.

    Attributes:
        steps: completed.
        flow_evaluations: iterations of the loop this world was active in; the largest over a
            batch is the number of iterations of its loop.
        crowded: iterations in which more contacts were near than the list of near ones has places,
            which is kept where bodies are many: all contacts were looked at, which takes longer.
        time: reached [s]; t1 unless the simulation ended early.
        energy: total, at t0 and at the end [J], shape (2,).
        kernel: whether the loop ran as one kernel: see the argument `backend` of `simulate_batch`.
        work: of all forces without a potential [J]; None where there is none.
    """

    steps: Int[Array, ""]
    flow_evaluations: Int[Array, ""]
    crowded: Int[Array, ""]
    time: Float[Array, ""]
    energy: Float[Array, "2"]
    kernel: Bool[Array, ""]
    work: Float[Array, ""] | None = None

    def __repr__(self) -> str:
        return readable(self)


class Solution(eqx.Module):
    """A simulated trajectory.

    Attributes:
        ts: the times saved [s], shape (n_saves,).
        states: the states at these times, leading axis n_saves. Times that a failed
            simulation did not reach hold its last good state; with failed="nan", NaN.
        reached: which of these times the simulation reached, shape (n_saves,).
        final: the last good state, that at t1 if successful.
        result: `RESULTS.successful` or why the simulation ended early.
        impacts: how many, and their record.
        zeno_time: of each body, when the infinitely many impacts of a Zeno sequence
            end [s], shape (n_bodies,); infinite without one. With on_zeno="stop" that is after
            the end of the simulation, with "rest" the body's first sustained contact begins.
            With friction, or where bodies touch each other, it is not predicted: NaN after `zeno`.
        stats: counts of the work done.
        contacts: the forces of contacts that last at the times saved, with
            SaveAt(contacts=True); None without.
    """

    ts: Float[Array, " n_saves"]
    states: State
    reached: Bool[Array, " n_saves"]
    final: State
    result: RESULTS
    impacts: Impacts
    zeno_time: Float[Array, " n_bodies"]
    stats: Stats
    contacts: ContactForces | None = None

    def __getattribute__(self, name: str):
        if name in CODES or name in STATES:
            notice(self, name)
        return super().__getattribute__(name)

    @property
    def successful(self) -> Bool[Array, ""]:
        """Whether the simulation came to t1; in a batch a mask of the worlds that did."""
        return self.result == RESULTS.successful

    def __repr__(self) -> str:
        return described(describe_solution, self)
