"""Contacts that are near: the few of many that can be closed soon.

Of n bodies, n^2/2 pairs can touch, but few are near each other, and the same ones for a while. A
list holds the contacts between bodies that are nearest, as many as it has places, and where the
bodies were when it was made. Bodies that have not moved further than half the gap of the nearest
contact that is not in it cannot have closed that one, whatever moved them: until then the list is
as good as all contacts. This is a list of Verlet (1967), https://doi.org/10.1103/PhysRev.159.98,
whose range follows from its length.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from ..math import Vec3, dot
from ..math.materialize import compute_once
from ..math.rarely import if_any
from ..math.selection import first_that_hold
from .base import AbstractContactSet
from .concatenated import MixedContacts

# Places of a list, for each body. Balls of one size that are packed densely have 6 neighbours each,
# counted once; in a gas, a longer list costs more in every turn than it is made less often.
PLACES = 2
# Lists are kept where they leave out more contacts than so many: for 8 balls in a box they more
# than halve the time of a batch, but programs take longer to compile.
FEW = 64
# Ranges of lists are found to this part of the greatest one, 2^-n.
_HALVINGS = 10
# Of the range, for the round-off of distances.
_SAFE = 0.99


class NearContacts(eqx.Module):
    """A list of near contacts."""

    # Of each part of the contacts (see `parts_of`), the numbers of those near in it; None if it is
    # always taken whole.
    numbers: tuple[Int[Array, " n"] | None, ...]
    center: Vec3  # of each body when it was made (n_bodies,) [m]
    range: Float[Array, ""]  # how far bodies can move until it may be incomplete [m]

    @staticmethod
    def none(contacts: AbstractContactSet, phase: Phase) -> NearContacts:
        """A list that is to be made yet."""
        numbers = tuple(
            None if part.leeway(phase) is None else jnp.zeros(_length(part, phase), jnp.int32)
            for part in parts_of(contacts)
        )
        return NearContacts(numbers, phase.position, jnp.full_like(phase.position.x[0], -1.0))

    def complete(self, phase: Phase) -> Bool[Array, ""]:
        """Whether no contact outside the list can be closed; of a list that was renewed at a phase,
        unless more contacts are near there than it has places."""
        moved = phase.position - self.center
        return jnp.max(dot(moved, moved)) < jnp.where(
            self.range > 0, (_SAFE * self.range) ** 2, 0.0
        )

    def crowded(self) -> Bool[Array, ""]:
        """Whether more contacts were near when it was made than it has places."""
        return ~(self.range > 0)

    def renewed(self, contacts: AbstractContactSet, phase: Phase) -> NearContacts:
        """A list for a phase: this one, or a new one if in any world of a batch this one may be
        incomplete."""

        def anew(near: NearContacts) -> NearContacts:
            return _nearest(contacts, phase)

        return if_any(~self.complete(phase), anew, lambda near: near, self)

    def among(
        self, contacts: AbstractContactSet
    ) -> tuple[AbstractContactSet, Int[Array, " n_contacts"]]:
        """The contacts in the list, and of each its number among all."""
        return _some(contacts, self.numbers)


def alone(
    contacts: AbstractContactSet, number: Int[Array, ""]
) -> tuple[AbstractContactSet, Int[Array, " n_contacts"]]:
    """A few contacts, among them the one of a number, and of each its number among all."""
    own, first = [], 0
    for part in parts_of(contacts):
        own.append(jnp.clip(number - first, 0, part.number - 1)[None])
        first += part.number
    return _some(contacts, own)


def is_large(contacts: AbstractContactSet, phase: Phase) -> bool:
    """Whether a list of near contacts is shorter by so many that it pays."""
    fewer = [
        part.number - _length(part, phase)
        for part in parts_of(contacts)
        if part.leeway(phase) is not None
    ]
    return sum(fewer) > FEW


def parts_of(contacts: AbstractContactSet) -> tuple[AbstractContactSet, ...]:
    """The sets of which contacts are made, one after the other."""
    return contacts.sets if isinstance(contacts, MixedContacts) else (contacts,)


def _some(
    contacts: AbstractContactSet, numbers: Sequence[Int[Array, " n"] | None]
) -> tuple[AbstractContactSet, Int[Array, " n"]]:
    """Of each part the contacts of these numbers, or all."""
    chosen, every, first = [], [], 0
    for part, own in zip(parts_of(contacts), numbers, strict=True):
        row = None if own is None else part.only(own)
        if own is None or row is None:
            chosen.append(part)
            every.append(first + jnp.arange(part.number, dtype=jnp.int32))
        else:
            chosen.append(row)
            every.append(first + own)
        first += part.number
    joined = MixedContacts(tuple(chosen)) if len(chosen) > 1 else chosen[0]
    return joined, jnp.concatenate(every)


def _nearest(contacts: AbstractContactSet, phase: Phase) -> NearContacts:
    """The list for a phase."""
    numbers, ranges = [], []
    for part in parts_of(contacts):
        leeway = part.leeway(phase)
        if leeway is None:
            numbers.append(None)
            continue
        own, until = _least(leeway, _length(part, phase))
        numbers.append(own)
        ranges.append(until)
    return NearContacts(tuple(numbers), phase.position, jnp.min(jnp.stack(ranges)))


def _length(part: AbstractContactSet, phase: Phase) -> int:
    return min(part.number, PLACES * phase.position.x.shape[0])


def _least(
    values: Float[Array, " n"], places: int
) -> tuple[Int[Array, " places"], Float[Array, ""]]:
    """The numbers of the values below a bound, and that bound: nearly the greatest, 0 or more, for
    which there are places; 0 if there is none. Empty places hold the number 0.

    The bound is found by bisection: sorting takes twenty times as long.
    """
    coarse = compute_once(values.astype(jnp.float32))  # to read them takes most of the time

    def halve(_, bounds):
        lower, upper = bounds
        middle = 0.5 * (lower + upper)
        fits = jnp.sum(coarse < middle, dtype=jnp.int32) <= places
        return jnp.where(fits, middle, lower), jnp.where(fits, upper, middle)

    # As integers, which are in the same order, and of which XLA finds the greatest much sooner.
    size = jax.lax.bitcast_convert_type(coarse, jnp.int32)
    most = jnp.max(jnp.where((coarse > 0) & (coarse < jnp.inf), size, 0))
    most = jax.lax.bitcast_convert_type(most, jnp.float32)
    bound, _ = jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.zeros_like(most), 2 * most))
    return first_that_hold(coarse < bound, places), bound.astype(values.dtype)
