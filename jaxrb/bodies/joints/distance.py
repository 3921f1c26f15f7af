"""Distances, as of a massless rod with a ball joint at each end."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float

from ..._text import readable
from ..._validate import real_array, require_positive
from ...math import Vec3, norm
from .base import ORIGIN, AbstractJoint, ends
from .placing import Poses, places


class Distance(AbstractJoint):
    """Keeps a point of a body at a distance from a point of the world, or of another body: a
    massless rod with a ball joint at each end.

    Attributes:
        body: index in `World.bodies`.
        anchor: the point of the body, body frame, from its centre of mass [m], shape (3,).
        length: [m], positive, shape ().
        other: index of the other body; None means the world.
        other_anchor: the point of the other body, in its frame and from its centre of mass, or
            of the world, world frame [m], shape (3,).

    Raises:
        ValueError: naming the argument that is not understood.
    """

    body: int = eqx.field(static=True)
    anchor: Float[Array, "3"]
    length: Float[Array, ""]
    other: int | None = eqx.field(static=True)
    other_anchor: Float[Array, "3"]

    def __init__(self, body: int, anchor, length, other: int | None = None, other_anchor=ORIGIN):
        self.body, self.anchor, self.other, self.other_anchor = ends(
            "Distance", body, anchor, other, other_anchor
        )
        self.length = real_array(length, "Distance.length", ())
        require_positive(self.length, "Distance.length")

    @staticmethod
    def at(state: Poses, body: int, point, other_point, other: int | None = None) -> Distance:
        """The distance between two points that are given in the world, for bodies placed as in a
        state.

        Args:
            state: of the world; its positions and quaternions count.
            body: index in `World.bodies`.
            point: of the body, world frame [m], shape (3,).
            other_point: of the other body or of the world, likewise.
            other: index of the other body; None means the world.
        """
        here, there = places("Distance", state, body, other)
        anchor = here.point(point, "Distance.point")
        other_anchor = there.point(other_point, "Distance.other_point")
        between = real_array(point, "Distance.point") - real_array(other_point, "other_point")
        return Distance(body, anchor, norm(Vec3.of(between)), other, other_anchor)

    def held_at(self) -> Float[Array, "3"]:
        return self.other_anchor

    def __repr__(self) -> str:
        return readable(self)
