"""Worlds from MJCF and URDF, by MuJoCo's compiler."""

from __future__ import annotations

import reprlib
from os import PathLike
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._text import described
from .._validate import real_array
from ..bodies import State
from ..impact import AbstractContactLaw
from ..simulate import World, joint_violations
from ..simulate.joint_observables import beyond_limits
from .actuators import control_names
from .assembly import Assembly, assemble
from .compiling import compile_model, parser
from .kinematics import Kinematics, as_jax
from .overlaps import overlaps
from .paths import existing_file
from .report import Losses, Report, listed
from .unsupported import name_of, note_unknown

# Joints that are off by more at the start are named [m], [m/s].
_OFF = 1e-5


class Keyframe(eqx.Module):
    """A keyframe of a model.

    Attributes:
        state: of the bodies.
        controls: of the actuators, in the order of `Model.control_names`.
    """

    state: State
    controls: Float[Array, " n_controls"]


class Model(eqx.Module):
    """What a model file says.

    `rb.simulate(model.world, model.state, method, t1, args=model.controls)` simulates it.

    Attributes:
        world: bodies, obstacles, joints, forces and laws.
        state: of its bodies at the start.
        controls: of its actuators at the start, in their units: zero, or those of the keyframe.
            What `simulate` gets as `args`: numbers, or an input or a function that gives them at
            a time [s], such as `PiecewiseLinear`. Shape (n_controls,).
        keyframes: by their names, `number 0` of the first one if it has none.
        names: of its bodies, in the order of `World.bodies`.
        joint_names: of its joints, in the order of `World.joints`.
        control_names: of its controls, which are called as the actuators are.
        report: what was not understood, and what was assumed.
        kinematics: places of the bodies by MuJoCo's coordinates, for `state_at`.
    """

    world: World
    state: State
    controls: Float[Array, " n_controls"]
    keyframes: dict[str, Keyframe]
    names: tuple[str, ...] = eqx.field(static=True)
    joint_names: tuple[str, ...] = eqx.field(static=True)
    control_names: tuple[str, ...] = eqx.field(static=True)
    report: Report = eqx.field(static=True)
    kinematics: Kinematics

    def state_at(self, qpos: Float[Array, " nq"], qvel: Float[Array, " nv"] | None = None) -> State:
        """The state of the bodies at MuJoCo's coordinates.

        It can be differentiated, and batched by `jax.vmap`. Joints between a body and what carries
        it hold at all coordinates, equality constraints at some. Coordinates of what is left out
        count for nothing.

        Args:
            qpos: coordinates in MuJoCo's order: of each hinge an angle [rad], of each slide a
                displacement [m], of each ball joint a quaternion, of each free joint the position
                of the body's frame [m] and a quaternion. Quaternions may have any length but zero.
            qvel: velocities in MuJoCo's order: of ball joints the angular velocity in the frame of
                the body [rad/s], of free joints the velocity of the body's frame in the world
                [m/s] and the angular velocity in that frame. Zero by default.

        Raises:
            ValueError: if a shape is wrong.
        """
        q = real_array(qpos, "qpos", (self.kinematics.n_positions,))
        shape = (self.kinematics.n_velocities,)
        v = jnp.zeros(shape, q.dtype) if qvel is None else real_array(qvel, "qvel", shape)
        return self.kinematics.state(q, v.astype(q.dtype))

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

    - A body with a free joint is free. Bodies without joints are welded to what carries them and
      become part of it. A `ball` joint is a `Pin`, a `hinge` a `Hinge` and a `slide` a `Slider` to
      the world or between bodies, whose coordinates are MuJoCo's qpos (angles up to full turns). Of
      several joints of one body are known: two hinges whose axes are not parallel, a `Universal`;
      three whose axes meet, each perpendicular to the next, a `Gimbal`; two slides, alone or
      before a hinge, all along perpendicular axes, a `Planar`; and three slides before a ball
      joint, or such hinges: free. With `ref`, the angles of several hinges are those from the
      initial pose.
    - Of a hinge or slide, `range` makes limits, `stiffness` and `springref` a spring, `damping` a
      damper, `frictionloss` dry friction and `armature` a rotor. What acts in other joints is not
      known, nor a range of the second of three hinges over an angle at which the first and the
      third axis are parallel. solref, solimp and the like count for nothing: limits and constraints
      are rigid.
    - The equality constraints `connect` and `weld` are a `Pin` and a `Weld`.
    - Actuators in hinges and slides whose force is an affine function of control, length and
      velocity (`motor`, `position`, `velocity`, `damper` and many of `general`), with their
      gear, ctrlrange and forcerange, are together a `Motor`, and those that feed the velocity of
      a coordinate back that is theirs alone another one, with a damping. These take the controls
      from the `args` of `simulate`: see `Model.controls`. Servos and springs see angles without
      full turns: see `Hinge`. Files of jaxrb do not hold such worlds but with
      `save(..., structure=False)`.
    - Body frames keep MuJoCo's axes, but their origin is the centre of mass: `State.position` is
      the centre of mass, and shapes and the full inertia tensor are about it.
    - Geoms that touch something make the shape: spheres, ellipsoids, boxes, capsules, cylinders
      and meshes; several make a `Union`. A body that touches nothing gets the shape of its visual
      geoms, without any an ellipsoid of its inertia. Planes and solids of these kinds that are
      fixed in the world and touch something are obstacles, each geom one.
    - A mesh is its convex hull, as in MuJoCo, of vertices that MuJoCo rounds to float32; the
      report says which meshes are not convex.
    - Which bodies and obstacles touch follows from contype, conaffinity, `exclude` and `pair`; a
      body and the one that carries it do not, unless a `pair` says so, but all may touch what is
      fixed. Bodies touch as a whole: all geoms of a body that touch something, or none. Contacts
      are rigid: solref, solimp and the solver's options count for nothing.
    - MuJoCo has no coefficient of restitution, so it is an argument, and the report says what
      was assumed without it. Sliding friction is `Coulomb`'s mu, by MuJoCo's rule the larger of
      the two geoms' (or that of the one with the higher priority), in a `PairLaw` where it
      differs from the most frequent one; condim="1" is without friction, and a model that has
      none gets `Frictionless`. Torsional and rolling friction, of condim="4" and "6", are
      `Coulomb`'s `spinning_friction` and `rolling_friction`, each with a bound of its own; they
      act in contacts that last, so such a world asks for `on_zeno="rest"`.
    - gravcomp becomes a `ConstantForce`.
    - The root link of a URDF floats, unless it is called `world`. Its joints `revolute`,
      `continuous`, `prismatic`, `planar`, `fixed` and `floating` are as above, with limits,
      damping and friction.

    Args:
        path: the file.
        restitution: e, of all contacts; 1 (elastic) by default.
        contact_law: of all contacts, instead of `restitution` and the file's friction, of
            which none is then too much.
        strict: False leaves out what is not known and lists it in the report. A body with
            unknown joints is left out with all it carries; the report names each of these.
        keyframe: name or number of the keyframe at which to start; by default the initial
            pose, at rest. `Model.keyframes` has all of them.
        floating_base: False fixes the root link of a URDF to the world.

    Raises:
        FileNotFoundError: if there is no such file.
        ImportError: if MuJoCo is not installed.
        ValueError: if the file is not understood, has nothing that moves, or, if `strict`, holds
            what would change the motion and jaxrb does not know: other joints, actuators and
            constraints, height fields, tendons and so on; or if both `restitution` and
            `contact_law` are given.
    """
    if restitution is not None and contact_law is not None:
        raise ValueError("Give restitution=... or contact_law=..., which holds its own; got both.")
    path = existing_file(path)
    mujoco = parser()
    losses = Losses()
    compiled = compile_model(mujoco, path, floating_base, losses)
    start = _number_of(compiled, path, keyframe)
    note_unknown(mujoco, compiled, losses)
    parts = assemble(mujoco, compiled, contact_law is not None, losses)
    if restitution is None:
        restitution = 1.0
        if contact_law is None and (parts.at_obstacles or parts.at_bodies):
            losses.assumed(
                "The coefficient of restitution is 1 (elastic) at every contact, because MuJoCo's "
                "models have none. Choose another with load(..., restitution=...), or the whole "
                "law with contact_law=...."
            )
    _refuse(path, parts, losses, strict)
    world = parts.world(restitution, contact_law)
    keys = [_keyframe(compiled, parts.kinematics, number) for number in range(compiled.nkey)]
    first = _initial(compiled, parts.kinematics) if start is None else keys[start]
    _note_violations(world, first.state, parts, losses)
    _note_limits(world, first.state, parts, losses)
    _note_overlaps(overlaps(mujoco, compiled, parts.names, start), losses)
    return Model(
        world=world,
        state=first.state,
        controls=first.controls,
        keyframes={name_of(compiled, "key", i): key for i, key in enumerate(keys)},
        names=parts.names,
        joint_names=tuple(named.name for named in parts.joints),
        control_names=control_names(compiled),
        report=losses.report(),
        kinematics=parts.kinematics,
    )


def _refuse(path: Path, parts: Assembly, losses: Losses, strict: bool) -> None:
    """Raises `ValueError` if nothing moves, or, if `strict`, if what changes the motion is lost."""
    lost = losses.report().lost
    found = "".join(f"\n  {line}" for line in listed(lost))
    if strict and lost:
        raise ValueError(
            f"{path} holds what jaxrb does not know:{found}\nload(..., strict=False) leaves it out."
        )
    if not parts.bodies:
        left_out = f" What is left out:{found}" if found else ""
        raise ValueError(f"{path} has no body that moves by joints that jaxrb knows.{left_out}")


def _note_violations(world: World, state: State, parts: Assembly, losses: Losses) -> None:
    """Notes joints that do not hold at the start, as equality constraints may not."""
    off, rate = (np.asarray(errors) for errors in joint_violations(world, state))
    for named, error, speed in zip(parts.joints, off, rate, strict=True):
        if error > _OFF or speed > _OFF:
            losses.assumed(
                f"The joint {named.name!r} is off by {error:.2g} m and {speed:.2g} m/s at the "
                "start, which a simulation does not allow: start from another keyframe, or from a "
                "state of `Model.state_at` in which it holds."
            )


def _note_limits(world: World, state: State, parts: Assembly, losses: Losses) -> None:
    """Notes joints that start beyond their ranges, as those of many models do in which 0 is none of
    their angles."""
    for joint, excess, unit in beyond_limits(world, state):
        losses.assumed(
            f"The joint {parts.joints[joint].name!r} is {excess:.3g} {unit} beyond its range at "
            "the start, which a simulation does not allow: start from another keyframe, or from a "
            "state of `Model.state_at` within it."
        )


def _note_overlaps(found: list[tuple[str, str, float]], losses: Losses) -> None:
    """Notes what is deep in what at the start, as links in the base of an arm that is fixed."""
    for one, other, depth in found:
        losses.assumed(
            f"{one!r} and {other!r} are {depth:.3g} m deep in each other at the start, which a "
            "simulation does not allow without `penetration`: start from another keyframe, or from "
            "a state of `Model.state_at` in which they are apart, or let the file `exclude` the "
            "contact."
        )


def _description(model: Model) -> str:
    """A few lines: what there is, and how much was left out."""
    bodies, obstacles = model.world.bodies, model.world.obstacles
    solids = sum(len(body.shape.pieces()) for body in bodies)
    lines = [
        f"bodies: {len(bodies)}, of {solids} geoms, named {reprlib.repr(model.names)}",
        f"obstacles: {len(obstacles)}",
        f"joints: {len(model.joint_names)}, named {reprlib.repr(model.joint_names)}",
        f"controls: {len(model.control_names)}, named {reprlib.repr(model.control_names)}",
        f"world: {model.world!r}",
        f"report: {model.report!r}",
    ]
    return "Model(\n  " + "\n  ".join(lines) + "\n)"


def _number_of(model: Any, path: Path, keyframe: str | int | None) -> int | None:
    """The number of a keyframe."""
    if keyframe is None:
        return None
    names = [model.key(i).name for i in range(model.nkey)]
    index = names.index(keyframe) if keyframe in names else keyframe
    if not isinstance(index, int) or not 0 <= index < model.nkey:
        raise ValueError(f"{path} has no keyframe {keyframe!r}; it has {names}.")
    return index


def _keyframe(model: Any, kinematics: Kinematics, number: int) -> Keyframe:
    qpos, qvel = as_jax(model.key_qpos[number]), as_jax(model.key_qvel[number])
    return Keyframe(kinematics.state(qpos, qvel), as_jax(model.key_ctrl[number]))


def _initial(model: Any, kinematics: Kinematics) -> Keyframe:
    """The initial pose, at rest."""
    rest, controls = np.zeros(model.nv), np.zeros(model.nu)
    return Keyframe(kinematics.state(as_jax(model.qpos0), as_jax(rest)), as_jax(controls))
