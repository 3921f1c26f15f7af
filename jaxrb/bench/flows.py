"""The cost of a step of each flow, relative to `LieVariational`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..bodies import RigidBody, State
from ..flows import (
    AbstractFlow,
    DirectorEnergyMomentum,
    EnergyMidpoint,
    ExactFlight,
    LieVariational,
    QuaternionEnergyMomentum,
    QuaternionVariational,
    SimoWong,
)
from ..shapes import Sphere
from ..simulate import RESULTS, EventDriven, World, simulate
from .problem import N_STEPS
from .record import RATE, Column, Record, Table
from .timing import Quantiles, round_robin

BATCHES = (1024,)
DT = 0.01  # [s]
FLOWS: tuple[AbstractFlow, ...] = (
    LieVariational(),
    ExactFlight(),
    QuaternionVariational(),
    QuaternionEnergyMomentum(),
    EnergyMidpoint(),
    SimoWong(),
    DirectorEnergyMomentum(),
)


SCENES = ("free bodies",)
REFERENCE = type(FLOWS[0]).__name__
TABLE = Table(
    f"free bodies turning by 0.1 rad a step, {N_STEPS} steps",
    "flow",
    (RATE, Column("ratio", f"time over {REFERENCE}", "", 24, spread=True)),
    ("body-steps/s: best of the rounds; ratio: median of the rounds (least .. most)",),
)


def measure(record: Record, scene: str, batches: tuple[int, ...]) -> None:
    """Adds the rows of a scene."""
    for batch in batches:
        _run_batch(record, batch)


def _run_batch(record: Record, batch: int) -> None:
    world = World([RigidBody(Sphere(0.1), 1.0, (1.0, 2.0, 2.5))], gravity=(0.0, 0.0, 0.0))
    axes = np.random.default_rng(0).normal(size=(batch, 1, 3))
    spins = jnp.asarray(0.1 / DT * axes / np.linalg.norm(axes, axis=-1, keepdims=True), float)
    calls = {}
    for flow in FLOWS:
        name, program = type(flow).__name__, _program(flow)
        if not np.all(program(world, spins)[1]):
            raise RuntimeError(f"{name} did not solve its equations.")
        calls[name] = lambda program=program: program(world, spins)
    seconds = round_robin(calls, record.rounds)
    for name, taken in seconds.items():
        ratio = Quantiles.of(taken / seconds[REFERENCE])
        record.add(batch, name, rate=batch * N_STEPS / taken.min(), **ratio.named("ratio"))


def _program(flow: AbstractFlow):
    """A function from angular velocities to the last orientations, and whether all went well."""

    def turn(world, spin):
        still = jnp.zeros_like(spin)
        upright = jnp.zeros((1, 4), spin.dtype).at[0, 0].set(1)
        state = State(still, upright, still, spin)
        sol = simulate(world, state, EventDriven(flow, DT), N_STEPS * DT, throw=False)
        return sol.final.quaternion, sol.result == RESULTS.successful

    return jax.jit(jax.vmap(turn, in_axes=(None, 0)))
