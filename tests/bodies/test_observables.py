"""Energies and momenta of a world of two bodies against the textbook sums in numpy.

Each is a sum of some twenty products of numbers up to 30; 1e-13 absolute is 20 round-offs.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxrb as rb

ATOL = 1e-13
MASS = np.array([2.0, 0.5])
FULL = np.array([[3.0, 0.2, -0.1], [0.2, 2.5, 0.3], [-0.1, 0.3, 2.0]])
INERTIA = np.stack([2.0 / 5 * np.diag([13.0, 10.0, 5.0]), FULL])
GRAVITY = np.array([0.3, -0.2, -9.81])

_rng = np.random.default_rng(0)
X, V, OMEGA = _rng.normal(size=(3, 2, 3))
ROTATION = Rotation.random(2, random_state=0)
R = ROTATION.as_matrix()
SPIN = np.einsum("nij,njk,nk->ni", R, INERTIA, OMEGA)


@pytest.fixture
def world():
    return rb.World(
        [
            rb.RigidBody(rb.Ellipsoid([1.0, 2.0, 3.0]), mass=2.0),
            rb.RigidBody(rb.Box([0.5, 0.4, 0.3]), mass=0.5, inertia=FULL),
        ],
        gravity=GRAVITY,
    )


@pytest.fixture
def state():
    return rb.State(X, ROTATION.as_quat(scalar_first=True), V, OMEGA)


def test_energies(world, state):
    kinetic = 0.5 * np.sum(MASS * np.sum(V**2, axis=-1))
    kinetic += 0.5 * np.einsum("ni,nij,nj->", OMEGA, INERTIA, OMEGA)
    potential = -np.sum(MASS * (X @ GRAVITY))
    np.testing.assert_allclose(rb.kinetic_energy(world, state), kinetic, atol=ATOL)
    np.testing.assert_allclose(rb.potential_energy(world, state), potential, atol=ATOL)
    np.testing.assert_allclose(rb.energy(world, state), kinetic + potential, atol=ATOL)


def test_potential_energy_is_m_g_z():
    ball = rb.World([rb.RigidBody(rb.Sphere(1.0), mass=3.0)])
    one = rb.State([[5.0, 6.0, 2.0]], [[1.0, 0, 0, 0]], np.zeros((1, 3)), np.zeros((1, 3)))
    np.testing.assert_allclose(rb.potential_energy(ball, one), 3 * 9.81 * 2, rtol=1e-15)


def test_linear_momentum(world, state):
    each = MASS[:, None] * V
    np.testing.assert_allclose(rb.linear_momentum(world, state), each.sum(axis=0), atol=ATOL)
    np.testing.assert_allclose(rb.linear_momentum(world, state, per_body=True), each, atol=ATOL)


@pytest.mark.parametrize("per_body", [False, True])
@pytest.mark.parametrize("about", [None, (1.0, -2.0, 0.5)])
def test_angular_momentum(world, state, about, per_body):
    arm = X - np.array(about or (0.0, 0.0, 0.0))
    each = MASS[:, None] * np.cross(arm, V) + SPIN
    given = {} if about is None else {"about": about}
    found = rb.angular_momentum(world, state, per_body=per_body, **given)
    np.testing.assert_allclose(found, each if per_body else each.sum(axis=0), atol=ATOL)


def test_angular_momentum_about_the_centres_of_mass_is_spin(world, state):
    found = rb.angular_momentum(world, state, about=state.position, per_body=True)
    np.testing.assert_allclose(found, SPIN, atol=ATOL)


def test_angular_momentum_of_a_spin_about_a_turned_axis():
    """A body turned by a quarter about y, spinning about its own x: along world -z."""
    body = rb.RigidBody(rb.Sphere(1.0), inertia=[1.0, 1.5, 2.0])
    q = [[np.sqrt(0.5), 0, np.sqrt(0.5), 0]]
    one = rb.State(np.zeros((1, 3)), q, np.zeros((1, 3)), [[2.0, 0.0, 0.0]])
    found = rb.angular_momentum(rb.World([body]), one)
    np.testing.assert_allclose(found, [0, 0, -2], atol=1e-15)


@pytest.mark.parametrize(
    "observable", [rb.kinetic_energy, rb.potential_energy, rb.linear_momentum, rb.angular_momentum]
)
def test_observables_take_the_dtype_of_the_state(world, observable):
    """A world of Python numbers, which hold float64 here, and a state of float32."""
    wide = rb.State(X, ROTATION.as_quat(scalar_first=True), V, OMEGA)
    narrow = rb.State(
        *(jnp.asarray(u, jnp.float32) for u in (X, ROTATION.as_quat(scalar_first=True), V, OMEGA))
    )
    found = observable(world, narrow)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, observable(world, wide), atol=1e-5)  # 30 eps of 1e-7
