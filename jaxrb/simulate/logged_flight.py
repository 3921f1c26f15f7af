"""One flight of a trajectory that was found, and the event that it may end with.

It is taken without any search. The duration of a flight that ends with an event is known as a
number; its derivatives are those of the root that was located.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from ..contact import AbstractContacts
from ..flows import AbstractFlow
from ..math.autodiff import (
    Differential,
    at_values,
    is_moving,
    keep_rule,
    linear_solve,
    no_tangents,
    sparse_jvp,
)
from ..math.materialize import compute_once, opaque_one
from ..math.rarely import if_any, where_any
from .course import Course
from .events import AbstractEvents, Event, Mode, Resolution
from .log import WHOLE, Remembered
from .recorder import Times
from .time_grid import TimeGrid


class Scene(eqx.Module):
    """The numbers on which a trajectory depends, besides its start."""

    grid: TimeGrid
    events: AbstractEvents
    times: Times  # to save


class Logged(NamedTuple):
    """The logged event that ends an arc, if any."""

    number: Int[Array, ""]
    resolution: Resolution
    remembered: Remembered | None

    @property
    def happens(self) -> Bool[Array, ""]:
        """Whether there is an event."""
        return self.number >= 0

    @property
    def mode(self) -> Mode:
        """At the end, where that is remembered."""
        return None if self.remembered is None else self.remembered.mode

    @property
    def within_step(self) -> Bool[Array, ""]:
        """Whether the flight ended before its step, with an event or without."""
        return self.number != WHOLE

    def at(self, events: AbstractEvents) -> AbstractEvents:
        """The events at the contact of this one, where it is found alone."""
        return events.alone(jnp.maximum(self.number, 0) >> 2) if events.near else events

    def event(self, events: AbstractEvents, contacts: AbstractContacts | None) -> Event:
        """The event, at one of the contacts of these events."""
        like = jnp.zeros(1) if contacts is None else contacts.gap
        return Event.of(self.number, like, events.system.numbers)


class End(NamedTuple):
    """The states at the end of a flight, before and after the event that it may end with."""

    before: Phase
    after: Phase
    mode: Mode  # from then on
    duration: Float[Array, ""]  # [s]
    work: Float[Array, ""] | None  # of the flight [J]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def fly_to_event(
    scheme: AbstractFlow,
    planned: Float[Array, ""],
    late: Bool[Array, ""],
    logged: Logged,
    scene: Scene,
    course: Course,
) -> End:
    """The end of a flight, before and after the event it may end with.

    The duration of a flight that ends with an event is the root that was located of the event's
    function, such as a gap: its value is the planned one, its derivative that of the root.

    Args:
        planned: the duration [s].
        late: whether the flight may begin within a step, after an event.
        logged: the event at its end.
        scene, course: the world and where it is.
    """
    if logged.remembered is None:
        end = _fly(scheme, logged, planned, scene, course)
    else:
        end = _Arrival.found(logged.remembered, None)
    return _reset(logged, end, planned, scene, course)


@partial(fly_to_event.defjvp, symbolic_zeros=True)
def _(scheme, primals, tangents):
    """The implicit function theorem: d(duration) = -dPhi / (dPhi/d duration) at fixed duration.

    It is evaluated at the duration that the function itself returns, so that higher
    derivatives follow from this one.
    """
    planned, late, logged, scene, course = primals
    dplanned, _, _, dscene, dcourse = tangents
    located = keep_rule(partial(_located, scheme))(*primals)
    duration = located.duration
    if isinstance(dplanned, SymbolicZero):
        dplanned = jnp.zeros_like(planned)
    fly = partial(_fly, scheme, logged)

    def root(end, duration, scene, course):
        t = course.time(scene.grid) + duration
        events = logged.at(scene.events)
        event = logged.event(events, end.contacts)
        return events.root(t, end.phase, end.contacts, event, end.mode)

    still, given, dgiven = jnp.zeros_like(duration), (scene, course), (dscene, dcourse)
    # A whole step has its own duration, whatever else changes, if the grid of times does not.
    matters = logged.happens | late | is_moving(dscene.grid)
    flight = Differential(fly, (duration, *given), (still, *dgiven))
    # The differentiated flight is the longest part of a derivative where contacts last: then it
    # stands in the program once, in a loop over what is given and the duration, and its end is as
    # it was found. Of others two copies are faster.
    if located.end is not None:
        t, events = course.time(scene.grid) + duration, logged.at(scene.events)
        end, begun = _Arrival.found(located.end, events.contacts(t, located.end.phase)), None
    else:
        end, begun = flight.value_and_push([None, *flight.directions[1:]])
    dend = flight.tree(flight.no_change())
    passing = Differential(root, (end, duration, *given), (dend, still, *dgiven))
    one = opaque_one(course.step, duration.dtype)
    dduration, dend = _located_end(flight, passing, begun, dplanned, logged.happens, matters, one)
    dgiven = (dend, dduration, *dgiven)
    return sparse_jvp(partial(_reset, logged), (end, duration, *given), dgiven)


def _located_end(
    flight: Differential,
    passing: Differential,
    begun: list[Array] | None,
    dplanned: Float[Array, ""],
    happens: Bool[Array, ""],
    matters: Bool[Array, ""],
    one: Float[Array, ""],
) -> tuple[Float[Array, ""], Any]:
    """The changes of the duration of a flight and of its end.

    The end changes as the flight has it, along the duration too, and the function of the event
    stays zero; or the duration changes as planned.

    Args:
        flight: of the end by the duration and what is given.
        passing: of the function of the event by the end, the duration and what is given.
        begun: the change of the end along what is given, or None if it is to be found in a loop.
        dplanned: the change of the duration where there is no event [s].
        happens: whether there is one.
        matters: whether the duration may change.
        one: see `opaque_one`.
    """
    still, *dgiven = flight.directions
    unit, nothing = jnp.ones_like(still), [None] * len(dgiven)

    def equations(changes):
        dgiven, dduration, dend = changes
        moved = flight.push([dduration, *dgiven])
        (passed,) = passing.push([*dend, dduration, *dgiven])
        missed = [d - m for d, m in zip(dend, moved, strict=True)]
        return dgiven, jnp.where(happens, passed, dduration), missed

    def solve(_, right):
        dgiven, dduration, dend = right
        if begun is None:
            given, along = [None, *dgiven], [unit, *nothing]
            changes, motion = _in_a_loop(flight.push, given, along, matters)
            dend = [d + change for d, change in zip(dend, changes, strict=True)]
        else:
            motion = where_any(matters, flight.push, [unit, *nothing])
        (passed,) = passing.push([*dend, None, *dgiven])
        (rate,) = passing.push([*motion, unit, *nothing])
        rate = jnp.where(happens & (rate != 0), rate, unit)
        dduration = compute_once((dduration - jnp.where(happens, passed, 0.0)) / rate, one)
        return dgiven, dduration, [d + m * dduration for d, m in zip(dend, motion, strict=True)]

    def transposed(_, right):
        dgiven, dduration, dend = right
        pulled, n = passing.pull([jnp.where(happens, unit, 0.0)]), len(dend)
        by_end, by_duration, by_given = pulled[:n], pulled[n], pulled[n + 1 :]
        begun, through = _in_a_loop(flight.pull, dend, by_end, happens)
        rate = by_duration + through[0]
        rate = jnp.where(happens & (rate != 0), rate, unit)
        share = (dduration + begun[0]) / rate
        dend = [d - by * share for d, by in zip(dend, by_end, strict=True)]
        each = zip(dgiven, by_given, begun[1:], through[1:], strict=True)
        return [d + first - (by + then) * share for d, by, first, then in each], share, dend

    missed = jnp.where(happens, 0.0, dplanned)
    if begun is None:  # JAX could not transpose the loop: the change by the duration is no tangent
        right = (dgiven, missed, flight.no_change())
        _, dduration, dend = linear_solve(equations, right, solve, transposed)
    else:
        _, dduration, dend = solve(None, (dgiven, missed, compute_once(begun, one)))
    return dduration, flight.tree(dend)


def _in_a_loop(linear: Callable, first: list, second: list, needed: Bool[Array, ""]) -> tuple:
    """What a linear function makes of two arguments; zeros of the second where it is not needed."""

    def of(_, entry):
        needed, *argument = entry
        return None, where_any(needed, linear, argument)

    both = []
    for a, b in zip(first, second, strict=True):
        like = jnp.zeros_like(b if a is None else a)
        both.append(jnp.stack([like if each is None else each for each in (a, b)]))
    _, found = jax.lax.scan(of, None, (jnp.stack([jnp.ones_like(needed), needed]), *both))
    return [leaf[0] for leaf in found], [leaf[1] for leaf in found]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _located(
    scheme: AbstractFlow,
    planned: Float[Array, ""],
    late: Bool[Array, ""],
    logged: Logged,
    scene: Scene,
    course: Course,
) -> _Located:
    """The duration that `fly_to_event` returns and the end that is remembered, for its rule."""
    return _Located(planned, logged.remembered)


@partial(_located.defjvp, symbolic_zeros=True)
def _(scheme, primals, tangents):
    _, _, logged, *_ = primals
    end, dend = sparse_jvp(partial(fly_to_event, scheme), primals, tangents)
    last = logged.remembered
    if last is None:
        return _Located(end.duration, None), _Located(dend.duration, None)
    dmode = no_tangents(last.mode)
    changed = last._replace(phase=dend.before, work=dend.work, mode=dmode)
    return _Located(end.duration, last), _Located(dend.duration, changed)


class _Located(NamedTuple):
    duration: Float[Array, ""]
    end: Remembered | None


class _Arrival(NamedTuple):
    """The end of a flight, before anything happens there."""

    phase: Phase
    contacts: AbstractContacts | None  # None where none can be, or they have not been found again
    work: Float[Array, ""] | None
    mode: Mode

    @staticmethod
    def found(last: Remembered, contacts: AbstractContacts | None) -> _Arrival:
        """As it was found."""
        return _Arrival(last.phase, contacts, last.work, last.mode)


@jax.jit  # it is differentiated in two ways, and so is what happens after it: traced once for both
def _fly(
    scheme: AbstractFlow, logged: Logged, duration: Float[Array, ""], scene: Scene, course: Course
) -> _Arrival:
    events = logged.at(scene.events)
    t = course.time(scene.grid)
    end = events.flow(scheme, t, duration, course.phase, course.mode, logged.mode)
    contacts, phase = events.contacts_after(end, t + duration), end.phase
    if logged.remembered is not None:
        phase = at_values(logged.remembered.phase, phase)
    return _Arrival(phase, contacts, end.work, end.mode)


@jax.jit
def _reset(
    logged: Logged, end: _Arrival, duration: Float[Array, ""], scene: Scene, course: Course
) -> End:
    """The world after the event that a flight may end with."""
    # What reverse mode keeps of it would pass through the branches, which would copy it.
    happened = jax.checkpoint(_happened, prevent_cse=False)
    arguments = (logged, end, duration, scene, course)
    phase, mode = if_any(logged.happens, happened, _nothing_happened, *arguments)
    return End(end.phase, phase, mode, duration, end.work)


def _happened(
    logged: Logged, end: _Arrival, duration: Float[Array, ""], scene: Scene, course: Course
) -> tuple[Phase, Mode]:
    t = course.time(scene.grid) + duration
    events, contacts = logged.at(scene.events), end.contacts
    if contacts is None:
        contacts = events.contacts(t, end.phase)
    event = logged.event(events, contacts)
    after = events.reset(t, end.phase, contacts, event, logged.resolution, end.mode, logged.mode)
    return after.phase, after.mode


def _nothing_happened(
    logged: Logged, end: _Arrival, duration: Float[Array, ""], scene: Scene, course: Course
) -> tuple[Phase, Mode]:
    return end.phase, end.mode
