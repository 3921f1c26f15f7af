"""Rotation matrices against scipy: `expm` of the skew matrix, `Rotation`, dense inverses.

Tolerances are `20 eps` for results of order one. A logarithm of length up to pi is asked to
`100 eps`, near half a turn too: the quaternion is taken from the largest of its components.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, unsign
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from jaxrb.lie import quaternion, so3

DTYPES = [np.float32, np.float64]
AXES = np.array(
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, -1, 0], [0.6, -0.8, 0], [2 / 3, 2 / 3, -1 / 3]]
)
ANGLES = [0.0, 1e-8, 1e-4, 1.4e-4, 0.02, 1.0, 2.5, np.pi - 1e-4, np.pi - 1e-8, np.pi]
exp, log, to_quaternion, cayley, cayley_inverse = (
    jax.jit(f) for f in (so3.exp, so3.log, so3.to_quaternion, so3.cayley, so3.cayley_inverse)
)


def tolerance(dtype):
    return 20 * float(np.finfo(dtype).eps)


def skew(a):
    x, y, z = a
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_hat_and_vee(dtype):
    a, b = np.random.default_rng(0).normal(size=(2, 20, 3)).astype(dtype)
    hat = np.asarray(so3.hat(a))
    assert hat.dtype == dtype
    np.testing.assert_array_equal(hat, [skew(v) for v in a])
    np.testing.assert_allclose((hat @ b[..., None])[..., 0], np.cross(a, b), atol=tolerance(dtype))
    np.testing.assert_array_equal(so3.vee(hat), a)


def test_vee_is_of_the_skew_part():
    m = np.random.default_rng(1).normal(size=(5, 3, 3))
    s = (m - m.swapaxes(-1, -2)) / 2
    expected = np.stack([s[:, 2, 1], s[:, 0, 2], s[:, 1, 0]], axis=-1)
    np.testing.assert_allclose(so3.vee(m), expected, atol=1e-15)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("angle", ANGLES)
def test_exp_is_the_matrix_exponential(angle, dtype):
    a = (AXES * angle).astype(dtype)
    found = np.asarray(exp(a))
    assert found.dtype == dtype
    expected = [expm(skew(v)) for v in a.astype(float)]
    np.testing.assert_allclose(found, expected, atol=tolerance(dtype))
    # Orthogonal and of determinant 1.
    wide = found.astype(float)
    products = wide @ wide.swapaxes(-1, -2)
    np.testing.assert_allclose(
        products, np.broadcast_to(np.eye(3), (6, 3, 3)), atol=tolerance(dtype)
    )
    np.testing.assert_allclose(np.linalg.det(wide), 1, atol=tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("angle", ANGLES)
def test_log_of_the_matrix_exponential(angle, dtype):
    r = np.stack([expm(skew(v)) for v in AXES * angle]).astype(dtype)
    found = np.asarray(log(r))
    assert found.dtype == dtype
    expected = AXES * angle
    if angle > np.pi - 1e-6:  # the two vectors +-pi n are one rotation to round-off
        expected = unsign(expected, found)
    np.testing.assert_allclose(found, expected, atol=5 * tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_half_turns_about_each_axis(dtype):
    for k in range(3):
        r = np.diag(np.where(np.arange(3) == k, 1, -1)).astype(dtype)
        expected = np.pi * np.eye(3)[k]
        found = np.asarray(log(r))
        np.testing.assert_allclose(unsign(found, expected), expected, atol=tolerance(dtype))
        np.testing.assert_allclose(exp(found.astype(dtype)), r, atol=tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("angle", [*ANGLES, 3.5, 6.0])
def test_to_quaternion(angle, dtype):
    rotation = Rotation.from_rotvec(AXES * angle)
    r = rotation.as_matrix().astype(dtype)
    found = np.asarray(to_quaternion(r))
    assert found.dtype == dtype
    assert (found[:, 0] >= 0).all()
    expected = unsign(rotation.as_quat(scalar_first=True), found)
    np.testing.assert_allclose(found, expected, atol=tolerance(dtype))
    np.testing.assert_allclose(np.linalg.norm(found, axis=-1), 1, atol=tolerance(dtype))


def test_to_quaternion_over_the_group():
    """Each of the four components is the largest somewhere."""
    q = Rotation.random(1000, random_state=0).as_quat(scalar_first=True)
    assert (np.bincount(np.argmax(np.abs(q), axis=-1), minlength=4) > 100).all()
    r = Rotation.from_quat(q, scalar_first=True).as_matrix()
    found = np.asarray(to_quaternion(r))
    np.testing.assert_allclose(found, unsign(q, found), atol=tolerance(float))
    np.testing.assert_allclose(quaternion.to_matrix(found), r, atol=tolerance(float))


@pytest.mark.parametrize("size", [0.0, 1e-8, 0.3, 1.0, 30.0, 1e4])
def test_cayley(size):
    f = AXES * size
    found = np.asarray(cayley(f))
    # (I + S)(I - S)^-1, whose inverse is conditioned like |f|: eps |f|.
    expected = [(np.eye(3) + skew(v)) @ np.linalg.inv(np.eye(3) - skew(v)) for v in f]
    np.testing.assert_allclose(found, expected, atol=tolerance(float) * (1 + size))
    turn = Rotation.from_rotvec(AXES * 2 * np.arctan(size)).as_matrix()
    np.testing.assert_allclose(found, turn, atol=tolerance(float))
    # The scalar part 1/|f| is known to eps, so f to eps |f|^2.
    np.testing.assert_allclose(cayley_inverse(found), f, atol=tolerance(float) * (1 + size**2))


def test_cayley_inverse_of_random_rotations():
    rotation = Rotation.random(100, random_state=1)
    a = rotation.as_rotvec()
    angle = np.linalg.norm(a, axis=-1, keepdims=True)
    expected = a / angle * np.tan(angle / 2)
    found = cayley_inverse(rotation.as_matrix())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15 * 20 * np.max(expected**2))


def test_cayley_inverse_is_infinite_at_half_a_turn():
    for axis, f in (([1, 0, 0], 0), ([0, 1, 0], 1), ([0, 0, 1], 2)):
        r = 2 * np.outer(axis, axis) - np.eye(3)
        assert np.isinf(cayley_inverse(r)[f])


@pytest.mark.parametrize("dtype", DTYPES)
def test_homomorphism(dtype):
    """exp of multiples of one vector compose by addition."""
    a = np.random.default_rng(2).normal(size=(10, 3)).astype(dtype)
    parts = np.asarray(exp(a)).astype(float), np.asarray(exp(dtype(0.5) * a)).astype(float)
    np.testing.assert_allclose(
        parts[0] @ parts[1], exp((1.5 * a).astype(dtype)), atol=2 * tolerance(dtype)
    )
    np.testing.assert_allclose(exp(-a), parts[0].swapaxes(-1, -2), atol=tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_increments_and_adjoint(dtype):
    rotation = Rotation.random(20, random_state=3)
    step = Rotation.random(20, random_state=4).as_rotvec().astype(dtype)
    r = rotation.as_matrix().astype(dtype)
    moved, back = jax.jit(lambda r, v: (so3.retract(r, v), so3.local(r, so3.retract(r, v))))(
        r, step
    )
    assert moved.dtype == dtype
    expected = rotation * Rotation.from_rotvec(step.astype(float))
    np.testing.assert_allclose(moved, expected.as_matrix(), atol=tolerance(dtype))
    np.testing.assert_allclose(back, step, atol=5 * tolerance(dtype))
    # S(Ad(R) a) = R S(a) R^T and S(ad(a) b) = [S(a), S(b)].
    a, b = step[0].astype(float), step[1].astype(float)
    turned = so3.Ad(rotation.as_matrix()[0]) @ a
    wide = rotation.as_matrix()[0]
    np.testing.assert_allclose(skew(turned), wide @ skew(a) @ wide.T, atol=1e-15)
    bracket = skew(a) @ skew(b) - skew(b) @ skew(a)
    np.testing.assert_allclose(skew(so3.ad(a) @ b), bracket, atol=4e-15)


def both(function):
    """The Jacobians in forward and in reverse mode, compiled together."""
    return jax.jit(lambda a: (jax.jacfwd(function)(a), jax.jacrev(function)(a)))


OF_EXP, OF_LOG = both(so3.exp), both(so3.log)
ROUND_TRIP = both(lambda a: so3.log(so3.exp(a)))


@pytest.mark.parametrize("size", [0.0, 1e-8, 1e-4, 1.25e-4, 1.0, 2.5])
def test_derivative_of_exp(size):
    a = jnp.asarray(AXES[5] * size)
    forward, backward = OF_EXP(a)
    np.testing.assert_allclose(forward, backward, atol=1e-14)
    # Order-4 differences of expm, step 1e-3: 1e-12.
    truth = differences(lambda v: expm(skew(v)), np.asarray(a))
    np.testing.assert_allclose(forward, truth, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("jacobian", "dtype"), [(jax.jacfwd, np.float64), (jax.jacrev, np.float32)]
)
def test_derivatives_at_zero(jacobian, dtype):
    generators = np.stack([skew(e) for e in np.eye(3)], axis=-1)
    zero = jnp.zeros(3, dtype)

    def functions(a):
        r, c = so3.exp(a), so3.cayley(a)
        return r, c, so3.hat(a), so3.log(r), so3.cayley_inverse(c)

    found = jax.jit(jacobian(functions))(zero)
    truths = (generators, 2 * generators, generators, np.eye(3), np.eye(3))
    for one, expected in zip(found, truths, strict=True):
        np.testing.assert_array_equal(one, expected)


@pytest.mark.parametrize("size", [1e-8, 1e-3, 0.5, 1.5, 2.5, 3.1])
def test_log_exp_has_the_identity_as_derivative(size):
    a = jnp.asarray(AXES[5] * size)
    for found in ROUND_TRIP(a):
        # At 3.1 rad the factors reach 1/cos(1.55) = 48; round-off of their product.
        np.testing.assert_allclose(found, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("axis", range(6))
def test_log_derivative_is_finite_at_half_a_turn(axis):
    r = jnp.asarray(2 * np.outer(AXES[axis], AXES[axis]) - np.eye(3))
    forward, backward = OF_LOG(r)
    assert np.isfinite(forward).all()
    np.testing.assert_allclose(forward, backward, atol=1e-14)
