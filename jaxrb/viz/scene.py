"""What viser shows of a replay: obstacles, bodies, paths, arrows, the time and the camera."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.transform import Rotation

from ..bodies.joints.base import AbstractJoint, AbstractMovingJoint
from ..shapes import HalfSpace
from .figure import ORANGE, body_color
from .meshes import Mesh, section
from .obstacles import drawn, planes
from .snapshots import cut, is_steep, plane_axes, square_side, squares, view_axes

if TYPE_CHECKING:
    from .replay import Replay

_GROUND, _LINES = "#E0E0E0", "#B4B4B4"
_FORCES, _JOINTS = "#404040", "#202020"
_SLIM = 0.025  # radius of the shaft of arrows, in lengths of the longest
_MARK = 0.04  # radius of the balls that mark joints, in sizes of the largest body
_GHOST = 0.3  # opacity
_SIZE = 6.0  # of the scene, in units of the page
_SAMPLES = 64  # frames, and vertices of a body, that tell how large the scene is
_AZIMUTH = math.radians(-50)  # of the camera
_VIEW = math.radians(45)  # its vertical angle of view
_ASPECT = 1.4  # of the window, about


@dataclass(frozen=True)
class Extent:
    """A box about all bodies at all times, world frame."""

    low: np.ndarray
    high: np.ndarray

    @staticmethod
    def of(replay: Replay) -> Extent:
        """The extent [m] of some vertices in some frames, which is enough for a picture."""
        some = slice(None, None, max(1, len(replay.times) // _SAMPLES))
        low, high = np.full(3, np.inf), np.full(3, -np.inf)
        for body, skin in enumerate(replay.meshes):
            points = skin.vertices[:: max(1, len(skin.vertices) // _SAMPLES)]
            turn = Rotation.from_quat(
                replay.quaternion[:, some, body].reshape(-1, 4), scalar_first=True
            )
            moved = np.einsum("tij,nj->tni", turn.as_matrix(), points)
            moved += replay.position[:, some, body].reshape(-1, 1, 3)
            low = np.minimum(low, moved.min(axis=(0, 1)))
            high = np.maximum(high, moved.max(axis=(0, 1)))
        return Extent(low, high)

    def scaled(self, unit: float) -> Extent:
        """The same extent in another unit of length."""
        return Extent(unit * self.low, unit * self.high)

    @property
    def size(self) -> float:
        """The length of the longest side."""
        return float(np.max(self.high - self.low))

    @property
    def center(self) -> np.ndarray:
        return (self.low + self.high) / 2

    @property
    def corners(self) -> np.ndarray:
        """Shape (8, 3)."""
        ends = zip(self.low, self.high, strict=True)
        return np.stack(np.meshgrid(*ends, indexing="ij"), axis=-1).reshape(-1, 3)

    def camera(self) -> tuple[np.ndarray, np.ndarray]:
        """A place from which the whole box is seen, and the point to look at, which puts the box in
        the middle of the picture."""
        width, depth, height = self.high - self.low
        # The flatter the scene, the more from above.
        flat = 1 - min(1.0, height / math.hypot(width, depth))
        view = view_axes(_AZIMUTH, math.radians(8 + 24 * flat))
        slope, target = math.tan(_VIEW / 2), self.center
        for _ in range(4):  # each hardly moves it further
            right, up, towards = view @ (self.corners - target).T
            needed = towards + np.maximum(np.abs(right) / (_ASPECT * slope), np.abs(up) / slope)
            distance = needed.max()
            page = np.stack([right, up]) / (distance - towards)
            target = target + distance * (page.max(axis=1) + page.min(axis=1)) / 2 @ view[:2]
        return target + 1.14 * distance * view[2], target


class Scene:
    """What a viser server shows of a replay.

    Its unit of length makes all scenes equally large: the shadows, and how near the camera may
    come, are made for that size.
    """

    def __init__(self, server, replay: Replay):
        self._replay, self._frame = replay, 0
        self._unit = unit = _SIZE / replay.extent.size
        scene, extent = server.scene, replay.extent.scaled(unit)
        start = server.initial_camera
        (start.position, start.look_at), start.fov = extent.camera(), _VIEW
        start.up = (0.0, 0.0, 1.0)
        flat = planes(replay.world.obstacles)
        for index in flat:
            _add_plane(scene, flat, index, replay.extent, unit)
        self._obstacles = {
            index: _add_obstacle(scene, replay, index, unit)
            for index in range(len(replay.world.obstacles))
            if index not in flat
        }
        skins = {
            id(mesh): (mesh.creased(), np.concatenate([section(mesh, axis) for axis in range(3)]))
            for mesh in replay.meshes
        }
        self._bodies = [
            [
                _add_body(scene, replay, lane, body, unit, *skins[id(mesh)])
                for body, mesh in enumerate(replay.meshes)
            ]
            for lane in range(len(replay.position))
        ]
        if replay.trace:
            _add_paths(scene, unit * replay.position)
        arrows = unit * replay.arrows
        lengths = np.linalg.norm(arrows[:, 1] - arrows[:, 0], axis=-1)
        width = _SLIM * lengths.max(initial=0.0)
        self._arrows = [
            _add_arrow(scene, f"/impacts/{index}", arrow, ORANGE, width, visible=bool(shown))
            for index, (arrow, shown) in enumerate(zip(arrows, replay.arrow_shown[0], strict=True))
        ]
        self._force_arrows = forces = unit * replay.force_arrows
        lengths = np.linalg.norm(forces[..., 1, :] - forces[..., 0, :], axis=-1)
        self._force_width = _SLIM * lengths.max(initial=0.0)
        self._forces = [
            _add_arrow(
                scene, f"/forces/{index}", arrow, _FORCES, self._force_width, visible=length > 0
            )
            for index, (arrow, length) in enumerate(zip(forces[0], lengths[0], strict=True))
        ]
        for index, joint in enumerate(replay.world.joints):
            _add_joint(scene, index, joint, unit, _MARK * replay.body_size)
        top = np.append(extent.center[:2], extent.high[2])
        self._label = scene.add_label(
            "/time", replay.label(0), position=top, anchor="bottom-center", font_screen_scale=1.3
        )

    def show(self, frame: int) -> None:
        """Goes to a frame; only what differs from the one shown before is sent."""
        replay, before, self._frame = self._replay, self._frame, frame
        for lane, bodies in enumerate(self._bodies):
            for index, body in enumerate(bodies):
                here, there = replay.position[lane, (before, frame), index]
                if np.any(here != there):
                    body.position = self._unit * there
                here, there = replay.quaternion[lane, (before, frame), index]
                if np.any(here != there):
                    body.wxyz = there
        for index, (position, quaternion) in replay.obstacle_poses.items():
            self._obstacles[index].position = self._unit * position[frame]
            self._obstacles[index].wxyz = quaternion[frame]
        shown = replay.arrow_shown
        for index in np.flatnonzero(shown[frame] != shown[before]):
            self._arrows[index].visible = bool(shown[frame, index])
        for index, handle in enumerate(self._forces):
            here, there = self._force_arrows[(before, frame), index]
            if np.any(here != there):
                length = float(np.linalg.norm(there[1] - there[0]))
                handle.visible = length > 0
                if length > 0:
                    handle.points = there[None].astype(np.float32)
                    handle.head_length = _head(self._force_width, length)
        if replay.label(frame) != replay.label(before):
            self._label.text = replay.label(frame)


def _add_arrow(scene, name: str, arrow: np.ndarray, color: str, width: float, visible: bool):
    """An arrow from a tail to a tip."""
    return scene.add_arrows(
        name,
        arrow[None],
        _linear(_rgb(color)),
        shaft_radius=width,
        head_radius=2.5 * width,
        head_length=_head(width, float(np.linalg.norm(arrow[1] - arrow[0]))),
        visible=visible,
    )


def _head(width: float, length: float) -> float:
    """The length of the head of an arrow."""
    return min(8 * width, length / 2)


def _add_joint(scene, index: int, joint: AbstractJoint, unit: float, size: float) -> None:
    """A ball at each end, and the axis of what turns or slides along one; a size in metres.

    In the frames of the bodies, with which they move; of one lane, or they would hide each other.
    """
    own = f"/lane0/body{joint.body}"
    other = "/world" if joint.other is None else f"/lane0/body{joint.other}"
    for place, anchor in ((own, joint.anchor), (other, joint.held_at())):
        scene.add_icosphere(
            f"{place}/joint{index}",
            unit * size,
            _rgb(_JOINTS),
            subdivisions=2,
            position=unit * np.asarray(anchor, float),
            cast_shadow=False,
        )
    for place, middle, axis in _axes(joint, own, other):
        reach = 4 * size * axis / np.linalg.norm(axis)
        scene.add_line_segments(
            f"{place}/axis{index}",
            unit * np.stack([middle - reach, middle + reach])[None],
            _rgb(_JOINTS),
            thickness=0.5 * unit * size,
        )


def _axes(joint: AbstractJoint, own: str, other: str) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """The axes that are fixed in a body or in the world: in which, a point and the direction.

    The axis in the middle of a gimbal is fixed in neither, and is not drawn.
    """
    if not isinstance(joint, AbstractMovingJoint):
        return []
    axes = np.asarray(joint.motion_axes, float)
    found = [(own, np.asarray(joint.anchor, float), axes[-1])]
    if len(axes) > 1:
        turn = Rotation.from_quat(np.asarray(joint.reference, float), scalar_first=True)
        found.append((other, np.asarray(joint.held_at(), float), turn.apply(axes[0])))
    return found


def _add_obstacle(scene, replay: Replay, index: int, unit: float):
    """A solid, or a cavity or a plane that moves; at first where it is in the first frame."""
    skin, side = drawn(replay.world.obstacles[index], 2 * replay.extent.size)
    pose = replay.obstacle_poses.get(index)
    handle = scene.add_frame(
        f"/obstacles/{index}",
        show_axes=False,
        position=(0.0, 0.0, 0.0) if pose is None else unit * pose[0][0],
        wxyz=(1.0, 0.0, 0.0, 0.0) if pose is None else pose[1][0],
    )
    skin = skin.creased()
    scene.add_mesh_simple(
        f"/obstacles/{index}/mesh",
        unit * skin.vertices,
        skin.faces,
        color=_rgb(_LINES),
        side=side,
        cast_shadow=False,
    )
    return handle


def _add_plane(
    scene, obstacles: Mapping[int, HalfSpace], index: int, extent: Extent, unit: float
) -> None:
    """A rectangle of a plane below the scene, with squares; it ends at the other planes."""
    obstacle = obstacles[index]
    bounds = [other for k, other in obstacles.items() if k != index]
    if is_steep(obstacle):  # a wall as high as the scene, or it would veil what is behind it
        bounds.append(HalfSpace((0.0, 0.0, -1.0), -extent.high[2]))
    square = square_side(extent.size)  # a round number of metres
    outline = cut(squares(extent.corners, obstacle, square)[0], bounds)
    if len(outline) == 0:
        return
    turn = plane_axes(obstacle)
    local = unit * outline @ turn.T
    low, high = local.min(axis=0), local.max(axis=0)
    scene.add_grid(
        f"/obstacles/{index}",
        *(high - low)[:2],
        cell_size=unit * square,
        section_size=unit * square,
        cell_color=_rgb(_LINES),
        cell_thickness=0.6,
        section_thickness=0.6,
        section_color=_rgb(_LINES),
        plane_color=_rgb(_GROUND),
        plane_opacity=0.3,
        shadow_opacity=0.3,
        fade_distance=1e3 * unit * extent.size,
        position=(low + high) / 2 @ turn,
        wxyz=Rotation.from_matrix(turn.T).as_quat(scalar_first=True),
    )


def _add_body(
    scene, replay: Replay, lane: int, body: int, unit: float, skin: Mesh, lines: np.ndarray
):
    """A body, with lines along its sections by the planes of its axes, which show how it turns."""
    name, color = f"/lane{lane}/body{body}", _rgb(body_color(body))
    handle = scene.add_frame(
        name,
        show_axes=False,
        position=unit * replay.position[lane, 0, body],
        wxyz=replay.quaternion[lane, 0, body],
    )
    scene.add_mesh_simple(
        f"{name}/mesh",
        unit * skin.vertices,
        skin.faces,
        color=color,
        opacity=_GHOST if lane else None,
        cast_shadow=lane == 0,
    )
    if len(lines):
        scene.add_line_segments(
            f"{name}/lines",
            1.002 * unit * lines,  # above the surface, not in it
            tuple(part // 2 for part in color),
            thickness=0.006 * unit * np.ptp(skin.vertices, axis=0).max(),
        )
    return handle


def _add_paths(scene, position: np.ndarray) -> None:
    for lane, paths in enumerate(position):
        for body, path in enumerate(np.moveaxis(paths, 1, 0)):
            if np.ptp(path, axis=0).max() > 0:
                scene.add_line_segments(
                    f"/lane{lane}/path{body}",
                    np.stack([path[:-1], path[1:]], axis=1),
                    _rgb(body_color(body)),
                    thickness=1.0 if lane else 2.0,
                    thickness_units="screen",
                )


def _rgb(color: str) -> tuple[int, int, int]:
    """Of a colour written as #RRGGBB."""
    return tuple(bytes.fromhex(color[1:]))


def _linear(color: tuple[int, int, int]) -> tuple[int, ...]:
    """A colour of sRGB as intensities of light, which is what viser takes those of arrows for."""
    return tuple(round(255 * (part / 255) ** 2.2) for part in color)
