"""Impacts: hodographs and impulse curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..impact import ImpactSolution, ImpulseCurve, InvariantDirections
from .figure import BLACK, BLUE, GREY, ORANGE, STYLE, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_hodograph(
    curve: ImpulseCurve,
    impact: ImpactSolution | None = None,
    *,
    directions: InvariantDirections | None = None,
    color: str = BLACK,
    ax: Axes | None = None,
) -> Axes:
    """The path of the sliding velocity during an impact, as in Jia and Wang's Figures 4 to 10.

    Args:
        curve: from `jaxrb.impulse_curve`.
        impact: its solution; the events c, r, s and l are marked where they happen.
        directions: from `jaxrb.invariant_directions`; dashed lines, blue where the sliding slows
            down (centripetal), orange where it speeds up (centrifugal).
        color: of the curve.
        ax: to draw into; a new figure by default.

    Returns:
        The axes.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    with mpl.rc_context(STYLE):
        ax = new_axes() if ax is None else ax
        velocity = np.asarray(curve.velocity)
        x, y = velocity[:, 0], velocity[:, 1]
        ax.plot(x, y, color=color, lw=1.1, zorder=2)
        passed = np.append(0.0, np.cumsum(np.hypot(np.diff(x), np.diff(y))))
        middle = min(int(np.searchsorted(passed, passed[-1] / 2)), len(x) - 2)
        ax.annotate(
            "",
            (x[middle + 1], y[middle + 1]),
            (x[middle], y[middle]),
            arrowprops={"arrowstyle": "-|>", "color": color, "lw": 0.8},
        )
        drawn = [velocity[:, :2]]
        if directions is not None:
            drawn += _draw_directions(ax, directions, 1.1 * np.hypot(x, y).max())
        if impact is not None:
            _mark_events(ax, curve, impact, np.concatenate(drawn))
        ax.set_xlabel(r"$\gamma_x$ [m/s]")
        ax.set_ylabel(r"$\gamma_y$ [m/s]")
        ax.set_aspect("equal", adjustable="datalim")
        ax.margins(0.1)  # room for labels
        return ax


def _draw_directions(ax: Axes, directions: InvariantDirections, length: float) -> list[np.ndarray]:
    """Returns points of the lines."""
    lines = []
    for s, growth, exists in zip(*map(np.asarray, directions[:3]), strict=True):
        if exists:
            color = BLUE if growth < 0 else ORANGE
            lines.append(np.linspace(0, length, 50)[:, None] * s)
            ax.plot(*lines[-1].T, color=color, lw=0.8, ls=(0, (5, 3)))
            tip, tail = (0.62, 0.66) if growth < 0 else (0.66, 0.62)
            ax.annotate(
                "",
                length * tip * s,
                length * tail * s,
                arrowprops={"arrowstyle": "-|>", "color": color, "lw": 0.8},
            )
    return lines


def _mark_events(ax: Axes, curve: ImpulseCurve, impact: ImpactSolution, drawn: np.ndarray) -> None:
    """Dots with letters, on the side where least is drawn; events in one place share a label."""
    normal, velocity = np.asarray(curve.impulse)[:, 2], np.asarray(curve.velocity)
    places: list[tuple[np.ndarray, list[str]]] = [(velocity[0, :2], ["0"])]
    for name in impact.event_sequence:
        moment = float(getattr(impact.events, name))
        place = np.array([np.interp(moment, normal, velocity[:, k]) for k in range(2)])
        if name == "s":
            place = np.zeros(2)
        near = 0.04 * np.abs(velocity[:, :2]).max()
        if np.linalg.norm(place - places[-1][0]) < near:
            places[-1][1].append(name)
        else:
            places.append((place, [name]))
    for place, names in places:
        ax.plot(*place, "o", ms=3, color=BLACK, zorder=3)
        label = ", ".join(f"${name}$" for name in names)
        side = _clear_side(place, drawn)
        # A long label grows away from its dot, with its first or last letter where one would be.
        grows = "left" if side[0] >= 0 else "right"
        offset = 9 * side - [np.copysign(3, side[0]), 0]
        ax.annotate(label, place, xytext=offset, textcoords="offset points", ha=grows, va="center")
        drawn = np.concatenate([drawn, _around(place, side, drawn)])


def _around(place: np.ndarray, sides: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The places of labels on some sides of a point."""
    reach = 0.07 * np.ptp(drawn, axis=0).max()
    return np.atleast_2d(place + reach * sides)


def _clear_side(place: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The unit vector from a place to a label that is furthest from points that are drawn."""
    angles = np.arange(16) * np.pi / 8
    sides = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    apart = np.linalg.norm(_around(place, sides, drawn)[:, None] - drawn[None], axis=-1)
    return sides[np.argmax(apart.min(axis=1))]


def plot_impulse_curve(
    curve: ImpulseCurve,
    impact: ImpactSolution,
    inverse_inertia,
    velocity,
    *,
    ax: Axes | None = None,
) -> Axes:
    """The impulse accumulated during an impact in space, as in Jia and Wang's Figure 5.

    Shown with it are the plane on which compression ends, v_z = 0, and the line of sticking on
    which the sliding velocity is zero.

    Args:
        curve: from `jaxrb.impulse_curve`.
        impact: its solution.
        inverse_inertia: W [1/kg], shape (3, 3).
        velocity: before the impact [m/s], shape (3,).
        ax: three-dimensional axes to draw into; a new figure by default.

    Returns:
        The axes.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)
    import matplotlib.ticker  # noqa: PLC0415

    w, v = np.asarray(inverse_inertia), np.asarray(velocity)
    impulse = np.asarray(curve.impulse)
    with mpl.rc_context(STYLE):
        ax = new_axes(projection="3d") if ax is None else ax
        low, high = impulse.min(axis=0), impulse.max(axis=0)
        room = 0.25 * (high - low).max()
        x, y = np.meshgrid(*(np.array([low[k] - room, high[k] + room]) for k in range(2)))
        z = -(v[2] + w[2, 0] * x + w[2, 1] * y) / w[2, 2]
        ax.plot_surface(x, y, z, color=BLUE, alpha=0.15, lw=0)
        heights = np.array([0.0, 1.1 * high[2]])
        sticking = np.linalg.solve(w[:2, :2], -v[:2, None] - w[:2, 2:] * heights)
        ax.plot(*sticking, heights, color=GREY, lw=0.9, ls=(0, (5, 3)), label="line of sticking")
        ax.plot(*impulse.T, color=BLACK, lw=1.2, label="impulse")
        for name in impact.event_sequence:
            moment = float(getattr(impact.events, name))
            place = [np.interp(moment, impulse[:, 2], impulse[:, k]) for k in range(3)]
            ax.plot(*([p] for p in place), "o", ms=3, color=BLACK)
            ax.text(*place, f"  ${name}$")
        for axis, name in zip((ax.xaxis, ax.yaxis, ax.zaxis), "xyz", strict=True):
            axis.set_major_locator(mpl.ticker.MaxNLocator(4))
            axis.set_label_text(rf"$I_{name}$ [N s]")
        ax.set_box_aspect(None, zoom=0.85)  # room for the label of z
        ax.legend(loc="upper left", frameon=False)
        return ax
