"""What a compiled model holds that a world does not, apart from bodies, joints, contacts and
actuators."""

from __future__ import annotations

from typing import Any

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
    for index in range(model.ntendon):
        losses.lost("tendon", name_of(model, "tendon", index), "there are no tendons")
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
