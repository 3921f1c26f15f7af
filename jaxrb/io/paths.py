"""Files that are there, and files that are written whole or not at all."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path


def existing_file(path: str | PathLike) -> Path:
    """`path` as a Path; raises `FileNotFoundError` naming it if it is no file."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    return path


def write_atomically(path: Path, chunks: list[bytes]) -> None:
    """Writes a file beside its place and moves it there, so that whoever reads it, or is killed
    while writing, finds the old file or the new one.

    What a killed process leaves beside it is overwritten by the next one.
    """
    beside = path.with_name(f".{path.name}.tmp")
    try:
        with beside.open("wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
