"""Matrices of size 3 in component form against dense linear algebra.

Products agree to a few units of round-off of their largest term. Solutions by Cramer's rule
are asked to agree to eps times the condition number (up to 100 here) times the size of the
solution, with a factor of 30 for the dozen operations: 1e-12 is well above, and far below
what any wrong formula would give.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrb.math import Diag3, Mat3, Sym3, Vec3, axial, solve3
from jaxrb.math.small import stack_inertia


def mat3(a):
    return Mat3(*(Vec3.of(jnp.asarray(a[..., i, :])) for i in range(3)))


def dense(m):
    return np.stack([m.row1.array(), m.row2.array(), m.row3.array()], axis=-2)


def conditioned(rng, n, condition=100.0):
    """Matrices with singular values between 1/condition and 1."""
    u, _ = np.linalg.qr(rng.normal(size=(n, 3, 3)))
    v, _ = np.linalg.qr(rng.normal(size=(n, 3, 3)))
    s = condition ** -rng.uniform(size=(n, 3))
    return (u * s[:, None, :]) @ v


def tensor(rng, kind, n):
    """A random positive definite tensor (component form, dense form)."""
    j = rng.uniform(0.5, 3, size=(n, 3))
    if kind == "diag":
        return Diag3(Vec3.of(jnp.asarray(j))), j[:, :, None] * np.eye(3)
    u, _ = np.linalg.qr(rng.normal(size=(n, 3, 3)))
    full = np.einsum("nij,nj,nkj->nik", u, j, u)
    return Sym3.of(jnp.asarray(full)), full


def test_solve3():
    rng = np.random.default_rng(0)
    a, b = conditioned(rng, 200), rng.normal(size=(200, 3))
    expected = np.linalg.solve(a, b[..., None])[..., 0]
    found = solve3(mat3(a), Vec3.of(jnp.asarray(b))).array()
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


def test_solve3_of_float32():
    rng = np.random.default_rng(1)
    a, b = conditioned(rng, 50, 5.0).astype(np.float32), rng.normal(size=(50, 3))
    found = solve3(mat3(a), Vec3.of(jnp.asarray(b, jnp.float32))).array()
    assert found.dtype == jnp.float32
    expected = np.linalg.solve(a.astype(float), b.astype(np.float32)[..., None])[..., 0]
    np.testing.assert_allclose(found, expected, atol=1e-4)  # eps 1e-7, condition 5, squared


def test_solve3_derivative():
    rng = np.random.default_rng(2)
    a, b = conditioned(rng, 1)[0], rng.normal(size=3)
    inverse = np.linalg.inv(a)
    x = inverse @ b

    def solution(a, b):
        return solve3(mat3(a), Vec3.of(b)).array()

    for jacobian in (jax.jacfwd, jax.jacrev):
        by_a, by_b = jax.jit(jacobian(solution, (0, 1)))(jnp.asarray(a), jnp.asarray(b))
        # d(A^-1 b) = A^-1 db - A^-1 dA x; entries up to the square of the condition number.
        np.testing.assert_allclose(by_b, inverse, atol=1e-12 * np.abs(inverse).max())
        exact = -np.einsum("ij,k->ijk", inverse, x)
        np.testing.assert_allclose(by_a, exact, atol=1e-11 * np.abs(exact).max())


@pytest.mark.parametrize("kind", ["diag", "sym"])
def test_inertia_tensor(kind):
    rng = np.random.default_rng(4)
    j, full = tensor(rng, kind, 60)
    a = rng.normal(size=(60, 3))
    v = Vec3.of(jnp.asarray(a))
    np.testing.assert_allclose(j.matvec(v).array(), np.einsum("nij,nj->ni", full, a), atol=3e-14)
    np.testing.assert_allclose(
        j.solve(v).array(), np.linalg.solve(full, a[..., None])[..., 0], atol=1e-13
    )
    np.testing.assert_allclose(dense(j.rows()), full, atol=2e-15)
    np.testing.assert_allclose(j.trace(), np.trace(full, axis1=1, axis2=2), rtol=1e-14)
    np.testing.assert_allclose(j.determinant(), np.linalg.det(full), rtol=1e-12)
    determinant = np.linalg.det(full)[:, None, None]
    np.testing.assert_allclose(
        j.adjugate().matrix(), determinant * np.linalg.inv(full), rtol=1e-11, atol=1e-13
    )
    scale = rng.uniform(1, 2, 60)
    np.testing.assert_allclose((j / scale).matrix(), full / scale[:, None, None], atol=2e-15)


@pytest.mark.parametrize("kind", ["diag", "sym"])
@pytest.mark.parametrize("index", [0, slice(None)], ids=["one", "batch"])
def test_matrix(kind, index):
    j, full = tensor(np.random.default_rng(7), kind, 4)
    j = jax.tree.map(lambda leaf: leaf[index], j)
    np.testing.assert_allclose(j.to_sym().matrix(), full[index], atol=2e-15)
    np.testing.assert_allclose(j.matrix(), full[index], atol=2e-15)


def test_sym_of_takes_the_symmetric_part():
    a = np.random.default_rng(5).normal(size=(4, 3, 3))
    expected = (a + a.swapaxes(-1, -2)) / 2
    np.testing.assert_allclose(Sym3.of(jnp.asarray(a)).matrix(), expected, atol=1e-15)


@pytest.mark.parametrize("kinds", [("diag", "diag"), ("sym", "sym"), ("diag", "sym", "diag")])
def test_stacked_tensors(kinds):
    rng = np.random.default_rng(6)
    pairs = [tensor(rng, kind, 1) for kind in kinds]
    single = [jax.tree.map(lambda leaf: leaf[0], j) for j, _ in pairs]
    stacked = stack_inertia(single)
    assert isinstance(stacked, Diag3) == (set(kinds) == {"diag"})
    np.testing.assert_allclose(
        stacked.to_sym().matrix(), np.concatenate([full for _, full in pairs]), atol=2e-15
    )


def test_products_and_transpose():
    rng = np.random.default_rng(9)
    a, b = rng.normal(size=(2, 10, 3, 3))
    x = rng.normal(size=(10, 3))
    m, n, v = mat3(a), mat3(b), Vec3.of(jnp.asarray(x))
    np.testing.assert_array_equal(Mat3.of(jnp.asarray(a)).matrix(), a)
    np.testing.assert_array_equal(m.transpose().matrix(), a.swapaxes(-1, -2))
    np.testing.assert_allclose(m.matvec(v).array(), (a @ x[..., None])[..., 0], atol=1e-14)
    np.testing.assert_allclose(m.matmul(n).matrix(), a @ b, atol=1e-14)


def test_axial():
    rng = np.random.default_rng(10)
    a = rng.normal(size=(10, 3))
    unit, spin, square = rng.normal(size=(3, 10))
    skew = np.stack([np.cross(v, np.eye(3)).T for v in a])
    expected = [
        u * np.eye(3) + s * m + q * m @ m
        for u, s, q, m in zip(unit, spin, square, skew, strict=True)
    ]
    found = axial(
        Vec3.of(jnp.asarray(a)), jnp.asarray(unit), jnp.asarray(spin), jnp.asarray(square)
    )
    np.testing.assert_allclose(found.matrix(), expected, atol=1e-14)
    # Coefficients may be numbers.
    np.testing.assert_array_equal(axial(Vec3.of(jnp.asarray(a)), 0.0, 1.0, 0.0).matrix(), skew)
