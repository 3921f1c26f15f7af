"""Frames of joints from points and axes in the world, for bodies that are placed as in a state."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._validate import body_index, real_array
from ...math import Quat, Vec3, rotate_inverse


class Poses(Protocol):
    """A state, as far as its joints know it."""

    @property
    def position(self) -> Float[Array, "n_bodies 3"]: ...
    @property
    def quaternion(self) -> Float[Array, "n_bodies 4"]: ...


class Place(NamedTuple):
    """Where a body is."""

    position: Vec3
    turn: Quat
    dtype: Any

    def point(self, given: Any, name: str) -> Float[Array, "3"]:
        """A point of the world, from the centre of mass and in the frame of the body."""
        there = Vec3.of(real_array(given, name, (3,)).astype(self.dtype))
        return rotate_inverse(self.turn, there - self.position).array()

    def axis(self, given: Any, name: str) -> Float[Array, "3"]:
        """An axis of the world in the frame of the body."""
        return rotate_inverse(
            self.turn, Vec3.of(real_array(given, name, (3,)).astype(self.dtype))
        ).array()

    def reference(self, other: Place) -> Float[Array, "4"]:
        """Turns vectors of the frame of the body into that of the other one."""
        return (other.turn.conjugate() * self.turn).array()


def places(kind: str, state: Poses, body: Any, other: Any) -> tuple[Place, Place]:
    """The places of two bodies, or of one and the world.

    Raises:
        ValueError: if the state has no such body, or is none of one world.
    """
    if state.position.ndim != 2:
        raise ValueError(
            f"{kind}.at needs one state, with positions of shape (n_bodies, 3); got "
            f"{state.position.shape}."
        )
    return _place(kind, "body", state, body), _place(kind, "other", state, other)


def _place(kind: str, name: str, state: Poses, index: Any) -> Place:
    dtype = state.position.dtype
    if index is None and name == "other":
        zero = jnp.zeros((), dtype)
        origin = Vec3(zero, zero, zero)
        return Place(origin, Quat(zero + 1, origin), dtype)
    index = body_index(index, f"{kind}.{name}")
    if index >= state.position.shape[0]:
        raise ValueError(
            f"{kind}.{name}: there is no body {index}; the state has {state.position.shape[0]}."
        )
    turn = Quat.of(state.quaternion[index]).normalized()
    return Place(Vec3.of(state.position[index]), turn, dtype)
