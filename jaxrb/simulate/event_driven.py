"""Event-driven methods: free flight between impacts that are located to round-off."""

from __future__ import annotations

import abc
import dataclasses
import math
from functools import partial
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._validate import one_of, positive_count, positive_number
from ..bodies import Phase, State
from ..contact.single import at
from ..flows import AbstractFlow, LieVariational
from .accumulation import remaining_bounces
from .advance import Clock, Plan
from .collect import Impact, Wanted, compact
from .observables import energy
from .replay import final_phase, lay_out, replay
from .results import Code, to_result
from .saving import Impacts, SaveAt, Solution, Stats
from .system import System, body_order, build, initial_code, partners, to_state
from .world import World


class AbstractMethod(eqx.Module):
    """A way to simulate a world."""

    @abc.abstractmethod
    def solve(
        self,
        world: World,
        state: State,
        t0: float,
        t1: float,
        save: SaveAt,
        progress: bool = False,
    ) -> Solution:
        """The trajectory from t0 to t1, for one world; pure and traceable.

        With `progress` it says how far it is, by `progress.report`.
        """

    @abc.abstractmethod
    def n_steps(self, t0: float, t1: float) -> int:
        """From t0 to t1."""


class EventDriven(AbstractMethod):
    """Flies a world step by step, locates every impact to round-off and resolves it there.

    Several impacts in a step are taken in the order of their times; of those at one time, whose
    gaps are closed to the tolerance, the first comes first (those with obstacles by body and
    obstacle, then those of pairs by the lower and the higher index), and this is repeated until
    no contact closes. The contact of an accepted impact is on the admissible side,
    0 <= gap <= tolerance.

    Attributes:
        flow: the scheme of the flight.
        dt: step size [s]. An impact interrupts a step, whose rest is flown after it.
        tolerance: the largest gap at an accepted impact [m]; by default the round-off of the
            gap, 8 eps times the lengths it is computed from.
        max_impacts_per_step: more end the simulation with a result code: `zeno` if the last
            flight took at most 1 % of the longest of the step, else `max_impacts_reached`. By
            default 64; 4096 with on_zeno="rest", where those that accumulate may be more.
        max_impacts: capacity, for the whole trajectory, of the log from which trajectories
            are differentiated, saved along the way, or recorded; a full log ends the
            simulation with `max_impacts_reached`. By default one per body and 64 steps, and
            `max_impacts_per_step` more; with on_zeno="rest", 256 per body more. A final state
            without derivatives needs no log and has no such limit.
        on_zeno: where impacts accumulate, "stop" ends the simulation with the code `zeno`;
            "rest" goes on in sustained frictionless contact, once a bounce is not higher than
            the tolerance of the gap, until the contact's force would have to pull. The flow
            is then of second order, and a step costs some ten times as much. Solids stand on
            spheres, ellipsoids and corners: boxes, polyhedra and capsules have a contact at
            each corner or end; cylinders and cones are refused.
        detect: "end" looks for penetration at the end of each trial step, as Tran and Leok
            do; "interior" also finds contacts that open again within the step.
    """

    flow: AbstractFlow = eqx.field(static=True)
    dt: float = eqx.field(static=True)
    tolerance: float | None = eqx.field(static=True)
    max_impacts_per_step: int = eqx.field(static=True)
    max_impacts: int | None = eqx.field(static=True)
    on_zeno: str = eqx.field(static=True)
    detect: str = eqx.field(static=True)

    def __init__(
        self,
        flow: AbstractFlow,
        dt: float,
        tolerance: float | None = None,
        max_impacts_per_step: int | None = None,
        max_impacts: int | None = None,
        on_zeno: Literal["stop", "rest"] = "stop",
        detect: Literal["end", "interior"] = "end",
    ):
        if not isinstance(flow, AbstractFlow):
            raise ValueError(f"EventDriven.flow must be a flow; got {flow!r}.")
        self.flow = flow
        self.dt = positive_number(dt, "dt")
        self.tolerance = None if tolerance is None else positive_number(tolerance, "tolerance")
        self.max_impacts = (
            None if max_impacts is None else positive_count(max_impacts, "max_impacts")
        )
        self.on_zeno = one_of(on_zeno, ("stop", "rest"), "on_zeno")
        if max_impacts_per_step is None:
            max_impacts_per_step = 4096 if on_zeno == "rest" else 64
        self.max_impacts_per_step = positive_count(max_impacts_per_step, "max_impacts_per_step")
        self.detect = one_of(detect, ("end", "interior"), "detect")

    def solve(self, world, state, t0, t1, save, progress=False):
        plan = self._plan(t0, t1)._replace(progress=progress)
        state = _for_flow(self.flow, world, state)
        if plan.rest and world.frictional:
            raise ValueError(
                'on_zeno="rest" is sustained contact without friction: use Frictionless laws '
                'in World, or on_zeno="stop".'
            )
        if plan.rest and world.pairs:
            raise ValueError(
                'on_zeno="rest" is sustained contact with obstacles alone: give World.pairs=() if '
                'bodies do not touch each other, or use on_zeno="stop".'
            )
        system, phase = build(world, state, standing=plan.rest)
        code = initial_code(world, state, system, phase)
        times = save.times(t0, t1, self.dt, plan.n_steps)
        wanted = Wanted(*_schedule(times, t0, t1, plan), impacts=save.impacts > 0)
        max_impacts = self.max_impacts
        if max_impacts is None:
            n_bodies = len(world.bodies)
            more = 256 * n_bodies if plan.rest else self.max_impacts_per_step
            max_impacts = plan.n_steps * n_bodies // 64 + more
        blocks = lay_out(plan, max_impacts, wanted)

        saved = impacts = None
        if wanted.anything:
            final, clock, outputs = replay(blocks, phase, code, system)
            flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), outputs)
            saved, impacts = flat.saved, flat.impacts
        else:
            final, clock = final_phase(blocks, phase, code, system)
        trajectory = _trajectory(saved, final, len(wanted.steps), len(times))
        elapsed = plan.step_size(clock.step, clock.remaining) - clock.remaining
        elapsed = jnp.where(clock.step < plan.n_steps, elapsed, 0.0)
        started = t0 + self.dt * clock.step.astype(elapsed.dtype)
        reached = jnp.where(clock.step < plan.n_steps, started + elapsed, t1)
        end = to_state(system, world, final)
        return Solution(
            ts=jnp.asarray(times, state.position.dtype),
            states=jax.vmap(partial(to_state, system, world))(trajectory),
            final=end,
            result=to_result(clock.code),
            impacts=_impacts(impacts, clock, save.impacts, t0, self.dt, system, world),
            accumulation_time=_accumulation_time(final, clock, reached - t0, t0, system, world),
            stats=Stats(
                clock.step,
                clock.evaluations,
                reached.astype(state.position.dtype),
                jnp.stack([energy(world, state), energy(world, end)]),
            ),
        )

    def n_steps(self, t0, t1):
        return self._plan(t0, t1).n_steps

    def _plan(self, t0: float, t1: float) -> Plan:
        # A remainder that is round-off of the quotient is no step of its own.
        n_steps = max(0, math.ceil((t1 - t0) / self.dt * (1 - 4e-16) - 1e-9))
        last_dt = t1 - t0 - (n_steps - 1) * self.dt
        if abs(last_dt - self.dt) <= 1e-9 * self.dt:
            last_dt = self.dt
        return Plan(
            self.flow,
            self.dt,
            n_steps,
            last_dt,
            self.tolerance,
            self.max_impacts_per_step,
            self.detect == "interior",
            self.on_zeno == "rest",
        )


def LGVCI(dt: float, **options) -> EventDriven:  # noqa: N802  (the paper's name)
    """The Lie group variational collision integrator of Tran and Leok (Algorithm 2).

    Args:
        dt: step size [s].
        options: of `EventDriven`.
    """
    return EventDriven(LieVariational(), dt, **options)


def _for_flow(flow: AbstractFlow, world: World, state: State) -> State:
    """The state with what the flow advances; raises `ValueError` if they do not fit."""
    name = type(flow).__name__
    if world.joints and not flow.has_pins:
        raise ValueError(
            f"{name} does not know joints: World.joints must be empty, or use another flow such "
            "as QuaternionEnergyMomentum."
        )
    if flow.has_stretch and state.stretch is None:
        zero = jnp.zeros((*state.position.shape[:-1], 6), state.position.dtype)
        return dataclasses.replace(state, stretch=zero)
    if state.stretch is not None and not flow.has_stretch:
        raise ValueError(
            f"State.stretch belongs to DirectorEnergyMomentum and would be lost by {name}: leave "
            "it out, with dataclasses.replace(state, stretch=None), if that is what you mean."
        )
    return state


def _schedule(times: np.ndarray, t0: float, t1: float, plan: Plan):
    """The steps in which the times before t1 fall, and how far into them [s]."""
    steps = np.floor((times - t0) / plan.dt + 1e-9).astype(int)
    offsets = times - t0 - steps * plan.dt
    offsets[np.abs(offsets) <= 1e-9 * plan.dt] = 0.0
    along = (times < t1 - 1e-9 * plan.dt) & (steps < plan.n_steps)
    return tuple(steps[along].tolist()), tuple(offsets[along].tolist())


def _trajectory(saved, final: Phase, n_along: int, n_times: int) -> Phase:
    """The phases at the times to save: those along the way, then that at the end."""
    last = jax.tree.map(lambda leaf: leaf[None], final)
    parts = []
    if saved is not None:
        valid, phases = saved
        along, count = compact(valid, phases, n_along)
        reached = (jnp.arange(n_along, dtype=jnp.int32) < count)[:, None]
        parts.append(jax.tree.map(lambda leaf, end: jnp.where(reached, leaf, end), along, last))
    if n_times > n_along:
        n = n_times - n_along
        parts.append(jax.tree.map(lambda end: jnp.repeat(end, n, axis=0), last))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def _impacts(
    entries: Impact | None, clock: Clock, n: int, t0: float, dt: float, system: System, world: World
) -> Impacts:
    """The record of the impacts from the entries of all blocks."""
    pairs = system.contacts
    if entries is None or pairs is None:
        return Impacts(clock.impacts) if n == 0 else _no_impacts(clock, n, system, world)
    record, count = compact(entries.valid, entries, n)
    used = jnp.arange(n, dtype=jnp.int32) < count

    def geometry(before: Phase, after: Phase, contact: Int[Array, ""]):
        contacts = pairs.find(before)
        order = jnp.arange(pairs.number, dtype=jnp.int32).reshape(pairs.shape)
        single = contacts.single(before, order == contact, system.inertial)
        change = at(single.sides[0].body, after.linear_momentum - before.linear_momentum)
        vectors = (single.position(before), single.axes[2], change)
        return tuple(vector.array() for vector in vectors)

    position, normal, impulse = jax.vmap(geometry)(record.before, record.after, record.contact)
    paired = jnp.asarray(partners(world, pairs), jnp.int32)
    blank = lambda tree, empty: jax.tree.map(  # noqa: E731
        lambda leaf: jnp.where(used.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, empty), tree
    )
    states = jax.vmap(partial(to_state, system, world))
    return Impacts(
        count=clock.impacts,
        time=blank(t0 + dt * record.step.astype(record.offset.dtype) + record.offset, jnp.inf),
        pair=blank(paired[record.contact], -1),
        impulse=blank(impulse, 0.0),
        position=blank(position, 0.0),
        normal=blank(normal, 0.0),
        before=blank(states(record.before), 0.0),
        after=blank(states(record.after), 0.0),
    )


def _accumulation_time(
    final: Phase, clock: Clock, elapsed: Float[Array, ""], t0: float, system: System, world: World
) -> Float[Array, " n_bodies"]:
    """When infinitely many impacts of each body end [s]; infinite if they do not."""
    if clock.accumulation is not None:
        ends = clock.accumulation.result()
    else:
        ends = jnp.full_like(final.position.x, jnp.inf)
        if system.contacts is not None:
            if system.frictional or world.pairs:
                predicted = jnp.full_like(ends, jnp.nan)
            else:
                predicted = elapsed + remaining_bounces(final, system)
            ends = jnp.where(clock.code == Code.zeno, predicted, ends)
    return jnp.take(t0 + ends, np.argsort(body_order(world)))


def _no_impacts(clock: Clock, n: int, system: System, world: World) -> Impacts:
    dtype = clock.remaining.dtype
    zeros = jnp.zeros((n, 3), dtype)
    bodies = len(world.bodies)
    vectors = jnp.zeros((n, bodies, 3), dtype)
    blank = State(vectors, jnp.zeros((n, bodies, 4), dtype), vectors, vectors)
    none = jnp.full((n, 2), -1, jnp.int32)
    return Impacts(
        clock.impacts, jnp.full(n, jnp.inf, dtype), none, zeros, zeros, zeros, blank, blank
    )
