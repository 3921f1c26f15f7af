"""The C text of a function of one lane, for lanes side by side.

Numbers of the same type travel together: those that all lanes share as an array (numbers,), those
of each lane as (numbers, lanes), so that neighbours read neighbours. Truth values and small
integers travel as int32.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from .operations import NotScalarError, c_type
from .scalarise import Scalariser, flat, flat_dtypes, unflat
from .source import write
from .values import Builder

# In this order the arrays of each kind are handed over.
STORED: tuple[str, ...] = ("float32", "float64", "int32", "int64")
# More statements take minutes to compile and would not fit into a thread's registers by far.
MOST_STATEMENTS = 150_000


@dataclasses.dataclass(frozen=True)
class LaneProgram:
    """A function of one lane as text in C.

    Attributes:
        body: of a function of `lane` and `n`, the number of lanes, with the arrays of `arguments`.
        arguments: the names of the arrays in order, inputs before outputs, and their types.
        n_inputs: how many of these are inputs.
        outputs: how many numbers of each stored type a lane gives, in the order of `STORED`.
        digest: of all of this, 16 hexadecimal digits.
    """

    body: str
    arguments: tuple[tuple[str, str], ...]
    n_inputs: int
    outputs: tuple[int, ...]
    digest: str

    def results(self, n_lanes: int) -> list[jax.ShapeDtypeStruct]:
        """The shapes of the arrays of outputs."""
        return [
            jax.ShapeDtypeStruct((size, n_lanes), np.dtype(stored))
            for stored, size in zip(STORED, self.outputs, strict=True)
            if size
        ]


def stored_as(dtype) -> str:
    """The type in which numbers of a type travel.

    Raises:
        NotScalarError: if there is none.
    """
    name = np.dtype(dtype).name
    if name in STORED:
        return name
    for wider in ("int32", "int64"):
        if np.can_cast(dtype, wider):
            return wider
    raise NotScalarError(f"numbers of type {name} are not known to kernels")


def lane_program(traced: ClosedJaxpr, shared: Sequence[bool]) -> LaneProgram:
    """The program of a function of one lane.

    Args:
        traced: the function, of arrays.
        shared: which arguments all lanes share.

    Raises:
        NotScalarError: if it cannot be written with scalars.
    """
    avals = traced.in_avals
    builder = Builder()
    counts = {(kind, name): 0 for kind in (True, False) for name in STORED}
    entries = []
    for aval, is_shared in zip(avals, shared, strict=True):
        stored = stored_as(aval.dtype)
        for _ in range(int(np.prod(aval.shape))):
            number = counts[is_shared, stored]
            counts[is_shared, stored] += 1
            value = builder.input(np.dtype(stored), (is_shared, stored, number))
            if np.dtype(aval.dtype).name != stored:
                value = builder.operate("convert_element_type", aval.dtype, value)
            entries.append(value)
    ends = flat(Scalariser(builder).closed(traced, unflat(entries, avals)))
    kinds = [stored_as(dtype) for dtype in flat_dtypes(traced.out_avals)]
    return _program(builder, ends, kinds, counts)


def _program(builder: Builder, ends, kinds: list[str], counts) -> LaneProgram:
    places, outputs = [], dict.fromkeys(STORED, 0)
    for kind in kinds:
        places.append((kind, outputs[kind]))
        outputs[kind] += 1

    def read(place):
        is_shared, stored, number = place
        if is_shared:
            return f"shared_{stored}[{number}]"
        return f"in_{stored}[{number} * (size_t)n + lane]"

    def store(number: int, text: str) -> str:
        stored, at = places[number]
        return f"  out_{stored}[{at} * (size_t)n + lane] = {text};"

    lines = write(builder.root, ends, read, store)
    if len(lines) > MOST_STATEMENTS:
        raise NotScalarError(f"a kernel of {len(lines)} statements is too long")
    body = "\n".join(lines)
    inputs = [
        (f"{'shared' if kind else 'in'}_{stored}", stored)
        for kind in (True, False)
        for stored in STORED
        if counts[kind, stored]
    ]
    results = [(f"out_{stored}", stored) for stored in STORED if outputs[stored]]
    arguments = (*inputs, *results)
    digest = hashlib.sha256(repr((body, arguments)).encode()).hexdigest()[:16]
    return LaneProgram(body, arguments, len(inputs), tuple(outputs.values()), digest)


def signature(program: LaneProgram, restrict: str) -> str:
    """The parameters of the function in C."""
    parameters = []
    for number, (name, stored) in enumerate(program.arguments):
        const = "const " if number < program.n_inputs else ""
        parameters.append(f"{const}{c_type(np.dtype(stored))}* {restrict} {name}")
    return ", ".join(parameters)
