"""The memory of a device that programs need besides their results, from XLA's plan of it.

Programs are compiled, and none is run: the plan depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..bodies import State
from ..simulate import SaveAt, Solution, World, simulate
from .problem import CASE, METHOD, N_STEPS, PROBLEM, start
from .record import Column, Record, Table

BATCHES = (64,)
SCENES = ("Case I",)
TABLE = Table(
    PROBLEM,
    "program",
    (
        Column("temporaries", "temporaries [B/world]", ",.0f"),
        Column("results", "results [B/world]", ",.0f"),
        Column("ratio", "ratio", ".3g", 8),
        Column("over", "over", "", 20),
        Column("goal", "at most", ".2g"),
    ),
    ("ratio: of temporaries; nothing is run, so that rounds change nothing",),
)
_SLOTS = 16  # impacts that are recorded


class Program(NamedTuple):
    """What is compiled.

    Attributes:
        steps: how many.
        save: what is saved.
        gradient: whether it is that of the final height with respect to the initial height.
        over: the program whose temporaries its own are compared with, or its own results; None
            for nothing.
        goal: the largest ratio that is aimed at.
    """

    steps: int = N_STEPS
    save: SaveAt | None = None
    gradient: bool = False
    over: str | None = None
    goal: float | None = None


_RESULTS, _SHORT = "its results", f"gradient, {N_STEPS} steps"
PROGRAMS = {
    "forward run": Program(over=_RESULTS),
    "every 10th step saved": Program(save=SaveAt(every=10), over=_RESULTS, goal=1.3),
    "impacts recorded": Program(save=SaveAt(final=True, impacts=_SLOTS), over=_RESULTS, goal=1.3),
    _SHORT: Program(gradient=True),
    # Ten times the steps: the square root of that, and a little.
    f"gradient, {10 * N_STEPS} steps": Program(10 * N_STEPS, None, True, _SHORT, 3.5),
}


def measure(record: Record, scene: str, batches: tuple[int, ...]) -> None:
    """Adds the rows of a scene."""
    for batch in batches:
        needed: dict[str, float] = {}
        for name, program in PROGRAMS.items():
            needed[name], results = plan(program, batch)
            values: dict[str, Any] = {
                "temporaries": needed[name],
                "results": results,
                "over": program.over,
            }
            if program.over:
                ratio = needed[name] / (needed | {_RESULTS: results})[program.over]
                missed = program.goal is not None and ratio > program.goal
                values |= {"ratio": ratio, "goal": program.goal}
                values["loses_to"] = "the goal" if missed else None
            record.add(batch, name, **values)


def plan(program: Program, batch: int) -> tuple[float, float]:
    """Bytes of a world that a program needs on the way, and that it returns."""
    world, state = CASE.build()
    function = jax.jit(jax.vmap(_function(program, state), in_axes=(None, 0)))
    heights = jax.ShapeDtypeStruct((batch,), jnp.result_type(float))
    memory = function.lower(world, heights).compile().memory_analysis()
    return memory.temp_size_in_bytes / batch, memory.output_size_in_bytes / batch


def _function(program: Program, state: State) -> Callable:
    """Of a world and an initial height [m]."""

    def run(world: World, height) -> Solution:
        t1 = program.steps * CASE.dt
        return simulate(world, start(state, height), METHOD, t1, save=program.save, throw=False)

    def final_height(world: World, height):
        return run(world, height).final.position[0, 2]

    return jax.grad(final_height, argnums=1) if program.gradient else run
