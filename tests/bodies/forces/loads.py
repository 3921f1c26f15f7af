"""Phases for tests of loads, and wrenches as arrays."""

import jax
import jax.numpy as jnp
import numpy as np
from helpers import quick_jit
from scipy.spatial.transform import Rotation

import jaxrb as rb
from jaxrb.bodies import Inertial
from jaxrb.bodies.state import to_phase

FULL = np.array([[3.0, 0.2, -0.1], [0.2, 2.5, 0.3], [-0.1, 0.3, 2.0]])
BODIES = (
    rb.RigidBody(rb.Ellipsoid([1.0, 2.0, 3.0]), mass=2.0),
    rb.RigidBody(rb.Box([0.5, 0.4, 0.3]), mass=0.5, inertia=FULL),
    rb.RigidBody(rb.Sphere(0.7), mass=1.5),
)


MASSES = {n: Inertial.of(BODIES[:n], np.float64) for n in (1, 3)}


def inertial(dtype=np.float64, n=3):
    return jax.tree.map(lambda leaf: leaf.astype(dtype), MASSES[n])


def state(dtype=np.float64, n=3, seed=0):
    rng = np.random.default_rng(seed)
    q = Rotation.random(n, random_state=seed).as_quat(scalar_first=True)
    position, velocity, omega = rng.normal(size=(3, n, 3)).astype(dtype)
    return rb.State(position, q.astype(dtype), velocity, omega)


def wrench_at(load, here, t=0.3, args=None):
    """Forces and torques on all bodies in a state, as arrays of shape (n_bodies, 3)."""
    masses = inertial(here.position.dtype, here.position.shape[0])
    found = load.wrench(t, to_phase(here, masses), masses, args)
    return found.force.array(), found.torque.array()


def potential_at(load, here):
    return load.potential(to_phase(here, inertial(here.position.dtype, here.position.shape[0])))


@quick_jit
def minus_gradient(load, here):
    """Of the potential, by displacements and by rotations in body axes."""

    def moved(step):
        zero = jnp.zeros_like(step)
        return potential_at(load, here.retract(jnp.concatenate([step, zero], axis=-1)))

    slope = jax.grad(moved)(jnp.zeros((here.position.shape[0], 6), here.position.dtype))
    return -slope[:, :3], -slope[:, 3:]


def rotation(here, index):
    return Rotation.from_quat(np.array(here.quaternion[index]), scalar_first=True)


def world_torque(here, force, torque):
    """Of all forces and torques together, about the origin of the world."""
    turned = [rotation(here, i).apply(np.array(row)) for i, row in enumerate(torque)]
    return np.sum(np.cross(here.position, force) + turned, axis=0)


def power(here, force, torque):
    return float(jnp.sum(force * here.velocity) + jnp.sum(torque * here.angular_velocity))
