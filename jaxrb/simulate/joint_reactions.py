"""The forces and torques by which joints hold bodies, at an instant."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import Dynamics, Inertial, Phase, State
from ..bodies.forces import Wrench
from ..bodies.incidence import Incidence
from ..bodies.joints.ends import Directions
from ..bodies.joints.rows import JointRows
from ..math import Quat, Vec3, cross, rotate_inverse, zeros_like
from .contact_forces import ContactForces
from .system import body_order, build
from .world import World

# How much of the accelerations that joints take away may be out of their reach.
_UNREACHED = 1e-3

_product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


def joint_reactions(
    world: World,
    state: State,
    t: float | Float[Array, ""] = 0.0,
    args: Any = None,
    *,
    contacts: ContactForces | None = None,
) -> tuple[Float[Array, "n_joints 3"], Float[Array, "n_joints 3"]]:
    """The forces and torques by which joints hold their bodies at this instant.

    With the masses M, rotors in joints included, and all that acts on bodies, f, they follow from

        M a = f + G^T lambda,   G a = -(dG/dt) v,

    where the rates of what the joints hold are G v; lambda is found by the pseudoinverse of
    G M^(-1/2) (Udwadia and Kalaba, "A new perspective on constrained motion", Proceedings of the
    Royal Society A 439, 1992).

    In f are gravity, gyroscopic moments, the forces of the world, springs, dampers, motors, and
    dry friction in joints that move. What a state does not tell is left out: dry friction in joints
    at rest, the pressure on stops (`limits`), and that at contacts unless `contacts` are given. A
    joint counts as at rest if its speed, squared, is round-off of that after a fall of about the
    size of the bodies.

    The reactions do no work: what springs, dampers, friction and motors do along the coordinates of
    a joint comes on top. Joints that hold the same thing twice, as in a closed loop of hinges whose
    axes are parallel, share what they hold in one of many ways: the one with the least sum of
    squares of forces, and of torques over about the radius of gyration of the bodies. What they do
    to bodies together is unique, and so are its derivatives.

    Args:
        world, state: the bodies, and where they are and how they move; the joints hold.
        t: time [s].
        args: of forces, as of `simulate`.
        contacts: the forces at contacts in this state, as `contact_forces(world, state, method)`
            finds them in the mean over a step; None: nothing touches.

    Returns:
        Of each joint, in the order of `World.joints`, the force on `joint.body` at its anchor [N]
        and the torque on that body about the anchor [N m], world frame, each of shape
        (n_joints, 3). The other body has the opposite ones at the same point. All are NaN where the
        equations have no solution to a thousandth: the bodies move as joints do not let them, or
        masses differ by more than the precision can tell (those of neighbours in a chain, by about
        ten thousand in float32).

    Raises:
        ValueError: if state or contacts do not fit the world, in number or in precision.
    """
    # Nothing touches but by `contacts`, and obstacles may take other arguments.
    bare = dataclasses.replace(world, obstacles=(), pairs=(), obstacle_pairs=None, pair_laws=())
    system, phase = build(bare, state, args, pivots=False)
    if system.joints is None:
        none = jnp.zeros((0, 3), state.position.dtype)
        return none, none
    t = jnp.asarray(t, state.position.dtype)
    applied = _applied(t, phase, system.dynamics, system.joints)
    if contacts is not None:
        applied = applied + _at_contacts(world, contacts, phase)
    force, torque = _reactions(system.joints, applied, phase, system.inertial)
    return force.array(), torque.array()


@jax.jit
def _reactions(
    rows: JointRows, applied: Wrench, phase: Phase, inertial: Inertial
) -> tuple[Vec3, Vec3]:
    """Of each joint the force and the torque; as one program, which is not built call by call."""
    return rows.reactions(phase, _multipliers(rows, applied, phase, inertial))


def _applied(t: Array, phase: Phase, dynamics: Dynamics, rows: JointRows) -> Wrench:
    """All that acts on bodies but joints and contacts, gyroscopic moments included."""
    inertial = dynamics.inertial
    weight = zeros_like(phase.position) + dynamics.gravity * inertial.mass
    turning = cross(phase.angular_momentum, inertial.angular_velocity(phase))
    total = Wrench(weight, turning) + dynamics.wrench(t, phase)
    rubbing = rows.rubbing
    if rubbing is None:
        return total
    rate, arc = rubbing.rate(phase, inertial), JointRows.arcs(rubbing, inertial)
    round_off = jnp.finfo(rate.dtype).eps * dynamics.acceleration_scale(t, phase)
    effort = jnp.where(rate**2 * arc > round_off, -jnp.sign(rate) * rubbing.friction, 0.0)
    return total + Wrench(*rubbing.directions(phase).push(effort, inertial.mass.size))


def _at_contacts(world: World, contacts: ContactForces, phase: Phase) -> Wrench:
    """What forces at contacts do to bodies.

    Raises:
        ValueError: if they are of other bodies, or of another precision.
    """
    total, place = Wrench.none(phase), np.argsort(body_order(world))
    first, second = np.array(contacts.partners, int).reshape(-1, 2).T
    second = second - len(world.obstacles)
    if max([-1, *first, *second]) >= len(place) or contacts.force.dtype != phase.position.x.dtype:
        raise ValueError(
            "contacts must be of the same world and state, as contact_forces(world, state, method) "
            f"gives them; theirs are {contacts.force.dtype} and of the pairs {contacts.partners}."
        )
    if not len(first):
        return total
    here, there = place[first], np.where(second < 0, -1, place[second])
    force, point = Vec3.of(contacts.vector), Vec3.of(contacts.point)
    for bodies, own in ((here, force), (there, -force)):
        side = Incidence(tuple(bodies.tolist()))
        position, turn = side.gather((phase.position, phase.orientation))
        torque = rotate_inverse(turn, cross(point - position, own))
        total = total + Wrench(*side.scatter((own, torque), len(place)))
    return total


def _multipliers(
    rows: JointRows, applied: Wrench, phase: Phase, inertial: Inertial
) -> Float[Array, " n_rows"]:
    """The forces along the rows [N], lambda of `joint_reactions`.

    With the Cholesky factor M = L L^T, A = G L^-T and y = L^-1 f, they read b = y + A^T lambda and
    A b = -(dG/dt) v, so that lambda = -(A^+)^T (y + A^+ (dG/dt) v).
    """
    directions = rows.jacobian(phase)
    bodies = directions.bodies
    held = np.array(bodies)
    push = jnp.concatenate([applied.force.array(), applied.torque.array()], axis=1)[held].ravel()
    mass, geared = _mass_matrix(inertial, held), rows.geared
    drift = _drift(rows.jacobian, phase, inertial)
    if geared is not None:
        # A rotor resists with its inertia times the change of its rate.
        along = geared.directions(phase).matrix(bodies)
        resisted = geared.armature * _drift(geared.directions, phase, inertial)
        mass = mass + _product(along.T * geared.armature[None], along)
        push = push - _product(along.T, resisted)
    matrix, root = directions.matrix(bodies), jnp.linalg.cholesky(mass)
    solved = partial(jax.scipy.linalg.solve_triangular, root, lower=True)
    scaled, free = solved(matrix.T).T, solved(push)
    # Singular values below the root of round-off are of rows that repeat others.
    inverse = jnp.linalg.pinv(scaled, rtol=float(jnp.finfo(push.dtype).eps) ** 0.5)
    size = -_product(free + _product(inverse, drift), inverse)
    terms = jnp.max(_product(jnp.abs(scaled), jnp.abs(free)))
    terms = terms + _drift_terms(matrix, held, phase, inertial)
    # What joints take away of the accelerations along their rows. If rows were left out that do not
    # repeat others, or if some contradict each other, part of it is out of reach.
    taken = _product(scaled, free) + drift
    left = jnp.max(jnp.abs(taken - _product(scaled, _product(inverse, taken))))
    round_off = 64 * jnp.finfo(push.dtype).eps * terms
    return jnp.where(left <= _UNREACHED * jnp.max(jnp.abs(taken)) + round_off, size, jnp.nan)


def _mass_matrix(inertial: Inertial, bodies: np.ndarray) -> Float[Array, "rows rows"]:
    """Of some bodies, six rows each: masses, and inertia tensors about the centres of mass."""
    n, dtype = len(bodies), inertial.mass.dtype
    turning = inertial.inertia.matrix()[bodies]
    linear = inertial.mass[bodies, None, None] * jnp.eye(3, dtype=dtype)[None]
    blocks = jnp.zeros((n, 6, 6), dtype).at[:, :3, :3].set(linear).at[:, 3:, 3:].set(turning)
    apart = jnp.eye(n, dtype=dtype)[:, None, :, None]
    return (apart * blocks[:, :, None]).reshape(6 * n, 6 * n)


def _drift(
    directions: Callable[[Phase], Directions], phase: Phase, inertial: Inertial
) -> Float[Array, " n_rows"]:
    """The change of the rates of rows as bodies move on with the velocities they have."""
    v, omega = inertial.velocity(phase), inertial.angular_velocity(phase)
    spin = phase.orientation * Quat(jnp.zeros_like(omega.x), omega * 0.5)
    motion = dataclasses.replace(zeros_like(phase), position=v, orientation=spin)
    return jax.jvp(lambda phase: directions(phase).rate(v, omega), (phase,), (motion,))[1]


def _drift_terms(
    matrix: Float[Array, "n_rows columns"], bodies: np.ndarray, phase: Phase, inertial: Inertial
) -> Float[Array, ""]:
    """About the largest of the terms that add up in `_drift`: rates times angular velocities."""
    v, omega = inertial.velocity(phase).array(), inertial.angular_velocity(phase).array()
    motion = jnp.concatenate([v, omega], axis=1)[bodies].ravel()
    return jnp.max(_product(jnp.abs(matrix), jnp.abs(motion))) * jnp.max(jnp.abs(omega[bodies]))
