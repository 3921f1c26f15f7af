"""Which geoms of a compiled model touch, and with which friction.

Models have hundreds of geoms and tens of thousands of pairs of them: all questions are asked of
many geoms against many at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .report import Losses
from .settings import disabled
from .unsupported import name_of


class Friction(NamedTuple):
    """The coefficients of two geoms."""

    sliding: float = 0.0
    spinning: float = 0.0  # MuJoCo's torsional friction [m]
    rolling: float = 0.0  # [m]

    def __str__(self):
        turning = f" (spinning {self.spinning:g} m, rolling {self.rolling:g} m)"
        return f"{self.sliding:g}{turning if self.spinning or self.rolling else ''}"


class Touch(NamedTuple):
    """One thing against another, each of several geoms."""

    touching: int  # pairs of their geoms that touch
    apart: int  # those that do not
    frictions: list[Friction]  # the different ones of those that touch, in ascending order


class Contacts:
    """The contacts of a model, by MuJoCo's rules for masks, exclusions, explicit pairs, and bodies
    of which one carries the other."""

    def __init__(self, mujoco: Any, model: Any, law_given: bool, losses: Losses):
        self._model, self._law_given, self._losses = model, law_given, losses
        self._disabled = disabled(mujoco, model, "CONTACT", "CONSTRAINT")
        codes = [divmod(int(code), 1 << 16) for code in model.exclude_signature]
        self._excluded = [_code(a, b) for a, b in codes] + [_code(b, a) for a, b in codes]
        self._explicit: dict[int, list[tuple[int, int]]] = {}
        ends = zip(model.pair_geom1, model.pair_geom2, strict=True)
        for index, (a, b) in enumerate(ends):
            self._explicit.setdefault(int(a), []).append((int(b), index))
            self._explicit.setdefault(int(b), []).append((int(a), index))
        # Of each body the first of those welded to it, and that of those that carry these.
        self._welded = np.array(model.body_weldid)
        self._carrier = self._welded[np.array(model.body_parentid)[self._welded]]
        self._carriers_touch = disabled(mujoco, model, "FILTERPARENT")
        self._soft = {element: _softness(model, element) for element in ("geom", "pair")}

    def touch(self, one: Sequence[int], other: Sequence[int]) -> Bool[np.ndarray, "one other"]:
        """Whether geoms of different groups can touch."""
        model, rows, columns = self._model, _indices(one)[:, None], _indices(other)
        if self._disabled:
            return np.zeros((len(one), len(other)), bool)
        types, affinities = np.array(model.geom_contype), np.array(model.geom_conaffinity)
        masks = (types[rows] & affinities[columns]) | (types[columns] & affinities[rows])
        bodies = np.array(model.geom_bodyid, np.int64)
        allowed = ~np.isin(_code(bodies[rows], bodies[columns]), self._excluded)
        if not self._carriers_touch:
            allowed &= ~self._carry(bodies[rows], bodies[columns])
        return ((masks != 0) & allowed) | (self._pairs(one, other) >= 0)

    def _carry(
        self, one: Int[np.ndarray, "one 1"], other: Int[np.ndarray, " other"]
    ) -> Bool[np.ndarray, "one other"]:
        """Whether one of two bodies carries the other by its joints; the world carries nothing."""
        a, b = self._welded[one], self._welded[other]
        return (a != 0) & (b != 0) & ((self._carrier[one] == b) | (self._carrier[other] == a))

    def between(self, one: Sequence[int], others: Sequence[Sequence[int]]) -> list[Touch]:
        """The geoms of one thing against those of each of several others, none of them empty."""
        columns = [geom for other in others for geom in other]
        touching = self.touch(one, columns)
        friction = self._friction(one, columns, touching)
        ends = np.cumsum([0, *(len(other) for other in others)])
        return [_summary(touching[:, a:b], friction[:, a:b]) for a, b in pairwise(ends.tolist())]

    def _pairs(self, one: Sequence[int], other: Sequence[int]) -> Int[np.ndarray, "one other"]:
        """The number of the explicit pair that two geoms are, -1 of none."""
        found = np.full((len(one), len(other)), -1)
        places = {geom: column for column, geom in enumerate(other)} if self._explicit else {}
        for row, geom in enumerate(one):
            for partner, index in self._explicit.get(geom, ()):
                if partner in places:
                    found[row, places[partner]] = index
        return found

    def _friction(
        self, one: Sequence[int], other: Sequence[int], touching: Bool[np.ndarray, "one other"]
    ) -> Float[np.ndarray, "one other 3"]:
        """The coefficients of geoms that touch, as `Friction`; zero if a law is given."""
        model = self._model
        pairs = self._pairs(one, other)
        explicit = touching & (pairs >= 0)
        usual = touching & (pairs < 0)
        rows, columns = np.broadcast_arrays(_indices(one)[:, None], _indices(other))
        self._note_softness("geom", np.concatenate([rows[usual], columns[usual]]))
        self._note_softness("pair", pairs[explicit])
        found = np.zeros((*touching.shape, len(Friction._fields)))
        if self._law_given:
            return found

        # By MuJoCo's rule those of the geom of higher priority, or the larger of the two.
        first, second = rows[usual], columns[usual]
        rank = np.array(model.geom_priority)
        first, second = (
            np.where(rank[first] < rank[second], second, first),
            np.where(rank[second] < rank[first], first, second),
        )
        friction, dimensions = np.array(model.geom_friction), np.array(model.geom_condim)
        widest = np.maximum(dimensions[first], dimensions[second])
        found[usual] = _acting(np.maximum(friction[first], friction[second]), widest)

        index = pairs[explicit]
        dimension = np.array(model.pair_dim)[index]
        coefficients = np.array(model.pair_friction)[index]
        found[explicit] = _acting(coefficients[:, [0, 2, 3]], dimension)
        for least, a, b, what in ((3, 0, 1, "friction"), (6, 3, 4, "rolling friction")):
            differs = (dimension >= least) & (coefficients[:, a] != coefficients[:, b])
            for number in np.unique(index[differs]):
                name = name_of(model, "pair", int(number))
                self._losses.lost("pair", name, f"its {what} differs by direction")
        return found

    def _note_softness(self, element: str, numbers: Int[np.ndarray, " n"]) -> None:
        """Notes what makes a contact more than two surfaces that meet."""
        met = np.unique(numbers)
        for why, soft in self._soft[element]:
            for number in met[soft[met]]:
                self._losses.lost(element, name_of(self._model, element, int(number)), why)


def _acting(
    coefficients: Float[np.ndarray, "n 3"], dimensions: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n 3"]:
    """Those of sliding from condim 3 on, against spinning from 4 on, against rolling with 6."""
    return np.where(dimensions[:, None] >= np.array([3, 4, 6]), coefficients, 0.0)


def _summary(touching: Bool[np.ndarray, "a b"], friction: Float[np.ndarray, "a b 3"]) -> Touch:
    known = [Friction(*numbers) for numbers in friction[touching].tolist()]
    return Touch(len(known), touching.size - len(known), sorted(set(known)))


def _softness(model: Any, element: str) -> list[tuple[str, Bool[np.ndarray, " n"]]]:
    """The settings that make contacts soft, and the elements that have them."""
    found = []
    for field, why in {
        "margin": "contacts begin where surfaces meet",
        "gap": "contacts begin where surfaces meet",
        "adhesion": "surfaces do not adhere",
        "surfacevel": "surfaces do not move along themselves",
    }.items():
        values = getattr(model, f"{element}_{field}", None)
        if values is not None and np.any(values):
            values = np.array(values)
            found.append((f"{field}: {why}", values.reshape(len(values), -1).any(axis=1)))
    return found


def _code(a: Any, b: Any) -> Any:
    """One number for two bodies in this order."""
    return (a << 16) | b


def _indices(geoms: Sequence[int]) -> Int[np.ndarray, " n"]:
    return np.array(geoms, int)
