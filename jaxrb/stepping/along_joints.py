"""What acts along the coordinates of joints in a step: dry friction, rotors and dampers.

All velocities and displacements along them are lengths: of hinges the arcs at a radius.
"""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float

from ..bodies import Inertial, Phase
from ..bodies.joints.coordinates import JointCoordinates
from ..bodies.joints.ends import Directions


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


class Damping(AbstractActing):
    """Dampers in joints."""

    coordinates: JointCoordinates
    arc: Float[Array, " n_coordinates"]

    @property
    def coefficient(self) -> Float[Array, " n_coordinates"]:
        """The force over the velocity [N s/m]."""
        return self.coordinates.damping / self.arc**2

    @property
    def rotors(self) -> Float[Array, " n_coordinates"]:
        """The masses of rotors on the same coordinates [kg]."""
        return self.coordinates.armature / self.arc**2

    def own(self, reactions: Float[Array, " n_rows"]) -> Float[Array, " n_coordinates"]:
        """Of the reactions of all joint rows those of dampers, the last."""
        return reactions[reactions.size - self.arc.size :]
