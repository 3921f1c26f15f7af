"""Contact points as data, and which bodies they belong to."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bodies import Inertial, Phase
from ..bodies.incidence import (
    AbstractIncidence,
    Incidence as Incidence,
    VaryingIncidence as VaryingIncidence,
)
from ..math import Vec3, dot, norm, zeros_like
from .base import AbstractContacts, Chosen, ContactKinematics, Surface
from .single import at


class Points(eqx.Module):
    """The points of bodies on one side of a row of contacts; components of shape (n_contacts,)."""

    incidence: AbstractIncidence
    point: Vec3  # from the centre of mass, body frame [m]
    lever: Vec3  # rho x R^T n, body frame [m]


class ContactPoints(AbstractContacts):
    """Where bodies are closest to what they can hit, in a row of contacts.

    Of several for each pair, one after the other, which is in which place may change as bodies
    move.
    """

    gap: Float[Array, " n_contacts"]
    round_off: Float[Array, " n_contacts"]
    normal: Vec3  # into the body of the first side, world
    sides: tuple[Points, ...]  # two, or the one opposite to an obstacle
    surface: Surface | None = None  # of obstacles that move
    places: int = eqx.field(static=True, default=1)  # for each pair

    def points(self):
        return (self,)

    def of_bodies(self, bodies: Incidence) -> ContactPoints:
        """The same, where the bodies are known by their places in a row of bodies."""
        sides = []
        for side in self.sides:
            assert isinstance(side.incidence, Incidence)
            sides.append(dataclasses.replace(side, incidence=side.incidence.among(bodies)))
        return dataclasses.replace(self, sides=tuple(sides))

    def _kinematics(self, phase: Phase, inertial: Inertial) -> ContactKinematics:
        zero = jnp.zeros_like(self.gap)
        spin, inverse_mass, bend, arms = zero, zero, zero, zero
        relative = Vec3(zero, zero, zero)
        for side, sign in zip(self.sides, (1, -1), strict=False):
            own, moving = side.incidence.gather((inertial, phase))
            arm, over_inertia = norm(side.point), own.inertia.solve(side.lever)
            rate = dot(over_inertia, moving.angular_momentum) * sign
            spin, bend, arms = spin + rate, bend + rate**2 / arm, arms + arm
            free = 1 / own.mass + dot(over_inertia, side.lever)
            inverse_mass = inverse_mass + own.with_pins(free, moving, self.normal, side.lever)
            relative = relative + own.velocity(moving) * sign
        if self.surface is not None:
            relative = relative - self.surface.velocity
            bend = bend + self.surface.acceleration
        along = dot(self.normal, relative)
        across = jnp.maximum(dot(relative, relative) - along**2, 0.0)
        return ContactKinematics(along + spin, inverse_mass, bend + across / arms)

    def _push(self, phase, impulse, where, inertial):
        size, n_bodies = jnp.where(where, impulse, 0.0), phase.position.x.shape[0]
        total = zeros_like((phase.linear_momentum, phase.angular_momentum))
        for side, sign in zip(self.sides, (1, -1), strict=False):
            pushes = (self.normal * (sign * size), side.lever * (sign * size))
            own = side.incidence.scatter(pushes, n_bodies)
            total = jax.tree.map(jnp.add, total, own)
        return inertial.pushed(phase, *total)

    def _chosen(self, phase, which):
        n_bodies = phase.position.x.shape[0]
        sides = [
            (side.incidence.chosen(which, n_bodies), at(which, side.point)) for side in self.sides
        ]
        normal = at(which, self.normal)
        moving = zeros_like(normal) if self.surface is None else at(which, self.surface.velocity)
        return Chosen(normal, tuple(sides), moving)


class AbstractInRow(AbstractContacts):
    """Contacts in a row whose kinematics are known by more than their points.

    Attributes:
        with_points: the same contacts.
    """

    with_points: eqx.AbstractVar[ContactPoints]

    def _push(self, phase, impulse, where, inertial):
        return self.with_points._push(phase, impulse, where, inertial)

    def _chosen(self, phase, which):
        return self.with_points._chosen(phase, which)

    def points(self):
        return (self.with_points,)
