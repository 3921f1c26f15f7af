"""Files of what a benchmark has found: one JSON object with the machine, the versions and rows."""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..io.paths import write_atomically
from .machine import machine, versions


def header(name: str, problem: str, rounds: int | None, note: str) -> dict[str, Any]:
    """The content of a file in which there are no rows yet.

    Args:
        name: of the benchmark.
        problem: what is measured.
        rounds: how often each contender was timed; None where nothing is timed.
        note: of who measures, such as on what else the machine did.
    """
    return {
        "benchmark": name,
        "date": datetime.now(UTC).date().isoformat(),
        "note": note,
        "versions": versions(),
        "machine": machine(),
        "problem": problem,
        "rounds": rounds,
        "notes": [],
        "rows": [],
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Writes a file, in place of the one that is there.

    Each row is a line of its own.
    """
    lines = (json.dumps(plain(row), ensure_ascii=False, allow_nan=False) for row in content["rows"])
    rows = ",\n".join(f"  {line}" for line in lines)
    head = {name: value for name, value in content.items() if name != "rows"}
    text = json.dumps(head, indent=1, ensure_ascii=False).removesuffix("\n}")
    write_atomically(path, [f'{text},\n "rows": [\n{rows}\n ]\n}}\n'.encode()])


def merged(paths: Iterable[Path]) -> dict[str, Any]:
    """The content of the first file, with the rows of all and each of their notes once."""
    contents = [json.loads(path.read_text()) for path in paths]
    notes = dict.fromkeys(note for content in contents for note in content["notes"])
    rows = [row for content in contents for row in content["rows"]]
    return {**contents[0], "notes": list(notes), "rows": rows}


def writable(text: str) -> Path:
    """The path of a file that can be written, as an argument of a command.

    Raises:
        argparse.ArgumentTypeError: if it cannot; nothing is left of the attempt.
    """
    path = Path(text)
    try:
        if path.exists() and not path.is_file():
            raise FileExistsError("it is no ordinary file")
        with tempfile.TemporaryFile(dir=path.parent):
            return path
    except OSError as error:
        reason = error.strerror or str(error)
        raise argparse.ArgumentTypeError(f"cannot write {text}: {reason}") from error


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of what JSON knows; of a number that is not finite it is None."""

    def known(value: Any) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {name: known(value) for name, value in row.items()}
