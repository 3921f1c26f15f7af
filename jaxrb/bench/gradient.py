"""The cost of derivatives: their time over that of the forward run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..flows import ExactFlight
from ..impact import AbstractContactLaw, Coulomb, Frictionless
from ..simulate import EventDriven
from ..simulate.method import AbstractMethod
from .problem import CASE, METHOD, N_STEPS, PROBLEM, heights, solve, start
from .record import RATE, Column, Record, Table
from .timing import Quantiles, round_robin

BATCHES = (1, 64, 1024)


class Scene(NamedTuple):
    """A law of impacts, and how to simulate."""

    law: Callable[[], AbstractContactLaw]
    method: AbstractMethod = METHOD


SCENES = {
    "without friction": Scene(Frictionless),
    "friction 0.3": Scene(lambda: Coulomb(0.3, restitution=1.0)),
    "continuous time": Scene(Frictionless, EventDriven(ExactFlight(), dt=None, on_zeno="stop")),
}
FORWARD = "forward run"
TABLE = Table(
    f"derivative of the final height with respect to the initial height: {PROBLEM}",
    "program",
    (RATE, Column("ratio", f"time over {FORWARD}", "", 24, spread=True)),
    (
        "body-steps/s: best of the rounds; ratio: median of the rounds (least .. most)",
        "continuous time: counted as steps, though it takes none",
        "second derivative: forward mode of reverse mode",
    ),
)


def measure(record: Record, scene: str, batches: tuple[int, ...]) -> None:
    """Adds the rows of a scene."""
    for batch in batches:
        _run_batch(record, batch, SCENES[scene])


def programs(scene: Scene) -> dict[str, Callable]:
    """Functions from initial heights [m] to final heights [m] or their derivatives, of batches."""
    world, state = CASE.build()
    world = dataclasses.replace(world, contact_law=scene.law())

    def final_height(world, height):
        return solve(world, start(state, height), scene.method).final.position[0, 2]

    def tangent(world, height):
        along = lambda z: final_height(world, z)  # noqa: E731
        return jax.jvp(along, (height,), (jnp.ones_like(height),))[1]

    def curvature(world, height):
        slope = lambda z: jax.grad(final_height, argnums=1)(world, z)  # noqa: E731
        return jax.jvp(slope, (height,), (jnp.ones_like(height),))[1]

    single = {
        FORWARD: final_height,
        "reverse mode, grad": jax.grad(final_height, argnums=1),
        "forward mode, jvp": tangent,
        "second derivative": curvature,
    }
    # The world is an argument: a constant would let XLA compute parts of it beforehand.
    return {
        name: jax.tree_util.Partial(jax.jit(jax.vmap(function, in_axes=(None, 0))), world)
        for name, function in single.items()
    }


def _run_batch(record: Record, batch: int, scene: Scene) -> None:
    initial = heights(batch)
    calls = {
        name: (lambda program=program: program(initial))
        for name, program in programs(scene).items()
    }
    seconds = round_robin(calls, record.rounds)
    for name, taken in seconds.items():
        ratio = Quantiles.of(taken / seconds[FORWARD])
        record.add(batch, name, rate=batch * N_STEPS / taken.min(), **ratio.named("ratio"))
