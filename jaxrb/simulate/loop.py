"""The flat loop: flight and events of one world, each iteration one unit of work.

A batched `while_loop` runs until its slowest lane has ended, so loops inside loops would
multiply waiting times. Here every iteration of the single loop evaluates the flow once and then
accepts a step, begins to locate an event, narrows it down, or accepts it; under `vmap` each world
is in its own phase of that work. One exception: events whose impulse takes a search of its own
(friction) are collected for some iterations and resolved together, which is a loop around this one.
"""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..contact import AbstractContacts, NearContacts
from ..math import tree_where, zeros_like
from .course import Course, Status
from .detectors import Trial
from .events import AbstractEvents, Event, Reset
from .impact_events import AbstractImpacts
from .log import Log, Remembered, no_event
from .progress import report
from .recorder import Times
from .results import Code
from .time_grid import TimeGrid
from .trial import Plan, Search, aim, classify, first_trial, tick, time_resolution


class _Carry(eqx.Module):
    """The carry of the loop."""

    course: Course
    status: Status
    search: Search
    contacts: AbstractContacts | None  # where the next flight begins; None if it does not ask
    inspected: object  # the state of the detector
    waiting: Event | None  # the event whose impulse is still to be found; None if none ever is
    log: Log | None
    near: NearContacts | None  # the contacts that are near; None where all are looked at
    stopped: Bool[Array, ""] | None  # before a flight into which a time falls; None without one


def advance(
    plan: Plan,
    grid: TimeGrid,
    events: AbstractEvents,
    course: Course,
    status: Status,
    log: Log | None = None,
    until: Times | None = None,
) -> tuple[Course, Status, Log | None, Bool[Array, ""] | None]:
    """Simulates a world to t1, or until its log is full or a time is met.

    A flight ends with an event or with its step (Tran and Leok, Algorithm 2, corrected: the
    time of an impact counts in units of h, the state before the first impact of a step is
    kept, and an accepted impact is one that was located).

    Args:
        plan: the static part.
        grid: the steps.
        events: of the world.
        course, status: where to start, between two flights.
        log: an empty one, to be written.
        until: one time, before whose flight to stop: the last flight that begins before it.

    Returns:
        The course and the status at the end, the log, and whether it stopped before a flight
        into which the time falls.
    """
    like = course.remaining
    zero, no = jnp.zeros_like(like), jnp.zeros((), bool)
    near = contacts = None
    if events.near:
        assert events.system.contacts is not None
        near = NearContacts.none(events.system.contacts, course.phase)
    else:
        contacts = events.contacts(course.time(grid), course.phase)
    watched = events if near is None else events.among(near)
    inspected = _start(plan, watched, course, contacts)
    trial = first_trial(plan, status, inspected, course.remaining)
    idle = Search(trial, no, zero, zero, no, jnp.zeros((), jnp.int32))

    def unfinished(carry: _Carry) -> Bool[Array, ""]:
        going = grid.unfinished(carry.course.step) & (carry.status.code == Code.successful)
        if carry.stopped is not None:
            going &= ~carry.stopped
        return going if carry.log is None else going & ~carry.log.full()

    def iteration(flies: Bool[Array, ""], carry: _Carry) -> _Carry:
        # Of a batch, worlds that wait or have ended are flown with the others: for no time, as
        # contacts that last then cost nothing.
        trial = jnp.where(flies, carry.search.trial, 0.0)
        still = dataclasses.replace(carry.search, trial=trial)
        following = _iteration(plan, grid, events, dataclasses.replace(carry, search=still))
        if until is None:
            return following
        assert carry.stopped is not None
        met = flies & _begins_after(following.course, until, grid)
        return dataclasses.replace(tree_where(met, carry, following), stopped=carry.stopped | met)

    waiting = no_event(events, course) if events.deferred else None
    kept = contacts if events.keeps_contacts else None
    stopped = None if until is None else no
    carry = _Carry(course, status, idle, kept, inspected, waiting, log, near, stopped)
    if events.deferred:
        carry = _in_rounds(plan, unfinished, iteration, carry, grid, events)
    else:
        going_on = lambda carry: iteration(unfinished(carry), carry)  # noqa: E731
        carry = jax.lax.while_loop(unfinished, going_on, carry)
    return carry.course, carry.status, carry.log, carry.stopped


def _begins_after(course: Course, when: Times, grid: TimeGrid) -> Bool[Array, ""]:
    """Whether the next flight begins after a time."""
    begin = grid.size(course.step) - course.remaining
    return (course.step > when.step) | ((course.step == when.step) & (begin > when.offset))


def _iteration(plan: Plan, grid: TimeGrid, events: AbstractEvents, carry: _Carry) -> _Carry:
    """Flies one trial and takes it, or looks closer."""
    course, status, search = carry.course, carry.status, carry.search
    t, trial, before = course.time(grid), search.trial, carry.contacts
    flight = events.flow(plan.scheme, t, trial, course.phase, course.mode, contacts=before)
    end, error, work, mode, held, _ = flight
    t = t + trial
    near, watched = carry.near, events
    if near is None:
        contacts = events.contacts_after(flight, t)
        guards = events.guards(t, end, contacts, mode, grid.dt)
    else:
        assert isinstance(events, AbstractImpacts) and events.system.contacts is not None
        near = near.renewed(events.system.contacts, end)
        watched = events.among(near)
        events, contacts, guards = events.look(near, t, end, grid.dt)
    reset = Reset(end, mode, guards.event)
    if not events.deferred:
        reset = events.reset(t, end, contacts, guards.event, None, mode)
    event = reset.event
    flown = Trial(t, course.phase, end, trial, mode, before, contacts, guards, error)
    inspection = plan.detector.inspect(carry.inspected, flown, events, plan.scheme)
    resolution = time_resolution(course)
    case, bracket, failure = classify(
        plan, grid, course, status, search, guards, reset, error, held, inspection
    )

    accept = case.accept
    phase = tree_where(accept, tree_where(case.event, reset.phase, end), course.phase)
    mode = tree_where(accept, tree_where(case.event, reset.mode, mode), course.mode)
    if work is not None:
        assert course.work is not None
        work = course.work + jnp.where(accept, work, 0.0)
    step, remaining, status = tick(plan, grid, course, status, trial, case, event, guards, failure)
    course = Course(phase, mode, remaining, step, work)
    fresh = _start(plan, watched, course, contacts)
    first = first_trial(plan, status, fresh, remaining)
    search = aim(
        plan, search, case, bracket, guards, inspection, first, error, remaining, resolution
    )
    waiting = None
    if events.deferred:
        waiting = event._replace(contact=event.contact & case.event)
    anew = accept if plan.detector.searches else accept | case.halve
    inspected = tree_where(anew, fresh, inspection.state)
    if near is not None:
        # Of a batch, worlds that wait are flown for no time.
        crowded = near.crowded() & (trial > 0)
        status = dataclasses.replace(status, crowded=status.crowded + crowded.astype(jnp.int32))
    log = carry.log
    if log is not None:
        log = log.write(case, trial, event, Remembered(end, flight.work, mode))
    if plan.progress:
        report(course.step, grid)
    kept = None if before is None else tree_where(accept, contacts, before)
    return _Carry(course, status, search, kept, inspected, waiting, log, near, carry.stopped)


def _start(plan: Plan, events: AbstractEvents, course: Course, contacts):
    """The state of the detector before a flight, from a phase with these contacts."""
    return plan.detector.start(
        events, plan.scheme, course.phase, contacts, course.mode, course.remaining
    )


def _in_rounds(
    plan, unfinished, iteration, carry: _Carry, grid: TimeGrid, events: AbstractEvents
) -> _Carry:
    """The loop for events whose impulses take a search.

    A world with an event waits for others of its batch, so that many are resolved together; by
    itself it waits for none.
    """

    def flying(count_and_carry):
        count, carry = count_and_carry
        on_the_way = unfinished(carry) & ~jnp.any(carry.waiting.contact)
        return on_the_way & (count < events.round_of_iterations)

    def fly_on(count_and_carry):
        count, carry = count_and_carry
        return count + 1, iteration(flying(count_and_carry), carry)

    def round_of_iterations(carry: _Carry) -> _Carry:
        _, carry = jax.lax.while_loop(flying, fly_on, (jnp.zeros((), jnp.int32), carry))
        course, status, log, event = carry.course, carry.status, carry.log, carry.waiting
        assert event is not None
        t = course.time(grid)
        contacts, at = carry.contacts, events.at(event)
        if contacts is None:
            contacts = at.contacts(t, course.phase)
        resolution, found = at.resolve(course.phase, contacts, event)
        after = at.reset(t, course.phase, contacts, event, resolution, course.mode)
        if log is not None:
            log = log.write_resolution(resolution, after.mode, jnp.any(event.contact))
        going = status.code == Code.successful
        code = jnp.where(going & ~found, jnp.int32(Code.impact_not_ended), status.code)
        unheld = (code == Code.successful) & jnp.any(event.contact) & ~after.found
        code = jnp.where(unheld, jnp.int32(Code.held_contacts_not_solved), code)
        course = dataclasses.replace(course, phase=after.phase, mode=after.mode)
        inspected, search = carry.inspected, carry.search
        if plan.detector.searches or plan.detector.expects:
            # The flight that follows begins with other momenta than it was planned for.
            happened = jnp.any(event.contact)
            watched = events if carry.near is None else events.among(carry.near)
            fresh = _start(plan, watched, course, contacts)
            trial = first_trial(plan, status, fresh, course.remaining)
            trial = jnp.where(happened, trial, search.trial)
            inspected = tree_where(happened, fresh, inspected)
            search = dataclasses.replace(search, trial=trial)
        return dataclasses.replace(
            carry,
            course=course,
            status=dataclasses.replace(status, code=code),
            search=search,
            inspected=inspected,
            waiting=zeros_like(event),
            log=log,
        )

    return jax.lax.while_loop(unfinished, round_of_iterations, carry)
