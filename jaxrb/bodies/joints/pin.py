"""Pins, which leave all rotations free."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float

from ..._text import readable
from .base import ORIGIN, AbstractJoint, ends, finite_vector
from .placing import Poses, places


class Pin(AbstractJoint):
    """Ties one point of a body to a point of the world, or of another body, about which the body
    turns freely: a ball joint.

    Attributes:
        body: index in `World.bodies`.
        anchor: the point of the body, body frame, from the centre of mass [m], shape (3,).
        point: where it is held, world frame [m], shape (3,); with `other`, in the frame of that
            body and from its centre of mass.
        other: index of the other body; None means the world.

    Args:
        other_anchor: another name for `point`, as the other joints have it.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    body: int = eqx.field(static=True)
    anchor: Float[Array, "3"]
    point: Float[Array, "3"]
    other: int | None = eqx.field(static=True)

    def __init__(self, body: int, anchor, point=None, other: int | None = None, other_anchor=None):
        if point is not None and other_anchor is not None:
            raise ValueError("Pin.point and Pin.other_anchor are one thing: give one of them.")
        held = point if other_anchor is None else other_anchor
        # By the name by which it was given.
        if point is not None:
            finite_vector(point, "Pin.point")
        found = ends("Pin", body, anchor, other, ORIGIN if held is None else held)
        self.body, self.anchor, self.other, self.point = found

    @property
    def other_anchor(self) -> Float[Array, "3"]:
        """`point`."""
        return self.point

    @staticmethod
    def at(state: Poses, body: int, point, other: int | None = None) -> Pin:
        """The pin whose point is given in the world, for bodies placed as in a state.

        Args:
            state: of the world; its positions and quaternions count.
            body: index in `World.bodies`.
            point: world frame [m], shape (3,).
            other: index of the other body; None means the world.
        """
        here, there = places("Pin", state, body, other)
        return Pin(body, here.point(point, "Pin.point"), there.point(point, "Pin.point"), other)

    def held_at(self) -> Float[Array, "3"]:
        return self.point

    def __repr__(self) -> str:
        return readable(self)
