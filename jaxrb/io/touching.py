"""Which geoms of a compiled model touch, and with which friction."""

from __future__ import annotations

from typing import Any

import numpy as np

from .report import Losses
from .unknown import name_of


class Contacts:
    """The contacts of a model, by MuJoCo's rules for masks, exclusions and explicit pairs."""

    def __init__(self, mujoco: Any, model: Any, law_given: bool, losses: Losses):
        self._model, self._law_given, self._losses = model, law_given, losses
        off = mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        self._disabled = bool(model.opt.disableflags & off)
        self._excluded = {divmod(int(code), 1 << 16) for code in model.exclude_signature}
        ends = zip(model.pair_geom1, model.pair_geom2, strict=True)
        self._explicit = {frozenset(map(int, pair)): index for index, pair in enumerate(ends)}

    def touch(self, a: int, b: int) -> bool:
        """Whether two geoms of different groups can touch."""
        model = self._model
        if self._disabled:
            return False
        if frozenset((a, b)) in self._explicit:
            return True
        bodies = (int(model.geom_bodyid[a]), int(model.geom_bodyid[b]))
        if bodies in self._excluded or bodies[::-1] in self._excluded:
            return False
        masks = (
            model.geom_contype[a] & model.geom_conaffinity[b],
            model.geom_contype[b] & model.geom_conaffinity[a],
        )
        return bool(masks[0] or masks[1])

    def friction(self, a: int, b: int) -> float:
        """The coefficient of sliding friction of two geoms that touch; 0 if a law is given."""
        model = self._model
        index = self._explicit.get(frozenset((a, b)))
        if index is None:
            self._note_softness("geom", a)
            self._note_softness("geom", b)
            ranks = (model.geom_priority[a], model.geom_priority[b])
            of = [a, b] if ranks[0] == ranks[1] else [a if ranks[0] > ranks[1] else b]
            sliding, *turning = model.geom_friction[of].max(axis=0)
            widest = max(of, key=lambda geom: int(model.geom_condim[geom]))
            element, name = "geom", name_of(model, "geom", widest)
            dimension = int(model.geom_condim[widest])
        else:
            self._note_softness("pair", index)
            sliding, other, *turning = model.pair_friction[index]
            element, name = "pair", name_of(model, "pair", index)
            dimension = int(model.pair_dim[index])
            if dimension > 1 and sliding != other and not self._law_given:
                self._losses.lost(element, name, "its friction differs by direction")
        if self._law_given or dimension == 1:
            return 0.0
        if dimension > 3 and any(turning[: 1 if dimension == 4 else None]):
            what = "torsional" if dimension == 4 else "torsional and rolling"
            self._losses.lost(element, name, f"condim {dimension}: there is no {what} friction")
        return float(sliding)

    def _note_softness(self, element: str, index: int) -> None:
        """Notes what makes a contact more than two surfaces that meet."""
        name = name_of(self._model, element, index)
        for field, why in {
            "margin": "contacts begin where surfaces meet",
            "gap": "contacts begin where surfaces meet",
            "adhesion": "surfaces do not adhere",
            "surfacevel": "surfaces do not move along themselves",
        }.items():
            values = getattr(self._model, f"{element}_{field}", None)
            if values is not None and np.any(values[index]):
                self._losses.lost(element, name, f"{field}: {why}")
