"""Angles, displacements and errors of the joints of a state."""

from __future__ import annotations

import jax.numpy as jnp
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
