"""Solids and bodies from meshes."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .._validate import positive_number
from ..bodies import RigidBody
from ..shapes import AbstractSolid, ConvexPolyhedron, Union
from .paths import existing_file

Hulls = Literal["whole", "components"] | None
# By how much the volume of a convex hull may exceed that of a mesh that counts as convex, relative
# to the latter. Facets and numbers of single precision stay far below it.
CONVEX = 1e-3


def load_mesh(path: str | PathLike, *, hulls: Hulls = None, scale: float = 1.0) -> AbstractSolid:
    """The solid of a closed mesh, by convex hulls, in the axes and about the origin of the file.

    A mesh is convex if its hull has at most a thousandth more volume than it. What is hollow
    inside does not matter.

    Args:
        path: an STL, OBJ, PLY or other file that trimesh opens.
        hulls: None takes a convex mesh as it is. "components" takes each connected component,
            which must be convex, so that a solid that is not convex is a file of convex parts.
            "whole" takes the convex hull of all of it, whatever that fills: holes and gaps too.
        scale: metres per unit of the file, such as 1e-3 for millimetres.

    Returns:
        A `ConvexPolyhedron`, or the `Union` of several.

    Raises:
        FileNotFoundError: if there is no such file.
        ImportError: if trimesh is not installed.
        ValueError: if the file is no mesh, or the mesh is not closed, or, without
            hulls="whole", not convex.
    """
    path = existing_file(path)
    _, parts = _opened(path, hulls, scale)
    return _solid(path, parts, hulls, np.zeros(3))


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
        ValueError: if the file is no mesh, the mesh is not closed, or, without hulls="whole",
            not convex, or not exactly one of mass and density is given.
    """
    if (mass is None) == (density is None):
        raise ValueError("load_body needs exactly one of mass=... and density=....")
    path = existing_file(path)
    mesh, parts = _opened(path, hulls, scale)
    volume, center, second = _moments(np.asarray(mesh.triangles, float))
    if density is not None:
        mass = positive_number(density, "density") * volume
    assert mass is not None
    inertia = positive_number(mass, "mass") / volume * (np.trace(second) * np.eye(3) - second)
    return RigidBody(_solid(path, parts, hulls, center), mass, inertia)


def convex_hull(vertices: Any) -> tuple[ConvexPolyhedron, float]:
    """The convex hull of points [m], with its corners alone, and its volume [m^3].

    Raises:
        ValueError: if they lie in one plane.
    """
    # Not for `import jaxrb.io`: it takes long.
    from scipy.spatial import ConvexHull, QhullError  # noqa: PLC0415

    points = np.asarray(vertices, float)
    try:
        hull = ConvexHull(points)
    except QhullError as error:
        raise ValueError("The points of a mesh must not lie in one plane.") from error
    return ConvexPolyhedron(points[np.sort(hull.vertices)]), float(hull.volume)


def _solid(path: Path, parts: list, hulls: Hulls, origin: np.ndarray) -> AbstractSolid:
    """The solid of the components of a mesh, in a frame with its origin at `origin`."""
    groups = [[part] for part in parts] if hulls == "components" else [parts]
    solids = []
    for group in groups:
        vertices = np.concatenate([np.asarray(part.vertices) for part in group])
        try:
            solid, volume = convex_hull(vertices - origin)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        # One component must fill the hull: those that overlap have more volume than they fill.
        filled = max(abs(_volume(part)) for part in group)
        if hulls != "whole" and volume > (1 + CONVEX) * filled:
            raise ValueError(f"{path} {_not_convex(volume / filled, len(parts), hulls)}")
        solids.append(solid)
    return union(solids)


def _not_convex(ratio: float, n_parts: int, hulls: Hulls) -> str:
    remedies = ['accept the convex hull of all of it with load(..., hulls="whole")']
    if hulls is None and n_parts > 1:
        remedies.insert(0, f'take the hull of each of its {n_parts} parts with hulls="components"')
    else:
        remedies.insert(
            0,
            "split it into closed convex parts that do not share vertices, for example with "
            'CoACD or V-HACD, save them in one file and open it with hulls="components"',
        )
    what = "has a component that is not convex" if hulls else "is not convex"
    return (
        f"{what}: its convex hull, which would stand for it, has {ratio:.4g} times its volume. "
        f"Either {', or '.join(remedies)}."
    )


def _opened(path: Path, hulls: Hulls, scale: float) -> tuple[Any, list]:
    """A closed mesh with its faces outwards, in metres, and its components, without hollows."""
    if hulls not in (None, "whole", "components"):
        raise ValueError(f'hulls must be None, "whole" or "components"; got {hulls!r}.')
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
    parts = list(mesh.split(only_watertight=False))
    for part in (mesh, *parts):
        if not (part.is_watertight and part.is_winding_consistent):
            raise ValueError(
                f"{path} is not closed: the mesh has holes, or faces turned inside out, so that "
                "it has no volume. Close it, for example with trimesh.repair, or save its "
                "convex hull."
            )
    # Faces may be turned inwards all together; components that are then inside out are hollows.
    sign = np.sign(_volume(mesh))
    parts = [part for part in parts if sign * _volume(part) > 0]
    if not parts:
        raise ValueError(f"{path} encloses no volume.")
    if sign < 0:
        mesh.invert()
    return mesh, parts


def union(solids: Sequence[AbstractSolid]) -> AbstractSolid:
    """The union of solids, in halves of halves: hundreds in a row would be nested too deep."""
    if len(solids) == 1:
        return solids[0]
    half = (len(solids) + 1) // 2
    return Union(union(solids[:half]), union(solids[half:]))


def _volume(mesh: Any) -> float:
    """The volume of a closed mesh [m^3]; negative if it is inside out."""
    corners = np.asarray(mesh.triangles, float)
    return float(np.linalg.det(corners - corners.mean(axis=(0, 1))).sum() / 6)


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
