"""Central differences, extrapolated to step zero, with an estimate of their own error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Halved from one level to the next. Larger steps would often lead to another sequence of impacts,
# whose derivatives are others; smaller ones lose digits to round-off.
LEVELS = 10
LARGEST = 2.0**-10
_STEPS = LARGEST * 2.0 ** -np.arange(LEVELS)


class Slope(NamedTuple):
    """A derivative by differences."""

    value: np.ndarray  # shape (n_outputs, n_columns)
    error: np.ndarray  # the estimate of its own error, likewise
    bend: np.ndarray  # by how much the slope ahead is larger, and that behind smaller, likewise
    bend_error: np.ndarray  # the estimate of its error, likewise
    used: np.ndarray  # how many steps could be used for a column, shape (n_columns,)

    def column(self, k: int) -> Slope:
        """One of them, without its axis."""
        return Slope(*(array[..., k] for array in self))


def points(scales: np.ndarray) -> np.ndarray:
    """Where the function is to be evaluated, as one batch.

    Args:
        scales: of each column, by which the steps are multiplied, shape (n,).

    Returns:
        Shape (n LEVELS 2, n): of each column, each step, ahead and behind.
    """
    steps = scales[:, None, None] * _STEPS[:, None] * np.array([1.0, -1.0])
    directions = np.eye(len(scales))[:, None, None, :]
    return (steps[..., None] * directions).reshape(-1, len(scales))


def slopes(outputs: np.ndarray, usable: np.ndarray, scales: np.ndarray, round_off: float) -> Slope:
    """Richardson's extrapolation of central differences, by the scheme of Ridders.

    The error of a central difference is a series in even powers of the step, of which each column
    of the tableau removes one. Of all entries that with the smallest estimated error is taken, of
    each output by itself: the estimate is the larger distance from the two entries that it was made
    of, and what round-off of the function makes of it. At a kink this is the mean of the slopes to
    both sides; how far they are from it is extrapolated likewise, in all powers of the step.

    Args:
        outputs: at `points`, less those at 0, shape (n LEVELS 2, n_outputs).
        usable: which of them belong to the same piece of the function, shape (n LEVELS 2,).
        scales: as for `points`.
        round_off: of the outputs.
    """
    n = len(scales)
    outputs = outputs.reshape(n, LEVELS, 2, -1)
    both = usable.reshape(n, LEVELS, 2).all(axis=-1)
    width = scales[:, None] * _STEPS
    ahead, behind = outputs[:, :, 0] / width[..., None], -outputs[:, :, 1] / width[..., None]
    found = [
        _extrapolated(table[k], both[k], width[k] ** power, round_off / width[k])
        for table, power in (((ahead + behind) / 2, 2), ((ahead - behind) / 2, 1))
        for k in range(n)
    ]
    parts = [
        np.stack([pair[which] for pair in half], axis=-1)
        for half in (found[:n], found[n:])
        for which in (0, 1)
    ]
    return Slope(*parts, both.sum(axis=-1))


def _extrapolated(table, usable, variable, round_off) -> tuple[np.ndarray, np.ndarray]:
    """One column, a polynomial in a variable, at its zero: value and error of each output, infinite
    where there is nothing to compare."""
    best = np.full(table.shape[-1], np.nan)
    least = np.full(table.shape[-1], np.inf)
    levels = np.flatnonzero(usable)
    above: list[np.ndarray] = []
    for k, level in enumerate(levels):
        row = [table[level]]
        for j, old in enumerate(above):
            ratio = variable[levels[k - j - 1]] / variable[level]
            new = row[j] + (row[j] - old) / (ratio - 1)
            error = np.maximum(np.abs(new - row[j]), np.abs(new - old)) + round_off[level]
            better = error < least
            best, least = np.where(better, new, best), np.where(better, error, least)
            row.append(new)
        above = row
    return best, least
