"""Worlds of bodies in joints, their rows as matrices, and motions to try them with."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

import jaxrb as rb
from jaxrb.bodies import Inertial, Phase
from jaxrb.bodies.joints.rows import JointRows
from jaxrb.bodies.state import to_phase
from jaxrb.flows import LieVariational
from jaxrb.math import Quat, Vec3

FULL = np.array([[3.0, 0.2, -0.1], [0.2, 2.5, 0.3], [-0.1, 0.3, 2.0]])
BODIES = (
    rb.RigidBody(rb.Ellipsoid([1.0, 2.0, 3.0]), mass=2.0),
    rb.RigidBody(rb.Box([0.5, 0.4, 0.3]), mass=0.5, inertia=FULL),
    rb.RigidBody(rb.Sphere(0.7), mass=1.5),
)


def random_state(seed=0, n=3):
    rng = np.random.default_rng(seed)
    q = Rotation.random(n, random_state=seed).as_quat(scalar_first=True)
    position, velocity, omega = rng.normal(size=(3, n, 3))
    return rb.State(position, q, velocity, omega)


def every_joint(state):
    """Of each kind to the world and between bodies, satisfied by a state of three bodies."""
    axis, point = (1.0, -2.0, 0.5), (0.3, 0.2, -0.4)
    return [
        rb.Slider.at(state, 2, (0.0, 1.0, 1.0), point, 1),
        rb.Pin.at(state, 0, point),
        rb.Hinge.at(state, 0, axis, point, 1),
        rb.Weld.at(state, 2),
        rb.Distance.at(state, 1, point, (1.0, 1.0, 1.0), 2),
        rb.Hinge.at(state, 1, (0.0, 1.0, 0.0), point),
        rb.Slider.at(state, 0, axis, point),
        rb.Pin.at(state, 2, point, 0),
        rb.Weld.at(state, 1, 2),
        rb.Distance.at(state, 0, point, (1.0, 1.0, 1.0)),
        rb.Universal.at(state, 0, (axis, (0.0, 1.0, 1.0)), point, 2),
        rb.Universal.at(state, 1, ((0.0, 0.0, 1.0), axis), point, second_point=(0.1, 0.4, 0.2)),
        rb.Gimbal.at(state, 1, np.roll(np.eye(3), 1, axis=0), point, 0),
        rb.Gimbal.at(state, 2, np.eye(3)[[0, 2, 1]], point),
        rb.Planar.at(state, 1, np.eye(3)[[0, 2, 1]], point, 2),
        rb.Planar.at(state, 0, ((1.0, 2.0, 0.0), (-2.0, 1.0, 0.0)), point),
    ]


class Mechanism(NamedTuple):
    rows: JointRows
    phase: Phase
    inertial: Inertial


def mechanism(joints, state, bodies=BODIES):
    inertial = Inertial.of(bodies, state.position.dtype)
    return Mechanism(JointRows.of(joints, inertial), to_phase(state, inertial), inertial)


def motion(phase, inertial):
    """The tangent of a phase along the motion of its bodies; momenta stay."""
    q, omega = phase.orientation, inertial.angular_velocity(phase)
    spin = q * Quat(jnp.zeros_like(omega.x), omega * 0.5)
    zero = jnp.zeros_like(omega.x)
    none = Vec3(zero, zero, zero)
    return Phase(inertial.velocity(phase), spin, none, none)


def along_motion(function, phase, inertial):
    """A function of a phase, and its derivative along the motion."""
    return jax.jvp(function, (phase,), (motion(phase, inertial),))


def matrix(directions, n_bodies):
    """The rows of directions, shape (n_rows, n_bodies, 6)."""
    total = 0.0
    for side in directions.sides:
        both = jnp.concatenate([side.linear.array(), side.lever.array()], axis=-1)
        bodies = np.array(side.incidence.bodies)
        here = jnp.where(bodies[:, None] >= 0, both, 0.0)
        zero = jnp.zeros((len(bodies), n_bodies, 6), both.dtype)
        total = total + zero.at[np.arange(len(bodies)), np.maximum(bodies, 0)].add(here)
    return total


def flat_matrix(directions, n_bodies):
    found = matrix(directions, n_bodies)
    return np.asarray(found).reshape(found.shape[0], -1)


def rank(directions, n_bodies):
    return np.linalg.matrix_rank(flat_matrix(directions, n_bodies), tol=1e-9)


def inverse_masses(inertial):
    """W of all bodies, shape (n_bodies, 6, 6)."""
    n = inertial.mass.shape[0]
    blocks = np.zeros((n, 6, 6))
    blocks[:, :3, :3] = np.eye(3) / np.asarray(inertial.mass)[:, None, None]
    blocks[:, 3:, 3:] = np.linalg.inv(np.asarray(inertial.inertia.matrix()))
    return jnp.asarray(blocks)


def rattle(world, state, dt, n_steps):
    """Steps of RATTLE with the library's rows and the drift of `LieVariational`: the joints, and
    the largest violation and the energy, after each.

    Half a kick with the multipliers of the positions, free drift, half a kick, and a projection of
    the velocities. Rows may depend on each other.
    """
    rows, start, inertial = mechanism(world.joints, state, world.bodies)
    gravity, n = Vec3.of(world.gravity), len(world.bodies)
    none = Vec3(*(jnp.zeros(()),) * 3)
    w = inverse_masses(inertial)

    def inverse(directions):
        h = matrix(directions, n)
        delassus = jnp.einsum("rni,nij,snj->rs", h, w, h)
        return jnp.linalg.pinv(delassus, rtol=1e-9, hermitian=True)

    def pushed(phase, directions, impulses, duration):
        force, torque = directions.push(impulses, n)
        return inertial.pushed(phase, force + gravity * (inertial.mass * duration), torque)

    def step(phase, _):
        old = rows.jacobian(phase)
        solve = inverse(old)

        def drifted(multiplier):
            kicked = pushed(phase, old, multiplier, dt / 2)
            return LieVariational().drift(dt, kicked, inertial, none)[0]

        def improve(_, multiplier):
            return multiplier - solve @ rows.violation(drifted(multiplier)) / dt

        multiplier = jax.lax.fori_loop(0, 20, improve, jnp.zeros(rows.n_rows))
        end = drifted(multiplier)
        new = rows.jacobian(end)
        free = pushed(end, new, jnp.zeros(rows.n_rows), dt / 2)
        end = pushed(free, new, -inverse(new) @ rows.rate(free, inertial), 0.0)
        kinetic = 0.5 * jnp.sum(
            inertial.mass * (inertial.velocity(end).array() ** 2).sum(-1)
            + (inertial.angular_velocity(end).array() * end.angular_momentum.array()).sum(-1)
        )
        height = -jnp.sum(inertial.mass * (end.position.array() @ world.gravity))
        worst = jnp.max(jnp.abs(rows.violation(end)))
        angles = rows.coordinates.value(end)
        return end, (angles, worst, kinetic + height)

    end, found = jax.jit(lambda phase: jax.lax.scan(step, phase, length=n_steps))(start)
    return end, tuple(map(np.asarray, found))
