"""How fast motions that start close to each other part."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._validate import finite_number, positive_number
from ..bodies import State
from ..exec.parallel import chunk_size, in_parallel
from ..simulate import SaveAt, World, simulate
from ..simulate.method import AbstractMethod
from ..simulate.time_grid import rounded_up
from .flow_map import flow_map


class Lyapunov(eqx.Module):
    """Growth of small differences along one trajectory, per segment of it and in the long run.

    Attributes:
        ts: starts of the segments, and the end [s], shape (N + 1,).
        by_state: the Jacobian of each segment, as of `flow_map`, shape (N, n, n).
        growth: its largest singular value, by which a difference grows at most; in the units of
            the charts, so that it depends on them; shape (N,).
        exponents: mean rates of growth over the whole trajectory [1/s], descending, shape (n,).
            Without friction and loss they come in pairs of opposite signs, as the flow is
            symplectic.
    """

    ts: Float[np.ndarray, " N+1"]
    by_state: Float[np.ndarray, "N n n"]
    growth: Float[np.ndarray, " N"]
    exponents: Float[np.ndarray, " n"]


def lyapunov(
    world: World,
    state: State,
    method: AbstractMethod,
    t1: float,
    t0: float = 0.0,
    *,
    every: float,
    args: Any = None,
) -> Lyapunov:
    """Lyapunov exponents of a trajectory, and how much differences grow in its parts.

    The parts are flown at once, from the states that one simulation saves between them; the
    exponents come from QR decompositions of their Jacobians in turn (Benettin, Galgani, Giorgilli
    and Strelcyn, Meccanica 15 (1980)). How long a segment of a fit or of shooting may be follows
    from `growth`: times the relative error of its start it must stay below about a tenth.

    Args:
        world, state, method, t1, t0, args: as in `simulate`; the times are known numbers.
        every: length of the parts [s], of which the last may be shorter.

    Raises:
        ValueError, RuntimeError: as `simulate`; if t1 is not after t0.
    """
    t0, t1 = finite_number(t0, "t0"), finite_number(t1, "t1")
    every = positive_number(every, "every")
    if t1 <= t0:
        raise ValueError(f"t1 must lie after t0; got t0 = {t0}, t1 = {t1}.")
    n = int(np.ceil((t1 - t0) / every * (1 - 1e-9)))
    ts = np.append(t0 + every * np.arange(n), t1)
    sol = simulate(world, state, method, t1, t0, SaveAt(ts=ts[:-1]), args)
    starts = jax.tree.map(lambda leaf: leaf[:n], sol.states)
    steps = 1 if method.dt is None else rounded_up(int(np.ceil(every / method.dt)) + 1)  # type: ignore[operator]
    given, rest = eqx.partition(args, eqx.is_array)
    by_state = in_parallel(
        _jacobians,
        (world, given),
        (starts, *(jnp.asarray(one, starts.position.dtype) for one in (ts[:-1], ts[1:]))),
        options={"method": method, "max_steps": steps, "rest": rest},
        devices=jax.local_devices(),
        chunk=chunk_size(n),
    )
    by_state = np.asarray(by_state)
    dimension = by_state.shape[-1]
    frame, grown = np.eye(dimension), np.zeros(dimension)
    for matrix in by_state:
        frame, upper = np.linalg.qr(matrix @ frame)
        with np.errstate(divide="ignore"):
            grown += np.log(np.abs(np.diagonal(upper)))
    return Lyapunov(
        ts,
        by_state,
        np.linalg.norm(by_state, ord=2, axis=(1, 2)),
        np.sort(grown / (t1 - t0))[::-1],
    )


@partial(jax.jit, static_argnames=("method", "max_steps", "rest"))
def _jacobians(shared, batched, *, method: AbstractMethod, max_steps: int, rest: Any):
    world, given = shared
    args = eqx.combine(given, rest)

    def one(state, t0, t1):
        return flow_map(world, state, method, t1, t0, args=args, max_steps=max_steps).by_state

    return jax.vmap(one)(*batched)
