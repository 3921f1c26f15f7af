"""Detect, then replay: everything that is saved or differentiated.

`advance` finds the segments of a trajectory; nothing is differentiated through its search.
Here the segments are flown again from its log, without any search, by a `scan` that can be
differentiated in both modes and that emits what is to be saved. The work is done in blocks of
about the square root of the number of segments; reverse mode keeps the state at the start of
each block and replays one block at a time, so its memory grows like that square root.
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
    segments: int  # in a block
    capacity: int  # impacts that a block can log; a world waits for the next block when full
    save_steps: tuple[int, ...]  # the steps in which the times to save fall,
    save_offsets: tuple[float, ...]  # and how far into them [s]
    record: bool  # whether to collect the impacts

    @property
    def saves(self) -> int:
        """The largest number of times to save that one block can meet."""
        steps = np.asarray(self.save_steps)
        first = np.searchsorted(steps, steps)
        last = np.searchsorted(steps, steps + self.segments, side="right")
        return int((last - first).max(initial=0))


def lay_out(plan: Plan, max_impacts: int, saves: list[tuple[int, float]], record: bool) -> Blocks:
    """Blocks for a trajectory of `plan.n_steps` steps and up to `max_impacts` impacts."""
    segments = max(1, math.ceil(math.sqrt(plan.n_steps + max_impacts)))
    capacity = min(segments, max_impacts, 16 + segments // 32)
    # A block ends with its last segment or with a full log: so many suffice.
    n_blocks = -(-plan.n_steps // segments) + -(-max_impacts // capacity)
    steps, offsets = zip(*saves, strict=True) if saves else ((), ())
    return Blocks(plan, n_blocks, segments, capacity, steps, offsets, record)


class Impact(eqx.Module):
    """Impacts along a trajectory; in a block, arrays have a leading axis of its capacity."""

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
    phase, clock_out, log = advance(
        blocks.plan, start.phase, clock_in, system, blocks.segments, blocks.capacity
    )
    outputs = Outputs(None, None)
    if blocks.save_steps or blocks.record:
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
    """Flies the segments of a block from its log."""
    plan = blocks.plan
    index = jnp.arange(blocks.segments, dtype=jnp.int32)
    match = log.segment[None, :] == index[:, None]
    is_impact = jnp.any(match, axis=1)
    duration = jnp.sum(jnp.where(match, log.duration[None, :], 0.0), axis=1)
    contact = jnp.max(jnp.where(match, log.contact[None, :], 0), axis=1)
    is_flown = index < log.segments
    # Segments that end a step, before and including each one, give the step it falls into.
    step = first_step + jnp.cumsum(is_flown & ~is_impact, dtype=jnp.int32)
    collect = bool(blocks.save_steps) or blocks.record

    def segment(carry, inputs):
        phase, remaining = carry
        flown, impact, duration, contact, next_step = inputs
        before, after, lasted = _fly_segment(
            plan, jnp.where(impact, duration, remaining), impact, contact, phase, system
        )
        next_remaining = jnp.where(impact, remaining - lasted, plan.step_size(next_step, remaining))
        carry = select(flown, (after, next_remaining), carry)
        return carry, ((phase, remaining, lasted, before, after) if collect else None)

    carry, flown = jax.lax.scan(
        jax.checkpoint(segment, prevent_cse=False),
        (start.phase, start.remaining),
        (is_flown, is_impact, duration, contact, step),
    )
    outputs = Outputs(None, None)
    if collect:
        started_in = jnp.concatenate([first_step[None], step[:-1]])
        outputs = _collect(blocks, log, saved, started_in, is_flown, is_impact, flown, system)
    return _Start(*carry), outputs


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _fly_segment(
    plan: Plan,
    planned: Float[Array, ""],
    impact: Bool[Array, ""],
    contact: Int[Array, ""],
    phase: Phase,
    system: System,
) -> tuple[Phase, Phase, Float[Array, ""]]:
    """The end of a segment, before and after the impact it may end with, and its duration.

    The duration of a segment that ends with an impact is the root of gap(flow(duration)) = 0
    that was located: its value is the planned one, its derivative that of the root.
    """
    before, _ = plan.flow.step(planned, phase, system.inertial, system.gravity)
    _, after = _touch(before, impact, contact, system)
    return before, after, planned


@partial(_fly_segment.defjvp, symbolic_zeros=True)
def _(plan, primals, tangents):
    """The implicit function theorem: d(duration) = -dPhi / (dPhi/d duration) at fixed duration.

    It is evaluated at the duration that the function itself returns, so that higher
    derivatives follow from this one. What the shift of the duration adds to the end is its
    rate there; so the contact is differentiated once along the change at fixed duration and
    once along that rate, and only the former is linear in the tangents and transposed in
    reverse mode.
    """
    planned, impact, contact, phase, system = primals
    dplanned, _, _, dphase, dsystem = tangents
    _, _, duration = keep_rule(partial(_fly_segment, plan))(*primals)

    def fly(duration, phase, system):
        return plan.flow.step(duration, phase, system.inertial, system.gravity)[0]

    def touch(before, system):
        return _touch(before, impact, contact, system)

    at_duration = partial(fly, duration)
    before, dbefore = sparse_jvp(at_duration, (phase, system), (dphase, dsystem))
    _, motion = jax.jvp(lambda t: fly(t, phase, system), (duration,), (jnp.ones_like(duration),))
    (_, after), (dgap, dafter) = sparse_jvp(touch, (before, system), (dbefore, dsystem))
    _, (rate, after_motion) = jax.jvp(lambda end: touch(end, system), (before,), (motion,))

    moving = impact & (rate != 0)
    if isinstance(dplanned, SymbolicZero):
        dplanned = jnp.zeros_like(planned)
    dduration = jnp.where(impact, -dgap / jnp.where(moving, rate, 1.0), dplanned)

    def shift(d, rate):
        return jax.tree.map(lambda d, rate: d + rate * dduration, d, rate)

    tangents_out = (shift(dbefore, motion), shift(dafter, after_motion), dduration)
    return (before, after, duration), tangents_out


def _touch(
    end: Phase, impact: Bool[Array, ""], contact: Int[Array, ""], system: System
) -> tuple[Float[Array, ""], Phase]:
    """The gap of a contact, and the phase after the impact there, if it is one."""
    if system.contacts is None:
        return jnp.ones_like(end.position.x[0]), end
    contacts = system.contacts.find(end)
    motion = kinematics(contacts, end, system.inertial)
    impulse = system.contact_law.normal_impulse(motion.normal_velocity, motion.inverse_mass)
    chosen = _mask(contact, impulse)
    gap = jnp.sum(jnp.where(chosen, contacts.gap, 0.0))
    return gap, apply_impulse(end, contacts, impulse, chosen & impact)


def _mask(contact: Int[Array, ""], like: Array) -> Bool[Array, "n_bodies n_obstacles"]:
    return jnp.arange(like.size, dtype=jnp.int32).reshape(like.shape) == contact


def _collect(
    blocks: Blocks, log: Log, saved, step, is_flown, is_impact, flown, system: System
) -> Outputs:
    """Picks the states to save and the impacts out of the segments of a block."""
    plan = blocks.plan
    phase, remaining, lasted, before, after = flown
    begin = plan.step_size(step, remaining) - remaining  # time since the start of the step
    saves = impacts = None
    if blocks.save_steps:
        n = len(blocks.save_steps)
        wanted = saved + jnp.arange(blocks.saves, dtype=jnp.int32)
        clipped = jnp.minimum(wanted, n - 1)
        in_step = jnp.asarray(blocks.save_steps, jnp.int32)[clipped][:, None]
        offset = jnp.asarray(blocks.save_offsets, begin.dtype)[clipped]
        # The segment in which a time falls is the last that begins before it. What earlier
        # blocks did not save falls after the start of this one, whatever round-off says.
        index = jnp.arange(blocks.segments, dtype=jnp.int32)
        begun = (begin[None, :] <= offset[:, None]) | (index == 0)[None, :]
        inside = is_flown[None, :] & (step[None, :] == in_step) & begun
        at = jnp.max(jnp.where(inside, index[None, :], -1), axis=1)
        # An impact at the end of the block leaves the rest of its step to the next one.
        cut = (at + 1 == log.segments) & is_impact[at] & (offset >= begin[at] + lasted[at])
        valid = (at >= 0) & (wanted < n) & ~cut
        at = jnp.maximum(at, 0)
        state = jax.tree.map(lambda leaf: leaf[at], phase)
        if any(blocks.save_offsets):
            flight = jnp.where(valid, jnp.maximum(offset - begin[at], 0.0), 0.0)

            def partway(duration, phase):
                return plan.flow.step(duration, phase, system.inertial, system.gravity)[0]

            state = jax.vmap(partway)(flight, state)
        saves = (valid, state)
    if blocks.record:
        at = jnp.maximum(log.segment, 0)
        valid = jnp.arange(blocks.capacity, dtype=jnp.int32) < log.impacts
        before, after = jax.tree.map(lambda leaf: leaf[at], (before, after))
        impacts = Impact(valid, step[at], (begin + lasted)[at], log.contact, before, after)
    return Outputs(saves, impacts)


def compact(valid: Bool[Array, " entries"], entries, n: int):
    """The first n valid ones of a sequence of entries, and how many there are.

    Slots beyond hold an arbitrary entry.
    """
    rank = jnp.cumsum(valid, dtype=jnp.int32)
    at = jnp.searchsorted(rank, jnp.arange(1, n + 1, dtype=jnp.int32))
    at = jnp.minimum(at, valid.shape[0] - 1)
    return jax.tree.map(lambda leaf: leaf[at], entries), rank[-1]
