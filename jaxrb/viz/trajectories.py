"""Trajectories: heights, spins, and how far they are apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from ..bodies import State
from .figure import BLACK, BLUE, GREEN, ORANGE, PURPLE, STYLE, finish, mark_impacts, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def pose_distance(states: State, reference: State) -> np.ndarray:
    """|x - x_ref| + |R - R_ref| of each body, the error of Tran and Leok's Figure 10.

    The norm of matrices is the induced 2-norm, so that the second term is 2 sin(theta/2) for
    attitudes an angle theta apart. Metres and a pure number are added, as in the paper.

    Args:
        states, reference: with leading axes that broadcast.

    Returns:
        Shape (..., n_bodies).
    """
    x, q, x_ref, q_ref = (
        np.asarray(leaf)
        for leaf in (states.position, states.quaternion, reference.position, reference.quaternion)
    )
    (w, v), (w_ref, v_ref) = ((q[..., :1], q[..., 1:]) for q in (q, q_ref))
    # The vector part of conj(q_ref) q has length sin(theta/2).
    sine = np.linalg.norm(w_ref * v - w * v_ref - np.cross(v_ref, v), axis=-1)
    return np.linalg.norm(x - x_ref, axis=-1) + 2 * sine


def plot_heights(
    time: Sequence[float],
    heights: Mapping[str, Sequence[float]],
    *,
    impact_times: Sequence[float] = (),
    ax: Axes | None = None,
) -> Axes:
    """Heights of centres of mass against time, as in Tran and Leok's Figure 9.

    Args:
        time: [s], shape (n,).
        heights: [m], shape (n,), by label; the first is drawn dashed over the others.
        impact_times: marked by dashed lines [s], unless there are more than 40.
        ax: to draw into; a new figure by default.

    Returns:
        The axes.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    with mpl.rc_context(STYLE):
        ax = new_axes() if ax is None else ax
        mark_impacts(ax, impact_times)
        first = {"color": BLACK, "lw": 1.0, "ls": (0, (4, 2)), "zorder": 3}
        others = ({"color": color, "lw": 1.4} for color in cycle(_COLORS))
        for index, (label, height) in enumerate(heights.items()):
            ax.plot(time, height, label=label, **(next(others) if index else first))
        ax.set_ylabel("height of the centre of mass [m]")
        ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
        finish(ax, time)
    return ax


def plot_angular_velocity(
    time: Sequence[float], angular_velocity: Sequence, *, ax: Axes | None = None
) -> Axes:
    """The components of an angular velocity in the body frame against time.

    Args:
        time: [s], shape (n,).
        angular_velocity: [rad/s], shape (n, 3).
        ax: to draw into; a new figure by default.

    Returns:
        The axes.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    with mpl.rc_context(STYLE):
        ax = new_axes() if ax is None else ax
        for index, color in enumerate((BLUE, ORANGE, BLACK)):
            component = np.asarray(angular_velocity)[:, index]
            ax.plot(time, component, color=color, lw=1, label=rf"$\Omega_{index + 1}$")
        ax.set_ylabel("angular velocity [rad/s]")
        finish(ax, time)
    return ax


def plot_divergence(
    time: Sequence[float],
    distances: Mapping[str, Sequence[float]],
    *,
    impact_times: Sequence[float] = (),
    ax: Axes | None = None,
) -> Axes:
    """Distances of trajectories from one (`pose_distance`), as in Tran and Leok's Figure 10.

    The axis is logarithmic: impacts multiply what was small before.

    Args:
        time: [s], shape (n,).
        distances: shape (n,), by label.
        impact_times: marked by dashed lines [s], unless there are more than 40.
        ax: to draw into; a new figure by default.

    Returns:
        The axes.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    with mpl.rc_context(STYLE):
        ax = new_axes() if ax is None else ax
        mark_impacts(ax, impact_times)
        for (label, distance), color in zip(distances.items(), cycle(_COLORS), strict=False):
            ax.semilogy(time, distance, color=color, lw=1.0, label=label)
        ax.set_ylabel(r"$\|x - x_\mathrm{ref}\|/\mathrm{m} + \|R - R_\mathrm{ref}\|$")
        finish(ax, time)
    return ax


_COLORS = (BLUE, ORANGE, GREEN, PURPLE)
