"""Flights that are proved free of impacts, part by part.

A flight begins at t0, at an impact, or with its step. Up to a duration `until` it is known that
nothing touches. A trial flies on from the start of the flight, and extends that duration if it can
be proved (see `contact.clearance`), or shows an impact that can be proved to be the first, or is
too long to prove anything: then a shorter one follows. So no impact is missed, the turns follow the
impacts and not the time, and whatever is proved on the way leaves no trace in the trajectory: a
flight is one evaluation of its flow, from its start.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase, SpinBounds, spin_bounds
from ..contact import AbstractContacts, AbstractContactSet
from ..contact.clearance import Clearance, Proof, shorter, time_to_contact
from ..flows import AbstractFlow
from ..math import tree_where
from .detectors import AbstractDetector, Inspection, Trial, Verdict
from .events import AbstractEvents, Contacts, Mode
from .tolerances import PerContact

# Growths of bounds are expected to be those of bodies that turn by so much [rad]; what then cannot
# be proved is taken in shorter parts.
_EXPECTED_ANGLE = 0.5
# Parts of a trial that follow one that has proved nothing: of its duration, and of that of which
# the gaps at both ends would be a proof.
_RETREAT, _SAFE = 0.8, 0.9
# After so many turns brackets of an impact are halved, whatever their gaps suggest.
_MANY_TURNS = 60


class Proving(eqx.Module):
    """The search within a flight; durations from its start [s]."""

    trial: Float[Array, ""]  # to try next
    until: Float[Array, ""]  # nothing touches before
    upper: Float[Array, ""]  # something does; infinite while none is known
    limit: Float[Array, ""]  # the end of the flight, or of what the flow can take at once
    turns: Int[Array, ""]
    spin: SpinBounds | None
    clearance: Clearance | None  # at `until`


class Proved(AbstractDetector):
    """Accepts flights that are proved free of impacts, and impacts that are proved the first."""

    searches = True
    most_turns = 20_000

    def start(self, events, scheme, phase, contacts, mode, size):
        zero, inf = jnp.zeros_like(size), jnp.full_like(size, jnp.inf)
        none = jnp.zeros((), jnp.int32)
        system = events.system
        limit = jnp.minimum(size, scheme.longest(phase, system.inertial))
        if contacts is None:
            return Proving(limit, zero, inf, limit, none, None, None)
        aim = _Aim(events, scheme, contacts, mode)
        assert system.inertial.principal is not None
        spin = spin_bounds(phase.angular_momentum, system.inertial.principal)
        clearance = aim.clearance(phase, spin)
        ahead = aim.ahead(clearance, clearance.pull, spin, limit)
        return Proving(jnp.minimum(ahead, limit), zero, inf, limit, none, spin, clearance)

    def inspect(self, state, trial, events, scheme):
        unsolved, duration = trial.error > 1, trial.duration
        crossed = trial.guards.penetrating | trial.guards.releasing
        if trial.contacts is None:
            proved, following = jnp.ones((), bool), state
            elsewhere = state.limit
        else:
            proved, following, elsewhere = self._judge(state, trial, crossed, events, scheme)
            proved |= duration < state.until  # of a flight that the flow could not take at once
        advance = proved & ~crossed & ~unsolved
        until = jnp.where(advance, duration, state.until)
        upper = jnp.where(crossed & ~unsolved, jnp.minimum(state.upper, duration), state.upper)
        # What the flow cannot take at once is halved, so that parts are fractions of what is left
        # of the step, as their derivatives have it, wherever trials have ended.
        limit = jnp.where(unsolved, 0.5 * state.limit, state.limit)

        resolution = self.resolution(duration, upper)
        narrow = upper - until <= 2 * resolution
        elsewhere = jnp.maximum(elsewhere, until + resolution)
        halve = (elsewhere >= upper) | (crossed & (state.turns > _MANY_TURNS))
        bracketed = upper < jnp.inf
        middle = until + 0.5 * (jnp.where(bracketed, upper, until) - until)
        elsewhere = jnp.where(bracketed & halve, middle, elsewhere)
        # Of a bracket that is narrow the lower end is tried before the upper one.
        end = jnp.where(duration == until, upper, until)
        elsewhere = jnp.where(narrow & bracketed, end, elsewhere)
        elsewhere = jnp.where(unsolved, limit, jnp.minimum(elsewhere, limit))
        following = Proving(
            elsewhere, until, upper, limit, state.turns + 1, following.spin, following.clearance
        )
        doubtful = ~(advance & (duration >= limit))
        at_last = narrow & (duration >= state.upper)
        verdict = Verdict(proved | narrow, until, narrow, at_last)
        return Inspection(following, doubtful, elsewhere, verdict)

    def first(self, state, size):
        return state.trial

    def resolution(self, duration: Float[Array, ""], upper: Float[Array, ""]) -> Float[Array, ""]:
        """To which durations are located [s]."""
        known = jnp.where(upper < jnp.inf, upper, duration)
        return 2 * jnp.finfo(duration.dtype).eps * known

    def _judge(
        self,
        state: Proving,
        trial: Trial,
        crossed: Bool[Array, ""],
        events: AbstractEvents,
        scheme: AbstractFlow,
    ) -> tuple[Bool[Array, ""], Proving, Float[Array, ""]]:
        """Whether a trial is proved; the state with what is known at its end if it is; and the
        duration to try next."""
        before, spin = state.clearance, state.spin
        assert before is not None and spin is not None
        assert trial.contacts is not None
        aim = _Aim(events, scheme, trial.contacts, trial.mode)
        flown = trial.duration - state.until
        growth = aim.growth(spin, trial.duration)
        proof = aim.contact_set.proof(
            before, trial.contacts, trial.end, flown, trial.duration, growth, aim.tolerance
        )
        holds = aim.skipped | proof.holds
        proved = jnp.all(holds)
        after = aim.clearance(trial.end, spin)
        moved = flown > 0
        bending = (after.rate - before.rate) / jnp.where(moved, flown, 1.0)
        bending = jnp.where(moved, bending, after.pull)

        # On from here, or a shorter part of the way here, as directions have turned on it.
        before, after = (
            dataclasses.replace(one, turn_bend=proof.turn_bend) for one in (before, after)
        )
        ahead = trial.duration + aim.ahead(after, bending, spin, state.limit)
        back = aim.back(before, after, bending, flown, proof._replace(holds=holds), crossed, growth)
        advance = proved & ~crossed
        following = eqx.tree_at(lambda s: s.clearance, state, tree_where(advance, after, before))
        return proved, following, jnp.where(advance, ahead, state.until + back)


class _Aim(NamedTuple):
    """What trials are chosen by, at the contacts of a phase."""

    events: AbstractEvents
    scheme: AbstractFlow
    contacts: AbstractContacts
    mode: Mode

    @property
    def contact_set(self) -> AbstractContactSet:
        contacts = self.events.system.contacts
        assert contacts is not None
        return contacts

    @property
    def tolerance(self) -> PerContact:
        """Of gaps [m]."""
        return self.events.gap_tolerance(self.contacts)

    @property
    def skipped(self) -> Contacts:
        """Contacts of which nothing is proved: of bodies in contacts that last."""
        held = self.events.lasting(self.mode, self.contacts.gap)
        if self.mode is None:
            return held
        row, mass = jnp.where(held.reshape(-1), 1.0, 0.0), self.events.system.inertial.mass
        touching, sides, start = jnp.zeros_like(mass), [], 0
        for points in self.contacts.points():
            end = start + points.gap.size
            sides.append([side.incidence for side in points.sides])
            for incidence in sides[-1]:
                touching += incidence.scatter(row[start:end], len(mass))
            start = end
        of_these = [sum(side.gather(touching) for side in own) > 0 for own in sides]
        return jnp.concatenate(of_these).reshape(held.shape)

    def clearance(self, phase: Phase, spin: SpinBounds) -> Clearance:
        system = self.events.system
        return self.contact_set.clearance(
            self.contacts, phase, spin.bend, system.inertial, system.dynamics.gravity
        )

    def growth(self, spin: SpinBounds, duration: Float[Array, ""]) -> Float[Array, ""]:
        """Of the bounds by the flow, of all bodies."""
        return jnp.max(self.scheme.bend_growth(spin.rate * duration))

    def ahead(
        self, here: Clearance, bending: PerContact, spin: SpinBounds, limit: Float[Array, ""]
    ) -> Float[Array, ""]:
        """How long the next part can be, or until the impact that is expected [s]."""
        angle = jnp.minimum(spin.rate * limit, _EXPECTED_ANGLE)
        growth = jnp.max(self.scheme.bend_growth(angle))
        longest, _ = here.provable(bending, growth, self.tolerance)
        return jnp.min(jnp.where(self.skipped, jnp.inf, longest))

    def back(
        self,
        before: Clearance,
        after: Clearance,
        bending: PerContact,
        flown: Float[Array, ""],
        proof: Proof,
        crossed: Bool[Array, ""],
        growth: Float[Array, ""],
    ) -> Float[Array, ""]:
        """How much of a part to try that is too long, or at whose end something has touched [s]."""
        tolerance = self.tolerance
        bound = before.bend(growth)
        touching = (after.gap < 0) & ~self.skipped
        contact = flown + time_to_contact(after.gap - 0.5 * tolerance, after.rate, bending)
        known = (contact > 0) & (contact < jnp.inf)
        within = jnp.where(known & (contact < flown), contact, 0.5 * flown)
        towards = shorter(before.gap, jnp.where(known, contact, flown), bound, tolerance)
        if_touching = jnp.where(touching, shorter(before.gap, within, bound, tolerance), jnp.inf)

        falling = known & (after.rate < 0)
        safe = _SAFE * proof.safe
        if_open = jnp.where(falling, jnp.maximum(safe, towards), safe)
        if_open = jnp.where(proof.holds, jnp.inf, jnp.minimum(if_open, _RETREAT * flown))
        shortest = jnp.min(jnp.where(crossed, if_touching, if_open))
        return jnp.where(shortest < jnp.inf, shortest, 0.5 * flown)
