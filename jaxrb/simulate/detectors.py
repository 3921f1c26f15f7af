"""How a trial step is searched for events.

The gaps at its end show a contact that penetrates there. A step may also have dipped through an
obstacle on the way: a gap that falls at the start and rises at the end has a minimum inside.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from ..contact import AbstractContacts
from ..contact.single import at
from ..flows import AbstractFlow
from ..math import tree_where
from ..math.materialize import compute_once
from .events import AbstractEvents, Contacts, Guards, Mode
from .impact_events import least

State = Any  # a pytree; None where nothing is remembered between trials


class Trial(NamedTuple):
    """A trial that was flown."""

    t: Float[Array, ""]  # time at its end [s]
    start: Phase  # of the flight
    end: Phase
    duration: Float[Array, ""]  # [s]
    mode: Mode
    before: AbstractContacts | None  # contacts at its start, where they are kept
    contacts: AbstractContacts | None  # at its end
    guards: Guards
    error: Float[Array, ""]  # of the flow, relative to the one allowed


class Verdict(NamedTuple):
    """What a detector that searches by itself says of an event at the end of a trial."""

    proved: Bool[Array, ""]  # it would be the first
    until: Float[Array, ""]  # no event comes before this duration [s]
    narrow: Bool[Array, ""]  # one is known to come then, to round-off
    at_last: Bool[Array, ""]  # it is to be taken here


class Inspection(NamedTuple):
    """The result of inspecting a trial."""

    state: State
    doubtful: Bool[Array, ""]  # if it ended without an event, it must not be accepted yet
    elsewhere: Float[Array, ""]  # the duration to try then [s]
    verdict: Verdict | None = None  # of a detector that searches by itself
    # Whether the trial ends where an impact is expected; one that is there is the first.
    expecting: Bool[Array, ""] | None = None


class AbstractDetector(eqx.Module):
    """A way to look for events within a trial."""

    # Whether it chooses every trial of a flight, those that locate an event, too.
    searches: ClassVar[bool] = False
    # Whether it says where to try first in a flight.
    expects: ClassVar[bool] = False
    # An event that takes more iterations to locate cannot be located.
    most_turns: ClassVar[int] = 200

    @abc.abstractmethod
    def start(
        self,
        events: AbstractEvents,
        scheme: AbstractFlow,
        phase: Phase,
        contacts: AbstractContacts | None,
        mode: Mode,
        size: Float[Array, ""],
    ) -> State:
        """Before the first trial of a flight.

        Args:
            events: of the world.
            scheme: of the flight.
            phase: at its start.
            contacts: of that phase, or of one with the same poses.
            mode: in which it is flown.
            size: its largest duration [s].
        """

    @abc.abstractmethod
    def inspect(
        self, state: State, trial: Trial, events: AbstractEvents, scheme: AbstractFlow
    ) -> Inspection:
        """Inspects a trial besides the guards at its end.

        Args:
            state: of the search within this flight.
            trial: that was flown.
            events: of the world.
            scheme: of the flight.
        """

    def first(self, state: State, size: Float[Array, ""]) -> Float[Array, ""]:
        """The duration of the first trial of a flight [s]."""
        return size


class EndOfStep(AbstractDetector):
    """Looks for penetration at the end of each trial alone, as Tran and Leok do."""

    def start(self, events, scheme, phase, contacts, mode, size):
        return None

    def inspect(self, state, trial, events, scheme):
        return Inspection(None, jnp.zeros((), bool), trial.duration)


# A contact that is not where it was expected is looked for so many times, by Newton's rule.
_MOST_GUESSES = 3


class _Expectation(eqx.Module):
    """The impact that is expected in the present flight."""

    trial: Float[Array, ""]  # after which it is [s]; infinite if none is
    guesses: Int[Array, ""]


class ExpectedImpact(AbstractDetector):
    """Looks for penetration at the end of each step too, but first where an impact is expected by
    what would penetrate there, in free flight under gravity.

    Of balls that nothing else moves, each impact takes one trial. Where others were expected the
    end of the step is looked at, as if none had been.
    """

    expects = True

    def start(self, events, scheme, phase, contacts, mode, size):
        system = events.system
        assert system.contacts is not None
        gravity = system.dynamics.gravity
        phase = compute_once(phase)  # which is a choice between several, asked for at each contact
        expected = system.contacts.expected(phase, system.inertial, gravity, size)
        return _Expectation(jnp.min(expected), jnp.zeros((), jnp.int32))

    def inspect(self, state: _Expectation, trial: Trial, events, scheme):
        expecting = trial.duration == state.trial
        left = jnp.where(state.guesses < _MOST_GUESSES, trial.guards.time, jnp.inf)
        following = _Expectation(trial.duration + left, state.guesses + 1)
        return Inspection(following, expecting, following.trial, expecting=expecting)

    def first(self, state, size):
        return jnp.minimum(state.trial, size)


# The tangents of a gap meet below it only where it is convex. Where it bends otherwise, its dip is
# estimated by a cubic, which misses it by O(dt^4): dips that are above zero by this fraction of
# their depth are probed, too.
_MARGIN = 0.02
# Of one contact; each at least halves the interval in which its gap may be least, or nearly so.
_MOST_PROBES = 12


class _Dip(eqx.Module):
    """Where the gap of one contact is least, between two places of a flight."""

    lower: Float[Array, "..."]  # a duration before it [s]
    upper: Float[Array, "..."]  # one after
    gap: tuple[Float[Array, "..."], Float[Array, "..."]]  # there [m]
    rate: tuple[Float[Array, "..."], Float[Array, "..."]]  # there [m/s], negative and positive

    def by_tangents(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Where the tangents meet, as a fraction of the interval, and how high [m]."""
        length = self.upper - self.lower
        fall, climb = self.rate[0] * length, self.rate[1] * length
        below = jnp.where(fall < climb, fall - climb, -1.0)
        place = jnp.clip((self.gap[1] - self.gap[0] - climb) / below, 0.0, 1.0)
        return place, self.gap[0] + fall * place

    def by_rates(self) -> Float[Array, "..."]:
        """Where the rate is zero if it is linear, as a fraction of the interval."""
        falls = self.rate[0] < self.rate[1]
        return self.rate[0] / jnp.where(falls, self.rate[0] - self.rate[1], -1.0)

    def by_cubic(self) -> Float[Array, "..."]:
        """The least value of the cubic through gaps and rates [m]."""
        length = self.upper - self.lower
        rise, a, end = self.gap[1] - self.gap[0], self.rate[0] * length, self.rate[1] * length
        b, c = 3 * rise - 2 * a - end, a + end - 2 * rise
        root = jnp.sqrt(jnp.maximum(b * b - 3 * a * c, 0.0))
        u = jnp.clip(-a / jnp.where(b + root > 0, b + root, -a), 0.0, 1.0)
        return self.gap[0] + u * (a + u * (b + u * c))

    def within(self, place: Float[Array, "..."]) -> Float[Array, "..."]:
        """The duration at a fraction of the interval, not at its very ends [s]."""
        return self.lower + jnp.clip(place, 0.02, 0.98) * (self.upper - self.lower)


class _Probing(eqx.Module):
    """The search within the present flight."""

    contact: Contacts  # whose dip is probed; none while the end of the flight is looked at
    cleared: Contacts  # those whose dips stay above zero
    dip: _Dip
    end: Float[Array, ""]  # of the flight [s]
    probes: Int[Array, ""]


class Interior(AbstractDetector):
    """Also finds contacts that open again within the step.

    A gap that falls at the start and rises at the end of a flight has a minimum inside. Where its
    tangents at both ends meet below zero, or a cubic through both comes close to it, the flow is
    probed, contact by contact in the order of these minima; the first probe that penetrates
    brackets the impact, and a dip that the tangents keep above zero is cleared. Gaps that are
    convex in time are thus not missed, such as those between balls in free flight, however far
    they move in a step. Not found are contacts whose gap falls and rises more than once in a
    flight, or rises at its start and falls at its end.
    """

    def start(self, events, scheme, phase, contacts, mode, size):
        if contacts is None:
            return None
        none = jnp.zeros(contacts.gap.shape, bool)
        zero = jnp.zeros((), contacts.gap.dtype)
        dip = _Dip(zero, zero, (zero, zero), (zero, zero))
        return _Probing(none, none, dip, zero, jnp.zeros((), jnp.int32))

    def inspect(self, state: _Probing, trial: Trial, events, scheme):
        after, start, end, mode = trial.contacts, trial.start, trial.end, trial.mode
        duration, before = trial.duration, trial.before
        if before is None:
            before = events.contacts(trial.t - duration, start)
        if before is None or after is None:
            return Inspection(state, jnp.zeros((), bool), duration)
        inertial = events.system.inertial
        rate_before = before.kinematics(start, inertial).normal_velocity
        rate_after = after.kinematics(end, inertial).normal_velocity

        # At the end of the flight: the earliest dip that may reach zero, of those not cleared.
        still = events.lasting(mode, before.gap) | state.cleared
        turning = (rate_before < 0) & (rate_after > 0) & ~still
        falling, rising = jnp.where(turning, rate_before, -1.0), jnp.where(turning, rate_after, 1.0)
        none = jnp.zeros_like(before.gap)
        dips = _Dip(none, none + duration, (before.gap, after.gap), (falling, rising))
        place, lowest = dips.by_tangents()
        margin = _MARGIN * (rising - falling) * duration
        suspect = turning & (jnp.minimum(lowest, dips.by_cubic() - margin) < 0)
        first = least(jnp.where(suspect, place, jnp.inf), events.system)
        probing = jnp.any(state.contact)
        found = ~probing & jnp.any(suspect)

        # At a probe: may the gap still reach zero, on the side where it is least?
        gap, rate = at(state.contact, (after.gap, rate_after))
        old, rises = state.dip, rate > 0
        halved = _Dip(
            jnp.where(rises, old.lower, duration),
            jnp.where(rises, duration, old.upper),
            (jnp.where(rises, old.gap[0], gap), jnp.where(rises, gap, old.gap[1])),
            (jnp.where(rises, old.rate[0], rate), jnp.where(rises, rate, old.rate[1])),
        )
        place_again, lowest = halved.by_tangents()
        again = probing & (lowest < 0) & (state.probes < _MOST_PROBES)
        # Tangents are right where a gap turns sharply, the rates where it is a parabola.
        place_again = jnp.where(state.probes % 2 == 0, halved.by_rates(), place_again)

        place = jnp.where(found, at(first, place), place_again)
        dip = tree_where(found, at(first, dips), halved)
        following = _Probing(
            contact=jnp.where(found, first, state.contact & again),
            cleared=state.cleared | (state.contact & ~again),
            dip=dip,
            end=jnp.where(probing, state.end, duration),
            probes=jnp.where(again, state.probes + 1, 0),
        )
        elsewhere = jnp.where(found | again, dip.within(place), following.end)
        return Inspection(following, found | probing, elsewhere)
