"""The cost of derivatives: their time over that of the forward run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from ..impact import AbstractContactLaw, Coulomb, Frictionless
from .problem import CASE, N_STEPS, PROBLEM, heights, solve, start
from .record import RATE, Column, Record, Table
from .timing import Quantiles, round_robin

BATCHES = (1, 64, 1024)
SCENES = {"without friction": Frictionless, "friction 0.3": partial(Coulomb, 0.3, restitution=1.0)}
FORWARD = "forward run"
TABLE = Table(
    f"derivative of the final height with respect to the initial height: {PROBLEM}",
    "program",
    (RATE, Column("ratio", f"time over {FORWARD}", "", 24, spread=True)),
    ("body-steps/s: best of the rounds; ratio: median of the rounds (least .. most)",),
)


def measure(record: Record, scene: str, batches: tuple[int, ...]) -> None:
    """Adds the rows of a scene."""
    for batch in batches:
        _run_batch(record, batch, SCENES[scene]())


def programs(law: AbstractContactLaw) -> dict[str, Callable]:
    """Functions from initial heights [m] to final heights [m] or their derivatives, of batches.

    Args:
        law: of the impacts.
    """
    world, state = CASE.build()
    world = dataclasses.replace(world, contact_law=law)

    def final_height(world, height):
        return solve(world, start(state, height)).final.position[0, 2]

    def tangent(world, height):
        along = lambda z: final_height(world, z)  # noqa: E731
        return jax.jvp(along, (height,), (jnp.ones_like(height),))[1]

    single = {
        FORWARD: final_height,
        "reverse mode, grad": jax.grad(final_height, argnums=1),
        "forward mode, jvp": tangent,
    }
    # The world is an argument: a constant would let XLA compute parts of it beforehand.
    return {
        name: jax.tree_util.Partial(jax.jit(jax.vmap(function, in_axes=(None, 0))), world)
        for name, function in single.items()
    }


def _run_batch(record: Record, batch: int, law: AbstractContactLaw) -> None:
    initial = heights(batch)
    calls = {
        name: (lambda program=program: program(initial)) for name, program in programs(law).items()
    }
    seconds = round_robin(calls, record.rounds)
    for name, taken in seconds.items():
        ratio = Quantiles.of(taken / seconds[FORWARD])
        record.add(batch, name, rate=batch * N_STEPS / taken.min(), **ratio.named("ratio"))
