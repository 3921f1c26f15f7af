"""Laws of single pairs."""

from __future__ import annotations

import equinox as eqx

from .._validate import body_index
from ..impact import AbstractContactLaw


class PairLaw(eqx.Module):
    """A law for the contacts of one body with another, or with an obstacle.

    Attributes:
        law: that holds there.
        body: index of the body.
        other: index of the other body, or None.
        obstacle: index of the obstacle, or None.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    law: AbstractContactLaw
    body: int = eqx.field(static=True)
    other: int | None = eqx.field(static=True)
    obstacle: int | None = eqx.field(static=True)

    def __init__(
        self,
        law: AbstractContactLaw,
        body: int,
        *,
        other: int | None = None,
        obstacle: int | None = None,
    ):
        if not isinstance(law, AbstractContactLaw):
            raise ValueError(f"PairLaw.law must be a contact law; got {type(law).__name__}.")
        if (other is None) == (obstacle is None):
            raise ValueError("PairLaw needs exactly one of other and obstacle.")
        self.law = law
        self.body = body_index(body, "PairLaw.body")
        self.other = None if other is None else body_index(other, "PairLaw.other")
        self.obstacle = None
        if obstacle is not None:
            self.obstacle = body_index(obstacle, "PairLaw.obstacle", of="an obstacle")

    @property
    def bodies(self) -> tuple[int, int]:
        """The two bodies, in the order of `World.pairs`."""
        assert self.other is not None
        return min(self.body, self.other), max(self.body, self.other)

    def partners(self, n_obstacles: int) -> list[tuple[int, int]]:
        """How its contacts are counted: bodies after all obstacles."""
        if self.other is None:
            assert self.obstacle is not None
            return [(self.body, self.obstacle)]
        i, j = self.bodies
        return [(i, n_obstacles + j), (j, n_obstacles + i)]
