"""What moves as one in a compiled model: its bodies, poses, masses and joints."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from .freedoms import freedom, kinds_of
from .report import Losses
from .unsupported import name_of

EPS = np.finfo(float).eps


class Pose(NamedTuple):
    """The pose of a frame in another one: z -> turn z + position."""

    position: np.ndarray  # [m]
    turn: Rotation

    @staticmethod
    def of(position: np.ndarray, quaternion: np.ndarray) -> Pose:
        """The pose in MuJoCo's arrays."""
        return Pose(np.array(position), Rotation.from_quat(quaternion, scalar_first=True))

    def point(self, inner: np.ndarray) -> np.ndarray:
        """A point given in this frame, in the frame of this one."""
        return self.position + self.turn.apply(inner)

    def then(self, inner: Pose) -> Pose:
        """A pose given in this frame, in the frame of this one."""
        return Pose(self.point(inner.position), self.turn * inner.turn)


class Inertial(NamedTuple):
    """Mass, centre and inertia of bodies welded together, in the frame of the first."""

    mass: float  # [kg]
    center: np.ndarray  # of mass [m]
    inertia: np.ndarray  # about the centre of mass [kg m^2], shape (3, 3)


class Group(NamedTuple):
    """Bodies that are welded together; the first one has the joints."""

    name: str
    freedom: str  # what its joints are together: see `freedom`
    joints: range
    carrier: int | None  # the number of the group on which it hangs, or None: the world
    seat: Pose  # of the first body in the frame of the carrier, or the world, before its joints
    places: dict[int, Pose]  # of each body, in the frame of the first
    inertial: Inertial

    @property
    def root(self) -> int:
        """The first body."""
        return next(iter(self.places))

    def about_center(self, pose: Pose) -> Pose:
        """A pose in the frame of the first body, in the body frame of the group, whose origin is
        its centre of mass."""
        return Pose(pose.position - self.inertial.center, pose.turn)


def moving_groups(mujoco: Any, model: Any, losses: Losses) -> list[Group]:
    """The groups that jaxrb can move; notes all other bodies, which are left out with what they
    carry."""
    welded = model.body_weldid
    fixed = fixed_places(model)
    kept: dict[int, Group] = {}  # by their first bodies
    gone = set()
    for body in range(1, model.nbody):  # parents come before their children
        root = int(welded[body])
        if body != root:
            if root in gone:
                why = f"it is welded to {name_of(model, 'body', root)!r}, which is left out"
                losses.lost("body", name_of(model, "body", body), why)
            continue
        parent = int(model.body_parentid[root])
        carrier = int(welded[parent])
        why, together = _unknown(mujoco, model, root, losses)
        if carrier in gone:
            why.append(f"{name_of(model, 'body', carrier)!r}, which carries it, is left out")
        if why or together is None:
            gone.add(root)
            losses.lost("body", name_of(model, "body", root), "; ".join(why))
            continue
        beneath = fixed if carrier == 0 else kept[carrier].places
        places = _places(model, root)
        kept[root] = Group(
            name_of(model, "body", root),
            together,
            joints_of(model, root),
            None if carrier == 0 else list(kept).index(carrier),
            beneath[parent].then(_own_place(model, root)),
            places,
            _combined(model, places),
        )
    return list(kept.values())


def joints_of(model: Any, body: int) -> range:
    """The joints of a body."""
    first = int(model.body_jntadr[body])
    return range(first, first + int(model.body_jntnum[body]))


def fixed_places(model: Any) -> dict[int, Pose]:
    """The poses of the bodies that are fixed in the world."""
    return _places(model, 0)


def _unknown(mujoco: Any, model: Any, root: int, losses: Losses) -> tuple[list[str], str | None]:
    """Why a body cannot be moved, and what its joints are together; notes joints."""
    if model.body_mocapid[root] >= 0:
        return ["its motion is prescribed (mocap)"], None
    joints = joints_of(model, root)
    together = freedom(mujoco, model, joints)
    if together is not None:
        return [], together
    names = [name_of(model, "jnt", joint) for joint in joints]
    kinds = ", ".join(kinds_of(mujoco, model, joints))
    for name in names:
        losses.lost(
            "joint",
            name,
            f"one of several ({kinds}) of the body {name_of(model, 'body', root)!r}, which are no "
            "joint of jaxrb together; a body with a mass between them makes each a joint of its "
            "own",
        )
    return [f"it hangs on {', '.join(map(repr, names))}, which jaxrb does not know"], None


def _places(model: Any, root: int) -> dict[int, Pose]:
    """The poses of all bodies welded to one, in its frame."""
    places = {root: Pose(np.zeros(3), Rotation.identity())}
    for body in range(root + 1, model.nbody):  # parents come before their children
        if model.body_weldid[body] == root:
            places[body] = places[int(model.body_parentid[body])].then(_own_place(model, body))
    return places


def _own_place(model: Any, body: int) -> Pose:
    return Pose.of(model.body_pos[body], model.body_quat[body])


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
