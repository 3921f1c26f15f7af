"""Solids moved and turned within their frame."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._validate import real_array, require
from ..lie import quaternion as quaternions
from ..math import Quat, Vec3, dot, rotate, rotate_inverse
from .base import AbstractSolid, Moments, solid_parameter


class Placed(AbstractSolid):
    """A solid turned by a quaternion and then moved. The signed distance is as good as its own.

    Attributes:
        shape: the solid.
        position: of its origin [m], shape (3,).
        quaternion: from its frame to the new one, scalar first, of any length but zero.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    shape: AbstractSolid
    position: Float[Array, "3"]
    quaternion: Float[Array, "4"]

    def __init__(self, shape, position=(0.0, 0.0, 0.0), quaternion=(1.0, 0.0, 0.0, 0.0)):
        self.shape = solid_parameter(shape, "Placed.shape")
        self.position = real_array(position, "Placed.position", (3,))
        self.quaternion = real_array(quaternion, "Placed.quaternion", (4,))
        require(self.position, "Placed.position", np.isfinite, "finite")
        nonzero = lambda q: np.all(np.isfinite(q)) and np.any(q != 0)  # noqa: E731
        require(self.quaternion, "Placed.quaternion", nonzero, "finite and not zero")

    def _turn(self) -> Quat:
        return Quat.of(self.quaternion).normalized()

    @property
    def is_convex(self):
        return self.shape.is_convex

    def distance_map(self, point: Vec3):
        moved = point - Vec3.of(self.position)
        return self.shape.distance_map(rotate_inverse(self._turn(), moved))

    def support_map(self, direction: Vec3):
        position, turn = Vec3.of(self.position), self._turn()
        height, point = self.shape.support_map(rotate_inverse(turn, direction))
        return height + dot(direction, position), rotate(turn, point) + position

    def parts(self):
        return tuple(Placed(part, self.position, self.quaternion) for part in self.shape.parts())

    def pieces(self):
        pieces = self.shape.pieces()
        return tuple(Placed(piece, self.position, self.quaternion) for piece in pieces)

    def region(self, inside: bool = True):
        position, turn = Vec3.of(self.position), self._turn()
        return self.shape.region(inside).mapped(
            lambda solid: Placed(solid, self.position, self.quaternion),
            lambda quadric: quadric.placed(position, turn),
            lambda point: rotate(turn, point) + position,
        )

    def strictly_convex_parts(self):
        parts = self.shape.strictly_convex_parts()
        return tuple(Placed(part, self.position, self.quaternion) for part in parts)

    def standing_parts(self):
        parts = self.shape.standing_parts()
        return tuple(Placed(part, self.position, self.quaternion) for part in parts)

    def lengths(self):
        return self.shape.lengths()

    def bounding_radius(self):
        return jnp.sqrt(jnp.sum(self.position**2)) + self.shape.bounding_radius()

    def swing_radius(self):
        return jnp.sqrt(jnp.sum(self.position**2)) + self.shape.swing_radius()

    def uniform_moments(self):
        return self._moved(self.shape.uniform_moments())

    def rounded_moments(self, radius):
        return self._moved(self.shape.rounded_moments(radius))

    def _moved(self, moments: Moments) -> Moments:
        volume, center, second = moments
        turn = quaternions.to_matrix(self._turn().array())
        if second.ndim == 1:
            second = jnp.diag(second)
        # Sums over an axis of length 3: a product of matrices would not fuse in a batch.
        center = jnp.sum(turn * center[None], axis=-1) + self.position
        half = jnp.sum(turn[:, :, None] * second[None], axis=1)
        return Moments(volume, center, jnp.sum(half[:, None, :] * turn[None], axis=-1))
