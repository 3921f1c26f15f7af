"""What all plots share: style, sizes, colours, new figures, files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Set in context managers only: a plot must not change the plots of its caller.
STYLE = {
    "font.family": "STIXGeneral",  # comes with Matplotlib and looks like the text of a paper
    "mathtext.fontset": "stix",
    "font.size": 10,
    "axes.titlesize": 10,
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
GREEN, PURPLE = "#009E73", "#CC79A7"
# For bodies, without the colour of impacts and of the arrows of their impulses.
_BODIES = (BLUE, GREEN, PURPLE, "#E69F00", "#56B4E9", "#F0E442")
_SHADES = ((0.0, 0.0), (0.55, 0.0), (0.6, 1.0))  # how much of which grey, for each further round

# More impacts than this would cover the curves they explain.
MOST_MARKS = 40


def body_color(index: int) -> str:
    """The colour of a body, #RRGGBB; different for eighteen bodies, then from the start again."""
    color = _BODIES[index % len(_BODIES)]
    share, grey = _SHADES[index // len(_BODIES) % len(_SHADES)]
    parts = (share * 255 * grey + (1 - share) * part for part in bytes.fromhex(color[1:]))
    return "#" + "".join(f"{round(part):02X}" for part in parts)


def new_figure(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float] = SIZE, **options
) -> tuple[Figure, Any]:
    """A figure in the style of this package, which needs no display and leaves pyplot alone.

    What is added to it later, such as titles, has this style within `rc_context(STYLE)`.

    Args:
        rows, columns: of axes.
        size: width and height [inch].
        options: of `Figure.subplots`.

    Returns:
        The figure, and its axes as `Figure.subplots` gives them.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        return figure, figure.subplots(rows, columns, **options)


def save_figure(figure: Figure, *paths: Path | str, dpi: int = 300) -> list[Path]:
    """Writes a figure to files, whose endings say the format; returns their paths."""
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    with mpl.rc_context(STYLE):
        for path in paths:
            figure.savefig(path, dpi=dpi)
    return [Path(path) for path in paths]


def share_legend(figure: Figure, axes: Iterable[Axes]) -> None:
    """One legend above all axes, in place of their own; each label appears once."""
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    entries = {}
    for ax in axes:
        own = ax.get_legend()
        if own is not None:
            own.remove()
        handles, labels = ax.get_legend_handles_labels()
        entries |= {
            label: entries.get(label, handle) for handle, label in zip(handles, labels, strict=True)
        }
    with mpl.rc_context(STYLE):
        figure.legend(
            *_marks_last(list(entries.values()), list(entries)),
            loc="outside upper center",
            ncols=len(entries),
            **_LEGEND,
        )


def add_colorbar(figure: Figure, axes: Sequence[Axes], label: str) -> None:
    """A bar below some axes, for the colours of what the first of them drew last."""
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    with mpl.rc_context(STYLE):
        bar = figure.colorbar(
            axes[0].collections[-1],
            ax=list(axes),
            label=label,
            location="bottom",
            shrink=0.5,
            aspect=40,
            pad=0.02,
            panchor=False,  # the axes stay where they are
        )
        bar.outline.set_visible(False)


def new_axes(**options) -> Any:
    """Axes of a new pyplot figure, for plots that are given none; `options` as `subplot_kw`."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  (optional)

    return plt.subplots(figsize=SIZE, layout="constrained", subplot_kw=options)[1]


def mark_impacts(ax: Axes, times: Sequence[float]) -> None:
    """Dashed lines at the times of impacts [s], unless they are too many."""
    if len(times) > MOST_MARKS:
        return
    for index, time in enumerate(times):
        label = "impact" if index == 0 else None
        ax.axvline(time, color=GREY, lw=0.6, ls=(0, (4, 3)), zorder=0, label=label)


def finish(ax: Axes, time: Sequence[float]) -> None:
    """The axis of time [s], and a legend above the axes, where it hides no curve."""
    ax.set_xlabel("time [s]")
    ax.set_xlim(time[0], time[-1])
    handles, labels = ax.get_legend_handles_labels()
    if len(labels) < 2:  # the axis already says what the only curve is
        return
    ax.legend(
        *_marks_last(handles, labels),
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=len(labels),
        borderaxespad=0.2,
        **_LEGEND,
    )


_LEGEND = {"frameon": False, "handlelength": 1.8, "columnspacing": 1.2, "handletextpad": 0.5}


def _marks_last(handles: list, labels: list[str]) -> tuple[list, list[str]]:
    order = sorted(range(len(labels)), key=lambda i: labels[i] == "impact")
    return [handles[i] for i in order], [labels[i] for i in order]
