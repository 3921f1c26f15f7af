"""Energies of a trajectory against time, with its impacts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..bodies import State
from ..simulate import World, energy, kinetic_energy, potential_energy
from .figure import BLACK, BLUE, GREY, ORANGE, STYLE, finish, mark_impacts, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Energies:
    """Along a trajectory, or along several.

    Attributes:
        t: [s], shape (n,).
        total, rotational, potential: [J], shape (..., n).
    """

    t: np.ndarray
    total: np.ndarray
    rotational: np.ndarray
    potential: np.ndarray

    @staticmethod
    def of(world: World, t: Sequence[float], states: State) -> Energies:
        """The energies of states with leading axes (..., n), the last of them over times [s]."""
        lead = states.position.shape[:-2]
        flat = jax.tree.map(lambda leaf: np.reshape(leaf, (-1, *leaf.shape[-2:])), states)
        parts = (np.reshape(part, lead) for part in _energies(world, flat))
        return Energies(np.asarray(t), *parts)

    @property
    def translational(self) -> np.ndarray:
        """The translational kinetic energy [J]."""
        return self.total - self.rotational - self.potential

    @property
    def relative_error(self) -> float:
        """max |E - E0|/|E0|."""
        return float(np.abs(self.total / self.total[..., :1] - 1).max())


@jax.jit
@partial(jax.vmap, in_axes=(None, 0))
def _energies(world: World, state: State):
    spinning = eqx.tree_at(lambda s: s.velocity, state, jnp.zeros_like(state.velocity))
    return energy(world, state), kinetic_energy(world, spinning), potential_energy(world, state)


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
        ax = new_axes() if ax is None else ax
        mark_impacts(ax, impact_times)
        ax.plot(time, tpe + re, color=BLACK, lw=1.4, label="total, T.E.")
        ax.plot(time, tpe, color=BLUE, lw=1.2, label="translational + potential, T.P.E.")
        ax.plot(time, re, color=ORANGE, lw=1.2, ls=(0, (5, 1)), label="rotational, R.E.")
        ax.set_ylabel("energy [J]")
        ax.set_ylim(bottom=min(0.0, 1.05 * tpe.min()))
        finish(ax, time)
    return ax


def plot_energy_change(
    time: Sequence[float],
    energy: Sequence[float],
    *,
    impact_times: Sequence[float] = (),
    ax: Axes | None = None,
) -> Axes:
    """(E - E0)/|E0| against time: what a plot of an energy that is conserved cannot show.

    In a power of ten, on a linear axis, since it is often exactly 0.

    Args:
        time: [s], shape (n,).
        energy: total [J], shape (n,); E0 is the first entry.
        impact_times: marked by dashed lines [s], unless there are more than 40.
        ax: to draw into; a new figure by default.

    Returns:
        The axes.

    Raises:
        ValueError: if E0 is 0, to which no change is relative.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    total = np.asarray(energy, float)
    if total[0] == 0:
        raise ValueError("energy must not be 0 at the start, for a relative change.")
    change, exponent = _in_power_of_ten((total - total[0]) / abs(total[0]))
    with mpl.rc_context(STYLE):
        ax = new_axes() if ax is None else ax
        mark_impacts(ax, impact_times)
        ax.axhline(0.0, color=GREY, lw=0.6)
        ax.plot(time, change, color=BLUE, lw=0.8, label="_change")
        unit = rf" [$10^{{{exponent}}}$]" if exponent else ""
        ax.set_ylabel(rf"$(E - E_0)/|E_0|${unit}")
        finish(ax, time)
    return ax


def _in_power_of_ten(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Numbers in units of the power of ten of the largest, and its exponent."""
    largest = np.abs(values).max()
    exponent = math.floor(math.log10(largest)) if largest > 0 else 0
    return values / 10.0**exponent, exponent


def plot_energy_error(
    time: Sequence[float],
    energy: Sequence[float],
    *,
    others: Sequence[Sequence[float]] = (),
    impact_times: Sequence[float] = (),
    ax: Axes | None = None,
) -> Axes:
    """|E - E0| against time, as in Tran and Leok's Figure 8, in a power of ten of joules.

    The axis is linear: where energy is conserved to round-off the error is often exactly 0.

    Args:
        time: [s], shape (n,).
        energy: total [J], shape (n,); E0 is the first entry.
        others: of further runs [J], shape (n_runs, n); drawn below in grey.
        impact_times: marked by dashed lines [s], unless there are more than 40.
        ax: to draw into; a new figure by default.

    Returns:
        The axes.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional)

    runs = np.array([energy, *others])
    errors, exponent = _in_power_of_ten(np.abs(runs - runs[:, :1]))
    with mpl.rc_context(STYLE):
        ax = new_axes() if ax is None else ax
        mark_impacts(ax, impact_times)
        for index, error in enumerate(errors[1:]):
            label = None if index else "other runs"
            ax.plot(time, error, color=GREY, lw=0.4, alpha=0.7, label=label)
        ax.plot(time, errors[0], color=BLUE, lw=0.8, label=r"$|E - E_0|$")
        unit = rf"$10^{{{exponent}}}$ J" if exponent else "J"
        ax.set_ylabel(rf"$|E - E_0|$ [{unit}]")
        ax.set_ylim(bottom=0.0)
        finish(ax, time)
    return ax
