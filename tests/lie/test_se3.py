"""Rigid motions against scipy's matrix exponentials and dense algebra on 4 x 4 matrices.

Tolerances are 20 to 40 eps times the size of the translation, which is a few metres.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, plain_jit
from scipy.linalg import expm

from jaxrb.lie import se3

DTYPES = [np.float64, np.float32]
AXES = np.array([[1, 0, 0], [0, -1, 0], [0.6, -0.8, 0], [2 / 3, 2 / 3, -1 / 3]])
ANGLES = [0.0, 1e-12, 1e-6, 1e-3, 0.999, 1.001, 2.5, np.pi - 1e-6]
TURNS = (AXES[None] * np.array(ANGLES)[:, None, None]).reshape(-1, 3)
BEYOND = AXES * np.array([np.pi, 4.0, 2 * np.pi, 7.0])[:, None]


def twists(dtype):
    w = np.concatenate([TURNS, BEYOND])
    v = np.random.default_rng(0).normal(size=w.shape)
    return np.concatenate([v, w], axis=-1).astype(dtype)


def skew(a):
    x, y, z = a
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def hat(twist):
    matrix = np.zeros((4, 4))
    matrix[:3, :3], matrix[:3, 3] = skew(twist[3:]), twist[:3]
    return matrix


def ad(twist):
    w, v = skew(twist[3:]), skew(twist[:3])
    return np.block([[w, v], [np.zeros((3, 3)), w]])


def left(twist):
    """The integral of exp(s ad) over s from 0 to 1."""
    block = np.zeros((12, 12))
    block[:6, :6], block[:6, 6:] = ad(twist), np.eye(6)
    return expm(block)[:6, 6:]


@plain_jit
def program(a):
    g = se3.exp(a)
    h = g[::-1]
    return {
        "exp": g,
        "log": se3.log(g),
        "hat": se3.hat(a),
        "vee": se3.vee(se3.hat(a)),
        "inverse": se3.inverse(g),
        "multiply": se3.multiply(g, h),
        "cayley": se3.cayley(a),
        "cayley_inverse": se3.cayley_inverse(se3.cayley(a)),
        "Ad": se3.Ad(g),
        "ad": se3.ad(a),
        "left": se3.left_jacobian(a),
        "right": se3.right_jacobian(a),
        "left_inverse": se3.left_jacobian_inverse(a),
        "right_inverse": se3.right_jacobian_inverse(a),
        "retract": se3.retract(h, a),
        "local": se3.local(h, se3.retract(h, a)),
    }


@pytest.fixture(params=DTYPES, ids=["float64", "float32"])
def case(request):
    """Twists in float64 as rounded to the dtype, results, and eps."""
    a = twists(request.param)
    found = program(a)
    assert all(value.dtype == request.param for value in found.values())
    found = {key: np.asarray(value, float) for key, value in found.items()}
    return a.astype(float), found, float(np.finfo(request.param).eps)


def test_algebra(case):
    a, found, _ = case
    np.testing.assert_array_equal(found["hat"], [hat(v) for v in a])
    np.testing.assert_array_equal(found["vee"], a)
    np.testing.assert_array_equal(found["ad"], [ad(v) for v in a])
    brackets = [hat(u) @ hat(v) - hat(v) @ hat(u) for u, v in zip(a, a[::-1], strict=True)]
    columns = (found["ad"] @ a[::-1, :, None])[..., 0]
    np.testing.assert_allclose([hat(v) for v in columns], brackets, atol=1e-13)


def test_exp_is_the_matrix_exponential(case):
    a, found, eps = case
    np.testing.assert_allclose(found["exp"], [expm(hat(v)) for v in a], atol=40 * eps)


def test_log_undoes_exp(case):
    a, found, eps = case
    n = len(TURNS) if eps < 1e-10 else len(TURNS) - len(AXES)  # pi - 1e-6 rounds to pi
    np.testing.assert_allclose(found["log"][:n], a[:n], atol=60 * eps)
    np.testing.assert_allclose(found["local"][:n], a[:n], atol=60 * eps * 4)


def test_products(case):
    _, found, eps = case
    g = found["exp"]
    np.testing.assert_allclose(found["multiply"], g @ g[::-1], atol=40 * eps)
    np.testing.assert_allclose(found["inverse"], np.linalg.inv(g), atol=40 * eps)
    np.testing.assert_allclose(found["retract"], g[::-1] @ g, atol=40 * eps)


def test_adjoint(case):
    """hat(Ad(g) b) = g hat(b) g^{-1}."""
    a, found, eps = case
    for g, matrix, b in zip(found["exp"], found["Ad"], a[::-1], strict=True):
        expected = g @ hat(b) @ np.linalg.inv(g)
        np.testing.assert_allclose(hat(matrix @ b), expected, atol=200 * eps)


def test_cayley(case):
    a, found, eps = case
    eye = np.eye(4)
    expected = [(eye + hat(v)) @ np.linalg.inv(eye - hat(v)) for v in a]
    np.testing.assert_allclose(found["cayley"], expected, atol=40 * eps)
    # w = tan(t/2) n is known to eps |w|^2, which is up to 50.
    np.testing.assert_allclose(found["cayley_inverse"], a, atol=2000 * eps)


def test_jacobians(case):
    a, found, eps = case
    truth = np.stack([left(v) for v in a])
    np.testing.assert_allclose(found["left"], truth, atol=40 * eps)
    np.testing.assert_allclose(found["right"], [left(-v) for v in a], atol=40 * eps)
    where = np.arange(len(a)) != len(TURNS) + 2  # the full turn has no inverse
    for key, jacobian in (("left", truth), ("right", [left(-v) for v in a])):
        inverse = np.linalg.inv(np.asarray(jacobian)[where])
        np.testing.assert_allclose(found[f"{key}_inverse"][where], inverse, atol=2000 * eps)


def test_definitions():
    """d/dt exp(a) = hat(J_l a') exp(a) = exp(a) hat(J_r a'), by differences of expm."""
    a = twists(np.float64)
    found = program(a)
    for k in (0, 5, 14, 23, 33):
        g = expm(hat(a[k]))
        rates = np.moveaxis(differences(lambda v: expm(hat(v)), a[k]), -1, 0)
        inverse = np.linalg.inv(g)
        columns = np.asarray(found["left"][k]).T, np.asarray(found["right"][k]).T
        # Differences of order 4 with step 1e-3: 1e-12, and the digits of expm.
        np.testing.assert_allclose(rates @ inverse, [hat(c) for c in columns[0]], atol=2e-11)
        np.testing.assert_allclose(inverse @ rates, [hat(c) for c in columns[1]], atol=2e-11)


def test_derivatives_at_nothing():
    """exp and log are smooth at the identity: their derivatives there are the generators."""

    @plain_jit
    def derivatives(zero):
        def around(a):
            return se3.log(se3.exp(a)), se3.exp(a)

        return jax.jacfwd(around)(zero)

    of_both, of_exp = derivatives(jnp.zeros(6))
    np.testing.assert_array_equal(np.moveaxis(of_exp, -1, 0), [hat(e) for e in np.eye(6)])
    np.testing.assert_array_equal(of_both, np.eye(6))
