"""Welds, which leave nothing free."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float

from ..._text import readable
from .base import ORIGIN, AbstractJoint, ends, reference_turn
from .placing import Poses, places


class Weld(AbstractJoint):
    """Holds a body in one place and orientation in the world, or against another body: a fixed
    joint.

    Attributes:
        body: index in `World.bodies`.
        other: index of the other body; None means the world.
        anchor: a point of the body, body frame, from its centre of mass [m], shape (3,).
        other_anchor: where that point is held: in the frame of the other body and from its centre
            of mass, or in the world frame [m], shape (3,).
        reference: turns vectors of the body frame into the frame of the other body, or of the
            world: a quaternion of any length but zero, shape (4,). By default both have the same
            orientation.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    body: int = eqx.field(static=True)
    other: int | None = eqx.field(static=True)
    anchor: Float[Array, "3"]
    other_anchor: Float[Array, "3"]
    reference: Float[Array, "4"]

    def __init__(
        self,
        body: int,
        other: int | None = None,
        anchor=ORIGIN,
        other_anchor=ORIGIN,
        *,
        reference=None,
    ):
        self.body, self.anchor, self.other, self.other_anchor = ends(
            "Weld", body, anchor, other, other_anchor
        )
        self.reference = reference_turn("Weld", self.anchor, None, reference)

    @staticmethod
    def at(state: Poses, body: int, other: int | None = None) -> Weld:
        """The weld that holds bodies as they are placed in a state.

        Args:
            state: of the world; its positions and quaternions count.
            body: index in `World.bodies`.
            other: index of the other body; None means the world.
        """
        here, there = places("Weld", state, body, other)
        place = there.point(here.position.array(), "Weld.anchor")
        return Weld(body, other, ORIGIN, place, reference=here.reference(there))

    def held_at(self) -> Float[Array, "3"]:
        return self.other_anchor

    def __repr__(self) -> str:
        return readable(self)
