"""What moves as one in a compiled model: its bodies, poses and masses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from .report import Losses
from .unsupported import name_of, note_joint

EPS = np.finfo(float).eps


class Pose(NamedTuple):
    """The pose of a frame in another one: z -> turn z + position."""

    position: np.ndarray  # [m]
    turn: Rotation

    @staticmethod
    def of(position: np.ndarray, quaternion: np.ndarray) -> Pose:
        """The pose in MuJoCo's arrays."""
        return Pose(np.array(position), Rotation.from_quat(quaternion, scalar_first=True))

    def then(self, inner: Pose) -> Pose:
        """A pose given in this frame, in the frame of this one."""
        return Pose(self.position + self.turn.apply(inner.position), self.turn * inner.turn)


class Inertial(NamedTuple):
    """Mass, centre and inertia of bodies welded together, in the frame of the first."""

    mass: float  # [kg]
    center: np.ndarray  # of mass [m]
    inertia: np.ndarray  # about the centre of mass [kg m^2], shape (3, 3)


class Group(NamedTuple):
    """Bodies that are welded together; the first one has the joint."""

    name: str
    joint: int
    places: dict[int, Pose]  # of each body, in the frame of the first
    inertial: Inertial

    @property
    def root(self) -> int:
        """The first body."""
        return next(iter(self.places))


def moving_groups(mujoco: Any, model: Any, losses: Losses) -> list[Group]:
    """The groups that jaxrb can move; notes all other bodies, which are left out with what they
    carry."""
    welded = model.body_weldid
    kept, gone = [], set()
    for body in range(1, model.nbody):  # parents come before their children
        root = int(welded[body])
        if body != root:
            if root in gone:
                why = f"it is welded to {name_of(model, 'body', root)!r}, which is left out"
                losses.lost("body", name_of(model, "body", body), why)
            continue
        why = _unknown(mujoco, model, root, losses)
        carrier = int(welded[model.body_parentid[root]])
        if carrier in gone:
            why.append(f"{name_of(model, 'body', carrier)!r}, which carries it, is left out")
        if why:
            gone.add(root)
            losses.lost("body", name_of(model, "body", root), "; ".join(why))
        else:
            kept.append(_group(model, root, losses))
    return kept


def _unknown(mujoco: Any, model: Any, root: int, losses: Losses) -> list[str]:
    """Why a body cannot be moved by itself; notes its joints."""
    if model.body_mocapid[root] >= 0:
        return ["its motion is prescribed (mocap)"]
    kinds = mujoco.mjtJoint
    carrier = int(model.body_weldid[model.body_parentid[root]])
    first, number = int(model.body_jntadr[root]), int(model.body_jntnum[root])
    ball = number == 1 and model.jnt_type[first] == kinds.mjJNT_BALL
    free = number == 1 and model.jnt_type[first] == kinds.mjJNT_FREE
    if free or (ball and carrier == 0):
        return []
    names = []
    for joint in range(first, first + number):
        kind = kinds(model.jnt_type[joint]).name.removeprefix("mjJNT_").lower()
        names.append(name_of(model, "jnt", joint))
        losses.lost(
            "joint",
            names[-1],
            f"{kind} joint{' between moving bodies' if ball else ''} of the body "
            f"{name_of(model, 'body', root)!r}; known are free joints, and one ball joint to the "
            "world",
        )
    return [f"it hangs on {', '.join(map(repr, names))}, which jaxrb does not know"]


def _group(model: Any, root: int, losses: Losses) -> Group:
    places = {root: Pose(np.zeros(3), Rotation.identity())}
    for body in range(root + 1, model.nbody):  # parents come before their children
        if model.body_weldid[body] == root:
            carrier = places[int(model.body_parentid[body])]
            places[body] = carrier.then(Pose.of(model.body_pos[body], model.body_quat[body]))
    joint = int(model.body_jntadr[root])
    note_joint(model, joint, losses)
    return Group(name_of(model, "body", root), joint, places, _combined(model, places))


def _combined(model: Any, places: dict[int, Pose]) -> Inertial:
    """The mass properties of all together, by the parallel axis theorem."""
    masses, centers, tensors = [], [], []
    for body, place in places.items():
        own = place.then(Pose.of(model.body_ipos[body], model.body_iquat[body]))
        axes = own.turn.as_matrix()
        masses.append(float(model.body_mass[body]))
        centers.append(own.position)
        tensors.append(axes @ np.diag(model.body_inertia[body]) @ axes.T)
    mass = float(np.sum(masses))
    center = centers[0]  # without round-off, if it is alone
    if len(masses) > 1:
        center = np.array(masses) @ np.array(centers) / mass
    inertia = np.zeros((3, 3))
    for m, c, tensor in zip(masses, centers, tensors, strict=True):
        arm = c - center
        inertia += tensor + m * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    inertia = (inertia + inertia.T) / 2
    noise = ~np.eye(3, dtype=bool) & (np.abs(inertia) <= 16 * EPS * np.abs(inertia).max())
    return Inertial(mass, center, np.where(noise, 0.0, inertia))
