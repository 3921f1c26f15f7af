"""The directory of a batch in parts: what run it holds, and reading it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..simulate import Solution
from ..simulate.unread import watch
from .files import SUFFIX, converted, load_file, map_file, save_once, wanted_dtype
from .structure import as_jax

_KIND = "batch in parts"
_MANIFEST = f"run{SUFFIX}"
_PART = "part-"
_MOST_OPEN = 8  # files that stay mapped


class Parts:
    """A batch of solutions in part files, which are read when they are asked for.

    `parts[17]` is the solution of world 17, `parts[100:200]` that of a batch of worlds; iterating
    gives those of one part after the other, and `load()` all of them together. A file is
    mapped into memory and the checksum of all its bytes looked at once; then what is asked for is
    copied from it. What is there may grow: other processes may still be at work.

    Attributes:
        directory: where they are.
        n_worlds: of the whole batch.
        ranges: the numbers of the worlds of each part.
    """

    def __init__(self, directory: str | PathLike, dtype: Any = None):
        """As `open_parts`."""
        self.directory = Path(directory)
        identity = read_identity(self.directory)
        self._run = run_of(identity)
        self._dtype = wanted_dtype(dtype, self.directory / _MANIFEST)
        n, part = identity["n_worlds"], identity["part"]
        self.n_worlds = n
        self.ranges = tuple(range(a, min(a + part, n)) for a in range(0, n, part))
        self._part = part
        self._open: dict[int, Solution] = {}
        self._checked: set[int] = set()

    @property
    def missing(self) -> tuple[range, ...]:
        """The numbers of the worlds that are not there now, in as few ranges as there can be."""
        there = present(self.directory)
        found: list[range] = []
        for number, worlds in enumerate(self.ranges):
            if number in there:
                continue
            if found and found[-1].stop == worlds.start:
                found[-1] = range(found[-1].start, worlds.stop)
            else:
                found.append(worlds)
        return tuple(found)

    def __getitem__(self, key: int | slice) -> Solution:
        """The solution of one world by its number, or of a slice of worlds, with a leading axis.

        Raises:
            FileNotFoundError: if some of them are not there, naming them.
            IndexError: if there is no such world.
            TypeError: if it is neither a number nor a slice.
            ValueError: as `load_file` does for files that are damaged; if they are of another run.
        """
        if isinstance(key, slice):
            worlds = range(self.n_worlds)[key]
            if not worlds:
                raise IndexError(f"{key} holds none of the {self.n_worlds} worlds.")
            forward = worlds if worlds.step > 0 else worlds[::-1]
            found = self._rows(forward)
            if worlds.step < 0:
                found = jax.tree.map(lambda leaf: leaf[::-1], found)
            return watch(self._arrays(found))
        if isinstance(key, bool) or not isinstance(key, (int, np.integer)):
            raise TypeError(f"worlds are asked for by a number or a slice; got {key!r}.")
        if not -self.n_worlds <= key < self.n_worlds:
            raise IndexError(f"There is no world {key} of {self.n_worlds}.")
        number, row = divmod(int(key) % self.n_worlds, self._part)
        self._require([number])
        return watch(self._arrays(jax.tree.map(lambda leaf: leaf[row], self._mapped(number))))

    def __iter__(self) -> Iterator[Solution]:
        """The solution of each part, with a leading axis over its worlds.

        Raises:
            FileNotFoundError: at a part that is not there.
        """
        return (self[worlds.start : worlds.stop] for worlds in self.ranges)

    def load(self) -> Solution:
        """That of all worlds, in memory, as `simulate_batch` would have given it.

        Raises:
            FileNotFoundError: if some are not there, naming them.
        """
        return self[:]

    def path(self, number: int) -> Path:
        """The file of a part by its number."""
        return self.directory / f"{_PART}{number:08d}{SUFFIX}"

    def write(self, number: int, solution: Solution) -> bool:
        """Writes a part, unless it is there; returns whether it did."""
        content = {"file": _KIND, "run": self._run, "number": number, "solution": solution}
        return save_once(self.path(number), content)

    def peek(self, number: int) -> Solution:
        """The solution of a part, of arrays that are views of its file, which is not checked."""
        return self._opened(number, check=False)

    def __repr__(self) -> str:
        n_there = len(present(self.directory) & set(range(len(self.ranges))))
        return (
            f"Parts({str(self.directory)!r}: {self.n_worlds} worlds in {len(self.ranges)} parts, "
            f"{n_there} of them there)"
        )

    def _rows(self, worlds: range) -> Solution:
        """Those of several worlds in ascending order, of arrays of NumPy."""
        cuts: dict[int, slice] = {}
        done = 0
        while done < len(worlds):
            number, first = divmod(worlds[done], self._part)
            here = range(worlds[done], min(worlds.stop, (number + 1) * self._part), worlds.step)
            cuts[number] = slice(first, first + here[-1] - here[0] + 1, worlds.step)
            done += len(here)
        self._require(list(cuts))
        pieces = [
            jax.tree.map(lambda leaf, rows=rows: leaf[rows], self._mapped(number))
            for number, rows in cuts.items()
        ]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *pieces)

    def _require(self, numbers: list[int]) -> None:
        there = present(self.directory)
        lacking = [number for number in numbers if number not in there]
        if lacking:
            first = self.ranges[lacking[0]]
            raise FileNotFoundError(
                f"{len(lacking)} of the {len(numbers)} parts asked for are not in "
                f"{self.directory}, the first that of worlds {first.start} to {first.stop - 1}: "
                "call simulate_parts again with the same arguments, which computes what is "
                "missing. Parts.missing names all."
            )

    def _mapped(self, number: int) -> Solution:
        """A part of arrays that are views of its file, which was checked."""
        if number in self._open:
            return self._open[number]
        solution = self._opened(number, check=number not in self._checked)
        self._checked.add(number)
        if len(self._open) == _MOST_OPEN:
            del self._open[next(iter(self._open))]
        self._open[number] = solution
        return solution

    def _opened(self, number: int, check: bool) -> Solution:
        path = self.path(number)
        content = map_file(path, check=check)
        if not (isinstance(content, dict) and content.get("file") == _KIND):
            raise ValueError(f"{path} was not written by simulate_parts.")
        if (content["run"], content["number"]) != (self._run, number):
            raise ValueError(f"{path} is of another run, or another part, than its name says.")
        return content["solution"]

    def _arrays(self, solution: Solution) -> Solution:
        def array(leaf):
            return as_jax(converted(np.array(leaf), self._dtype, self.directory), False)

        return jax.tree.map(array, solution)


def open_parts(directory: str | PathLike, *, dtype: Any = None) -> Parts:
    """Opens the directory of `simulate_parts`, whether or not all parts are there.

        run = rb.io.open_parts("throws")
        print(run.missing)
        ends = run[1000:2000].final.position

    Args:
        directory: the one given to `simulate_parts`.
        dtype: as of `load_file`: "float32" or "float64", to convert real numbers.

    Returns:
        The parts, from which worlds are read when they are asked for.

    Raises:
        FileNotFoundError: if there is no such directory, or no run in it.
        ValueError: if what describes the run is damaged, or `dtype` is not understood.
    """
    return Parts(directory, dtype)


def claim(directory: Path, identity: dict[str, Any]) -> None:
    """Makes a directory the one of a run, if it is of none.

    Raises:
        ValueError: if it is the one of another run, naming what differs, or holds parts of which
            nothing says what run they are of. Nothing is written then.
    """
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"directory {directory} is a file.")
    directory.mkdir(parents=True, exist_ok=True)
    manifest = directory / _MANIFEST
    if not manifest.exists():
        if present(directory):
            raise ValueError(f"directory {directory} holds parts, but no {_MANIFEST}.")
        # Another process may be as far: then its file stays, and is compared as any other.
        save_once(manifest, {"file": _KIND, "identity": identity})
    found = read_identity(directory)
    names = [name for name in identity if found.get(name) != identity[name]]
    if names or set(found) != set(identity):
        raise ValueError(
            f"directory {directory} holds another run, with another "
            f"{' and '.join(names) or 'set of arguments'}: nothing was written. Give a directory "
            "of its own to each run."
        )


def read_identity(directory: Path) -> dict[str, Any]:
    """What the run of a directory is known by."""
    manifest = directory / _MANIFEST
    if not manifest.is_file():
        raise FileNotFoundError(f"There is no run of simulate_parts in {directory}.")
    content = load_file(manifest)
    if not (isinstance(content, dict) and content.get("file") == _KIND):
        raise ValueError(f"{manifest} was not written by simulate_parts.")
    return content["identity"]


def run_of(identity: dict[str, Any]) -> str:
    """A digest, which each part holds."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def present(directory: Path) -> set[int]:
    """The numbers of the parts that are there."""
    names = (path.name for path in directory.glob(f"{_PART}*{SUFFIX}"))
    digits = (name.removeprefix(_PART).removesuffix(SUFFIX) for name in names)
    return {int(number) for number in digits if number.isdigit()}
