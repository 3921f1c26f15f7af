"""Linear dampers."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from ..._validate import nonnegative
from ..inertial import Inertial
from ..phase import Phase
from .base import Time, Wrench, cast
from .between import AbstractBetween, ends


class Damper(AbstractBetween):
    """A linear damper between two points: with the length L it pulls them together by c dL/dt.

    The force is along their line, and zero where they coincide and the line has no direction.

    Attributes:
        body: index in `World.bodies`.
        coefficient: c [N s/m], at least 0, shape ().
        anchor: the point of the body, body frame, from its centre of mass [m], shape (3,).
        other: index of the other body; None means the world.
        other_anchor: the point of the other body, in its frame and from its centre of mass, or
            of the world, world frame [m], shape (3,).

    Raises:
        ValueError: naming the argument that is not understood.
    """

    body: int = eqx.field(static=True)
    coefficient: Float[Array, ""]
    anchor: Float[Array, "3"]
    other: int | None = eqx.field(static=True)
    other_anchor: Float[Array, "3"]

    def __init__(
        self,
        body: int,
        coefficient,
        *,
        anchor=(0.0, 0.0, 0.0),
        other: int | None = None,
        other_anchor=(0.0, 0.0, 0.0),
    ):
        self.body, self.anchor, self.other, self.other_anchor = ends(
            body, anchor, other, other_anchor, "Damper"
        )
        self.coefficient = nonnegative(coefficient, "Damper.coefficient")

    @property
    def velocity_dependent(self) -> bool:
        return True

    @property
    def conservative(self) -> bool:
        return False

    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        pull = cast(self.coefficient, phase) * self.rate(phase, inertial)
        return self.pair(phase, -(self.line(phase).unit * pull))
