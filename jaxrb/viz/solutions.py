"""Plots of a solution as it is: energies, momenta, gaps, phase portraits."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from ..bodies import State
from ..simulate import (
    Solution,
    World,
    angular_momentum,
    gaps,
    linear_momentum,
    pair_gaps,
)
from .energies import Energies
from .figure import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, STYLE, finish, mark_impacts, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = (BLUE, ORANGE, GREEN, PURPLE)
_AXES = ("x", "y", "z")


def plot_energy_parts(world: World, sol: Solution, *, ax: Axes | None = None) -> Axes:
    """Total, translational, rotational and potential energy of all bodies against time.

    Args:
        world: that was simulated.
        sol: of one world, with states saved along the way.
        ax: to draw into; a new figure by default.

    Returns:
        The axes.

    Raises:
        ValueError: if fewer than two times were saved, or for a batch.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    time, states = _saved(sol)
    energies = Energies.of(world, time, states)
    parts = {
        "total": (energies.total, {"color": BLACK, "lw": 1.4}),
        "translational": (energies.translational, {"color": BLUE, "lw": 1.1}),
        "rotational": (energies.rotational, {"color": ORANGE, "lw": 1.1, "ls": (0, (5, 1))}),
        "potential": (energies.potential, {"color": GREEN, "lw": 1.1, "ls": (0, (1, 1))}),
    }
    with mpl.rc_context(STYLE):
        ax = new_axes() if ax is None else ax
        mark_impacts(ax, impact_times(sol))
        for label, (values, style) in parts.items():
            ax.plot(time, values, label=label, **style)
        ax.set_ylabel("energy [J]")
        finish(ax, time)
    return ax


def plot_momentum(
    world: World,
    sol: Solution,
    kind: Literal["linear", "angular"] = "linear",
    *,
    ax: Axes | None = None,
) -> Axes:
    """The components of the momentum of all bodies, world frame, against time.

    Args:
        world, sol, ax: as for `plot_energy_parts`.
        kind: of momentum; the angular one is about the world's origin.

    Returns:
        The axes.

    Raises:
        ValueError: if fewer than two times were saved, for a batch, or for another kind.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    if kind not in _MOMENTA:
        raise ValueError(f"kind must be one of {', '.join(_MOMENTA)}; got {kind!r}.")
    of_state, label, unit = _MOMENTA[kind]
    time, states = _saved(sol)
    values = np.asarray(of_state(world, states))
    with mpl.rc_context(STYLE):
        ax = new_axes() if ax is None else ax
        mark_impacts(ax, impact_times(sol))
        for column, axis, color in zip(values.T, _AXES, (BLUE, ORANGE, BLACK), strict=True):
            ax.plot(time, column, color=color, lw=1.1, label=f"${label}_{axis}$")
        ax.set_ylabel(f"{kind} momentum [{unit}]")
        finish(ax, time)
    return ax


def plot_gaps(world: World, sol: Solution, *, args: Any = None, ax: Axes | None = None) -> Axes:
    """The gaps of bodies and obstacles, and of pairs of bodies, against time, with the impacts.

    Of many gaps, the smallest at each time is drawn alone.

    Args:
        world, sol, ax: as for `plot_energy_parts`.
        args: those of `simulate`, for the motions of obstacles.

    Returns:
        The axes.

    Raises:
        ValueError: if fewer than two times were saved, for a batch, or if nothing can touch.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    time, states = _saved(sol)
    with_obstacles, of_pairs = _gaps(world, states, time, args)
    listed = world.obstacle_pairs
    if listed is None:
        listed = product(range(len(world.bodies)), range(len(world.obstacles)))
    curves = {
        f"body {body}, obstacle {obstacle}": with_obstacles[:, body, obstacle]
        for body, obstacle in listed
    }
    curves |= {f"bodies {i}, {j}": of_pairs[:, k] for k, (i, j) in enumerate(world.pairs)}
    if not curves:
        raise ValueError(
            "world has nothing that can touch: no obstacles for its bodies, and no pairs of them."
        )
    if len(curves) == 1:
        curves = {"gap": next(iter(curves.values()))}
    elif len(curves) > len(_COLORS):
        curves = {f"smallest of {len(curves)} gaps": np.min(list(curves.values()), axis=0)}
    with mpl.rc_context(STYLE):
        ax = new_axes() if ax is None else ax
        mark_impacts(ax, impact_times(sol))
        ax.axhline(0.0, color=GREY, lw=0.6)
        for (label, gap), color in zip(curves.items(), _COLORS, strict=False):
            ax.plot(time, gap, color=color, lw=1.1, label=label)
        ax.set_ylabel("gap [m]")
        finish(ax, time)
    return ax


def plot_phase_portrait(
    sol: Solution,
    body: int = 0,
    coordinate: Literal["x", "y", "z"] = "z",
    *,
    ax: Axes | None = None,
) -> Axes:
    """The velocity of a centre of mass against its position, along one axis of the world.

    Impacts are jumps along the velocity: they are drawn dashed where the solution has a record
    of them (`SaveAt(impacts=N)`).

    Args:
        sol, ax: as for `plot_energy_parts`.
        body: its index.
        coordinate: which axis.

    Returns:
        The axes.

    Raises:
        ValueError: if fewer than two times were saved, for a batch, without such a body, or for
            another coordinate.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    if coordinate not in _AXES:
        raise ValueError(f"coordinate must be x, y or z; got {coordinate!r}.")
    time, states = _saved(sol)
    if not 0 <= body < states.position.shape[-2]:
        raise ValueError(f"body must be an index below {states.position.shape[-2]}; got {body}.")
    axis = _AXES.index(coordinate)
    place = lambda states: np.asarray(states.position)[:, body, axis]  # noqa: E731
    speed = lambda states: np.asarray(states.velocity)[:, body, axis]  # noqa: E731
    positions, velocities = place(states), speed(states)
    own = _own_impacts(sol)
    if own is not None:
        at, before, after = own
        # A state saved at the time of an impact is one of the two on record. Then just before
        # the impact, a gap in the line, and just after.
        apart = ~np.isin(time, at)
        none = np.full(len(at), np.nan)
        steps = [np.stack([of(before), none, of(after)], 1).reshape(-1) for of in (place, speed)]
        order = np.argsort(np.concatenate([time[apart], np.repeat(at, 3)]), kind="stable")
        positions = np.concatenate([positions[apart], steps[0]])[order]
        velocities = np.concatenate([velocities[apart], steps[1]])[order]
    with mpl.rc_context(STYLE):
        ax = new_axes() if ax is None else ax
        if own is not None:
            _, before, after = own
            jump = np.stack([speed(before), speed(after)])
            ax.plot(np.stack([place(before)] * 2), jump, color=GREY, lw=0.8, ls=(0, (4, 3)))
        ax.plot(positions, velocities, color=BLUE, lw=1)
        ax.set_xlabel(f"${coordinate}$ [m]")
        ax.set_ylabel(rf"$\dot {coordinate}$ [m/s]")
    return ax


def reached_times(sol: Solution) -> tuple[np.ndarray, np.ndarray]:
    """The times saved that were reached [s], and which of all times they are.

    Raises:
        ValueError: if they are fewer than two, or for a batch.
    """
    if np.ndim(sol.stats.time):
        raise ValueError(
            "sol is of a batch; take one world: jax.tree.map(lambda leaf: leaf[0], sol)."
        )
    time = np.asarray(sol.ts)
    there = time <= float(sol.stats.time)
    if there.sum() < 2:
        raise ValueError(
            "sol needs states along the way: simulate with save=SaveAt(every=1) or SaveAt(ts=...)."
        )
    return time[there], there


def impact_times(sol: Solution) -> np.ndarray:
    """Of the impacts on record [s]."""
    if sol.impacts.time is None:
        return np.empty(0)
    time = np.asarray(sol.impacts.time)
    return time[np.isfinite(time)]


def _saved(sol: Solution) -> tuple[np.ndarray, State]:
    """The times that were reached, and the states then."""
    time, there = reached_times(sol)
    return time, jax.tree.map(lambda leaf: leaf[there], sol.states)


def _own_impacts(sol: Solution) -> tuple[np.ndarray, State, State] | None:
    """Times, and the states before and after; None if no impact is on record."""
    n = len(impact_times(sol))
    if n == 0 or sol.impacts.before is None or sol.impacts.after is None:
        return None
    first = lambda states: jax.tree.map(lambda leaf: leaf[:n], states)  # noqa: E731
    return impact_times(sol), first(sol.impacts.before), first(sol.impacts.after)


@eqx.filter_jit
def _gaps(world: World, states: State, times: Array, args: Any):
    def at(state, t):
        return gaps(world, state, t, args), pair_gaps(world, state)

    return jax.vmap(at)(states, times)


_MOMENTA = {
    "linear": (jax.jit(jax.vmap(linear_momentum, (None, 0))), "p", r"kg$\,$m/s"),
    "angular": (jax.jit(jax.vmap(angular_momentum, (None, 0))), "L", r"kg$\,$m$^2$/s"),
}
