"""Which contact points at the end of a flight are those at its start.

Solids with faces touch in several points, whose places in the row follow from how the solids lie on
each other (see `contact.patches`). As a box tips about an edge, another of its faces turns to what
it touches, and the ends of the edge come to other places; as one box spins on another, its corners
do, one after the other. A contact that is held through a flight is the same at its end, wherever it
is in the row.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from ..contact import Stops
from ..contact.points import ContactPoints
from ..math import Vec3, dot
from ..math.rarely import if_any

# A contact that is in another place is nearer there than where it was, by far: by the square root
# of this part.
_NEARER = 1 / 16


class Tracking(eqx.Module):
    """Where contacts have gone.

    Attributes:
        begin: the first contact of each kind whose places may change, by its number in the row.
        place: of each contact of such a kind that one among those of its pair at which it is now,
            of shape (n_pairs, n_places).
    """

    begin: tuple[int, ...] = eqx.field(static=True)
    place: tuple[Int[Array, "n_pairs n_places"], ...]

    @staticmethod
    def of(
        points: Sequence[ContactPoints | Stops],
        arms: tuple[Vec3, Vec3],
        held: Bool[Array, " n_contacts"],
    ) -> Tracking:
        """Of the contacts at the end of a flight.

        Args:
            points: of that phase.
            arms: of both sides at the start, from the centre of mass to the point, in the order of
                the contacts and in body frames [m].
            held: which of the contacts are followed.
        """
        begin, place, at = [], [], 0
        for own in points:
            end = at + own.gap.size
            if isinstance(own, ContactPoints) and own.places > 1:
                before = jax.tree.map(lambda leaf, part=slice(at, end): leaf[part], arms)
                begin.append(at)
                place.append(_place(*jax.lax.stop_gradient((own, before)), held[at:end]))
            at = end
        return Tracking(tuple(begin), tuple(place))

    def as_before(
        self, points: Sequence[ContactPoints | Stops]
    ) -> tuple[ContactPoints | Stops, ...]:
        """Contact points of the end in the order of those at the start."""
        known, at, ordered = dict(zip(self.begin, self.place, strict=True)), 0, []
        for own in points:
            if isinstance(own, ContactPoints) and at in known:
                ordered.append(_from(known[at], own))
            else:
                ordered.append(own)
            at += own.gap.size
        return tuple(ordered)

    def now(self, held: Bool[Array, " n_contacts"]) -> Bool[Array, " n_contacts"]:
        """Those held at the start, by their numbers at the end."""
        for begin, place in zip(self.begin, self.place, strict=True):
            own = slice(begin, begin + place.size)
            gone = held[own].reshape(place.shape)[:, :, None] & _is_at(place)
            held = held.at[own].set(jnp.any(gone, axis=1).reshape(-1))
        return held


def _place(
    points: ContactPoints, before: tuple[Vec3, Vec3], held: Bool[Array, " n_contacts"]
) -> Int[Array, "n_pairs n_places"]:
    """The places of contacts: where they were, unless another one is much nearer, in the frame of
    either body. A corner of one does not move in its own."""
    rows = lambda tree: jax.tree.map(lambda leaf: leaf.reshape(-1, points.places), tree)  # noqa: E731
    squares = []
    for side, arm in zip(points.sides, before, strict=False):
        old, new = rows((arm, side.point))
        apart = jax.tree.map(lambda a, b: a[:, :, None] - b[:, None], old, new)
        squares.append(dot(apart, apart))
    # What is open has the numbers of a contact that there is, but is far.
    square = jnp.min(jnp.stack(squares), axis=0) + rows(points.gap)[:, None] ** 2
    here = jnp.arange(points.places, dtype=jnp.int32)[None]
    stays = jnp.sum(jnp.where(_is_at(here), square, 0.0), axis=2)
    moves = rows(held) & (jnp.min(square, axis=2) < _NEARER * stays)
    return jnp.where(moves, jnp.argmin(square, axis=2).astype(jnp.int32), here)


def _from(place: Int[Array, "n_pairs n_places"], points: ContactPoints) -> ContactPoints:
    """Contact points in the order in which they are at these places."""

    def ordered(points: ContactPoints) -> ContactPoints:
        def from_places(leaf: Array) -> Array:
            row = leaf.reshape(place.shape)[:, None]
            return jnp.sum(jnp.where(_is_at(place), row, 0.0), axis=2).reshape(-1)

        return jax.tree.map(from_places, points)

    moved = jnp.any(place != np.arange(place.shape[1], dtype=np.int32)[None])
    return if_any(moved, ordered, lambda points: points, points)


def _is_at(place: Int[Array, "n_pairs n_places"]) -> Bool[Array, "n_pairs n_places n_places"]:
    """Whether each contact is at each place."""
    return place[:, :, None] == np.arange(place.shape[1], dtype=np.int32)[None, None]
