"""Convex polyhedra."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.spatial import ConvexHull, QhullError

from .._validate import known, positive_count, real_array, require
from ..math import Vec3, cross, dot, norm
from .base import AbstractSolid, Moments
from .csg.normal_form import Surfaces, planes
from .point import Point


class ConvexPolyhedron(AbstractSolid):
    """The convex hull of points. The signed distance is exact.

    The faces are found once, by Qhull, when the solid is made; they stay if the vertices are
    changed later, which must then stay convex.

    Attributes:
        vertices: [m], shape (n, 3) with n >= 4. Points inside of the hull count for nothing.
        faces: triangles, as indices of vertices counter-clockwise from outside,
            shape (2 n - 4, 3). Unused ones are (0, 0, 0).

    Args:
        vertices: as above.
        pad_to: the number n of vertices to fill up to, so that polyhedra with fewer vertices
            can be stacked in one batch.

    Raises:
        ValueError: for fewer than four vertices, vertices in one plane, or vertices that are
            not finite.
    """

    vertices: Float[Array, "n 3"]
    faces: Int[Array, "m 3"] | None  # None where only the support is asked for

    def __init__(self, vertices, pad_to: int | None = None):
        name = "ConvexPolyhedron.vertices"
        vertices = real_array(vertices, name)
        if vertices.ndim != 2 or vertices.shape[1] != 3 or vertices.shape[0] < 4:
            raise ValueError(f"{name} must have shape (n, 3), n >= 4; got {vertices.shape}.")
        require(vertices, name, np.isfinite, "finite")
        if pad_to is not None:
            missing = positive_count(pad_to, "ConvexPolyhedron.pad_to") - len(vertices)
            if missing < 0:
                raise ValueError(
                    f"ConvexPolyhedron.pad_to must be at least {len(vertices)}, the number of "
                    f"vertices; got {pad_to}."
                )
            # Inside of the hull, where they never are furthest.
            inside = jax.lax.stop_gradient(jnp.mean(vertices, axis=0))
            vertices = jnp.concatenate([vertices, jnp.tile(inside, (missing, 1))])
        self.vertices = vertices
        numbers = known(vertices)
        if numbers is None:
            shape = jax.ShapeDtypeStruct((2 * len(vertices) - 4, 3), jnp.int32)
            points = jax.lax.stop_gradient(vertices)
            self.faces = jax.pure_callback(_faces_or_none, shape, points, vmap_method="sequential")
        else:
            try:
                self.faces = jnp.asarray(_faces(numbers))
            except QhullError as error:
                raise ValueError(
                    f"{name} must not lie in one plane; got {numbers.tolist()}."
                ) from error

    def parts(self):
        """Itself without its faces, which touching does not need."""
        return (eqx.tree_at(lambda shape: shape.faces, self, None),)

    def strictly_convex_parts(self):
        return tuple(Point(vertex) for vertex in self.vertices)

    def _corners(self) -> tuple[Vec3, Vec3, Vec3]:
        """The corners of the faces; components of shape (n_faces,)."""
        assert self.faces is not None
        a, b, c = (Vec3.of(self.vertices[self.faces[:, k]]) for k in range(3))
        return a, b, c

    def support_map(self, direction: Vec3):
        """The middle of all vertices that are furthest to round-off."""
        d = _with_axis(direction)
        vertices = _lifted(Vec3.of(self.vertices), d)
        heights = jax.lax.stop_gradient(dot(d, vertices))
        furthest = jnp.max(heights, axis=-1, keepdims=True)
        size = jnp.max(jax.lax.stop_gradient(norm(vertices)), axis=-1, keepdims=True)
        near = heights >= furthest - 8 * jnp.finfo(heights.dtype).eps * size
        weight = near.astype(heights.dtype)
        weight = weight / jnp.sum(weight, axis=-1, keepdims=True)
        point = jax.tree.map(lambda v: jnp.sum(weight * v, axis=-1), vertices)
        return dot(point, direction), point

    @property
    def is_convex(self):
        return True

    def distance_map(self, point: Vec3):
        """Inside by the planes of the faces, outside by the faces and their edges."""
        p = _with_axis(point)
        a, b, c = (_lifted(corner, p) for corner in self._corners())
        normal = cross(b - a, c - a)
        area = norm(normal)
        real = area > 0
        normal = normal / jnp.where(real, area, 1.0)
        height = dot(normal, p - a)
        height = jnp.where(real, height, jnp.full_like(height, -jnp.inf))
        deepest = _entry(height, jnp.argmax(height, axis=-1))
        above = jnp.ones(height.shape, bool)
        least = jnp.full(height.shape, jnp.inf, height.dtype)
        for start, end in ((a, b), (b, c), (c, a)):
            along, arm = end - start, p - start
            above &= dot(cross(normal, along), arm) >= 0
            length = dot(along, along)
            part = jnp.clip(dot(arm, along) / jnp.where(real, length, 1.0), 0.0, 1.0)
            least = jnp.minimum(least, norm(arm - along * part))
        least = jnp.where(real, least, jnp.full_like(least, jnp.inf))
        outside = jnp.where(above & real & (height > 0), height, least)
        return jnp.where(deepest > 0, _entry(outside, jnp.argmin(outside, axis=-1)), deepest)

    def surfaces(self):
        """The planes of the faces; those of unused ones have no slope and everything inside."""
        a, b, c = self._corners()
        normal = cross(b - a, c - a)
        area = norm(normal)
        real = area > 0
        normal = normal / jnp.where(real, area, 1.0)
        offset = jnp.where(real, dot(normal, a), self.bounding_radius())
        return Surfaces(planes(normal.array(), offset), (True,) * len(area), self.vertices)

    def lengths(self):
        return []

    def bounding_radius(self):
        return jnp.max(norm(Vec3.of(self.vertices)))

    def uniform_moments(self):
        """Over the tetrahedra from a point inside to each face, counted with their sign
        (Mirtich's integrals, taken over simplices)."""
        middle = jnp.mean(self.vertices, axis=0)
        a, b, c = ((corner - Vec3.of(middle)) for corner in self._corners())
        det = dot(a, cross(b, c))
        volume = jnp.sum(det) / 6
        total = (a + b + c).array()
        center = jnp.sum(det[:, None] * total, axis=0) / (24 * volume)
        corners = jnp.stack([a.array(), b.array(), c.array(), total])
        products = jnp.sum(corners[..., :, None] * corners[..., None, :], axis=0)
        second = jnp.sum(det[:, None, None] * products, axis=0) / 120
        second = second - volume * center[:, None] * center[None, :]
        return Moments(volume, center + middle, second)


def _entry(values: Float[Array, "... m"], index: Int[Array, ...]) -> Float[Array, ...]:
    """One entry along the last axis, chosen by comparison.

    The derivative of `jnp.max` compares values that a compiler may compute twice, with
    different round-off.
    """
    order = jax.lax.broadcasted_iota(index.dtype, values.shape, values.ndim - 1)
    chosen = order == index[..., None]
    return jnp.sum(jnp.where(chosen, values, jnp.zeros_like(values)), axis=-1)


def _with_axis(v: Vec3) -> Vec3:
    """Adds a trailing axis for vertices or faces."""
    return Vec3(v.x[..., None], v.y[..., None], v.z[..., None])


def _lifted(v: Vec3, like: Vec3) -> Vec3:
    """Adds leading axes of length 1 up to the number of axes of `like`."""
    missing = tuple(range(like.x.ndim - v.x.ndim))
    return jax.tree.map(lambda leaf: jnp.expand_dims(leaf, missing), v)


def _faces(vertices: np.ndarray) -> np.ndarray:
    """The triangles of the hull, oriented outwards and filled up."""
    points = np.asarray(vertices, float)
    hull = ConvexHull(points)
    a, b, c = (points[hull.simplices[:, k]] for k in range(3))
    outward = np.einsum("fi,fi->f", np.cross(b - a, c - a), hull.equations[:, :3]) > 0
    faces = np.where(outward[:, None], hull.simplices, hull.simplices[:, ::-1])
    filled = np.zeros((2 * len(points) - 4, 3), np.int32)
    filled[: len(faces)] = faces
    return filled


def _faces_or_none(vertices: np.ndarray) -> np.ndarray:
    """`_faces` while traced: without a hull there are none, and the volume is zero."""
    try:
        return _faces(vertices)
    except (QhullError, ValueError):
        return np.zeros((2 * len(vertices) - 4, 3), np.int32)
