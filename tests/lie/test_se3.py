"""Rigid motions against scipy's matrix exponentials and dense algebra on 4 x 4 matrices.

Tolerances are 20 to 40 eps times the size of the translation, which is a few metres.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, quick_jit
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


@quick_jit
def program(a):
    """The functions at all twists; few of them in float32, as they share their formulas."""
    g = se3.exp(a)
    h = g[::-1]
    found = {
        "exp": g,
        "log": se3.log(g),
        "multiply": se3.multiply(g, h),
        "inverse": se3.inverse(g),
        "cayley": se3.cayley(a),
        "Ad": se3.Ad(g),
        "left": se3.left_jacobian(a),
    }
    if a.dtype == jnp.float32:
        return found
    return found | {
        "hat": se3.hat(a),
        "vee": se3.vee(se3.hat(a)),
        "cayley_inverse": se3.cayley_inverse(se3.cayley(a)),
        "ad": se3.ad(a),
        "right": se3.right_jacobian(a),
        "left_inverse": se3.left_jacobian_inverse(a),
        "right_inverse": se3.right_jacobian_inverse(a),
        "retract": se3.retract(h, a),
        "local": se3.local(h, se3.multiply(h, g)),
    }


@cache
def report(dtype):
    """Twists in float64 as rounded to the dtype, results, and eps."""
    a = twists(dtype)
    found = program(a)
    assert all(value.dtype == dtype for value in found.values())
    found = {key: np.asarray(value, float) for key, value in found.items()}
    return a.astype(float), found, float(np.finfo(dtype).eps)


@pytest.fixture(params=DTYPES, ids=["float64", "float32"])
def case(request):
    return report(request.param)


def test_algebra():
    a, found, _ = report(np.float64)
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
    if "local" in found:
        np.testing.assert_allclose(found["local"][:n], a[:n], atol=240 * eps)


def test_products(case):
    _, found, eps = case
    g = found["exp"]
    np.testing.assert_allclose(found["multiply"], g @ g[::-1], atol=40 * eps)
    np.testing.assert_allclose(found["inverse"], np.linalg.inv(g), atol=40 * eps)
    if "retract" in found:
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
    if "cayley_inverse" in found:
        np.testing.assert_allclose(found["cayley_inverse"], a, atol=2000 * eps)


def test_left_jacobian(case):
    a, found, eps = case
    np.testing.assert_allclose(found["left"], [left(v) for v in a], atol=40 * eps)


def test_other_jacobians():
    a, found, eps = report(np.float64)
    truth = {"left": np.stack([left(v) for v in a]), "right": np.stack([left(-v) for v in a])}
    np.testing.assert_allclose(found["right"], truth["right"], atol=40 * eps)
    where = np.arange(len(a)) != len(TURNS) + 2  # the full turn has no inverse
    for key, jacobian in truth.items():
        inverse = np.linalg.inv(jacobian[where])
        np.testing.assert_allclose(found[f"{key}_inverse"][where], inverse, atol=2000 * eps)


def test_definitions():
    """d/dt exp(a) = hat(J_l a') exp(a) = exp(a) hat(J_r a'), by differences of expm."""
    a, found, _ = report(np.float64)
    for k in (0, 5, 14, 23, 33):
        g = expm(hat(a[k]))
        rates = np.moveaxis(differences(lambda v: expm(hat(v)), a[k]), -1, 0)
        inverse = np.linalg.inv(g)
        columns = found["left"][k].T, found["right"][k].T
        # Differences of order 4 with step 1e-3: 1e-12, and the digits of expm.
        np.testing.assert_allclose(rates @ inverse, [hat(c) for c in columns[0]], atol=2e-11)
        np.testing.assert_allclose(inverse @ rates, [hat(c) for c in columns[1]], atol=2e-11)


def test_derivatives_at_nothing():
    """exp and log are smooth at the identity: their derivatives there are the generators."""
    generators = np.stack([hat(e) for e in np.eye(6)])

    @quick_jit
    def derivatives(zero, one):
        _, push = jax.linearize(se3.log, one)
        return jax.jacfwd(se3.exp)(zero), jax.vmap(push)(generators)

    of_exp, of_log = derivatives(np.zeros(6), np.eye(4))
    np.testing.assert_array_equal(np.moveaxis(of_exp, -1, 0), generators)
    np.testing.assert_array_equal(of_log, np.eye(6))
