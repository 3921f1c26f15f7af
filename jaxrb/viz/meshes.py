"""Triangles on the surfaces of solids, for pictures."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import ConvexHull

from ..shapes import AbstractSolid
from ..shapes.lattice import fibonacci_lattice

_COARSE = 24  # cells along a side of the cube in which the solid is first looked for
_FEWEST = 12  # cells across the thinnest side of the solid
_MOST = 2_000_000  # points at which the signed distance is taken


class Mesh(NamedTuple):
    """A closed surface of triangles.

    Attributes:
        vertices: [m].
        faces: indices of vertices, counterclockwise seen from outside.
    """

    vertices: Float[np.ndarray, "n_vertices 3"]
    faces: Int[np.ndarray, "n_faces 3"]

    @property
    def triangles(self) -> Float[np.ndarray, "n_faces 3 3"]:
        """The corners of all triangles [m]."""
        return self.vertices[self.faces]

    @property
    def volume(self) -> float:
        """The volume [m^3] by the divergence theorem; negative if the surface is inside out."""
        a, b, c = np.moveaxis(self.triangles, 1, 0)
        return float(np.sum(a * np.cross(b, c)) / 6)

    def creased(self, angle: float = math.radians(30)) -> Mesh:
        """The mesh with its vertices doubled along edges that bend by more than an angle [rad].

        Programs that draw average the normals at a vertex; they then round what is smooth and
        leave edges sharp.
        """
        corner = self.faces.reshape(-1)
        # Each side of a triangle and the same side of its neighbour, which runs backwards.
        start, end = self.faces, np.roll(self.faces, -1, axis=1)
        count = len(self.vertices)
        own, other = (start * count + end).reshape(-1), (end * count + start).reshape(-1)
        order = np.argsort(own)
        place = np.minimum(np.searchsorted(own, other, sorter=order), len(own) - 1)
        facing = order[place]
        matched = own[facing] == other
        normal = normals(self.triangles)
        bend = np.sum(normal[np.arange(len(own)) // 3] * normal[facing // 3], axis=-1)
        joined = np.flatnonzero(matched & (bend > math.cos(angle)))
        # Side k runs from corner k to the next one of its triangle; its neighbour back.
        after = lambda k: k // 3 * 3 + (k + 1) % 3  # noqa: E731
        one = np.concatenate([joined, after(joined)])
        two = np.concatenate([after(facing[joined]), facing[joined]])
        graph = coo_array((np.ones(len(one), bool), (one, two)), shape=(len(own), len(own)))
        groups, label = connected_components(graph, directed=False)
        vertices = np.zeros((groups, 3))
        vertices[label] = self.vertices[corner]
        return Mesh(vertices, label.reshape(-1, 3))


def mesh(solid: AbstractSolid, n: int = 600, cells: int = 48) -> Mesh:
    """A closed surface of triangles about a solid, for pictures.

    Solids that are known to be convex are the hulls of their support points. Others, such as
    unions, intersections, differences and implicit solids, are found by marching cubes through
    their signed distance, which cuts off their edges by up to a cell.

    Args:
        solid: any.
        n: number of directions of support points.
        cells: along the longest side of a solid that is not convex.

    Returns:
        The mesh, in the shape's frame.

    Raises:
        ImportError: if the solid needs marching cubes and scikit-image is not installed.
        ValueError: if the solid is empty, or so thin that it is not found.
    """
    pieces = solid.pieces()
    if len(pieces) == 1 and pieces[0].is_convex:
        return _hull(pieces[0], n)
    return _march(solid, cells)


def surface(
    solid: AbstractSolid, n: int = 600, cells: int = 48
) -> Float[np.ndarray, "n_triangles 3 3"]:
    """Triangles on the surface of a solid, for pictures: those of each of its pieces, which
    keep their edges.

    A union has one mesh for each of its pieces; triangles of one that lie in another are left
    out, those that cross its surface stay, so that the whole is not closed as `mesh` is.

    Args:
        solid: any.
        n, cells: as for `mesh`.

    Returns:
        Corners, in the shape's frame [m], counterclockwise seen from outside.

    Raises:
        ImportError, ValueError: as for `mesh`.
    """
    pieces = solid.pieces()
    meshes = [mesh(piece, n, cells).triangles for piece in pieces]
    seen = []
    for index, corners in enumerate(meshes):
        others = (piece for k, piece in enumerate(pieces) if k != index)
        hidden = [np.all(_distance(piece, corners) < 0, axis=1) for piece in others]
        seen.append(corners[~np.any(hidden, axis=0)] if hidden else corners)
    return np.concatenate(seen)


def section(mesh: Mesh, axis: int) -> Float[np.ndarray, "n_lines 2 3"]:
    """Lines in which a mesh crosses the plane through the origin whose normal is an axis [m]."""
    triangles = mesh.triangles
    height = triangles[..., axis]
    above = height > 0
    triangles, height, above = (
        part[np.any(above, axis=1) & ~np.all(above, axis=1)] for part in (triangles, height, above)
    )
    # The corner that is alone on its side; the plane crosses the two sides that meet there.
    alone = np.argmax(above == (above.sum(axis=1) == 1)[:, None], axis=1)
    order = (alone[:, None] + np.arange(3)) % 3
    triangles = np.take_along_axis(triangles, order[..., None], axis=1)
    height = np.take_along_axis(height, order, axis=1)
    part = height[:, :1] / (height[:, :1] - height[:, 1:])
    return triangles[:, :1] + part[..., None] * (triangles[:, 1:] - triangles[:, :1])


def normals(triangles: np.ndarray) -> np.ndarray:
    """Of length 1, of triangles of shape (..., 3, 3); outward if these are counterclockwise.

    That of a triangle without area is zero.
    """
    a, b, c = np.moveaxis(triangles, -2, 0)
    normal = np.cross(b - a, c - a)
    length = np.linalg.norm(normal, axis=-1, keepdims=True)
    return normal / np.where(length > 0, length, 1.0)


# One program each: a picture needs no more.
_support = jax.jit(lambda solid, direction: solid.support(direction))
_distance = jax.jit(lambda solid, point: solid.signed_distance(point))


def _hull(solid: AbstractSolid, n: int) -> Mesh:
    directions = fibonacci_lattice(n).astype(solid.bounding_radius().dtype)
    points = np.asarray(_support(solid, directions), float)
    # Support points of a corner coincide up to round-off and to the radius of its rounding.
    size = np.ptp(points, axis=0).max()
    _, first = np.unique(np.round(points / (1e-6 * size)), axis=0, return_index=True)
    points = points[first]
    hull = ConvexHull(points)
    faces = hull.simplices.astype(np.int64)
    inward = np.sum(normals(points[faces]) * hull.equations[:, :3], axis=-1) < 0
    faces[inward] = faces[inward, ::-1]
    used, faces = np.unique(faces, return_inverse=True)
    return Mesh(points[used], faces.reshape(-1, 3))


def _march(solid: AbstractSolid, cells: int) -> Mesh:
    try:
        from skimage.measure import marching_cubes  # noqa: PLC0415  (optional)
    except ImportError as error:
        raise ImportError(
            "The mesh of a union, intersection, difference or implicit solid needs scikit-image: "
            'pip install "jaxrb[viz]".'
        ) from error
    low, high = _box(solid)
    extent = high - low
    step = max(
        min(extent.max() / cells, extent.min() / _FEWEST), (np.prod(extent) / _MOST) ** (1 / 3)
    )
    low, count = low - step, np.ceil(extent / step).astype(int) + 3
    values = _values(solid, [low[k] + step * np.arange(count[k]) for k in range(3)])
    if not (values < 0).any():
        raise ValueError(f"{type(solid).__name__} is empty or too thin for a mesh: raise cells.")
    vertices, faces, _, _ = marching_cubes(
        values, 0.0, spacing=(step,) * 3, gradient_direction="descent", allow_degenerate=False
    )
    return Mesh(low + vertices, faces.astype(np.int64))


def _box(solid: AbstractSolid) -> tuple[np.ndarray, np.ndarray]:
    """Corners of a box that holds the solid [m], with little room to spare."""
    low, high = np.full(3, -float(solid.bounding_radius())), np.full(3, solid.bounding_radius())
    for _ in range(2):
        step = (high - low) / _COARSE
        axes = [low[k] + step[k] * np.arange(_COARSE + 1) for k in range(3)]
        # A point of the solid is at most half a diagonal from one of the lattice, and no signed
        # distance is steeper than 2 (see `Implicit`).
        near = np.argwhere(_values(solid, axes) <= np.linalg.norm(step))
        if not len(near):
            raise ValueError(f"{type(solid).__name__} is empty.")
        low, high = low + step * near.min(axis=0), low + step * near.max(axis=0)
    return low, high


def _values(solid: AbstractSolid, axes: list[np.ndarray]) -> np.ndarray:
    """The signed distance on a lattice [m]."""
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    flat = points.reshape(-1, 3).astype(solid.bounding_radius().dtype)
    return np.asarray(_distance(solid, flat), float).reshape(points.shape[:-1])
