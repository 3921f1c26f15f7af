"""What is deep in what where a model starts, as MuJoCo finds it: jaxrb would compile a program for
that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .geoms import geom_kind, is_solid
from .unsupported import name_of

# MuJoCo searches the depths of most solids to some 1e-6 m.
_DEEP = 1e-5


def overlaps(
    mujoco: Any, model: Any, names: Sequence[str], keyframe: int | None
) -> list[tuple[str, str, float]]:
    """The names of two bodies, or of a body and a fixed geom, and their depth [m], the greatest
    first.

    Args:
        mujoco, model: a compiled model.
        names: of the bodies that are kept.
        keyframe: at which it starts; None: the initial pose.
    """
    data = mujoco.MjData(model)
    if keyframe is not None:
        mujoco.mj_resetDataKeyframe(model, data, keyframe)
    mujoco.mj_fwdPosition(model, data)
    found: dict[tuple[str, str], float] = {}
    for contact in data.contact:
        one, other = (_owner(mujoco, model, int(geom), names) for geom in contact.geom)
        if contact.dist < -_DEEP and one is not None and other is not None:
            found[one, other] = max(found.get((one, other), 0.0), -float(contact.dist))
    known = [(one, other, depth) for (one, other), depth in found.items()]
    return sorted(known, key=lambda pair: -pair[2])


def _owner(mujoco: Any, model: Any, geom: int, names: Sequence[str]) -> str | None:
    """The name of the body or of the obstacle that a geom is part of; None of what is left out."""
    kind = geom_kind(mujoco, model, geom)
    root = int(model.body_weldid[model.geom_bodyid[geom]])
    if root == 0:
        known = kind == "plane" or is_solid(kind)
        return name_of(model, "geom", geom) if known else None
    name = name_of(model, "body", root)
    return name if is_solid(kind) and name in names else None
