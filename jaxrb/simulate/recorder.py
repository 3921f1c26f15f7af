"""Collects the states of a trajectory at some times, and its impacts.

The replay flies a trajectory in blocks; here the flights of one block are searched for what is
wanted. How much that is depends on the trajectory: each block has room for as much as it can
meet, and `compact` takes what was met out of all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from ..flows import AbstractFlow
from .events import AbstractEvents, Mode
from .log import Log
from .time_grid import TimeGrid


class SaveSpec(NamedTuple):
    """The static choice of what to keep."""

    times: int  # how many times to save, at most, fall into one block
    within: bool  # whether some fall between the ends of steps
    impacts: bool

    @property
    def anything(self) -> bool:
        return self.times > 0 or self.impacts


class Times(eqx.Module):
    """The times to save; those at the end of the trajectory fall into no step of it."""

    step: Int[Array, " n"]  # in which they fall,
    offset: Float[Array, " n"]  # and how far into it [s]


class Impact(eqx.Module):
    """Impacts along a trajectory; in a block, arrays have a leading axis over its arcs."""

    valid: Bool[Array, ""]
    step: Int[Array, ""]
    offset: Float[Array, ""]  # time since the start of the step [s]
    contact: Int[Array, ""]
    before: Phase
    after: Phase


class Outputs(eqx.Module):
    """The outputs of one block: the states at the times to save, and the impacts."""

    saved: tuple[Bool[Array, " saves"], Phase] | None
    impacts: Impact | None


class Flight(eqx.Module):
    """A flight that may be looked at."""

    flown: Bool[Array, ""]  # or skipped
    event: Bool[Array, ""]  # whether it ended before its step
    step: Int[Array, ""]
    begin: Float[Array, ""]  # since the start of the step [s]
    duration: Float[Array, ""]  # [s]
    phase: Phase  # at its start
    mode: Mode


def collect(
    wanted: SaveSpec,
    times: Times,
    scheme: AbstractFlow,
    log: Log,
    saved: Int[Array, ""],
    flown: tuple,
    grid: TimeGrid,
    events: AbstractEvents,
) -> Outputs:
    """Picks what is wanted out of the flights of a block.

    Args:
        wanted: what to keep.
        times: to save.
        scheme: of the flights.
        log: of the block.
        saved: how many of the times to save earlier blocks have met.
        flown: of each arc the flights to the ends of steps, and the last one; with the phases
            before and after its impact, if impacts are wanted.
        grid: the steps.
        events: of the world.
    """
    steps, last, struck = flown
    saves = impacts = None
    if wanted.times:
        # One sequence: of each arc the flights to the ends of steps, then the last.
        flights = (
            last
            if steps is None
            else jax.tree.map(
                lambda a, b: jax.lax.collapse(jnp.concatenate([a, b[:, None]], axis=1), 0, 2),
                steps,
                last,
            )
        )
        saves = _states_to_save(wanted, times, scheme, saved, flights, grid, events)
    if wanted.impacts:
        before, after = struck
        time = last.begin + last.duration
        impacts = Impact(log.impacts, last.step, time, log.contact, before, after)
    return Outputs(saves, impacts)


def _states_to_save(
    wanted: SaveSpec,
    times: Times,
    scheme: AbstractFlow,
    saved: Int[Array, ""],
    flights: Flight,
    grid: TimeGrid,
    events: AbstractEvents,
):
    """Which of the times to save, from number `saved` on, fall into a block; the states."""
    n = times.step.shape[0]
    number = saved + jnp.arange(wanted.times, dtype=jnp.int32)
    clipped = jnp.minimum(number, n - 1)
    in_step, offset = times.step[clipped], times.offset[clipped]

    # The flight in which a time falls is the last that begins before it. What earlier blocks
    # did not save falls after the start of this one, whatever round-off says.
    index = jnp.arange(flights.flown.shape[0], dtype=jnp.int32)
    flown = jnp.where(flights.flown, index, -1)
    first, last = jnp.argmax(flights.flown).astype(jnp.int32), jnp.max(flown)

    def flight_of(step, offset):
        begun = (flights.begin <= offset) | (index == first)
        return jnp.max(jnp.where((flights.step == step) & begun, flown, -1))

    at = jax.vmap(flight_of)(in_step, offset)
    found = at >= 0
    at = jnp.maximum(at, 0)
    flight = jax.tree.map(lambda leaf: leaf[at], flights)
    # An event at the end of the block leaves the rest of its step to the next one.
    cut = (at == last) & flight.event & (offset >= flight.begin + flight.duration)
    valid = found & (number < n) & ~cut

    state = flight.phase
    if wanted.within:

        def partway(t, duration, phase, mode):
            return events.flow(scheme, t, duration, phase, mode).phase

        elapsed = jnp.where(valid, jnp.maximum(offset - flight.begin, 0.0), 0.0)
        begin = jax.vmap(grid.begin)(flight.step) + flight.begin
        state = jax.vmap(partway)(begin, elapsed, state, flight.mode)
    return valid, state


def compact(valid: Bool[Array, " entries"], entries, n: int):
    """The first n valid ones of a sequence of entries, and how many there are.

    Slots beyond hold an arbitrary entry.
    """
    rank = jnp.cumsum(valid, dtype=jnp.int32)
    at = jnp.searchsorted(rank, jnp.arange(1, n + 1, dtype=jnp.int32))
    at = jnp.minimum(at, valid.shape[0] - 1)
    return jax.tree.map(lambda leaf: leaf[at], entries), rank[-1]
