"""What was found, as tables to read and files to keep."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from pathlib import Path

from .check import BAR, MODES_BAR, Entry
from .matrix import Names, Row

_ENTRY = Entry._fields
VERDICTS = ("right", "kink", "undecided", "wrong")
FIELDS = ("shape", "law", "flow", "throw", "impacts", *_ENTRY, "trouble")
_WIDTH = 66


def header() -> str:
    """Of the lines of `summary`."""
    return (
        f"{'bodies, law, flow':<{_WIDTH}} {'impacts':>9} {'numbers':>7} {'error':>8} {'doubt':>8} "
        f"{'modes':>8} {'right':>9} {'time':>6}"
    )


def summary(names: Names, seconds: float, found: list[Row]) -> str:
    """One line for a scene, and one for each number that is not right."""
    entries = [row.entry for row in found if row.entry is not None]
    title = f"{'; '.join(names):<{_WIDTH}}"
    lines = []
    if entries:
        impacts = sorted({row.impacts for row in found if row.entry is not None})
        worst = worst_of(entries)
        right = sum(entry.verdict == "right" for entry in entries)
        counts = f"{impacts[0]}..{impacts[-1]}" if len(impacts) > 1 else f"{impacts[0]}"
        lines.append(
            f"{title} {counts:>9} {len({e.label for e in entries}):>7} {worst.error:>8.1e} "
            f"{worst.doubt:>8.1e} {max(e.modes for e in entries):>8.1e} "
            f"{right:>4}/{len(entries):<4} {seconds:>4.0f} s"
        )
    for row in found:
        if row.entry is None:
            lines.append(f"{title if not entries else ''} throw {row.throw}: {row.trouble[:160]}")
        elif row.entry.verdict != "right":
            lines.append(f"    throw {row.throw}: {describe(row.entry)}")
    return "\n".join(lines)


def describe(entry: Entry) -> str:
    """One derivative."""
    return (
        f"{entry.verdict}: {entry.quantity} by {entry.label}, {entry.derivative:.6g}, "
        f"error {entry.error:.1e}, doubt {entry.doubt:.1e}, modes {entry.modes:.1e}"
    )


def worst_of(entries: Iterable[Entry]) -> Entry:
    """The one with the largest error; what is no number is larger than all."""
    return max(entries, key=lambda entry: math.inf if math.isnan(entry.error) else entry.error)


def by_parameter(found: list[Row]) -> str:
    """How many derivatives by each kind of number there are, and the worst of them."""
    kinds: dict[str, list[Row]] = {}
    for row in found:
        if row.entry is not None:
            kinds.setdefault(row.entry.parameter, []).append(row)
    lines = [
        f"{'by':<24} {'derivatives':>11} {'right':>7} {'kink':>9} {'undecided':>9} "
        f"{'wrong':>5}  worst"
    ]
    for kind, own in kinds.items():
        entries = [row.entry for row in own if row.entry is not None]
        worst = worst_of(entries)
        where = next(row for row in own if row.entry is worst)
        count = {v: sum(e.verdict == v for e in entries) for v in VERDICTS}
        lines.append(
            f"{kind:<24} {len(entries):>11} {count['right']:>7} {count['kink']:>9} "
            f"{count['undecided']:>9} {count['wrong']:>5}  {worst.error:.1e} "
            f"({where.shape}; {where.law}; {where.flow}; throw {where.throw}: {worst.label})"
        )
    return "\n".join(lines)


def explanation() -> str:
    """What the columns say."""
    return (
        "  error: of forward mode against differences, the worst; doubt: what these say of their\n"
        "  own error there; modes: forward against reverse, relative to the largest derivative.\n"
        "  Errors are relative to the part of a derivative that belongs to place, attitude,\n"
        "  velocity or spin, and a thousandth of all of it.\n"
        f"  right: error at most {BAR:g} and modes at most {MODES_BAR:g}; kink: the slopes to\n"
        "  both sides differ by about the error, there is no derivative; undecided: a larger\n"
        "  error that is within ten times the doubt; all others are wrong.\n"
    )


def records(found: Iterable[Row]) -> list[dict]:
    """One dictionary for each derivative, by `FIELDS`."""
    none = dict.fromkeys(_ENTRY)
    return [
        {
            **{name: getattr(row, name) for name in ("shape", "law", "flow", "throw", "impacts")},
            **(none if row.entry is None else row.entry._asdict()),
            "trouble": row.trouble,
        }
        for row in found
    ]


def write_csv(path: Path, rows: list[dict]) -> None:
    """A file with a line for each record."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
