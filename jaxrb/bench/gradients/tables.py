"""The two tables of `python -m jaxrb bench gradients`, printed as they are found."""

from __future__ import annotations

import argparse
import time
from typing import Any

from .. import files
from ..machine import describe
from ..problem import set_precision
from . import matrix, report
from .closed_forms import Line, lines
from .counterexamples import flying
from .engines import ball_without_gravity
from .lasting_counterexamples import lasting
from .matrix import Names, Row


def run(args: argparse.Namespace) -> int:
    """Prints what was asked for, and writes it to files.

    Returns:
        1 if a derivative is wrong, else 0.
    """
    set_precision("float64")
    # Nothing is timed, so that there are no rounds.
    content = files.header("gradients", "derivatives", None, args.note)
    print(f"derivatives; float64; {describe(content['machine'])}\n")
    narrow = args.shapes or args.laws or args.flows or args.parameters
    closed: list[Line] = []
    if args.part == "closed-forms" or (args.part is None and not narrow):
        closed = _closed_forms(args.all or args.cover)
        _keep(args, content, "closed forms", [line._asdict() for line in closed])
    found: list[Row] = []
    if args.part != "closed-forms":
        found = _table(_scenes(args), args, content)
    wrong = sum(not line.right for line in closed)
    wrong += sum(row.entry is not None and row.entry.verdict == "wrong" for row in found)
    return int(wrong > 0)


def _scenes(args: argparse.Namespace) -> list[Names]:
    if args.shapes or args.laws or args.flows:
        return matrix.chosen(args.shapes, args.laws, args.flows)
    if args.all:
        return matrix.everything()
    return matrix.cover() if args.cover else matrix.quick()


def _closed_forms(slow: bool) -> list[Line]:
    print("motions with a closed form, many of which other engines have wrong derivatives of")
    print(
        f"  {'derivative':<24} {'closed form':>14} {'forward mode':>14} {'reverse mode':>14} "
        f"{'differences':>14} {'error':>8} {'modes':>8}"
    )
    everything, begin = [], time.perf_counter()
    for example, found in lines(flying() + (lasting() if slow else [])):
        now = time.perf_counter()
        told = f" ({example.told})" if example.told else ""
        print(f"{example.name}{told}; {now - begin:.0f} s")
        begin = now
        for line in found:
            name = f"d {line.output} / d {line.number}"
            values = (line.closed, line.forward, line.reverse, line.differences)
            print(
                f"  {name:<24} {' '.join(f'{value + 0.0:>14.9f}' for value in values)} "
                f"{line.error:>8.1e} {line.modes:>8.1e}{'' if line.right else '  WRONG'}",
                flush=True,
            )
        everything += found
    if not slow:
        print("  contacts that last take minutes to compile: --cover and --all have them")
    right = sum(line.right for line in everything)
    worst = max(everything, key=lambda line: line.error)
    print(
        f"  {right} of {len(everything)} right; worst error {worst.error:.1e}: {worst.example}, "
        f"{worst.output} by {worst.number}"
    )
    print(f"{ball_without_gravity()}\n")
    return everything


def _table(scenes: list[Names], args: argparse.Namespace, content: dict[str, Any]) -> list[Row]:
    print(f"the final states of {len(scenes)} scenes by every number, against differences")
    print(report.header())
    everything: list[Row] = []
    for names, seconds, found in matrix.rows(scenes, args.parameters, args.throws):
        print(report.summary(names, seconds, found), flush=True)
        everything += found
        # Each time anew: a run that takes hours may be ended before it ends.
        _keep(args, content, "every number", report.records(found))
        if args.csv is not None:
            report.write_csv(args.csv, report.records(everything))
    print(report.explanation())
    print(report.by_parameter(everything))
    return everything


def _keep(args: argparse.Namespace, content: dict[str, Any], table: str, rows: list[dict]) -> None:
    """Adds rows of one of the tables to the content of the file, and writes it."""
    content["rows"] += [{"table": table, "dtype": "float64", **row} for row in rows]
    if args.json is not None:
        files.write(args.json, content)
