"""The counterexamples' derivatives: closed form, both modes, and differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...simulate import RESULTS, AbstractMethod, SaveAt, simulate
from .check import QUICK
from .columns import Motion
from .counterexamples import MOST, Counterexample
from .differences import points, slopes

_OUTPUTS = 2  # the most of an example
_SMALL = 1e-2  # a derivative beside which round-off is not worth telling


class Line(NamedTuple):
    """A derivative.

    Attributes:
        example, told: which motion.
        output, number: of what by what.
        closed: its value by the closed form.
        forward, reverse, differences: by the library, and of the library.
        error: of forward mode, relative to the largest derivative by the same number, or 0.01.
        modes: forward against reverse, likewise.
        right: whether these are within their bars.
    """

    example: str
    told: str
    output: str
    number: str
    closed: float
    forward: float
    reverse: float
    differences: float
    error: float
    modes: float
    right: bool


class Programs(NamedTuple):
    """What is compiled once for all motions of one structure."""

    finals: Callable  # of a batch of motions
    forward: Callable  # of a motion and tangents, an axis ahead
    reverse: Callable  # of a motion and cotangents, an axis ahead


def lines(examples: list[Counterexample]) -> Iterator[tuple[Counterexample, list[Line]]]:
    """Of each example its lines, as they are found.

    Raises:
        RuntimeError: if a simulation ends early.
    """
    known: dict = {}
    for example in examples:
        motion = example.motion(_point(example))
        key = jax.tree.structure((motion, example.method))
        if key not in known:
            known[key] = _programs(motion, example.method)
        yield example, _lines(example, known[key])


def _programs(motion: Motion, method: AbstractMethod) -> Programs:
    capacity = None
    if method.dt is not None:
        capacity = math.ceil(4.0 / float(motion.dt))

    def final(motion: Motion):
        how = method
        if method.dt is not None:
            how = eqx.tree_at(lambda m: m.dt, method, motion.dt)
        save = SaveAt(final=True, impacts=1)
        sol = simulate(
            motion.world, motion.state, how, motion.t1, save=save, throw=False, max_steps=capacity
        )
        end, time = sol.final, sol.impacts.time
        last = (end.position[-1], end.velocity[-1], end.angular_velocity[-1])
        return jnp.concatenate([*last, time]), sol.result

    def forward(motion: Motion, tangents):
        along = lambda d: jax.jvp(lambda m: final(m)[0], (motion,), (d,))[1]  # noqa: E731
        return jax.vmap(along)(tangents)

    def reverse(motion: Motion, cotangents):
        back = jax.vjp(lambda m: final(m)[0], motion)[1]
        return jax.vmap(lambda c: back(c)[0])(cotangents)

    compiled = partial(jax.jit, compiler_options=QUICK)
    return Programs(compiled(jax.vmap(final)), compiled(forward), compiled(reverse))


_NAMES = ("x", "y", "z", "vx", "vy", "vz", "wx", "wy", "wz", "time")


def _point(example: Counterexample) -> Array:
    """Its numbers, and zeros that nothing depends on: one size serves all."""
    return jnp.asarray([*example.values, *[0.0] * (MOST - len(example.values))])


def _lines(example: Counterexample, programs: Programs) -> list[Line]:
    n, point = len(example.numbers), _point(example)
    motion = example.motion(point)
    chosen = [_NAMES.index(name) for name in example.outputs]

    tangents = jax.jacfwd(example.motion)(point)
    tangents = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), tangents)
    forward = np.asarray(programs.forward(motion, tangents))[:n, chosen].T

    rows = np.zeros((_OUTPUTS, len(_NAMES)))
    rows[np.arange(len(chosen)), chosen] = 1.0
    back = jax.tree.leaves(programs.reverse(motion, jnp.asarray(rows)))
    products = [
        jnp.tensordot(b.reshape(_OUTPUTS, -1), t.reshape(MOST, -1), ((1,), (1,)))
        for b, t in zip(back, jax.tree.leaves(tangents), strict=True)
    ]
    reverse = np.asarray(sum(products))[: len(chosen), :n]
    found = _differences(example, programs, point)[chosen, :n]
    closed = np.asarray(jax.jacfwd(lambda p: jnp.stack(example.closed(p)))(point))[:, :n]
    return [
        _line(example, (i, k), closed, forward, reverse, found)
        for i in range(len(chosen))
        for k in range(n)
    ]


def _differences(example: Counterexample, programs: Programs, point: Array) -> np.ndarray:
    """Of all outputs, by all numbers."""
    # Each number in proportion to its size; those of nothing would all be one point.
    scales = np.maximum(np.abs(np.asarray(point)), 0.1)
    steps = np.concatenate([np.zeros((1, MOST)), points(scales)])
    near = jnp.asarray(np.asarray(point) + steps)
    values, codes = programs.finals(jax.vmap(example.motion)(near))
    code = jax.tree.map(lambda leaf: leaf[0], codes)
    if code != RESULTS.successful:
        raise RuntimeError(f"{example.name}: {RESULTS[code]}")
    usable = np.asarray(codes == RESULTS.successful)
    round_off = 64 * float(np.finfo(float).eps)
    values = np.where(np.isfinite(values), values, 0.0)
    return slopes(values[1:] - values[0], usable[1:], scales, round_off).value


def _line(example: Counterexample, at, closed, forward, reverse, found) -> Line:
    i, k = at
    size = max(_SMALL, float(np.max(np.abs(closed[:, k]))))
    error = abs(float(forward[at] - closed[at])) / size
    modes = abs(float(forward[at] - reverse[at])) / size
    values = (float(table[at]) for table in (closed, forward, reverse, found))
    names = (example.name, example.told, example.outputs[i], example.numbers[k])
    return Line(*names, *values, error, modes, error <= example.bar and modes <= 1e-12)
