"""The interface of the coordinates of one kind of joint."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ..phase import Phase
from .base import AbstractMovingJoint, Acting
from .ends import Ends, Row


class Motion(NamedTuple):
    """One coordinate of a joint."""

    number: int  # place of the joint in `World.joints`
    joint: AbstractMovingJoint
    axis: int  # which of its coordinates

    @property
    def acting(self) -> Acting:
        """What acts along it."""
        return self.joint.acting[self.axis]

    @property
    def direction(self) -> Float[Array, "3"]:
        """Its axis, in the frame of the body."""
        return self.joint.motion_axes[self.axis]


class AbstractCoordinate(eqx.Module):
    """Coordinates of all joints of one kind; everything has the shape (n,).

    Attributes:
        angular: whether they are angles.
        ends: of the joints, one for each coordinate.
    """

    angular: ClassVar[bool]
    ends: eqx.AbstractVar[Ends]

    @abc.abstractmethod
    def value(self, phase: Phase) -> Float[Array, " n"]:
        """The coordinates [rad] or [m]."""

    @abc.abstractmethod
    def stretch(self, phase: Phase, rest: Float[Array, " n"]) -> Float[Array, " n"]:
        """By how much the coordinates differ from those of springs at rest."""

    @abc.abstractmethod
    def row(self, phase: Phase) -> Row:
        """What the rates of the coordinates depend on."""


class Middle(eqx.Module):
    """The middles of limits, of those angles that have some."""

    limited: tuple[bool, ...] = eqx.field(static=True)
    number: Float[Array, " n"]  # 0 of the others

    @staticmethod
    def of(acting: Sequence[Acting], dtype: DTypeLike) -> Middle:
        """Those of angles."""
        pairs = [one.limits for one in acting]
        zero = jnp.zeros((), dtype)
        middles = [zero if pair is None else jnp.mean(pair).astype(dtype) for pair in pairs]
        return Middle(tuple(pair is not None for pair in pairs), jnp.stack(middles))

    def otherwise(self, number: Float[Array, " n"] | float) -> Float[Array, " n"]:
        """With a number for those without limits."""
        return jnp.where(np.array(self.limited), self.number, number)


class AbstractAngle(AbstractCoordinate):
    """Angles, which a phase knows up to full turns.

    Attributes:
        middle: of the limits, about which those that have some are followed beyond half a turn.
    """

    angular = True
    middle: eqx.AbstractVar[Middle]

    @abc.abstractmethod
    def near(self, phase: Phase, middle: Float[Array, " n"]) -> Float[Array, " n"]:
        """The angles within half a turn of others, that of half a turn the larger one."""

    def value(self, phase):
        return self.near(phase, self.middle.otherwise(0.0))

    def stretch(self, phase, rest):
        return self.near(phase, self.middle.otherwise(rest)) - rest
