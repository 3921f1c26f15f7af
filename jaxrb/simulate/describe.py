"""Worlds and solutions in a few words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.core import Tracer

from .results import RESULTS, Code, result_name

if TYPE_CHECKING:
    from .saving import Solution
    from .world import World


def described(describe: Callable[[Any], str], thing: Any) -> str:
    """Its description; of a tree that holds no numbers, as filters and maps make them, what kind
    it is."""
    try:
        return describe(thing)
    except (AttributeError, TypeError, ValueError):  # a repr must not raise
        return f"{type(thing).__name__}({jax.tree.structure(thing).num_leaves} leaves)"


def describe_world(world: World) -> str:
    """One line: how many of what, gravity, and the contact law."""
    parts = [_counted(body.shape for body in world.bodies)]
    if world.obstacles:
        parts.append("over " + _counted(world.obstacles))
    if world.joints:
        parts.append(f"{len(world.joints)} pinned")
    if len(world.bodies) > 1:
        parts.append(_number(len(world.pairs), "pair") + " that can touch")
    if world.forces:
        parts.append(_number(len(world.forces), "force"))
    parts.append(f"gravity {_numbers(world.gravity)} m/s^2")
    parts.append(_law(world.contact_law))
    if world.pair_laws:
        parts.append(_number(len(world.pair_laws), "law") + " of pairs")
    return f"World({', '.join(parts)})"


def describe_solution(solution: Solution) -> str:
    """A few lines: span, impacts, energies, and how it ended; of a batch, over all its worlds."""
    traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(solution))
    batch = np.shape(solution.stats.time)
    n_bodies = solution.final.position.shape[-2]
    head = "" if not batch else f"{' x '.join(map(str, batch))} worlds, "
    head += "1 body" if n_bodies == 1 else f"{n_bodies} bodies"
    head += f", saved at {_number(solution.ts.shape[-1], 'time')}"
    if traced:
        return f"Solution({head}, traced)"
    steps = np.asarray(solution.stats.steps)
    lines = [
        f"{head}, to t = {_range(solution.stats.time)} s in {_range(steps)} steps",
        f"impacts: {_range(solution.impacts.count)}",
        _energies(np.asarray(solution.stats.energy)),
        f"result: {_results(solution.result)}",
    ]
    return "Solution(\n  " + "\n  ".join(lines) + "\n)"


def _energies(energy: np.ndarray) -> str:
    before, after = energy[..., 0], energy[..., 1]
    change = after - before
    worst = change.reshape(-1)[np.argmax(np.abs(change))]
    text = f"energy: {_range(before)} J at the start, {_range(after)} J at the end"
    return f"{text} (changed by {'up to ' if change.ndim else ''}{worst:+.1e} J)"


def _results(result: RESULTS) -> str:
    if not np.ndim(result == RESULTS.successful):
        return result_name(result)
    counts = {code.name: np.asarray(result == getattr(RESULTS, code.name)) for code in Code}
    return ", ".join(f"{holds.sum()} {name}" for name, holds in counts.items() if holds.any())


def _number(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _counted(things) -> str:
    counts = Counter(type(thing).__name__ for thing in things)
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _law(law: Any) -> str:
    numbers = [f"restitution {_numbers(law.restitution)}"]
    if hasattr(law, "friction"):
        numbers.insert(0, f"friction {_numbers(law.friction)}")
    return f"{type(law).__name__} ({', '.join(numbers)})"


def _numbers(array: Any) -> str:
    if isinstance(array, Tracer):
        return "traced"
    values = np.asarray(array)
    if values.ndim > 1 or values.size > 3:
        return f"of shape {values.shape}"
    if values.ndim == 1:
        return f"({', '.join(f'{value:.4g}' for value in values)})"
    return f"{values:.4g}"


def _range(array: Any) -> str:
    values = np.asarray(array)
    low, high = values.min(), values.max()
    return f"{low:.6g}" if low == high else f"{low:.6g} .. {high:.6g}"
