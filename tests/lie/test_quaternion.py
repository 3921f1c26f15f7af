"""Unit quaternions against scipy's rotations, matrix exponentials and written-out algebra.

A result of a dozen operations on numbers of order one is asked to agree to `20 eps`; a
logarithm near half a turn likewise, as its formula loses no digit there. Truth is computed in
float64 from the rounded input, so that the float32 tolerance covers the function alone.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, quick_jit, unsign
from scipy.spatial.transform import Rotation

from jaxrb.lie import quaternion

DTYPES = [np.float32, np.float64]
AXES = np.array(
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, -1, 0], [0.6, -0.8, 0], [2 / 3, 2 / 3, -1 / 3]]
)
# 1.1e-4 and 1.4e-4 are on either side of the switch to a series in float64, as 0.018 and
# 0.02 are in float32.
ANGLES = [0.0, 1e-8, 1e-4, 1.1e-4, 1.4e-4, 0.018, 0.02, 1.0, 3.0, np.pi - 1e-4, np.pi - 1e-8, np.pi]
exp, log = jax.jit(quaternion.exp), jax.jit(quaternion.log)


def tolerance(dtype):
    return 20 * float(np.finfo(dtype).eps)


def scalar_first(rotation):
    return rotation.as_quat(scalar_first=True)


def unit(seed, n=50, dtype=np.float64):
    return scalar_first(Rotation.random(n, random_state=seed)).astype(dtype)


def left(p):
    """The matrix of q -> p q, from Hamilton's rule."""
    w, x, y, z = p
    return np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("angle", ANGLES)
def test_exp(angle, dtype):
    a = (AXES * angle).astype(dtype)
    found = np.asarray(exp(a))
    assert found.dtype == dtype
    expected = unsign(scalar_first(Rotation.from_rotvec(a.astype(float))), found)
    np.testing.assert_allclose(found, expected, atol=tolerance(dtype))
    # The vector part keeps its relative precision however small the angle.
    np.testing.assert_allclose(found[:, 1:], expected[:, 1:], rtol=tolerance(dtype), atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("angle", ANGLES)
def test_log(angle, dtype):
    # Scipy at half a turn may return either vector: compare up to the sign there.
    q = scalar_first(Rotation.from_rotvec(AXES * angle)).astype(dtype)
    for given in (q, -q):
        found = np.asarray(log(given))
        assert found.dtype == dtype
        wide = q.astype(float)
        expected = Rotation.from_quat(wide, scalar_first=True).as_rotvec()
        if angle > np.pi - 1e-6:
            expected = unsign(expected, found)
        np.testing.assert_allclose(found, expected, atol=4 * tolerance(dtype))
        assert (np.linalg.norm(found, axis=-1) <= np.pi * (1 + tolerance(dtype))).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("angle", ANGLES[:-1])
def test_log_undoes_exp(angle, dtype):
    # In float32 the largest angle would round to half a turn or beyond.
    a = (AXES * min(angle, np.pi - 4 * tolerance(dtype))).astype(dtype)
    np.testing.assert_allclose(log(exp(a)), a, rtol=tolerance(dtype), atol=tolerance(dtype) * angle)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", range(6))
def test_half_a_turn(axis, dtype):
    q = np.concatenate([[0.0], AXES[axis]]).astype(dtype)
    for given in (q, -q):
        found = np.asarray(log(given))
        np.testing.assert_allclose(
            unsign(found, AXES[axis]), np.pi * AXES[axis], atol=4 * tolerance(dtype)
        )


def test_turns_beyond_half_are_wrapped():
    a = AXES * 4.0
    expected = AXES * (4.0 - 2 * np.pi)
    np.testing.assert_allclose(log(exp(a)), expected, atol=1e-14)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_and_rotations(dtype):
    p, q = unit(0, dtype=dtype), unit(1, dtype=dtype)
    a = np.random.default_rng(0).normal(size=(50, 3)).astype(dtype)
    found = np.asarray(quaternion.multiply(p, q))
    expected = np.stack(
        [left(u) @ v for u, v in zip(p.astype(float), q.astype(float), strict=True)]
    )
    np.testing.assert_allclose(found, expected, atol=tolerance(dtype))
    rotation = Rotation.from_quat(p.astype(float), scalar_first=True)
    np.testing.assert_allclose(
        quaternion.rotate(p, a), rotation.apply(a.astype(float)), atol=4 * tolerance(dtype)
    )
    np.testing.assert_allclose(quaternion.to_matrix(p), rotation.as_matrix(), atol=tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_group_axioms(dtype):
    p, q, r = (unit(seed, dtype=dtype) for seed in (2, 3, 4))
    multiply, identity = quaternion.multiply, np.array([1, 0, 0, 0], dtype)
    tol = tolerance(dtype)
    np.testing.assert_allclose(multiply(multiply(p, q), r), multiply(p, multiply(q, r)), atol=tol)
    ones = np.broadcast_to(identity, p.shape)
    np.testing.assert_array_equal(multiply(p, ones), p)
    np.testing.assert_array_equal(multiply(ones, p), p)
    np.testing.assert_allclose(multiply(p, quaternion.conjugate(p)), ones, atol=tol)
    np.testing.assert_allclose(multiply(quaternion.conjugate(p), p), ones, atol=tol)
    np.testing.assert_allclose(
        quaternion.to_matrix(multiply(p, q)),
        np.asarray(quaternion.to_matrix(p)) @ np.asarray(quaternion.to_matrix(q)),
        atol=tol,
    )


def test_matrix_of_a_quarter_about_z():
    q = np.array([np.sqrt(0.5), 0, 0, np.sqrt(0.5)])
    expected = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    np.testing.assert_allclose(quaternion.to_matrix(q), expected, atol=5e-16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0.0, 1e-8, 0.3, 1.0, 40.0])
def test_cayley_is_a_turn_by_twice_the_arctangent(size, dtype):
    f = (AXES * size).astype(dtype)
    found = np.asarray(quaternion.cayley(f))
    assert found.dtype == dtype
    length = np.linalg.norm(f.astype(float), axis=-1, keepdims=True)
    direction = np.divide(f, length, out=np.zeros(f.shape), where=length > 0)
    rotation = Rotation.from_rotvec(direction * 2 * np.arctan(length))
    expected = unsign(scalar_first(rotation), found)
    np.testing.assert_allclose(found, expected, atol=tolerance(dtype))


def test_kinematics():
    q, omega = unit(5), np.random.default_rng(1).normal(size=(50, 3))
    found = np.asarray(quaternion.kinematics(q, omega))
    expected = np.stack(
        [0.5 * left(u) @ np.concatenate([[0], o]) for u, o in zip(q, omega, strict=True)]
    )
    np.testing.assert_allclose(found, expected, atol=tolerance(float))
    # Body angular velocity: q(t) = q exp(t Omega) turns the body about its own axes.
    start = Rotation.from_quat(q[0], scalar_first=True)

    def path(t):
        return (start * Rotation.from_rotvec(t[0] * omega[0])).as_matrix()

    _, rate = jax.jvp(quaternion.to_matrix, (q[0],), (found[0],))
    # Differences of order 4 with step 1e-3: 1e-12.
    np.testing.assert_allclose(rate, differences(path, np.zeros(1))[..., 0], atol=1e-11)


def right(p):
    """The matrix of q -> q p, from Hamilton's rule."""
    w, x, y, z = p
    return np.array([[w, -x, -y, -z], [x, w, z, -y], [y, -z, w, x], [z, y, -x, w]])


@quick_jit
def algebra(p, q, a, b):
    f = quaternion.cayley(a)
    return {
        "Q_l": quaternion.Q_l(p),
        "Q_r": quaternion.Q_r(p),
        "E": quaternion.E(p),
        "G": quaternion.G(p),
        "inverse": quaternion.inverse(p),
        "hat": quaternion.hat(a),
        "vee": quaternion.vee(quaternion.hat(a)),
        "cayley_inverse": (quaternion.cayley_inverse(f), quaternion.cayley_inverse(-f)),
        "Ad": quaternion.Ad(q),
        "ad": (quaternion.ad(a) @ b[..., None])[..., 0],
        "retract": quaternion.retract(q, a),
        "local": quaternion.local(q, -quaternion.retract(q, a)),
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_and_increments(dtype):
    """Quaternions of any length in the product matrices; rotations where they act."""
    rng = np.random.default_rng(6)
    p = rng.normal(size=(50, 4)).astype(dtype)
    q = unit(7, dtype=dtype)
    a, b = rng.normal(size=(2, 50, 3)).astype(dtype)
    found = algebra(p, q, a, b)
    assert all(leaf.dtype == dtype for leaf in jax.tree.leaves(found))
    tol = tolerance(dtype)
    wide, turn = p.astype(float), Rotation.from_quat(q.astype(float), scalar_first=True)
    products = np.stack([left(u) for u in wide]), np.stack([right(u) for u in wide])
    np.testing.assert_array_equal(found["Q_l"], products[0])
    np.testing.assert_array_equal(found["Q_r"], products[1])
    # Q_l = [q, G^T] and Q_r = [q, E^T], eq. (10) of Betsch and Siebert.
    np.testing.assert_array_equal(found["G"], products[0][:, :, 1:].swapaxes(-1, -2))
    np.testing.assert_array_equal(found["E"], products[1][:, :, 1:].swapaxes(-1, -2))
    one = [left(u) @ v for u, v in zip(wide, np.asarray(found["inverse"], float), strict=True)]
    np.testing.assert_allclose(one, np.tile([1, 0, 0, 0], (50, 1)), atol=tol)
    np.testing.assert_array_equal(found["hat"], np.concatenate([np.zeros((50, 1)), a / 2], axis=1))
    np.testing.assert_array_equal(found["vee"], a)
    for f in found["cayley_inverse"]:
        np.testing.assert_allclose(f, a, atol=tol, rtol=tol)
    np.testing.assert_allclose(found["Ad"], turn.as_matrix(), atol=tol)
    np.testing.assert_allclose(found["ad"], np.cross(a, b), atol=tol)
    further = (turn * Rotation.from_rotvec(a.astype(float))).as_quat(scalar_first=True)
    np.testing.assert_allclose(found["retract"], unsign(further, found["retract"]), atol=tol)
    small = np.linalg.norm(a, axis=-1) < 3
    np.testing.assert_allclose(found["local"][small], a[small], atol=4 * tol)


def test_angular_velocities_of_a_rate():
    """Omega = 2 G q' and omega = 2 E q', eq. (14) of Betsch and Siebert, on scipy's path."""
    omega = np.array([0.3, -0.7, 0.2])
    start = Rotation.from_quat(unit(8)[0], scalar_first=True)

    def path(t):
        return scalar_first(start * Rotation.from_rotvec(t[0] * omega))

    q = path([0.0])
    rate = differences(lambda t: unsign(path(t), q), np.zeros(1))[..., 0]
    np.testing.assert_allclose(2 * quaternion.G(q) @ rate, omega, atol=1e-11)
    np.testing.assert_allclose(2 * quaternion.E(q) @ rate, start.apply(omega), atol=1e-11)


def test_cayley_inverse_at_half_a_turn():
    """Infinite along the axis, zero across it, never NaN."""
    found = quaternion.cayley_inverse(np.array([0.0, 0.6, 0.0, -0.8]))
    np.testing.assert_array_equal(found, [np.inf, 0, -np.inf])


POINTS = [np.zeros(3)] + [
    scale * np.array(axis)
    for scale in (1e-8, 1e-4, 1.25e-4, 1.0, 3.0)
    for axis in ([2 / 3, 2 / 3, -1 / 3], [0, 0, 1.0])
]


def after(a, b):
    """log(exp(a) exp(b)): the logarithm along the group."""
    return quaternion.log(quaternion.multiply(quaternion.exp(a), quaternion.exp(b)))


JACOBIANS = {
    name: jax.jit(lambda *args, f=f, n=n: (jax.jacfwd(f, n)(*args), jax.jacrev(f, n)(*args)))
    for name, f, n in (
        ("exp", quaternion.exp, 0),
        ("cayley", quaternion.cayley, 0),
        ("log", after, 1),
    )
}


@pytest.mark.parametrize("point", POINTS, ids=lambda a: f"{np.linalg.norm(a):.4g}-{a[0]:.2g}")
@pytest.mark.parametrize("name", JACOBIANS)
def test_derivatives(name, point):
    def exponential(a):
        return scalar_first(Rotation.from_rotvec(a))

    def tangents(f):
        return np.concatenate([[1], f]) / np.sqrt(1 + f @ f)

    def logarithm(b):
        return (Rotation.from_rotvec(point) * Rotation.from_rotvec(b)).as_rotvec()

    truth = {"exp": exponential, "cayley": tangents, "log": logarithm}[name]
    at = (point, np.zeros(3)) if name == "log" else (point,)
    forward, backward = JACOBIANS[name](*at)
    assert np.isfinite(forward).all()
    np.testing.assert_allclose(forward, backward, atol=1e-14)  # round-off of order one
    # Differences of order 4 with step 1e-3, and scipy's own round-off: 1e-12.
    np.testing.assert_allclose(forward, differences(truth, at[-1]), atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("jacobian", "dtype"), [(jax.jacfwd, np.float64), (jax.jacrev, np.float32)]
)
def test_derivatives_at_zero(jacobian, dtype):
    zero = jnp.zeros(3, dtype)
    half = np.concatenate([np.zeros((1, 3)), np.eye(3) / 2])
    bend = np.zeros((4, 3, 3))
    bend[0] = -np.eye(3) / 4  # cos(t/2) = 1 - t^2/8

    def functions(a):
        q = quaternion.exp(a)
        return q, quaternion.cayley(a), quaternion.log(q), jax.jacfwd(quaternion.exp)(a)

    found = jax.jit(jacobian(functions))(zero)
    for one, expected in zip(found, (half, 2 * half, np.eye(3), bend), strict=True):
        np.testing.assert_array_equal(one, expected)


ROUND_TRIP = jax.jit(jax.jacfwd(lambda a: quaternion.log(quaternion.exp(a))))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("angle", [1e-8, 1e-4, 0.01, 0.5, 3.0])
def test_log_exp_has_the_identity_as_derivative(angle, dtype):
    a = jnp.asarray(AXES[5] * angle, dtype)
    found = ROUND_TRIP(a)
    # At 3 rad each factor is as large as 1/cos(1.5) = 14, and 200 round-offs of it are kept.
    np.testing.assert_allclose(found, np.eye(3), atol=200 * np.finfo(dtype).eps)
