"""Progress bars of long runs: tqdm's, or any that is used like them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
from jaxtyping import Array, Int

from .time_grid import TimeGrid

# A bar has a few hundred places at most, and a call from inside the program takes a while.
MOST_REPORTS = 200

# The bar of the run in progress, of one at a time: a compiled program can only call what it was
# compiled with.
_bars: list[Any] = []


@contextmanager
def progress_bar(progress: bool | Callable, total: int, unit: str) -> Iterator[Any]:
    """A bar, or None without one; it says "compiling" until it moves.

    Args:
        progress: whether to show one, or what makes one in place of `tqdm.auto.tqdm`.
        total: its length.
        unit: of what is counted.

    Raises:
        ImportError: if tqdm is wanted and not installed.
        ValueError: if `progress` is none of these.
    """
    if progress is False:
        yield None
        return
    with _maker(progress)(total=total, unit=unit) as shown:
        bar = _Waiting(shown)
        _bars.append(bar)
        try:
            yield bar
        finally:
            jax.effects_barrier()
            # By identity: bars compare by their place on the screen.
            _bars[:] = [other for other in _bars if other is not bar]


class _Waiting:
    """A bar that says what it waits for until it moves: without steps done it would seem to hang.

    What is used like tqdm need not have a description.
    """

    def __init__(self, bar: Any):
        self._bar = bar
        self._waits = hasattr(bar, "set_description")
        if self._waits:
            bar.set_description("compiling")

    @property
    def n(self) -> int:
        return self._bar.n

    @property
    def total(self) -> int:
        return self._bar.total

    def update(self, n: int) -> None:
        if self._waits:
            self._waits = False
            self._bar.set_description(None)
        self._bar.update(n)


def report(step: Int[Array, ""], grid: TimeGrid) -> None:
    """Moves the bar from inside a program, to a number of steps."""
    stride = max(1, grid.capacity // MOST_REPORTS)
    jax.lax.cond(
        (step % stride == 0) | (step == grid.n_steps),
        lambda step: jax.debug.callback(_move, step),
        lambda step: None,
        step,
    )


def _move(step) -> None:
    if _bars:
        bar = _bars[-1]
        bar.update(max(0, int(step) - bar.n))


def _maker(progress: bool | Callable) -> Callable:
    if callable(progress):
        return progress
    if progress is not True:
        raise ValueError(f"progress must be True, False or a class like tqdm; got {progress!r}.")
    try:
        from tqdm.auto import tqdm  # noqa: PLC0415  (optional)
    except ImportError as error:
        raise ImportError('progress=True needs tqdm: pip install "jaxrb[viz]".') from error
    return tqdm
