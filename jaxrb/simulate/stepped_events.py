"""Contacts that are resolved in steps: no event interrupts a flight."""

from __future__ import annotations

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..flows import AbstractFlow
from ..stepping.held_step import Impulse, Scene
from ..stepping.moreau_step import Stepped, Surroundings, moreau_step
from ..stepping.theta_step import Rule, theta_step
from .events import AbstractEvents, Flown, NoContacts
from .system import System
from .tolerances import missed


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

    def initial_mode(self, t, phase):
        contacts = self.system.contacts
        number = 0 if contacts is None else contacts.number
        return Carried(jnp.zeros((3, number), phase.position.x.dtype), jnp.zeros((), bool))

    def flow(self, scheme, t, duration, phase, mode: Carried):
        around = self._around(t, phase)
        step = self.scheme.step(scheme, t, duration, phase, mode.impulse, around)
        error = jnp.maximum(step.error, missed(step.residual))
        carried = Carried(jax.lax.stop_gradient(step.impulse), step.lost)
        return Flown(step.phase, error, step.work, carried)

    def contacts(self, t, phase):
        return None

    def guards(self, t, end, contacts, mode: Carried, dt):
        plain = NoContacts(self.system).guards(t, end, contacts, mode, dt)
        return eqx.tree_at(lambda guards: guards.search_failed, plain, mode.lost)

    def root(self, t, end, contacts, event, mode):
        return NoContacts(self.system).root(t, end, contacts, event, mode)

    def reset(self, t, end, contacts, event, resolution, mode):
        return NoContacts(self.system).reset(t, end, contacts, event, resolution, mode)

    def _around(self, t, phase) -> Surroundings:
        contacts, law = self.system.contacts, self.system.contact_law
        dtype = phase.position.x.dtype
        if contacts is None:
            none = jnp.zeros(0, dtype)
            return Surroundings(Scene(self.system.dynamics, None, none), none, none)
        round_off = jax.lax.stop_gradient(contacts.find(t, phase).round_off).reshape(-1)
        height = jnp.maximum(round_off, self.tolerance)
        return Surroundings(
            Scene(self.system.dynamics, contacts, self._of_each(law.coefficient_of_friction)),
            self._of_each(law.restitution),
            height,
        )

    def _of_each(self, number: Float[Array, "..."]) -> Float[Array, " n_contacts"]:
        assert self.system.contacts is not None
        return jnp.broadcast_to(number, self.system.contacts.shape).reshape(-1)
