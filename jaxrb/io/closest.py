"""Whether the closest points of two solids are known, so that they can touch."""

from __future__ import annotations

import jax

from ..contact.colliders import kind
from ..contact.narrow_phase import prepare
from ..shapes import AbstractSolid


class ClosestPoints:
    """Asks for each two kinds of solids once: a model has many of each."""

    def __init__(self):
        self._known: dict[tuple[str, str], bool] = {}

    def unknown(
        self, one: dict[str, AbstractSolid], other: dict[str, AbstractSolid]
    ) -> list[tuple[str, str]]:
        """The kinds of solids of two bodies whose closest points are not known."""
        pairs = [(a, b) for a in one for b in other]
        for a, b in pairs:
            if (a, b) not in self._known:
                self._known[a, b] = self._known[b, a] = _is_known(one[a], other[b])
        return [pair for pair in pairs if not self._known[pair]]


def solids_by_kind(shape: AbstractSolid) -> dict[str, AbstractSolid]:
    """One solid of each kind of which a shape is the union."""
    return {kind(piece): piece for piece in reversed(shape.pieces())}


def _is_known(one: AbstractSolid, other: AbstractSolid) -> bool:
    try:
        jax.eval_shape(prepare, one, other)  # computes nothing
    except ValueError:
        return False
    return True
