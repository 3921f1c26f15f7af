"""The forces of contacts that last against time, and which of them stick or slide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from ..simulate import Solution, World
from .figure import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, STYLE, finish, mark_impacts, new_axes
from .solutions import impact_times, reached_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = (BLUE, ORANGE, GREEN, PURPLE, BLACK, "#56B4E9")
_DASHES = (0, (3, 1.5))
_OPACITY = {"sticks": 1.0, "slides": 0.35}
_ROW, _BAND = 0.06, 0.03  # heights of a row and of the band in it, in heights of the axes


@dataclass(frozen=True, eq=False)
class PairForces:
    """What two solids do to each other, over all points in which they touch.

    Attributes:
        label: names both.
        normal: sum of the normal forces [N], shape (n,).
        friction: length of the sum of the frictional forces [N], shape (n,).
        mode: 0 where no point is closed, 2 where one slides, else 1, shape (n,).
    """

    label: str
    normal: Float[np.ndarray, " n"]
    friction: Float[np.ndarray, " n"]
    mode: Int[np.ndarray, " n"]

    @staticmethod
    def all_of(world: World, sol: Solution) -> list[PairForces]:
        """Of all pairs that touch at some time saved, in the order of their contacts."""
        contacts, (_, there) = sol.contacts, reached_times(sol)
        force, axes = np.asarray(contacts.force)[there], np.asarray(contacts.axes)[there]
        mode, partners = np.asarray(contacts.mode)[there], np.array(contacts.partners)
        tangential = np.einsum("tck,tckx->tcx", force[..., 1:], axes[..., 1:, :])
        found = []
        for body, other in dict.fromkeys(contacts.partners):
            own = np.all(partners == (body, other), axis=1)
            if not mode[:, own].any():
                continue
            obstacles = len(world.obstacles)
            found.append(
                PairForces(
                    f"body {body}, obstacle {other}"
                    if other < obstacles
                    else f"bodies {body}, {other - obstacles}",
                    force[:, own, 0].sum(axis=1),
                    np.linalg.norm(tangential[:, own].sum(axis=1), axis=-1),
                    mode[:, own].max(axis=1),
                )
            )
        return found


def plot_contact_forces(world: World, sol: Solution, *, ax: Axes | None = None) -> Axes:
    """The normal and the frictional forces of contacts that last against time, and their modes.

    What touches in several points has one curve, the sum over them. A band beneath says what
    has which colour, and when it sticks, or slides in some point; where there is no band, it is
    apart. Of more than six that touch, those with the largest normal forces in the mean are drawn.

    Args:
        world: that was simulated.
        sol: of one world, saved along the way with `SaveAt(..., contacts=True)`.
        ax: to draw into; a new figure by default.

    Returns:
        The axes.

    Raises:
        ValueError: if the solution has no such forces, fewer than two times were saved, or for a
            batch.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    time, _ = reached_times(sol)
    if sol.contacts is None:
        raise ValueError(
            "sol has no forces of contacts: simulate with save=SaveAt(..., contacts=True)."
        )
    pairs = PairForces.all_of(world, sol)
    largest = sorted(pairs, key=lambda pair: -np.nansum(pair.normal))[: len(_COLORS)]
    drawn = [pair for pair in pairs if pair in largest]
    with mpl.rc_context(STYLE):
        ax = new_axes() if ax is None else ax
        mark_impacts(ax, impact_times(sol))
        ax.axhline(0.0, color=GREY, lw=0.6)
        ax.plot([], [], color=GREY, lw=1.1, label="normal")
        ax.plot([], [], color=GREY, lw=1.1, ls=_DASHES, label="friction")
        for pair, color in zip(drawn, _COLORS, strict=False):
            ax.plot(time, pair.normal, color=color, lw=1.1)
            ax.plot(time, pair.friction, color=color, lw=1.1, ls=_DASHES)
        _draw_bands(ax, time, drawn)
        ax.set_ylabel("force of contact [N]")
        finish(ax, time)
    return ax


def _draw_bands(ax: Axes, time: np.ndarray, pairs: list[PairForces]) -> None:
    """One below the other, below the axis of zero force."""
    across = ax.get_xaxis_transform()
    for mode, (label, opacity) in enumerate(_OPACITY.items(), start=1):
        ax.fill_between([], [], color=GREY, lw=0, alpha=opacity, label=label)
        for row, (pair, color) in enumerate(zip(pairs, _COLORS, strict=False)):
            # A mode, as a force, is that of the step from its time on.
            starts = np.flatnonzero(pair.mode[:-1] == mode)
            spans = np.stack([time[starts], time[starts + 1] - time[starts]], axis=1)
            low = _ROW * (len(pairs) - row) - _BAND
            ax.broken_barh(spans, (low, _BAND), color=color, lw=0, alpha=opacity, transform=across)
    for row, (pair, color) in enumerate(zip(pairs, _COLORS, strict=False)):
        place = 1.01, _ROW * (len(pairs) - row) - _BAND / 2
        ax.annotate(pair.label, place, xycoords="axes fraction", va="center", color=color, size=8)
    top, share = ax.get_ylim()[1], _ROW * (len(pairs) + 0.4)
    ticks = ax.get_yticks()
    ax.set_yticks(ticks[(ticks >= 0) & (ticks <= top)])
    ax.set_ylim(-top * share / (1 - share), top)
