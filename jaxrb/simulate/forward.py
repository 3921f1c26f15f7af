"""A run without derivatives, as a kernel.

Nothing is logged and nothing flown again: what is saved along the way is where the flights are
stopped, so that the memory of a run is that of its results.
"""

from __future__ import annotations

import dataclasses
import warnings

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..exec.kernel import as_kernel
from .course import Course, Status
from .events import AbstractEvents
from .loop import advance
from .method import Backend
from .recorder import Outputs, SaveSpec, Times
from .time_grid import TimeGrid
from .trial import Plan, code_of_part


def is_wanted(backend: Backend, wanted: SaveSpec, plan: Plan) -> bool:
    """Whether a run that keeps this is to be a kernel."""
    if wanted.impacts or plan.progress:
        return False
    return backend == "kernel" or (backend == "auto" and jax.default_backend() == "gpu")


def say_if_asked(backend: Backend, reason: str) -> None:
    """Warns that a kernel which was asked for is not made."""
    if backend == "kernel":
        warnings.warn(f"compiled by XLA and not as a kernel: {reason}", stacklevel=2)


def forward(
    plan: Plan,
    wanted: SaveSpec,
    backend: Backend,
    grid: TimeGrid,
    events: AbstractEvents,
    times: Times,
    course: Course,
    status: Status,
) -> tuple[Course, Status, Outputs]:
    """The end of a trajectory and the states at the times to save."""
    forced = backend == "kernel"

    def to_save(grid, events, course, status, step, offset):
        """Flies to the last flight that begins before a time; whether it reaches it, and the phase
        at that time, with the code of the flight up to there."""
        when = Times(step, offset)
        course, status, _, stopped = advance(plan, grid, events, course, status, until=when)
        assert stopped is not None
        phase, code = course.phase, jnp.zeros((), jnp.int8)
        if wanted.within:
            begin = grid.size(course.step) - course.remaining
            elapsed = jnp.where(stopped, jnp.maximum(offset - begin, 0.0), 0.0)
            t, mode = course.time(grid), course.mode
            end = events.flow(plan.scheme, t, elapsed, phase, mode)
            phase, code = end.phase, code_of_part(end, remembers=events.remembers)
        return course, status, stopped, phase, code

    def to_end(grid, events, course, status):
        return advance(plan, grid, events, course, status)[:2]

    outputs = Outputs.of(None, None)
    if wanted.times:

        def save(carry: tuple[Course, Status], when: tuple[Int[Array, ""], Float[Array, ""]]):
            arguments = (grid, events, *carry, *when)
            found, _ = as_kernel(to_save, *arguments, on_cpu=forced)
            course, status, *kept = found
            return (course, status), kept

        when = times.step, times.offset
        (course, status), (met, phase, codes) = jax.lax.scan(save, (course, status), when)
        outputs = Outputs.of((met, phase), codes)
    (course, status), kernel = as_kernel(to_end, grid, events, course, status, on_cpu=forced)
    return course, dataclasses.replace(status, kernel=kernel), outputs
