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


def _seconds(call: Callable, repeats: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(repeats):
        jax.block_until_ready(call())
    return (clock() - start) / repeats
