"""Ten boxes as in `contact`, longer, with both methods, in batches of any size: takes an hour."""

from __future__ import annotations

from .contact import METHODS, Scene, tabulate

BATCHES = (64,)
_ALL, _ANY = tuple(METHODS), 1_000_000
SCENES = {
    "ten boxes at rest": Scene(10, 0.0, 200, 200, _ANY, _ALL),
    "ten boxes settle": Scene(10, 0.1, 200, 200, _ANY, _ALL),
    "ten boxes, shaken": Scene(10, 0.5, 20, 200, _ANY, _ALL),
}


def run(batches: tuple[int, ...], rounds: int, dtype: str) -> None:
    """Prints the table of one dtype."""
    tabulate(SCENES, batches, rounds, dtype)
