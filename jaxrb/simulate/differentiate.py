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
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from ..contact import AbstractContacts
from ..flows import AbstractFlow
from ..math import tree_where
from ..math.autodiff import is_moving, keep_rule, sparse_jvp
from ..math.materialize import compute_once, opaque_one
from ..math.rarely import any_of_batch, if_any, where_any
from .course import Course, Status
from .events import AbstractEvents, Event, Mode, Resolution
from .forward import forward, is_wanted
from .log import WHOLE, Log, is_impact
from .loop import advance
from .method import Backend
from .recorder import Outputs, Record, SaveSpec, Times, outputs_of
from .results import Code
from .time_grid import TimeGrid
from .trial import Plan


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


class Scene(eqx.Module):
    """The numbers on which a trajectory depends, besides its start."""

    grid: TimeGrid
    events: AbstractEvents
    times: Times  # to save


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
    if not wanted.anything:
        course, status, *_ = advance(plan, scene.grid, scene.events, course, status)
        return course, status, Outputs(None, None)
    course, status, record = _recorded(program, scene, course, status)
    return course, status, _outputs(program, scene, course, record)


@partial(trajectory.defjvp, symbolic_zeros=True)
def _(program, primals, tangents):
    scene, course, status = primals
    dscene, dcourse, _ = tangents
    found = _detect(program, *jax.lax.stop_gradient((scene, course, status)))
    prepared = jax.lax.stop_gradient(scene.events.linearize(found.log.resolution))
    mode = jax.lax.stop_gradient(found.log.mode)
    log = dataclasses.replace(found.log, resolution=prepared, mode=mode)
    found = dataclasses.replace(found, log=log)
    replayed, dreplayed = sparse_jvp(
        partial(_replay, program, found), (scene, course), (dscene, dcourse)
    )
    (end, outputs), (dend, doutputs) = replayed, dreplayed
    return (end, found.status, outputs), (dend, _no_tangents(found.status), doutputs)


def _no_tangents(tree):
    def of(leaf: Array) -> Array | np.ndarray:
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            return jnp.zeros_like(leaf)
        return np.zeros(leaf.shape, jax.dtypes.float0)

    return jax.tree.map(of, tree)


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
    plan, blocks, *_ = program
    log = Log.empty(blocks.arcs, blocks.flights, scene.events, course)
    course, status, log, _ = advance(plan, scene.grid, scene.events, course, status, log)
    assert log is not None
    return course, status, log


def _unfinished(scene: Scene, course: Course, status: Status) -> Bool[Array, ""]:
    return (status.code == Code.successful) & scene.grid.unfinished(course.step)


def _completed(scene: Scene, course: Course, status: Status) -> Status:
    """The status at the end of all blocks."""
    unfinished = _unfinished(scene, course, status)
    code = jnp.where(unfinished, jnp.int32(Code.max_impacts_reached), status.code)
    return dataclasses.replace(status, code=code)


def _outputs(program: Program, scene: Scene, end: Course, record: Record) -> Outputs:
    scheme, wanted = program.plan.scheme, program.wanted
    return outputs_of(record, wanted, scene.times, end, scheme, scene.grid, scene.events)


def _replay(
    program: Program, found: _Found, scene: Scene, course: Course
) -> tuple[Course, Outputs]:
    """The end of a trajectory that was found, and what is kept of it."""

    @partial(jax.checkpoint, prevent_cse=False)
    def block(carry, block):
        course, record = carry
        end, log = block
        return _block(program, log, end, scene, course, record), None

    carry = (course, Record.empty(program.wanted, course))
    (course, record), _ = jax.lax.scan(block, carry, (found.ends, found.log))
    return course, _outputs(program, scene, course, record)


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
    return if_any(jnp.any(log.flights > 0), fly, nothing, log, scene, start, record)


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
        return tree_where(flown, following, course)

    @partial(jax.checkpoint, prevent_cse=False)
    def fly_last(course: Course, flown, duration, logged: _Logged, late):
        """The last flight of an arc that is full or ends before a step does."""
        within = logged.within_step
        planned = jnp.where(within, duration, course.remaining)
        end = _fly_to_event(scheme, planned, late, logged, scene, course)
        step = jnp.where(within, course.step, course.step + 1)
        left = jnp.where(within, course.remaining - end.duration, grid.size(step))
        following = Course(end.after, end.mode, left, step, _sum(course.work, end.work))
        struck = (end.duration, end.before, end.after) if wanted.impacts else None
        return tree_where(flown, following, course), struck

    def step(carry, flown):
        course, record, late = carry
        record = record.with_flight(wanted, scene.times, grid, course, flown)
        return (fly_step(course, flown), record, late & ~flown), None

    def arc(carry, entry):
        flights, duration, number, resolution, mode = entry
        logged = _Logged(number.astype(jnp.int32), resolution, mode)
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
    entries = (log.flights, log.duration, log.event, log.resolution, log.mode)
    # Whether a flight begins after an event within its step; of the first that is not known.
    late = jnp.ones((), bool)
    (course, record, _), _ = jax.lax.scan(arc, (start, record, late), entries)
    return course, record


class _Logged(NamedTuple):
    """The logged event that ends an arc, if any."""

    number: Int[Array, ""]
    resolution: Resolution
    mode: Mode  # at the end, where that is remembered

    @property
    def happens(self) -> Bool[Array, ""]:
        """Whether there is an event."""
        return self.number >= 0

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


class _End(NamedTuple):
    """The states at the end of a flight, before and after the event that it may end with."""

    before: Phase
    after: Phase
    mode: Mode  # from then on
    duration: Float[Array, ""]  # [s]
    work: Float[Array, ""] | None  # of the flight [J]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _fly_to_event(
    scheme: AbstractFlow,
    planned: Float[Array, ""],
    late: Bool[Array, ""],
    logged: _Logged,
    scene: Scene,
    course: Course,
) -> _End:
    """The end of a flight, before and after the event it may end with.

    The duration of a flight that ends with an event is the root that was located of the event's
    function, such as a gap: its value is the planned one, its derivative that of the root.
    """
    end = _fly(scheme, logged, planned, scene, course)
    return _reset(logged, end, planned, scene, course)


@partial(_fly_to_event.defjvp, symbolic_zeros=True)
def _(scheme, primals, tangents):
    """The implicit function theorem: d(duration) = -dPhi / (dPhi/d duration) at fixed duration.

    It is evaluated at the duration that the function itself returns, so that higher
    derivatives follow from this one.
    """
    planned, late, logged, scene, course = primals
    dplanned, _, _, dscene, dcourse = tangents
    duration = keep_rule(partial(_fly_to_event, scheme))(*primals).duration

    # The end of the flight is linearised once along what is given, and once along its duration.
    one = opaque_one(course.step, duration.dtype)
    fly = partial(_fly, scheme, logged)
    end, dend = sparse_jvp(partial(fly, duration), (scene, course), (dscene, dcourse))
    dend = compute_once(dend, one)

    def along_duration(duration, scene, course):
        fly_for = lambda d: fly(d, scene, course)  # noqa: E731
        return jax.jvp(fly_for, (duration,), (jnp.ones_like(duration),))[1]

    # A whole step has its own duration, whatever else changes, if the grid of times does not.
    late = late | is_moving(dscene.grid)
    motion_matters = logged.happens | late
    motion = where_any(motion_matters, along_duration, duration, scene, course)

    def root(end, duration, scene, course):
        t = course.time(scene.grid) + duration
        events = logged.at(scene.events)
        event = logged.event(events, end.contacts)
        return events.root(t, end.phase, end.contacts, event, end.mode)

    still = jnp.zeros_like(duration)
    arguments = (end, duration, scene, course)
    _, change = sparse_jvp(root, arguments, (dend, still, dscene, dcourse))
    passing = lambda end, duration: root(end, duration, scene, course)  # noqa: E731
    _, rate = jax.jvp(passing, (end, duration), (motion, jnp.ones_like(duration)))
    moving = logged.happens & (rate != 0)
    if isinstance(dplanned, SymbolicZero):
        dplanned = jnp.zeros_like(planned)
    dduration = jnp.where(logged.happens, -change / jnp.where(moving, rate, 1.0), dplanned)
    dduration = compute_once(dduration, one)

    moves = lambda d: jnp.issubdtype(d.dtype, jnp.floating)  # noqa: E731
    moved = jax.tree.map(lambda d, rate: d + rate * dduration if moves(d) else d, dend, motion)
    return sparse_jvp(partial(_reset, logged), arguments, (moved, dduration, dscene, dcourse))


class _Arrival(NamedTuple):
    """The end of a flight, before anything happens there."""

    phase: Phase
    contacts: AbstractContacts | None
    work: Float[Array, ""] | None
    mode: Mode


@jax.jit  # it is differentiated in two ways, and so is what happens after it: traced once for both
def _fly(
    scheme: AbstractFlow, logged: _Logged, duration: Float[Array, ""], scene: Scene, course: Course
) -> _Arrival:
    events = logged.at(scene.events)
    t = course.time(scene.grid)
    end = events.flow(scheme, t, duration, course.phase, course.mode, logged.mode)
    contacts = events.contacts_after(end, t + duration)
    return _Arrival(end.phase, contacts, end.work, end.mode)


@jax.jit
def _reset(
    logged: _Logged, end: _Arrival, duration: Float[Array, ""], scene: Scene, course: Course
) -> _End:
    """The world after the event that a flight may end with."""
    # What reverse mode keeps of it would pass through the branches, which would copy it.
    happened = jax.checkpoint(_happened, prevent_cse=False)
    arguments = (logged, end, duration, scene, course)
    phase, mode = if_any(logged.happens, happened, _nothing_happened, *arguments)
    return _End(end.phase, phase, mode, duration, end.work)


def _happened(
    logged: _Logged, end: _Arrival, duration: Float[Array, ""], scene: Scene, course: Course
) -> tuple[Phase, Mode]:
    t = course.time(scene.grid) + duration
    events = logged.at(scene.events)
    event = logged.event(events, end.contacts)
    after = events.reset(
        t, end.phase, end.contacts, event, logged.resolution, end.mode, logged.mode
    )
    return after.phase, after.mode


def _nothing_happened(
    logged: _Logged, end: _Arrival, duration: Float[Array, ""], scene: Scene, course: Course
) -> tuple[Phase, Mode]:
    return end.phase, end.mode


def _sum(a: Float[Array, ""] | None, b: Float[Array, ""] | None) -> Float[Array, ""] | None:
    return None if a is None or b is None else a + b
