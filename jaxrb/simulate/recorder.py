"""Keeps the states of a trajectory at some times, and its impacts.

There is a slot for each of the times and for each impact that is asked for. The replay, which flies
a trajectory flight by flight, fills them as it comes by: nothing else is kept, so that memory is
that of the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from ..math import tree_where
from ..math.materialize import compute_once, opaque_one
from .course import Course
from .events import AbstractEvents, Mode
from .results import Code
from .time_grid import TimeGrid


class SaveSpec(NamedTuple):
    """The static choice of what to keep."""

    times: int  # how many times to save; 0 if there is only the end
    most: int  # of them that fall into one step
    within: bool  # whether some fall between the ends of steps, or several into one
    impacts: int  # room for so many

    @property
    def anything(self) -> bool:
        return self.times > 0 or self.impacts > 0


class Times(eqx.Module):
    """The times to save, sorted; those at the end of the trajectory fall into no step of it."""

    step: Int[Array, " n"]  # in which they fall,
    offset: Float[Array, " n"]  # and how far into it [s]

    def before(self, step: Int[Array, ""], offset: Float[Array, ""]) -> Bool[Array, " n"]:
        """Which of them are earlier than so far into a step."""
        return (self.step < step) | ((self.step == step) & (self.offset < offset))


class Saves(eqx.Module):
    """The starts of the flights in which the times to save fall; leading axis over the times.

    Of several times in one flight the first alone has its slot filled; empty slots hold zeros.
    """

    passed: Int[Array, ""]  # how many of the times are earlier than the last flight
    phase: Phase
    # Where states are asked for between the ends of steps:
    filled: Bool[Array, " n"] | None
    begin: Float[Array, " n"] | None  # since the start of the step [s]
    mode: Mode


class Impact(eqx.Module):
    """Impacts along a trajectory, in order; leading axis over the slots."""

    count: Int[Array, ""]  # in all; further slots hold zeros
    step: Int[Array, " n"]
    offset: Float[Array, " n"]  # time since the start of the step [s]
    contact: Int[Array, " n"]
    before: Phase
    after: Phase


class Outputs(eqx.Module):
    """The states at the times to save, where they were reached, and the impacts."""

    saved: tuple[Bool[Array, " n"], Phase] | None
    impacts: Impact | None
    code: Int[Array, ""]  # of the first flight up to a time to save that failed

    @staticmethod
    def of(
        saved: tuple[Bool[Array, " n"], Phase] | None,
        codes: Int[Array, " n"] | None,
        impacts: Impact | None = None,
    ) -> Outputs:
        """What is kept; those of the states are not reached to which no flight could be made.

        Args:
            saved: which of the times were met, and the states there.
            codes: of the flights up to these; None if all of them are at the ends of flights.
            impacts: the record.
        """
        none = jnp.zeros((), jnp.int32)
        if saved is None or codes is None:
            return Outputs(saved, impacts, none)
        met, phase = saved
        failed = met & (codes != int(Code.successful))
        first = jnp.where(jnp.any(failed), codes[jnp.argmax(failed)].astype(jnp.int32), none)
        return Outputs((met & ~failed, phase), impacts, first)


class Record(eqx.Module):
    """What is kept of a trajectory as it is flown."""

    saves: Saves | None
    impacts: Impact | None

    @staticmethod
    def empty(wanted: SaveSpec, start: Course) -> Record:
        """A record in which nothing is kept yet."""
        start = jax.lax.stop_gradient(start)
        none, zero = jnp.zeros((), jnp.int32), jnp.zeros_like(start.remaining)

        def slots(tree, n: int):
            return jax.tree.map(lambda leaf: jnp.zeros((n, *leaf.shape), leaf.dtype), tree)

        saves = impacts = None
        if n := wanted.times:
            within = (none.astype(bool), zero, start.mode) if wanted.within else (None, None, None)
            saves = Saves(none, *slots((start.phase, *within), n))
        if n := wanted.impacts:
            impacts = Impact(none, *slots((none, zero, none, start.phase, start.phase), n))
        return Record(saves, impacts)

    def moving(self, number: Float[Array, ""], *, modes: bool) -> Record:
        """The same, for derivatives: all of it seems to depend on a number, of modes if they may.

        Slots are filled with what does. JAX would differentiate each loop again when it finds that.
        """
        nothing = jnp.where(jnp.zeros((), bool), number, 0.0)

        def move(leaf):
            return leaf + nothing if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

        moved: Record = jax.tree.map(move, self)
        return moved if modes else moved.with_modes_unmoved()

    def with_modes_unmoved(self) -> Record:
        """The same, of which modes are known not to depend on what is differentiated."""
        if self.saves is None:
            return self
        mode = jax.lax.stop_gradient(self.saves.mode)
        return dataclasses.replace(self, saves=dataclasses.replace(self.saves, mode=mode))

    def with_flight(
        self,
        wanted: SaveSpec,
        times: Times,
        grid: TimeGrid,
        start: Course,
        flown: Bool[Array, ""],
        until: Float[Array, ""] | None = None,
    ) -> Record:
        """The record after a flight.

        Args:
            wanted, times, grid: what to keep.
            start: of the flight.
            flown: whether it is flown.
            until: when it ends, since the start of the step [s]; None if with the step.
        """
        saves = self.saves
        if saves is None:
            return self
        begin = grid.size(start.step) - start.remaining
        passed = _passed(times, wanted.most, saves.passed, start.step, begin)
        first = jnp.minimum(passed, wanted.times - 1)
        here = flown & (passed < wanted.times) & (times.step[first] == start.step)
        if until is not None:
            here &= times.offset[first] < until
        slot = jnp.where(here, first, wanted.times)
        within = (here, begin, start.mode) if wanted.within else (None, None, None)
        old = (saves.phase, saves.filled, saves.begin, saves.mode)
        kept = _filled(old, slot, (start.phase, *within))
        return dataclasses.replace(self, saves=Saves(passed, *kept))

    def with_impact(
        self,
        happens: Bool[Array, ""],
        step: Int[Array, ""],
        offset: Float[Array, ""],
        contact: Int[Array, ""],
        before: Phase,
        after: Phase,
    ) -> Record:
        """The record after an impact, if it happens: kept if there is room."""
        impacts = self.impacts
        if impacts is None:
            return self
        slot = jnp.where(happens, impacts.count, impacts.step.shape[0])
        old = (impacts.step, impacts.offset, impacts.contact, impacts.before, impacts.after)
        kept = _filled(old, slot, (step, offset, contact, before, after))
        count = impacts.count + happens.astype(jnp.int32)
        return dataclasses.replace(self, impacts=Impact(count, *kept))


def _passed(
    times: Times,
    most: int,
    passed: Int[Array, ""],
    step: Int[Array, ""],
    offset: Float[Array, ""],
) -> Int[Array, ""]:
    """How many times are earlier than a flight: `passed` by bisection, and at most `most` more."""
    n = times.step.shape[0]
    for bit in reversed(range(most.bit_length())):
        ahead = passed + ((1 << bit) - 1)
        at = jnp.minimum(ahead, n - 1)
        earlier = Times(times.step[at], times.offset[at]).before(step, offset)
        further = (ahead < n) & earlier
        passed = passed + jnp.where(further, jnp.int32(1 << bit), 0)
        if bit:  # all that is kept depends on it; floats count exactly as far as memory goes
            number = passed.astype(offset.dtype)
            passed = compute_once(number, opaque_one(passed, number.dtype)).astype(jnp.int32)
    return passed


def _filled(tree, slot: Int[Array, ""], values):
    """Arrays with one slot filled; with none where there is no such slot.

    Loops carry the arrays, which are written in place. A slot is filled once: adding to its zeros
    is the same as setting it, but leaves the derivative of the array as it is in reverse mode.
    """

    def filled(leaf, value):
        at = leaf.at[slot]
        fill = at.set if leaf.dtype == bool else at.add
        return fill(value, mode="drop", unique_indices=True, indices_are_sorted=True)

    return jax.tree.map(filled, tree, values)


def outputs_of(
    record: Record,
    wanted: SaveSpec,
    times: Times,
    end: Course,
    grid: TimeGrid,
    events: AbstractEvents,
    partway: Callable[..., tuple[Phase, Int[Array, ""]]],
) -> Outputs:
    """What is kept of a trajectory that has come to its end.

    Args:
        record, wanted, times: what was kept.
        end: of the trajectory.
        grid, events: of the trajectory.
        partway: the phase at a time within a flight, and the code of that part of the flight, by
            the grid, the events, the step in which the flight begins, how far into it and how long
            before that time [s], and by the phase and the mode there.
    """
    saves = record.saves
    if saves is None:
        return Outputs.of(None, None, record.impacts)
    met = times.before(end.step, grid.size(end.step) - end.remaining)
    if not wanted.within:
        return Outputs.of((met, saves.phase), None, record.impacts)
    kept = (saves.phase, saves.begin, saves.mode)
    if wanted.most > 1:
        # Times without a slot of their own fall into the flight of the last that has one.
        assert saves.filled is not None
        order = jnp.arange(wanted.times, dtype=jnp.int32)
        own = jax.lax.cummax(jnp.where(saves.filled, order, 0))
        kept = jax.tree.map(lambda leaf: leaf[own], kept)
    # What is computed from empty slots is not used, but must be finite.
    where_met = partial(jax.vmap(tree_where, in_axes=(0, 0, None)), met)
    phase, begin, mode = where_met(kept, (end.phase, jnp.zeros_like(end.remaining), end.mode))
    assert begin is not None

    elapsed = jnp.where(met, jnp.maximum(times.offset - begin, 0.0), 0.0)
    fly = jax.vmap(partway, in_axes=(None, None, 0, 0, 0, 0, 0))
    phase, codes = fly(grid, events, times.step, begin, elapsed, phase, mode)
    return Outputs.of((met, phase), codes, record.impacts)
