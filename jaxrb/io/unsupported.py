"""What a compiled model holds that a world does not, apart from bodies and contacts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .report import Losses

# MuJoCo's accessors for what is only looked at, or only says something to its user.
_HARMLESS = {
    "camera": ("ncam", "cam"),
    "light": ("nlight", "light"),
    "site": ("nsite", "site"),
    "sensor": ("nsensor", "sensor"),
    "material": ("nmat", "mat"),
    "texture": ("ntex", "tex"),
    "skin": ("nskin", "skin"),
    "numeric": ("nnumeric", "numeric"),
}


def name_of(model: Any, kind: str, index: int) -> str:
    """The name of an element, or its number if it has none."""
    accessor = getattr(model, kind, None)  # MuJoCo has none for some
    return (accessor and accessor(index).name) or f"number {index}"


def note_unknown(mujoco: Any, model: Any, losses: Losses) -> None:
    """Notes the elements of a model that have no counterpart."""
    for element, (count, kind) in _HARMLESS.items():
        for index in range(getattr(model, count)):
            losses.harmless(element, name_of(model, kind, index), "not needed for the motion")
    for index in range(model.nu):
        losses.lost("actuator", name_of(model, "actuator", index), "there are no actuators")
    for index in range(model.ntendon):
        losses.lost("tendon", name_of(model, "tendon", index), "there are no tendons")
    for index in range(model.neq):
        name = name_of(model, "eq", index)
        if model.eq_active0[index]:
            losses.lost("equality", name, "there are no constraints but a pin")
        else:
            losses.harmless("equality", name, "not active")
    for index in range(model.nflex):
        losses.lost("flex", name_of(model, "flex", index), "bodies are rigid")
    for index in range(model.nplugin):  # `model.plugin` is an array, no accessor
        losses.lost("plugin", f"number {index}", "plugins are not known")
    _note_options(mujoco, model, losses)


def _note_options(mujoco: Any, model: Any, losses: Losses) -> None:
    for name in ("density", "viscosity"):
        value = getattr(model.opt, name)
        if value > 0:
            losses.lost("option", name, f"{value:g}: there is no medium that resists")
    if model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_OVERRIDE:
        losses.lost("flag", "override", "contacts keep their own parameters")


def note_joint(model: Any, joint: int, losses: Losses) -> None:
    """Notes what acts in a joint besides holding or leaving the body free."""
    body = int(model.jnt_bodyid[joint])
    first = int(model.jnt_dofadr[joint])
    dofs = slice(first, first + int(model.body_dofnum[body]))
    acting = {
        "stiffness": model.jnt_stiffness[joint],
        "stiffnesspoly": _of(model, "jnt_stiffnesspoly", joint),
        "damping": model.dof_damping[dofs],
        "dampingpoly": _of(model, "dof_dampingpoly", dofs),
        "armature": model.dof_armature[dofs],
        "frictionloss": model.dof_frictionloss[dofs],
        "range": model.jnt_limited[joint],
    }
    for name, values in acting.items():
        if np.any(values):
            losses.lost("joint", name_of(model, "jnt", joint), f"its {name} is not known")


def _of(model: Any, name: str, index: Any) -> Any:
    """An array that older releases of MuJoCo do not have."""
    array = getattr(model, name, None)
    return 0.0 if array is None else np.atleast_2d(array)[index]
