"""Models compiled by MuJoCo."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from . import urdf
from .report import Losses


def parser() -> Any:
    """The module `mujoco`.

    Raises:
        ImportError: if it is not installed.
    """
    try:
        import mujoco  # noqa: PLC0415  (optional)
    except ImportError as error:
        raise ImportError('MJCF and URDF need MuJoCo: pip install "jaxrb[mjcf]".') from error
    return mujoco


def compile_model(mujoco: Any, path: Path, floating_base: bool, losses: Losses) -> Any:
    """The `MjModel` of a file.

    Raises:
        ValueError: if it is not understood.
    """
    try:
        root = ET.parse(path).getroot()
    except (ET.ParseError, UnicodeDecodeError, LookupError) as error:
        raise ValueError(f"{path} is no XML: {error}.") from error
    if root.tag not in ("mujoco", "robot"):
        raise ValueError(
            f"{path} is neither MJCF nor URDF: its root is <{root.tag}>, not <mujoco> or <robot>."
        )
    try:
        if root.tag == "mujoco":
            spec = mujoco.MjSpec.from_file(str(path))
        else:
            resolved = urdf.prepare(root, path, floating_base, losses)
            spec = mujoco.MjSpec.from_string(ET.tostring(root, encoding="unicode"))
            spec.modelfiledir = str(path.resolve().parent)
            if resolved:
                spec.strippath = False
        # Bodies that are welded together keep their names for the report.
        spec.compiler.fusestatic = False
        return spec.compile()
    except ValueError as error:
        raise ValueError(f"{path}: MuJoCo does not compile it: {error}") from error
