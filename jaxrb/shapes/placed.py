"""Solids moved and turned within their frame."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._validate import real_array, require
from ..lie import quaternion as quaternions
from ..math import Quat, Vec3, dot, rotate, rotate_inverse
from .base import AbstractConvexShape, AbstractSolid, Moments


def Placed(  # noqa: N802  (it makes a shape)
    shape: AbstractSolid, position=(0.0, 0.0, 0.0), quaternion=(1.0, 0.0, 0.0, 0.0)
) -> PlacedConvex | PlacedSolid:
    """A solid turned by a quaternion and then moved; convex if the solid is.

    Args:
        shape: the solid.
        position: of its origin [m], shape (3,).
        quaternion: from its frame to the new one, scalar first, of any length but zero.

    Raises:
        ValueError: naming the argument that is not understood.
    """
    if not isinstance(shape, AbstractSolid):
        raise ValueError(f"Placed.shape must be a bounded shape; got {type(shape).__name__}.")
    position = real_array(position, "Placed.position", (3,))
    quaternion = real_array(quaternion, "Placed.quaternion", (4,))
    require(position, "Placed.position", np.isfinite, "finite")
    nonzero = lambda q: np.all(np.isfinite(q)) and np.any(q != 0)  # noqa: E731
    require(quaternion, "Placed.quaternion", nonzero, "finite and not zero")
    if isinstance(shape, AbstractConvexShape):
        return PlacedConvex(shape, position, quaternion)
    return PlacedSolid(shape, position, quaternion)


class PlacedConvex(AbstractConvexShape):
    """A convex solid in another place; made by `Placed`."""

    shape: AbstractConvexShape
    position: Float[Array, 3]
    quaternion: Float[Array, 4]

    def support_map(self, direction: Vec3):
        position, q = Vec3.of(self.position), _unit(self.quaternion)
        height, point = self.shape.support_map(rotate_inverse(q, direction))
        return height + dot(direction, position), rotate(q, point) + position

    def lengths(self):
        return self.shape.lengths()

    def distance_map(self, point: Vec3):
        return _distance(self, point)

    def bounding_radius(self):
        return _reach(self)

    def uniform_moments(self, radius=0.0):
        return _moments(self, radius)


class PlacedSolid(AbstractSolid):
    """A solid that is not convex in another place; made by `Placed`."""

    shape: AbstractSolid
    position: Float[Array, 3]
    quaternion: Float[Array, 4]

    def convex_parts(self):
        parts = self.shape.convex_parts()
        return tuple(PlacedConvex(part, self.position, self.quaternion) for part in parts)

    def lengths(self):
        return self.shape.lengths()

    def distance_map(self, point: Vec3):
        return _distance(self, point)

    def bounding_radius(self):
        return _reach(self)

    def uniform_moments(self, radius=0.0):
        return _moments(self, radius)


def _unit(quaternion: Float[Array, "... 4"]) -> Quat:
    q = Quat.of(quaternion)
    return q / jnp.sqrt(q.norm_squared())


def _distance(placed: PlacedConvex | PlacedSolid, point: Vec3) -> Float[Array, ...]:
    """Exact where that of the solid is."""
    moved = point - Vec3.of(placed.position)
    return placed.shape.distance_map(rotate_inverse(_unit(placed.quaternion), moved))


def _reach(placed: PlacedConvex | PlacedSolid) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum(placed.position**2)) + placed.shape.bounding_radius()


def _moments(placed: PlacedConvex | PlacedSolid, radius) -> Moments:
    volume, center, second = placed.shape.uniform_moments(radius)
    turn = quaternions.to_matrix(_unit(placed.quaternion).array())
    if second.ndim == 1:
        second = jnp.diag(second)
    # Sums over an axis of length 3: a product of matrices would not fuse in a batch.
    center = jnp.sum(turn * center, axis=-1) + placed.position
    half = jnp.sum(turn[:, :, None] * second[None], axis=1)
    return Moments(volume, center, jnp.sum(half[:, None, :] * turn[None], axis=-1))
