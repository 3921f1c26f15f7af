"""Solids and bodies from meshes."""

from __future__ import annotations

from functools import reduce
from os import PathLike
from typing import Any, Literal

import numpy as np

from .._validate import positive_number
from ..bodies import RigidBody
from ..shapes import AbstractSolid, ConvexPolyhedron, Union
from .paths import existing_file

Hulls = Literal["components"] | None


def load_mesh(path: str | PathLike, *, hulls: Hulls = None, scale: float = 1.0) -> AbstractSolid:
    """The solid of a closed mesh, by convex hulls, in the axes and about the origin of the file.

    Args:
        path: an STL, OBJ, PLY or other file that trimesh opens.
        hulls: None takes the convex hull of all of it, "components" that of each connected
            component: a solid that is not convex is then a file of convex parts.
        scale: metres per unit of the file, such as 1e-3 for millimetres.

    Returns:
        A `ConvexPolyhedron`, or the `Union` of several.

    Raises:
        FileNotFoundError: if there is no such file.
        ImportError: if trimesh is not installed.
        ValueError: if the file is no mesh, or the mesh is not closed.
    """
    _, parts = _opened(path, hulls, scale)
    return _union([convex_hull(part.vertices) for part in parts])


def load_body(
    path: str | PathLike,
    *,
    mass: float | None = None,
    density: float | None = None,
    hulls: Hulls = None,
    scale: float = 1.0,
) -> RigidBody:
    """The rigid body of a closed mesh of uniform density.

    Its mass, centre of mass and inertia are those of the mesh itself, cavities and hollows
    included (where components overlap, they count twice); contacts see its hulls. The axes of
    the body are those of the file, and its origin is the centre of mass.

    Args:
        path, hulls, scale: of `load_mesh`.
        mass: [kg]; give this or the density.
        density: [kg/m^3].

    Raises:
        FileNotFoundError: if there is no such file.
        ImportError: if trimesh is not installed.
        ValueError: if the file is no mesh, the mesh is not closed, or not exactly one of mass
            and density is given.
    """
    if (mass is None) == (density is None):
        raise ValueError("load_body needs exactly one of mass=... and density=....")
    mesh, parts = _opened(path, hulls, scale)
    volume, center, second = _moments(np.asarray(mesh.triangles, float))
    if density is not None:
        mass = positive_number(density, "density") * volume
    assert mass is not None
    inertia = positive_number(mass, "mass") / volume * (np.trace(second) * np.eye(3) - second)
    shape = _union([convex_hull(part.vertices - center) for part in parts])
    return RigidBody(shape, mass, inertia)


def convex_hull(vertices: Any) -> ConvexPolyhedron:
    """The convex hull of points [m], with its corners alone.

    Raises:
        ValueError: if they lie in one plane.
    """
    # Not for `import jaxrb.io`: it takes long.
    from scipy.spatial import ConvexHull, QhullError  # noqa: PLC0415

    points = np.asarray(vertices, float)
    try:
        return ConvexPolyhedron(points[np.sort(ConvexHull(points).vertices)])
    except QhullError as error:
        raise ValueError("The points of a mesh must not lie in one plane.") from error


def _opened(path: str | PathLike, hulls: Hulls, scale: float) -> tuple[Any, list]:
    """A closed mesh with its faces outwards, in metres, and the parts that have a hull."""
    path = existing_file(path)
    if hulls not in (None, "components"):
        raise ValueError(f'hulls must be None or "components"; got {hulls!r}.')
    try:
        import trimesh  # noqa: PLC0415  (optional)
    except ImportError as error:
        raise ImportError('Meshes need trimesh: pip install "jaxrb[mesh]".') from error
    try:
        mesh = trimesh.load_mesh(path)
        whole = len(mesh.faces) > 0
    except Exception as error:  # whatever trimesh and the libraries behind it raise
        raise ValueError(f"{path} is no mesh that trimesh understands: {error}") from error
    if not whole:
        raise ValueError(f"{path} has no faces.")
    mesh.apply_scale(positive_number(scale, "scale"))
    parts = list(mesh.split(only_watertight=False)) if hulls else [mesh]
    for part in (mesh, *parts):
        if not (part.is_watertight and part.is_winding_consistent):
            raise ValueError(
                f"{path} is not closed: the mesh has holes, or faces turned inside out, so that "
                "it has no volume. Close it, for example with trimesh.repair, or save its "
                "convex hull."
            )
    # Faces may be turned inwards all together; components that are then inside out are hollows.
    sign = np.sign(mesh.volume)
    parts = [part for part in parts if sign * part.volume > 0]
    if sign < 0:
        mesh.invert()
    return mesh, parts


def _union(solids: list) -> AbstractSolid:
    return reduce(Union, solids)


def _moments(triangles: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Volume [m^3], centre of mass [m] and the integral of z z^T about it [m^5], over the
    tetrahedra from a point inside to each face of triangles of shape (n_faces, 3, 3)."""
    middle = triangles.mean(axis=(0, 1))
    corners = triangles - middle
    det = np.linalg.det(corners)
    total = corners.sum(axis=1)
    volume = det.sum() / 6
    center = det @ total / (24 * volume)
    points = np.concatenate([corners, total[:, None]], axis=1)
    second = np.einsum("f,fki,fkj->ij", det, points, points) / 120
    second -= volume * np.outer(center, center)
    return float(volume), center + middle, (second + second.T) / 2
