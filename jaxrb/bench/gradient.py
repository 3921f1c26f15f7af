"""The cost of derivatives: their time over that of the forward run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from ..impact import AbstractContactLaw, Coulomb, Frictionless
from .problem import CASE, N_STEPS, describe, heights, set_precision, solve, start
from .timing import Quantiles, round_robin

BATCHES = (1, 64, 1024)
LAWS = {"without friction": Frictionless, "friction 0.3": partial(Coulomb, 0.3, restitution=1.0)}


def run(batches: tuple[int, ...], rounds: int, dtype: str) -> None:
    """Prints the table of one dtype."""
    set_precision(dtype)
    print(describe(dtype))
    for name, law in LAWS.items():
        print(f"derivative of the final height with respect to the initial height, {name}")
        print(f"{'batch':>6}  {'program':<20} {'body-steps/s':>12}   time over forward")
        for batch in batches:
            _run_batch(batch, rounds, law())
    print(f"  body-steps/s: best of {rounds} rounds; ratio: median of rounds (least .. most)\n")


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
        "forward run": final_height,
        "reverse mode, grad": jax.grad(final_height, argnums=1),
        "forward mode, jvp": tangent,
    }
    # The world is an argument: a constant would let XLA compute parts of it beforehand.
    return {
        name: jax.tree_util.Partial(jax.jit(jax.vmap(function, in_axes=(None, 0))), world)
        for name, function in single.items()
    }


def _run_batch(batch: int, rounds: int, law: AbstractContactLaw) -> None:
    initial = heights(batch)
    contenders = {
        name: (lambda program=program: program(initial)) for name, program in programs(law).items()
    }
    seconds = round_robin(contenders, rounds)
    for name, taken in seconds.items():
        ratio = Quantiles.of(taken / seconds["forward run"])
        rate = batch * N_STEPS / taken.min()
        print(f"{batch:>6}  {name:<20} {rate:>12.3g}   {ratio}")
