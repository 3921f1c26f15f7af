"""Contacts of some of the bodies, found as if there were no others."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import Inertial, Phase
from .base import AbstractContacts, AbstractContactSet, Chosen
from .points import Incidence


class AtSome(AbstractContacts):
    """The contacts of some bodies, whose arrays have one entry for each of these."""

    gap: Float[Array, "..."]
    round_off: Float[Array, "..."]
    found: Any  # contacts with one side, of these bodies alone
    bodies: Incidence

    def _kinematics(self, phase: Phase, inertial: Inertial):
        return self.found._kinematics(*self.bodies.gather((phase, inertial)))

    def _push(self, phase, impulse, where, inertial):
        own, of_own = self.bodies.gather((phase, inertial))
        pushed = self.found._push(own, impulse, where, of_own)
        n_bodies = phase.position.x.shape[0]
        ours = np.isin(np.arange(n_bodies), self.bodies.bodies)
        pushed = self.bodies.scatter(pushed, n_bodies)
        return jax.tree.map(lambda new, old: jnp.where(ours, new, old), pushed, phase)

    def _chosen(self, phase, which):
        own = self.found._chosen(self.bodies.gather(phase), which)
        n_bodies, ours = phase.position.x.shape[0], np.array(self.bodies.bodies)
        sides = [
            (jnp.zeros(n_bodies, bool).at[ours].set(body, unique_indices=True), arm)
            for body, arm in own.sides
        ]
        return Chosen(own.normal, tuple(sides), own.drift)

    def points(self):
        return tuple(row.of_bodies(self.bodies) for row in self.found.points())


class ContactsOfSome(AbstractContactSet):
    """The contacts of some bodies with obstacles."""

    contacts: AbstractContactSet  # of these bodies alone
    bodies: Incidence

    @property
    def shape(self):
        return self.contacts.shape

    @property
    def partners(self):
        body, obstacle = self.contacts.partners.T
        return np.stack([np.array(self.bodies.bodies)[body], obstacle], axis=1)

    @property
    def searched(self):
        return self.contacts.searched

    def _find(self, t, phase):
        found = self.contacts._find(t, self.bodies.gather(phase))
        return AtSome(found.gap, found.round_off, found, self.bodies)

    def expected(self, phase, inertial, gravity, duration):
        phase, inertial, gravity = self._own(phase, inertial, gravity)
        return self.contacts.expected(phase, inertial, gravity, duration)

    def unproved(self):
        return self.contacts.unproved()

    def _clearance(self, found, phase, spin, inertial, gravity):
        phase, inertial, gravity = self._own(phase, inertial, gravity)
        spin = self.bodies.gather(spin)
        return self.contacts._clearance(found.found, phase, spin, inertial, gravity)

    def _views(self, clearance, found, phase):
        return self.contacts._views(clearance, found.found, self.bodies.gather(phase))

    def _own(self, phase: Phase, inertial: Inertial, gravity):
        like = phase.position.x.shape
        gravity = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, like), gravity)
        return self.bodies.gather((phase, inertial, gravity))
