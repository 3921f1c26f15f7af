"""Worlds, solutions and records of impacts in a few words."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

from .._hosts import held_here, spans_processes
from ..contact import Moving
from .results import result_name

if TYPE_CHECKING:
    from .saving import Impacts, Solution
    from .world import World

MOST_IMPACTS = 8  # that are written out


def describe_world(world: World) -> str:
    """One line: how many of what, gravity, and the contact law."""
    parts = [_counted(body.shape for body in world.bodies)]
    if world.obstacles:
        parts.append("over " + _obstacles(world))
    if world.obstacle_pairs is not None:
        number = len(world.obstacle_pairs)
        parts.append(_number(number, "pair") + " of a body and an obstacle that can touch")
    if world.joints:
        parts.append("joints: " + _counted(world.joints))
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
    if spans_processes(solution):
        return f"Of several processes, here: {describe_solution(jax.tree.map(held_here, solution))}"
    result = solution.result  # first, for who reads it has no need to be told to
    n_bodies = solution.final.position.shape[-2]
    head = _worlds(solution.stats.time)
    head += "1 body" if n_bodies == 1 else f"{n_bodies} bodies"
    head += f", saved at {_number(solution.ts.shape[-1], 'time')}"
    if _traced(solution):
        return f"Solution({head}, traced)"
    steps = np.asarray(solution.stats.steps)
    lines = [
        f"{head}, to t = {_range(solution.stats.time)} s in {_range(steps)} {_steps(steps)}",
        f"impacts: {_range(solution.impacts.count)}",
        _energies(np.asarray(solution.stats.energy)),
        f"result: {result_name(result)}",
    ]
    crowded = np.asarray(solution.stats.crowded)
    if np.any(crowded):
        lines.insert(2, f"flights with more contacts near than are listed: {_range(crowded)}")
    return _block("Solution", lines)


def _steps(numbers: np.ndarray) -> str:
    return "step" if np.all(numbers == 1) else "steps"


def describe_impacts(impacts: Impacts) -> str:
    """A line for each of the first impacts; of a batch, how many there were."""
    if spans_processes(impacts):
        return f"Of several processes, here: {describe_impacts(jax.tree.map(held_here, impacts))}"
    room = "none on record" if impacts.time is None else f"room for {impacts.time.shape[-1]}"
    if _traced(impacts):
        return f"Impacts({room}, traced)"
    if np.ndim(impacts.count):
        return f"Impacts({_worlds(impacts.count)}{_range(impacts.count)} in each, {room})"
    head = f"{int(impacts.count)} in all, {room}"
    if impacts.time is None:
        return f"Impacts({head})"
    on_record = min(int(impacts.count), len(impacts.time))
    lines = [head, *(_impact(impacts, i) for i in range(min(on_record, MOST_IMPACTS)))]
    if on_record > MOST_IMPACTS:
        lines.append(f"and {on_record - MOST_IMPACTS} more on record")
    return f"Impacts({head})" if on_record == 0 else _block("Impacts", lines)


def _impact(impacts: Impacts, index: int) -> str:
    time, pair, impulse, position = (
        np.asarray(column)[index]
        for column in (impacts.time, impacts.pair, impacts.impulse, impacts.position)
    )
    return (
        f"t = {time:.6g} s, pair ({pair[0]}, {pair[1]}), impulse {_numbers(impulse, 6)} N s at "
        f"{_numbers(position, 6)} m"
    )


def _energies(energy: np.ndarray) -> str:
    before, after = energy[..., 0], energy[..., 1]
    change = after - before
    worst = change.reshape(-1)[np.argmax(np.abs(change))]
    text = f"energy: {_range(before)} J at the start, {_range(after)} J at the end"
    return f"{text} (changed by {'up to ' if change.ndim else ''}{worst:+.1e} J)"


def _traced(tree: Any) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def _worlds(number: Any) -> str:
    """How many there are, if a number is of a batch."""
    batch = np.shape(number)
    return f"{' x '.join(map(str, batch))} worlds, " if batch else ""


def _block(name: str, lines: list[str]) -> str:
    return f"{name}(\n  " + "\n  ".join(lines) + "\n)"


def _number(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _counted(things) -> str:
    counts = Counter(type(thing).__name__ for thing in things)
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _obstacles(world: World) -> str:
    """How many of each kind, those that move apart."""
    names = Counter(
        f"moving {type(o.shape).__name__}" if isinstance(o, Moving) else type(o).__name__
        for o in world.obstacles
    )
    return ", ".join(f"{count} {name}" for name, count in names.items())


def _law(law: Any) -> str:
    numbers = [
        f"{field.name} {_numbers(getattr(law, field.name))}"
        for field in sorted(dataclasses.fields(law), key=lambda field: field.name)
        if not field.metadata.get("static") and eqx.is_array(getattr(law, field.name))
    ]
    return f"{type(law).__name__} ({', '.join(numbers)})"


def _numbers(array: Any, digits: int = 4) -> str:
    if isinstance(array, Tracer):
        return "traced"
    values = np.asarray(array)
    if values.ndim > 1 or values.size > 3:
        return f"of shape {values.shape}"
    if values.ndim == 1:
        return f"({', '.join(f'{value + 0.0:.{digits}g}' for value in values)})"
    return f"{values:.{digits}g}"


def _range(array: Any) -> str:
    values = np.asarray(array)
    low, high = values.min(), values.max()
    return f"{low:.6g}" if low == high else f"{low:.6g} .. {high:.6g}"
