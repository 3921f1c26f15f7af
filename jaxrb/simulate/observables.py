"""Gaps, energies, momenta and forces of a state."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import (
    AbstractTracking,
    ConstantForce,
    Inertial,
    State,
    TrackingError,
    stretch as stretches,
)
from ..bodies.forces import Wrench
from ..bodies.joints.coordinates import JointCoordinates
from ..bodies.state import to_phase
from ..math import Vec3, cross, dot, rotate, rotate_inverse, zeros_like
from .system import build, loads_of, partners
from .world import World


def gaps(
    world: World, state: State, t: float | Float[Array, ""] = 0.0, args: Any = None
) -> Float[Array, "n_bodies n_obstacles"]:
    """Signed distance of each body from each obstacle [m], negative when penetrating; infinite
    where `World.obstacle_pairs` leaves them out.

    It is known as `pair_gaps` says, an obstacle in place of the second body.

    Args:
        world, state: the bodies and where they are.
        t: time [s], on which obstacles that move depend.
        args: of their motions, as in `simulate`.
    """
    system, phase = build(world, state, args)
    least = jnp.full((len(world.bodies), len(world.obstacles)), jnp.inf, state.position.dtype)
    if system.contacts is None:
        return least
    body, obstacle = partners(world, system.contacts).T
    gap = system.contacts.find(jnp.asarray(t, state.position.dtype), phase).gap.reshape(-1)
    own = obstacle < len(world.obstacles)
    return least.at[body[own], obstacle[own]].min(gap[own])


def pair_gaps(world: World, state: State) -> Float[Array, " n_pairs"]:
    """Signed distance of the bodies of each pair in `World.pairs` [m], negative when penetrating.

    Of convex solids, and of balls and any solid, it is the distance where they are apart; of an
    ellipsoid and a polyhedron it is less than that, as the one along their common normal at
    contact. Where solids penetrate each other it is minus the depth, if that is small.
    """
    # Without obstacles, whose motions may take arguments.
    world = dataclasses.replace(world, obstacles=(), obstacle_pairs=None, pair_laws=())
    system, phase = build(world, state)
    least = jnp.full((len(world.pairs),), jnp.inf, state.position.dtype)
    if not world.pairs:
        return least
    assert system.contacts is not None
    gap = system.contacts.find(jnp.zeros((), least.dtype), phase).gap.reshape(-1)
    number = {pair: k for k, pair in enumerate(world.pairs)}
    first, second = partners(world, system.contacts).T
    other = second - len(world.obstacles)
    places = [number.get((min(p), max(p)), -1) for p in zip(first, other, strict=True)]
    own = np.array(places) >= 0
    return least.at[np.array(places)[own]].min(gap[own])


def deepest_penetration(world: World, state: State, t: Any = 0.0, args: Any = None) -> str:
    """A sentence on what is deepest in what; empty where nothing penetrates."""
    of_obstacles = np.asarray(gaps(world, state, t, args))
    of_pairs = np.asarray(pair_gaps(world, state))
    least = min(of_obstacles.min(initial=0.0), of_pairs.min(initial=0.0))
    if not least < 0:
        return ""
    if of_obstacles.min(initial=0.0) == least:
        body, obstacle = np.unravel_index(np.argmin(of_obstacles), of_obstacles.shape)
        where = f"body {body} is {-least:.3g} m deep in obstacle {obstacle}"
    else:
        first, second = world.pairs[int(np.argmin(of_pairs))]
        where = f"bodies {first} and {second} are {-least:.3g} m deep in each other"
    return f"At the start {where}."


def kinetic_energy(world: World, state: State) -> Float[Array, ""]:
    """sum of (m v.v + Omega.J Omega)/2, of rotors in joints, and what is in `State.stretch` [J]."""
    inertial = Inertial.of(world.bodies, state.position.dtype, world.pins)
    v, omega = Vec3.of(state.velocity), Vec3.of(state.angular_velocity)
    twice = inertial.mass * dot(v, v) + dot(omega, inertial.inertia.matvec(omega))
    if state.stretch is not None:
        stretch = stretches.of_array(state.stretch)
        twice += 2 * stretches.stretch_energy(stretch, inertial.about_pivot())
    geared = JointCoordinates.of(world.joints, state.position.dtype, having="armature")
    of_rotors = jnp.zeros((), state.position.dtype)
    if geared is not None:
        inertial = Inertial.of(world.bodies, state.position.dtype)
        rate = geared.rate(to_phase(state, inertial), inertial)
        of_rotors = jnp.sum(geared.armature * rate**2)
    return (jnp.sum(twice) + of_rotors) / 2


def potential_energy(world: World, state: State) -> Float[Array, ""]:
    """The potential energy of gravity and constant forces, -sum of (m g + F).x, zero at the world's
    origin, and of all other forces and springs in joints that have one [J]."""
    inertial = Inertial.of(world.bodies, state.position.dtype)
    gravity = Vec3.of(world.accelerations().astype(state.position.dtype))
    energy = -jnp.sum(inertial.mass * dot(gravity, Vec3.of(state.position)))
    parts = loads_of(world, state.position.dtype)
    phase = to_phase(state, inertial)
    return sum((part.potential(phase) for part in parts if part.conservative), energy)


def energy(world: World, state: State) -> Float[Array, ""]:
    """Kinetic and potential energy of all bodies [J]."""
    return kinetic_energy(world, state) + potential_energy(world, state)


def tracking_errors(
    world: World, state: State, t: float | Float[Array, ""] = 0.0, args: Any = None
) -> tuple[TrackingError, ...]:
    """How far bodies are from what they are to follow: one for each `AttitudeTracking`,
    `PoseTracking` and `QuadrotorTracking` in `World.forces`, in that order.

    Args:
        world, state: the bodies and how they move.
        t: time [s].
        args: of the references, as in `simulate`.
    """
    dtype = state.position.dtype
    inertial = Inertial.of(world.bodies, dtype)
    phase = to_phase(state, inertial)
    return tuple(
        load.error(t, phase, inertial, args)
        for load in loads_of(world, dtype)
        if isinstance(load, AbstractTracking)
    )


def linear_momentum(world: World, state: State, *, per_body: bool = False) -> Array:
    """World frame [kg m/s]: total, shape (3,), or per body, shape (n_bodies, 3)."""
    mass = Inertial.of(world.bodies, state.position.dtype).mass
    momentum = (Vec3.of(state.velocity) * mass).array()
    return momentum if per_body else jnp.sum(momentum, axis=0)


def angular_momentum(
    world: World, state: State, *, about=(0.0, 0.0, 0.0), per_body: bool = False
) -> Array:
    """World frame [kg m^2/s]: total, shape (3,), or per body, shape (n_bodies, 3).

    Args:
        world, state: the bodies and how they move.
        about: the fixed point, world frame [m], shape (3,); or, with shape (n_bodies, 3), one
            a body: `state.position` gives the spins about the centres of mass.
        per_body: whether to keep the bodies apart.
    """
    inertial = Inertial.of(world.bodies, state.position.dtype)
    phase = to_phase(state, inertial)
    arm = phase.position - Vec3.of(jnp.asarray(about, state.position.dtype))
    spin = rotate(phase.orientation, phase.angular_momentum)
    momentum = (cross(arm, phase.linear_momentum) + spin).array()
    return momentum if per_body else jnp.sum(momentum, axis=0)


def constraint_violation(world: World, state: State) -> tuple[Array, Array]:
    """The errors of a state in its joints' constraints, world frame, each of shape (n_bodies, 3).

    Returns:
        The distance of each pinned body from its point [m], and the velocity of the body
        there [m/s]; 0 for free bodies. `EnergyMidpoint` keeps the first at round-off and the
        second at O(dt^2), the other flows both at round-off.

    Raises:
        ValueError: if there are other joints than pins to the world: `joint_violations` knows all.
    """
    _check_pins(world, "joint_violations knows all joints")
    inertial = Inertial.of(world.bodies, state.position.dtype, world.pins)
    off, slip = inertial.constraint_violation(to_phase(state, inertial))
    return off.array(), slip.array()


def reaction_forces(
    world: World, state: State, t: float | Float[Array, ""] = 0.0, args: Any = None
) -> Float[Array, "n_bodies 3"]:
    """The force of each body's pin at this instant, world frame [N]; 0 on free bodies.

    m a - F with the force F of gravity and all loads, and the acceleration a of the centre of mass
    that follows from Euler's equations about the pivot. Contacts are left out.

    Args:
        world, state: the bodies and how they move.
        t: time [s].
        args: of forces, as of `simulate`.

    Raises:
        ValueError: if there are other joints than pins to the world: see `joint_reactions`.
    """
    _check_pins(world, "joint_reactions knows the forces of all joints")
    dtype = state.position.dtype
    inertial = Inertial.of(world.bodies, dtype, world.pins)
    pivot = inertial.pivot
    if pivot is None:
        return jnp.zeros_like(state.position)
    phase = to_phase(state, inertial)
    q, omega = phase.orientation, Vec3.of(state.angular_velocity)
    weight = Vec3.of(world.accelerations().astype(dtype)) * inertial.mass
    total = Wrench(weight, zeros_like(weight))
    for load in loads_of(world, dtype):
        total = total + load.wrench(jnp.asarray(t, dtype), phase, inertial, args)
    torque = total.torque + cross(pivot.arm, rotate_inverse(q, total.force))
    rate = pivot.inertia.solve(cross(pivot.inertia.matvec(omega), omega) + torque)
    acceleration = cross(rate, pivot.arm) + cross(omega, cross(omega, pivot.arm))
    force = rotate(q, acceleration) * inertial.mass - total.force
    return jnp.where(pivot.pinned[:, None], force.array(), 0.0)


def mean_reaction_forces(
    world: World, ts: Float[Array, " n"], states: State
) -> Float[Array, "n_steps n_bodies 3"]:
    """The mean force of each body's pin between successive times, world frame [N].

    From the balance of linear momentum, (p' - p)/h - m g, g with constant forces; 0 on free
    bodies. Between the steps of `EnergyMidpoint`, saved with `SaveAt(every=1)`, it is the
    multiplier lambda of Geradin and Rixen, eq. (306a); its error alternates and is O(dt), that of
    the mean of two O(dt^2).

    Args:
        world: the bodies and their pins.
        ts: times [s], shape (n,).
        states: at these times, with a leading axis of n.

    Returns:
        Shape (n - 1, n_bodies, 3).

    Raises:
        ValueError: if there are other joints than pins to the world, or other forces than
            `ConstantForce`.
    """
    _check_pins(world, "joint_reactions knows the forces of all joints, at an instant")
    if not all(isinstance(load, ConstantForce) for load in world.forces):
        raise ValueError(
            "World.forces: only those of ConstantForce are known in the mean over a step; "
            "reaction_forces knows the forces of pins at an instant."
        )
    inertial = Inertial.of(world.bodies, states.position.dtype, world.pins)
    if inertial.pivot is None:
        return jnp.zeros_like(states.position[1:])
    h = (ts[1:] - ts[:-1])[:, None, None]
    change = (states.velocity[1:] - states.velocity[:-1]) / h
    gravity = world.accelerations().astype(change.dtype)[None]
    force = inertial.mass[None, :, None] * (change - gravity)
    return jnp.where(inertial.pivot.pinned[None, :, None], force, 0.0)


def _check_pins(world: World, remedy: str) -> None:
    """Raises `ValueError` where there are other joints than pins."""
    beyond = world.joints_beyond_pins
    if beyond is not None:
        raise ValueError(f"This is of bodies pinned to the world; {beyond}: {remedy}.")
