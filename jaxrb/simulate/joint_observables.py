"""Angles, displacements and errors of the joints of a state."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import Inertial, State
from ..bodies.joints.coordinates import JointCoordinates
from ..bodies.joints.rows import JointRows
from ..bodies.state import to_phase
from .world import World


def joint_coordinates(world: World, state: State) -> Float[Array, " n_coordinates"]:
    """The angles of hinges, universal joints and gimbals [rad], displacements of sliders [m], and
    displacements and angles of planar joints, in the order of `World.joints`.

    Full turns are not known: an angle lies in (-pi, pi], or within half a turn of the middle of its
    limits. The second angle of a gimbal turns back at two places: see `Gimbal`.

    Args:
        world, state: the bodies and where they are.

    Returns:
        One number for each `Hinge` and `Slider`, two for a `Universal`, three for a `Gimbal` and
        one for each axis of a `Planar`, in their order; other joints have none.
    """
    coordinates = JointCoordinates.of(world.joints, state.position.dtype)
    if coordinates is None:
        return jnp.zeros(0, state.position.dtype)
    phase = to_phase(state, Inertial.of(world.bodies, state.position.dtype))
    return coordinates.in_order(coordinates.value(phase))


def joint_velocities(world: World, state: State) -> Float[Array, " n_coordinates"]:
    """The rates of `joint_coordinates` [rad/s] and [m/s], in the same order.

    Args:
        world, state: the bodies and how they move.
    """
    coordinates = JointCoordinates.of(world.joints, state.position.dtype)
    if coordinates is None:
        return jnp.zeros(0, state.position.dtype)
    inertial = Inertial.of(world.bodies, state.position.dtype)
    return coordinates.in_order(coordinates.rate(to_phase(state, inertial), inertial))


def beyond_limits(world: World, state: State) -> list[tuple[int, float, str]]:
    """The coordinates of joints that are beyond their limits; not to be traced.

    Returns:
        Of each the place of its joint in `World.joints`, by how much, and its unit: "rad" or "m".
    """
    limited = JointCoordinates.of(world.joints, state.position.dtype, having="limits")
    if limited is None:
        return []
    value = limited.value(to_phase(state, Inertial.of(world.bodies, state.position.dtype)))
    excess = np.asarray(jnp.maximum(limited.lower - value, value - limited.upper))
    units = ["rad" if part.angular else "m" for part in limited.parts for _ in part.ends.joints]
    # More than the round-off of angles up to half a turn.
    least = 8 * jnp.finfo(state.position.dtype).eps
    found = zip(limited.joints, excess.tolist(), units, strict=True)
    return [(joint, by, unit) for joint, by, unit in found if by > least]


def farthest_beyond(world: World, state: State) -> str:
    """A sentence on the joint that is farthest beyond its limits; empty where none is."""
    beyond = beyond_limits(world, state)
    if not beyond:
        return ""
    number, excess, unit = max(beyond, key=lambda one: one[1])
    kind = type(world.joints[number]).__name__
    return f"At the start World.joints[{number}], a {kind}, is {excess:.3g} {unit} beyond a limit."


def joint_violations(world: World, state: State) -> tuple[Array, Array]:
    """The errors of a state in all joints, each of shape (n_joints,).

    Errors of orientation count as the arc at a radius of about the radius of gyration of the
    bodies: the root of the sum of their inverse masses over that of their mean inverse moments of
    inertia.

    Args:
        world, state: the bodies and how they move.

    Returns:
        The error in place of each joint [m], and its rate [m/s].
    """
    inertial = Inertial.of(world.bodies, state.position.dtype)
    if not world.joints:
        none = jnp.zeros(0, state.position.dtype)
        return none, none
    phase, rows = to_phase(state, inertial), JointRows.of(world.joints, inertial)
    off, rate = rows.violation(phase), rows.rate(phase, inertial)
    return rows.of_each_joint(off), rows.of_each_joint(rate)


def worst_joint(world: World, state: State) -> str:
    """A sentence on the joint that a state violates most, and by how much."""
    inertial = Inertial.of(world.bodies, state.position.dtype)
    rows = JointRows.of(world.joints, inertial)
    number, error, unit = rows.worst(to_phase(state, inertial), inertial)
    joint = world.joints[number]
    other = "the world" if joint.other is None else f"body {joint.other}"
    what = "moves off at" if unit.endswith("/s") else "is off by"
    return (
        f"At the start World.joints[{number}], a {type(joint).__name__} between body {joint.body} "
        f"and {other}, {what} {error:.3g} {unit}."
    )
