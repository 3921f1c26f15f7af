"""What acts along the coordinates of joints in a step: dry friction, rotors, dampers and servos.

All velocities and displacements along them are lengths: of hinges the arcs at a radius.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bodies import Dynamics, Inertial, Phase
from ..bodies.forces import JointMotors
from ..bodies.joints.coordinates import JointCoordinates
from ..bodies.joints.ends import Directions
from .yielding import endless


class AbstractActing(eqx.Module):
    """What acts along some coordinates.

    Attributes:
        coordinates: of these joints.
        arc: length that stands for a unit of each coordinate [m].
    """

    coordinates: eqx.AbstractVar[JointCoordinates]
    arc: eqx.AbstractVar[Float[Array, " n_coordinates"]]

    def directions(self, phase: Phase) -> Directions:
        """The directions in which it acts."""
        return self.coordinates.directions(phase).times(self.arc)

    def travel(self, start: Phase, end: Phase) -> Float[Array, " n_coordinates"]:
        """From one phase to another, of hinges less than half a turn [m]."""
        return self.coordinates.difference(start, end) * self.arc

    def speed(self, phase: Phase, inertial: Inertial) -> Float[Array, " n_coordinates"]:
        """The velocities along them [m/s]."""
        return self.coordinates.rate(phase, inertial) * self.arc


class Rubbing(AbstractActing):
    """Dry friction in joints."""

    coordinates: JointCoordinates
    arc: Float[Array, " n_coordinates"]

    @property
    def largest(self) -> Float[Array, " n_coordinates"]:
        """The largest friction [N]."""
        return self.coordinates.friction / self.arc


class Rotors(AbstractActing):
    """Rotors that are geared to joints."""

    coordinates: JointCoordinates
    arc: Float[Array, " n_coordinates"]

    @property
    def mass(self) -> Float[Array, " n_coordinates"]:
        """The impulse over the change of the velocity [kg]."""
        return self.coordinates.armature / self.arc**2


class Dampers(AbstractActing):
    """Dampers in joints, or the servos of a motor, which feed rates back.

    Attributes:
        damping: c of each coordinate.
        motor: what servos are given besides; None of dampers.
    """

    coordinates: JointCoordinates
    arc: Float[Array, " n_coordinates"]
    damping: Float[Array, " n_coordinates"]
    motor: JointMotors | None

    @property
    def coefficient(self) -> Float[Array, " n_coordinates"]:
        """The force over the velocity [N s/m]."""
        return self.damping / self.arc**2

    @property
    def rotors(self) -> Float[Array, " n_coordinates"]:
        """The masses of rotors on the same coordinates [kg]."""
        return self.coordinates.armature / self.arc**2

    def force(self, t, phase: Phase, dynamics: Dynamics) -> Float[Array, " n_coordinates"]:
        """What acts at no velocity, without limits [N]."""
        if self.motor is None:
            return jnp.zeros_like(self.arc)
        return dynamics.torques(self.motor, t, phase) / self.arc

    @property
    def limits(self) -> Float[Array, "2 n_coordinates"] | None:
        """The least and the greatest force [N], None without any."""
        if self.motor is None or self.motor.limits is None:
            return None
        return self.motor.limits.T / self.arc[None]


class Damping(eqx.Module):
    """All dampers in joints and all servos, of which each is a row."""

    groups: tuple[Dampers, ...]

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return sum(group.arc.size for group in self.groups)

    @property
    def coefficient(self) -> Float[Array, " n_dampers"]:
        """The forces over the velocities [N s/m]."""
        return jnp.concatenate([group.coefficient for group in self.groups])

    @property
    def rotors(self) -> Float[Array, " n_dampers"]:
        """The masses of rotors on the same coordinates [kg]."""
        return jnp.concatenate([group.rotors for group in self.groups])

    @property
    def limits(self) -> Float[Array, "2 n_dampers"] | None:
        """The least and the greatest forces [N], None without any."""
        limits = [group.limits for group in self.groups]
        if all(own is None for own in limits):
            return None
        each = [
            endless(group.arc) if own is None else own
            for own, group in zip(limits, self.groups, strict=True)
        ]
        return jnp.concatenate(each, axis=1)

    @property
    def motors(self) -> tuple[JointMotors, ...]:
        """Those of servos, as loads."""
        return tuple(group.motor for group in self.groups if group.motor is not None)

    def force(self, t, phase: Phase, dynamics: Dynamics) -> Float[Array, " n_dampers"]:
        """What acts at no velocity, without limits [N]."""
        return jnp.concatenate([group.force(t, phase, dynamics) for group in self.groups])

    def directions(self, phase: Phase) -> Directions:
        """The directions in which they act."""
        first, *others = (group.directions(phase) for group in self.groups)
        for directions in others:
            first = first.followed_by(directions)
        return first

    def travel(self, start: Phase, end: Phase) -> Float[Array, " n_dampers"]:
        """From one phase to another, of hinges less than half a turn [m]."""
        return jnp.concatenate([group.travel(start, end) for group in self.groups])

    def speed(self, phase: Phase, inertial: Inertial) -> Float[Array, " n_dampers"]:
        """The velocities along them [m/s]."""
        return jnp.concatenate([group.speed(phase, inertial) for group in self.groups])

    def own(self, reactions: Float[Array, " n_rows"]) -> Float[Array, " n_dampers"]:
        """Of the reactions of all joint rows theirs, the last."""
        return reactions[reactions.size - self.n_rows :]
