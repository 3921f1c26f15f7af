"""The log of a trajectory, from which it is flown again."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from .course import Course
from .events import AbstractEvents, Event, Kind, Mode, Resolution
from .trial import Case

# What the log has in place of the number of an event.
WHOLE = -1  # the flight ended with its step
PART = -2  # it ended before, because the equations of the flow had no solution for the whole


class Remembered(NamedTuple):
    """A flight and what follows it, where that is remembered (see `AbstractEvents`).

    Where impulses are known, nothing but round-off says how bodies that they hold go on: flown
    again and again from where they lead, a pendulum that a servo holds upright would fall.
    """

    phase: Phase  # at the end of the flight, before the event that it may end with
    work: Float[Array, "..."] | None  # of loads without a potential in it [J]
    mode: Mode  # after the event


class Log(eqx.Module):
    """The course of a world, cut into arcs; arrays have shape (n_arcs,).

    The derivative takes the trajectory again arc by arc. An arc is a number of flights of which at
    most the last ends before its step does: it ends with that flight or when it is full.
    """

    limit: int = eqx.field(static=True)  # of flights in an arc
    arc: Int[Array, ""]  # index of the arc being flown; n_arcs when all have been
    flights: Int[Array, " n_arcs"]  # flown in each; of the smallest type that holds the limit
    duration: Float[Array, " n_arcs"]  # of the flight that ended before its step [s]
    event: Int[Array, " n_arcs"]  # `Event.number`; `WHOLE` or `PART` without one; likewise
    resolution: Resolution  # of the event, where it is searched for; leading axis n_arcs
    remembered: Remembered | None  # of the last flight of each arc; leading axis n_arcs

    @staticmethod
    def empty(n_arcs: int, limit: int, events: AbstractEvents, course: Course) -> Log:
        """A log in which nothing is written; its durations have the dtype of the course."""
        zero = jnp.zeros(n_arcs, course.remaining.dtype)
        contacts = events.system.contacts
        n_contacts = 1 if contacts is None else contacts.number
        # Reverse mode keeps the log of the whole trajectory.
        flights = jnp.zeros(n_arcs, _integer(limit))
        number = jnp.full(n_arcs, WHOLE, _integer(4 * n_contacts))
        like = jax.eval_shape(lambda course: resolve_nothing(events, course), course)[0]
        last = Remembered(course.phase, course.work, course.mode) if events.remembers else None
        resolution = jax.tree.map(lambda leaf: jnp.zeros((n_arcs, *leaf.shape), leaf.dtype), like)
        # Arcs that are never flown have a phase that may be computed with.
        last = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n_arcs, *leaf.shape)), last)
        return Log(limit, jnp.zeros((), jnp.int32), flights, zero, number, resolution, last)

    def full(self) -> Bool[Array, ""]:
        return self.arc >= self.flights.shape[0]

    def write(
        self, case: Case, duration: Float[Array, ""], event: Event, flight: Remembered
    ) -> Log:
        """The log after an iteration. Each slot is written by comparison: a scatter would leave
        the loop's fused kernels."""
        here = (jnp.arange(self.flights.shape[0], dtype=jnp.int32) == self.arc) & case.accept
        flights = self.flights + here.astype(self.flights.dtype)
        ends = case.event | case.part
        before_step = here & ends
        ended = jnp.any(here & (ends | (flights == self.limit)))
        number = jnp.where(case.event, event.number, jnp.int32(PART))
        return Log(
            self.limit,
            self.arc + ended.astype(jnp.int32),
            flights,
            jnp.where(before_step, duration, self.duration),
            jnp.where(before_step, number.astype(self.event.dtype), self.event),
            self.resolution,
            None if self.remembered is None else _written(here, self.remembered, flight),
        )

    def write_resolution(self, resolution: Resolution, mode: Mode, happens: Bool[Array, ""]) -> Log:
        """Writes the resolution of the event that ended the last arc, if one did, and the mode
        after it."""
        here = (jnp.arange(self.flights.shape[0], dtype=jnp.int32) == self.arc - 1) & happens
        remembered = self.remembered
        if remembered is not None:
            remembered = remembered._replace(mode=_written(here, remembered.mode, mode))
        resolution = _written(here, self.resolution, resolution)
        return dataclasses.replace(self, resolution=resolution, remembered=remembered)


def is_impact(number: Int[Array, "..."]) -> Bool[Array, "..."]:
    """Whether what the log has as the number of an event is an impact."""
    return (number >= 0) & (number & 3 != Kind.RELEASE)


def _integer(most: int) -> np.dtype:
    """The smallest type of integers that holds so much."""
    return next(np.dtype(t) for t in ("int8", "int16", "int32") if most <= np.iinfo(t).max)


def _written(here: Bool[Array, " n_arcs"], old, new):
    def written(old, new):
        return jnp.where(here.reshape(-1, *[1] * new.ndim), new[None], old)

    return jax.tree.map(written, old, new)


def no_event(events: AbstractEvents, course: Course) -> Event:
    """An event at no contact, in the shape of all."""
    none, number = jnp.zeros((), jnp.int32), None
    if events.near:
        events, number = events.alone(none), none
    contacts = jax.eval_shape(events.contacts, course.remaining, course.phase)
    return Event(none, jnp.zeros(contacts.gap.shape, bool), number)


def resolve_nothing(events: AbstractEvents, course: Course):
    """What `resolve` gives, of no event: its shapes."""
    if not events.deferred:
        return None, None
    event = no_event(events, course)
    events = events.at(event)
    contacts = events.contacts(jnp.zeros_like(course.remaining), course.phase)  # for shapes alone
    return events.resolve(course.phase, contacts, event)
