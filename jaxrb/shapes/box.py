"""Boxes."""

import itertools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..math import Vec3, dot, hadamard, norm
from .base import AbstractSolid, Moments, flat_sign, length_parameter
from .csg.normal_form import Surfaces, planes
from .point import Point


class Box(AbstractSolid):
    """The solid |x| <= a, |y| <= b, |z| <= c. The signed distance is exact.

    Attributes:
        half_extents: (a, b, c) [m], positive.
    """

    half_extents: Float[Array, "3"]

    def __init__(self, half_extents):
        self.half_extents = length_parameter(half_extents, "Box.half_extents", (3,))

    def support_map(self, direction: Vec3):
        """The corner furthest along d; the middle of the edge or face if several are."""
        d = direction
        signs = Vec3(flat_sign(d.x), flat_sign(d.y), flat_sign(d.z))
        corner = hadamard(Vec3.of(self.half_extents), signs)
        return dot(corner, direction), corner

    def distance_map(self, point: Vec3):
        half = Vec3.of(self.half_extents)
        x, y, z = jnp.abs(point.x) - half.x, jnp.abs(point.y) - half.y, jnp.abs(point.z) - half.z
        deepest = jnp.maximum(x, jnp.maximum(y, z))
        # Outside of one face only the length below is that face's distance, with its slope.
        outside = Vec3(jnp.maximum(x, 0.0), jnp.maximum(y, 0.0), jnp.maximum(z, 0.0))
        return jnp.where(deepest > 0, norm(outside), deepest)

    def surfaces(self):
        half = self.half_extents
        sides = np.concatenate([np.eye(3), -np.eye(3)])
        signs = np.stack(np.meshgrid(*[(-1, 1)] * 3), axis=-1).reshape(8, 3)
        normals = jnp.asarray(sides, half.dtype)
        corners = jnp.asarray(signs, half.dtype) * half[None]
        return Surfaces(planes(normals, jnp.tile(half, 2)), (True,) * 6, corners)

    def strictly_convex_parts(self):
        signs = itertools.product((-1.0, 1.0), repeat=3)
        return tuple(
            Point(self.half_extents * jnp.asarray(s, self.half_extents.dtype)) for s in signs
        )

    @property
    def is_convex(self):
        return True

    @property
    def is_centered(self):
        return True

    def bounding_radius(self):
        return jnp.sqrt(jnp.sum(self.half_extents**2))

    def uniform_moments(self):
        return self.rounded_moments(jnp.zeros((), self.half_extents.dtype))

    def rounded_moments(self, radius):
        """A rounded box is a core, six slabs, four quarter cylinders along each axis and
        eight octants of a ball; the moment along each axis is the sum over these."""
        r, (x, y, z) = radius, self.half_extents
        volume = (
            8 * x * y * z
            + 8 * r * (x * y + y * z + z * x)
            + 2 * jnp.pi * r**2 * (x + y + z)
            + 4 / 3 * jnp.pi * r**3
        )
        # Of the squares of the coordinates: along each axis a, across it b and c.
        a, b, c = (jnp.roll(self.half_extents, -k) for k in range(3))
        across = (
            8 * a**3 * b * c / 3  # core
            + 8 * a**3 * (b + c) * r / 3  # slabs on the faces across it
            + 2 * jnp.pi * r**2 * a**3 / 3  # quarter cylinders along it
        )
        end_slabs = 8 * b * c * ((a + r) ** 3 - a**3) / 3
        end_edges = 2 * (b + c) * (jnp.pi * r**2 * a**2 + 8 * a * r**3 / 3 + jnp.pi * r**4 / 4)
        corners = 4 / 3 * jnp.pi * r**3 * a**2 + jnp.pi * a * r**4 + 4 / 15 * jnp.pi * r**5
        return Moments.symmetric(volume, across + end_slabs + end_edges + corners)
