"""The table: every number of motions of every kind, differentiated and compared."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Iterator
from typing import NamedTuple

import jax

from .catalogue import FLOWS, LAWS, SHAPES, throw
from .check import Checker, Entry

Names = tuple[str, str, str]  # of shape, law and flow
_BASE: Names = ("ellipsoid", "frictionless", "LieVariational")
# A few minutes on two cores.
_QUICK: tuple[Names, ...] = (
    ("sphere", "Stronge", "continuous"),
    ("ellipsoid", "frictionless", "LieVariational"),
    ("box", "frictionless", "continuous"),
    ("sphere+sphere", "frictionless", "LieVariational"),
)
_LASTING = tuple(name for name, flow in FLOWS.items() if flow.lasting)
_FLYING = tuple(name for name in FLOWS if name not in _LASTING)


class Row(NamedTuple):
    """What was found of one motion by one number, or why nothing was.

    Attributes:
        shape, law, flow, throw: which motion.
        impacts: how many it has.
        entry: the derivative; None where there is none.
        trouble: why.
    """

    shape: str
    law: str
    flow: str
    throw: int
    impacts: int
    entry: Entry | None
    trouble: str = ""


def quick() -> list[Names]:
    """A few motions."""
    return list(_QUICK)


def cover() -> list[Names]:
    """Each shape with and without friction, each law with two shapes, each flow with and without
    friction: an hour or two."""
    found = [(shape, law, _BASE[2]) for law in ("frictionless", "Stronge") for shape in SHAPES]
    found += [(shape, law, _BASE[2]) for law in LAWS for shape in ("ellipsoid", "box")]
    found += [("ellipsoid", law, flow) for law in ("frictionless", "Stronge") for flow in _FLYING]
    found += [("box", "frictionless", flow) for flow in _FLYING]
    found += [(shape, _BASE[1], "continuous") for shape in SHAPES]
    found += [
        (shape, law, flow)
        for flow in _LASTING
        for law in ("frictionless", "Stronge")
        for shape in ("sphere", "box", "sphere+sphere")
    ]
    return list(dict.fromkeys(found))


def chosen(
    shapes: Collection[str] | None, laws: Collection[str] | None, flows: Collection[str] | None
) -> list[Names]:
    """All combinations of the names given; of what is None the first choice."""
    axes = (given or [base] for given, base in zip((shapes, laws, flows), _BASE, strict=True))
    return list(itertools.product(*axes))


def everything() -> list[Names]:
    """All combinations: many hours."""
    return list(itertools.product(SHAPES, LAWS, FLOWS))


def rows(
    scenes: Collection[Names], parameters: Collection[str] | None, throws: int
) -> Iterator[tuple[Names, float, list[Row]]]:
    """Of each scene its names, the seconds that it took and its rows, as they are found.

    Args:
        scenes: shapes, laws and flows.
        parameters: by which is differentiated; None for all.
        throws: how many motions of each.
    """
    for names in scenes:
        begin = time.perf_counter()
        found = list(_scene(names, parameters, throws))
        # Programs of one scene serve no other; those of all would fill the memory.
        jax.clear_caches()
        yield names, time.perf_counter() - begin, found


def _scene(names: Names, parameters: Collection[str] | None, throws: int) -> Iterator[Row]:
    shape, law, flow = names
    check = None
    for number in range(throws):
        # What the library refuses, it says so: that is a row too, and no end of the table.
        try:
            motion = throw(shape, law, flow, number)
            check = check or Checker(motion, FLOWS[flow].method(), parameters)
            report = check(motion)
        except Exception as error:
            text = " ".join(str(error).split())
            yield Row(*names, number, 0, None, f"{type(error).__name__}: {text}")
            return
        if report.trouble:
            yield Row(*names, number, report.events, None, report.trouble)
        for entry in report.entries:
            yield Row(*names, number, report.events, entry)
