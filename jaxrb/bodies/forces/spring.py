"""Linear springs."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._validate import nonnegative
from ...math import dot
from ..inertial import Inertial
from ..phase import Phase
from .base import AbstractLoad, Time, Wrench, cast
from .between import AbstractBetween, ends
from .damper import Damper


class Spring(AbstractBetween):
    """A linear spring, with or without a damper, between two points.

    With the length L it pulls the points together by k (L - L0) + c dL/dt along their line; its
    potential is k (L - L0)^2/2. Where the points coincide the line has no direction: there the
    elastic force is zero, which is its limit if L0 = 0, and so is that of the damper.

    Attributes:
        body: index in `World.bodies`.
        stiffness: k [N/m], at least 0, shape ().
        anchor: the point of the body, body frame, from its centre of mass [m], shape (3,).
        other: index of the other body; None means the world.
        other_anchor: the point of the other body, in its frame and from its centre of mass, or
            of the world, world frame [m], shape (3,).
        rest_length: L0 [m], at least 0, shape ().
        damping: c [N s/m], at least 0, shape (). None if the Python number 0 is given: then the
            spring conserves energy.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    body: int = eqx.field(static=True)
    stiffness: Float[Array, ""]
    anchor: Float[Array, "3"]
    other: int | None = eqx.field(static=True)
    other_anchor: Float[Array, "3"]
    rest_length: Float[Array, ""]
    damping: Float[Array, ""] | None

    def __init__(
        self,
        body: int,
        stiffness,
        *,
        anchor=(0.0, 0.0, 0.0),
        other: int | None = None,
        other_anchor=(0.0, 0.0, 0.0),
        rest_length=0.0,
        damping=0.0,
    ):
        self.body, self.anchor, self.other, self.other_anchor = ends(
            body, anchor, other, other_anchor, "Spring"
        )
        self.stiffness = nonnegative(stiffness, "Spring.stiffness")
        self.rest_length = nonnegative(rest_length, "Spring.rest_length")
        undamped = damping is None or (isinstance(damping, int | float) and damping == 0)
        self.damping = None if undamped else nonnegative(damping, "Spring.damping")

    @property
    def velocity_dependent(self) -> bool:
        return self.damping is not None

    @property
    def conservative(self) -> bool:
        return self.damping is None

    def parts(self) -> tuple[AbstractLoad, ...]:
        return (self,) if self.damping is None else (self._elastic(), self._damper(self.damping))

    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        line = self.line(phase)
        # Not k (L - L0) along the unit vector, which is not smooth at L = 0 if L0 = 0.
        stretch = line.vector - line.unit * cast(self.rest_length, phase)
        elastic = self.pair(phase, -(stretch * cast(self.stiffness, phase)))
        if self.damping is None:
            return elastic
        return elastic + self._damper(self.damping).wrench(t, phase, inertial, args)

    def potential(self, phase: Phase) -> Float[Array, ""]:
        """The elastic energy [J], with or without a damper."""
        line, rest = self.line(phase), cast(self.rest_length, phase)
        stretch = line.length - rest
        # Equal where the points coincide, and smooth there if L0 = 0.
        near = dot(line.vector, line.vector) + rest * rest
        square = jnp.where(line.length > 0, stretch * stretch, near)
        return 0.5 * cast(self.stiffness, phase) * square

    def _elastic(self) -> Spring:
        return eqx.tree_at(lambda s: s.damping, self, None)

    def _damper(self, coefficient: Array) -> Damper:
        return Damper(
            self.body,
            coefficient,
            anchor=self.anchor,
            other=self.other,
            other_anchor=self.other_anchor,
        )
