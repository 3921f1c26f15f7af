"""A reminder that worlds of a batch ended early, for whoever reads states before result codes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import jax
from jax.core import Tracer

from .._hosts import held_here, spans_processes
from .results import RESULTS, result_name

if TYPE_CHECKING:
    from .saving import Solution

# What says how a world ended, and what looks like data even if it ended early.
CODES = frozenset({"result", "successful", "reached"})
STATES = frozenset({"states", "final"})
_MARK = "_codes_are_unread"


def watch(solution: Solution) -> Solution:
    """The solution, which warns once if its states are read before its codes; unless traced."""
    if not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(solution)):
        object.__setattr__(solution, _MARK, True)
    return solution


def notice(solution: Solution, name: str) -> None:
    """Takes note of which attribute of a solution is read."""
    if name in CODES:
        vars(solution).pop(_MARK, None)
    elif name in STATES and vars(solution).pop(_MARK, False):
        result = object.__getattribute__(solution, "result")
        # Where the batch spans processes those that are here count: one of them may read alone,
        # and would wait for the others for ever if it asked for theirs.
        where = " of this process" if spans_processes(result) else ""
        ended = held_here(result != RESULTS.successful)
        if ended.any():
            warnings.warn(
                f"{ended.sum()} of {ended.size} worlds{where} ended early and hold their last good "
                f"state ({result_name(result)}): look at `successful` and `result` of the "
                'solution, or use failed="nan".',
                stacklevel=3,
            )
