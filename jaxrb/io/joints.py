"""Joints from those of a compiled model, with what acts along their coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from ..bodies import AbstractJoint, Gimbal, Hinge, Pin, Planar, Slider, Universal
from ..bodies.joints.gimbal import turns_back
from .freedoms import kinds_of
from .report import Losses
from .settings import disabled, of
from .unsupported import name_of
from .welded_groups import Group, Pose

# What acts along each angle of joints that have several, but for limits and rest angles.
_ACTING = ("stiffness", "damping", "friction", "armature")
_DOFS = {"free": 6, "ball": 3, "hinge": 1, "slide": 1}


class NamedJoint(NamedTuple):
    """A joint, and what it is called."""

    name: str
    joint: AbstractJoint
    sources: tuple[int, ...] = ()  # the joints of the model whose coordinates it has


def tree_joints(
    mujoco: Any, model: Any, groups: Sequence[Group], losses: Losses
) -> list[NamedJoint]:
    """The joints between bodies and what carries them; notes what they do not have."""
    found = []
    for index, group in enumerate(groups):
        make = _MAKERS.get(group.freedom)
        if make is None:  # free
            _note_acting(mujoco, model, group.joints, losses)
        else:
            found.append(make(_Site(mujoco, model, groups, index, losses)))
    return found


class _Site(NamedTuple):
    """Where a joint is to be made."""

    mujoco: Any
    model: Any
    groups: Sequence[Group]
    body: int
    losses: Losses

    @property
    def group(self) -> Group:
        return self.groups[self.body]

    @property
    def name(self) -> str:
        return "+".join(name_of(self.model, "jnt", joint) for joint in self.group.joints)

    @property
    def seat(self) -> Pose:
        """The frame of the body before its joints: in the body frame of its carrier, or in the
        world."""
        carrier, seat = self.group.carrier, self.group.seat
        return seat if carrier is None else self.groups[carrier].about_center(seat)

    def vector(self, name: str, number: int = 0) -> np.ndarray:
        """That of a joint, in the frame of the first body."""
        return np.array(getattr(self.model, name)[self.group.joints[number]])

    def axes(self) -> np.ndarray:
        """Those of all joints, in the frame of the first body."""
        return np.array(self.model.jnt_axis[list(self.group.joints)])

    def starts(self) -> np.ndarray:
        """The coordinates of hinges or slides in the initial pose."""
        return np.array(self.model.qpos0[self.model.jnt_qposadr[list(self.group.joints)]])

    def rests(self) -> np.ndarray:
        """Those of their springs."""
        return np.array(self.model.qpos_spring[self.model.jnt_qposadr[list(self.group.joints)]])


def _ball(site: _Site) -> NamedJoint:
    """A pin; of three hinges a gimbal, or where one has no angle for what they do, a pin."""
    if len(site.group.joints) == 3 and not _turns_back(site):
        return _turning(site, Gimbal, site.vector("jnt_pos"))
    _note_acting(site.mujoco, site.model, site.group.joints, site.losses)
    point = site.vector("jnt_pos")
    anchor = point - site.group.inertial.center
    return NamedJoint(site.name, Pin(site.body, anchor, site.seat.point(point), site.group.carrier))


def _turns_back(site: _Site) -> bool:
    """Whether the second of three hinges has a range over a place where its angle turns back."""
    second = site.group.joints[1]
    limits = _acting(site.mujoco, site.model, second, "hinge").get("range")
    return limits is not None and turns_back(site.axes(), limits - site.starts()[1])


def _universal(site: _Site) -> NamedJoint:
    first, second = site.vector("jnt_pos", 0), site.vector("jnt_pos", 1)
    return _turning(site, Universal, second, offset=second - first)


def _turning(
    site: _Site, kind: type[Universal | Gimbal], last: np.ndarray, **offset: Any
) -> NamedJoint:
    """Several hinges, of which the last one is about a point, in the frame of the first body.

    Angles are zero in the initial pose, so that they are the coordinates of the model if these are
    zero there.
    """
    joints, starts = site.group.joints, site.starts()
    acting = [_along(site, number, "hinge") for number in range(len(joints))]
    limits = [
        None if own["limits"] is None else own["limits"] - start
        for own, start in zip(acting, starts, strict=True)
    ]
    joint = kind(
        site.body,
        site.axes(),
        last - site.group.inertial.center,
        site.group.carrier,
        site.seat.point(site.vector("jnt_pos")),
        reference=_quaternion(site.seat.turn),
        limits=limits,
        rest_angles=site.rests() - starts,
        **{name: [own[name] for own in acting] for name in _ACTING},
        **offset,
    )
    return NamedJoint(site.name, joint, () if starts.any() else tuple(joints))


def _hinge(site: _Site) -> NamedJoint:
    point, axis, seat = site.vector("jnt_pos"), site.vector("jnt_axis"), site.seat
    joint = Hinge(
        site.body,
        axis,
        point - site.group.inertial.center,
        site.group.carrier,
        seat.point(point),
        reference=_quaternion(seat.turn * Rotation.from_rotvec(-site.starts()[0] * axis)),
        rest_angle=float(site.rests()[0]),
        **_along(site, 0, "hinge"),
    )
    return NamedJoint(site.name, joint, tuple(site.group.joints))


def _slide(site: _Site) -> NamedJoint:
    axis, seat = site.vector("jnt_axis"), site.seat
    joint = Slider(
        site.body,
        axis,
        other=site.group.carrier,
        other_anchor=seat.point(site.group.inertial.center - site.starts()[0] * axis),
        reference=_quaternion(seat.turn),
        rest_displacement=float(site.rests()[0]),
        **_along(site, 0, "slide"),
    )
    return NamedJoint(site.name, joint, tuple(site.group.joints))


def _planar(site: _Site) -> NamedJoint:
    """Two slides, and a hinge after them if there is one."""
    joints, axes, starts, seat = site.group.joints, site.axes(), site.starts(), site.seat
    acting = [
        _along(site, number, kind)
        for number, kind in enumerate(kinds_of(site.mujoco, site.model, joints))
    ]
    # The displaced point is that about which the hinge turns.
    point, back = site.group.inertial.center, Rotation.identity()
    if len(joints) == 3:
        point, back = site.vector("jnt_pos", 2), Rotation.from_rotvec(-starts[2] * axes[2])
    joint = Planar(
        site.body,
        back.inv().apply(axes),  # where the angle is zero
        point - site.group.inertial.center,
        site.group.carrier,
        seat.point(point - starts[:2] @ axes[:2]),
        reference=_quaternion(seat.turn * back),
        limits=[own["limits"] for own in acting],
        rest_coordinates=site.rests(),
        **{name: [own[name] for own in acting] for name in _ACTING},
    )
    return NamedJoint(site.name, joint, tuple(joints))


_MAKERS = {
    "ball": _ball,
    "universal": _universal,
    "hinge": _hinge,
    "slide": _slide,
    "planar": _planar,
}


def _quaternion(turn: Rotation) -> np.ndarray:
    return turn.as_quat(scalar_first=True)


def _along(site: _Site, number: int, kind: str) -> dict[str, Any]:
    """What acts along the coordinate of a hinge or slide, as our joints take it."""
    model, joint = site.model, site.group.joints[number]
    acting = _acting(site.mujoco, model, joint, kind)
    limits = acting.pop("range", None)
    if limits is not None and kind == "hinge" and limits[1] - limits[0] >= 2 * np.pi:
        acting["range"], limits = limits, None
    known = {
        "stiffness": acting.pop("stiffness", 0.0),
        "damping": acting.pop("damping", 0.0),
        "friction": acting.pop("frictionloss", 0.0),
        "armature": acting.pop("armature", 0.0),
        "limits": limits,
    }
    _note(model, joint, acting, site.losses)
    return known


def _acting(mujoco: Any, model: Any, joint: int, kind: str) -> dict[str, Any]:
    """What acts in a joint, by its name in MJCF; a number, of a ball or free joint the largest."""
    first = int(model.jnt_dofadr[joint])
    dofs = slice(first, first + _DOFS[kind])
    largest = lambda values: float(np.max(np.abs(values)))  # noqa: E731
    acting: dict[str, Any] = {"armature": largest(model.dof_armature[dofs])}
    if not disabled(mujoco, model, "SPRING", "PASSIVE"):
        acting["stiffness"] = float(model.jnt_stiffness[joint])
        for name in ("stiffnesspoly", "springyield"):
            acting[name] = largest(of(model, f"jnt_{name}", joint))
    if not disabled(mujoco, model, "DAMPER", "PASSIVE"):
        acting["damping"] = largest(model.dof_damping[dofs])
        acting["dampingpoly"] = largest(of(model, "dof_dampingpoly", dofs))
    if not disabled(mujoco, model, "FRICTIONLOSS", "CONSTRAINT"):
        acting["frictionloss"] = largest(model.dof_frictionloss[dofs])
    limited = model.jnt_limited[joint] and not disabled(mujoco, model, "LIMIT", "CONSTRAINT")
    if limited:
        acting["range"] = np.array(model.jnt_range[joint])
        acting["margin"] = float(model.jnt_margin[joint])
    return {name: value for name, value in acting.items() if name == "range" or np.any(value)}


def _note_acting(mujoco: Any, model: Any, joints: range, losses: Losses) -> None:
    """Notes what acts in joints that only hold a body, or leave it free."""
    for joint, kind in zip(joints, kinds_of(mujoco, model, joints), strict=True):
        _note(model, joint, _acting(mujoco, model, joint, kind), losses)


_WHY = {
    "armature": ": only hinges and slides have rotors",
    "range": ": hinges know no full turns, ball joints no limits, and of three hinges the second "
    "one no angle at which the others are parallel",
    "margin": ": limits act where they are",
    "springyield": ": springs do not yield",
}


def _note(model: Any, joint: int, acting: dict[str, Any], losses: Losses) -> None:
    name = name_of(model, "jnt", joint)
    for what in acting:
        losses.lost("joint", name, f"its {what} is not known{_WHY.get(what, '')}")
