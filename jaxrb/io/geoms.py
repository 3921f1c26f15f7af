"""Solids and half-spaces from compiled geoms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from ..shapes import (
    AbstractSolid,
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    HalfSpace,
    Placed,
    Sphere,
)
from .mesh import CONVEX, convex_hull, union
from .report import Losses
from .unsupported import name_of
from .welded_groups import EPS, Group, Pose

# From the sizes that MuJoCo gives them.
_PRIMITIVES: dict[str, Callable[[np.ndarray], AbstractSolid]] = {
    "sphere": lambda size: Sphere(size[0]),
    "ellipsoid": Ellipsoid,
    "box": Box,
    "capsule": lambda size: Capsule(size[0], size[1]),
    "cylinder": lambda size: Cylinder(size[0], size[1]),
}


def geom_kind(mujoco: Any, model: Any, geom: int) -> str:
    """The type of a geom, as MJCF writes it."""
    return mujoco.mjtGeom(model.geom_type[geom]).name.removeprefix("mjGEOM_").lower()


def is_solid(kind: str) -> bool:
    """Whether geoms of a type become solids."""
    return kind == "mesh" or kind in _PRIMITIVES


def group_shape(
    mujoco: Any, model: Any, group: Group, geoms: list[int], losses: Losses
) -> AbstractSolid | None:
    """The union of the geoms that are known solids, about the centre of mass; None without any."""
    solids = []
    for geom in geoms:
        if not is_solid(geom_kind(mujoco, model, geom)):
            continue
        place = group.places[int(model.geom_bodyid[geom])]
        own = place.then(Pose.of(model.geom_pos[geom], model.geom_quat[geom]))
        shift = own.position - group.inertial.center
        reach = np.abs(own.position) + np.abs(group.inertial.center)
        shift = np.where(np.abs(shift) <= 16 * EPS * reach.max(), 0.0, shift)
        solids.append(_solid(mujoco, model, geom, Pose(shift, own.turn), losses))
    return union(solids) if solids else None


def inertia_ellipsoid(group: Group) -> AbstractSolid:
    """The ellipsoid of uniform density that has the mass and inertia of the group."""
    mass, _, inertia = group.inertial
    moments, axes = np.linalg.eigh(inertia)
    if np.linalg.det(axes) < 0:
        axes = -axes
    squares = 2.5 / mass * (moments.sum() - 2 * moments)
    # A flat or thin body has none; a sliver stands for it.
    semi_axes = np.sqrt(np.maximum(squares, 1e-6 * squares.max()))
    return _placed(Ellipsoid(semi_axes), Pose(np.zeros(3), Rotation.from_matrix(axes)))


def obstacle(
    mujoco: Any, model: Any, geom: int, body: Pose, losses: Losses
) -> HalfSpace | AbstractSolid:
    """The half-space or the solid of a geom on a body that is fixed at a pose in the world."""
    pose = body.then(Pose.of(model.geom_pos[geom], model.geom_quat[geom]))
    if geom_kind(mujoco, model, geom) == "plane":  # its z-axis points out of it
        normal = pose.turn.apply([0.0, 0.0, 1.0])
        return HalfSpace(normal, normal @ pose.position)
    return _solid(mujoco, model, geom, pose, losses)


def _solid(mujoco: Any, model: Any, geom: int, pose: Pose, losses: Losses) -> AbstractSolid:
    kind = geom_kind(mujoco, model, geom)
    if kind == "mesh":
        return _hull(model, int(model.geom_dataid[geom]), pose, losses)
    if kind == "sphere":  # the same however it is turned
        pose = Pose(pose.position, Rotation.identity())
    return _placed(_PRIMITIVES[kind](np.array(model.geom_size[geom])), pose)


def _hull(model: Any, mesh: int, pose: Pose, losses: Losses) -> AbstractSolid:
    """The convex hull of a mesh, as MuJoCo takes it."""
    start, first = int(model.mesh_vertadr[mesh]), int(model.mesh_faceadr[mesh])
    vertices = np.array(model.mesh_vert[start : start + int(model.mesh_vertnum[mesh])], float)
    faces = np.array(model.mesh_face[first : first + int(model.mesh_facenum[mesh])])
    hull, volume = convex_hull(pose.turn.apply(vertices) + pose.position)
    corners = vertices[faces] - vertices.mean(axis=0)
    own = np.linalg.det(corners).sum() / 6
    if volume > (1 + CONVEX) * abs(own):
        losses.assumed(
            f"The mesh {name_of(model, 'mesh', mesh)!r} is not convex or not closed; its convex "
            "hull stands for it, as in MuJoCo."
        )
    return hull


def _placed(solid: AbstractSolid, pose: Pose) -> AbstractSolid:
    """The solid itself, where it stays in place."""
    quaternion = pose.turn.as_quat(scalar_first=True)
    if not pose.position.any() and np.abs(quaternion[1:]).max() <= 16 * EPS:
        return solid
    return Placed(solid, pose.position, quaternion)
