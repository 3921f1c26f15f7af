"""One call for every kind of file."""

from __future__ import annotations

from os import PathLike
from typing import Any

from .files import SUFFIX, load_file
from .mesh import load_body, load_mesh
from .model import load_model
from .paths import existing_file

MODELS = (".xml", ".urdf")
MESHES = (".stl", ".obj", ".ply", ".off", ".glb", ".gltf")


def load(path: str | PathLike, **options) -> Any:
    """Opens a file by its suffix.

    Args:
        path: the file.
        options: of the function that opens it.

    Returns:
        For `.xml` (MJCF or URDF) and `.urdf` the `Model` of `load_model`, with its world, the
        state at the start, the controls of its motors, and the names of all; for `.stl`, `.obj`,
        `.ply`, `.off`, `.glb` and `.gltf` the solid of `load_mesh`, or with `mass=` or
        `density=` the `RigidBody` of `load_body`; for `.jaxrb` what was given to `save`
        (`load_file`).

    Raises:
        FileNotFoundError: if there is no such file.
        ImportError: if MuJoCo or trimesh is needed and not installed, naming the extra.
        ValueError: if the suffix is not known or the file is not understood.
    """
    path = existing_file(path)
    suffix = path.suffix.lower()
    if suffix == SUFFIX:
        return load_file(path, **options)
    if suffix in MODELS:
        return load_model(path, **options)
    if suffix in MESHES:
        return (load_body if {"mass", "density"} & options.keys() else load_mesh)(path, **options)
    known = ", ".join((SUFFIX, *MODELS, *MESHES))
    raise ValueError(f"{path}: the suffix {suffix!r} is not known; known are {known}.")
