"""Benchmarks: how fast, next to what else is installed, and whether derivatives are right.

Contenders alternate within one run, so that whatever else the machine does hits all alike.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys

from . import gradients

BENCHMARKS = {
    "throughput": "body-steps per second, next to MuJoCo C, MJX and Brax where installed",
    "bodies": "body-steps per second of many balls in one world, next to MuJoCo",
    "contact": "CPU time of boxes that lie, settle and are shaken, over that of MuJoCo",
    "stacks": "the same of ten boxes, longer: takes an hour",
    "flights": "seconds of motion per second without steps, next to steps of 0.01 s",
    "gradient": "time of reverse- and forward-mode derivatives over that of the forward run",
    "gradients": "whether derivatives are right, by closed forms and by differences",
    "flows": "time of a step of each flow over that of LieVariational",
    "impact": "microseconds of an impact with friction, and the error of Euler's rule through it",
    "compile": "seconds to trace and compile, cold and from JAX's persistent cache",
}
# What they measure needs float64: contacts at rest, flights and derivatives to round-off.
_DOUBLE = ("contact", "stacks", "flights", "gradients")
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
    gradients.add_arguments(parser.add_argument_group("of gradients"))


def run(args: argparse.Namespace) -> int:
    """Runs a benchmark; returns the exit status."""
    if args.name is None:
        for name, text in BENCHMARKS.items():
            print(f"  {name:<11} {text}")
        return 0
    double = args.dtype == "both" and args.name in _DOUBLE
    if args.dtype == "both" and not double:
        return max(_in_process(args, dtype) for dtype in ("float32", "float64"))
    module = importlib.import_module(f".{_MODULES[args.name]}", __package__)
    if args.name == "gradients":
        return module.run(args)
    module.run(args.batches or module.BATCHES, args.rounds, "float64" if double else args.dtype)
    return 0


def _in_process(args: argparse.Namespace, dtype: str) -> int:
    """One dtype in a process of its own: JAX fixes its default precision once."""
    command = [sys.executable, "-m", "jaxrb", "bench", args.name]
    command += ["--rounds", str(args.rounds), "--dtype", dtype]
    if args.batches:
        command += ["--batches", ",".join(map(str, args.batches))]
    return subprocess.run(command, check=False).returncode


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_count(word) for word in text.split(","))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"needs positive whole numbers; got {text!r}")
    return int(text)
