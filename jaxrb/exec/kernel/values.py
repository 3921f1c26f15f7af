"""A program of scalars: what remains of a function of small arrays when each entry has a name.

A value is computed once, from others and constants, in a block: the body of a loop, one side of a
branch, or the whole program. Equal values are one, constants are folded, and a value that a loop
does not change is computed before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from .operations import OPERATIONS, NotScalarError

# Those of loops that are written again included; a hundred thousand take a second or two.
MOST_VALUES = 1_000_000

Entry = Any  # a Value, or a NumPy scalar, which is a constant


@dataclasses.dataclass(eq=False)
class Block:
    """Statements in order, and the values among them by what they are computed from."""

    parent: Block | None
    loops: bool  # whether it is the body of a loop
    statements: list[Any] = dataclasses.field(default_factory=list)
    known: dict[Any, Value] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False)
class Value:
    """A scalar with a name: the result of an operation, or a variable of a loop or a branch.

    Attributes:
        operation: its name. Others are "input"; "carried", a variable within its loop; "result",
            such a variable after it; and "chosen", after a branch.
        dtype: NumPy's.
        sources: what it is computed from; of a result the variable.
        parameters: of the operation; of an input its place, of a variable and of what is chosen
            the loop or branch and the number there.
        block: in which it is known.
    """

    operation: str
    dtype: np.dtype
    sources: tuple[Entry, ...]
    parameters: tuple
    block: Block


@dataclasses.dataclass(eq=False)
class Loop:
    """Repeats a block until its condition fails, which is asked where `Ask` stands."""

    body: Block
    condition: Entry
    carried: list[Value]  # inside
    start: list[Entry]
    following: list[Entry]


@dataclasses.dataclass(eq=False)
class Ask:
    """Where a loop asks for its condition."""


@dataclasses.dataclass(eq=False)
class Branch:
    """Does one of several blocks, by a number from 0."""

    index: Entry
    sides: list[Block]
    chosen: list[Value]  # after the branch
    outcomes: list[list[Entry]]  # of each of these, that of each side


def is_constant(entry: Entry) -> bool:
    """Whether it is a number."""
    return isinstance(entry, np.generic)


class Builder:
    """Writes a program."""

    def __init__(self):
        self.root = Block(None, False)
        self._block = self.root
        self._written = 0
        # What of a loop's variables stays constant, as it was found when it was written before.
        self._constant: dict[Any, set[int]] = {}

    def input(self, dtype: np.dtype, place: tuple) -> Value:
        """An argument of the program."""
        return Value("input", np.dtype(dtype), (), place, self.root)

    def operate(self, operation: str, dtype, *sources: Entry, parameters: tuple = ()) -> Entry:
        """The result of an operation of `OPERATIONS`."""
        dtype = np.dtype(dtype)
        rule = OPERATIONS[operation]
        if all(is_constant(source) for source in sources):
            with np.errstate(all="ignore"):
                return _number(dtype, rule.fold(*sources, *parameters))
        same = rule.simplify(*sources) if rule.simplify is not None else None
        if same is not None:
            return same
        key = (operation, dtype, parameters, *map(_identity, sources))
        block = self._block
        while block is not None:
            if key in block.known:
                return block.known[key]
            block = block.parent
        self._written += 1
        if self._written > MOST_VALUES:
            raise NotScalarError(f"a kernel of more than {MOST_VALUES} values is too long")
        block = self._home(sources)
        value = Value(operation, dtype, sources, parameters, block)
        block.statements.append(value)
        block.known[key] = value
        return value

    def _home(self, sources: Sequence[Entry]) -> Block:
        """The block in which a value belongs: before the loops that do not change it, but within
        a branch, which may seldom be taken."""
        block = self._block
        while block.loops and not any(
            isinstance(source, Value) and source.block is block for source in sources
        ):
            assert block.parent is not None
            block = block.parent
        return block

    def select(self, which: Entry, false: Entry, true: Entry, dtype) -> Entry:
        """One of two, by a truth value."""
        return self.operate("select_n", dtype, which, false, true)

    def loop(self, key, start: Sequence[Entry], dtypes, condition, body) -> list[Entry]:
        """Repeats a body while a condition holds.

        Args:
            key: of the loop, hashable: one that is written again is written faster.
            start: the first entries.
            dtypes: of these.
            condition, body: of the list of entries, the truth value and the next ones.

        Returns:
            The entries at the end.
        """
        constants = {k for k, entry in enumerate(start) if is_constant(entry)}
        constants &= self._constant.get(key, constants)
        while True:
            outer = self._block
            inner = self._block = Block(outer, True)
            entries, carried = list(start), {}
            for k, dtype in enumerate(dtypes):
                if k not in constants:
                    carried[k] = entries[k] = Value("carried", np.dtype(dtype), (), (), inner)
            going = condition(entries)
            inner.statements.append(Ask())
            following = body(entries)
            self._block = outer
            changed = {k for k in constants if _identity(following[k]) != _identity(start[k])}
            constants = constants - changed
            self._constant[key] = constants
            if not changed:
                break
        loop = Loop(
            inner,
            going,
            list(carried.values()),
            [start[k] for k in carried],
            [following[k] for k in carried],
        )
        results = list(start)
        for number, (k, variable) in enumerate(carried.items()):
            variable.parameters = (loop, number)
            if following[k] is not variable:
                results[k] = Value("result", variable.dtype, (variable,), (), outer)
        outer.statements.append(loop)
        return results

    def branch(self, index: Entry, sides, dtypes) -> list[Entry]:
        """The entries that one of several functions gives, by a number from 0."""
        outer, blocks, outcomes = self._block, [], []
        for side in sides:
            self._block = Block(outer, False)
            blocks.append(self._block)
            outcomes.append(side())
        self._block = outer
        branch = Branch(index, blocks, [], [])
        results: list[Entry] = []
        for k, dtype in enumerate(dtypes):
            ends = [outcome[k] for outcome in outcomes]
            if all(_identity(end) == _identity(ends[0]) for end in ends):
                results.append(ends[0])
                continue
            place = (branch, len(branch.chosen))
            results.append(Value("chosen", np.dtype(dtype), (), place, outer))
            branch.chosen.append(results[-1])
            branch.outcomes.append(ends)
        outer.statements.append(branch)
        return results


def _number(dtype: np.dtype, value) -> Any:
    """A number of a dtype; beyond its integers the nearest, as at run time."""
    if np.issubdtype(dtype, np.integer) and isinstance(value, np.floating):
        limits = np.iinfo(dtype)
        if np.isnan(value):
            return dtype.type(0)
        return dtype.type(
            limits.max if value >= limits.max else limits.min if value <= limits.min else int(value)
        )
    return np.asarray(value).astype(dtype)[()]


def _identity(entry: Entry):
    """Equal for equal entries alone: zeros of either sign are two."""
    return (entry.dtype.char, entry.tobytes()) if is_constant(entry) else id(entry)
