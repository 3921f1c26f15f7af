"""A batch as part files, next to the same batch in memory; reading it, and resuming it."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import numpy as np

from ..io import Parts, open_parts, simulate_parts
from ..simulate import SaveAt, Solution, simulate_batch
from .problem import CASE, METHOD, N_STEPS, PROBLEM, T1, heights, start
from .record import Column, Record, Table
from .timing import Quantiles, round_robin

BATCHES = (16_384,)
# What is saved of a world.
SCENES = {
    "final states": None,
    f"every {N_STEPS // 10}th step": SaveAt(every=N_STEPS // 10),
}
N_PARTS = 4
MEMORY, FILES = "simulate_batch", "simulate_parts"
RESUMED, OPENED, READ = "the same, all there", "open_parts", "open_parts, a part read"
TABLE = Table(
    PROBLEM,
    "call",
    (
        Column("seconds", "seconds", ".3g", 8),
        Column("ratio", f"time over {MEMORY}", "", 26, spread=True),
        Column("bytes", "bytes", ",d", 13),
        Column("bytes_per_second", "bytes/s", ".3g", 8),
    ),
    (
        "seconds: best of the rounds; ratio: median of the rounds (least .. most)",
        f"the batch in {N_PARTS} files in the directory for temporary files; what is read was "
        "written just before, so that it comes from the memory of the operating system",
        "bytes: of the files that are written or read, of the arrays in memory",
        "bytes/s: over the whole time, in which the worlds that are written are also computed",
    ),
)


def measure(record: Record, scene: str, batches: tuple[int, ...]) -> None:
    """Adds the rows of a scene."""
    for batch in batches:
        with tempfile.TemporaryDirectory() as folder:
            _run_batch(record, SCENES[scene], batch, Path(folder))


def _run_batch(record: Record, save: SaveAt | None, batch: int, folder: Path) -> None:
    world, state = CASE.build()
    states = jax.vmap(start, in_axes=(None, 0))(state, heights(batch))
    part = -(-batch // N_PARTS)
    there = folder / "there"

    def in_memory() -> Solution:
        return simulate_batch(world, states, METHOD, T1, save=save, throw=False)

    def in_files(directory: Path) -> Parts:
        return simulate_parts(
            world, states, METHOD, T1, directory, save=save, throw=False, part=part
        )

    in_files(there)
    calls = {
        MEMORY: in_memory,
        FILES: _written_anew(in_files, folder),
        RESUMED: partial(in_files, there),
        OPENED: partial(open_parts, there),
        READ: lambda: open_parts(there)[:part],
    }
    files = [path.stat().st_size for path in sorted(there.glob("part-*"))]
    sizes = {
        MEMORY: sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(in_memory())),
        FILES: sum(files),
        READ: files[0],
    }
    seconds = round_robin(calls, record.rounds)
    for name, taken in seconds.items():
        rate = sizes[name] / taken.min() if name in (FILES, READ) else None
        ratio = Quantiles.of(taken / seconds[MEMORY]).named("ratio")
        values = {"bytes": sizes.get(name), "bytes_per_second": rate, **ratio}
        record.add(batch, name, seconds=taken.min(), **values)


def _written_anew(in_files: Callable[[Path], Parts], folder: Path) -> Callable[[], None]:
    """A call that writes all files, whenever it is made."""
    numbers = itertools.count()

    def call() -> None:
        directory = folder / str(next(numbers))
        in_files(directory)
        # Its time counts, which is little, as many rounds would fill the disk.
        shutil.rmtree(directory)

    return call
