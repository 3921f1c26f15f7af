"""Residuals of states that goals are made of."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bodies import State
from ..lie import quaternion as quaternions


def pose_error(
    state: State,
    position: Float[Array, "3"] | None = None,
    quaternion: Float[Array, "4"] | None = None,
    body: int = 0,
) -> Float[Array, " n"]:
    """By how much a body misses a pose: 3 entries of its position [m], world frame, and 3 of the
    rotation vector [rad] that leads to its attitude; of those that are given.

    For a goal whose numbers may change without compiling anew, fix them in a partial function that
    is a tree: `eqx.Partial(pose_error, position=p, quaternion=q)`.
    """
    parts = []
    if position is not None:
        parts.append(state.position[body] - jnp.asarray(position, state.position.dtype))
    if quaternion is not None:
        wanted = jnp.asarray(quaternion, state.position.dtype)
        parts.append(quaternions.local(wanted, state.quaternion[body]))
    if not parts:
        raise ValueError("pose_error needs a position, a quaternion, or both.")
    return jnp.concatenate(parts)
