"""Batches of any size, computed in parts by any number of processes, with a file for each part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import PathLike
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple, get_args

import jax
import numpy as np

from .. import __version__
from .._hosts import entry
from .._validate import finite_number, one_of, positive_count
from ..bodies import State
from ..exec.parallel import CPU_CHUNK, chosen_devices
from ..simulate import RESULTS, AbstractMethod, SaveAt, Solution, World, simulate_batch
from ..simulate.method import Backend
from ..simulate.progress import progress_bar
from .fingerprint import fingerprint
from .part_files import Parts, claim, present
from .paths import remove_leftovers
from .share import share_of

PART = 65_536
_SAMPLES = 16  # worlds by which a function of states is known again


def simulate_parts(
    world: World,
    states: State | Callable[[np.ndarray], State],
    method: AbstractMethod,
    t1: float,
    directory: str | PathLike,
    t0: float = 0.0,
    save: SaveAt | None = None,
    throw: bool = True,
    *,
    n_worlds: int | None = None,
    part: int = PART,
    share: tuple[int, int] | None = None,
    args: Any = None,
    max_steps: int | None = None,
    failed: Literal["keep", "nan"] = "keep",
    devices: Sequence[Any] | None = None,
    progress: bool | Callable = False,
    backend: Backend = "auto",
) -> Parts:
    """`simulate_batch` of a batch that no memory needs to hold, in part files.

    Call it again with the same arguments after it was killed at any moment, and it computes what
    is not there; call it on many machines that see the same directory, and each does its share.

    A part is there whole or not at all, and none is ever overwritten. One device computes it, and
    the last one is filled up by copies of its last world: one program does all, so that with the
    same versions on the same kind of machine the bits depend neither on who computes a part nor on
    how many there are to do so.

    Args:
        world, method, save, args, max_steps, failed, backend: as in `simulate_batch`.
        states: with a leading axis over the batch; or a function that is given the numbers of some
            worlds, an ascending array of integers, and returns their states, the same ones whenever
            it is asked.
        t1, t0: end and start [s], known numbers.
        directory: where the files go; made if it is not there.
        throw: raise, once the whole share is written, if worlds of it ended early.
        n_worlds: of the batch, where `states` is a function.
        part: number of worlds in a part. A device works on one part at a time, so that several of
            them should fall to each; with 65 536 worlds the final states of a body take 20 MB.
        share: (k, n) for the k-th of n processes, which takes every n-th part. By default that of
            a task of a SLURM job array, and within it of a process of `jax.distributed`; otherwise
            all parts.
        devices: of this process, to use; all by default, each for a part at a time.
        progress: show a bar of the parts done, as in `simulate`.

    Returns:
        The parts of the whole batch, as `open_parts` gives them; other processes may not have
        done with theirs.

    Raises:
        ValueError: if the arguments do not fit together, or the directory is the one of another
            run: of another world, state, method, time, size of the parts, version of jaxrb or JAX.
            Of states by a function 16 worlds are compared; the functions in a world by their code.
        OSError: if a file cannot be written, as on a full disk; what was written before is whole.
        RuntimeError: if `throw` and worlds of the share ended early, naming the first.
    """
    number, n_shares = share_of(share)
    devices = _local(devices)
    options = {"args": args, "max_steps": max_steps, "failed": failed, "backend": backend}
    task, identity = _Task.of(world, states, method, t1, t0, save, n_worlds, part, options)
    claim(Path(directory), identity)
    parts = Parts(directory)
    mine = range(number, len(parts.ranges), n_shares)
    _compute(task, parts, mine, devices, progress)
    return _raise_failures(parts, mine) if throw else parts


class _Task(NamedTuple):
    """What all parts have in common."""

    world: World
    start: Callable[[np.ndarray], State]
    method: AbstractMethod
    t1: float
    t0: float
    save: SaveAt | None
    options: dict[str, Any]
    size: int

    @staticmethod
    def of(world, states, method, t1, t0, save, n_worlds, part, options):
        """The task of the arguments of `simulate_parts`, and what its run is known by."""
        start, n_worlds = _starts(states, n_worlds)
        t0, t1 = finite_number(t0, "t0"), finite_number(t1, "t1")
        part = min(positive_count(part, "part"), n_worlds)
        one_of(options["failed"], ("keep", "nan"), "failed")
        one_of(options["backend"], get_args(Backend), "backend")
        given = states if isinstance(states, State) else start(_sample(n_worlds))
        things = {"world": world, "states": given, "method": method, "save": save}
        things["args"] = options["args"]
        identity = {name: fingerprint(thing, name) for name, thing in things.items()}
        identity |= {"t0": t0, "t1": t1, "n_worlds": n_worlds, "part": part}
        identity |= {name: options[name] for name in ("max_steps", "failed", "backend")}
        identity |= {"jaxrb": __version__, "jax": jax.__version__}
        return _Task(world, start, method, t1, t0, save, options, part), identity

    def compute(self, parts: Parts, number: int, device: Any) -> None:
        """Computes a part and writes it, unless another process has done so by now."""
        if parts.path(number).exists():
            return
        worlds = parts.ranges[number]
        rows = np.minimum(np.arange(self.size), len(worlds) - 1)
        states = self.start(np.arange(worlds.start, worlds.stop))
        solution = simulate_batch(
            self.world,
            jax.tree.map(lambda leaf: np.asarray(leaf)[rows], states),
            self.method,
            self.t1,
            self.t0,
            self.save,
            throw=False,
            chunk=CPU_CHUNK,  # on every machine, however many cores it has
            devices=[device],
            **self.options,
        )
        parts.write(number, _first(solution, len(worlds)))


def _compute(
    task: _Task, parts: Parts, numbers: Sequence[int], devices: list[Any], progress: Any
) -> None:
    """Those of some parts that are not there."""
    there = present(parts.directory)
    wanted = [number for number in numbers if number not in there]
    with progress_bar(progress, len(wanted), "part") as bar:
        for _ in _on_devices(partial(task.compute, parts), wanted, devices):
            if bar is not None:
                bar.update(1)
    remove_leftovers(parts.directory)


def _sample(n_worlds: int) -> np.ndarray:
    """The worlds by which a function of states is known."""
    return np.unique(np.linspace(0, n_worlds - 1, _SAMPLES).astype(int))


def _local(devices: Sequence[Any] | None) -> list[Any]:
    chosen = chosen_devices(devices, ())
    if any(device.process_index != jax.process_index() for device in chosen):
        raise ValueError("devices must be of this process: each process computes its own parts.")
    return chosen


def _first(solution: Solution, n: int) -> Solution:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:n], solution)


def _on_devices(
    compute: Callable[[int, Any], None], numbers: Iterable[int], devices: Sequence[Any]
) -> Iterator[None]:
    """Computes parts, each on a device that has none, and yields after each."""
    free: SimpleQueue = SimpleQueue()
    for device in devices:
        free.put(device)

    def one(number):
        device = free.get()
        try:
            compute(number, device)
        finally:
            free.put(device)

    if len(devices) == 1:  # no thread, so that it can be interrupted
        yield from map(one, numbers)
        return
    with ThreadPoolExecutor(len(devices)) as pool:
        yield from pool.map(one, numbers)


def _starts(states: Any, n_worlds: Any) -> tuple[Callable[[np.ndarray], State], int]:
    """The states as a function of the numbers of worlds, and how many there are."""
    if isinstance(states, State):
        if states.position.ndim != 3 or states.position.shape[0] == 0:
            raise ValueError("states must be a State with a leading axis over at least one world.")
        n = states.position.shape[0]
        if n_worlds not in (None, n):
            raise ValueError(f"n_worlds must be left out, or {n} as of states; got {n_worlds!r}.")
        arrays = jax.tree.map(np.asarray, states)  # on the host, where slices cost nothing
        return lambda worlds: jax.tree.map(lambda leaf: leaf[worlds], arrays), n
    if not callable(states):
        raise ValueError(
            "states must be a State with a leading axis, or a function of the numbers of worlds; "
            f"got {type(states).__name__}."
        )
    if n_worlds is None:
        raise ValueError("n_worlds must be given where states is a function.")

    def start(worlds):
        made = states(worlds)
        if not isinstance(made, State) or made.position.shape[:1] != worlds.shape:
            shape = made.position.shape if isinstance(made, State) else type(made).__name__
            raise ValueError(
                f"states must return a State with a leading axis over the {worlds.size} worlds "
                f"that it was asked for; it returned {shape}."
            )
        return made

    return start, positive_count(n_worlds, "n_worlds")


def _raise_failures(parts: Parts, numbers: Sequence[int]) -> Parts:
    """The parts; raises if worlds of some of them ended early. Their codes alone are read."""
    count, n_worlds, first, message = 0, 0, None, ""
    for number in numbers:
        result = parts.peek(number).result
        ended = np.asarray(result != RESULTS.successful)
        n_worlds += ended.size
        count += int(ended.sum())
        if first is None and ended.any():
            row = int(np.argmax(ended))
            first = parts.ranges[number].start + row
            message = RESULTS[entry(result, row)]
    if first is not None:
        raise RuntimeError(
            f"The simulation ended early: {count} of {n_worlds} worlds of this share; the first, "
            f"world {first}: {message} All parts of the share are written to {parts.directory}."
        )
    return parts
