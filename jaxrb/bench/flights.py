"""Flights without steps, next to steps of 0.01 s: a cuboid that bounces, and Case I."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np

from ..bodies import RigidBody, State
from ..cli.cases import CASES
from ..flows import ExactFlight
from ..shapes import Box, HalfSpace
from ..simulate import LGVCI, RESULTS, EventDriven, Solution, World, simulate, simulate_batch
from .problem import heights, start
from .record import Column, Record, Table
from .timing import Quantiles, round_robin

BATCHES = (1, 1024)
DURATION = 10.0  # [s]
# Worlds that wait for each other.
_CHUNK = 64
STEPS = "LGVCI(0.01)"
METHODS = {
    STEPS: LGVCI(0.01, on_zeno="stop"),
    "ExactFlight, dt=None": EventDriven(ExactFlight(), dt=None),
}


TABLE = Table(
    f"{DURATION:g} s of flights and impacts without friction",
    "method",
    (
        Column("rate", "motion/time", ".3g", 12),
        Column("impacts", "impacts/s", ".3g", 10),
        Column("ratio", "speed over steps", "", 24, spread=True),
        Column("evaluations", "evaluations", ".0f"),
        Column("most_evaluations", "most", "d", 6),
        Column("failed", "ended early", "d"),
    ),
    (
        "time: of the CPU, summed over its cores; best of the rounds",
        "ratio: median of the rounds (least .. most)",
        "evaluations: of the flow, mean and largest of a world",
    ),
)


def measure(record: Record, scene: str, batches: tuple[int, ...]) -> None:
    """Adds the rows of a scene."""
    for batch in batches:
        _compare(record, *SCENES[scene](batch), batch)


def _compare(record: Record, world: World, states: State, batch: int) -> None:
    calls = {name: _call(world, states, method, batch) for name, method in METHODS.items()}
    seconds = round_robin(calls, record.rounds, clock=time.process_time)
    for name, taken in seconds.items():
        sol = calls[name]()
        work = np.asarray(sol.stats.flow_evaluations)
        record.add(
            batch,
            name,
            rate=batch * DURATION / taken.min(),
            impacts=float(jnp.sum(sol.impacts.count)) / taken.min(),
            **Quantiles.of(seconds[STEPS] / taken).named("ratio"),
            evaluations=work.mean(),
            most_evaluations=work.max(),
            failed=int(jnp.sum(sol.result != RESULTS.successful)),
        )


def _call(world: World, states: State, method: EventDriven, batch: int):
    """A call that simulates all worlds; a single one without the work of spreading them."""
    if batch > 1:
        return lambda: simulate_batch(world, states, method, DURATION, throw=False, chunk=_CHUNK)

    def fly(world: World, state: State) -> Solution:
        return simulate(world, state, method, DURATION, throw=False)

    program = jax.jit(jax.vmap(fly, in_axes=(None, 0)))
    return lambda: program(world, states)


def _cuboid(batch: int) -> tuple[World, State]:
    """Thrown from random heights, in random attitudes, at some 5 rad/s; it bounces for ever."""
    rng = np.random.default_rng(0)
    body = RigidBody(Box((0.1, 0.15, 0.2)), 1.0)
    world = World([body], [HalfSpace()], gravity=(0, 0, -9.80665))
    position = np.zeros((batch, 1, 3))
    position[..., 2] = rng.uniform(1.0, 2.0, size=(batch, 1))
    quaternion = rng.normal(size=(batch, 1, 4))
    quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
    spin = 3.0 * rng.normal(size=(batch, 1, 3))
    arrays = (position, quaternion, np.zeros_like(position), spin)
    return world, State(*(jnp.asarray(array, float) for array in arrays))


def _case_one(batch: int) -> tuple[World, State]:
    world, state = CASES["I"].build()
    return world, jax.vmap(start, in_axes=(None, 0))(state, heights(batch))


SCENES = {"a cuboid over a plane": _cuboid, "Case I, an ellipsoid": _case_one}
