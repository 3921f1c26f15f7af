"""Proofs that nothing touches during a flight.

Along a fixed direction n the separation of two convex solids is the least of the differences
n . (p - q) over all their points p and q; that of a body and a half-space is the least of the
heights of its points. Along a flight of free bodies each of these is a smooth function of time
whose second derivative is at most

    B = n . g + C R

with the relative gravity g, a bound C of the norm of S(Omega)^2 + S(Omega') and the distance R of
the turning points from the centre of mass (a sum over both bodies). From above alone: gravity
that pulls a body towards a half-space only bends its heights down. Such a function f is at least
the chord less a parabola, f(t) >= f(0) (1 - t/a) + f(a) t/a - B t (a - t)/2, which is positive on
all of [0, a] if

    sqrt(f(0)) + sqrt(f(a)) > a sqrt(B/2),                                                      (P)

and only if that cannot be said from these three numbers. So an impact at t is known to be the
first if t < sqrt(2 f(0)/B), and flights away from a contact at a rate v are free of impacts for
2 v/B. The balls about the centres of mass that hold the bodies do not turn: for them C R is zero.

Edges that cross, and thin rods, turn out of the plane between them at once: along a fixed direction
their separation falls as fast as their ends turn, however slowly they come near. Along a direction
that turns evenly at a rate w, from the normal at the start to that at the end, it falls as the gap
does. There n . (p - q) has a second derivative of at most

    B + 2 w V - w^2 n . (p - q)

with a bound V of the relative speed of the points. The last term can be left out: with f'' + w^2 f
<= B + 2 w V, and a w < pi, f is not less than a positive function with the same ends whose second
derivative is B + 2 w V (maximum principle), which is that of (P).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..math import Vec3, norm, tree_where

PerContact = Float[Array, "..."]

# Trials aim at this part of what is expected to be provable.
_PART = 0.97


class Reach(eqx.Module):
    """Distances from the centre of mass of a body; arrays as the contacts need them."""

    swing: Float[Array, "..."]  # of the points that a rotation moves [m]
    ball: Float[Array, "..."]  # of all points [m]


class Separation(NamedTuple):
    """The separation along some directions, of the solids and of the balls that hold them [m]."""

    solids: PerContact
    balls: PerContact  # -infinite where it says nothing


class View(NamedTuple):
    """A flight, seen along directions that are held fixed during it."""

    before: Separation
    after: Separation
    pull: PerContact  # n . g, of one body relative to the other [m/s^2]

    def proof(self, clearance: Clearance, duration, since, growth, tolerance) -> Proof:
        """What (P) says; arguments as of `Clearance.proof`."""
        before, after = self.before.solids + tolerance, self.after.solids + tolerance
        bound = jnp.maximum(self.pull + clearance.swing * growth, 0.0)
        # One that starts below, as it was let in or by a last digit, is an impact if it goes
        # deeper. A direction that separates the solids at the end alone proves nothing: a thin
        # one may have passed through the other on the way.
        parted = before >= jnp.minimum(clearance.gap, 0.0)
        safe = jnp.where(parted, _safe(before, after, bound), 0.0)
        holds = parted & (safe >= duration) & (after >= 0)
        balls = _safe(self.before.balls, self.after.balls, jnp.maximum(self.pull, 0.0))
        holds |= (balls >= duration) & (self.before.balls > 0) & (self.after.balls > 0)
        return Proof(holds, safe, jnp.zeros_like(safe))


class TurningView(NamedTuple):
    """A flight, seen along directions that turn evenly during it."""

    before: PerContact  # the separation of the solids along the first direction [m]
    after: PerContact  # along the last one
    angle: PerContact  # between both, infinite if it is large [rad]
    gravity: PerContact  # the size of one body's relative to the other [m/s^2]

    @classmethod
    def of(cls, start: tuple[PerContact, Vec3], end: tuple[PerContact, Vec3], gravity: Vec3):
        """From separations and the directions along which they are, at both ends."""
        chord = norm(end[1] - start[1])
        # Of chords below 1, angles are less than pi/3 of it.
        angle = jnp.where(chord < 1, np.pi / 3 * chord, jnp.inf)
        return cls(start[0], end[0], angle, norm(gravity))

    def proof(self, clearance: Clearance, duration, since, growth, tolerance) -> Proof:
        """What (P) says; arguments as of `Clearance.proof`."""
        before, after = self.before + tolerance, self.after + tolerance
        rate = self.angle / jnp.where(duration > 0, duration, jnp.inf)
        # Of discrete flows the speed is that of the body where the flow begins, and changes.
        gained = jnp.where(growth > 1, clearance.swing * growth * since, 0.0)
        added = 2 * rate * (clearance.speed + gained + self.gravity * duration)
        # The term -w^2 f, left out above, where f may be as low as minus the tolerance.
        added += rate**2 * tolerance
        bound = self.gravity + clearance.swing * growth + added
        known = (before >= jnp.minimum(clearance.gap, 0.0)) & (bound < jnp.inf)
        safe = jnp.where(known, _safe(before, after, jnp.where(known, bound, 1.0)), 0.0)
        holds = known & (safe >= duration) & (after >= 0)
        return Proof(holds, safe, jnp.where(known, added, 0.0))


class Proof(NamedTuple):
    """What is known of the gaps during a flight."""

    holds: Bool[Array, "..."]  # it is proved that they stay above minus their tolerance
    safe: PerContact  # the duration for which the separations at its ends would be a proof [s]
    # What the turning of the direction adds to the bound, where such a one proves most [m/s^2].
    turn_bend: PerContact

    def best(self, other: Proof) -> Proof:
        """What is known by either."""
        chosen = tree_where(other.safe > self.safe, other, self)
        return chosen._replace(holds=self.holds | other.holds)


class Clearance(eqx.Module):
    """What bounds the gaps from a moment of a flight on; arrays have one entry per contact."""

    start: Any  # what `AbstractContactSet.views` needs of that moment
    gap: PerContact  # [m]
    rate: PerContact  # of the gap [m/s]
    balls: PerContact  # the separation of the balls about the bodies [m]
    balls_rate: PerContact  # [m/s]
    pull: PerContact  # n . g, of one body relative to the other [m/s^2]
    swing: PerContact  # C R, the sum over both bodies [m/s^2]
    speed: PerContact  # V, for the moment; 0 where no directions turn [m/s]
    turn_bend: PerContact  # what they are expected to add to B [m/s^2]

    def bend(self, growth: Float[Array, ""]) -> PerContact:
        """What trials are chosen by: B, with C larger by a factor, and what is expected to be
        added."""
        return jnp.maximum(self.pull + self.swing * growth, 0.0) + self.turn_bend

    def proof(
        self,
        views: Sequence[View | TurningView],
        duration: Float[Array, ""],
        since: Float[Array, ""],
        growth: Float[Array, ""],
        tolerance: PerContact,
    ) -> Proof:
        """What (P) says of the gaps during a flight, along the best of some directions.

        Args:
            views: of the flight.
            duration: of the flight [s].
            since: from where its flow began to its end [s].
            growth: how much C exceeds that of exact flight.
            tolerance: of gaps [m].
        """
        each = (view.proof(self, duration, since, growth, tolerance) for view in views)
        return reduce(Proof.best, each)

    def provable(
        self, bending: PerContact, growth: Float[Array, ""], tolerance: PerContact
    ) -> tuple[PerContact, PerContact]:
        """How long a flight can be to be proved free of impacts, or when it ends with one [s];
        and when one is expected [s], at half the tolerance.

        Args:
            bending: an estimate of the second derivative of the gaps [m/s^2].
            growth: how much C exceeds that of exact flight.
            tolerance: of gaps [m].
        """
        bound = self.bend(growth)
        contact = time_to_contact(self.gap - 0.5 * tolerance, self.rate, bending)
        # Not the one that is just over.
        leaves = (self.rate > 0) & (bending >= 0)
        contact = jnp.where(leaves, jnp.inf, jnp.maximum(contact, 0.0))
        solids = _longest(self.gap + tolerance, self.rate, bending, contact, bound)
        balls = time_to_contact(self.balls, self.balls_rate, self.pull)
        balls = jnp.where(self.balls > 0, balls * (1 - 1e-6), 0.0)
        return jnp.maximum(solids, balls), contact


def time_to_contact(gap: PerContact, rate: PerContact, bending: PerContact) -> PerContact:
    """When a gap + rate t + bending t^2/2 falls to zero, at t >= 0 if it is positive [s]; infinite
    if it does not. Of a negative one that rises again it is when it did, t < 0."""
    square = rate**2 - 2 * bending * gap
    root = jnp.sqrt(jnp.maximum(square, 0.0))
    # Of the two forms of the root, the one in which nothing cancels.
    rising = (rate > 0) & (bending < 0)
    late = (rate + root) / jnp.where(rising, -bending, 1.0)
    falls = rate - root < 0
    early = -2 * gap / jnp.where(falls, rate - root, -1.0)
    found = jnp.where(rising, late, jnp.where(falls, early, jnp.inf))
    return jnp.where(square >= 0, found, jnp.inf)


def shorter(
    gap: PerContact, contact: PerContact, bound: PerContact, tolerance: PerContact
) -> PerContact:
    """How long a flight towards an expected contact can be, of a gap that falls steadily [s].

    With the contact at t and c = t sqrt(B/2)/sqrt(gap): all of it if c <= 1, else (P) allows
    t (2 c - 1)/c^2.
    """
    near = jnp.sqrt(jnp.maximum(gap + tolerance, 0.0))
    reach = contact * jnp.sqrt(0.5 * bound)
    c = reach / jnp.where(near > 0, near, 1.0)
    part = jnp.where(near > 0, _PART * (2 * c - 1) / jnp.maximum(c * c, 1.0), 0.3)
    return jnp.where((near > 0) & (c <= 1), contact, contact * part)


def _safe(before: PerContact, after: PerContact, bound: PerContact) -> PerContact:
    """The duration for which (P) holds with these separations [s]."""
    roots = jnp.sqrt(jnp.maximum(before, 0.0)) + jnp.sqrt(jnp.maximum(after, 0.0))
    bends = bound > 0
    return jnp.where(bends, roots / jnp.sqrt(jnp.where(bends, 0.5 * bound, 1.0)), jnp.inf)


def _longest(gap, rate, bending, contact, bound) -> PerContact:
    """The largest t for which sqrt(gap) + sqrt(gap + rate t + bending t^2/2) = t sqrt(bound/2), or
    when contact comes if (P) holds until then."""
    near, beta = jnp.sqrt(jnp.maximum(gap, 0.0)), jnp.sqrt(0.5 * bound)
    curved = 0.5 * (bound - bending)
    bends = curved > 0
    open_until = (rate + 2 * beta * near) / jnp.where(bends, curved, 1.0)
    open_until = jnp.where(bends, _PART * jnp.maximum(open_until, 0.0), jnp.inf)
    soon = contact < jnp.inf
    first = soon & (jnp.where(soon, contact, 0.0) * beta <= near)
    return jnp.where(first, contact, open_until)
