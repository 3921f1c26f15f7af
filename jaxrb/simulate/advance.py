"""The flat loop: flight and impacts of one world, each turn one unit of work.

A batched `while_loop` runs until its slowest lane has ended, so loops inside loops would
multiply waiting times. Here every turn of the single loop evaluates the flow once and then
accepts a step, begins to locate an impact, narrows it down, or accepts it; under `vmap`
each world is in its own phase of that work.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from ..contact import AtHalfSpaces
from ..flows import AbstractFlow
from ..math import Vec3, select
from ..math.bracket import next_trial
from ..math.once import choose_once
from .accumulation import Accumulation
from .frictional import frictional_impact
from .interior import Dip, find_dip
from .progress import report
from .results import Code, first_failure
from .sustained import Held, Kind, bounce, fly, initially_held, landing, stand
from .system import System
from .trial_contacts import TrialContacts, trial_contacts

# After so many, worlds of a batch that have struck something are served.
TURNS_OF_A_ROUND = 48


class Plan(NamedTuple):
    """The static part of a simulation: what is compiled into the loop."""

    flow: AbstractFlow
    dt: float  # [s]
    n_steps: int
    last_dt: float  # the last step is shorter where t1 - t0 is no multiple of dt
    tolerance: float | None  # of the gap at an impact [m]; None: its round-off
    max_impacts_per_step: int
    interior: bool  # whether to look for contacts that open again within a step
    rest: bool  # whether contacts at which impacts accumulate are sustained
    progress: bool = False  # whether to report it

    def step_size(self, step: Int[Array, ""], like: Float[Array, ""]) -> Float[Array, ""]:
        if self.last_dt == self.dt:
            return jnp.full_like(like, self.dt)
        return jnp.where(step >= self.n_steps - 1, self.last_dt, self.dt).astype(like.dtype)

    def time(self, step: Int[Array, ""], remaining: Float[Array, ""]) -> Float[Array, ""]:
        """Since t0, at a place within a step [s]."""
        begin = self.dt * step.astype(remaining.dtype)
        return begin + (self.step_size(step, remaining) - remaining)


class Clock(eqx.Module):
    """Where a world is in its course, between two flights."""

    remaining: Float[Array, ""]  # time left in the current step [s]
    step: Int[Array, ""]  # steps completed
    code: Int[Array, ""]
    impacts: Int[Array, ""]  # in all
    impacts_in_step: Int[Array, ""]
    longest: Float[Array, ""]  # flight of this step that ended with an impact [s]
    evaluations: Int[Array, ""]  # of the flow
    held: Held | None  # which contacts are sustained; None if none ever is
    accumulation: Accumulation | None
    struck: Held | None  # the contact whose frictional impact is still to be resolved


class Log(eqx.Module):
    """The course of a world, cut into arcs; arrays have shape (n_arcs,).

    An arc is a number of flights of which at most the last ends with an event: an impact, a
    landing or a release. It ends with that event or when it is full.
    """

    limit: int = eqx.field(static=True)  # of flights in an arc
    arc: Int[Array, ""]  # index of the arc being flown; n_arcs when all have been
    flights: Int[Array, " n_arcs"]  # flown in each
    duration: Float[Array, " n_arcs"]  # of the flight that ended with an event [s]
    event: Int[Array, " n_arcs"]  # kind * n + contact for n contacts; -1 without one
    # With friction, of the impact that ends an arc, on its first body, world [N s].
    impulse: Vec3 | None

    @staticmethod
    def empty(n_arcs: int, limit: int, like: Float[Array, ""], system: System) -> Log:
        """A log in which nothing is written; its durations have the dtype of `like`."""
        none, zero = jnp.zeros(n_arcs, jnp.int32), jnp.zeros(n_arcs, like.dtype)
        impulse = Vec3(zero, zero, zero) if system.frictional else None
        return Log(limit, none[0], none, zero, none - 1, impulse)

    def full(self) -> Bool[Array, ""]:
        return self.arc >= self.flights.shape[0]

    def impacts(self, n_contacts: int) -> tuple[Bool[Array, " n_arcs"], Int[Array, " n_arcs"]]:
        """Which arcs end with an impact, and the index of its contact."""
        impact = (self.event >= 0) & (self.event // n_contacts != Kind.RELEASE)
        return impact, self.event % n_contacts

    def write(self, accept, ends, duration, event) -> Log:
        """The log after a turn. Each slot is written by comparison: a scatter would leave
        the loop's fused kernels."""
        here = (jnp.arange(self.flights.shape[0], dtype=jnp.int32) == self.arc) & accept
        flights = self.flights + here.astype(jnp.int32)
        eventful = here & ends
        ended = jnp.any(here & (ends | (flights == self.limit)))
        return Log(
            self.limit,
            self.arc + ended.astype(jnp.int32),
            flights,
            jnp.where(eventful, duration, self.duration),
            jnp.where(eventful, event, self.event),
            self.impulse,
        )

    def write_impulse(self, impulse: Vec3, struck: Bool[Array, ""]) -> Log:
        """With the impulse of the impact, if there was one, that ended the last arc."""
        here = (jnp.arange(self.flights.shape[0], dtype=jnp.int32) == self.arc - 1) & struck
        return dataclasses.replace(self, impulse=select(here, impulse, self.impulse))


class _Search(eqx.Module):
    """What the loop knows within a flight."""

    trial: Float[Array, ""]  # duration to try next [s]
    locating: Bool[Array, ""]  # an impact or a release is bracketed between:
    lower: Float[Array, ""]  # a duration before it
    upper: Float[Array, ""]  # one after
    release: Bool[Array, ""]  # whether it is a release that is before the upper one
    turns: Int[Array, ""]


def start_clock(plan: Plan, code: Int[Array, ""], phase: Phase, system: System) -> Clock:
    """The clock at t0, in the dtype of the phase."""
    like = phase.position.x[0]
    zero, none = jnp.zeros_like(like), jnp.zeros((), jnp.int32)
    first = plan.step_size(none, like)
    held = accumulation = struck = None
    if system.frictional:
        assert system.contacts is not None
        struck = jnp.zeros(system.contacts.shape, bool)
    if plan.rest and system.contacts is not None:
        held = initially_held(phase, plan.tolerance, system)
        accumulation = Accumulation.start(held, phase.position.x)
    return Clock(first, none, code, none, none, zero, none, held, accumulation, struck)


def advance(
    plan: Plan, phase: Phase, clock: Clock, system: System, log: Log | None = None
) -> tuple[Phase, Clock, Log | None]:
    """Flies a world to the end of its course, or until a log is full.

    A flight ends with an impact or with its step (Tran and Leok, Algorithm 2, corrected: the
    time of an impact counts in units of h, the state before the first impact of a step is
    kept, and an accepted impact is one that was located).

    Args:
        plan: the static part.
        phase, clock: where to start, between two flights.
        system: the world.
        log: an empty one, to be written.

    Returns:
        The phase and the clock at the end, and the log.
    """
    like = clock.remaining
    zero, none = jnp.zeros_like(like), jnp.zeros((), jnp.int32)
    no = jnp.zeros((), bool)
    idle = _Search(clock.remaining, no, zero, zero, no, none)
    dip = Dip.none(like) if plan.interior else None

    def unfinished(carry) -> Bool[Array, ""]:
        _, clock, _, _, log = carry
        going = (clock.step < plan.n_steps) & (clock.code == Code.successful)
        return going if log is None else going & ~log.full()

    def turn(carry):
        phase, clock, search, dip, log = carry
        trial = search.trial
        end, error = fly(plan.flow, trial, phase, clock.held, system)
        contact = trial_contacts(end, clock.held, plan.dt, plan.tolerance, system)
        event = _meet(plan, end, contact, clock, trial, system)

        # A trial is held back while a contact may have opened again in it.
        doubtful = None
        if plan.interior:
            dip, doubtful = find_dip(dip, phase, end, trial, clock.remaining, clock.held, system)
        resolution = 4 * jnp.finfo(like.dtype).eps * clock.remaining
        # (a) accept a full step, (b) begin to locate an event, (c) narrow its bracket, or
        # (d) accept the event.
        case, bracket, failure = _judge(clock, search, contact, event, error, doubtful, resolution)

        accept = case.full_step | case.event
        phase = select(accept, select(case.event, event.phase, end), phase)
        clock, size = _tick(plan, clock, trial, case, event, failure)
        elsewhere = dip.trial if plan.interior else None
        search = _aim(search, case, bracket, contact, elsewhere, size, resolution)
        if plan.interior:
            dip = select(accept, Dip.none(like), dip)
        if log is not None:
            log = log.write(accept, case.event, trial, event.logged)
        if plan.progress:
            report(clock.step, plan.n_steps)
        return phase, clock, search, dip, log

    carry = (phase, clock, idle, dip, log)
    if system.frictional:
        carry = _with_friction(unfinished, turn, carry, system)
    else:
        carry = jax.lax.while_loop(unfinished, turn, carry)
    phase, clock, _, _, log = carry
    return phase, clock, log


def _with_friction(unfinished, turn, carry, system: System):
    """The loop for impacts that take some work each.

    A world that has struck waits for others of its batch, so that many impacts are resolved
    together; by itself it waits for none.
    """

    def flying(count_and_carry):
        count, carry = count_and_carry
        return unfinished(carry) & ~jnp.any(carry[1].struck) & (count < TURNS_OF_A_ROUND)

    def fly_on(count_and_carry):
        count, carry = count_and_carry
        return count + 1, turn(carry)

    def round_of_turns(carry):
        _, carry = jax.lax.while_loop(flying, fly_on, (jnp.zeros((), jnp.int32), carry))
        phase, clock, search, dip, log = carry
        after, impulse, ended = frictional_impact(phase, clock.struck, system)
        if log is not None:
            log = log.write_impulse(impulse, jnp.any(clock.struck))
        going = clock.code == Code.successful
        code = jnp.where(going & ~ended, jnp.int32(Code.impact_not_ended), clock.code)
        none = jnp.zeros_like(clock.struck)
        clock = dataclasses.replace(clock, struck=none, code=code)
        return after, clock, search, dip, log

    return jax.lax.while_loop(unfinished, round_of_turns, carry)


class _Case(NamedTuple):
    """The four cases of a turn, of which one holds unless the turn failed."""

    full_step: Bool[Array, ""]  # (a) accept a full step
    begin: Bool[Array, ""]  # (b) begin to locate an event
    refine: Bool[Array, ""]  # (c) narrow its bracket
    event: Bool[Array, ""]  # (d) accept the event


class _Bracket(NamedTuple):
    """Of the duration until an event, after a trial."""

    lower: Float[Array, ""]  # before the event
    upper: Float[Array, ""]  # after it
    release: Bool[Array, ""]  # whether it is a release that is before the upper one
    narrow: Bool[Array, ""]  # to round-off


def _judge(
    clock: Clock,
    search: _Search,
    contact: TrialContacts,
    event: _Event,
    error: Float[Array, ""],
    doubtful: Bool[Array, ""] | None,
    resolution: Float[Array, ""],
) -> tuple[_Case, _Bracket, Int[Array, ""]]:
    """What a trial shows: which case it is, or the code of a failure."""
    trial, locating = search.trial, search.locating
    crossed = contact.penetrating | contact.leaving
    free = ~locating
    passable = free & ~crossed
    if doubtful is not None:
        passable &= ~doubtful
    lower = jnp.where(locating & ~crossed, trial, search.lower)
    upper = jnp.where(crossed, trial, search.upper)
    release = jnp.where(crossed, ~contact.penetrating, search.release)
    narrow = upper - lower <= resolution
    at_surface = ~crossed & (contact.gap <= 1)
    struck = contact.closing & (at_surface | (narrow & ~release))
    located = struck | (narrow & (trial >= upper))

    first_in_step = (clock.impacts_in_step == 0) & (trial > resolution)
    grazing = located & first_in_step & (contact.steepness < 1) & ~event.rests
    failure = first_failure(
        (contact.lost, Code.closest_point_not_found),
        (~contact.finite | jnp.isnan(error), Code.non_finite),
        (error > 1, Code.nonlinear_solve_failed),
        (locating & grazing, Code.grazing),
        (search.turns > 200, Code.root_not_found),
    )
    good = failure == Code.successful
    case = choose_once(
        good & passable,
        good & free & crossed,
        good & locating & ~located,
        good & locating & located,
        dtype=trial.dtype,
    )
    return _Case(*case), _Bracket(lower, upper, release, narrow), failure


def _aim(
    search: _Search,
    case: _Case,
    bracket: _Bracket,
    contact: TrialContacts,
    elsewhere: Float[Array, ""] | None,
    size: Float[Array, ""],
    resolution: Float[Array, ""],
) -> _Search:
    """The next trial: a step of a given size after an accepted flight; while locating an
    event, Newton's guess kept within the bracket; `elsewhere` where a dip is looked for."""
    trial = search.trial
    lower = jnp.where(case.begin, jnp.zeros_like(trial), bracket.lower)
    upper = jnp.where(case.begin, trial, bracket.upper)
    # The force of a contact comes without its rate: releases are found by bisection.
    guess = jnp.where(bracket.release, jnp.inf, trial + contact.time)
    refined = next_trial(guess, lower, upper, resolution, search.turns)
    refined = jnp.where(bracket.narrow & search.locating, upper, refined)
    if elsewhere is not None:
        refined = jnp.where(~search.locating & ~case.begin, elsewhere, refined)
    accept = case.full_step | case.event
    return _Search(
        trial=jnp.where(accept, size, refined),
        locating=case.begin | case.refine,
        lower=lower,
        upper=upper,
        release=bracket.release,
        turns=jnp.where(accept, 0, search.turns + 1),
    )


def _tick(
    plan: Plan, clock: Clock, trial, case: _Case, event: _Event, failure
) -> tuple[Clock, Array]:
    """The clock after a turn, and the time left in the step it is then in."""
    full_step, impact = case.full_step, case.event & ~event.release
    step = clock.step + full_step.astype(jnp.int32)
    struck = impact.astype(jnp.int32)
    remaining = jnp.where(
        full_step,
        plan.step_size(step, trial),
        jnp.where(case.event, clock.remaining - trial, clock.remaining),
    )
    impacts_in_step = jnp.where(full_step, 0, clock.impacts_in_step + struck)
    exhausted = impact & (impacts_in_step > plan.max_impacts_per_step)
    # Impacts accumulate if flights have become much shorter than they were.
    accumulating = trial <= 0.01 * clock.longest
    too_many = jnp.where(accumulating, jnp.int32(Code.zeno), jnp.int32(Code.max_impacts_reached))
    if plan.rest:
        exhausted &= ~accumulating
    clock = Clock(
        remaining=remaining,
        step=step,
        code=jnp.where(exhausted, too_many, failure),
        impacts=clock.impacts + struck,
        impacts_in_step=impacts_in_step,
        longest=jnp.where(
            full_step,
            jnp.zeros_like(trial),
            jnp.where(impact, jnp.maximum(clock.longest, trial), clock.longest),
        ),
        evaluations=clock.evaluations + 1,
        held=select(case.event, event.held, clock.held),
        accumulation=select(case.event, event.accumulation, clock.accumulation),
        struck=None if event.struck is None else event.struck & case.event,
    )
    return clock, remaining


class _Event(NamedTuple):
    """What the end of a trial becomes if an event is accepted there."""

    phase: Phase
    logged: Int[Array, ""]
    release: Bool[Array, ""]  # instead of an impact
    rests: Bool[Array, ""]  # an impact after which the contact is held
    held: Held | None
    accumulation: Accumulation | None
    struck: Held | None = None  # the contact whose frictional impact is still to be resolved


def _meet(
    plan: Plan,
    end: Phase,
    contact: TrialContacts,
    clock: Clock,
    trial: Float[Array, ""],
    system: System,
) -> _Event:
    none, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    if contact.geometry is None or contact.struck is None:
        return _Event(end, none, no, no, None, None)
    contacts, motion = contact.geometry
    struck, held, accumulation = contact.struck, clock.held, clock.accumulation
    if held is None or accumulation is None or contact.pulled is None:
        logged = _logged(Kind.IMPACT, struck)
        if system.frictional:
            return _Event(end, logged, no, no, None, None, struck)
        law = system.frictionless
        impulse = law.normal_impulse(motion.normal_velocity, motion.inverse_mass)
        return _Event(contacts.apply_impulse(end, impulse, struck), logged, no, no, None, None)
    assert isinstance(contacts, AtHalfSpaces)
    release = contact.leaving & ~contact.penetrating
    bounced, kept = bounce(end, contacts, motion, struck, held, system)
    lands, acceleration = landing(bounced, contacts, struck, kept, plan.tolerance, system)
    after = stand(bounced, contacts, lands, kept, system)
    moment = plan.time(clock.step, clock.remaining) + trial
    accumulated = accumulation.after_impact(
        moment, bounced, contacts, motion, struck, lands, acceleration, plan.tolerance, system
    )
    rests = jnp.any(lands) & ~release
    kind = jnp.where(rests, jnp.int32(Kind.LANDING), jnp.int32(Kind.IMPACT))
    logged = jnp.where(release, _logged(Kind.RELEASE, contact.pulled), _logged(kind, struck))
    released = held & ~contact.pulled
    return _Event(
        phase=select(release, end, after),
        logged=logged,
        release=release,
        rests=rests,
        held=select(release, released, kept | lands),
        accumulation=select(release, accumulation, accumulated),
    )


def _logged(kind: Int[Array, ""] | int, contact: Held) -> Int[Array, ""]:
    """How the log writes an event at a contact."""
    order = jnp.arange(contact.size, dtype=jnp.int32).reshape(contact.shape)
    return jnp.sum(jnp.where(contact, order, 0), dtype=jnp.int32) + kind * contact.size
