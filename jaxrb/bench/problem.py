"""The problem that all benchmarks solve: Case I from a batch of heights."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import State
from ..cli.cases import CASES
from ..simulate import LGVCI, Solution, World, simulate
from ..simulate.method import AbstractMethod

CASE = CASES["I"]
N_STEPS = 1000
T1 = N_STEPS * CASE.dt  # [s]
PROBLEM = f"Case I, {N_STEPS} steps of {CASE.dt} s, initial heights 10 + U(0, 1) m"
# Impacts lose nothing here. Where the world is an argument of a program that is not known there.
METHOD = LGVCI(CASE.dt, on_zeno="stop")


def set_precision(dtype: str) -> None:
    """Makes float32 or float64 JAX's default, as a user would."""
    jax.config.update("jax_enable_x64", dtype == "float64")


def heights(batch: int) -> Float[Array, " batch"]:
    """Initial heights 10 + U(0, 1) of the centre of mass [m]; the same in every run."""
    return jnp.asarray(10 + np.random.default_rng(0).random(batch), float)


def start(state: State, height: Float[Array, ""]) -> State:
    """The initial state of Case I, from another height [m]."""
    position = jnp.stack([state.position[0, 0], state.position[0, 1], height])
    return eqx.tree_at(lambda s: s.position, state, position[None])


def solve(world: World, state: State, method: AbstractMethod = METHOD) -> Solution:
    """The final state after 1000 steps, or the time of these."""
    return simulate(world, state, method, T1, throw=False)
