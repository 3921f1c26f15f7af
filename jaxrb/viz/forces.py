"""Forces of contacts that last, as arrows of a replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..simulate import Solution

_USUAL = 0.95  # the part of all forces that arrows show in proportion
SHORTEST = 0.02  # of the arrows that are drawn, in lengths of the longest


class Forces(NamedTuple):
    """The contact points of all lanes that ever bear a load, in each frame.

    Attributes:
        point: of the body, world frame [m], shape (n_frames, n_contacts, 3).
        force: on the body in the step that a frame is in, world frame [N], of the same shape; zero
            where there is none.
    """

    point: Float[np.ndarray, "n_frames n_contacts 3"]
    force: Float[np.ndarray, "n_frames n_contacts 3"]

    @staticmethod
    def of(lanes: Sequence[Sequence[Solution]], times: Float[np.ndarray, " n_frames"]) -> Forces:
        """Those of solutions that follow one another, by lanes, at the times of the frames [s];
        none where they were not saved."""
        none = np.zeros((len(times), 0, 3))
        found = [Forces(none, none)]
        for lane in lanes:
            contacts = [one.contacts for one in lane if one.contacts is not None]
            if len(contacts) < len(lane):
                continue
            reached = [np.asarray(one.reached) for one in lane]
            saved, vector, point = (
                np.concatenate([np.asarray(a)[kept] for a, kept in zip(part, reached, strict=True)])
                for part in (
                    [one.ts for one in lane],
                    [one.vector for one in contacts],
                    [one.point for one in contacts],
                )
            )
            # A frame at a saved time may be before it by round-off.
            late = times + 1e-9 * (times[-1] - times[0])
            step = np.maximum(0, np.searchsorted(saved, late, side="right") - 1)
            force = np.nan_to_num(vector[step])
            loaded = np.any(force != 0, axis=(0, 2))
            found.append(Forces(point[step][:, loaded], force[:, loaded]))
        return Forces(*(np.concatenate(parts, axis=1) for parts in zip(*found, strict=True)))

    def arrows(self, length: float) -> Float[np.ndarray, "n_frames n_contacts 2 3"]:
        """Tails and tips [m] of arrows that end at the points, the longest of a length [m].

        The few largest forces, as of a body that lands, have the arrow of the next: in proportion
        to them all others would vanish. The smallest have none: their tail is the tip.
        """
        size = np.linalg.norm(self.force, axis=-1, keepdims=True)
        loads = size[size > 0]
        usual = np.quantile(loads, _USUAL) if loads.size else 1.0
        share = np.minimum(size / usual, 1.0)
        share[share < SHORTEST] = 0.0
        along = self.force / np.where(size > 0, size, 1.0)
        return np.stack([self.point - length * share * along, self.point], axis=-2)
