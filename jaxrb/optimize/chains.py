"""Measured motions, cut into segments between nodes in free flight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..bodies import Inertial, State
from ..bodies.joints.coordinates import JointCoordinates
from ..bodies.state import to_phase
from ..simulate import World, gaps, pair_gaps
from ..simulate.time_grid import rounded_up
from . import nodes as cuts
from .data import AbstractData
from .segments import capacity
from .unmeasured import PoseArrays

# Nodes keep so many samples away from jumps of the velocity.
CLEAR = 4
# Bodies nearer to something than so many standard deviations may touch it.
TOUCHING = 6.0


class Chains(NamedTuple):
    """What was measured, cut into segments; leading axes (J, N) over throws and segments.

    Throws of fewer segments than N are filled up at their end, segments of fewer samples likewise,
    so that new data of about the same length compile nothing anew.

    Attributes:
        t0, t1: when a segment begins and ends [s].
        ts: of its samples, leading axes (J, N, m); those that are none are at t1.
        rows: the samples, NaN where there is none.
        compare: how they are compared with states.
        measured: which entries of the residuals there are, shape (J, N, m k).
        real: whether the segment is one.
        followed: whether another follows it.
        noise: scales of the coordinates of a state, shape (J, n_x).
    """

    t0: np.ndarray
    t1: np.ndarray
    ts: np.ndarray
    rows: Any
    compare: Any
    measured: np.ndarray
    real: np.ndarray
    followed: np.ndarray
    noise: np.ndarray


def cut(
    world: World,
    throws: Sequence[AbstractData],
    poses: Sequence[PoseArrays],
    dt: float,
    segments: int | Literal["auto"],
    dtype: Any,
) -> tuple[Chains, State]:
    """The chains of all throws, and the states at the nodes from their poses.

    Args:
        world: gives gravity, and what bodies may touch.
        throws: what was measured.
        poses: of each throw at the measured times, NaN where they are not known.
        dt: nodes are whole steps apart [s].
        segments: so many of each throw, of equal durations as far as impacts allow; "auto" puts
            two nodes between impacts that follow one another, where there is room.
        dtype: of the numbers.
    """
    acceleration = np.array(world.accelerations(), np.float64)
    # Of what joints hold nothing is known beforehand.
    acceleration[sorted({body for joint in world.joints for body in joint.bodies})] = np.nan
    found = [
        _nodes(world, data, known, acceleration, dt, segments, dtype)
        for data, known in zip(throws, poses, strict=True)
    ]
    n = rounded_up(max(nodes.ts.size for nodes in found))
    places = [
        np.searchsorted(nodes.ts, data.ts, side="right") - 1
        for nodes, data in zip(found, throws, strict=True)
    ]
    m = capacity(max(int(np.bincount(place).max()) for place in places))
    chains, states = [], []
    for data, nodes, place in zip(throws, found, places, strict=True):
        chains.append(_chain(data, nodes, place, (n, m), dtype, len(world.bodies)))
        states.append(_state([_filled(array, n) for array in nodes[1:]], dtype))
    return _stacked(chains), _stacked(states)


def _nodes(world, data, poses, acceleration, dt, segments, dtype) -> cuts.Nodes:
    breaks = cuts.jumps(data.ts, poses[0], acceleration, data.noise[0])
    times = _node_times(data.ts, breaks, dt, segments)
    found = cuts.states_at(times, breaks, data.ts, poses, acceleration)
    states = _state(found[1:], dtype)
    touching = _least_gaps(world, states) < TOUCHING * data.noise[0]
    touching |= (_rooms(world, states) < TOUCHING * _of_limits(world, data.noise)).any(-1)
    # What touches something, or is at a limit of a joint, moves as that allows, which a state that
    # is only near it does not.
    kept = ~touching | (np.arange(times.size) == 0)
    return cuts.Nodes(*(array[kept] for array in found))


def _node_times(ts, breaks, dt, segments) -> np.ndarray:
    first, last = ts[0], ts[-1]
    clear = max(dt, CLEAR * float(np.median(np.diff(ts))))
    edges = np.concatenate([[first], breaks, [last]])
    if segments == "auto":
        wanted = [
            begin + (end - begin) * part
            for begin, end in pairwise(edges)
            for part in ((1 / 3, 2 / 3) if end - begin > 3 * clear else (1 / 2,))
        ]
    else:
        wanted = np.linspace(first, last, segments + 1)[1:-1]
    times = [first]
    for middle in wanted:
        near = breaks[np.abs(breaks - middle) < clear]
        moved = near[-1] + clear if near.size else middle
        time = first + np.round((moved - first) / dt) * dt
        apart = np.abs(np.append(breaks, last) - time).min()
        # A step may round some of the distance away.
        if time - times[-1] > clear / 2 and apart > 0.7 * clear:
            times.append(time)
    return np.asarray(times)


def _least_gaps(world: World, states: State) -> np.ndarray:
    """Of each state, the least gap between any two things that can touch [m]."""
    return _of_each(_least, world, states)


def _of_each(program: Callable, world: World, states: State) -> np.ndarray:
    """What a program finds of each state, of a number of them for which few are compiled."""
    n = states.position.shape[0]
    size = rounded_up(n)
    filled = jax.tree.map(lambda leaf: jnp.asarray(_filled(np.asarray(leaf), size)), states)
    return np.asarray(program(world, filled))[:n]


@jax.jit
def _least(world: World, states: State):
    def one(state):
        both = [jnp.ravel(gaps(world, state)), jnp.ravel(pair_gaps(world, state))]
        return jnp.min(jnp.concatenate(both), initial=jnp.inf)

    return jax.vmap(one)(states)


def _rooms(world: World, states: State) -> np.ndarray:
    """Of each state, how far each limited coordinate of joints is from its nearer limit [rad] or
    [m], shape (N, n_limited)."""
    if not world.joints:
        return np.zeros((states.position.shape[0], 0))
    return _of_each(_room, world, states)


@jax.jit
def _room(world: World, states: State):
    def one(state):
        dtype = state.position.dtype
        limited = JointCoordinates.of(world.joints, dtype, having="limits")
        if limited is None:
            return jnp.zeros(0, dtype)
        value = limited.value(to_phase(state, Inertial.of(world.bodies, dtype)))
        return jnp.minimum(value - limited.lower, limited.upper - value)

    return jax.vmap(one)(states)


def _of_limits(world: World, noise: tuple[float, float]) -> np.ndarray:
    """Noise of each limited coordinate: of an attitude or of a position."""
    limited = JointCoordinates.of(world.joints, np.float64, having="limits")
    parts = () if limited is None else limited.parts
    found = [noise[int(part.angular)] for part in parts for _ in part.ends.joints]
    return np.asarray(found, np.float64)


def _chain(data, nodes, place, sizes, dtype, n_bodies: int) -> Chains:
    n, m = sizes
    n_real = nodes.ts.size
    index = np.full((n, m), -1)
    for segment in range(n_real):
        own = np.flatnonzero(place == segment)
        index[segment, : own.size] = own
    there = index >= 0
    t0 = _filled(nodes.ts, n)
    t1 = _filled(np.append(nodes.ts[1:], data.ts[-1]), n)
    t1 = np.where(np.arange(n) < n_real, t1, t0)

    def sampled(leaf):
        mask = there.reshape(n, m, *[1] * (leaf.ndim - 1))
        return np.where(mask, leaf[index], np.nan).astype(dtype)

    position, attitude = data.noise
    span = cuts.WINDOW * float(np.median(np.diff(data.ts)))
    scales = [position, attitude, position / span, attitude / span]
    return Chains(
        t0.astype(dtype),
        t1.astype(dtype),
        np.where(there, data.ts[index], t1[:, None]).astype(dtype),
        jax.tree.map(sampled, data.rows()),
        jax.tree.map(lambda leaf: _repeated(leaf, n), data.comparison(dtype)),
        (data.measured()[index] & there[..., None]).reshape(n, -1),
        np.arange(n) < n_real,
        np.arange(n) < n_real - 1,
        np.tile(np.repeat(scales, 3), n_bodies).astype(dtype),
    )


def _state(arrays, dtype) -> State:
    return State(*(jnp.asarray(array, dtype) for array in arrays))


def _filled(array: np.ndarray, n: int) -> np.ndarray:
    """The array with its last entry repeated up to a length."""
    return np.concatenate([array, np.repeat(array[-1:], n - len(array), axis=0)])


def _repeated(leaf, n: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(leaf), (n, *np.shape(leaf)))


def _stacked(trees):
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)
