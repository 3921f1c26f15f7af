"""Events: what interrupts the flight of a world, and its effect.

A world with contacts is a hybrid system: it is in a *mode* (which contacts last), moves by a
*flow*, watches *guards* (gaps, forces of contacts) and, where one of them changes sign, is *reset*
(an impact, a landing, a release). `AbstractEvents` holds these four. The loop searches for events
with them; the derivative takes the events that were found again, by the same functions, so that
what happens at an event is written once.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from ..contact import AbstractContacts, NearContacts, alone
from ..flows import AbstractFlow, Step
from ..stepping.contact_rows import ContactRows
from .results import Code
from .system import System

Contacts = Bool[Array, "..."]  # a mask over all contacts, in the shape of their arrays
Mode = Any  # a pytree; None where nothing is remembered between flights
Resolution = Any  # a pytree; None where an event has nothing that is searched for


class Kind(enum.IntEnum):
    """The kind of an event at a contact."""

    IMPACT = 0
    LANDING = 1  # an impact after which the contact lasts
    RELEASE = 2  # of a contact that lasted


class Event(NamedTuple):
    """An event at one contact."""

    kind: Int[Array, ""]
    contact: Contacts  # the one contact; none where nothing happens
    # The number of the contact, where the mask is over few contacts (see `AbstractEvents.alone`).
    alone: Int[Array, ""] | None = None

    @property
    def number(self) -> Int[Array, ""]:
        """Kind and contact in one number; the event must happen."""
        index = self.alone
        if index is None:
            order = jnp.arange(self.contact.size, dtype=jnp.int32).reshape(self.contact.shape)
            index = jnp.sum(jnp.where(self.contact, order, 0), dtype=jnp.int32)
        return (index << 2) | self.kind

    @staticmethod
    def of(number: Int[Array, ""], like: Array, numbers: Int[Array, " n"] | None = None) -> Event:
        """The event of a number, with a mask of the shape of `like`; of -1 none.

        Args:
            number: kind and contact.
            like: an array of the shape of the mask.
            numbers: of each contact that it has, where these are not all.
        """
        order = jnp.arange(like.size, dtype=jnp.int32) if numbers is None else numbers
        index = number >> 2
        alone = None if numbers is None else jnp.maximum(index, 0)
        return Event(number & 3, order.reshape(like.shape) == index, alone)


# Bodies that may penetrate at the start do so from this part of the depth on; what is nearer to the
# surface is at it, whatever the last digits of a flight that is computed again.
_PENETRATES = 1e-4


def gap_at(event: Event, contacts: AbstractContacts, depth: float) -> Float[Array, ""]:
    """The gap of the contact of an event [m], 0 without one.

    A constant where a body penetrates: it started so, and the event comes at once.

    Args:
        event: at one of the contacts.
        contacts: at its time.
        depth: by which bodies may penetrate at the start [m].
    """
    gap = contacts.gap
    if depth > 0:
        gap = jnp.where(gap < -4 * contacts.round_off - _PENETRATES * depth, 0.0, gap)
    return jnp.sum(jnp.where(event.contact, gap, 0.0))


class Guards(eqx.Module):
    """The numbers by which the loop decides at the end of a trial.

    Gaps are in units of their tolerance. What every decision of an iteration depends on thus
    ends with a division, and XLA on CPU computes it once: anything cheaper it would compute
    again in the kernel of every carried array.
    """

    penetrating: Bool[Array, ""]  # any contact
    closing: Bool[Array, ""]  # any contact
    releasing: Bool[Array, ""]  # any contact that lasts would have to pull
    gap: Float[Array, ""]  # least among the closing contacts [tolerances]
    time: Float[Array, ""]  # from the trial to contact by Newton's rule [s]
    transversality: Float[Array, ""]  # of the event's contact; a grazing one has < 1
    event: Event  # that may happen here; a landing becomes an impact if the contact does not last
    finite: Bool[Array, ""]
    search_failed: Bool[Array, ""]  # the closest-point search failed although the phase is finite


class Reset(NamedTuple):
    """The world after an event."""

    phase: Phase
    mode: Mode
    event: Event  # of the kind that it turned out to be
    found: Bool[Array, ""] | np.bool_ = np.True_  # whether its equations were solved


class Flown(NamedTuple):
    """The end of a flight."""

    phase: Phase
    error: Float[Array, ""]  # of its implicit equations, relative to the one allowed
    work: Float[Array, ""] | None  # of loads without a potential [J]; None where all have one
    mode: Mode  # from then on, if nothing happens there
    held: Bool[Array, ""] | np.bool_ = np.True_  # whether those of contacts and joints were solved
    contacts: AbstractContacts | None = None  # at the end, where the flight has found them


class AbstractEvents(eqx.Module):
    """The events of a world, of which every kind of scene has a class of its own.

    Attributes:
        deferred: whether the impulse of an event takes a search of its own. The loop then
            collects events of a batch, lets `resolve` find their impulses together, and only
            then resets; otherwise it resets at once, with the resolution None.
        round_of_iterations: after how many iterations of the loop those collected are resolved.
            Meanwhile their worlds wait, and are flown along with the others for nothing.
        keeps_contacts: whether the loop keeps the contacts that it has found at the end of a flight
            for the start of the next one.
        remembers: whether flights and events find what is costly to find again, and keep it in the
            mode. The log then holds the mode at the end of each flight, from which the derivative
            takes what was found.
        system: the world.
    """

    keeps_contacts: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    system: eqx.AbstractVar[System]

    @property
    def deferred(self) -> bool:
        return False

    @property
    def round_of_iterations(self) -> int:
        return 48

    @property
    def near(self) -> bool:
        """Whether events are looked for among contacts that are near, and happen at contacts that
        are found alone."""
        return False

    def among(self, near: NearContacts) -> Self:
        """The events at contacts that are near."""
        assert self.system.contacts is not None
        system = self.system.among(*near.among(self.system.contacts))
        return dataclasses.replace(self, system=system)

    def alone(self, number: Int[Array, ""]) -> Self:
        """The events at a few contacts, among which is the one of a number."""
        assert self.system.contacts is not None
        system = self.system.among(*alone(self.system.contacts, number))
        return dataclasses.replace(self, system=system)

    def at(self, event: Event) -> Self:
        """The events at the contacts of the mask of an event."""
        return self if event.alone is None else self.alone(event.alone)

    @abc.abstractmethod
    def initial_mode(self, t: Float[Array, ""], phase: Phase) -> Mode:
        """The mode in which a world starts at a time [s]."""

    def flow(
        self,
        scheme: AbstractFlow,
        t: Float[Array, ""],
        duration: Float[Array, ""],
        phase: Phase,
        mode: Mode,
        known: Mode | None = None,
        contacts: AbstractContacts | None = None,
    ) -> Flown:
        """A flight in a mode, from a time [s] and for a duration [s].

        Args:
            scheme: of free bodies.
            t, duration, phase, mode: where it begins, and how long it takes.
            known: the mode at its end, where it is flown again.
            contacts: at its start, where they have been found already.
        """
        step = free_flow(scheme, t, duration, phase, self.system)
        return Flown(step.phase, step.error, step.work, mode)

    def contacts(self, t: Float[Array, ""], phase: Phase) -> AbstractContacts | None:
        """Where bodies are closest to what they can hit, at a time [s]."""
        return None if self.system.contacts is None else self.system.contacts.find(t, phase)

    def contacts_after(self, flown: Flown, t: Float[Array, ""]) -> AbstractContacts | None:
        """The contacts at the end of a flight, at a time [s]."""
        return self.contacts(t, flown.phase) if flown.contacts is None else flown.contacts

    def lasting(self, mode: Mode, like: Array) -> Contacts:
        """Which contacts last in a flight with this mode at its end, by their numbers there or at
        its start; the mask has the shape of `like`."""
        return jnp.zeros(like.shape, bool)

    @property
    def depth(self) -> float:
        """By which bodies may penetrate at the start [m]."""
        return 0.0

    def unevenness(self, t: Float[Array, ""], phase: Phase) -> Float[Array, ""] | float:
        """By how much contacts that lasted may penetrate where a run has ended, besides the
        round-off of gaps, so that another can start there [m]."""
        return 0.0

    def gap_tolerance(self, contacts: AbstractContacts) -> Float[Array, "..."]:
        """The largest gaps of closed contacts [m]."""
        return contacts.round_off

    @abc.abstractmethod
    def guards(
        self, t: Float[Array, ""], end: Phase, contacts: Any, mode: Mode, dt: Float[Array, ""]
    ) -> Guards:
        """The guards at the end of a trial.

        Args:
            t: time there [s].
            end: the phase there.
            contacts: of that phase.
            mode: in which it was flown.
            dt: step size [s], a scale of times.
        """

    def root(
        self, t: Float[Array, ""], end: Phase, contacts: Any, event: Event, mode: Mode
    ) -> Float[Array, ""]:
        """The function that is zero at an event: the gap of its contact [m], by default."""
        return gap_at(event, contacts, self.depth)

    def resolve(
        self, phase: Phase, contacts: Any, event: Event
    ) -> tuple[Resolution, Bool[Array, ""]]:
        """Searches for the result of an event, to be logged; and whether it was found.

        Without an event nothing is searched for in a batch.
        """
        return None, jnp.ones((), bool)

    def linearize(self, resolutions: Resolution) -> Resolution:
        """Resolutions of a whole trajectory, with leading axes, prepared for derivatives."""
        return resolutions

    @abc.abstractmethod
    def reset(
        self,
        t: Float[Array, ""],
        end: Phase,
        contacts: Any,
        event: Event,
        resolution: Resolution,
        mode: Mode,
        known: Mode | None = None,
    ) -> Reset:
        """The world after an event at the end of a flight, or unchanged without one.

        Differentiable; the loop and the derivative both call it.

        Args:
            t: time [s].
            end: before the event.
            contacts: of that phase.
            event: with the kind LANDING where it may turn out to be one.
            resolution: what `resolve` has found.
            mode: before the event.
            known: the mode after it, where it happens again.
        """

    def contact_rows(self, t, duration, phase: Phase) -> ContactRows:
        """The contacts at the start of a flight, with the velocities of obstacles against which
        those of bodies are measured there."""
        assert self.system.contacts is not None
        return ContactRows.of(self.system.contacts.find(t, phase).points(), phase)

    def contact_impulse(
        self, scheme: AbstractFlow, t: Float[Array, ""], duration: Float[Array, ""], phase: Phase
    ) -> tuple[Float[Array, "3 n_contacts"], Bool[Array, ""], Float[Array, ""]]:
        """The impulses of all contacts in a flight [N s], the normal ones first, whether they were
        found, and the residual of the law of contact, relative to the largest velocity along them.

        Raises:
            ValueError: if contacts do not last.
        """
        raise ValueError(
            "contact_forces: contacts do not last with this method. Use "
            'EventDriven(flow, dt, on_zeno="rest") or MoreauJean(dt).'
        )

    def zeno_time(
        self, t: Float[Array, ""], final: Phase, mode: Mode, code: Int[Array, ""]
    ) -> Float[Array, " n_bodies"]:
        """When infinitely many impacts of each body end [s]; infinite if they do not.

        NaN where they end but it is not known when.
        """
        unknown = jnp.where(code == Code.zeno, jnp.nan, jnp.inf)
        return jnp.broadcast_to(unknown, final.position.x.shape).astype(t.dtype)


class NoContacts(AbstractEvents):
    """The events of a world in which nothing can touch anything: none."""

    system: System

    def initial_mode(self, t, phase) -> Mode:
        return None

    def guards(self, t, end, contacts, mode, dt):
        like = end.position.x[0]
        no, far = jnp.zeros((), bool), jnp.full_like(like, jnp.inf)
        # What is not finite shows as the error of the flow.
        event = Event(jnp.zeros((), jnp.int32), jnp.zeros(1, bool))
        return Guards(no, no, no, far, far, far, event, ~no, no)

    def root(self, t, end, contacts, event, mode):
        return jnp.ones_like(end.position.x[0])

    def reset(self, t, end, contacts, event, resolution, mode, known=None):
        return Reset(end, mode, event)


@partial(jax.jit, static_argnums=0)  # a program uses it many times and traces it once
def free_flow(scheme: AbstractFlow, t, duration, phase: Phase, system: System) -> Step:
    """The flight of bodies that nothing touches, from a time [s] on."""
    return scheme.step(t, duration, phase, system.dynamics)
