"""Bodies in space at several times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ..bodies import State
from ..shapes import HalfSpace
from ..simulate import World
from .figure import BLACK, ORANGE, STYLE, new_axes
from .meshes import normals, surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import Normalize

_LIGHT = np.array([0.35, -0.45, 0.82])  # towards it, world frame
_GROUND, _LINES, _SHADOW = "#F4F4F4", "#FFFFFF", "#D4D4D4"


def plot_snapshots(
    world: World,
    states: State,
    times: Sequence[float],
    *,
    path: Float[np.ndarray, "n_path n_bodies 3"] | None = None,
    impact_positions: Float[np.ndarray, "n_impacts 3"] | None = None,
    span: tuple[float, float] | None = None,
    azimuth: float = math.radians(-50),
    elevation: float = math.radians(18),
    ax: Axes | None = None,
) -> Axes:
    """Bodies over their obstacles at several times, as in Tran and Leok's Figure 6.

    A parallel projection, upright where world z is. The colour of a body says the time; what
    is darker on an obstacle is its shadow, cast along the normal. The axes in the corner are
    as long as a square of the obstacle.

    Args:
        world: bodies and half-spaces.
        states: with a leading axis over the times.
        times: [s], shape (n_times,).
        path: of the centres of mass, world frame [m]; drawn as lines.
        impact_positions: contact points, world frame [m]; drawn as dots.
        span: times at the ends of the colour map [s]; by default the first and last.
        azimuth, elevation: of the observer, from the x-axis and from the plane of x and y [rad].
        ax: to draw into; a new figure by default.

    Returns:
        The axes; `add_colorbar` says what the colours mean.

    Raises:
        ImportError: if a body needs scikit-image for its mesh (`mesh`) and it is not installed.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    view = view_axes(azimuth, elevation)
    meshes = [surface(body.centered_shape()) for body in world.bodies]
    moved = [_place(mesh, states, body) for body, mesh in enumerate(meshes)]
    solids = np.concatenate(moved, axis=1)  # (n_times, n_triangles, 3, 3)
    corners = solids.reshape(-1, 3)
    spacing = square_side(np.ptp(corners, axis=0).max())
    first, last = (times[0], times[-1]) if span is None else span
    norm = mpl.colors.Normalize(first, last)

    with mpl.rc_context(STYLE):
        ax = new_axes() if ax is None else ax
        for obstacle in world.obstacles:
            _draw_ground(ax, view, corners, obstacle, spacing)
        if path is not None:
            for line in np.moveaxis(np.asarray(path), 1, 0):
                ax.plot(*_flat(line, view).T, color=BLACK, lw=0.8, zorder=3)
        if impact_positions is not None:
            ax.plot(*_flat(impact_positions, view).T, ".", color=ORANGE, ms=5, zorder=4)
        ax.add_collection(_paint(solids, view, times, norm))
        _draw_axes(ax, view, spacing)
        ax.set_aspect("equal")
        ax.margins(0.02)
        ax.set_axis_off()
    return ax


def view_axes(azimuth: float, elevation: float) -> np.ndarray:
    """Rows: right and up on the page, and towards the observer; world frame."""
    right = np.array([-math.sin(azimuth), math.cos(azimuth), 0.0])
    out = math.cos(elevation)
    towards = np.array([out * math.cos(azimuth), out * math.sin(azimuth), math.sin(elevation)])
    return np.stack([right, np.cross(towards, right), towards])


def _flat(points, view: np.ndarray) -> np.ndarray:
    """Points on the page, shape (..., 2)."""
    return np.asarray(points) @ view[:2].T


def _place(mesh: np.ndarray, states: State, body: int) -> np.ndarray:
    """A mesh in the world at each time, shape (n_times, n_triangles, 3, 3)."""
    rotation = np.asarray(states.rotation_matrix)[:, body]
    position = np.asarray(states.position)[:, body]
    return np.einsum("tij,nkj->tnki", rotation, mesh) + position[:, None, None]


def _paint(
    solids: np.ndarray, view: np.ndarray, times: Sequence[float], norm: Normalize
) -> PolyCollection:
    """The faces of the solids that the observer sees, in the colours of their times."""
    import matplotlib as mpl  # noqa: PLC0415  (optional)
    from matplotlib.collections import PolyCollection  # noqa: PLC0415

    # The yellow end of the map would vanish on white paper.
    colors = mpl.colormaps["viridis"](np.linspace(0.05, 0.92, 256))
    colors = mpl.colors.ListedColormap(colors)
    face = np.repeat(colors(norm(times))[:, None], solids.shape[1], axis=1)
    outward = normals(solids)
    face[..., :3] *= _brightness(outward)[..., None]
    # What faces away is hidden, and what is further away is drawn first.
    visible = outward @ view[2] > 0
    order = np.argsort(solids[visible].mean(axis=1) @ view[2])
    face = face[visible][order]
    return PolyCollection(
        _flat(solids[visible][order], view),
        facecolors=face,
        edgecolors=face,  # or the page shines through the seams
        lw=0.4,
        cmap=colors,
        norm=norm,
        rasterized=True,  # thousands of triangles make a vector file slow
    )


def _brightness(normals: np.ndarray) -> np.ndarray:
    """Of matt surfaces in light of the sky and of a sun."""
    return 0.6 + 0.4 * np.maximum(0.0, normals @ (_LIGHT / np.linalg.norm(_LIGHT)))


def square_side(size: float) -> float:
    """The length nearest to a fifth of a size among 1, 2 and 5 times powers of ten."""
    exponent = math.floor(math.log10(size / 5))
    lengths = [step * 10.0**exponent for step in (1, 2, 5, 10)]
    return min(lengths, key=lambda length: abs(math.log(5 * length / size)))


def _cast(corners: np.ndarray, obstacle: HalfSpace, spacing: float):
    """Points projected onto a plane; a rectangle of it that holds them, and its squares."""
    normal, offset = (np.asarray(part) for part in obstacle.unit_normal_and_offset())
    shadow = corners - (corners @ normal - offset)[:, None] * normal
    along = np.cross(np.eye(3)[np.argmin(np.abs(normal))], normal)
    along /= np.linalg.norm(along)
    axes = np.stack([along, np.cross(normal, along)])
    local = shadow @ axes.T
    low = spacing * np.floor(local.min(axis=0) / spacing)
    high = spacing * np.ceil(local.max(axis=0) / spacing)
    (a, c), (b, d) = low, high
    world = lambda points: np.asarray(points) @ axes + offset * normal  # noqa: E731
    lines = [[(u, c), (u, d)] for u in np.arange(a, b + spacing / 2, spacing)]
    lines += [[(a, v), (b, v)] for v in np.arange(c, d + spacing / 2, spacing)]
    return shadow, world([(a, c), (b, c), (b, d), (a, d)]), world(lines)


def _draw_ground(
    ax: Axes, view: np.ndarray, corners: np.ndarray, obstacle: HalfSpace, spacing: float
) -> None:
    """A rectangle of an obstacle below some triangles, its squares, and their shadow."""
    from matplotlib.collections import LineCollection, PolyCollection  # noqa: PLC0415  (optional)

    shadow, ground, lines = _cast(corners, obstacle, spacing)
    ax.add_collection(PolyCollection([_flat(ground, view)], color=_GROUND))
    ax.add_collection(LineCollection(_flat(lines, view), color=_LINES, lw=0.8, zorder=1))
    shadow = _flat(shadow, view).reshape(-1, 3, 2)
    ax.add_collection(PolyCollection(shadow, color=_SHADOW, lw=0.3, rasterized=True))


def _draw_axes(ax: Axes, view: np.ndarray, length: float) -> None:
    """Arrows along x, y and z below the lower left corner of the rest, with their length."""
    tips = length * view[:2].T
    origin = ax.dataLim.min - [tips[:, 0].min(), 1.2 * tips[:, 1].min()]
    arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "lw": 0.6, "color": BLACK}
    text = {"ha": "center", "va": "center", "fontsize": "small"}
    for name, tip in zip("xyz", tips, strict=True):
        ax.annotate("", origin + tip, origin, arrowprops=arrow)
        ax.annotate(f"${name}$", origin + 1.25 * tip, **text)
    ax.annotate(f"{length:g} m", origin + tips[2] / 2, (-14, 0), textcoords="offset points", **text)
