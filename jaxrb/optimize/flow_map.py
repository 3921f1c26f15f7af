"""The map of a state along its trajectory, with its derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bodies import State
from ..simulate import World, simulate
from ..simulate.method import AbstractMethod


class FlowMap(NamedTuple):
    """A state at the end of a flight, and what it is to first order.

    Attributes:
        state: at t1.
        by_state: the Jacobian in the charts of `State.retract`, of the start and of the end: a
            start moved by a step ends at the end moved by by_state @ step, shape
            (12 n_bodies, 12 n_bodies); of each body 3 entries of the position [m], of the
            attitude [rad], of the velocity [m/s] and of the angular velocity [rad/s].
    """

    state: State
    by_state: Float[Array, "n n"]


def flow_map(
    world: World,
    state: State,
    method: AbstractMethod,
    t1: float | Float[Array, ""],
    t0: float | Float[Array, ""] = 0.0,
    *,
    args: Any = None,
    max_steps: int | None = None,
    throw: bool = True,
) -> FlowMap:
    """The state at t1 and its derivative by the state at t0, through every impact between.

    The shifts of the times of impact are part of it: at an impact it is the saltation matrix. It
    can be jitted, vmapped and differentiated.

    Args:
        world, state, method, t1, t0, args, max_steps: as in `simulate`.
        throw: raise if the simulation ended early; otherwise state and derivative are NaN then.

    Returns:
        The end and the Jacobian, as `end, A = flow_map(...)`.

    Raises:
        ValueError, RuntimeError: as `simulate`.
    """

    def flown(step):
        sol = simulate(
            world,
            state.retract(step.reshape(-1, 12)),
            method,
            t1,
            t0,
            args=args,
            throw=throw,
            max_steps=max_steps,
            failed="nan",
        )
        base = jax.lax.stop_gradient(sol.final)
        return base.local(sol.final).reshape(-1), sol.final

    if not isinstance(state, State):
        raise ValueError(f"state must be a State; got {type(state).__name__}.")
    at_rest = jnp.zeros(12 * state.position.shape[-2], state.position.dtype)
    _, by_state, end = value_and_jacobian(flown, at_rest)
    return FlowMap(end, by_state)


def value_and_jacobian(function: Callable, at: Float[Array, " n"]) -> tuple[Any, Any, Any]:
    """A function's value, its derivatives along each coordinate, and what else it returns.

    The value is computed once, and what is linear is applied to all coordinates together.

    Args:
        function: of an array of shape (n,) to a tree of arrays, and whatever else.
        at: where.

    Returns:
        The tree; the tree of its Jacobians, with a last axis n; and the rest.
    """
    value, push, rest = jax.linearize(function, at, has_aux=True)
    jacobian = jax.vmap(push, out_axes=-1)(jnp.eye(at.size, dtype=at.dtype))
    return value, jacobian, rest
