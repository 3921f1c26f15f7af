"""The flat loop: flight and events of one world, each iteration one unit of work.

A batched `while_loop` runs until its slowest lane has ended, so loops inside loops would
multiply waiting times. Here every iteration of the single loop evaluates the flow once and then
accepts a step, begins to locate an event, narrows it down, or accepts it; under `vmap` each world
is in its own phase of that work. One exception: events whose impulse takes a search of its own
(friction) are collected for some iterations and resolved together, which is a loop around this one.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from ..flows import AbstractFlow
from ..math import select, zeros_like
from ..math.bracket import next_trial
from ..math.once import choose_once
from .detectors import AbstractDetector
from .events import AbstractEvents, Event, Guards, Kind, Mode, Resolution
from .progress import report
from .results import Code, first_failure
from .time_grid import TimeGrid

# Number of loop iterations after which pending frictional impacts of a batch are resolved together.
ITERATIONS_OF_A_ROUND = 48
# An event that takes more iterations to locate cannot be located.
MOST_ITERATIONS = 200
# A flight whose equations have no solution is halved until it takes this part of its step; then
# they have none. The number of flights that a step can take is thereby bounded, too.
SMALLEST_PART = 2.0**-10
# Impacts accumulate if a flight takes at most this part of the longest of its step, or of this
# part of the step.
ACCUMULATION = 0.01
# So many impacts in a step end a simulation even if they accumulate and it is to go on.
MOST_IMPACTS = 2**20


# What the log has in place of the number of an event.
WHOLE = -1  # the flight ended with its step
PART = -2  # it ended before, because the equations of the flow had no solution for the whole


class Plan(NamedTuple):
    """The static part of a simulation: what is compiled into the loop."""

    scheme: AbstractFlow
    detector: AbstractDetector
    max_impacts_per_step: int
    zeno_ends: bool  # whether impacts that accumulate end the simulation
    progress: bool = False  # whether to report it


class Course(eqx.Module):
    """The state of one world between two flights, on which its future depends."""

    phase: Phase
    mode: Mode
    remaining: Float[Array, ""]  # time left in the current step [s]
    step: Int[Array, ""]  # steps completed
    work: Float[Array, ""] | None  # of loads without a potential so far [J]; None if all have one

    def time(self, grid: TimeGrid) -> Float[Array, ""]:
        """The time [s]."""
        return grid.begin(self.step) + (grid.size(self.step) - self.remaining)


class Status(eqx.Module):
    """The counters of the loop, and the result code."""

    code: Int[Array, ""]
    impacts: Int[Array, ""]  # in all
    impacts_in_step: Int[Array, ""]
    longest: Float[Array, ""]  # flight of this step that ended with an impact [s]
    evaluations: Int[Array, ""]  # of the flow

    @staticmethod
    def start(code: Int[Array, ""], like: Float[Array, ""]) -> Status:
        """The status at t0, with the code of an inadmissible start; in the dtype of `like`."""
        none = jnp.zeros((), jnp.int32)
        return Status(code, none, none, jnp.zeros_like(like), none)


class Log(eqx.Module):
    """The course of a world, cut into arcs; arrays have shape (n_arcs,).

    The derivative takes the trajectory again arc by arc. An arc is a number of flights of which at
    most the last ends before its step does: it ends with that flight or when it is full.
    """

    limit: int = eqx.field(static=True)  # of flights in an arc
    arc: Int[Array, ""]  # index of the arc being flown; n_arcs when all have been
    flights: Int[Array, " n_arcs"]  # flown in each
    duration: Float[Array, " n_arcs"]  # of the flight that ended before its step [s]
    event: Int[Array, " n_arcs"]  # `Event.number`; `WHOLE` or `PART` without one
    resolution: Resolution  # of the event, where it is searched for; leading axis n_arcs

    @staticmethod
    def empty(n_arcs: int, limit: int, events: AbstractEvents, course: Course) -> Log:
        """A log in which nothing is written; its durations have the dtype of the course."""
        none, zero = jnp.zeros(n_arcs, jnp.int32), jnp.zeros(n_arcs, course.remaining.dtype)
        like = jax.eval_shape(lambda course: _resolve(events, course), course)[0]
        resolution = jax.tree.map(lambda leaf: jnp.zeros((n_arcs, *leaf.shape), leaf.dtype), like)
        return Log(limit, none[0], none, zero, none + WHOLE, resolution)

    def full(self) -> Bool[Array, ""]:
        return self.arc >= self.flights.shape[0]

    @property
    def impacts(self) -> Bool[Array, " n_arcs"]:
        """Which arcs end with an impact."""
        return (self.event >= 0) & (self.event & 3 != Kind.RELEASE)

    @property
    def contact(self) -> Int[Array, " n_arcs"]:
        """The index of the contact of each event."""
        return self.event >> 2

    def write(self, case: _Case, duration: Float[Array, ""], event: Event) -> Log:
        """The log after an iteration. Each slot is written by comparison: a scatter would leave
        the loop's fused kernels."""
        here = (jnp.arange(self.flights.shape[0], dtype=jnp.int32) == self.arc) & case.accept
        flights = self.flights + here.astype(jnp.int32)
        ends = case.event | case.part
        before_step = here & ends
        ended = jnp.any(here & (ends | (flights == self.limit)))
        number = jnp.where(case.event, event.number, jnp.int32(PART))
        return Log(
            self.limit,
            self.arc + ended.astype(jnp.int32),
            flights,
            jnp.where(before_step, duration, self.duration),
            jnp.where(before_step, number, self.event),
            self.resolution,
        )

    def write_resolution(self, resolution: Resolution, happens: Bool[Array, ""]) -> Log:
        """Writes the resolution of the event that ended the last arc, if one did."""
        here = (jnp.arange(self.flights.shape[0], dtype=jnp.int32) == self.arc - 1) & happens

        def written(old, new):
            chosen = here.reshape(-1, *[1] * new.ndim)
            return jnp.where(chosen, new[None], old)

        return dataclasses.replace(
            self, resolution=jax.tree.map(written, self.resolution, resolution)
        )


class _Search(eqx.Module):
    """The state of the search within a flight."""

    trial: Float[Array, ""]  # duration to try next [s]
    locating: Bool[Array, ""]  # an impact or a release is bracketed between:
    lower: Float[Array, ""]  # a duration before it
    upper: Float[Array, ""]  # one after
    release: Bool[Array, ""]  # whether it is a release that is before the upper one
    iterations: Int[Array, ""]  # that locate an event, or look for a shorter flight


class _Carry(eqx.Module):
    """The carry of the loop."""

    course: Course
    status: Status
    search: _Search
    inspected: object  # the state of the detector
    waiting: Event | None  # the event whose impulse is still to be found; None if none ever is
    log: Log | None


def start_course(grid: TimeGrid, phase: Phase, events: AbstractEvents) -> Course:
    """The course at t0."""
    none = jnp.zeros((), jnp.int32)
    work = None if events.system.dynamics.conservative else jnp.zeros_like(grid.t0)
    return Course(phase, events.initial_mode(grid.t0, phase), grid.size(none), none, work)


def advance(
    plan: Plan,
    grid: TimeGrid,
    events: AbstractEvents,
    course: Course,
    status: Status,
    log: Log | None = None,
) -> tuple[Course, Status, Log | None]:
    """Simulates a world to t1, or until its log is full.

    A flight ends with an event or with its step (Tran and Leok, Algorithm 2, corrected: the
    time of an impact counts in units of h, the state before the first impact of a step is
    kept, and an accepted impact is one that was located).

    Args:
        plan: the static part.
        grid: the steps.
        events: of the world.
        course, status: where to start, between two flights.
        log: an empty one, to be written.

    Returns:
        The course and the status at the end, and the log.
    """
    like = course.remaining
    zero, no = jnp.zeros_like(like), jnp.zeros((), bool)
    idle = _Search(course.remaining, no, zero, zero, no, jnp.zeros((), jnp.int32))

    def unfinished(carry: _Carry) -> Bool[Array, ""]:
        going = grid.unfinished(carry.course.step) & (carry.status.code == Code.successful)
        return going if carry.log is None else going & ~carry.log.full()

    def iteration(carry: _Carry) -> _Carry:
        course, status, search = carry.course, carry.status, carry.search
        t, trial, mode = course.time(grid), search.trial, course.mode
        end, error, work = events.flow(plan.scheme, t, trial, course.phase, mode)
        t = t + trial
        contacts = events.contacts(t, end)
        guards = events.guards(t, end, contacts, mode, grid.dt)
        if events.deferred:
            end_mode, event = mode, guards.event
            after = end
        else:
            after, end_mode, event = events.reset(t, end, contacts, guards.event, None, mode)
        inspection = plan.detector.inspect(
            carry.inspected, t, course.phase, end, trial, mode, events
        )
        resolution = _resolution(course)
        case, bracket, failure = _classify(
            grid, course, status, search, guards, event, error, inspection.doubtful
        )

        accept = case.accept
        phase = select(accept, select(case.event, after, end), course.phase)
        mode = select(case.event, end_mode, mode)
        if work is not None:
            assert course.work is not None
            work = course.work + jnp.where(accept, work, 0.0)
        step, remaining, status = _tick(plan, grid, course, status, trial, case, event, failure)
        course = Course(phase, mode, remaining, step, work)
        search = _aim(search, case, bracket, guards, inspection.elsewhere, remaining, resolution)
        waiting = None
        if events.deferred:
            waiting = event._replace(contact=event.contact & case.event)
        anew = accept | case.halve
        inspected = select(anew, plan.detector.start(events, course.phase), inspection.state)
        log = carry.log
        if log is not None:
            log = log.write(case, trial, event)
        if plan.progress:
            report(course.step, grid)
        return _Carry(course, status, search, inspected, waiting, log)

    waiting = _no_event(events, course) if events.deferred else None
    carry = _Carry(course, status, idle, plan.detector.start(events, course.phase), waiting, log)
    if events.deferred:
        carry = _in_rounds(unfinished, iteration, carry, grid, events)
    else:
        carry = jax.lax.while_loop(unfinished, iteration, carry)
    return carry.course, carry.status, carry.log


def _in_rounds(
    unfinished, iteration, carry: _Carry, grid: TimeGrid, events: AbstractEvents
) -> _Carry:
    """The loop for events whose impulses take a search.

    A world with an event waits for others of its batch, so that many are resolved together; by
    itself it waits for none.
    """

    def flying(count_and_carry):
        count, carry = count_and_carry
        on_the_way = unfinished(carry) & ~jnp.any(carry.waiting.contact)
        return on_the_way & (count < ITERATIONS_OF_A_ROUND)

    def fly_on(count_and_carry):
        count, carry = count_and_carry
        return count + 1, iteration(carry)

    def round_of_iterations(carry: _Carry) -> _Carry:
        _, carry = jax.lax.while_loop(flying, fly_on, (jnp.zeros((), jnp.int32), carry))
        course, status, log, event = carry.course, carry.status, carry.log, carry.waiting
        assert event is not None
        t = course.time(grid)
        contacts = events.contacts(t, course.phase)
        resolution, found = events.resolve(course.phase, contacts, event)
        after = events.reset(t, course.phase, contacts, event, resolution, course.mode)
        if log is not None:
            log = log.write_resolution(resolution, jnp.any(event.contact))
        going = status.code == Code.successful
        code = jnp.where(going & ~found, jnp.int32(Code.impact_not_ended), status.code)
        return dataclasses.replace(
            carry,
            course=dataclasses.replace(course, phase=after.phase, mode=after.mode),
            status=dataclasses.replace(status, code=code),
            waiting=zeros_like(event),
            log=log,
        )

    return jax.lax.while_loop(unfinished, round_of_iterations, carry)


def _no_event(events: AbstractEvents, course: Course) -> Event:
    contacts = jax.eval_shape(events.contacts, course.remaining, course.phase)
    return Event(jnp.zeros((), jnp.int32), jnp.zeros(contacts.gap.shape, bool))


def _resolve(events: AbstractEvents, course: Course):
    if not events.deferred:
        return None, None
    contacts = events.contacts(jnp.zeros_like(course.remaining), course.phase)  # for shapes alone
    return events.resolve(course.phase, contacts, _no_event(events, course))


class _Case(NamedTuple):
    """The cases of an iteration, of which one holds unless it failed or waits."""

    full_step: Bool[Array, ""]  # (a) accept a full step
    begin: Bool[Array, ""]  # (b) begin to locate an event
    refine: Bool[Array, ""]  # (c) narrow its bracket
    event: Bool[Array, ""]  # (d) accept the event
    halve: Bool[Array, ""]  # the equations of the flow have no solution: try half of the step
    part: Bool[Array, ""]  # accept such a part

    @property
    def accept(self) -> Bool[Array, ""]:
        """Whether the flight is over."""
        return self.full_step | self.event | self.part


class _Bracket(NamedTuple):
    """The bracket of the duration until an event, after a trial."""

    lower: Float[Array, ""]  # before the event
    upper: Float[Array, ""]  # after it
    release: Bool[Array, ""]  # whether it is a release that is before the upper one
    narrow: Bool[Array, ""]  # to round-off


def _resolution(course: Course) -> Float[Array, ""]:
    """To which durations are located [s]."""
    return 4 * jnp.finfo(course.remaining.dtype).eps * course.remaining


def _classify(
    grid: TimeGrid,
    course: Course,
    status: Status,
    search: _Search,
    guards: Guards,
    event: Event,
    error: Float[Array, ""],
    doubtful: Bool[Array, ""],
) -> tuple[_Case, _Bracket, Int[Array, ""]]:
    """Classifies a trial: its case, or the code of a failure."""
    trial, locating, resolution = search.trial, search.locating, _resolution(course)
    crossed = guards.penetrating | guards.releasing
    unsolved = error > 1
    halve = ~locating & unsolved & (trial > SMALLEST_PART * grid.size(course.step))
    free = ~locating & ~halve
    # A trial is held back while a contact may have opened again in it.
    passable = free & ~crossed & ~doubtful
    lower = jnp.where(locating & ~crossed, trial, search.lower)
    upper = jnp.where(crossed, trial, search.upper)
    release = jnp.where(crossed, ~guards.penetrating, search.release)
    narrow = upper - lower <= resolution
    at_surface = ~crossed & (guards.gap <= 1)
    struck = guards.closing & (at_surface | (narrow & ~release))
    located = struck | (narrow & (trial >= upper))

    first_in_step = (status.impacts_in_step == 0) & (trial > resolution)
    grazing = located & first_in_step & (guards.steepness < 1) & (event.kind != Kind.LANDING)
    failure = first_failure(
        (~halve & guards.search_failed, Code.closest_point_not_found),
        (~halve & ~guards.finite | jnp.isnan(error), Code.non_finite),
        (~halve & unsolved, Code.nonlinear_solve_failed),
        (locating & grazing, Code.grazing),
        (search.iterations > MOST_ITERATIONS, Code.root_not_found),
    )
    good = failure == Code.successful
    case = choose_once(
        good & passable & (trial >= course.remaining),
        good & free & crossed,
        good & locating & ~located,
        good & locating & located,
        good & halve,
        good & passable & (trial < course.remaining),
        dtype=trial.dtype,
    )
    return _Case(*case), _Bracket(lower, upper, release, narrow), failure


def _aim(
    search: _Search,
    case: _Case,
    bracket: _Bracket,
    guards: Guards,
    elsewhere: Float[Array, ""],
    size: Float[Array, ""],
    resolution: Float[Array, ""],
) -> _Search:
    """The next trial: after an accepted flight the rest of the step, or after a part of it at most
    twice as much again; while locating an event, Newton's guess kept within the bracket;
    `elsewhere` where the detector doubts."""
    trial = search.trial
    lower = jnp.where(case.begin, jnp.zeros_like(trial), bracket.lower)
    upper = jnp.where(case.begin, trial, bracket.upper)
    # The force of a contact comes without its rate: releases are found by bisection.
    guess = jnp.where(bracket.release, jnp.inf, trial + guards.time)
    refined = next_trial(guess, lower, upper, resolution, search.iterations)
    refined = jnp.where(bracket.narrow & search.locating, upper, refined)
    refined = jnp.where(~search.locating & ~case.begin, elsewhere, refined)
    refined = jnp.where(case.halve, 0.5 * trial, refined)
    accept = case.accept
    searching = (case.begin | case.refine | case.halve).astype(jnp.int32)
    following = jnp.where(case.part, jnp.minimum(2 * trial, size), size)
    return _Search(
        trial=jnp.where(accept, following, refined),
        locating=case.begin | case.refine,
        lower=lower,
        upper=upper,
        release=bracket.release,
        iterations=jnp.where(accept, 0, search.iterations + searching),
    )


def _tick(
    plan: Plan,
    grid: TimeGrid,
    course: Course,
    status: Status,
    trial: Float[Array, ""],
    case: _Case,
    event: Event,
    failure: Int[Array, ""],
) -> tuple[Int[Array, ""], Float[Array, ""], Status]:
    """The steps made, the time left in the current one and the counters after an iteration."""
    full_step, impact = case.full_step, case.event & (event.kind != Kind.RELEASE)
    step = course.step + full_step.astype(jnp.int32)
    struck = impact.astype(jnp.int32)
    remaining = jnp.where(
        full_step,
        grid.size(step),
        jnp.where(case.event | case.part, course.remaining - trial, course.remaining),
    )
    impacts_in_step = jnp.where(full_step, 0, status.impacts_in_step + struck)
    exhausted = impact & (impacts_in_step > plan.max_impacts_per_step)
    # A body that lies on an obstacle at the start has no long flight at all.
    longest = jnp.maximum(status.longest, ACCUMULATION * grid.size(course.step))
    accumulating = trial <= ACCUMULATION * longest
    too_many = jnp.where(accumulating, jnp.int32(Code.zeno), jnp.int32(Code.max_impacts_reached))
    if not plan.zeno_ends:
        exhausted &= ~accumulating | (impacts_in_step > MOST_IMPACTS)
    longest = jnp.where(impact, jnp.maximum(status.longest, trial), status.longest)
    status = Status(
        code=jnp.where(exhausted, too_many, failure),
        impacts=status.impacts + struck,
        impacts_in_step=impacts_in_step,
        longest=jnp.where(full_step, jnp.zeros_like(trial), longest),
        evaluations=status.evaluations + 1,
    )
    return step, remaining, status
