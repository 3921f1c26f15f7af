"""Timing of contenders that take turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import numpy as np

# A measurement shorter than this is repeated until it is as long [s].
SHORTEST = 0.1


class Quantiles(NamedTuple):
    """The median and range of a number over several rounds."""

    median: float
    least: float
    most: float

    @staticmethod
    def of(values: np.ndarray) -> Quantiles:
        return Quantiles(float(np.median(values)), float(values.min()), float(values.max()))

    @staticmethod
    def keys(name: str) -> tuple[str, str, str]:
        """Under which a row keeps quantiles."""
        return name, f"{name}_least", f"{name}_most"

    def named(self, name: str) -> dict[str, float]:
        """The entries of a row."""
        return dict(zip(self.keys(name), self, strict=True))

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.least:.3g} .. {self.most:.3g})"


def round_robin(
    contenders: Mapping[str, Callable],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, np.ndarray]:
    """Seconds per call of each contender, in turns, once a round.

    Args:
        contenders: functions without arguments; what they return is waited for. Each is
            called once beforehand, uncounted, so that it is compiled and its caches are warm.
        rounds: number of turns of each.
        clock: the time [s]; `time.process_time` is that of the CPU, summed over its cores.

    Returns:
        For each contender the seconds per call in each round, shape (rounds,).
    """
    repeats = {}
    for name, call in contenders.items():
        _seconds(call, 1, clock)
        repeats[name] = max(1, int(np.ceil(SHORTEST / _seconds(call, 1, clock))))
    seconds = {name: np.empty(rounds) for name in contenders}
    for index in range(rounds):
        for name, call in contenders.items():
            seconds[name][index] = _seconds(call, repeats[name], clock)
    return seconds


def fastest_of(peers: Mapping[str, np.ndarray], rate: np.ndarray) -> str | None:
    """The fastest of the peers that are faster than a contender, by the median of the rounds.

    Args:
        peers: their rates in each round, shape (rounds,).
        rate: that of the contender.

    Returns:
        Its name; None if the contender loses to none.
    """
    ratios = {name: float(np.median(rate / peer)) for name, peer in peers.items()}
    faster = {name: ratio for name, ratio in ratios.items() if ratio < 1}
    return min(faster, key=lambda name: faster[name], default=None)


def _seconds(call: Callable, repeats: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(repeats):
        jax.block_until_ready(call())
    return (clock() - start) / repeats
