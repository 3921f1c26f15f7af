"""What is kept of a trajectory: the states at some times, and the impacts.

The replay flies a trajectory in blocks; here the flights of one block are searched for what is
wanted. How much that is depends on the trajectory: each block has room for as much as it can
meet, and `compact` takes what was met out of all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from ..flows import AbstractFlow
from .advance import Log
from .sustained import Held, fly
from .system import System


class Wanted(NamedTuple):
    """What to keep. Static."""

    steps: tuple[int, ...]  # in which the times to save fall,
    offsets: tuple[float, ...]  # and how far into them [s]
    impacts: bool

    @property
    def anything(self) -> bool:
        return bool(self.steps) or self.impacts

    def most_times(self, n_steps: int) -> int:
        """The largest number of times to save that so many steps can meet."""
        steps = np.asarray(self.steps)
        first = np.searchsorted(steps, steps)
        last = np.searchsorted(steps, steps + n_steps, side="right")
        return int((last - first).max(initial=0))


class Impact(eqx.Module):
    """Impacts along a trajectory; in a block, arrays have a leading axis over its arcs."""

    valid: Bool[Array, ""]
    step: Int[Array, ""]
    offset: Float[Array, ""]  # time since the start of the step [s]
    contact: Int[Array, ""]
    before: Phase
    after: Phase


class Outputs(eqx.Module):
    """What one block collects: the states at the times to save, and the impacts."""

    saved: tuple[Bool[Array, " saves"], Phase] | None
    impacts: Impact | None


class Flight(eqx.Module):
    """A flight that may be looked at."""

    flown: Bool[Array, ""]  # or skipped
    event: Bool[Array, ""]  # whether it ended with one
    step: Int[Array, ""]
    begin: Float[Array, ""]  # since the start of the step [s]
    duration: Float[Array, ""]  # [s]
    phase: Phase  # at its start
    held: Held | None


def collect(wanted: Wanted, flow: AbstractFlow, log: Log, saved, flown, system: System) -> Outputs:
    """Picks what is wanted out of the flights of a block.

    Args:
        wanted: what to keep.
        flow: of the flights.
        log: of the block.
        saved: how many of the times to save earlier blocks have met.
        flown: of each arc the flights to the ends of steps, and the last one; with the phases
            before and after its impact, if impacts are wanted.
        system: the world.
    """
    steps, last, struck = flown
    saves = impacts = None
    if wanted.steps:
        # One sequence: of each arc the flights to the ends of steps, then the last.
        flights = jax.tree.map(
            lambda a, b: jnp.concatenate([a, b[:, None]], axis=1).reshape(-1, *b.shape[1:]),
            steps,
            last,
        )
        most = wanted.most_times(log.flights.shape[0] * log.limit)
        saves = _states_to_save(wanted, most, flow, saved, flights, system)
    if wanted.impacts and system.contacts is not None:
        before, after = struck
        time = last.begin + last.duration
        valid, contact = log.impacts(system.contacts.number)
        impacts = Impact(valid, last.step, time, contact, before, after)
    return Outputs(saves, impacts)


def _states_to_save(
    wanted: Wanted, most: int, flow: AbstractFlow, saved, flights: Flight, system: System
):
    """Which of the times to save, at most so many from number `saved` on, fall into a block;
    the states."""
    n = len(wanted.steps)
    number = saved + jnp.arange(most, dtype=jnp.int32)
    clipped = jnp.minimum(number, n - 1)
    in_step = jnp.asarray(wanted.steps, jnp.int32)[clipped]
    offset = jnp.asarray(wanted.offsets, flights.begin.dtype)[clipped]

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
    if any(wanted.offsets):

        def partway(duration, phase, held):
            return fly(flow, duration, phase, held, system)[0]

        elapsed = jnp.where(valid, jnp.maximum(offset - flight.begin, 0.0), 0.0)
        state = jax.vmap(partway)(elapsed, state, flight.held)
    return valid, state


def compact(valid: Bool[Array, " entries"], entries, n: int):
    """The first n valid ones of a sequence of entries, and how many there are.

    Slots beyond hold an arbitrary entry.
    """
    rank = jnp.cumsum(valid, dtype=jnp.int32)
    at = jnp.searchsorted(rank, jnp.arange(1, n + 1, dtype=jnp.int32))
    at = jnp.minimum(at, valid.shape[0] - 1)
    return jax.tree.map(lambda leaf: leaf[at], entries), rank[-1]
