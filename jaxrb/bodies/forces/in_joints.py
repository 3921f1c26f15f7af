"""Springs, dampers and motors along the coordinates of joints, all of a world at once."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ..inertial import Inertial
from ..joints.base import AbstractJoint
from ..joints.coordinates import JointCoordinates
from ..phase import Phase
from .base import AbstractLoad, Time, Wrench
from .source import Source, now


class AbstractAlongJoints(AbstractLoad):
    """Torques and forces along the coordinates of joints.

    Attributes:
        coordinates: of the joints, with their numbers.
    """

    coordinates: eqx.AbstractVar[JointCoordinates]

    @property
    def bodies(self) -> tuple[int, ...]:
        return ()  # the world has checked its joints

    @abc.abstractmethod
    def efforts(
        self, t: Time, phase: Phase, inertial: Inertial, args: Any
    ) -> Float[Array, " n_coordinates"]:
        """The torques [N m] and forces [N] on the first bodies; the others get the opposite."""

    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        size = self.efforts(t, phase, inertial, args)
        n_bodies = phase.position.x.shape[0]
        return Wrench(*self.coordinates.directions(phase).push(size, n_bodies))


class JointSprings(AbstractAlongJoints):
    """The springs of joints."""

    coordinates: JointCoordinates

    @property
    def velocity_dependent(self) -> bool:
        return False

    @property
    def conservative(self) -> bool:
        return True

    def efforts(self, t, phase, inertial, args):
        return -self.coordinates.stiffness * self.coordinates.stretch(phase)

    def potential(self, phase: Phase) -> Float[Array, ""]:
        return jnp.sum(self.coordinates.stiffness * self.coordinates.stretch(phase) ** 2) / 2


class JointDampers(AbstractAlongJoints):
    """The dampers of joints."""

    coordinates: JointCoordinates

    @property
    def velocity_dependent(self) -> bool:
        return True

    @property
    def conservative(self) -> bool:
        return False

    def efforts(self, t, phase, inertial, args):
        return -self.coordinates.damping * self.coordinates.rate(phase, inertial)


class JointMotors(AbstractAlongJoints):
    """A `Motor` with the joints that it drives."""

    coordinates: JointCoordinates
    source: Source
    damping: Float[Array, " n_coordinates"] | None
    limits: Float[Array, "n_coordinates 2"] | None
    shape: tuple[int, ...] = eqx.field(static=True)  # () of the motor of one joint
    chosen: tuple[int, ...] = eqx.field(static=True)  # of each coordinate the place of its torque
    uses_velocities: bool = eqx.field(static=True)
    is_servo: bool = eqx.field(static=True)  # as of the `Motor`

    @property
    def velocity_dependent(self) -> bool:
        return self.uses_velocities or self.damping is not None

    @property
    def conservative(self) -> bool:
        return False

    def given(
        self, t: Time, phase: Phase, inertial: Inertial, args: Any
    ) -> Float[Array, " n_coordinates"]:
        """The torques without those by the damping and without limits."""
        given = now(
            self.source, t, args, phase, inertial, self.shape, "Motor.torque", self.uses_velocities
        )
        return given[None] if self.shape == () else given[np.array(self.chosen)]

    def efforts(self, t, phase, inertial, args):
        torques = self.given(t, phase, inertial, args)
        if self.damping is not None:
            torques = torques - self.damping * self.coordinates.rate(phase, inertial)
        return torques if self.limits is None else jnp.clip(torques, *self.limits.T)


def joint_loads(joints: Sequence[AbstractJoint], dtype: DTypeLike) -> tuple[AbstractLoad, ...]:
    """The loads of the springs and dampers in the joints of a world."""
    springs = JointCoordinates.of(joints, dtype, having="stiffness")
    dampers = JointCoordinates.of(joints, dtype, having="damping")
    return (
        *(() if springs is None else (JointSprings(springs),)),
        *(() if dampers is None else (JointDampers(dampers),)),
    )
