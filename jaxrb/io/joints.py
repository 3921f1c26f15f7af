"""Joints from those of a compiled model, with their limits, springs, dampers and friction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from ..bodies import AbstractJoint, Distance, Hinge, Pin, Slider
from .freedoms import kinds_of
from .report import Losses
from .settings import disabled, of
from .unsupported import name_of
from .welded_groups import Group, Pose

_DOFS = {"free": 6, "ball": 3, "hinge": 1, "slide": 1}


class NamedJoint(NamedTuple):
    """A joint, and what it is called."""

    name: str
    joint: AbstractJoint
    source: int | None = None  # the one joint of the model whose coordinate it has


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
            found += make(_Site(mujoco, model, groups, index, losses))
    return found


def absorbed_armature(mujoco: Any, model: Any, group: Group) -> float:
    """The armature that a body itself can stand for [kg m^2]: what turns about one axis that is
    fixed in the world has the same motion with as much more inertia."""
    if group.freedom != "hinge" or group.carrier is not None:
        return 0.0
    return float(model.dof_armature[model.jnt_dofadr[group.joints[0]]])


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

    def start(self) -> float:
        """The coordinate of the joint in the initial pose."""
        return float(self.model.qpos0[self.model.jnt_qposadr[self.group.joints[0]]])


def _ball(site: _Site) -> list[NamedJoint]:
    _note_acting(site.mujoco, site.model, site.group.joints, site.losses)
    return [NamedJoint(site.name, _pin(site))]


def _pin(site: _Site) -> Pin:
    point = site.vector("jnt_pos")
    anchor = point - site.group.inertial.center
    return Pin(site.body, anchor, site.seat.point(point), site.group.carrier)


def _universal(site: _Site) -> list[NamedJoint]:
    """A pin, and a distance that keeps the angle between the axes, of which the first is fixed in
    the carrier and the second in the body."""
    _note_acting(site.mujoco, site.model, site.group.joints, site.losses)
    mass, center, inertia = site.group.inertial
    point = site.vector("jnt_pos")
    first, second = (site.vector("jnt_axis", number) for number in (0, 1))
    reach = np.sqrt(np.trace(inertia) / mass)  # the size of the body
    distance = Distance(
        site.body,
        point - center + reach * second,
        reach * np.linalg.norm(first - second),
        site.group.carrier,
        site.seat.point(point + reach * first),
    )
    return [NamedJoint(site.name, _pin(site)), NamedJoint(f"{site.name} angle", distance)]


def _hinge(site: _Site) -> list[NamedJoint]:
    point, axis, seat = site.vector("jnt_pos"), site.vector("jnt_axis"), site.seat
    joint = Hinge(
        site.body,
        axis,
        point - site.group.inertial.center,
        site.group.carrier,
        seat.point(point),
        reference=_quaternion(seat.turn * Rotation.from_rotvec(-site.start() * axis)),
        rest_angle=_rest(site),
        **_along(site, "hinge"),
    )
    return [NamedJoint(site.name, joint, site.group.joints[0])]


def _slide(site: _Site) -> list[NamedJoint]:
    axis, seat = site.vector("jnt_axis"), site.seat
    joint = Slider(
        site.body,
        axis,
        other=site.group.carrier,
        other_anchor=seat.point(site.group.inertial.center - site.start() * axis),
        reference=_quaternion(seat.turn),
        rest_displacement=_rest(site),
        **_along(site, "slide"),
    )
    return [NamedJoint(site.name, joint, site.group.joints[0])]


_MAKERS = {"ball": _ball, "universal": _universal, "hinge": _hinge, "slide": _slide}


def _quaternion(turn: Rotation) -> np.ndarray:
    return turn.as_quat(scalar_first=True)


def _rest(site: _Site) -> float:
    return float(site.model.qpos_spring[site.model.jnt_qposadr[site.group.joints[0]]])


def _along(site: _Site, kind: str) -> dict[str, Any]:
    """What acts along the coordinate of a joint, as a hinge or a slider takes it."""
    mujoco, model, joint = site.mujoco, site.model, site.group.joints[0]
    acting = _acting(mujoco, model, joint, kind)
    if absorbed_armature(mujoco, model, site.group):
        acting.pop("armature", None)
    limits = acting.pop("range", None)
    if limits is not None and kind == "hinge" and limits[1] - limits[0] >= 2 * np.pi:
        acting["range"], limits = limits, None
    known = {
        "stiffness": acting.pop("stiffness", 0.0),
        "damping": acting.pop("damping", 0.0),
        "friction": acting.pop("frictionloss", 0.0),
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
    "armature": ": it would be inertia of a rotation against a body that moves",
    "range": ": hinges know no full turns, other joints no limits",
    "margin": ": limits act where they are",
    "springyield": ": springs do not yield",
}


def _note(model: Any, joint: int, acting: dict[str, Any], losses: Losses) -> None:
    name = name_of(model, "jnt", joint)
    for what in acting:
        losses.lost("joint", name, f"its {what} is not known{_WHY.get(what, '')}")
