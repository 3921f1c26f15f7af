"""Energies of a trajectory against time, with its impacts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Set in context managers only: a plot must not change the plots of its caller.
STYLE = {
    "font.family": "STIXGeneral",  # comes with Matplotlib and looks like the text of a paper
    "mathtext.fontset": "stix",
    "font.size": 10,
    "legend.fontsize": 9,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,  # text stays text, as journals ask
}
SIZE = (5.5, 3.0)  # [inch]

# Okabe and Ito's palette: told apart with any colour vision, and by their lightness in grey.
BLACK, BLUE, ORANGE, GREY = "#000000", "#0072B2", "#D55E00", "#999999"

# More impacts than this would cover the curves they explain.
MOST_MARKS = 40


def plot_energies(
    time: Sequence[float],
    translational_and_potential: Sequence[float],
    rotational: Sequence[float],
    *,
    impact_times: Sequence[float] = (),
    ax: Axes | None = None,
) -> Axes:
    """The exchange of energies at impacts, as in Tran and Leok's Figure 7.

    Args:
        time: [s], shape (n,).
        translational_and_potential: T.P.E. [J], shape (n,).
        rotational: R.E. [J], shape (n,). The total, T.E., is the sum of the two.
        impact_times: marked by dashed lines [s], unless there are more than 40.
        ax: to draw into; a new figure by default.

    Returns:
        The axes.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    tpe, re = np.asarray(translational_and_potential), np.asarray(rotational)
    with mpl.rc_context(STYLE):
        ax = _new_axes() if ax is None else ax
        _mark_impacts(ax, impact_times)
        ax.plot(time, tpe + re, color=BLACK, lw=1.4, label="total, T.E.")
        ax.plot(time, tpe, color=BLUE, lw=1.2, label="translational + potential, T.P.E.")
        ax.plot(time, re, color=ORANGE, lw=1.2, ls=(0, (5, 1)), label="rotational, R.E.")
        ax.set_ylabel("energy [J]")
        ax.set_ylim(bottom=min(0.0, 1.05 * tpe.min()))
        _finish(ax, time)
    return ax


def plot_energy_error(
    time: Sequence[float],
    energy: Sequence[float],
    *,
    impact_times: Sequence[float] = (),
    ax: Axes | None = None,
) -> Axes:
    """|E - E0| against time, as in Tran and Leok's Figure 8, in a power of ten of joules.

    The axis is linear: where energy is conserved to round-off the error is often exactly 0.

    Args:
        time: [s], shape (n,).
        energy: total [J], shape (n,); E0 is the first entry.
        impact_times: marked by dashed lines [s], unless there are more than 40.
        ax: to draw into; a new figure by default.

    Returns:
        The axes.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    energy = np.asarray(energy)
    error = np.abs(energy - energy[0])
    exponent = math.floor(math.log10(error.max())) if error.max() > 0 else 0
    with mpl.rc_context(STYLE):
        ax = _new_axes() if ax is None else ax
        _mark_impacts(ax, impact_times)
        ax.plot(time, error / 10.0**exponent, color=BLUE, lw=0.8, label=r"$|E - E_0|$")
        unit = rf"$10^{{{exponent}}}$ J" if exponent else "J"
        ax.set_ylabel(rf"$|E - E_0|$ [{unit}]")
        ax.set_ylim(bottom=0.0)
        _finish(ax, time)
    return ax


def _new_axes() -> Axes:
    import matplotlib.pyplot as plt  # noqa: PLC0415  (optional)

    return plt.subplots(figsize=SIZE, layout="constrained")[1]


def _mark_impacts(ax: Axes, times: Sequence[float]) -> None:
    if len(times) > MOST_MARKS:
        return
    for index, time in enumerate(times):
        label = "impact" if index == 0 else None
        ax.axvline(time, color=GREY, lw=0.6, ls=(0, (4, 3)), zorder=0, label=label)


def _finish(ax: Axes, time: Sequence[float]) -> None:
    ax.set_xlabel("time [s]")
    ax.set_xlim(time[0], time[-1])
    # Above the axes the legend hides no curve.
    handles, labels = ax.get_legend_handles_labels()
    if len(labels) < 2:  # the axis already says what the only curve is
        return
    order = sorted(range(len(labels)), key=lambda i: labels[i] == "impact")
    ax.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=len(labels),
        frameon=False,
        borderaxespad=0.2,
        handlelength=1.8,
        columnspacing=1.2,
        handletextpad=0.5,
    )
