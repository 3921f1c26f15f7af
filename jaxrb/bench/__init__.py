"""Benchmarks: how fast, next to what else is installed, and whether derivatives are right.

Contenders alternate within one run, so that whatever else the machine does hits all alike.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from . import files, gradients
from .problem import set_precision
from .record import Record

BENCHMARKS = {
    "throughput": "body-steps per second, next to MuJoCo C, MJX and Brax where installed",
    "bodies": "body-steps per second of many balls in one world, next to MuJoCo",
    "contact": "CPU time of boxes that lie, settle and are shaken, over that of MuJoCo",
    "stacks": "the same of ten boxes, longer: takes an hour",
    "flights": "seconds of motion per second without steps, next to steps of 0.01 s",
    "throws": "how many throws to a full pose after bounces are found, of 25 random ones",
    "gradient": "time of reverse- and forward-mode derivatives over that of the forward run",
    "gradients": "whether derivatives are right, by closed forms and by differences",
    "flows": "time of a step of each flow over that of LieVariational",
    "impact": "microseconds of an impact with friction, and the error of Euler's rule through it",
    "compile": "seconds to trace and compile, cold and from JAX's persistent cache",
    "memory": "bytes of a world that runs and gradients need besides their results",
    "parts": "time of a batch as part files over that in memory, and of reading and resuming",
}
# What they measure needs float64: contacts at rest, flights, throws and derivatives to round-off.
_DOUBLE = ("contact", "stacks", "flights", "throws", "gradients")
_MODULES = {name: name for name in BENCHMARKS} | {
    "compile": "compilation",
    "gradients": "gradients.tables",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of `python -m jaxrb bench`."""
    parser.add_argument("name", nargs="?", choices=tuple(BENCHMARKS), help="none: list them")
    parser.add_argument(
        "--batches", type=_sizes, metavar="N,N,...", help="batch sizes; each has its default"
    )
    parser.add_argument("--rounds", type=_count, default=5, metavar="N", help="default 5")
    parser.add_argument(
        "--dtype",
        choices=("float32", "float64", "both"),
        default="both",
        help=f"default both; of {', '.join(_DOUBLE)} float64",
    )
    parser.add_argument(
        "--scenes",
        type=lambda text: text.split(","),
        metavar="A,B,...",
        help="those whose names begin so; default all; of gradients see below",
    )
    parser.add_argument(
        "--json", type=files.writable, metavar="FILE", help="where to write all rows, and of what"
    )
    parser.add_argument(
        "--note", default="", metavar="TEXT", help="to keep with the rows, as on the machine's load"
    )
    gradients.add_arguments(parser.add_argument_group("of gradients"))


def run(args: argparse.Namespace) -> int:
    """Runs a benchmark; returns the exit status."""
    if args.name is None:
        for name, text in BENCHMARKS.items():
            print(f"  {name:<11} {text}")
        return 0
    module = benchmark(args.name)
    if args.name == "gradients":
        return module.run(args)
    scenes = _scenes(module, args.scenes)
    if not scenes:
        print(f"--scenes: {args.name} has {', '.join(module.SCENES)}", file=sys.stderr)
        return 2
    double = args.name in _DOUBLE
    if args.dtype == "both" and not double:
        return _in_both_precisions(args)
    dtype = "float64" if args.dtype == "both" else args.dtype
    set_precision(dtype)
    record = Record(args.name, module.TABLE, args.rounds, dtype, args.json, args.note)
    for scene in scenes:
        record.begin(scene)
        module.measure(record, scene, args.batches or module.BATCHES)
    record.close()
    return 0


def benchmark(name: str) -> ModuleType:
    """The module of a benchmark.

    It has `BATCHES` by default, the names of its `SCENES`, the `TABLE` of its rows, and `measure`,
    which adds those of a scene. That of gradients has tables of its own, and `run` alone.
    """
    return importlib.import_module(f".{_MODULES[name]}", __package__)


def _scenes(module: ModuleType, beginnings: list[str] | None) -> list[str]:
    return [name for name in module.SCENES if name.startswith(tuple(beginnings or [""]))]


def _in_both_precisions(args: argparse.Namespace) -> int:
    """Each in a process of its own, as JAX fixes its default precision once; one file for both."""
    status, written = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for dtype in ("float32", "float64"):
            path = Path(folder, dtype)
            status = _in_process(args, dtype, path) or status
            if path.exists():
                written.append(path)
            if args.json is not None and written:
                files.write(args.json, files.merged(written))
    return status


def _in_process(args: argparse.Namespace, dtype: str, path: Path) -> int:
    command = [sys.executable, "-m", "jaxrb", "bench", args.name, "--json", str(path)]
    command += ["--rounds", str(args.rounds), "--dtype", dtype, f"--note={args.note}"]
    if args.batches:
        command += ["--batches", ",".join(map(str, args.batches))]
    if args.scenes:
        command += ["--scenes", ",".join(args.scenes)]
    return subprocess.run(command, check=False).returncode


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_count(word) for word in text.split(","))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"needs positive whole numbers; got {text!r}")
    return int(text)
