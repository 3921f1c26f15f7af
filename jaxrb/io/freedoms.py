"""What the joints of one body are together."""

from __future__ import annotations

from typing import Any

import numpy as np

# Axes are perpendicular, or independent, up to the digits that files have.
_PERPENDICULAR = 1e-6
_INDEPENDENT = 1e-3


def kinds_of(mujoco: Any, model: Any, joints: range) -> list[str]:
    """The types of joints, as MJCF writes them."""
    kinds = [mujoco.mjtJoint(int(model.jnt_type[joint])) for joint in joints]
    return [kind.name.removeprefix("mjJNT_").lower() for kind in kinds]


def freedom(mujoco: Any, model: Any, joints: range) -> str | None:
    """The motion that the joints of a body leave it.

    Three hinges whose axes meet in a point, each axis perpendicular to the next, leave all
    rotations free. Two whose axes are not parallel are a universal joint. Three slides along
    independent axes before a ball joint, or before such hinges, leave everything free. Two slides,
    alone or before a hinge, all along perpendicular axes, are the motion in a plane.

    Returns:
        "free", "ball", "hinge", "slide", "universal" or "planar"; None if it is none of these.
    """
    kinds = kinds_of(mujoco, model, joints)
    if len(kinds) == 1:
        return kinds[0]
    slides = kinds.count("slide")
    axes = np.array(model.jnt_axis[joints.start : joints.stop])
    if kinds in (["slide"] * 2, ["slide"] * 2 + ["hinge"]):
        square = np.abs(axes @ axes.T - np.eye(len(axes))).max() < _PERPENDICULAR
        return "planar" if square else None
    turning = _turning(model, kinds[slides:], joints[slides:], axes[slides:])
    if slides == 0:
        return turning
    translates = kinds[:slides] == ["slide"] * 3 and abs(np.linalg.det(axes[:3])) > _INDEPENDENT
    return "free" if translates and turning == "ball" else None


def _turning(model: Any, kinds: list[str], joints: range, axes: np.ndarray) -> str | None:
    if kinds == ["ball"]:
        return "ball"
    if kinds not in (["hinge"] * 2, ["hinge"] * 3):
        return None
    if len(kinds) == 2:
        apart = np.linalg.norm(np.cross(axes[0], axes[1])) > _INDEPENDENT
        return "universal" if apart else None
    anchors = np.array(model.jnt_pos[joints.start : joints.stop])
    scale = 1 + np.abs(anchors).max()
    meeting = np.abs(anchors - anchors[0]).max() <= _PERPENDICULAR * scale
    along = np.abs([axes[0] @ axes[1], axes[1] @ axes[2]])
    return "ball" if meeting and along.max() < _PERPENDICULAR else None
