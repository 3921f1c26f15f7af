"""Vectors and quaternions in component form against numpy and scipy's rotations.

Everything here is a handful of multiplications of numbers of order one, so agreement is asked
to a few units of round-off: `TIGHT` is about 20 eps of float64.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from jaxrb.math import Quat, Vec3, cross, dot, hadamard, norm, rotate, rotate_inverse, tree_where

TIGHT = 5e-15
SHAPES = [(), (7,), (2, 3)]

# Hamilton's rule written out: (1, i, j, k) times (1, i, j, k) as (sign, index).
TABLE = [
    [(1, 0), (1, 1), (1, 2), (1, 3)],
    [(1, 1), (-1, 0), (1, 3), (-1, 2)],
    [(1, 2), (-1, 3), (-1, 0), (1, 1)],
    [(1, 3), (1, 2), (-1, 1), (-1, 0)],
]


def hamilton(p, q):
    out = np.zeros(np.broadcast_shapes(p.shape, q.shape))
    for i in range(4):
        for j in range(4):
            sign, k = TABLE[i][j]
            out[..., k] += sign * p[..., i] * q[..., j]
    return out


def draw(seed, shape, n):
    return np.random.default_rng(seed).normal(size=(*shape, n))


@pytest.mark.parametrize("shape", SHAPES)
def test_products_of_vectors(shape):
    a, b = draw(0, shape, 3), draw(1, shape, 3)
    u, v = Vec3.of(jnp.asarray(a)), Vec3.of(jnp.asarray(b))
    np.testing.assert_allclose(dot(u, v), np.sum(a * b, axis=-1), atol=TIGHT)
    np.testing.assert_allclose(cross(u, v).array(), np.cross(a, b), atol=TIGHT)
    np.testing.assert_allclose(hadamard(u, v).array(), a * b, atol=TIGHT)
    np.testing.assert_allclose(norm(u), np.linalg.norm(a, axis=-1), atol=TIGHT)


def test_operators():
    a, b = draw(2, (4,), 3), draw(3, (4,), 3)
    s = np.array([0.5, -2.0, 3.0, 1.5])
    u, v, t = Vec3.of(jnp.asarray(a)), Vec3.of(jnp.asarray(b)), jnp.asarray(s)
    cases = [
        (u + v, a + b),
        (u - v, a - b),
        (-u, -a),
        (u * t, a * s[:, None]),
        (2.0 * u, 2 * a),
        (u / t, a / s[:, None]),
    ]
    for found, expected in cases:
        # One rounding each, the same as numpy's up to a fused or reciprocal division.
        np.testing.assert_allclose(found.array(), expected, rtol=1e-15)


def test_array_broadcasts_components():
    v = Vec3(jnp.ones(3), jnp.float64(2.0), jnp.arange(3.0))
    np.testing.assert_array_equal(v.array(), [[1, 2, 0], [1, 2, 1], [1, 2, 2]])
    q = Quat(jnp.float64(4.0), v)
    np.testing.assert_array_equal(q.array(), [[4, 1, 2, 0], [4, 1, 2, 1], [4, 1, 2, 2]])


def test_tree_where_takes_leaf_by_leaf():
    a, b = draw(4, (3,), 4), draw(5, (3,), 4)
    mask = jnp.array([True, False, True])
    found = tree_where(mask, Quat.of(jnp.asarray(a)), Quat.of(jnp.asarray(b))).array()
    np.testing.assert_array_equal(found, np.where(mask[:, None], a, b))


@pytest.mark.parametrize("shape", SHAPES)
def test_quaternion_product_is_hamiltons(shape):
    p, q = draw(6, shape, 4), draw(7, shape, 4)  # of any length
    found = (Quat.of(jnp.asarray(p)) * Quat.of(jnp.asarray(q))).array()
    np.testing.assert_allclose(found, hamilton(p, q), atol=2e-14)  # products up to about 10


def test_conjugate_norm_and_quotient():
    q = draw(8, (5,), 4)
    quat = Quat.of(jnp.asarray(q))
    np.testing.assert_array_equal(quat.conjugate().array(), q * [1, -1, -1, -1])
    np.testing.assert_allclose(quat.norm_squared(), np.sum(q * q, axis=-1), rtol=TIGHT)
    np.testing.assert_allclose((quat / 4.0).array(), q / 4, rtol=1e-15)


def test_product_composes_rotations():
    p, q = Rotation.random(50, random_state=0), Rotation.random(50, random_state=1)
    found = Quat.of(jnp.asarray(p.as_quat(scalar_first=True))) * Quat.of(
        jnp.asarray(q.as_quat(scalar_first=True))
    )
    expected = (p * q).as_matrix()  # first q, then p
    matrix = Rotation.from_quat(found.array(), scalar_first=True).as_matrix()
    np.testing.assert_allclose(matrix, expected, atol=TIGHT)


def test_rotate_is_body_to_world():
    rotation, a = Rotation.random(50, random_state=2), draw(9, (50,), 3)
    q = Quat.of(jnp.asarray(rotation.as_quat(scalar_first=True)))
    v = Vec3.of(jnp.asarray(a))
    np.testing.assert_allclose(rotate(q, v).array(), rotation.apply(a), atol=TIGHT)
    np.testing.assert_allclose(
        rotate_inverse(q, v).array(), rotation.apply(a, inverse=True), atol=TIGHT
    )


def test_rotate_turns_x_into_y():
    q = Quat.of(jnp.array([np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]))  # a quarter about z
    np.testing.assert_allclose(rotate(q, Vec3(1.0, 0.0, 0.0)).array(), [0, 1, 0], atol=TIGHT)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_norm_derivative_is_zero_at_zero(dtype):
    def length(a):
        return norm(Vec3.of(a))

    zero = jnp.zeros(3, dtype)
    gradient = jax.jit(jax.grad(length))
    np.testing.assert_array_equal(gradient(zero), 0)
    value, rate = jax.jvp(length, (zero,), (jnp.ones(3, dtype),))
    assert value == 0 and rate == 0
    np.testing.assert_array_equal(jax.jit(jax.hessian(length))(zero), 0)
    a = jnp.array([1.0, -2.0, 2.0], dtype)
    # One square root and one quotient: a few eps.
    np.testing.assert_allclose(gradient(a), np.array([1, -2, 2]) / 3, rtol=3e-7)
