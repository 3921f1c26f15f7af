"""Detect, then replay: everything that is saved or differentiated.

`advance` finds the flights and impacts of a trajectory; nothing is differentiated through its
search. Here they are taken again from its log, without any search, by a `scan` that can be
differentiated in both modes and that emits what is to be saved. As impacts are rare and cost
more to differentiate than flights, the log cuts the trajectory into arcs of a few flights and
at most one impact. The work is done in blocks of about the square root of the number of arcs;
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
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from ..contact import AtHalfSpaces
from ..math import Vec3, select
from ..math.tangents import keep_rule, sparse_jvp
from .accumulation import Accumulation
from .advance import Clock, Log, Plan, advance, start_clock
from .collect import Flight, Outputs, Wanted, collect
from .frictional import impact_again
from .results import Code
from .sustained import Held, Kind, bounce, fly, landing, reaction, stand
from .system import System


class Blocks(NamedTuple):
    """How the replay is laid out, and what it collects. Static."""

    plan: Plan
    n_blocks: int
    arcs: int  # in a block; a world waits for the next block when it has flown them
    flights: int  # in an arc
    wanted: Wanted


def lay_out(plan: Plan, max_impacts: int, wanted: Wanted) -> Blocks:
    """Blocks for a trajectory of `plan.n_steps` steps and up to `max_impacts` impacts."""
    # Long arcs idle after an impact, short ones look for one too often.
    flights = max(1, math.ceil(math.sqrt(plan.n_steps / max_impacts)))
    # An arc ends when it is full or with an impact: so many suffice.
    n_arcs = math.ceil(plan.n_steps / flights) + max_impacts
    arcs = math.ceil(math.sqrt(n_arcs))
    return Blocks(plan, math.ceil(n_arcs / arcs), arcs, flights, wanted)


class _Start(eqx.Module):
    """The differentiable part of where a block starts."""

    phase: Phase
    remaining: Float[Array, ""]
    accumulation: Accumulation | None

    def on(self, clock: Clock) -> Clock:
        """The clock with these numbers."""
        return dataclasses.replace(clock, remaining=self.remaining, accumulation=self.accumulation)


class _Event(NamedTuple):
    """Which an arc ends with, from the log."""

    number: Int[Array, ""]  # as the log writes it
    impulse: Vec3 | None  # of a frictional impact

    @property
    def happens(self) -> Bool[Array, ""]:
        return self.number >= 0


class _Course(eqx.Module):
    """Where a world is in the replay of a block."""

    phase: Phase
    remaining: Float[Array, ""]  # time left in the step [s]
    step: Int[Array, ""]
    held: Held | None
    accumulation: Accumulation | None


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def final_phase(
    blocks: Blocks, phase: Phase, code: Int[Array, ""], system: System
) -> tuple[Phase, Clock]:
    """The end of a trajectory, by the flat loop alone; its derivative is that of the replay."""
    clock = start_clock(blocks.plan, code, phase, system)
    phase, clock, _ = advance(blocks.plan, phase, clock, system)
    return phase, clock


@partial(final_phase.defjvp, symbolic_zeros=True)
def _(blocks, primals, tangents):
    phase, code, system = primals
    dphase, _, dsystem = tangents

    def end(phase, system):
        phase, clock, _ = replay(blocks, phase, code, system)
        return phase, clock

    return sparse_jvp(end, (phase, system), (dphase, dsystem))


def replay(
    blocks: Blocks, phase: Phase, code: Int[Array, ""], system: System
) -> tuple[Phase, Clock, Outputs]:
    """The end of a trajectory and what is collected along it, with derivatives.

    A world that has more impacts than the layout allows for ends with a result code.

    Returns:
        The phase and the clock at the end, and the outputs of all blocks, stacked.
    """

    @partial(
        jax.checkpoint,
        policy=jax.checkpoint_policies.save_only_these_names("log"),
        prevent_cse=False,
    )
    def block(carry, _):
        phase, clock, saved = carry
        # Only the times on the clock have a derivative; the rest counts.
        start = _Start(phase, clock.remaining, clock.accumulation)
        end, clock, _, outputs = _fly_block(blocks, start, clock, saved, system)
        clock = end.on(clock)
        if outputs.saved is not None:
            saved = saved + jnp.sum(outputs.saved[0], dtype=jnp.int32)
        return (end.phase, clock, saved), outputs

    clock = start_clock(blocks.plan, code, phase, system)
    carry = (phase, clock, jnp.zeros((), jnp.int32))
    (phase, clock, _), outputs = jax.lax.scan(block, carry, None, length=blocks.n_blocks)
    unfinished = (clock.code == Code.successful) & (clock.step < blocks.plan.n_steps)
    code = jnp.where(unfinished, jnp.int32(Code.max_impacts_reached), clock.code)
    return phase, eqx.tree_at(lambda c: c.code, clock, code), outputs


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _fly_block(
    blocks: Blocks, start: _Start, clock: Clock, saved: Int[Array, ""], system: System
) -> tuple[_Start, Clock, Log, Outputs]:
    log = Log.empty(blocks.arcs, blocks.flights, start.remaining, system)
    phase, clock_out, log = advance(blocks.plan, start.phase, start.on(clock), system, log)
    assert log is not None
    outputs = Outputs(None, None)
    if blocks.wanted.anything:
        _, outputs = _replay_block(blocks, log, clock, saved, start, system)
    return _Start(phase, clock_out.remaining, clock_out.accumulation), clock_out, log, outputs


@partial(_fly_block.defjvp, symbolic_zeros=True)
def _(blocks, primals, tangents):
    start, clock, saved, system = primals
    dstart, _, _, dsystem = tangents
    end, clock_out, log, outputs = keep_rule(partial(_fly_block, blocks))(*primals)
    # Reverse mode keeps the log of every block, so that it never searches again.
    log = jax.tree.map(lambda leaf: checkpoint_name(leaf, "log"), jax.lax.stop_gradient(log))
    _, (dend, doutputs) = sparse_jvp(
        partial(_replay_block, blocks, log, clock, saved), (start, system), (dstart, dsystem)
    )
    primal_out = (end, clock_out, log, outputs)
    return primal_out, (dend, *jax.tree.map(_no_tangent, (clock_out, log)), doutputs)


def _no_tangent(leaf: Array) -> Array | np.ndarray:
    if jnp.issubdtype(leaf.dtype, jnp.floating):
        return jnp.zeros_like(leaf)
    return np.zeros(leaf.shape, jax.dtypes.float0)


def _replay_block(
    blocks: Blocks,
    log: Log,
    clock: Clock,
    saved: Int[Array, ""],
    start: _Start,
    system: System,
) -> tuple[_Start, Outputs]:
    """Flies the arcs of a block from its log."""
    plan, collects = blocks.plan, blocks.wanted.anything

    def seen(course: _Course, flown, event, duration):
        if not collects:
            return None
        begin = plan.step_size(course.step, course.remaining) - course.remaining
        return Flight(flown, event, course.step, begin, duration, course.phase, course.held)

    @partial(jax.checkpoint, prevent_cse=False)
    def fly_step(course: _Course, flown):
        """A flight to the end of its step."""
        after, _ = fly(plan.flow, course.remaining, course.phase, course.held, system)
        step = course.step + 1
        size = plan.step_size(step, course.remaining)
        following = _Course(after, size, step, course.held, course.accumulation)
        no_event = jnp.zeros_like(flown)
        return select(flown, following, course), seen(course, flown, no_event, course.remaining)

    @partial(jax.checkpoint, prevent_cse=False)
    def fly_last(course: _Course, flown, duration, event: _Event):
        """The last flight of an arc that is full or ends with an event."""
        eventful = event.happens
        planned = jnp.where(eventful, duration, course.remaining)
        end = _fly_and_meet(plan, planned, event, course, system)
        step = jnp.where(eventful, course.step, course.step + 1)
        size = plan.step_size(step, course.remaining)
        left = jnp.where(eventful, course.remaining - end.duration, size)
        following = _Course(end.after, left, step, end.held, end.accumulation)
        struck = (end.before, end.after) if blocks.wanted.impacts else None
        return select(flown, following, course), (
            seen(course, flown, eventful, end.duration),
            struck,
        )

    def arc(course, entry):
        flights, duration, event = entry
        ended = event.happens | (flights == blocks.flights)
        order = jnp.arange(blocks.flights - 1, dtype=jnp.int32)
        course, steps = jax.lax.scan(fly_step, course, order < flights - ended.astype(jnp.int32))
        course, (last, struck) = fly_last(course, ended, duration, event)
        return course, (steps, last, struck)

    course = _Course(start.phase, start.remaining, clock.step, clock.held, start.accumulation)
    events = _Event(log.event, log.impulse)
    course, flown = jax.lax.scan(arc, course, (log.flights, log.duration, events))
    outputs = Outputs(None, None)
    if collects:
        outputs = collect(blocks.wanted, plan.flow, log, saved, flown, system)
    return _Start(course.phase, course.remaining, course.accumulation), outputs


class _End(NamedTuple):
    """Of a flight and the event it may end with."""

    before: Phase
    after: Phase
    duration: Float[Array, ""]  # [s]
    held: Held | None  # from then on
    accumulation: Accumulation | None


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _fly_and_meet(
    plan: Plan,
    planned: Float[Array, ""],
    event: _Event,
    course: _Course,
    system: System,
) -> _End:
    """The end of a flight, before and after the event it may end with.

    The duration of a flight that ends with an event is the root that was located of the gap,
    or of the force for a release: its value is the planned one, its derivative that of the
    root.
    """
    before, _ = fly(plan.flow, planned, course.phase, course.held, system)
    return _End(before, *_meet(plan, before, planned, event, course, system))


@partial(_fly_and_meet.defjvp, symbolic_zeros=True)
def _(plan, primals, tangents):
    """The implicit function theorem: d(duration) = -dPhi / (dPhi/d duration) at fixed duration.

    It is evaluated at the duration that the function itself returns, so that higher
    derivatives follow from this one.
    """
    planned, event, course, system = primals
    dplanned, _, dcourse, dsystem = tangents
    held = course.held
    duration = keep_rule(partial(_fly_and_meet, plan))(*primals).duration

    def end(duration, phase, system):
        return fly(plan.flow, duration, phase, held, system)[0]

    def root(before, system):
        return _root(before, event.number, held, system)

    def meet(before, duration, course, system):
        return _meet(plan, before, duration, event, course, system)

    at_duration = partial(end, duration)
    before, dbefore = sparse_jvp(at_duration, (course.phase, system), (dcourse.phase, dsystem))
    of_duration = lambda t: end(t, course.phase, system)  # noqa: E731
    _, motion = jax.jvp(of_duration, (duration,), (jnp.ones_like(duration),))
    _, change = sparse_jvp(root, (before, system), (dbefore, dsystem))
    _, rate = jax.jvp(lambda end: root(end, system), (before,), (motion,))

    moving = event.happens & (rate != 0)
    if isinstance(dplanned, SymbolicZero):
        dplanned = jnp.zeros_like(planned)
    dduration = jnp.where(event.happens, -change / jnp.where(moving, rate, 1.0), dplanned)
    dbefore = jax.tree.map(lambda d, rate: d + rate * dduration, dbefore, motion)
    met, dmet = sparse_jvp(
        meet, (before, duration, course, system), (dbefore, dduration, dcourse, dsystem)
    )
    return _End(before, *met), _End(dbefore, *dmet)


def _root(end: Phase, index: Int[Array, ""], held: Held | None, system: System) -> Array:
    """What is zero at an event: the gap of its contact [m]; at a release its force [N]."""
    if system.contacts is None:
        return jnp.ones_like(end.position.x[0])
    values = system.contacts.find(end).gap
    contact = _contact(index, values)
    if held is not None:
        force, _ = reaction(end, held, system)
        values = jnp.where(_kind(index, values) == Kind.RELEASE, force, values)
    return jnp.sum(jnp.where(contact, values, 0.0))


def _meet(
    plan: Plan,
    end: Phase,
    duration: Float[Array, ""],
    event: _Event,
    course: _Course,
    system: System,
) -> tuple[Phase, Float[Array, ""], Held | None, Accumulation | None]:
    """`_End` from the end of the flight on."""
    held, accumulation = course.held, course.accumulation
    if system.contacts is None:
        return end, duration, None, None
    contacts = system.contacts.find(end)
    contact = _contact(event.number, contacts.gap)
    if event.impulse is not None:
        return impact_again(end, contact, event.impulse, system), duration, None, None
    motion = contacts.kinematics(end, system.inertial)
    if held is None or accumulation is None:
        impulse = system.frictionless.normal_impulse(motion.normal_velocity, motion.inverse_mass)
        return contacts.apply_impulse(end, impulse, contact), duration, None, None
    assert isinstance(contacts, AtHalfSpaces)
    kind = _kind(event.number, contacts.gap)
    struck = contact & (kind != Kind.RELEASE)
    impact = jnp.any(struck)
    bounced, kept = bounce(end, contacts, motion, struck, held, system)
    lands, acceleration = landing(bounced, contacts, struck, kept, plan.tolerance, system)
    lands &= kind == Kind.LANDING  # logged, lest round-off decides otherwise
    after = stand(bounced, contacts, lands, kept, system)
    moment = plan.time(course.step, course.remaining) + duration
    accumulated = accumulation.after_impact(
        moment, bounced, contacts, motion, struck, lands, acceleration, plan.tolerance, system
    )
    return (
        select(impact, after, end),
        duration,
        select(impact, kept | lands, held & ~contact),
        select(impact, accumulated, accumulation),
    )


def _contact(index: Int[Array, ""], like: Array) -> Held:
    """The contact of a logged event; none for -1."""
    order = jnp.arange(like.size, dtype=jnp.int32).reshape(like.shape)
    return (order == index % like.size) & (index >= 0)


def _kind(index: Int[Array, ""], like: Array) -> Int[Array, ""]:
    return index // like.size
