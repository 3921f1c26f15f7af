"""Limits of joints as contacts: at the end of its range a hinge or a slider meets a stop.

A stop has no point and no friction. Its gap is how far the coordinate is from the limit, as a
length: of a hinge the arc at a radius that is a unit of measurement alone. It meets plastically.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import Inertial, Phase
from ..bodies.incidence import Incidence
from ..bodies.joints.coordinates import JointCoordinates
from ..bodies.joints.ends import Directions, Side
from ..math import Vec3, dot, norm, zeros_like
from .base import AbstractContacts, AbstractContactSet, Chosen, ContactKinematics
from .single import at


class Stops(AbstractContacts):
    """The stops of joints: the lower ones, then the upper ones."""

    gap: Float[Array, " n_stops"]
    round_off: Float[Array, " n_stops"]
    directions: Directions  # whose rates are those of the gaps
    anchor: Vec3  # of the first body, body frame [m]

    def points(self):
        return (self,)

    def _kinematics(self, phase: Phase, inertial: Inertial) -> ContactKinematics:
        inverse_mass = spin = jnp.zeros_like(self.gap)
        levers = []
        for side in self.directions.sides:
            own, omega = side.incidence.gather((inertial, inertial.angular_velocity(phase)))
            moves = np.array(side.incidence.bodies) >= 0
            free = dot(side.linear, side.linear) / own.mass
            free = free + dot(own.inertia.solve(side.lever), side.lever)
            inverse_mass = inverse_mass + jnp.where(moves, free, 0.0)
            spin = spin + jnp.where(moves, norm(omega), 0.0)
            levers.append(norm(side.lever))
        rate = self.directions.rate(inertial.velocity(phase), inertial.angular_velocity(phase))
        return ContactKinematics(rate, inverse_mass, spin * (jnp.abs(rate) + spin * sum(levers)))

    def _push(self, phase, impulse, where, inertial):
        n_bodies = phase.position.x.shape[0]
        return inertial.pushed(
            phase, *self.directions.push(jnp.where(where, impulse, 0.0), n_bodies)
        )

    def _chosen(self, phase, which):
        n_bodies = phase.position.x.shape[0]
        none = zeros_like(at(which, self.anchor))
        arms = (at(which, self.anchor), none)
        sides = [
            (side.incidence.chosen(which, n_bodies), arm)
            for side, arm in zip(self.directions.sides, arms, strict=True)
        ]
        return Chosen(none, tuple(sides), none)


class JointLimits(AbstractContactSet):
    """The limits of the joints that have some.

    Attributes:
        coordinates: of these joints.
        arc: length that stands for a unit of each coordinate [m].
        first_joint: how many bodies and obstacles are counted before joints.
    """

    coordinates: JointCoordinates
    arc: Float[Array, " n_coordinates"]
    first_joint: int = eqx.field(static=True)

    @property
    def shape(self):
        return (2 * len(self.coordinates.joints),)

    @property
    def partners(self):
        """The first body of each joint, and the joint, counted after obstacles and bodies."""
        bodies = [body for part in self.coordinates.parts for body in part.ends.first.bodies]
        numbers = [self.first_joint + joint for joint in self.coordinates.joints]
        return np.tile(np.stack([bodies, numbers], axis=1), (2, 1))

    @property
    def searched(self):
        return False

    def _find(self, t, phase):
        coordinates, arc = self.coordinates, self.arc
        value = coordinates.value(phase)
        below = (value - coordinates.lower) * arc
        above = (coordinates.upper - value) * arc
        along = coordinates.directions(phase)
        anchor = jax.tree.map(
            lambda *leaves: jnp.concatenate(leaves), *(p.ends.anchor for p in coordinates.parts)
        )
        place = norm(along.sides[0].incidence.gather(phase.position)) + norm(anchor)
        place = place + arc * jnp.maximum(jnp.abs(coordinates.lower), jnp.abs(coordinates.upper))
        round_off = 8 * jnp.finfo(arc.dtype).eps * jax.lax.stop_gradient(place)
        twice = lambda tree: jax.tree.map(lambda a: jnp.concatenate([a, a]), tree)  # noqa: E731
        sides = []
        for side in along.sides:
            bodies = Incidence(side.incidence.bodies * 2)
            sides.append(Side(bodies, twice(side.linear), twice(side.lever)))
        both = Directions((sides[0], sides[1])).times(jnp.concatenate([arc, -arc]))
        return Stops(jnp.concatenate([below, above]), twice(round_off), both, twice(anchor))
