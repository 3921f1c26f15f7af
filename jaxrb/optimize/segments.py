"""Flights between nodes with their derivatives: the one program of fitting.

However long a motion and however many starts, a lane of the program is one segment of one throw
from one start.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..bodies import State
from ..simulate import SaveAt, World, simulate
from ..simulate.method import AbstractMethod
from .data import AbstractComparison
from .flow_map import value_and_jacobian
from .lanes import in_lanes
from .parameters import Parameters

# Lanes that a core takes at once. Always as many, so that their number compiles nothing anew: 64
# take 1.2 times less time each, but those of one motion alone twice as much together.
LANES = 32
# Of capacities; fewer are not worth a program of their own.
SMALLEST = 32


class Segment(NamedTuple):
    """What one lane is given.

    Attributes:
        parameters: step of the free parameters, shape (n_p,).
        start, target: the states of the node and of the next one.
        t0, t1: of the segment [s].
        ts: of the samples in it, shape (m,); those that are none are at t1.
        rows: the samples, leading axis m, NaN where there is none.
        compare: how.
        along: how the start moves with the parameters and its free coordinates, shape (n_x,
            n_p + n_free), where joints hold it; None where each of its coordinates is free.
    """

    parameters: Float[Array | np.ndarray, " n_p"]
    start: State
    target: State
    t0: Float[Array | np.ndarray, ""]
    t1: Float[Array | np.ndarray, ""]
    ts: Float[Array | np.ndarray, " m"]
    rows: Any
    compare: AbstractComparison
    along: Float[Array | np.ndarray, "n_x n"] | None = None


class Flown(NamedTuple):
    """What one lane returns.

    Attributes:
        residual, residual_by: of the samples over their noise, shape (m k,), and its derivative
            by the parameters and the free coordinates of the start, shape (m k, n_p + n_free);
            without joints these are 12 of each body.
        defect, defect_by: the end in the chart of the target, shape (12 n_bodies,), and its
            derivative.
        code: why the simulation ended early, 0 if it did not.
        impacts: how many there were.
        along: as was given, of all segments; not of a lane.
    """

    residual: Float[Array | np.ndarray, " mk"]
    residual_by: Float[Array | np.ndarray, "mk n"]
    defect: Float[Array | np.ndarray, " n_x"]
    defect_by: Float[Array | np.ndarray, "n_x n"]
    code: Int[Array | np.ndarray, ""]
    impacts: Int[Array | np.ndarray, ""]
    along: Float[np.ndarray, "*batch n_x n"] | None = None


class Settings(NamedTuple):
    """What is static in the program."""

    method: AbstractMethod
    free: Parameters
    max_steps: int
    static: tuple  # of the args


def fly(world: World, args: Any, segments: Segment, settings: Settings) -> Flown:
    """All segments, with a leading axis, on all cores or devices."""
    return in_lanes(_lanes, (world, args), segments, size=LANES, settings=settings)


def capacity(number: int) -> int:
    """For so many samples or steps of a segment: a power of two, so that other data of about the
    same kind compile nothing anew."""
    return max(SMALLEST, 1 << (number - 1).bit_length())


def parted(tree: Any) -> tuple[Any, tuple]:
    """The arrays of a tree, and what of it is static in a program, hashable."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    leaves, structure = jax.tree.flatten(rest)
    return arrays, (tuple(leaves), structure)


def whole(arrays: Any, static: tuple) -> Any:
    """The tree that was parted."""
    leaves, structure = static
    return eqx.combine(arrays, jax.tree.unflatten(structure, leaves))


def product(a: Array | np.ndarray, b: Array | np.ndarray) -> Array:
    """a @ b to round-off, on GPUs, too, where the default for float32 keeps ten bits."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


@partial(jax.jit, static_argnames="settings")
def _lanes(shared, segments: Segment, *, settings: Settings) -> Flown:
    world, args = shared
    return jax.vmap(lambda segment: _fly(world, args, segment, settings))(segments)


def _fly(world: World, args: Any, segment: Segment, settings: Settings) -> Flown:
    method, free, max_steps, static = settings
    args, along = whole(args, static), segment.along
    n_x = 12 * segment.start.position.shape[-2]

    def flight(step):
        own = step[: free.size]
        moved = step[free.size :] if along is None else product(along, step)
        sol = simulate(
            free.apply(world, segment.parameters + own),
            segment.start.retract(moved.reshape(-1, 12)),
            method,
            jnp.asarray(segment.t1),
            jnp.asarray(segment.t0),
            SaveAt(ts=segment.ts),
            args,
            throw=False,
            max_steps=max_steps,
        )
        residual = jax.vmap(segment.compare)(segment.rows, sol.states).reshape(-1)
        defect = segment.target.local(sol.final).reshape(-1)
        (code,) = jax.tree.leaves(sol.result)
        return (residual, defect), (code, sol.impacts.count)

    n = free.size + n_x if along is None else along.shape[-1]
    here = jnp.zeros(n, segment.parameters.dtype)
    (residual, defect), (by_residual, by_defect), (code, count) = value_and_jacobian(flight, here)
    return Flown(residual, by_residual, defect, by_defect, code, count)
