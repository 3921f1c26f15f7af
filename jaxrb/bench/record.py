"""What a benchmark finds: rows, printed as a table while they come and kept in a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from . import files
from .machine import describe
from .timing import Quantiles


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        key: of its entry in a row.
        title: with the unit.
        form: how the number is formatted; text has none.
        width: of the printed column, at least.
        spread: whether the row has quantiles by this key, as of `Quantiles.named`.
    """

    key: str
    title: str
    form: str = ""
    width: int = 0
    spread: bool = False

    def entries(self) -> tuple[str, ...]:
        """The keys of all its entries in a row."""
        return Quantiles.keys(self.key) if self.spread else (self.key,)

    def text(self, row: Mapping[str, Any]) -> str:
        """The entry of a row; a dash where there is none."""
        values = [row.get(key) for key in self.entries()]
        if any(value is None for value in values):
            return "-"
        return str(Quantiles(*values)) if self.spread else format(values[0], self.form)

    def padded(self, text: str) -> str:
        """Numbers end below each other, all else begins so."""
        align = ">" if self.form else "<"
        return f"{text:{align}{max(self.width, len(self.title))}}"


class Table(NamedTuple):
    """How the rows of a benchmark are shown.

    Attributes:
        problem: what is measured.
        contender: what its contenders are.
        columns: those after the batch and the contender.
        notes: what the columns say, line by line.
    """

    problem: str
    contender: str
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()

    def every(self) -> tuple[Column, ...]:
        """All columns, from the left."""
        first = (Column("batch", "batch", "d", 6), Column("contender", self.contender, "", 26))
        return first + self.columns


# The peer that is faster than jaxrb, of jaxrb's rows, in every table with peers.
LOSES = Column("loses_to", "loses to", "", 18)
RATE = Column("rate", "body-steps/s", ".3g", 12)


class Record:
    """The rows of one run in one precision.

    Attributes:
        dtype: the precision, by its name.
        rounds: how often each contender is timed.
    """

    def __init__(
        self, name: str, table: Table, rounds: int, dtype: str, path: Path | None, note: str
    ):
        """Prints the heading.

        Args:
            name: of the benchmark.
            table: of its rows.
            rounds, dtype: as above.
            path: of the file to write; None for none.
            note: of who measures.
        """
        self.dtype, self.rounds = dtype, rounds
        self._table, self._path, self._scene = table, path, ""
        self._content = files.header(name, table.problem, rounds, note)
        self._content["notes"] += table.notes
        print(f"{table.problem}; {dtype}; {describe(self._content['machine'])}")
        if note:
            print(note)
        self._print(column.title for column in table.every())

    def begin(self, scene: str) -> None:
        """What follows is of this scene."""
        self._scene = scene
        print(scene, flush=True)

    def add(self, batch: int, contender: str, **values: Any) -> None:
        """Prints a row, and writes the file anew: a run that takes hours may be ended early.

        Args:
            batch: number of worlds.
            contender: its name.
            **values: of the other columns, by key. What is left out is none.
        """
        row: dict[str, Any] = {
            key: None for column in self._table.every() for key in column.entries()
        }
        row |= {"batch": batch, "contender": contender, **values}
        row = files.plain({"scene": self._scene, "dtype": self.dtype, **row})
        self._content["rows"].append(row)
        self._print(column.text(row) for column in self._table.every())
        self._write()

    def remark(self, text: str) -> None:
        """A note that only this run has; it is told once."""
        if text not in self._content["notes"]:
            self._content["notes"].append(text)

    def close(self) -> None:
        """Prints the notes, and writes the file."""
        for text in self._content["notes"]:
            print(f"  {text}")
        print()
        self._write()

    def _print(self, texts: Iterable[str]) -> None:
        pairs = zip(self._table.every(), texts, strict=True)
        print("  ".join(column.padded(text) for column, text in pairs).rstrip(), flush=True)

    def _write(self) -> None:
        if self._path is not None:
            files.write(self._path, self._content)
