"""Where a simulation is: its course, and what is counted on the way."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from .events import AbstractEvents, Mode
from .time_grid import TimeGrid


class Course(eqx.Module):
    """The state of one world between two flights, on which its future depends."""

    phase: Phase
    mode: Mode
    remaining: Float[Array, ""]  # time left in the current step [s]
    step: Int[Array, ""]  # steps completed
    work: Float[Array, ""] | None  # of loads without a potential so far [J]; None if all have one

    def time(self, grid: TimeGrid) -> Float[Array, ""]:
        """The time [s]."""
        return grid.begin(self.step) + (grid.size(self.step) - self.remaining)


class Status(eqx.Module):
    """The counters of the loop, and the result code.

    They last as long as the course: where a log is full and another one begins, nothing is
    forgotten, so that flights do not depend on what is kept of them.
    """

    code: Int[Array, ""]
    impacts: Int[Array, ""]  # in all
    impacts_in_step: Int[Array, ""]
    impacts_at_once: Int[Array, ""]  # since time has last gone on
    longest: Float[Array, ""]  # flight of this step that ended with an impact [s]
    ahead: Float[Array, ""]  # no longer flight is tried next [s]; infinite but after a part
    evaluations: Int[Array, ""]  # of the flow
    crowded: Int[Array, ""]  # of these, with more contacts near than a list of them has places
    kernel: Bool[Array, ""]  # whether the loop ran as one kernel

    @staticmethod
    def start(code: Int[Array, ""], like: Float[Array, ""]) -> Status:
        """The status at t0, with the code of an inadmissible start; in the dtype of `like`."""
        none, short, long = jnp.zeros((), jnp.int32), jnp.zeros_like(like), jnp.inf + like
        return Status(code, none, none, none, short, long, none, none, jnp.zeros((), bool))


def start_course(grid: TimeGrid, phase: Phase, events: AbstractEvents) -> Course:
    """The course at t0."""
    none = jnp.zeros((), jnp.int32)
    work = None if events.system.dynamics.conservative else jnp.zeros_like(grid.t0)
    return Course(phase, events.initial_mode(grid.t0, phase), grid.size(none), none, work)
