"""Contacts: where bodies are closest to what they can hit, and what an impulse does there.

The functions are jitted: a program, above all one with derivatives, uses them many times and
then traces them once.
"""

from __future__ import annotations

import abc
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Inertial, Phase
from ..math import Vec3
from ..math.materialize import compute_once
from .clearance import Clearance, Proof, View
from .single import Side, SingleContact
from .soon import Travel


class ContactKinematics(eqx.Module):
    """How fast each gap closes, and what an impulse does to it; arrays have one entry each."""

    normal_velocity: Float[Array, "..."]  # rate of the gap [m/s]
    inverse_mass: Float[Array, "..."]  # W: rate of the gap by a normal impulse of 1 N s [1/kg]
    bend: Float[Array, "..."]  # size of the gap's second derivative in free motion [m/s^2]


class Chosen(NamedTuple):
    """One contact of many; components of shape ()."""

    normal: Vec3  # world
    # Of each side which body it is, and from its centre of mass to the contact, body frame [m].
    sides: tuple[tuple[Bool[Array, " n_bodies"], Vec3], ...]
    drift: Vec3  # velocity of the obstacle there, world [m/s]


class Gaps(NamedTuple):
    """How far bodies are from what they can hit, at their closest points."""

    gap: Float[Array, " n_pairs"]  # [m], negative when penetrating
    round_off: Float[Array, " n_pairs"]  # of the gap [m]


class AcrossStep(eqx.Module):
    """How the points of obstacles that are at contacts move in a step.

    Attributes:
        before, after: their velocities at its start and at its end, world [m/s]. Those of points
            about one body are those of one rigid motion, as they are seen when contacts are found:
            else a body that turns with an obstacle would have to be strained by it.
        ahead: by how much further they are, when contacts are found, than the velocities at the
            start would have moved them [m].
        bends: by how much further they are at the end than with the velocities at the start, and
            by how much less far than with those at the end [m]; without derivatives.
    """

    before: Vec3
    after: Vec3
    ahead: Vec3
    bends: tuple[Vec3, Vec3]


class Surface(eqx.Module):
    """How the points of obstacles move that are at contacts."""

    velocity: Vec3  # world [m/s]
    acceleration: Float[Array, "..."]  # its size [m/s^2]
    across: AcrossStep | None = None  # where a step asks for it


class AbstractContacts(eqx.Module):
    """Contacts of a phase; arrays have one entry for each of them, whatever their shape."""

    gap: eqx.AbstractVar[Float[Array, "..."]]  # Phi [m], positive when apart
    round_off: eqx.AbstractVar[Float[Array, "..."]]  # of the gap [m]

    @jax.jit
    def kinematics(self, phase: Phase, inertial: Inertial) -> ContactKinematics:
        """Normal velocity and inverse mass of every contact."""
        motion = self._kinematics(phase, inertial)
        rate = compute_once(motion.normal_velocity)  # all that happens at a contact depends on it
        return ContactKinematics(rate, motion.inverse_mass, motion.bend)

    @jax.jit
    def apply_impulse(
        self,
        phase: Phase,
        impulse: Float[Array, "..."],
        where: Bool[Array, "..."],
        inertial: Inertial,
    ) -> Phase:
        """The phase after normal impulses [N s] at the chosen contacts, all at once."""
        return self._push(phase, impulse, where, inertial)

    @abc.abstractmethod
    def _kinematics(self, phase: Phase, inertial: Inertial) -> ContactKinematics: ...

    @abc.abstractmethod
    def _push(
        self,
        phase: Phase,
        impulse: Float[Array, "..."],
        where: Bool[Array, "..."],
        inertial: Inertial,
    ) -> Phase: ...

    @abc.abstractmethod
    def _chosen(self, phase: Phase, which: Bool[Array, "..."]) -> Chosen:
        """What is known of the one contact for which `which` holds; zero and none without one."""

    @abc.abstractmethod
    def points(self) -> tuple[Any, ...]:
        """The same contacts as rows of points whose bodies are known (`ContactPoints`), and of
        stops of joints (`Stops`); in the order of the gaps, one row after the other."""

    def single(self, phase: Phase, which: Bool[Array, "..."], inertial: Inertial) -> SingleContact:
        """The one contact for which `which` holds; without one, some contact that recedes."""
        normal, sides, drift = self._chosen(phase, which)
        sides = tuple(Side.of(phase, body, arm) for body, arm in sides)
        return SingleContact.of(normal, sides, drift, phase, inertial)


class AbstractContactSet(eqx.Module):
    """The pairs that can touch."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of arrays with one entry per contact."""

    @property
    def number(self) -> int:
        """The number of contacts."""
        return math.prod(self.shape)

    @property
    @abc.abstractmethod
    def partners(self) -> Int[np.ndarray, "number 2"]:
        """The body of each contact and what it can hit: the number of an obstacle, or of a body,
        counted after all obstacles. Bodies are in the order of the phase."""

    @property
    @abc.abstractmethod
    def searched(self) -> bool:
        """Whether the closest point of any body is sought, and may not be found: NaN."""

    @jax.jit
    def find(self, t: Float[Array, ""], phase: Phase) -> AbstractContacts:
        """The contacts of a phase at a time [s], on which obstacles that move depend."""
        return self._find(t, phase)

    @abc.abstractmethod
    def _find(self, t: Float[Array, ""], phase: Phase) -> AbstractContacts: ...

    def gaps(self, t: Float[Array, ""], phase: Phase) -> Gaps:
        """The gaps of a phase at a time [s], where it is enough to know the least of each pair: of
        solids with faces that is a small part of the program that finds their contacts."""
        found = self.find(t, phase)
        return Gaps(found.gap.reshape(-1), found.round_off.reshape(-1))

    def expected(
        self, phase: Phase, inertial: Inertial, gravity: Vec3, duration: Float[Array, ""]
    ) -> Float[Array, "..."]:
        """When contacts close that are closed after a duration, if gravity alone acts [s]; infinite
        where they are open then, and where this is not known.

        It is a guess, which is right to round-off if nothing else acts.
        """
        return jnp.full(self.shape, jnp.inf, phase.position.x.dtype)

    def leeway(self, phase: Phase) -> Float[Array, " number"] | None:
        """How far all bodies can move from a phase before they touch at a contact, at least [m].

        Infinite at a contact that another one repeats; None if no bound is known.
        """
        return None

    def only(self, numbers: Int[Array, " n"]) -> AbstractContactSet | None:
        """The contacts of these numbers alone, in a row; None if they are only known together."""
        return None

    def soon(self, travel: Travel) -> AbstractContactSet:
        """The same contacts, which are found only if they can close in a step; of others the gap
        is a lower bound, above zero, and points and normal are about those of that bound."""
        return self

    def unproved(self) -> str | None:
        """What of it has no bound by which flights are proved free of impacts; None if all has."""
        return type(self).__name__

    @jax.jit
    def clearance(
        self,
        found: Any,
        phase: Phase,
        spin: Float[Array, " n_bodies"],
        inertial: Inertial,
        gravity: Vec3,
    ) -> Clearance:
        """What bounds the gaps of free bodies from a phase on (see `clearance`).

        Args:
            found: the contacts of the phase.
            phase: positions and momenta.
            spin: of each body C, the bound of the norm of S(Omega)^2 + S(Omega') [1/s^2].
            inertial: masses and inertia tensors.
            gravity: acceleration, world frame [m/s^2].
        """
        gravity = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, phase.position.x.shape), gravity)
        return self._clearance(found, phase, spin, inertial, gravity)

    def _clearance(
        self,
        found: Any,
        phase: Phase,
        spin: Float[Array, " n_bodies"],
        inertial: Inertial,
        gravity: Vec3,
    ) -> Clearance:
        raise NotImplementedError

    @jax.jit
    def proof(
        self,
        clearance: Clearance,
        found: Any,
        phase: Phase,
        duration: Float[Array, ""],
        since: Float[Array, ""],
        growth: Float[Array, ""],
        tolerance: Float[Array, "..."],
    ) -> Proof:
        """What is known of the gaps during a flight.

        Args:
            clearance: at its start.
            found, phase: at its end.
            duration: [s].
            since: from where its flow began to its end [s].
            growth: how much C exceeds that of exact flight.
            tolerance: of gaps [m].
        """
        return self._proof(clearance, found, phase, duration, since, growth, tolerance)

    def _proof(self, clearance, found, phase, duration, since, growth, tolerance) -> Proof:
        views = self._views(clearance, found, phase)
        return clearance.proof(views, duration, since, growth, tolerance)

    def _views(self, clearance: Clearance, found: Any, phase: Phase) -> list[View]:
        """The flight from a clearance to a phase, whose contacts were found."""
        raise NotImplementedError


def partners_vary() -> ValueError:
    """What to raise where the bodies of contacts that vary are asked for."""
    return ValueError("The contacts vary: of which bodies they are is not known beforehand.")
