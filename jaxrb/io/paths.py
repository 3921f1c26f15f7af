"""Files that are there, and files that are written whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from os import PathLike
from pathlib import Path
from uuid import uuid4


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
        _write(beside, chunks)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _keep_entries(path.parent)


def write_once(path: Path, chunks: list[bytes]) -> bool:
    """Writes a file, whole or not at all, unless there is one; returns whether it did.

    Several processes may try at once, even on several machines: one file stays, whole, and nothing
    is ever overwritten. What a killed one leaves beside it is for `remove_leftovers`.
    """
    beside = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        _write(beside, chunks)
        try:
            os.link(beside, path)  # which, unlike a move, fails if there is a file
        except FileExistsError:
            return False
        except OSError:
            if path.exists():  # another was quicker, and has tidied up
                return False
            os.replace(beside, path)  # on file systems without hard links
    except OSError as error:
        error.add_note(f"{path} was not written; nothing is left of it.")
        raise
    finally:
        beside.unlink(missing_ok=True)
    _keep_entries(path.parent)
    return True


def remove_leftovers(directory: Path) -> None:
    """Removes what killed calls of `write_once` left of files that others have written since.

    One that is still at work on such a file loses nothing: it would find that it came too late.
    """
    for beside in directory.glob(".*.tmp"):
        name, _, _ = beside.name[1:].removesuffix(".tmp").rpartition(".")
        if name and (directory / name).exists():
            with suppress(OSError):  # another process tidies up, too
                beside.unlink()


def _write(path: Path, chunks: list[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())


def _keep_entries(directory: Path) -> None:
    """Has the names in a directory survive a loss of power, where the system can do that."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
