"""What a demo simulates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..bodies import State
from ..flows import AbstractFlow, LieVariational
from ..simulate import World


@dataclass(frozen=True)
class Case:
    """A problem to simulate.

    Attributes:
        name: on the command line.
        title: one line, what happens.
        build: makes the world and the state at t = 0, in JAX's default dtype.
        dt: step size [s].
        flow: the scheme.
        snapshots: times of a picture of the bodies [s]; none by default.
        steps: how many, unless others are asked for.
        lasting: whether contacts last where impacts accumulate.
        args: makes what drives the motors, of `simulate`, in JAX's default dtype; a run with it is
            flown in one piece.
        report: lines about the trajectory, from its times [s] and states.
        plot: draws what they are about, into axes of Matplotlib.
    """

    name: str
    title: str
    build: Callable[[], tuple[World, State]]
    dt: float = 0.01
    flow: AbstractFlow = field(default_factory=LieVariational)
    snapshots: tuple[float, ...] = ()
    steps: int = 1000
    lasting: bool = False
    args: Callable[[], Any] | None = None
    report: Callable[[np.ndarray, State], list[str]] | None = None
    plot: Callable[[np.ndarray, State, Any], None] | None = None
