"""A world from what moves in a compiled model, what holds it and what it touches."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..bodies import AbstractLoad, ConstantForce, RigidBody
from ..impact import AbstractContactLaw, Coulomb, Frictionless
from ..shapes import AbstractSolid, HalfSpace
from ..simulate import PairLaw, World
from .actuators import motors
from .collision_filter import Contacts, Friction, Touch
from .equalities import equalities
from .geoms import geom_kind, group_shape, inertia_ellipsoid, is_solid, obstacle
from .joints import NamedJoint, tree_joints
from .kinematics import Kinematics
from .report import Losses
from .unsupported import name_of
from .welded_groups import Group, fixed_places, moving_groups


class Assembly(NamedTuple):
    """The parts of a world."""

    names: tuple[str, ...]
    bodies: list[RigidBody]
    joints: list[NamedJoint]
    forces: list[AbstractLoad]
    obstacles: list[HalfSpace | AbstractSolid]
    gravity: np.ndarray  # [m/s^2]
    # The friction of each contact: of a body and an obstacle, and of two bodies.
    at_obstacles: dict[tuple[int, int], Friction]
    at_bodies: dict[tuple[int, int], Friction]
    kinematics: Kinematics

    def world(self, restitution: float, contact_law: AbstractContactLaw | None) -> World:
        """The world with the law that is given, or with those of the file's friction."""
        law = cache(lambda friction: _law(friction, restitution))
        frictions = [*self.at_obstacles.values(), *self.at_bodies.values()]
        special = []
        if contact_law is None:
            usual = Counter(frictions).most_common(1)[0][0] if frictions else Friction()
            contact_law = law(usual)
            for (body, obstacle), own in self.at_obstacles.items():
                if own != usual:
                    special.append(PairLaw(law(own), body, obstacle=obstacle))
            for (body, other), own in self.at_bodies.items():
                if own != usual:
                    special.append(PairLaw(law(own), body, other=other))
        # As it is by default, where nothing is left out.
        all_touch = len(self.at_obstacles) == len(self.bodies) * len(self.obstacles)
        return World(
            self.bodies,
            self.obstacles,
            [named.joint for named in self.joints],
            self.gravity,
            contact_law,
            self.forces,
            pairs=list(self.at_bodies),
            pair_laws=special,
            obstacle_pairs=None if all_touch else list(self.at_obstacles),
        )


def assemble(mujoco: Any, model: Any, law_given: bool, losses: Losses) -> Assembly:
    """The parts of the world of a compiled model; notes what it does not have.

    With `law_given` the friction of the model counts for nothing.
    """
    groups = moving_groups(mujoco, model, losses)
    contacts = Contacts(mujoco, model, law_given, losses)
    geoms, fixed = _owned_geoms(model, groups)
    touching = _touching_geoms(geoms, fixed, contacts)
    obstacles = _obstacles(mujoco, model, fixed, touching, losses)
    used = [[geom for geom in own if geom in touching] for own in geoms]
    bodies = [
        _body(mujoco, model, group, own, seen, losses)
        for group, own, seen in zip(groups, geoms, used, strict=True)
    ]
    gravity = np.array(model.opt.gravity)
    if model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY:
        gravity = np.zeros(3)
    names = tuple(group.name for group in groups)
    things = [_Thing(name, own) for name, own in zip(names, used, strict=True)]
    solids = [_Thing(name_of(model, "geom", geom), [geom]) for geom in obstacles]
    at_obstacles, at_bodies = {}, {}
    for i, thing in enumerate(things):
        for k, friction in _frictions(thing, solids, contacts, losses):
            at_obstacles[i, k] = friction
        for j, friction in _frictions(thing, things[i + 1 :], contacts, losses):
            at_bodies[i, i + 1 + j] = friction
    joints = tree_joints(mujoco, model, groups, losses)
    joints += equalities(mujoco, model, groups, losses)
    return Assembly(
        names=names,
        bodies=bodies,
        joints=joints,
        forces=[
            *_lifts(model, groups, gravity, losses),
            *motors(mujoco, model, joints, losses),
        ],
        obstacles=list(obstacles.values()),
        gravity=gravity,
        at_obstacles=at_obstacles,
        at_bodies=at_bodies,
        kinematics=Kinematics.of(mujoco, model, groups),
    )


def _owned_geoms(model: Any, groups: list[Group]) -> tuple[list[list[int]], list[int]]:
    """The geoms of each group, and those fixed in the world."""
    owner = {body: index for index, group in enumerate(groups) for body in group.places}
    geoms: list[list[int]] = [[] for _ in groups]
    fixed = []
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        if body in owner:
            geoms[owner[body]].append(geom)
        elif model.body_weldid[body] == 0:
            fixed.append(geom)
    return geoms, fixed


def _touching_geoms(geoms: list[list[int]], fixed: list[int], contacts: Contacts) -> set[int]:
    """The geoms that can touch another one that moves otherwise."""
    found = set()
    others = [geom for own in geoms for geom in own] + fixed
    for own in geoms:
        others = others[len(own) :]  # of later groups, and fixed
        touching = contacts.touch(own, others)
        found |= {own[row] for row in np.flatnonzero(touching.any(axis=1))}
        found |= {others[column] for column in np.flatnonzero(touching.any(axis=0))}
    return found


class _Thing(NamedTuple):
    """A body or an obstacle, and its geoms that can touch something."""

    name: str
    geoms: list[int]


def _frictions(
    one: _Thing, others: list[_Thing], contacts: Contacts, losses: Losses
) -> list[tuple[int, Friction]]:
    """The numbers of the others that a body touches, and their friction."""
    seen = [k for k, other in enumerate(others) if one.geoms and other.geoms]
    touches = contacts.between(one.geoms, [others[k].geoms for k in seen])
    return [
        (k, _one(touch, f"{one.name} and {others[k].name}", losses))
        for k, touch in zip(seen, touches, strict=True)
        if touch.touching
    ]


def _obstacles(
    mujoco: Any, model: Any, fixed: list[int], touching: set[int], losses: Losses
) -> dict[int, HalfSpace | AbstractSolid]:
    """The obstacles, by the geoms that they are."""
    places, found = fixed_places(model), {}
    for geom in fixed:
        kind, name = geom_kind(mujoco, model, geom), name_of(model, "geom", geom)
        if geom not in touching:
            losses.harmless("geom", name, f"{kind} fixed in the world that nothing touches")
        elif kind == "plane" or is_solid(kind):
            place = places[int(model.geom_bodyid[geom])]
            found[geom] = obstacle(mujoco, model, geom, place, losses)
        else:
            losses.lost("geom", name, f"a fixed {kind} is not known")
    return found


def _body(
    mujoco: Any, model: Any, group: Group, geoms: list[int], seen: list[int], losses: Losses
) -> RigidBody:
    """The rigid body of a group, in the shape of its geoms that are seen by others, or, if none
    is, of all."""
    for geom in geoms:
        kind, name = geom_kind(mujoco, model, geom), name_of(model, "geom", geom)
        if geom in seen and not is_solid(kind):
            losses.lost("geom", name, f"a moving {kind} is not known")
        elif geom not in seen and seen:
            losses.harmless("geom", name, f"{kind} that touches nothing; its mass counts")
    shape = group_shape(mujoco, model, group, seen or geoms, losses)
    if shape is None:
        shape = inertia_ellipsoid(group)
        losses.harmless("body", group.name, "has no solid: an ellipsoid of its inertia stands in")
    mass, _, inertia = group.inertial
    principal = np.diag(inertia)
    diagonal = np.array_equal(inertia, np.diag(principal))
    return RigidBody(shape, mass, principal if diagonal else inertia)


def _one(touch: Touch, name: str, losses: Losses) -> Friction:
    """The one friction of two bodies, or of one and an obstacle, that touch."""
    if touch.apart:
        why = "some of their geoms touch, others do not, but bodies touch as a whole"
        losses.lost("contact", name, why)
    if len(touch.frictions) > 1:
        different = ", ".join(map(str, touch.frictions))
        losses.lost("contact", name, f"its geoms have different friction: {different}")
    return max(touch.frictions)


def _law(friction: Friction, restitution: float) -> AbstractContactLaw:
    if not any(friction):
        return Frictionless(restitution)
    # None is a contact that nothing resists in turning, and costs nothing.
    return Coulomb(
        friction.sliding,
        restitution,
        rolling_friction=friction.rolling or None,
        spinning_friction=friction.spinning or None,
    )


def _lifts(
    model: Any, groups: list[Group], gravity: np.ndarray, losses: Losses
) -> list[ConstantForce]:
    """The forces of gravcomp."""
    forces = []
    for index, group in enumerate(groups):
        heavy = [body for body in group.places if model.body_mass[body] > 0]
        parts = model.body_gravcomp[heavy]
        if not parts.any() or not gravity.any():
            continue
        if np.all(parts == parts[0]):
            forces.append(ConstantForce(index, -parts[0] * group.inertial.mass * gravity))
        else:
            losses.lost("body", group.name, "the gravcomp of what is welded together differs")
    return forces
