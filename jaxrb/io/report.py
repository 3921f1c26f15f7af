"""What an import did not understand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Entry:
    """One part of a file that the world does not have.

    Attributes:
        element: its kind, such as "joint" or "camera".
        name: its own name in the file, or its number.
        why: what became of it.
        physical: whether its loss changes the motion.
    """

    element: str
    name: str
    why: str
    physical: bool

    def __str__(self) -> str:
        return f"{self.element} {self.name!r}: {self.why}"


@dataclasses.dataclass(frozen=True)
class Report:
    """What an import did not understand; prints as a list, the physical losses first.

    Attributes:
        entries: in the order in which they were found.
    """

    entries: tuple[Entry, ...] = ()

    @property
    def lost(self) -> tuple[Entry, ...]:
        """Those whose loss changes the motion."""
        return tuple(entry for entry in self.entries if entry.physical)

    @property
    def harmless(self) -> tuple[Entry, ...]:
        """Those whose loss does not."""
        return tuple(entry for entry in self.entries if not entry.physical)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __str__(self) -> str:
        if not self.entries:
            return "Everything was understood."
        titles = {
            "Left out, which changes the motion:": self.lost,
            "Left out, which does not:": self.harmless,
        }
        lines = []
        for title, entries in titles.items():
            if entries:
                lines += [title, *(f"  {entry}" for entry in entries)]
        return "\n".join(lines)


class Losses:
    """A report in the making."""

    def __init__(self):
        self._entries: list[Entry] = []

    def lost(self, element: str, name: str, why: str) -> None:
        """Notes what changes the motion."""
        self._add(Entry(element, name, why, physical=True))

    def harmless(self, element: str, name: str, why: str) -> None:
        """Notes what does not."""
        self._add(Entry(element, name, why, physical=False))

    def _add(self, entry: Entry) -> None:
        if entry not in self._entries:
            self._entries.append(entry)

    def report(self) -> Report:
        """All that was noted."""
        return Report(tuple(self._entries))
