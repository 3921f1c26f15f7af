"""The interface of methods, and their results."""

from __future__ import annotations

import abc
from typing import Literal, NamedTuple

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase, State
from ..flows import AbstractFlow
from .events import AbstractEvents
from .recorder import Impact, SaveSpec, Times
from .system import System
from .time_grid import TimeGrid
from .world import World

# How a loop is compiled: as one kernel where that is known to be faster, or by XLA, or as a kernel.
Backend = Literal["auto", "xla", "kernel"]


class Run(NamedTuple):
    """The results of a method; bodies in the order of the system."""

    phase: Phase  # at the end
    time: Float[Array, ""]  # reached [s]
    code: Int[Array, ""]
    steps: Int[Array, ""]
    evaluations: Int[Array, ""]  # of the flow
    crowded: Int[Array, ""]  # of these, with more contacts near than a list of them has places
    n_impacts: Int[Array, ""]
    kernel: Bool[Array, ""]  # whether it ran as one kernel
    work: Float[Array, ""] | None  # of loads without a potential [J]
    zeno_time: Float[Array, " n_bodies"]
    # At the times to save: which were passed before the end, and the phases there.
    saved: tuple[Bool[Array, " n"], Phase] | None
    impacts: Impact | None


class AbstractMethod(eqx.Module):
    """A way to simulate a world.

    Attributes:
        dt: step size [s]; None where there are no steps.
        penetration: depth by which a body may penetrate at the start [m].
    """

    dt: eqx.AbstractVar[float | Float[Array, ""] | None]
    penetration: eqx.AbstractVar[float]

    def chosen(self, world: World) -> AbstractMethod:
        """The method with what it leaves open chosen for a world, whose numbers may be traced or
        have leading axes."""
        return self

    @abc.abstractmethod
    def prepare(self, world: World, state: State) -> State:
        """The state with what the method advances.

        Raises:
            ValueError: if the method cannot simulate this world from this state.
        """

    @abc.abstractmethod
    def build(self, world: World, state: State, args: object) -> tuple[System, Phase]:
        """The component form of a world, for this method."""

    @property
    @abc.abstractmethod
    def flight(self) -> AbstractFlow:
        """The scheme of free bodies."""

    @abc.abstractmethod
    def events(self, system: System, dt: Float[Array, ""]) -> AbstractEvents:
        """The events of a world, in steps of a size [s]."""

    @abc.abstractmethod
    def run(
        self,
        system: System,
        phase: Phase,
        code: Int[Array, ""],
        grid: TimeGrid,
        times: Times,
        wanted: SaveSpec,
        progress: bool = False,
        backend: Backend = "xla",
    ) -> Run:
        """The trajectory of one world; pure and traceable.

        Args:
            system, phase: from `build`.
            code: of a start that cannot be simulated.
            grid: the steps.
            times: to save.
            wanted: what to keep.
            progress: whether to say how far it is, by `progress.report`.
            backend: how the loop is compiled.
        """
