"""Worlds from MJCF and URDF, by MuJoCo's compiler."""

from __future__ import annotations

import reprlib
import xml.etree.ElementTree as ET
from os import PathLike
from pathlib import Path
from typing import Any

import equinox as eqx

from .._text import described
from ..bodies import State
from ..impact import AbstractContactLaw
from ..simulate import World
from . import urdf
from .assembly import assemble
from .paths import existing_file
from .report import Losses, Report, listed
from .unsupported import note_unknown


class Model(eqx.Module):
    """What a model file says.

    Attributes:
        world: bodies, obstacles, joints, forces and laws.
        state: of its bodies at the start.
        names: of its bodies, in the order of `World.bodies`.
        report: what was not understood, and what was assumed.
    """

    world: World
    state: State
    names: tuple[str, ...] = eqx.field(static=True)
    report: Report = eqx.field(static=True)

    def __repr__(self) -> str:
        return described(_description, self)


def load_model(
    path: str | PathLike,
    *,
    restitution: float | None = None,
    contact_law: AbstractContactLaw | None = None,
    strict: bool = True,
    keyframe: str | int | None = None,
    floating_base: bool = True,
) -> Model:
    """The world of an MJCF or URDF file.

    MuJoCo compiles the file, so that its defaults, units, angles, included files and rules for
    masses hold; jaxrb takes masses, inertias, poses and geoms from what it compiles.

    - A body with a free joint is a `RigidBody`. A body with one ball joint to the world is held
      by a `Pin`. Bodies without joints are welded to what carries them and become part of it.
    - Body frames keep MuJoCo's axes, but their origin is the centre of mass: `State.position` is
      the centre of mass, and shapes and the full inertia tensor are about it.
    - Geoms that touch something make the shape: spheres, ellipsoids, boxes, capsules, cylinders
      and meshes; several make a `Union`. A body that touches nothing gets the shape of its visual
      geoms, without any an ellipsoid of its inertia. Planes fixed in the world are obstacles.
    - A mesh is its convex hull, as in MuJoCo, of vertices that MuJoCo rounds to float32; the
      report says which meshes are not convex.
    - Which bodies touch follows from contype, conaffinity, `exclude` and `pair`. Contacts are
      rigid: solref, solimp and the solver's options count for nothing. Two solids whose closest
      points are not known, such as a cylinder and a box, are not understood; without `strict`
      their bodies pass through each other.
    - MuJoCo has no coefficient of restitution, so it is an argument, and the report says what
      was assumed without it. Sliding friction is `Coulomb`'s mu, by MuJoCo's rule the larger of
      the two geoms' (or that of the one with the higher priority), in a `PairLaw` where it
      differs from the most frequent one; condim="1" is without friction, and a model that has
      none gets `Frictionless`.
    - gravcomp becomes a `ConstantForce`.
    - The root link of a URDF floats, unless it is called `world`.

    Args:
        path: the file.
        restitution: e, of all contacts; 1 (elastic) by default.
        contact_law: of all contacts, instead of `restitution` and the file's friction, of
            which none is then too much.
        strict: False leaves out what is not known and lists it in the report. A body with an
            unknown joint is left out with all it carries; the report names each of these.
        keyframe: name or number of the keyframe at which to start; by default the initial
            pose, at rest.
        floating_base: False fixes the root link of a URDF to the world.

    Raises:
        FileNotFoundError: if there is no such file.
        ImportError: if MuJoCo is not installed.
        ValueError: if the file is not understood, has nothing that moves, or, if `strict`, holds
            what would change the motion and jaxrb does not know: other joints, obstacles that
            are no planes, springs, dampers, actuators, tendons, constraints and so on; or if
            both `restitution` and `contact_law` are given.
    """
    if restitution is not None and contact_law is not None:
        raise ValueError("Give restitution=... or contact_law=..., which holds its own; got both.")
    path = existing_file(path)
    mujoco = _mujoco()
    losses = Losses()
    compiled = _compile(mujoco, path, floating_base, losses)
    data = _data(mujoco, compiled, path, keyframe)
    note_unknown(mujoco, compiled, losses)
    parts = assemble(mujoco, compiled, data, contact_law is not None, losses)
    if restitution is None:
        restitution = 1.0
        if contact_law is None and (parts.at_obstacles or parts.at_bodies):
            losses.assumed(
                "The coefficient of restitution is 1 (elastic) at every contact, because MuJoCo's "
                "models have none. Choose another with load(..., restitution=...), or the whole "
                "law with contact_law=...."
            )
    report = losses.report()
    found = "".join(f"\n  {line}" for line in listed(report.lost))
    if strict and report.lost:
        raise ValueError(
            f"{path} holds what jaxrb does not know:{found}\nload(..., strict=False) leaves it out."
        )
    if not parts.bodies:
        left_out = f" What is left out:{found}" if found else ""
        raise ValueError(
            f"{path} has no body that moves freely or on a ball joint to the world.{left_out}"
        )
    world = parts.world(restitution, contact_law)
    return Model(world, parts.state(), parts.names, report)


def _description(model: Model) -> str:
    """A few lines: what there is, and how much was left out."""
    bodies, obstacles = model.world.bodies, model.world.obstacles
    solids = sum(len(body.shape.pieces()) for body in bodies)
    lines = [
        f"bodies: {len(bodies)}, of {solids} geoms, named {reprlib.repr(model.names)}",
        f"obstacles: {len(obstacles)}",
        f"world: {model.world!r}",
        f"report: {model.report!r}",
    ]
    return "Model(\n  " + "\n  ".join(lines) + "\n)"


def _mujoco() -> Any:
    try:
        import mujoco  # noqa: PLC0415  (optional)
    except ImportError as error:
        raise ImportError('MJCF and URDF need MuJoCo: pip install "jaxrb[mjcf]".') from error
    return mujoco


def _compile(mujoco: Any, path: Path, floating_base: bool, losses: Losses) -> Any:
    """The `MjModel` of a file."""
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


def _data(mujoco: Any, model: Any, path: Path, keyframe: str | int | None) -> Any:
    """The `MjData` at the start."""
    data = mujoco.MjData(model)
    if keyframe is not None:
        names = [model.key(i).name for i in range(model.nkey)]
        index = names.index(keyframe) if keyframe in names else keyframe
        if not isinstance(index, int) or not 0 <= index < model.nkey:
            raise ValueError(f"{path} has no keyframe {keyframe!r}; it has {names}.")
        mujoco.mj_resetDataKeyframe(model, data, index)
    mujoco.mj_kinematics(model, data)
    return data
