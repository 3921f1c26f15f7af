"""The run of a method: flights and events, with what is saved along the way."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Int

from ..bodies import Phase
from .course import Status, start_course
from .differentiate import CheckpointLayout, Program, trajectory
from .events import AbstractEvents
from .logged_flight import Scene
from .method import Backend, Run
from .recorder import SaveSpec, Times
from .results import Code
from .time_grid import TimeGrid
from .trial import Plan


def fly(
    plan: Plan,
    layout: CheckpointLayout,
    events: AbstractEvents,
    phase: Phase,
    code: Int[Array, ""],
    grid: TimeGrid,
    times: Times,
    wanted: SaveSpec,
    backend: Backend,
) -> Run:
    """The trajectory of one world.

    Args:
        plan, layout: the static part.
        events: of the world.
        phase: at the start.
        code: of a start that cannot be simulated.
        grid: the steps.
        times: to save.
        wanted: what to keep.
        backend: how the loop is compiled.
    """
    start = start_course(grid, phase, events)
    status = Status.start(code, start.remaining)
    program, scene = Program(plan, layout, wanted, backend), Scene(grid, events, times)
    end, status, outputs = trajectory(program, scene, start, status)
    time = end.time(grid)
    code = jnp.where(status.code == Code.successful, outputs.code, status.code)
    return Run(
        phase=end.phase,
        time=time,
        code=code,
        steps=end.step,
        evaluations=status.evaluations,
        crowded=status.crowded,
        n_impacts=status.impacts,
        kernel=status.kernel,
        work=end.work,
        zeno_time=events.zeno_time(time, end.phase, end.mode, status.code),
        saved=outputs.saved,
        impacts=outputs.impacts,
    )
