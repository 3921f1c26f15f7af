"""Whether derivatives are right: closed forms, and differences by every number of every motion."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from pathlib import Path

from .catalogue import FLOWS, LAWS, SHAPES
from .columns import PARAMETERS

PARTS = ("closed-forms", "table")


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Declares the options of `python -m jaxrb bench gradients`."""
    for name, known in (("shapes", SHAPES), ("laws", LAWS), ("flows", FLOWS)):
        text = f"of the table, or all: {', '.join(known)}"
        group.add_argument(f"--{name}", type=_names(known), metavar="A,B,...", help=text)
    group.add_argument(
        "--parameters",
        type=_names(PARAMETERS),
        metavar="A,B,...",
        help=f"by which is differentiated, default all: {', '.join(PARAMETERS)}",
    )
    group.add_argument(
        "--throws", type=_positive, default=3, metavar="N", help="motions of each; default 3"
    )
    group.add_argument(
        "--cover", action="store_true", help="each shape, law and flow with several others: hours"
    )
    group.add_argument(
        "--all",
        action="store_true",
        help="all combinations, which takes days, and closed forms of contacts that last",
    )
    group.add_argument("--part", choices=PARTS, help="one of the two tables; default both")
    group.add_argument("--csv", type=Path, metavar="FILE", help="where to write the table")


def _names(known: Collection[str]) -> Callable[[str], list[str]]:
    def split(text: str) -> list[str]:
        if text == "all":
            return list(known)
        words = [word.strip() for word in text.split(",")]
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(
                    f"{word!r} is none of all, {', '.join(known)} (separated by commas)"
                )
        return words

    return split


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"needs a positive whole number; got {text!r}")
    return int(text)
