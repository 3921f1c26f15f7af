"""Pins and welds from the equality constraints of a compiled model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from ..bodies import Pin, Weld
from .joints import NamedJoint
from .report import Losses
from .settings import disabled
from .unsupported import name_of
from .welded_groups import Group, Pose, fixed_places


class _End(NamedTuple):
    """A frame on a body, in its body frame, or in the world."""

    body: int | None
    pose: Pose


def equalities(
    mujoco: Any, model: Any, groups: Sequence[Group], losses: Losses
) -> list[NamedJoint]:
    """The joints that connect and weld bodies; notes other constraints."""
    found = []
    bodies = _Bodies(model, groups)
    off = disabled(mujoco, model, "EQUALITY", "CONSTRAINT")
    for index in range(model.neq):
        name = name_of(model, "eq", index)
        kind = mujoco.mjtEq(int(model.eq_type[index])).name.removeprefix("mjEQ_").lower()
        if off or not model.eq_active0[index]:
            losses.harmless("equality", name, "not active")
        elif kind not in ("connect", "weld"):
            losses.lost("equality", name, f"{kind} constraints are not known")
        else:
            first, second = _ends(mujoco, model, index, kind, bodies)
            if first is None or second is None:
                losses.lost("equality", name, "a body that it holds is left out")
            elif first.body == second.body:
                losses.harmless("equality", name, "it holds what is one body")
            else:
                found.append(NamedJoint(name, _joint(kind, first, second)))
    return found


class _Bodies:
    """Where the frames of the model's bodies are."""

    def __init__(self, model: Any, groups: Sequence[Group]):
        self._ends = {body: _End(None, pose) for body, pose in fixed_places(model).items()}
        for index, group in enumerate(groups):
            for body, pose in group.places.items():
                self._ends[body] = _End(index, group.about_center(pose))

    def end(self, body: int, pose: Pose) -> _End | None:
        """A frame on one of them, given in its own; None on one that is left out."""
        found = self._ends.get(body)
        return None if found is None else _End(found.body, found.pose.then(pose))


def _ends(
    mujoco: Any, model: Any, index: int, kind: str, bodies: _Bodies
) -> tuple[_End | None, _End | None]:
    """The frames that coincide."""
    first, second = int(model.eq_obj1id[index]), int(model.eq_obj2id[index])
    if int(model.eq_objtype[index]) == int(mujoco.mjtObj.mjOBJ_SITE):
        return _site(model, first, bodies), _site(model, second, bodies)
    data = np.array(model.eq_data[index])
    here = np.array([1.0, 0.0, 0.0, 0.0])
    if kind == "connect":
        poses = Pose.of(data[0:3], here), Pose.of(data[3:6], here)
    else:  # the pose of the second body in the first; a point of the second
        poses = Pose.of(data[3:6], data[6:10]), Pose.of(data[0:3], here)
    return bodies.end(first, poses[0]), bodies.end(second, poses[1])


def _site(model: Any, site: int, bodies: _Bodies) -> _End | None:
    pose = Pose.of(model.site_pos[site], model.site_quat[site])
    return bodies.end(int(model.site_bodyid[site]), pose)


def _joint(kind: str, first: _End, second: _End) -> Pin | Weld:
    if first.body is None:
        first, second = second, first
    assert first.body is not None
    here, there = first.pose, second.pose
    if kind == "connect":
        return Pin(first.body, here.position, there.position, second.body)
    turn: Rotation = there.turn * here.turn.inv()
    return Weld(
        first.body,
        second.body,
        here.position,
        there.position,
        reference=turn.as_quat(scalar_first=True),
    )
