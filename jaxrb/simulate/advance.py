"""The flat loop: flight and impacts of one world, each turn one unit of work.

A batched `while_loop` runs until its slowest lane has ended, so loops inside loops would
multiply waiting times. Here every turn of the single loop evaluates the flow once and then
accepts a step, begins to locate an impact, narrows it down, or accepts it; under `vmap`
each world is in its own phase of that work.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from ..contact import ContactKinematics, Contacts, apply_impulse, kinematics
from ..flows import AbstractFlow
from ..math import dot, select
from ..math.bracket import next_trial
from ..math.once import choose_once
from .interior import Dip, find_dip
from .results import Code, first_failure
from .system import System


class Plan(NamedTuple):
    """The static part of a simulation: what is compiled into the loop."""

    flow: AbstractFlow
    dt: float  # [s]
    n_steps: int
    last_dt: float  # the last step is shorter where t1 - t0 is no multiple of dt
    tolerance: float | None  # of the gap at an impact [m]; None: its round-off
    max_impacts_per_step: int
    interior: bool  # whether to look for contacts that open again within a step

    def step_size(self, step: Int[Array, ""], like: Float[Array, ""]) -> Float[Array, ""]:
        if self.last_dt == self.dt:
            return jnp.full_like(like, self.dt)
        return jnp.where(step >= self.n_steps - 1, self.last_dt, self.dt).astype(like.dtype)


class Clock(eqx.Module):
    """Where a world is in its course, between two flights."""

    remaining: Float[Array, ""]  # time left in the current step [s]
    step: Int[Array, ""]  # steps completed
    code: Int[Array, ""]
    impacts: Int[Array, ""]  # in all
    impacts_in_step: Int[Array, ""]
    longest: Float[Array, ""]  # flight of this step that ended with an impact [s]
    evaluations: Int[Array, ""]  # of the flow


class Log(eqx.Module):
    """The course of a world, cut into arcs; arrays have shape (n_arcs,).

    An arc is a number of flights of which at most the last ends with an impact. It ends with
    that impact or when it is full.
    """

    limit: int = eqx.field(static=True)  # of flights in an arc
    arc: Int[Array, ""]  # index of the arc being flown; n_arcs when all have been
    flights: Int[Array, " n_arcs"]  # flown in each
    duration: Float[Array, " n_arcs"]  # of the flight that ended with an impact [s]
    contact: Int[Array, " n_arcs"]  # index among the contacts; -1 without impact

    @staticmethod
    def empty(n_arcs: int, limit: int, like: Float[Array, ""]) -> Log:
        """A log in which nothing is written; its durations have the dtype of `like`."""
        none = jnp.zeros(n_arcs, jnp.int32)
        return Log(limit, none[0], none, jnp.zeros(n_arcs, like.dtype), none - 1)

    def full(self) -> Bool[Array, ""]:
        return self.arc >= self.flights.shape[0]

    def write(self, accept, impact, duration, contact) -> Log:
        """The log after a turn. Each slot is written by comparison: a scatter would leave
        the loop's fused kernels."""
        here = (jnp.arange(self.flights.shape[0], dtype=jnp.int32) == self.arc) & accept
        flights = self.flights + here.astype(jnp.int32)
        struck = here & impact
        ended = jnp.any(here & (impact | (flights == self.limit)))
        return Log(
            self.limit,
            self.arc + ended.astype(jnp.int32),
            flights,
            jnp.where(struck, duration, self.duration),
            jnp.where(struck, contact, self.contact),
        )


class _Search(eqx.Module):
    """What the loop knows within a flight."""

    trial: Float[Array, ""]  # duration to try next [s]
    locating: Bool[Array, ""]  # an impact is bracketed between:
    lower: Float[Array, ""]  # a duration without penetration
    upper: Float[Array, ""]  # one with
    turns: Int[Array, ""]


def start_clock(plan: Plan, code: Int[Array, ""], like: Float[Array, ""]) -> Clock:
    """The clock at t0, in the dtype of `like`."""
    zero, none = jnp.zeros_like(like), jnp.zeros((), jnp.int32)
    first = plan.step_size(none, like)
    return Clock(first, none, code, none, none, zero, none)


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
    idle = _Search(clock.remaining, jnp.zeros((), bool), zero, zero, none)
    dip = Dip.none(like) if plan.interior else None

    def unfinished(carry) -> Bool[Array, ""]:
        _, clock, _, _, log = carry
        going = (clock.step < plan.n_steps) & (clock.code == Code.successful)
        return going if log is None else going & ~log.full()

    def turn(carry):
        phase, clock, search, dip, log = carry
        trial = search.trial
        end, error = plan.flow.step(trial, phase, system.inertial, system.gravity)
        contact = _closest(plan, end, system)

        # A trial is held back while a contact may have opened again in it.
        held = None
        if plan.interior:
            dip, held = find_dip(dip, phase, end, trial, clock.remaining, system)
        resolution = 4 * jnp.finfo(like.dtype).eps * clock.remaining
        # (a) accept a full step, (b) begin to locate an impact, (c) narrow its bracket, or
        # (d) accept the impact.
        case, bracket, failure = _judge(clock, search, contact, error, held, resolution)

        accept = case.full_step | case.impact
        phase = select(accept, contact.resolve(end, system, case.impact), phase)
        clock, size = _tick(plan, clock, trial, case, failure)
        elsewhere = dip.trial if plan.interior else None
        search = _aim(search, case, bracket, contact, elsewhere, size, resolution)
        if plan.interior:
            dip = select(accept, Dip.none(like), dip)
        if log is not None:
            log = log.write(accept, case.impact, trial, contact.index)
        return phase, clock, search, dip, log

    carry = (phase, clock, idle, dip, log)
    phase, clock, _, _, log = jax.lax.while_loop(unfinished, turn, carry)
    return phase, clock, log


class _Case(NamedTuple):
    """The four cases of a turn, of which one holds unless the turn failed."""

    full_step: Bool[Array, ""]  # (a) accept a full step
    begin: Bool[Array, ""]  # (b) begin to locate an impact
    refine: Bool[Array, ""]  # (c) narrow its bracket
    impact: Bool[Array, ""]  # (d) accept the impact


class _Bracket(NamedTuple):
    """Of the duration until an impact, after a trial."""

    lower: Float[Array, ""]  # without penetration
    upper: Float[Array, ""]  # with
    narrow: Bool[Array, ""]  # to round-off


def _judge(
    clock: Clock,
    search: _Search,
    contact: _Closest,
    error: Float[Array, ""],
    held: Bool[Array, ""] | None,
    resolution: Float[Array, ""],
) -> tuple[_Case, _Bracket, Int[Array, ""]]:
    """What a trial shows: which case it is, or the code of a failure."""
    trial, locating = search.trial, search.locating
    free = ~locating
    passable = free & ~contact.penetrating
    if held is not None:
        passable &= ~held
    lower = jnp.where(locating & ~contact.penetrating, trial, search.lower)
    upper = jnp.where(contact.penetrating, trial, search.upper)
    narrow = upper - lower <= resolution
    at_surface = ~contact.penetrating & (contact.gap <= 1)
    located = (contact.closing & (at_surface | narrow)) | (narrow & (trial >= upper))

    first_in_step = (clock.impacts_in_step == 0) & (trial > resolution)
    failure = first_failure(
        (~contact.finite | jnp.isnan(error), Code.non_finite),
        (error > 1, Code.nonlinear_solve_failed),
        (locating & located & first_in_step & (contact.steepness < 1), Code.grazing),
        (search.turns > 200, Code.root_not_found),
    )
    good = failure == Code.successful
    case = choose_once(
        good & passable,
        good & free & contact.penetrating,
        good & locating & ~located,
        good & locating & located,
        dtype=trial.dtype,
    )
    return _Case(*case), _Bracket(lower, upper, narrow), failure


def _aim(
    search: _Search,
    case: _Case,
    bracket: _Bracket,
    contact: _Closest,
    elsewhere: Float[Array, ""] | None,
    size: Float[Array, ""],
    resolution: Float[Array, ""],
) -> _Search:
    """The next trial: a step of a given size after an accepted flight; while locating an
    impact, Newton's guess kept within the bracket; `elsewhere` where a dip is looked for."""
    trial = search.trial
    lower = jnp.where(case.begin, jnp.zeros_like(trial), bracket.lower)
    upper = jnp.where(case.begin, trial, bracket.upper)
    refined = next_trial(trial + contact.time, lower, upper, resolution, search.turns)
    refined = jnp.where(bracket.narrow & search.locating, upper, refined)
    if elsewhere is not None:
        refined = jnp.where(~search.locating & ~case.begin, elsewhere, refined)
    accept = case.full_step | case.impact
    return _Search(
        trial=jnp.where(accept, size, refined),
        locating=case.begin | case.refine,
        lower=lower,
        upper=upper,
        turns=jnp.where(accept, 0, search.turns + 1),
    )


def _tick(plan, clock: Clock, trial, case: _Case, failure) -> tuple[Clock, Array]:
    """The clock after a turn, and the time left in the step it is then in."""
    full_step, impact = case.full_step, case.impact
    step = clock.step + full_step.astype(jnp.int32)
    struck = impact.astype(jnp.int32)
    remaining = jnp.where(
        full_step,
        plan.step_size(step, trial),
        jnp.where(impact, clock.remaining - trial, clock.remaining),
    )
    impacts_in_step = jnp.where(full_step, 0, clock.impacts_in_step + struck)
    exhausted = impact & (impacts_in_step > plan.max_impacts_per_step)
    # Impacts accumulate if flights have become much shorter than they were.
    accumulating = trial <= 0.01 * clock.longest
    too_many = jnp.where(accumulating, jnp.int32(Code.zeno), jnp.int32(Code.max_impacts_reached))
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
    )
    return clock, remaining


class _Closest(eqx.Module):
    """The contacts at the end of a trial, as far as the loop needs them.

    Gaps are in units of their tolerance, normal velocities in tolerances per step size. What
    every decision of a turn depends on thus ends with a division, and XLA on CPU computes it
    once: anything cheaper it would compute again in the kernel of every carried array.
    """

    penetrating: Bool[Array, ""]  # any contact
    closing: Bool[Array, ""]  # any contact
    gap: Float[Array, ""]  # least among the closing contacts [tolerances]
    time: Float[Array, ""]  # from the trial to contact by Newton's rule [s]
    steepness: Float[Array, ""]  # of the nearest closing contact; a grazing one has < 1
    index: Int[Array, ""]  # of the nearest closing contact
    finite: Bool[Array, ""]
    geometry: tuple | None

    def resolve(self, end: Phase, system: System, impact) -> Phase:
        """The phase after the impact, where there is one."""
        if self.geometry is None or system.contacts is None:
            return end
        contacts, motion, chosen = self.geometry
        impulse = system.contact_law.normal_impulse(motion.normal_velocity, motion.inverse_mass)
        return apply_impulse(end, contacts, impulse, chosen & impact)


def _closest(plan: Plan, end: Phase, system: System) -> _Closest:
    like = end.position.x[0]
    none = jnp.zeros((), jnp.int32)
    if system.contacts is None:
        infinite, no, yes = jnp.full_like(like, jnp.inf), jnp.zeros((), bool), jnp.ones((), bool)
        return _Closest(no, no, infinite, infinite, infinite, none, yes, None)
    contacts = system.contacts.find(end)
    motion = kinematics(contacts, end, system.inertial)
    tolerance = contacts.round_off
    if plan.tolerance is not None:
        tolerance = jnp.full_like(tolerance, plan.tolerance)
    gap = contacts.gap / tolerance
    rate = motion.normal_velocity * plan.dt / tolerance

    closing = rate < 0
    # A contact that was just resolved sits at gap zero to round-off and must not be found
    # again; one that is below it by more, or gets there within the step, must.
    penetrating = (gap < -1) | ((gap < 0) & (rate < -1))
    # Newton aims at half the tolerance, so that it ends on the admissible side.
    time = jnp.where(closing, plan.dt * (gap - 0.5) / jnp.where(closing, -rate, 1.0), jnp.inf)
    nearest = jnp.where(closing, gap, jnp.inf)
    steepness = jnp.where(closing, _steepness(contacts, motion, tolerance, system), jnp.inf)
    if gap.size == 1:
        chosen, index = closing, none
    else:
        order = jnp.arange(gap.size, dtype=jnp.int32).reshape(gap.shape)
        index = jnp.min(jnp.where(nearest == jnp.min(nearest), order, gap.size))
        chosen = closing & (order == index)
    return _Closest(
        penetrating=jnp.any(penetrating),
        closing=jnp.any(closing),
        gap=jnp.min(nearest),
        time=jnp.min(time),
        steepness=jnp.min(jnp.where(chosen, steepness, jnp.inf)),
        index=index,
        finite=jnp.all(jnp.isfinite(gap + rate)),
        geometry=(contacts, motion, chosen),
    )


def _steepness(contacts: Contacts, motion: ContactKinematics, tolerance, system: System):
    """v_n^2 / (a tolerance) for the scale a of the second derivative of the gap.

    Below 1 the time of the impact, uncertain by tolerance/v_n, is too uncertain to give even
    the leading digit of v_n there, and so of the derivative of that time.
    """
    g = jnp.sqrt(dot(system.gravity, system.gravity))
    acceleration = g + motion.spin_velocity**2 / contacts.height
    return motion.normal_velocity**2 / (acceleration * tolerance)
