"""Forces along the line between two points."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ..._validate import body_index, real_array, require
from ...math import Vec3, cross, dot, norm, rotate_inverse, safe_divide
from ..inertial import Inertial
from ..phase import Phase
from .base import AbstractLoad, Wrench, attitude, cast, on_one, world_point, world_velocity


class Line(NamedTuple):
    """The line from the point of the other body, or of the world, to that of the body."""

    vector: Vec3  # world frame [m]
    unit: Vec3  # 0 where the points coincide
    length: Float[Array, ""]


class AbstractBetween(AbstractLoad):
    """A force between a point of a body and a point of another one, or of the world.

    Attributes:
        body: index in `World.bodies`.
        anchor: the point of the body, body frame, from its centre of mass [m], shape (3,).
        other: index of the other body; None means the world.
        other_anchor: the point of the other body, in its frame and from its centre of mass, or
            of the world, world frame [m], shape (3,).
    """

    body: eqx.AbstractVar[int]
    anchor: eqx.AbstractVar[Float[Array, "3"]]
    other: eqx.AbstractVar[int | None]
    other_anchor: eqx.AbstractVar[Float[Array, "3"]]

    @property
    def bodies(self) -> tuple[int, ...]:
        return (self.body,) if self.other is None else (self.body, self.other)

    def line(self, phase: Phase) -> Line:
        """The line between the two points."""
        here, there = self._anchors(phase)
        elsewhere = there if self.other is None else world_point(phase, self.other, there)
        vector = world_point(phase, self.body, here) - elsewhere
        length = norm(vector)
        parts = (vector.x, vector.y, vector.z)
        # Where the length is 0, so is its derivative, and this is that derivative.
        return Line(vector, Vec3(*(safe_divide(part, length) for part in parts)), length)

    def rate(self, phase: Phase, inertial: Inertial) -> Float[Array, ""]:
        """The rate at which the length grows [m/s]."""
        here, there = self._anchors(phase)
        relative = world_velocity(phase, inertial, self.body, here)
        if self.other is not None:
            relative = relative - world_velocity(phase, inertial, self.other, there)
        return dot(self.line(phase).unit, relative)

    def pair(self, phase: Phase, force: Vec3) -> Wrench:
        """A force on the point of the body, world frame [N], and its opposite on the other."""
        here, there = self._anchors(phase)
        one = _at(phase, self.body, here, force)
        return one if self.other is None else one + _at(phase, self.other, there, -force)

    def _anchors(self, phase: Phase) -> tuple[Vec3, Vec3]:
        return Vec3.of(cast(self.anchor, phase)), Vec3.of(cast(self.other_anchor, phase))


def ends(
    body: int, anchor, other: int | None, other_anchor, kind: str
) -> tuple[int, Array, int | None, Array]:
    """The attributes of `AbstractBetween`, checked.

    Raises:
        ValueError: naming the argument of `kind` that is not understood.
    """
    body = body_index(body, f"{kind}.body")
    if other is not None:
        other = body_index(other, f"{kind}.other", "another body")
        if other == body:
            raise ValueError(f"{kind}.other must be another body than {kind}.body = {body}.")
    points = []
    for name, point in (("anchor", anchor), ("other_anchor", other_anchor)):
        points.append(real_array(point, f"{kind}.{name}", (3,)))
        require(points[-1], f"{kind}.{name}", np.isfinite, "finite")
    return body, points[0], other, points[1]


def _at(phase: Phase, index: int, anchor: Vec3, force: Vec3) -> Wrench:
    """The wrench of a force, world frame, on a point of a body."""
    turned = rotate_inverse(attitude(phase, index), force)
    return on_one(phase, index, force, cross(anchor, turned))
