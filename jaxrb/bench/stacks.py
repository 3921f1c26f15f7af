"""Ten boxes as in `contact`, longer, with both methods, in batches of any size: takes an hour."""

from __future__ import annotations

from .contact import METHODS, TABLE as TABLE, Scene, compare, named
from .record import Record

BATCHES = (64,)
_ALL, _ANY = tuple(METHODS), 1_000_000
SCENES = named(
    Scene(10, 0.0, 200, 200, _ANY, _ALL),
    Scene(10, 0.1, 200, 200, _ANY, _ALL),
    Scene(10, 0.5, 20, 200, _ANY, _ALL),
)


def measure(record: Record, scene: str, batches: tuple[int, ...]) -> None:
    """Adds the rows of a scene."""
    compare(record, SCENES[scene], batches)
