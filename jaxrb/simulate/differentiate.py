"""Detect, then replay: everything that is saved or differentiated.

`advance` finds the flights and events of a trajectory; nothing is differentiated through its
search. Here they are taken again from its log, without any search, by a `scan` that can be
differentiated in both modes and that fills the record of what is to be saved. As events are rare
and cost more to differentiate than flights, the log cuts the trajectory into arcs of a few flights
and at most one event. The work is done in blocks of about the square root of the number of arcs;
reverse mode keeps the state at the start of each block and replays one block at a time, so
its memory grows like that square root.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from ..exec.one_kernel import in_one_kernel
from ..exec.uncollected import uncollected
from ..math import tree_where
from ..math.autodiff import as_moving, keep_rule, no_tangents, sparse_jvp
from ..math.rarely import any_of_batch, if_any
from .course import Course, Status
from .events import AbstractEvents, Mode
from .forward import forward, is_wanted, say_if_asked
from .log import Log, is_impact
from .logged_flight import Logged, Scene, fly_to_event
from .loop import advance
from .method import Backend
from .recorder import Outputs, Record, SaveSpec, outputs_of
from .results import Code
from .time_grid import TimeGrid
from .trial import Plan, code_of_part

# Of a course, what depends on all else sooner or later.
_MOVING = ("phase", "remaining", "work")


class CheckpointLayout(NamedTuple):
    """How the replay is laid out. Static."""

    n_blocks: int
    arcs: int  # in a block; a world waits for the next block when it has flown them
    flights: int  # in an arc

    @staticmethod
    def of(n_steps: int, max_impacts: int, *, remembers: bool = False) -> CheckpointLayout:
        """For a trajectory of at most so many steps and impacts; where each flight is remembered,
        it is an arc."""
        # Long arcs idle after an impact, short ones look for one too often.
        flights = 1 if remembers else max(1, math.ceil(math.sqrt(n_steps / max_impacts)))
        # An arc ends when it is full or with an impact: so many suffice.
        n_arcs = math.ceil(n_steps / flights) + max_impacts
        arcs = math.ceil(math.sqrt(n_arcs))
        return CheckpointLayout(math.ceil(n_arcs / arcs), arcs, flights)


class Program(NamedTuple):
    """The static arguments of the compiled program."""

    plan: Plan
    blocks: CheckpointLayout
    wanted: SaveSpec
    backend: Backend


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def trajectory(
    program: Program, scene: Scene, course: Course, status: Status
) -> tuple[Course, Status, Outputs]:
    """The end of a trajectory and what is kept of it, with derivatives.

    Without derivatives, and with nothing to keep, it is the flat loop alone. Otherwise a world
    that has more impacts than the layout allows for ends with a result code.
    """
    plan, _, wanted, backend = program
    if is_wanted(backend, wanted, plan):
        arguments = (scene.grid, scene.events, scene.times, course, status)
        return forward(plan, wanted, backend, *arguments)
    say_if_asked(backend, "it keeps records of impacts" if wanted.impacts else "it shows a bar")
    if not wanted.anything:
        course, status = _compiled(backend, partial(_to_end, plan), scene, course, status)
        return course, status, Outputs.of(None, None)
    # As a whole or not at all: a kernel of each block would copy more than the loop needs.
    recorded = partial(_recorded, program._replace(backend="xla"))
    course, status, record = _compiled(backend, recorded, scene, course, status)
    return course, status, _outputs(program, scene, course, record, _part_of_flight)


@partial(trajectory.defjvp, symbolic_zeros=True)
@uncollected
def _(program, primals, tangents):
    scene, course, status = primals
    dscene, dcourse, _ = tangents
    say_if_asked(program.backend, "it is differentiated")
    found = _detect(program, *jax.lax.stop_gradient((scene, course, status)))
    prepared = jax.lax.stop_gradient(scene.events.linearize(found.log.resolution))
    remembered = jax.lax.stop_gradient(found.log.remembered)
    log = dataclasses.replace(found.log, resolution=prepared, remembered=remembered)
    found = dataclasses.replace(found, log=log)
    moving = _MOVING if scene.events.remembers else (*_MOVING, "mode")
    dcourse = dataclasses.replace(
        dcourse,
        **{part: as_moving(getattr(course, part), getattr(dcourse, part)) for part in moving},
    )
    replayed, dreplayed = sparse_jvp(
        partial(_replay, program, found), (scene, course), (dscene, dcourse)
    )
    (end, outputs), (dend, doutputs) = replayed, dreplayed
    return (end, found.status, outputs), (dend, no_tangents(found.status), doutputs)


def _compiled(backend: Backend, function: Callable, *arguments) -> Any:
    """function(*arguments), on a CPU as one kernel if it can be, and that is not unwanted."""
    return function(*arguments) if backend == "xla" else in_one_kernel(function, *arguments)


def _to_end(plan: Plan, scene: Scene, course: Course, status: Status) -> tuple[Course, Status]:
    course, status, *_ = advance(plan, scene.grid, scene.events, course, status)
    return course, status


class _Found(eqx.Module):
    """A trajectory as `advance` finds it."""

    ends: Course  # of the blocks; leading axis n_blocks
    log: Log  # likewise
    status: Status


def _recorded(
    program: Program, scene: Scene, course: Course, status: Status
) -> tuple[Course, Status, Record]:
    """A trajectory and its record.

    Each block is flown again as soon as it is found, so that the log of one is all that is kept.
    """

    def needed(carry):
        n, course, status, _ = carry
        return (n < program.blocks.n_blocks) & any_of_batch(_unfinished(scene, course, status))

    def block(carry):
        n, course, status, record = carry
        end, status, log = _detect_block(program, scene, course, status)
        _, record = _fly_arcs(program, log, scene, course, record)
        return n + 1, end, status, record

    record = Record.empty(program.wanted, course)
    carry = (jnp.zeros((), jnp.int32), course, status, record)
    _, course, status, record = jax.lax.while_loop(needed, block, carry)
    return course, _completed(scene, course, status), record


def _detect(program: Program, scene: Scene, course: Course, status: Status) -> _Found:
    """The flights and events of a trajectory, block by block."""

    def block(carry, _):
        course, status, log = _detect_block(program, scene, *carry)
        return (course, status), (course, log)

    (course, status), (ends, log) = jax.lax.scan(
        block, (course, status), None, length=program.blocks.n_blocks
    )
    return _Found(ends, log, _completed(scene, course, status))


def _detect_block(
    program: Program, scene: Scene, course: Course, status: Status
) -> tuple[Course, Status, Log]:
    def block(scene: Scene, course: Course, status: Status):
        plan, blocks, *_ = program
        log = Log.empty(blocks.arcs, blocks.flights, scene.events, course)
        course, status, log, _ = advance(plan, scene.grid, scene.events, course, status, log)
        assert log is not None
        return course, status, log

    return _compiled(program.backend, block, scene, course, status)


def _unfinished(scene: Scene, course: Course, status: Status) -> Bool[Array, ""]:
    return (status.code == Code.successful) & scene.grid.unfinished(course.step)


def _completed(scene: Scene, course: Course, status: Status) -> Status:
    """The status at the end of all blocks."""
    unfinished = _unfinished(scene, course, status)
    code = jnp.where(unfinished, jnp.int32(Code.max_impacts_reached), status.code)
    return dataclasses.replace(status, code=code)


def _outputs(
    program: Program, scene: Scene, end: Course, record: Record, part: Callable
) -> Outputs:
    """What is kept; of flights that were saved partway, as `part` has it."""
    wanted, times, grid, events = program.wanted, scene.times, scene.grid, scene.events
    return outputs_of(record, wanted, times, end, grid, events, partial(part, program))


class _Part(NamedTuple):
    """A flight up to a time at which the state is saved: what it depends on."""

    grid: TimeGrid
    events: AbstractEvents
    step: Int[Array, ""]
    begin: Float[Array, ""]  # since the start of the step [s]
    elapsed: Float[Array, ""]  # since then [s]
    phase: Phase
    mode: Mode


def _part_of_flight(program: Program, *start) -> tuple[Phase, Int[Array, ""]]:
    """The phase at a time within a flight, and its code, as `outputs_of` describes them."""
    phase, _, code = _compiled(program.backend, partial(_flown, program), _Part(*start), None)
    return phase, code


def _part_of_known_flight(program: Program, *start) -> tuple[Phase, Int[Array, ""]]:
    """Likewise, to be differentiated: what is costly to find is found first, and known then."""
    part, known, found = _Part(*start), None, None
    fly = partial(_flown, program)
    if part.events.remembers:
        _, known, found = _compiled(program.backend, fly, jax.lax.stop_gradient(part), None)
    if program.backend == "xla":
        fly = jax.checkpoint(fly)  # of a kernel nothing is kept for reverse mode, anyway
    phase, _, code = _compiled(program.backend, fly, part, known)
    return phase, code if found is None else found


def _flown(program: Program, part: _Part, known: Mode | None) -> tuple[Phase, Mode, Int[Array, ""]]:
    """The phase and the mode after a part of a flight, and its code."""
    t = part.grid.begin(part.step) + part.begin
    end = part.events.flow(program.plan.scheme, t, part.elapsed, part.phase, part.mode, known)
    return end.phase, end.mode, code_of_part(end, remembers=part.events.remembers)


def _replay(
    program: Program, found: _Found, scene: Scene, course: Course
) -> tuple[Course, Outputs]:
    """The end of a trajectory that was found, and what is kept of it."""

    @partial(jax.checkpoint, prevent_cse=False)
    def block(carry, block):
        course, record = carry
        end, log = block
        course, record = _block(program, log, end, scene, course, record)
        if scene.events.remembers:
            record = record.with_modes_unmoved()
        return (_with_mode_unmoved(scene.events, course), record), None

    record = Record.empty(program.wanted, course)
    record = record.moving(course.remaining, modes=not scene.events.remembers)
    carry = (course, record)
    (course, record), _ = jax.lax.scan(block, carry, (found.ends, found.log))
    return course, _outputs(program, scene, course, record, _part_of_known_flight)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _block(
    program: Program,
    log: Log,
    end: Course,
    scene: Scene,
    start: Course,
    record: Record,
) -> tuple[Course, Record]:
    """The end of a block, which is known, and the record up to there."""
    if not program.wanted.anything:
        return end, record
    return end, _fly_block(program, log, scene, start, record)[1]


@partial(_block.defjvp, symbolic_zeros=True)
def _(program, primals, tangents):
    log, _, *arguments = primals
    _, _, *directions = tangents
    primal_out = keep_rule(partial(_block, program))(*primals)
    _, tangent_out = sparse_jvp(
        partial(_fly_block, program, log), tuple(arguments), tuple(directions)
    )
    return primal_out, tangent_out


def _fly_block(
    program: Program, log: Log, scene: Scene, start: Course, record: Record
) -> tuple[Course, Record]:
    """Integrates the arcs of a block from its log; a block that no world needs is free."""

    def nothing(log: Log, scene: Scene, start: Course, record: Record):
        return start, record

    # What reverse mode keeps of it would pass through the branches, which would copy it.
    fly = jax.checkpoint(partial(_fly_arcs, program), prevent_cse=False)

    def block(log: Log, scene: Scene, start: Course, record: Record):
        return if_any(jnp.any(log.flights > 0), fly, nothing, log, scene, start, record)

    return _compiled(program.backend, block, log, scene, start, record)


def _fly_arcs(
    program: Program, log: Log, scene: Scene, start: Course, record: Record
) -> tuple[Course, Record]:
    """The arcs of a block, from its log."""
    scheme, wanted, limit = program.plan.scheme, program.wanted, program.blocks.flights
    grid, events = scene.grid, scene.events

    @partial(jax.checkpoint, prevent_cse=False)
    def fly_step(course: Course, flown):
        """A flight to the end of its step."""
        flown_to = events.flow(
            scheme, course.time(grid), course.remaining, course.phase, course.mode
        )
        step = course.step + 1
        work = _sum(course.work, flown_to.work)
        following = Course(flown_to.phase, flown_to.mode, grid.size(step), step, work)
        return tree_where(flown, _with_mode_unmoved(events, following), course)

    @partial(jax.checkpoint, prevent_cse=False)
    def fly_last(course: Course, flown, duration, logged: Logged, late):
        """The last flight of an arc that is full or ends before a step does."""
        within = logged.within_step
        # A part is a fraction of what is left of its step, which after an event is not constant.
        left = course.remaining
        fraction = duration / jnp.where(left > 0, left, 1.0)
        part = duration + jax.lax.stop_gradient(fraction) * (left - jax.lax.stop_gradient(left))
        planned = jnp.where(within, part, left)
        end = fly_to_event(scheme, planned, late, logged, scene, course)
        step = jnp.where(within, course.step, course.step + 1)
        left = jnp.where(within, left - end.duration, grid.size(step))
        work = _sum(course.work, end.work)
        following = Course(end.after, end.mode, left, step, work)
        struck = (end.duration, end.before, end.after) if wanted.impacts else None
        return tree_where(flown, _with_mode_unmoved(events, following), course), struck

    def step(carry, flown):
        course, record, late = carry
        record = record.with_flight(wanted, scene.times, grid, course, flown)
        return (fly_step(course, flown), record, late & ~flown), None

    def arc(carry, entry):
        flights, duration, number, *of_last = entry
        logged = Logged(number.astype(jnp.int32), *of_last)
        ended = logged.within_step | (flights == limit)
        if limit > 1:
            order = jnp.arange(limit - 1, dtype=flights.dtype)
            carry, _ = jax.lax.scan(step, carry, order < flights - ended.astype(flights.dtype))
        start, record, late = carry
        course, struck = fly_last(start, ended, duration, logged, late)
        following = grid.size(start.step) - course.remaining
        until = jnp.where(logged.within_step, following, jnp.inf)
        record = record.with_flight(wanted, scene.times, grid, start, ended, until)
        if struck is not None:
            offset = grid.size(start.step) - start.remaining + struck[0]
            impact = (start.step, offset, logged.number >> 2, *struck[1:])
            record = record.with_impact(is_impact(logged.number), *impact)
        return (course, record, jnp.where(ended, logged.within_step, late)), None

    if limit > 1:  # of a block reverse mode then keeps where arcs begin, not where flights do
        arc = jax.checkpoint(arc, prevent_cse=False)
    entries = (log.flights, log.duration, log.event, log.resolution, log.remembered)
    # Whether a flight begins after an event within its step; of the first that is not known.
    late = jnp.ones((), bool)
    (course, record, _), _ = jax.lax.scan(arc, (start, record, late), entries)
    return course, record


def _with_mode_unmoved(events: AbstractEvents, course: Course) -> Course:
    """A course of which the derivatives of what is remembered are known to be zero.

    Nothing depends on it but where it is sought next. If it seemed to move, JAX would differentiate
    each loop again when it finds that the mode does.
    """
    if not events.remembers:
        return course
    return dataclasses.replace(course, mode=jax.lax.stop_gradient(course.mode))


def _sum(a: Float[Array, ""] | None, b: Float[Array, ""] | None) -> Float[Array, ""] | None:
    return None if a is None or b is None else a + b
