"""Residuals of states that goals are made of."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._validate import real_array
from ..bodies import State
from ..lie import quaternion as quaternions
from ..rotations.checks import unit_vectors


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

    Raises:
        ValueError: if neither is given, or one has another shape, or the quaternion is known and
            not of unit length to 1e-3. A traced one is normalised; of zero the result is NaN.
    """
    dtype, parts = state.position.dtype, []
    if position is not None:
        place = real_array(position, "pose_error: position", (3,))
        parts.append(state.position[body] - place.astype(dtype))
    if quaternion is not None:
        name = "pose_error: quaternion"
        wanted = unit_vectors(real_array(quaternion, name, (4,)), name, 4)
        parts.append(quaternions.local(wanted.astype(dtype), state.quaternion[body]))
    if not parts:
        raise ValueError("pose_error needs a position, a quaternion, or both.")
    return jnp.concatenate(parts)
