"""What a fit says of its parameters: estimates, intervals, and what cannot be known."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .parameters import Parameters

# A direction in the space of parameters whose scaled singular value is smaller is unknown: the
# derivatives of a motion through some impacts have about ten correct digits.
RANK = 1e-6
# A column so much shorter than the longest is round-off; units may well differ by less.
BLIND = 1e-10
# Entries of a direction, beside its largest and in units of what the data say of each, that name a
# parameter.
NAMED = 0.05
# Of the normal distribution: 95 % lie within.
Z95 = 1.959963984540054


class Estimate(NamedTuple):
    """One free array: its value and its 95 % interval, of its own shape.

    The bounds are infinite where the data do not tell.
    """

    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def covariance(root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From the triangular root of the information of the parameters.

    Returns:
        The covariance of the coordinates, infinite on the diagonal where it is unknown, and the
        unit vectors of the unknown directions, shape (n_unknown, n_p), in which coordinates that
        hardly matter are zero.
    """
    n = root.shape[1]
    scale = np.linalg.norm(root, axis=0)
    blind = scale <= BLIND * scale.max(initial=0.0)
    scale = np.where(blind, 1.0, scale)
    _, values, rows = np.linalg.svd(np.where(blind, 0.0, root / scale))
    values = np.pad(values, (0, n - values.size))
    known = values > RANK
    # Back to the coordinates themselves, whose units say nothing of which of them matter.
    unknown = _separated(rows[~known])
    unknown = np.where(np.abs(unknown) > NAMED, unknown, 0.0) / scale
    unknown /= np.linalg.norm(unknown, axis=1, keepdims=True)
    inverse = (rows[known].T / values[known]).T / scale
    found = inverse.T @ inverse
    lost = (np.abs(rows[~known]) > np.sqrt(RANK)).any(axis=0)
    found[lost, lost] = np.inf
    return found, unknown


def _separated(directions: np.ndarray) -> np.ndarray:
    """Independent directions of the same space that move as few coordinates each as can be: its
    reduced row echelon form, with the largest entry of each row 1."""
    rows = directions.copy()
    for done in range(len(rows)):
        left = np.abs(rows[done:])
        row, column = np.unravel_index(np.argmax(left), left.shape)
        rows[[done, done + row]] = rows[[done + row, done]]
        rows[done] /= rows[done, column]
        others = np.arange(len(rows)) != done
        rows[others] -= rows[others, column][:, None] * rows[done]
    return rows / np.abs(rows).max(axis=1, keepdims=True)


def named(direction: np.ndarray, names: tuple[str, ...]) -> dict[str, float]:
    """The coordinates that a direction moves, with its entries."""
    return {name: float(entry) for name, entry in zip(names, direction, strict=True) if entry != 0}


def estimates(free: Parameters, world: Any, found: np.ndarray) -> dict[str, Estimate]:
    """Of each free array, at a world, with a covariance of its coordinates there.

    Where each entry has a coordinate, the interval is that of the coordinate, so that it keeps
    within the chart; elsewhere it is that of the entries to first order.
    """
    result = {}
    at = 0
    for entry, (name, value) in zip(free.entries, free.values(world).items(), strict=True):
        own = slice(at, at + entry.size)
        at += entry.size
        result[name] = _estimate(entry, np.asarray(value), found[own, own])
    return result


def _estimate(entry, value: np.ndarray, found: np.ndarray) -> Estimate:
    if entry.size == 0:
        return Estimate(value, value, value)
    zero, found = jnp.zeros(entry.size, value.dtype), found.astype(value.dtype)
    known = np.isfinite(np.diagonal(found))
    if entry.chart.elementwise:
        sd = np.sqrt(np.where(known, np.diagonal(found), 0.0))
        ends = [
            np.asarray(entry.chart.retract(jnp.asarray(value), jnp.asarray(side * Z95 * sd)))
            for side in (-1.0, 1.0)
        ]
        shown = known.reshape(value.shape)
        return Estimate(value, np.where(shown, ends[0], -np.inf), np.where(shown, ends[1], np.inf))
    by = jax.jacfwd(lambda step: entry.chart.retract(jnp.asarray(value), step))(zero)
    by = np.asarray(by).reshape(-1, entry.size)
    inner = np.where(known[:, None] & known, found, 0.0)
    sd = np.sqrt(np.einsum("ij,jk,ik->i", by, inner, by))
    lost = (np.abs(by[:, ~known]) > 0).any(axis=1)
    sd = np.where(lost, np.inf, sd).reshape(value.shape)
    return Estimate(value, value - Z95 * sd, value + Z95 * sd)


def runs_test(residual: np.ndarray, measured: np.ndarray) -> float:
    """How probable so few or many changes of sign are, if residuals are noise (Wald and
    Wolfowitz), in the channels of one throw together.

    Args:
        residual: in the order of time, shape (T, channels).
        measured: which there are.
    """
    from scipy.stats import norm  # noqa: PLC0415 (slow to import)

    runs = expected = variance = 0.0
    for channel, there in zip(residual.T, measured.T, strict=True):
        signs = channel[there] > 0
        above, below = float(signs.sum()), float((~signs).sum())
        n = above + below
        if min(above, below) < 1 or n < 3:
            continue
        runs += 1 + float(np.sum(signs[1:] != signs[:-1]))
        expected += 1 + 2 * above * below / n
        variance += 2 * above * below * (2 * above * below - n) / (n**2 * (n - 1))
    if variance <= 0:
        return 1.0
    return float(2 * norm.sf(abs(runs - expected) / np.sqrt(variance)))
