"""What a trial flight shows, and what is tried next.

An iteration of the loop flies one trial. Here it is classified: it is accepted as a step, a part
of one, or an event; or an event is located in it; or it is too long for the flow.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..flows import AbstractFlow
from ..math.bracket import next_trial
from ..math.materialize import choose_once
from .course import Course, Status
from .detectors import AbstractDetector, Inspection, State
from .events import Event, Flown, Guards, Kind, Reset
from .results import Code, first_failure
from .time_grid import TimeGrid

# A flight whose equations have no solution is halved until it takes this part of its step; then
# they have none. The number of flights that a step can take is thereby bounded, too.
SMALLEST_PART = 2.0**-10
# Impacts accumulate if a flight takes at most this part of the longest of its step, or of this
# part of the step.
ACCUMULATION = 0.01
# So many impacts, one soon after another, of which the last is too slow to bounce, are taken for
# the end of infinitely many.
SEVERAL = 8
# So many impacts in a step end a simulation even if they accumulate and it is to go on.
MOST_IMPACTS = 2**20


class Plan(NamedTuple):
    """The static part of a simulation: what is compiled into the loop."""

    scheme: AbstractFlow
    detector: AbstractDetector
    max_impacts_per_step: int
    zeno_ends: bool  # whether impacts that accumulate end the simulation
    progress: bool = False  # whether to report it
    continuous: bool = False  # whether the whole trajectory is one step


class Search(eqx.Module):
    """The state of the search within a flight."""

    trial: Float[Array, ""]  # duration to try next [s]
    locating: Bool[Array, ""]  # an impact or a release is bracketed between:
    lower: Float[Array, ""]  # a duration before it
    upper: Float[Array, ""]  # one after
    release: Bool[Array, ""]  # whether it is a release that is before the upper one
    iterations: Int[Array, ""]  # that locate an event, or look for a shorter flight


class Case(NamedTuple):
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


class Bracket(NamedTuple):
    """The bracket of the duration until an event, after a trial."""

    lower: Float[Array, ""]  # before the event
    upper: Float[Array, ""]  # after it
    release: Bool[Array, ""]  # whether it is a release that is before the upper one
    narrow: Bool[Array, ""]  # to round-off


def time_resolution(course: Course) -> Float[Array, ""]:
    """To which durations are located, by detectors that do not search by themselves [s]."""
    return 4 * jnp.finfo(course.remaining.dtype).eps * course.remaining


def classify(
    plan: Plan,
    grid: TimeGrid,
    course: Course,
    status: Status,
    search: Search,
    guards: Guards,
    reset: Reset,
    error: Float[Array, ""],
    held: Bool[Array, ""] | np.bool_,
    inspection: Inspection,
) -> tuple[Case, Bracket, Int[Array, ""]]:
    """Classifies a trial: its case, or the code of a failure."""
    trial, locating, resolution = search.trial, search.locating, time_resolution(course)
    crossed = guards.penetrating | guards.releasing
    unsolved = error > 1
    smallest = 0.0 if plan.continuous else SMALLEST_PART * grid.size(course.step)
    halve = ~locating & unsolved & (trial > smallest)
    free = ~locating & ~halve
    # A trial is held back while a contact may have opened again in it.
    passable = free & ~crossed & ~inspection.doubtful
    lower = jnp.where(locating & ~crossed, trial, search.lower)
    upper = jnp.where(crossed, trial, search.upper)
    release = jnp.where(crossed, ~guards.penetrating, search.release)
    narrow = upper - lower <= resolution
    at_last = narrow & (trial >= upper)
    verdict = inspection.verdict
    if verdict is not None:
        lower, narrow, at_last = verdict.until, verdict.narrow, verdict.at_last
    at_surface = ~crossed & (guards.gap <= 1)
    if verdict is not None:
        # No duration between this one and that of contact can be told from both.
        at_surface |= ~crossed & (guards.time <= 2 * jnp.finfo(trial.dtype).eps * trial)
        narrow &= ~crossed
    struck = guards.closing & (at_surface | (narrow & ~release))
    located = struck | at_last
    if inspection.expecting is not None:
        at_once = inspection.expecting & free & guards.closing & at_surface
        located, locating = (located & locating) | at_once, locating | at_once
        free &= ~at_once
    if verdict is not None:
        located &= verdict.proved
        # Where every trial is chosen with care, one may end at an event that was not looked for.
        locating = ~halve
        free &= ~located
        passable &= ~located

    first = _first(plan, status, trial) & (trial > resolution)
    grazing = located & first & (guards.transversality < 1) & (reset.event.kind != Kind.LANDING)
    failure = first_failure(
        (~halve & guards.search_failed, Code.closest_point_not_found),
        (~halve & ~guards.finite, Code.non_finite),
        *((~halve & condition, failure) for condition, failure in _failures(error, held)),
        (locating & grazing, Code.grazing),
        (locating & located & ~reset.found, Code.held_contacts_not_solved),
        (search.iterations > plan.detector.most_turns, Code.root_not_found),
    )
    good = failure == Code.successful
    case = choose_once(
        good & passable & (trial >= course.remaining),
        good & free & crossed,
        good & search.locating & ~located,
        good & locating & located,
        good & halve,
        good & passable & (trial < course.remaining),
        dtype=trial.dtype,
    )
    return Case(*case), Bracket(lower, upper, release, narrow), failure


def code_of_part(flight: Flown, *, remembers: bool) -> Int[Array, ""]:
    """The code of a part of a flight that was made, small: there is one for each time to save.

    Args:
        flight: the part.
        remembers: whether contacts and joints were solved for. The equations of free bodies are
            easier in a part than in the whole, and their error would be kept for each time, too.
    """
    finite = jnp.isfinite(sum(jnp.sum(leaf) for leaf in jax.tree.leaves(flight.phase)))
    others = _failures(flight.error, flight.held) if remembers else ()
    return first_failure((~finite, Code.non_finite), *others).astype(jnp.int8)


def _failures(error: Float[Array, ""], held: Bool[Array, ""] | np.bool_):
    """Why a flight fails with such an error of its equations, as `first_failure` has it."""
    unsolved = error > 1
    return (
        (jnp.isnan(error), Code.non_finite),
        (unsolved & ~held, Code.held_contacts_not_solved),
        (unsolved, Code.nonlinear_solve_failed),
    )


def _first(plan: Plan, status: Status, trial: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether an impact at the end of a flight is the first of several that follow it soon: in its
    step; in continuous time after a flight that is not short."""
    if plan.continuous:
        return trial > ACCUMULATION * status.longest
    return status.impacts_in_step == 0


def first_trial(
    plan: Plan, status: Status, fresh: State, size: Float[Array, ""]
) -> Float[Array, ""]:
    """The duration to try first in a flight: the rest of the step, after a part of it at most twice
    as much again; or what the detector chooses [s].

    Args:
        plan: the static part.
        status: before the flight.
        fresh: the state of the detector then.
        size: time left in the step [s].
    """
    first = plan.detector.first(fresh, size)
    return first if plan.detector.searches else jnp.minimum(first, status.ahead)


def aim(
    plan: Plan,
    search: Search,
    case: Case,
    bracket: Bracket,
    guards: Guards,
    inspection: Inspection,
    first: Float[Array, ""],
    error: Float[Array, ""],
    size: Float[Array, ""],
    resolution: Float[Array, ""],
) -> Search:
    """The next trial: after an accepted flight the first of the next; while locating an event,
    Newton's guess kept within the bracket; elsewhere where the detector doubts.

    Args:
        plan: the static part.
        search: in which the last trial was flown.
        case, bracket, guards, inspection, error: of that trial.
        first: of the next flight [s].
        size: time left in the step [s].
        resolution: of durations [s].
    """
    trial = search.trial
    if plan.detector.searches:
        refined = inspection.elsewhere
        lower, upper = bracket.lower, bracket.upper
        searching = jnp.ones((), jnp.int32)
    else:
        lower = jnp.where(case.begin, jnp.zeros_like(trial), bracket.lower)
        upper = jnp.where(case.begin, trial, bracket.upper)
        # The force of a contact comes without its rate: releases are found by bisection.
        guess = jnp.where(bracket.release, jnp.inf, trial + guards.time)
        refined = next_trial(guess, lower, upper, resolution, search.iterations)
        refined = jnp.where(bracket.narrow & search.locating, upper, refined)
        elsewhere = jnp.minimum(inspection.elsewhere, size)
        refined = jnp.where(~search.locating & ~case.begin, elsewhere, refined)
        refined = jnp.where(case.halve, plan.scheme.shorter(trial, error), refined)
        searching = (case.begin | case.refine | case.halve).astype(jnp.int32)
    return Search(
        trial=jnp.where(case.accept, first, refined),
        locating=case.begin | case.refine,
        lower=lower,
        upper=upper,
        release=bracket.release,
        iterations=jnp.where(case.accept, 0, search.iterations + searching),
    )


def tick(
    plan: Plan,
    grid: TimeGrid,
    course: Course,
    status: Status,
    trial: Float[Array, ""],
    case: Case,
    event: Event,
    guards: Guards,
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
    over = full_step
    if plan.continuous:
        over |= case.part
    before = status.impacts_in_step
    if plan.continuous:
        before = jnp.where(_first(plan, status, trial), 0, before)
    impacts_in_step = jnp.where(over, 0, before + struck)
    exhausted = impact & (impacts_in_step > plan.max_impacts_per_step)
    if plan.continuous:
        # Bounces have come to be no higher than the tolerance of the gap.
        exhausted |= impact & (impacts_in_step > SEVERAL) & (guards.transversality < 1)
    # A body that lies on an obstacle at the start has no long flight at all.
    step_size = 0.0 if plan.continuous else grid.size(course.step)
    longest = jnp.maximum(status.longest, ACCUMULATION * step_size)
    accumulating = trial <= ACCUMULATION * longest
    too_many = jnp.where(accumulating, jnp.int32(Code.zeno), jnp.int32(Code.max_impacts_reached))
    goes_on = trial > time_resolution(course)
    at_once = jnp.where(case.accept & goes_on, 0, status.impacts_at_once) + struck
    if not plan.zeno_ends:
        exhausted &= ~accumulating | (impacts_in_step > MOST_IMPACTS)
        # Contacts that close again and again in no time will not last.
        stuck = impact & (at_once > plan.max_impacts_per_step)
        exhausted |= stuck
        too_many = jnp.where(stuck, jnp.int32(Code.max_impacts_reached), too_many)
    longest = jnp.where(impact, jnp.maximum(status.longest, trial), status.longest)
    status = Status(
        code=jnp.where(exhausted, too_many, failure),
        impacts=status.impacts + struck,
        impacts_in_step=impacts_in_step,
        impacts_at_once=at_once,
        longest=jnp.where(full_step, jnp.zeros_like(trial), longest),
        ahead=jnp.where(case.part, 2 * trial, jnp.where(case.accept, jnp.inf, status.ahead)),
        evaluations=status.evaluations + 1,
        crowded=status.crowded,
        kernel=status.kernel,
    )
    return step, remaining, status
