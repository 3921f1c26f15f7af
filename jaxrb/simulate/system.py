"""A world in component form: what the inner loop sees."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from ..bodies import AbstractLoad, ConstantForce, Dynamics, Inertial, Motor, Phase, State
from ..bodies.forces import joint_loads
from ..bodies.joints.rows import JointRows
from ..bodies.rigid_body import all_centered, possible_inertia
from ..bodies.state import UNIT_TOLERANCE, check_bodies, from_phase, to_phase
from ..contact import AbstractContactSet, AtHalfSpaces, JointLimits, Moving, Travel, all_contacts
from ..impact import AbstractContactLaw, Frictionless
from ..impact.laws import law_of_each
from ..math import Vec3, cross, dot
from .results import Code, first_failure
from .world import World


class System(eqx.Module):
    """A world in component form. Bodies are sorted so that equal shape types are contiguous."""

    dynamics: Dynamics
    contacts: AbstractContactSet | None  # None where nothing can touch anything
    contact_law: AbstractContactLaw
    joints: JointRows | None  # None where no rows hold bodies, but points about which they turn
    # The contacts at which something resists rolling, and spinning.
    turning: tuple[tuple[int, ...], tuple[int, ...]] = eqx.field(static=True)
    # Of each contact its place among all in the order of the world; None if they are in order.
    ranks: tuple[int, ...] | None = eqx.field(static=True)
    # Of each contact its number among all, where these are some of them; None if they are all.
    numbers: Int[Array, " n_contacts"] | None = None

    @property
    def inertial(self) -> Inertial:
        """Masses and inertia tensors."""
        return self.dynamics.inertial

    def among(self, some: AbstractContactSet, numbers: Int[Array, " n_contacts"]) -> System:
        """With some of all contacts, and of each its number among all."""
        law = jax.tree.map(
            lambda leaf: leaf.reshape(-1)[numbers] if leaf.ndim else leaf, self.contact_law
        )
        return dataclasses.replace(self, contacts=some, contact_law=law, numbers=numbers)

    def soon(self, duration: Float[Array, ""], tolerance: float) -> System:
        """With contacts that are found if they can close in a step of a duration [s], to a gap of
        a tolerance [m]."""
        if self.contacts is None:
            return self
        travel = Travel(self.dynamics, duration, tolerance)
        return dataclasses.replace(self, contacts=self.contacts.soon(travel))

    def order(self, shape: tuple[int, ...]) -> Int[Array, "..."]:
        """Of each contact its place among all in the order of the world, in an array of a shape."""
        if self.ranks is None:
            numbers = jnp.arange(math.prod(shape), dtype=jnp.int32)
            order = numbers if self.numbers is None else self.numbers
        else:
            order = jnp.asarray(self.ranks, jnp.int32)
            order = order if self.numbers is None else order[self.numbers]
        return order.reshape(shape)

    def at_half_spaces(self, phase: Phase) -> AtHalfSpaces:
        """The contacts, of a world in which bodies do not touch each other."""
        assert self.contacts is not None
        # These half-spaces stay where they are.
        contacts = self.contacts.find(jnp.zeros_like(phase.position.x[0]), phase)
        assert isinstance(contacts, AtHalfSpaces)
        return contacts


def body_order(world: World) -> np.ndarray:
    """The bodies' indices, those of one kind of shape next to each other."""
    kinds = [jax.tree.structure(body.shape) for body in world.bodies]
    return np.array(sorted(range(len(kinds)), key=lambda i: kinds.index(kinds[i])))


def build(
    world: World,
    state: State,
    args: Any = None,
    *,
    standing: bool = False,
    principal: bool = False,
    pivots: bool = True,
) -> tuple[System, Phase]:
    """The component form of a world and of its state, in the dtype of the state.

    Args:
        world: and what moves it.
        state: of its bodies.
        args: of the loads, and of obstacles that move.
        standing: whether contacts can last (see `HalfSpaceContacts.of`).
        principal: whether the flow needs the principal axes of the bodies.
        pivots: whether pinned bodies turn about their points, as the flows have it; if not, their
            pins are rows like all joints, and to contacts they are free. Other joints are rows in
            any case.

    Raises:
        ValueError: if the state does not fit the world, in number or in precision.
    """
    check_bodies(world.bodies, state)
    dtype = state.position.dtype
    numbers, indices = eqx.partition((world, state), eqx.is_inexact_array)
    for leaf in jax.tree.leaves(numbers):
        if jnp.finfo(leaf.dtype).eps > jnp.finfo(dtype).eps:
            raise ValueError(
                f"The state is {dtype} but the world holds numbers of dtype {leaf.dtype}, too "
                "coarse for it: build the world from Python numbers or from arrays of the "
                "state's dtype."
            )
    numbers = jax.tree.map(lambda leaf: leaf.astype(dtype), numbers)
    world, state = eqx.combine(numbers, indices)
    order = body_order(world)
    bodies = all_centered([world.bodies[i] for i in order])
    pins = [world.pins[i] if pivots else None for i in order]
    inertial = Inertial.of(bodies, dtype, pins, principal=principal)
    place = np.argsort(order)
    pairs = [(int(place[i]), int(place[j])) for i, j in world.pairs]
    obstacle_pairs = world.obstacle_pairs
    if obstacle_pairs is not None:
        obstacle_pairs = [(int(place[body]), obstacle) for body, obstacle in obstacle_pairs]
    pinned = [pin is not None for pin in pins]
    in_rows = not pivots or world.joints_beyond_pins is not None
    joints = joint_rows(world, inertial) if in_rows else None
    limits = None
    if standing and joints is not None and joints.limited is not None:
        first_joint = len(world.obstacles) + len(world.bodies)
        limits = JointLimits(joints.limited, JointRows.arcs(joints.limited, inertial), first_joint)
    contacts = all_contacts(
        bodies,
        world.obstacles,
        pairs,
        obstacle_pairs=obstacle_pairs,
        pinned=pinned,
        args=args,
        standing=standing,
        limits=limits,
    )
    if contacts is not None and any(pinned) and world.frictional:
        _check_pinned_friction(world, contacts)
    dynamics = _dynamics(world, inertial, args, order)
    law, turning, ranks = world.contact_law, ((), ()), None
    if contacts is not None:
        law, turning, ranks = *_law(world, contacts), _ranks(world, contacts)
        _check_turning(world, contacts, turning)
    system = System(dynamics, contacts, law, joints, turning, ranks)
    return system, to_phase(jax.tree.map(lambda leaf: _permute(leaf, order), state), inertial)


def _dynamics(world: World, inertial: Inertial, args: Any, order: np.ndarray) -> Dynamics:
    """Constant forces act as gravity does, which every scheme takes exactly."""
    constant = any(isinstance(load, ConstantForce) for load in world.forces)
    gravity = Vec3.of(world.accelerations()[order] if constant else world.gravity)
    loads = loads_of(world, inertial.mass.dtype)
    numbers, rest = eqx.partition(args, eqx.is_array_like)
    in_order = np.array_equal(order, np.arange(len(order)))
    return Dynamics(
        inertial,
        gravity,
        loads,
        jax.tree.map(jnp.asarray, numbers) if loads else None,
        rest if loads else None,
        None if in_order else tuple(order.tolist()),
    )


def loads_of(world: World, dtype: DTypeLike) -> tuple[AbstractLoad, ...]:
    """All loads but constant forces, each with a potential or none: those of forces, and of the
    springs and dampers in joints."""
    others = (load for load in world.forces if not isinstance(load, ConstantForce))
    gravity = world.gravity.astype(dtype)
    known = [load.in_joints(world.joints, dtype).under_gravity(gravity) for load in others]
    loads = (*known, *joint_loads(world.joints, dtype))
    return tuple(part for load in loads for part in load.parts())


def joint_rows(world: World, inertial: Inertial) -> JointRows | None:
    """The rows of all joints, pins included, for phases of a system; None without joints."""
    if not world.joints:
        return None
    servos = [load for load in world.forces if isinstance(load, Motor) and load.is_servo]
    driven = [motor.motions(world.joints) for motor in servos]
    return JointRows.of(world.joints, inertial, body_order(world).tolist(), driven)


def _law(
    world: World, contacts: AbstractContactSet
) -> tuple[AbstractContactLaw, tuple[tuple[int, ...], tuple[int, ...]]]:
    """The law of the world, with one entry for each contact where some have their own, and where
    there is friction against rolling and spinning."""
    listed = partners(world, contacts)
    stops = listed[:, 1] >= len(world.obstacles) + len(world.bodies)
    laws: list[AbstractContactLaw] = [world.contact_law]
    own = np.zeros(contacts.number, int)
    if stops.any():
        dtype = jnp.asarray(world.contact_law.restitution).dtype
        laws.append(Frictionless(jnp.zeros((), dtype)))
        own[stops] = 1
    for special in world.pair_laws:
        laws.append(special.law)
        for pair in special.partners(len(world.obstacles)):
            own[(listed == pair).all(axis=1)] = len(laws) - 1
    has = np.array([[x is not None for x in law.turning_friction] for law in laws])
    rolling, spinning = (tuple(np.flatnonzero(kind[own]).tolist()) for kind in has.T)
    if len(laws) == 1:
        return world.contact_law, (rolling, spinning)
    return law_of_each(laws, own.reshape(contacts.shape)), (rolling, spinning)


def partners(world: World, contacts: AbstractContactSet) -> Int[np.ndarray, "n_contacts 2"]:
    """The body of each contact and what it can hit, by their numbers in the world, where bodies
    are counted after all obstacles, and joints with limits after all bodies."""
    n_obstacles, order = len(world.obstacles), body_order(world)
    first, second = contacts.partners.T
    with_body = (second >= n_obstacles) & (second < n_obstacles + len(order))
    of_body = n_obstacles + order[np.where(with_body, second - n_obstacles, 0)]
    return np.stack([order[first], np.where(with_body, of_body, second)], axis=1)


def _check_turning(
    world: World, contacts: AbstractContactSet, turning: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    """Raises `ValueError` where obstacles may turn, of which only the velocity is known."""
    resisted = np.array(turning[0] + turning[1], int)
    for obstacle in np.unique(partners(world, contacts)[resisted, 1]):
        if obstacle < len(world.obstacles) and isinstance(world.obstacles[obstacle], Moving):
            raise ValueError(
                f"World.contact_law: obstacle {obstacle} moves, and friction against rolling and "
                "spinning is of obstacles at rest and of bodies. Give this pair a law without it, "
                "with World.pair_laws."
            )


def _check_pinned_friction(world: World, contacts: AbstractContactSet) -> None:
    """Raises `ValueError` where both sides of a contact with friction are held: an impulse towards
    a pin moves nothing, so that no slip tells how large it is."""
    held = [pin is not None for pin in world.pins]
    for body, other in partners(world, contacts):
        place = other - len(world.obstacles)
        if held[body] and (place < 0 or held[place]):
            what = f"obstacle {other}" if place < 0 else f"body {place}, which is pinned too,"
            kept = "obstacle_pairs" if place < 0 else "pairs"
            raise ValueError(
                f"World.contact_law: pinned body {body} can hit {what} without friction alone. Use "
                f"Frictionless laws, or leave the pair out of World.{kept}."
            )


def _ranks(world: World, contacts: AbstractContactSet) -> tuple[int, ...] | None:
    """The order of the contacts: obstacles first, then pairs; each sorted by indices."""
    numbers = partners(world, contacts)
    of_pair = numbers[:, 1] >= len(world.obstacles)
    bodies = numbers - np.where(of_pair[:, None], [0, len(world.obstacles)], 0)
    lower, upper = np.sort(bodies, axis=1).T
    first, second = np.where(of_pair, lower, bodies[:, 0]), np.where(of_pair, upper, bodies[:, 1])
    order = np.lexsort((second, first, of_pair))
    if np.array_equal(order, np.arange(len(order))):
        return None
    return tuple(np.argsort(order).tolist())


def to_state(system: System, world: World, phase: Phase) -> State:
    """The state of a phase, bodies in the order of the world."""
    back = np.argsort(body_order(world))
    state = from_phase(phase, system.inertial)
    return jax.tree.map(lambda leaf: _permute(leaf, back), state)


def initial_code(
    t0: Float[Array, ""],
    world: World,
    state: State,
    system: System,
    phase: Phase,
    penetration: float | Float[Array, ""],
) -> Int[Array, ""]:
    """The result code of a start at t0 [s] that cannot be simulated.

    Constructors have checked the numbers they could see; traced ones are checked here. Bodies may
    penetrate by a given depth [m].
    """
    # Not those of the contacts: NaN there says that a closest point was not found.
    numbers = jax.tree.leaves((eqx.filter(world, eqx.is_inexact_array), system.inertial, phase))
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in numbers]))
    length = jnp.sqrt(jnp.sum(state.quaternion**2, axis=-1))
    shapes = [body.shape for body in world.bodies]
    shapes += [o.shape if isinstance(o, Moving) else o for o in world.obstacles]
    lengths = [length for shape in shapes for length in shape.lengths()]
    possible = (
        jnp.all(possible_inertia(system.inertial.inertia))
        & jnp.all(system.inertial.mass > 0)
        & jnp.all(jnp.stack([jnp.ones((), bool), *(jnp.all(leaf >= 0) for leaf in lengths)]))
    )
    joined = jnp.ones((), bool)
    if system.inertial.pivot is not None:
        joined = jnp.all(_satisfied(system.inertial, phase))
    elif system.joints is not None:
        joined = system.joints.satisfied(phase, system.inertial)
    lawful = jnp.all(system.contact_law.lawful())
    penetrating = lost = jnp.zeros((), bool)
    if system.contacts is not None:
        gap, round_off = system.contacts.gaps(t0, phase)
        unknown = jnp.any(jnp.isnan(gap))
        # Where no point is searched for, it is a motion that is not a number.
        lost = unknown & system.contacts.searched
        finite &= ~unknown | system.contacts.searched
        penetrating = jnp.any(gap < -4 * round_off - penetration)
    return first_failure(
        (~finite, Code.non_finite),
        (jnp.any(jnp.abs(length - 1) > UNIT_TOLERANCE), Code.non_unit_quaternion),
        (~possible, Code.invalid_body),
        (~lawful, Code.invalid_contact_law),
        (~joined, Code.joint_violated),
        (lost, Code.closest_point_not_found),
        (penetrating, Code.initial_penetration),
    )


def _satisfied(inertial: Inertial, phase: Phase) -> Bool[Array, " n_bodies"]:
    """Whether pinned bodies are where their joints hold them, and move as they may.

    To a thousandth of the arm and half a percent of the speed, and in a slow moment of a fast
    body to 1e-4 of the speed that its angular velocity could give. So much is left by
    `EnergyMidpoint` at large steps; the other flows put it right.
    """
    pivot = inertial.pivot
    assert pivot is not None
    omega, length = inertial.angular_velocity(phase), dot(pivot.arm, pivot.arm)
    off, slip = inertial.constraint_violation(phase)
    around = cross(omega, pivot.arm)
    slack = jnp.maximum(25e-6 * dot(around, around), 1e-8 * dot(omega, omega) * length)
    round_off = (8 * jnp.finfo(length.dtype).eps) ** 2
    allowed = 1e-6 * length + round_off * dot(pivot.point, pivot.point)
    return (dot(off, off) <= allowed) & (dot(slip, slip) <= slack)


def _permute(leaf: Array, order: np.ndarray) -> Array:
    if np.array_equal(order, np.arange(len(order))):
        return leaf
    return jnp.take(leaf, order, axis=0)
