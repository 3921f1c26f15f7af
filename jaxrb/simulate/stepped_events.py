"""Contacts that are resolved in steps: no event interrupts a flight."""

from __future__ import annotations

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..flows import AbstractFlow
from ..stepping.moreau_step import Stepped, Surroundings, moreau_step
from ..stepping.scene import Impulse
from ..stepping.theta_step import Rule, theta_step
from .events import AbstractEvents, Flown, NoContacts
from .lasting_events import scene_of
from .system import System


class AbstractScheme(eqx.Module):
    """A way to make one step with impacts in it."""

    @abc.abstractmethod
    def step(
        self, flow: AbstractFlow, t, duration, phase, known: Impulse, around: Surroundings
    ) -> Stepped:
        """One step from a phase at a time [s], given the impulses of the one before."""


class Variational(AbstractScheme):
    """Moreau's midpoint rule around a flow."""

    def step(self, flow, t, duration, phase, known, around):
        return moreau_step(flow, t, duration, phase, known, around)


class Theta(AbstractScheme):
    """Moreau and Jean's theta rule."""

    rule: Rule = eqx.field(static=True)

    def step(self, flow, t, duration, phase, known, around):
        return theta_step(self.rule, t, duration, phase, known, around)


class Carried(eqx.Module):
    """The mode of a world that is stepped.

    Attributes:
        impulse: of the last step, from which those of the next are sought [N s].
        lost: whether the closest point of a contact was not found in it.
    """

    impulse: Impulse
    lost: Bool[Array, ""]


class SteppedContacts(AbstractEvents):
    """A flight is a whole step, with its impacts and all contacts; nothing interrupts it.

    Attributes:
        scheme: of the steps.
        tolerance: the largest gap of a closed contact [m], at least its round-off.
    """

    system: System
    scheme: AbstractScheme
    tolerance: float = eqx.field(static=True)

    remembers = True

    def initial_mode(self, t, phase):
        scene = scene_of(self.system)
        return Carried(scene.nothing(scene.rows(t, phase)), jnp.zeros((), bool))

    def flow(self, scheme, t, duration, phase, mode: Carried, known=None, contacts=None):
        scene, restitution = scene_of(self.system), self._restitution
        if scene.turning is not None:
            pressing = np.array(scene.turning.sources)
            restitution = jnp.concatenate([restitution, restitution[pressing]])
        around = Surroundings(scene, restitution, self.tolerance)
        step = self.scheme.step(scheme, t, duration, phase, mode.impulse, around)
        carried = Carried(jax.lax.stop_gradient(step.impulse), step.lost)
        error = jnp.maximum(step.error, step.missed)
        return Flown(step.phase, error, step.work, carried, step.missed <= 1)

    def contact_impulse(self, scheme, t, duration, phase):
        flown = self.flow(scheme, t, duration, phase, self.initial_mode(t, phase))
        contacts = self.system.contacts
        n_contacts = 0 if contacts is None else contacts.number
        return flown.mode.impulse.contact[:, :n_contacts], flown.error <= 1

    def contacts(self, t, phase):
        return None

    def guards(self, t, end, contacts, mode: Carried, dt):
        plain = NoContacts(self.system).guards(t, end, contacts, mode, dt)
        return eqx.tree_at(lambda guards: guards.search_failed, plain, mode.lost)

    def root(self, t, end, contacts, event, mode):
        return NoContacts(self.system).root(t, end, contacts, event, mode)

    def reset(self, t, end, contacts, event, resolution, mode, known=None):
        return NoContacts(self.system).reset(t, end, contacts, event, resolution, mode)

    @property
    def _restitution(self) -> Float[Array, " n_contacts"]:
        contacts = self.system.contacts
        if contacts is None:
            return jnp.zeros(0, self.system.inertial.mass.dtype)
        return jnp.broadcast_to(self.system.contact_law.restitution, contacts.shape).reshape(-1)
