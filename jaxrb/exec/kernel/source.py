"""A program of scalars as text in C."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .operations import OPERATIONS, c_type, literal
from .values import Ask, Block, Branch, Entry, Loop, Value, is_constant


def write(root: Block, outputs: Sequence[Entry], inputs, store) -> list[str]:
    """The statements that compute some outputs and store them.

    Args:
        root: the program.
        outputs: what is wanted of it; nothing else is computed.
        inputs: the text of an input, of its place.
        store: the statement that stores an output, of its number and text.
    """
    writer = _Writer(_needed(outputs), inputs)
    writer.block(root)
    texts = [writer.text(entry) for entry in outputs]
    return writer.lines + [store(number, text) for number, text in enumerate(texts)]


def _needed(outputs: Sequence[Entry]) -> set[int]:
    """The values, loops and branches on which some outputs depend, by their ids."""
    seen: set[int] = set()
    waiting = list(outputs)
    while waiting:
        entry = waiting.pop()
        if is_constant(entry) or id(entry) in seen:
            continue
        seen.add(id(entry))
        waiting += entry.sources
        if entry.operation == "carried":
            loop, number = entry.parameters
            waiting += (loop.condition, loop.start[number], loop.following[number])
            seen.add(id(loop))
        elif entry.operation == "chosen":
            branch, number = entry.parameters
            waiting += (branch.index, *branch.outcomes[number])
            seen.add(id(branch))
    return seen


class _Writer:
    def __init__(self, needed: set[int], inputs):
        self.lines: list[str] = []
        self._needed, self._inputs = needed, inputs
        self._names: dict[int, str] = {}
        self._depth = 1

    def _line(self, text: str) -> None:
        self.lines.append("  " * self._depth + text)

    def _name(self, value: Value) -> str:
        if value.operation == "result":
            return self._name(value.sources[0])
        return self._names.setdefault(id(value), f"v{len(self._names)}")

    def text(self, entry: Entry) -> str:
        """A constant, an input or a name."""
        if is_constant(entry):
            return literal(entry)
        return self._inputs(entry.parameters) if entry.operation == "input" else self._name(entry)

    def block(self, block: Block, ask: str = "") -> None:
        """Everything in a block that is needed."""
        for statement in block.statements:
            if isinstance(statement, Ask):
                self._line(ask)
            elif id(statement) not in self._needed:
                continue
            elif isinstance(statement, Loop):
                self._loop(statement)
            elif isinstance(statement, Branch):
                self._branch(statement)
            else:
                self._operation(statement)

    def _operation(self, value: Value) -> None:
        sources = value.sources
        of = next((s.dtype for s in sources if s.dtype != np.bool_), sources[0].dtype)
        expression = OPERATIONS[value.operation].write(
            of, value.dtype, *map(self.text, sources), *value.parameters
        )
        self._line(f"const {c_type(value.dtype)} {self._name(value)} = {expression};")

    def _loop(self, loop: Loop) -> None:
        needed = [k for k, value in enumerate(loop.carried) if id(value) in self._needed]
        for k in needed:
            value = loop.carried[k]
            self._line(f"{c_type(value.dtype)} {self._name(value)} = {self.text(loop.start[k])};")
        self._line("while (1) {")
        self._depth += 1
        self.block(loop.body, ask="/* ask */")
        at = max(k for k, line in enumerate(self.lines) if line.strip() == "/* ask */")
        self.lines[at] = "  " * self._depth + f"if (!{self.text(loop.condition)}) break;"
        changed = [k for k in needed if loop.following[k] is not loop.carried[k]]
        # All at once: the next value of one may be the present one of another.
        for k in changed:
            value, following = loop.carried[k], loop.following[k]
            name = self._name(value)
            self._line(f"const {c_type(value.dtype)} next_{name} = {self.text(following)};")
        for k in changed:
            name = self._name(loop.carried[k])
            self._line(f"{name} = next_{name};")
        self._depth -= 1
        self._line("}")

    def _branch(self, branch: Branch) -> None:
        needed = [k for k, value in enumerate(branch.chosen) if id(value) in self._needed]
        for k in needed:
            value = branch.chosen[k]
            self._line(f"{c_type(value.dtype)} {self._name(value)};")
        # A number that is too small or too large is the first or the last.
        for number, side in enumerate(branch.sides):
            if number == len(branch.sides) - 1:
                self._line("else {")
            else:
                test = f"if ({self.text(branch.index)} <= {number}) {{"
                self._line(test if number == 0 else f"else {test}")
            self._depth += 1
            self.block(side)
            for k in needed:
                end = self.text(branch.outcomes[k][number])
                self._line(f"{self._name(branch.chosen[k])} = {end};")
            self._depth -= 1
            self._line("}")
