"""The Jacobians of the exponential map against matrix exponentials.

The integral of exp(s A) over s from 0 to 1 is J_l for A = S(a) (and for A = ad(a) in SE(3)):
the corner block of the exponential of [[A, I], [0, 0]], which scipy computes without the
formulas tested here. Tolerances are 20 eps times the size of the result.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, quick_jit
from scipy.linalg import expm

from jaxrb.lie import quaternion, so3

DTYPES = [np.float64, np.float32]
AXES = np.array([[1, 0, 0], [0, -1, 0], [0.6, -0.8, 0], [2 / 3, 2 / 3, -1 / 3]])
ANGLES = [0.0, 1e-12, 1e-6, 1e-3, 0.999, 1.001, 2.5, np.pi, 2 * np.pi - 1e-3, 2 * np.pi, 7.0]
POINTS = (AXES[None] * np.array(ANGLES)[:, None, None]).reshape(-1, 3)
# The rotation vectors 2 pi n, where the Jacobians have no inverse.
FULL = np.isclose(np.linalg.norm(POINTS, axis=-1), 2 * np.pi, atol=1e-6)


def skew(a):
    x, y, z = a
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def left(a):
    block = np.zeros((6, 6))
    block[:3, :3], block[:3, 3:] = skew(a), np.eye(3)
    return expm(block)[:3, 3:]


@quick_jit
def program(a):
    functions = (
        so3.left_jacobian,
        so3.right_jacobian,
        so3.left_jacobian_inverse,
        so3.right_jacobian_inverse,
    )
    both = a.dtype == jnp.float64
    derivative = jax.vmap(jax.jacfwd(so3.left_jacobian))(a) if both else None
    return [f(a) for f in functions], derivative


@pytest.mark.parametrize("dtype", DTYPES)
def test_jacobians(dtype):
    a = POINTS.astype(dtype)
    (left_found, right, left_inverse, right_inverse), _ = program(a)
    truth = np.stack([left(v) for v in a.astype(float)])
    eps = float(np.finfo(dtype).eps)
    for found, expected in ((left_found, truth), (right, truth.swapaxes(-1, -2))):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, atol=20 * eps)
    inverse = np.linalg.inv(truth[~FULL])
    size = np.max(np.abs(inverse), axis=(1, 2), keepdims=True)
    # Next to a full turn the inverse is known to eps times the square of its size.
    for found, expected in (
        (left_inverse, inverse),
        (right_inverse, inverse.swapaxes(-1, -2)),
    ):
        assert found.dtype == dtype
        error = np.abs(np.asarray(found)[~FULL] - expected)
        assert np.all(error <= 20 * eps * size * np.maximum(1, size))


def test_full_turn_keeps_the_axis_alone():
    (found, *_), _ = program(POINTS)
    expected = AXES[:, :, None] * AXES[:, None, :]
    np.testing.assert_allclose(np.asarray(found)[FULL], expected, atol=1e-15)


def test_derivative_of_the_jacobian():
    _, derivative = program(POINTS)
    for a, found in zip(POINTS[3::4], derivative[3::4], strict=True):
        # Differences of order 4 with step 1e-3, and scipy's own round-off: 1e-12.
        np.testing.assert_allclose(found, differences(left, a), atol=1e-11)


def test_definitions():
    """d/dt exp(a) = S(J_l a') exp(a) = exp(a) S(J_r a'), with differences of scipy's expm."""
    (left_found, right, *_), _ = program(POINTS)
    for a, jl, jr in zip(POINTS[2::4], left_found[2::4], right[2::4], strict=True):
        r = expm(skew(a))
        rates = np.moveaxis(differences(lambda v: expm(skew(v)), a), -1, 0)
        np.testing.assert_allclose(rates @ r.T, [skew(c) for c in jl.T], atol=1e-11)
        np.testing.assert_allclose(r.T @ rates, [skew(c) for c in jr.T], atol=1e-11)


def test_quaternions_share_them():
    """d/dt exp(a) = exp(a) hat(J_r a') for quaternions."""

    @quick_jit
    def both(a):
        q = quaternion.exp(a)
        columns = jnp.swapaxes(quaternion.right_jacobian(a), -1, -2)
        return jax.jacfwd(quaternion.exp)(a), jax.vmap(
            lambda c: quaternion.multiply(q, quaternion.hat(c))
        )(columns)

    found, expected = both(POINTS[-2])
    np.testing.assert_allclose(found, np.asarray(expected).T, atol=1e-14)
