"""Bodies in space at several times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ..bodies import State
from ..shapes import AbstractSolid, HalfSpace, Sphere
from ..simulate import World
from .figure import BLACK, ORANGE, STYLE, body_color, new_axes
from .meshes import normals, surface
from .obstacles import planes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import Colormap, Normalize

_LIGHT = np.array([0.35, -0.45, 0.82])  # towards it, world frame
_STEEP = 0.5  # cosine of the slope from which on an obstacle is a wall
_STILL = 1e-4  # of the size of all: what moves less stays
_PATH = {"color": BLACK, "zorder": 3}
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

    A parallel projection, upright where world z is. The colour of a body says the time, the last
    one where it stays, or at one time alone which body it is. What is darker on an obstacle is its
    shadow, cast along the normal. Steep obstacles have none, and those that are seen from behind
    are outlines. The axes in the corner are as long as a square of the obstacle. Other solids at
    rest are grey and behind the bodies; cavities, which would hide them, and obstacles that move
    are not drawn.

    Args:
        world: bodies and obstacles.
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
    shapes = [body.centered_shape() for body in world.bodies]
    meshes = [surface(shape) for shape in shapes]
    moved = [
        _place(mesh, states, body, turns=not isinstance(shapes[body], Sphere))
        for body, mesh in enumerate(meshes)
    ]
    solids = np.concatenate(moved, axis=1)  # (n_times, n_triangles, 3, 3)
    corners = solids.reshape(-1, 3)
    spacing = square_side(np.ptp(corners, axis=0).max())
    first, last = (times[0], times[-1]) if span is None else span
    norm = mpl.colors.Normalize(first, last)
    # The yellow end of the map would vanish on white paper.
    cmap = mpl.colors.ListedColormap(mpl.colormaps["viridis"](np.linspace(0.05, 0.92, 256)))
    apart = len(times) == 1 and span is None  # colours tell bodies apart, not times

    with mpl.rc_context(STYLE):
        ax = new_axes() if ax is None else ax
        flat = list(planes(world.obstacles).values())
        for index in range(len(flat)):
            _draw_ground(ax, view, corners, flat, index, spacing)
        for obstacle in world.obstacles:
            if isinstance(obstacle, AbstractSolid):
                grey = np.array(mpl.colors.to_rgba(_SHADOW))[None, None]
                ax.add_collection(_paint(surface(obstacle)[None], view, grey, cmap, norm))
        if path is not None:
            for body, line in enumerate(np.moveaxis(np.asarray(path), 1, 0)):
                # In the colour of its body it may run below it.
                style = {"color": body_color(body), "zorder": 1} if apart else _PATH
                ax.plot(*_flat(line, view).T, lw=0.8, **style)
        if impact_positions is not None:
            ax.plot(*_flat(impact_positions, view).T, ".", color=ORANGE, ms=5, zorder=4)
        colors = _body_colors(meshes) if apart else cmap(norm(times))[:, None]
        ax.add_collection(_paint(solids, view, colors, cmap, norm))
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


def _place(mesh: np.ndarray, states: State, body: int, turns: bool) -> np.ndarray:
    """A mesh in the world at each time, shape (n_times, n_triangles, 3, 3).

    A ball that spins on the spot stays, for the eye, and is not to be drawn twice.
    """
    position = np.asarray(states.position)[:, body]
    if not turns:
        return mesh[None] + position[:, None, None]
    rotation = np.asarray(states.rotation_matrix)[:, body]
    return np.einsum("tij,nkj->tnki", rotation, mesh) + position[:, None, None]


def _body_colors(meshes: list[np.ndarray]) -> np.ndarray:
    """The colours of the triangles of all bodies, shape (1, n_triangles, 4)."""
    from matplotlib.colors import to_rgba  # noqa: PLC0415  (optional)

    rows = [np.tile(to_rgba(body_color(body)), (len(m), 1)) for body, m in enumerate(meshes)]
    return np.concatenate(rows)[None]


def _paint(
    solids: np.ndarray, view: np.ndarray, colors: np.ndarray, cmap: Colormap, norm: Normalize
) -> PolyCollection:
    """The faces of the solids that the observer sees, in colours of shape (n_times or 1,
    n_triangles or 1, 4)."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415  (optional)

    face = np.broadcast_to(colors, (*solids.shape[:2], 4)).copy()
    outward = normals(solids)
    face[..., :3] *= _brightness(outward)[..., None]
    # What faces away is hidden, and what is further away is drawn first. What stays is drawn at
    # its last time alone: at one depth, round-off would choose the colours.
    visible = outward @ view[2] > 0
    moved = np.abs(np.diff(solids, axis=0)).max(axis=(2, 3)) > _STILL * np.ptp(solids)
    visible[:-1] &= moved
    order = np.argsort(solids[visible].mean(axis=1) @ view[2])
    face = face[visible][order]
    return PolyCollection(
        _flat(solids[visible][order], view),
        facecolors=face,
        edgecolors=face,  # or the page shines through the seams
        lw=0.4,
        cmap=cmap,
        norm=norm,
        rasterized=True,  # thousands of triangles make a vector file slow
    )


def _brightness(normals: np.ndarray) -> np.ndarray:
    """The brightness of matt surfaces in the light of the sky and of a sun."""
    return 0.6 + 0.4 * np.maximum(0.0, normals @ (_LIGHT / np.linalg.norm(_LIGHT)))


def square_side(size: float) -> float:
    """The length nearest to a fifth of a size among 1, 2 and 5 times powers of ten."""
    exponent = math.floor(math.log10(size / 5))
    lengths = [step * 10.0**exponent for step in (1, 2, 5, 10)]
    return min(lengths, key=lambda length: abs(math.log(5 * length / size)))


def _plane(obstacle: HalfSpace) -> tuple[np.ndarray, np.ndarray]:
    """The unit normal and offset of a plane."""
    normal, offset = obstacle.unit_normal_and_offset()
    return np.asarray(normal, float), np.asarray(offset, float)


def plane_axes(obstacle: HalfSpace) -> np.ndarray:
    """Rows: two directions along a plane, and its unit normal."""
    normal, _ = _plane(obstacle)
    along = np.cross(np.eye(3)[np.argmin(np.abs(normal))], normal)
    along /= np.linalg.norm(along)
    return np.stack([along, np.cross(normal, along), normal])


def is_steep(obstacle: HalfSpace) -> bool:
    """Whether it is a wall, rather than a floor or a ceiling."""
    return bool(abs(_plane(obstacle)[0][2]) < _STEEP)


def _shadow(corners: np.ndarray, obstacle: HalfSpace) -> np.ndarray:
    """Points projected onto a plane."""
    normal, offset = _plane(obstacle)
    return corners - (corners @ normal - offset)[:, None] * normal


def squares(points: np.ndarray, obstacle: HalfSpace, spacing: float):
    """A rectangle of a plane that holds the projections of points, and its squares."""
    normal, offset = _plane(obstacle)
    axes = plane_axes(obstacle)[:2]
    local = points @ axes.T / spacing
    low = spacing * np.floor(local.min(axis=0) + 1e-9)
    high = spacing * np.ceil(local.max(axis=0) - 1e-9)
    (a, c), (b, d) = low, high
    world = lambda points: np.asarray(points) @ axes + offset * normal  # noqa: E731
    lines = [[(u, c), (u, d)] for u in np.arange(a, b + spacing / 2, spacing)]
    lines += [[(a, v), (b, v)] for v in np.arange(c, d + spacing / 2, spacing)]
    return world([(a, c), (b, c), (b, d), (a, d)]), world(lines)


def cut(polygon: np.ndarray, obstacles: Sequence[HalfSpace]) -> np.ndarray:
    """The part of a convex polygon that lies in no obstacle; no points if all of it does."""
    for obstacle in obstacles:
        normal, offset = _plane(obstacle)
        height = polygon @ normal - offset
        points = []
        for here, there, h, k in zip(
            polygon, np.roll(polygon, -1, axis=0), height, np.roll(height, -1), strict=True
        ):
            if h >= 0:
                points.append(here)
            if h * k < 0:
                points.append(here + h / (h - k) * (there - here))
        polygon = np.reshape(points, (-1, 3))
    return polygon


def _draw_ground(
    ax: Axes,
    view: np.ndarray,
    corners: np.ndarray,
    obstacles: Sequence[HalfSpace],
    index: int,
    spacing: float,
) -> None:
    """A rectangle of an obstacle below some triangles, its squares, and their shadow.

    It reaches to the obstacles near the triangles, and ends there.
    """
    from matplotlib.collections import LineCollection, PolyCollection  # noqa: PLC0415  (optional)

    shadows = [_shadow(corners, obstacle) for obstacle in obstacles]
    near = np.ptp(corners, axis=0).max()
    reach = [s for s in shadows if np.abs(s - corners).max(axis=1).min() < near]
    ground, lines = squares(np.concatenate([corners, *reach]), obstacles[index], spacing)
    others = [obstacle for k, obstacle in enumerate(obstacles) if k != index]
    ground = _flat(cut(ground, others), view)
    if len(ground) == 0:
        return
    normal, _ = _plane(obstacles[index])
    if normal @ view[2] <= 0:  # seen from behind it would hide the bodies
        ax.add_collection(PolyCollection([ground], facecolor="none", edgecolor=_SHADOW, lw=0.6))
        return
    ax.add_collection(PolyCollection([ground], color=_GROUND))
    lines = [_flat(line, view) for line in (cut(line, others) for line in lines) if len(line)]
    ax.add_collection(LineCollection(lines, color=_LINES, lw=0.8, zorder=1))
    if is_steep(obstacles[index]):  # a shadow would show the bodies once more from the side
        return
    shadow = _flat(shadows[index], view).reshape(-1, 3, 2)
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
