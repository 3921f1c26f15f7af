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
from .problem import N_STEPS, describe_machine, set_precision
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


def run(batches: tuple[int, ...], rounds: int, dtype: str) -> None:
    """Prints the table of one dtype."""
    set_precision(dtype)
    print(f"free bodies turning by 0.1 rad a step, {N_STEPS} steps; {describe_machine(dtype)}")
    print(f"{'batch':>6}  {'flow':<26} {'body-steps/s':>12}   time over {_name(FLOWS[0])}")
    for batch in batches:
        _run_batch(batch, rounds)
    print(f"  body-steps/s: best of {rounds} rounds; ratio: median of rounds (least .. most)\n")


def _run_batch(batch: int, rounds: int) -> None:
    world = World([RigidBody(Sphere(0.1), 1.0, (1.0, 2.0, 2.5))], gravity=(0.0, 0.0, 0.0))
    axes = np.random.default_rng(0).normal(size=(batch, 1, 3))
    spins = jnp.asarray(0.1 / DT * axes / np.linalg.norm(axes, axis=-1, keepdims=True), float)
    contenders = {}
    for flow in FLOWS:
        program = _program(flow)
        if not np.all(program(world, spins)[1]):
            raise RuntimeError(f"{_name(flow)} did not solve its equations.")
        contenders[_name(flow)] = lambda program=program: program(world, spins)
    seconds = round_robin(contenders, rounds)
    for name, taken in seconds.items():
        ratio = Quantiles.of(taken / seconds[_name(FLOWS[0])])
        print(f"{batch:>6}  {name:<26} {batch * N_STEPS / taken.min():>12.3g}   {ratio}")


def _program(flow: AbstractFlow):
    """A function from angular velocities to the last orientations, and whether all went well."""

    def turn(world, spin):
        still = jnp.zeros_like(spin)
        upright = jnp.zeros((1, 4), spin.dtype).at[0, 0].set(1)
        state = State(still, upright, still, spin)
        sol = simulate(world, state, EventDriven(flow, DT), N_STEPS * DT, throw=False)
        return sol.final.quaternion, sol.result == RESULTS.successful

    return jax.jit(jax.vmap(turn, in_axes=(None, 0)))


def _name(flow: AbstractFlow) -> str:
    return type(flow).__name__
