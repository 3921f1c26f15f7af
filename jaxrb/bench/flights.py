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
from .problem import describe_machine, heights, set_precision, start
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


def run(batches: tuple[int, ...], rounds: int, dtype: str) -> None:
    """Prints the table of one dtype."""
    set_precision(dtype)
    print(f"{DURATION:g} s of flights and impacts without friction; {describe_machine(dtype)}")
    header = f"{'motion/time':>12} {'impacts/s':>10}   {'speed over steps':<24} evaluations"
    print(f"{'batch':>6}  {'method':<22} {header}")
    for name, throw in (("a cuboid over a plane", _cuboid), ("Case I, an ellipsoid", _case_one)):
        print(name)
        for batch in batches:
            _compare(*throw(batch), batch, rounds)
    print("  time: of the CPU, summed over its cores; best of the rounds. Ratio: median of rounds")
    print("  (least .. most). Evaluations of the flow: mean and largest of a world.\n")


def _compare(world: World, states: State, batch: int, rounds: int) -> None:
    calls = {name: _call(world, states, method, batch) for name, method in METHODS.items()}
    seconds = round_robin(calls, rounds, clock=time.process_time)
    for name, taken in seconds.items():
        sol = calls[name]()
        speed = batch * DURATION / taken
        rate = float(jnp.sum(sol.impacts.count)) / taken.min()
        ratio = Quantiles.of(seconds[STEPS] / taken)
        work = np.asarray(sol.stats.flow_evaluations)
        failed = int(jnp.sum(sol.result != RESULTS.successful))
        print(
            f"{batch:>6}  {name:<22} {speed.max():>12.3g} {rate:>10.3g}   {ratio!s:<24} "
            f"{work.mean():.0f}, {work.max()}" + (f", ended early {failed}" if failed else "")
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
