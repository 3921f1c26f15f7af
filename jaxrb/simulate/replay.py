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
from ..contact import apply_impulse, kinematics
from ..math import select
from ..math.tangents import keep_rule, sparse_jvp
from .advance import Clock, Log, Plan, advance, start_clock
from .results import Code
from .system import System


class Blocks(NamedTuple):
    """How the replay is laid out, and what it collects. Static."""

    plan: Plan
    n_blocks: int
    arcs: int  # in a block; a world waits for the next block when it has flown them
    flights: int  # in an arc
    save_steps: tuple[int, ...]  # the steps in which the times to save fall,
    save_offsets: tuple[float, ...]  # and how far into them [s]
    record: bool  # whether to collect the impacts

    @property
    def collects(self) -> bool:
        return bool(self.save_steps) or self.record

    @property
    def saves(self) -> int:
        """The largest number of times to save that one block can meet."""
        steps = np.asarray(self.save_steps)
        first = np.searchsorted(steps, steps)
        last = np.searchsorted(steps, steps + self.arcs * self.flights, side="right")
        return int((last - first).max(initial=0))


def lay_out(plan: Plan, max_impacts: int, saves: list[tuple[int, float]], record: bool) -> Blocks:
    """Blocks for a trajectory of `plan.n_steps` steps and up to `max_impacts` impacts."""
    # Long arcs idle after an impact, short ones look for one too often.
    flights = max(1, math.ceil(math.sqrt(plan.n_steps / max_impacts)))
    # An arc ends when it is full or with an impact: so many suffice.
    n_arcs = math.ceil(plan.n_steps / flights) + max_impacts
    arcs = math.ceil(math.sqrt(n_arcs))
    steps, offsets = zip(*saves, strict=True) if saves else ((), ())
    return Blocks(plan, math.ceil(n_arcs / arcs), arcs, flights, steps, offsets, record)


class Impact(eqx.Module):
    """Impacts along a trajectory; in a block, arrays have a leading axis over its arcs."""

    valid: Bool[Array, ""]
    step: Int[Array, ""]
    offset: Float[Array, ""]  # time since the start of the step [s]
    contact: Int[Array, ""]
    before: Phase
    after: Phase


class Outputs(eqx.Module):
    """What one block collects: the states at the times to save, and the impacts."""

    saved: tuple[Bool[Array, " saves"], Phase] | None
    impacts: Impact | None


class _Flight(eqx.Module):
    """A flight that may be looked at."""

    flown: Bool[Array, ""]  # or skipped
    impact: Bool[Array, ""]  # whether it ended with one
    step: Int[Array, ""]
    begin: Float[Array, ""]  # since the start of the step [s]
    duration: Float[Array, ""]  # [s]
    phase: Phase  # at its start


class _Start(eqx.Module):
    """The differentiable part of where a block starts."""

    phase: Phase
    remaining: Float[Array, ""]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def final_phase(
    blocks: Blocks, phase: Phase, code: Int[Array, ""], system: System
) -> tuple[Phase, Clock]:
    """The end of a trajectory, by the flat loop alone; its derivative is that of the replay."""
    clock = start_clock(blocks.plan, code, phase.position.x[0])
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
        # Only the time left in the step has a derivative; the rest of the clock counts.
        start = _Start(phase, clock.remaining)
        end, clock, _, outputs = _fly_block(blocks, start, clock, saved, system)
        clock = eqx.tree_at(lambda c: c.remaining, clock, end.remaining)
        if outputs.saved is not None:
            saved = saved + jnp.sum(outputs.saved[0], dtype=jnp.int32)
        return (end.phase, clock, saved), outputs

    clock = start_clock(blocks.plan, code, phase.position.x[0])
    carry = (phase, clock, jnp.zeros((), jnp.int32))
    (phase, clock, _), outputs = jax.lax.scan(block, carry, None, length=blocks.n_blocks)
    unfinished = (clock.code == Code.successful) & (clock.step < blocks.plan.n_steps)
    code = jnp.where(unfinished, jnp.int32(Code.max_impacts_reached), clock.code)
    return phase, eqx.tree_at(lambda c: c.code, clock, code), outputs


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _fly_block(
    blocks: Blocks, start: _Start, clock: Clock, saved: Int[Array, ""], system: System
) -> tuple[_Start, Clock, Log, Outputs]:
    clock_in = eqx.tree_at(lambda c: c.remaining, clock, start.remaining)
    log = Log.empty(blocks.arcs, blocks.flights, start.remaining)
    phase, clock_out, log = advance(blocks.plan, start.phase, clock_in, system, log)
    assert log is not None
    outputs = Outputs(None, None)
    if blocks.collects:
        _, outputs = _replay_block(blocks, log, clock.step, saved, start, system)
    return _Start(phase, clock_out.remaining), clock_out, log, outputs


@partial(_fly_block.defjvp, symbolic_zeros=True)
def _(blocks, primals, tangents):
    start, clock, saved, system = primals
    dstart, _, _, dsystem = tangents
    end, clock_out, log, outputs = keep_rule(partial(_fly_block, blocks))(*primals)
    # Reverse mode keeps the log of every block, so that it never searches again.
    log = jax.tree.map(lambda leaf: checkpoint_name(leaf, "log"), jax.lax.stop_gradient(log))
    _, (dend, doutputs) = sparse_jvp(
        partial(_replay_block, blocks, log, clock.step, saved), (start, system), (dstart, dsystem)
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
    first_step: Int[Array, ""],
    saved: Int[Array, ""],
    start: _Start,
    system: System,
) -> tuple[_Start, Outputs]:
    """Flies the arcs of a block from its log."""
    plan, collects = blocks.plan, blocks.collects

    def seen(carry, flown, impact, duration):
        phase, remaining, step = carry
        begin = plan.step_size(step, remaining) - remaining
        return _Flight(flown, impact, step, begin, duration, phase) if collects else None

    @partial(jax.checkpoint, prevent_cse=False)
    def fly_step(carry, flown):
        """A flight to the end of its step."""
        phase, remaining, step = carry
        after, _ = plan.flow.step(remaining, phase, system.inertial, system.gravity)
        following = (after, plan.step_size(step + 1, remaining), step + 1)
        no_impact = jnp.zeros_like(flown)
        return select(flown, following, carry), seen(carry, flown, no_impact, remaining)

    @partial(jax.checkpoint, prevent_cse=False)
    def fly_last(carry, flown, impact, duration, contact):
        """The last flight of an arc that is full or ends with an impact."""
        phase, remaining, step = carry
        planned = jnp.where(impact, duration, remaining)
        before, after, lasted = _fly_and_strike(plan, planned, impact, contact, phase, system)
        left = jnp.where(impact, remaining - lasted, plan.step_size(step + 1, remaining))
        following = (after, left, jnp.where(impact, step, step + 1))
        struck = (before, after) if blocks.record else None
        return select(flown, following, carry), (seen(carry, flown, impact, lasted), struck)

    def arc(carry, entry):
        flights, duration, contact = entry
        impact = contact >= 0
        ended = impact | (flights == blocks.flights)
        order = jnp.arange(blocks.flights - 1, dtype=jnp.int32)
        carry, steps = jax.lax.scan(fly_step, carry, order < flights - ended.astype(jnp.int32))
        carry, (last, struck) = fly_last(carry, ended, impact, duration, contact)
        return carry, (steps, last, struck)

    carry = (start.phase, start.remaining, first_step)
    carry, flown = jax.lax.scan(arc, carry, (log.flights, log.duration, log.contact))
    phase, remaining, _ = carry
    outputs = _collect(blocks, log, saved, flown, system) if collects else Outputs(None, None)
    return _Start(phase, remaining), outputs


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _fly_and_strike(
    plan: Plan,
    planned: Float[Array, ""],
    impact: Bool[Array, ""],
    contact: Int[Array, ""],
    phase: Phase,
    system: System,
) -> tuple[Phase, Phase, Float[Array, ""]]:
    """The end of a flight, before and after the impact it may end with, and its duration.

    The duration of a flight that ends with an impact is the root of gap(flow(duration)) = 0
    that was located: its value is the planned one, its derivative that of the root.
    """
    before, _ = plan.flow.step(planned, phase, system.inertial, system.gravity)
    return before, _strike(before, impact, contact, system), planned


@partial(_fly_and_strike.defjvp, symbolic_zeros=True)
def _(plan, primals, tangents):
    """The implicit function theorem: d(duration) = -dPhi / (dPhi/d duration) at fixed duration.

    It is evaluated at the duration that the function itself returns, so that higher
    derivatives follow from this one.
    """
    planned, impact, contact, phase, system = primals
    dplanned, _, _, dphase, dsystem = tangents
    _, _, duration = keep_rule(partial(_fly_and_strike, plan))(*primals)

    def fly(duration, phase, system):
        return plan.flow.step(duration, phase, system.inertial, system.gravity)[0]

    def gap(before, system):
        return _gap(before, contact, system)

    def strike(before, system):
        return _strike(before, impact, contact, system)

    at_duration = partial(fly, duration)
    before, dbefore = sparse_jvp(at_duration, (phase, system), (dphase, dsystem))
    _, motion = jax.jvp(lambda t: fly(t, phase, system), (duration,), (jnp.ones_like(duration),))
    _, dgap = sparse_jvp(gap, (before, system), (dbefore, dsystem))
    _, rate = jax.jvp(lambda end: gap(end, system), (before,), (motion,))

    moving = impact & (rate != 0)
    if isinstance(dplanned, SymbolicZero):
        dplanned = jnp.zeros_like(planned)
    dduration = jnp.where(impact, -dgap / jnp.where(moving, rate, 1.0), dplanned)
    dbefore = jax.tree.map(lambda d, rate: d + rate * dduration, dbefore, motion)
    after, dafter = sparse_jvp(strike, (before, system), (dbefore, dsystem))
    return (before, after, duration), (dbefore, dafter, dduration)


def _gap(end: Phase, contact: Int[Array, ""], system: System) -> Float[Array, ""]:
    """The gap of a contact [m]."""
    if system.contacts is None:
        return jnp.ones_like(end.position.x[0])
    gaps = system.contacts.find(end).gap
    return jnp.sum(jnp.where(_chosen(contact, gaps), gaps, 0.0))


def _strike(end: Phase, impact: Bool[Array, ""], contact: Int[Array, ""], system: System) -> Phase:
    """The phase after the impact at a contact, if it is one."""
    if system.contacts is None:
        return end
    contacts = system.contacts.find(end)
    motion = kinematics(contacts, end, system.inertial)
    impulse = system.contact_law.normal_impulse(motion.normal_velocity, motion.inverse_mass)
    return apply_impulse(end, contacts, impulse, _chosen(contact, impulse) & impact)


def _chosen(contact: Int[Array, ""], like: Array) -> Bool[Array, "n_bodies n_contacts"]:
    return jnp.arange(like.size, dtype=jnp.int32).reshape(like.shape) == contact


def _collect(blocks: Blocks, log: Log, saved, flown, system: System) -> Outputs:
    """Picks the states to save and the impacts out of the flights of a block."""
    steps, last, struck = flown
    saves = impacts = None
    if blocks.save_steps:
        # One sequence: of each arc the flights to the ends of steps, then the last.
        flights = jax.tree.map(
            lambda a, b: jnp.concatenate([a, b[:, None]], axis=1).reshape(-1, *b.shape[1:]),
            steps,
            last,
        )
        saves = _states_to_save(blocks, saved, flights, system)
    if blocks.record:
        before, after = struck
        time = last.begin + last.duration
        impacts = Impact(log.contact >= 0, last.step, time, log.contact, before, after)
    return Outputs(saves, impacts)


def _states_to_save(blocks: Blocks, saved, flights: _Flight, system: System):
    """Which of the times to save, from number `saved` on, fall into a block; the states."""
    n = len(blocks.save_steps)
    wanted = saved + jnp.arange(blocks.saves, dtype=jnp.int32)
    clipped = jnp.minimum(wanted, n - 1)
    in_step = jnp.asarray(blocks.save_steps, jnp.int32)[clipped]
    offset = jnp.asarray(blocks.save_offsets, flights.begin.dtype)[clipped]

    # The flight in which a time falls is the last that begins before it. What earlier blocks
    # did not save falls after the start of this one, whatever round-off says.
    index = jnp.arange(flights.flown.shape[0], dtype=jnp.int32)
    flown = jnp.where(flights.flown, index, -1)
    first, last = jnp.argmax(flights.flown).astype(jnp.int32), jnp.max(flown)

    def flight_of(step, offset):
        begun = (flights.begin <= offset) | (index == first)
        return jnp.max(jnp.where((flights.step == step) & begun, flown, -1))

    at = jax.vmap(flight_of)(in_step, offset)
    found = at >= 0
    at = jnp.maximum(at, 0)
    flight = jax.tree.map(lambda leaf: leaf[at], flights)
    # An impact at the end of the block leaves the rest of its step to the next one.
    cut = (at == last) & flight.impact & (offset >= flight.begin + flight.duration)
    valid = found & (wanted < n) & ~cut

    state = flight.phase
    if any(blocks.save_offsets):

        def partway(duration, phase):
            return blocks.plan.flow.step(duration, phase, system.inertial, system.gravity)[0]

        elapsed = jnp.where(valid, jnp.maximum(offset - flight.begin, 0.0), 0.0)
        state = jax.vmap(partway)(elapsed, state)
    return valid, state


def compact(valid: Bool[Array, " entries"], entries, n: int):
    """The first n valid ones of a sequence of entries, and how many there are.

    Slots beyond hold an arbitrary entry.
    """
    rank = jnp.cumsum(valid, dtype=jnp.int32)
    at = jnp.searchsorted(rank, jnp.arange(1, n + 1, dtype=jnp.int32))
    at = jnp.minimum(at, valid.shape[0] - 1)
    return jax.tree.map(lambda leaf: leaf[at], entries), rank[-1]
