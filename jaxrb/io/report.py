"""What an import did not understand, and what it assumed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

_AT_MOST = 30  # names on one line


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


@dataclasses.dataclass(frozen=True, repr=False)
class Report:
    """What an import did not understand, and what it assumed; prints as a list, the physical
    losses first.

    Attributes:
        entries: in the order in which they were found.
        assumed: what was chosen because the file does not say it, a sentence each.
    """

    entries: tuple[Entry, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def lost(self) -> tuple[Entry, ...]:
        """The entries whose loss changes the motion."""
        return tuple(entry for entry in self.entries if entry.physical)

    @property
    def harmless(self) -> tuple[Entry, ...]:
        """The entries whose loss does not change the motion."""
        return tuple(entry for entry in self.entries if not entry.physical)

    def __len__(self) -> int:
        return len(self.entries)

    def __bool__(self) -> bool:
        return bool(self.entries or self.assumed)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __repr__(self) -> str:
        lost, harmless = len(self.lost), len(self.harmless)
        left_out = f"{lost} that changes" if lost == 1 else f"{lost} that change"
        counts = [f"left out: {left_out} the motion, {harmless} without effect"]
        if self.assumed:
            counts.append(f"assumed: {len(self.assumed)}")
        return f"Report({', '.join(counts)})"

    def __str__(self) -> str:
        titles = {
            "This is left out, which changes the motion:": listed(self.lost),
            "This is left out, which does not change the motion:": listed(self.harmless),
            "This is assumed:": list(self.assumed),
        }
        lines = []
        if not self.entries:
            lines.append("Everything was understood.")
        for title, entries in titles.items():
            if entries:
                lines += [title, *(f"  {entry}" for entry in entries)]
        return "\n".join(lines)


def listed(entries: Sequence[Entry]) -> list[str]:
    """A line for each kind of element and reason, with the names of all, but of no more than a
    reader would want."""
    alike: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        alike.setdefault((entry.element, entry.why), []).append(repr(entry.name))
    lines = []
    for (element, why), names in alike.items():
        more = f" and {len(names) - _AT_MOST} more" if len(names) > _AT_MOST else ""
        lines.append(f"{element} {', '.join(names[:_AT_MOST])}{more}: {why}")
    return lines


class Losses:
    """A report in the making."""

    def __init__(self):
        # As keys, which keep their order: of large models there are many.
        self._entries: dict[Entry, None] = {}
        self._assumed: dict[str, None] = {}

    def lost(self, element: str, name: str, why: str) -> None:
        """Notes what changes the motion."""
        self._entries[Entry(element, name, why, physical=True)] = None

    def harmless(self, element: str, name: str, why: str) -> None:
        """Notes what does not."""
        self._entries[Entry(element, name, why, physical=False)] = None

    def assumed(self, sentence: str) -> None:
        """Notes what was chosen because the file does not say it."""
        self._assumed[sentence] = None

    def report(self) -> Report:
        """All that was noted."""
        return Report(tuple(self._entries), tuple(self._assumed))
