"""Safe elementary functions, decisions made once, and derivatives that skip constants.

Values are compared exactly where the function only selects, and to one or two units of
round-off where it computes.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_derivatives import SymbolicZero

from jaxrb.math import safe_divide, safe_sqrt
from jaxrb.math.autodiff import Differential, linear_solve, sparse_jvp
from jaxrb.math.materialize import choose_once

DTYPES = [jnp.float32, jnp.float64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_safe_sqrt(dtype):
    x = jnp.array([0.0, 1e-30, 0.25, 2.0], dtype)
    found = safe_sqrt(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.sqrt(np.asarray(x)), rtol=2 * jnp.finfo(dtype).eps)
    np.testing.assert_allclose(
        jax.vmap(jax.grad(safe_sqrt))(x)[1:],
        0.5 / np.sqrt(np.asarray(x)[1:]),
        rtol=4 * jnp.finfo(dtype).eps,
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_safe_sqrt_derivatives_vanish_at_zero(dtype):
    zero = jnp.zeros((), dtype)
    assert jax.grad(safe_sqrt)(zero) == 0
    assert jax.jvp(safe_sqrt, (zero,), (jnp.ones((), dtype),)) == (0, 0)
    assert jax.grad(jax.grad(safe_sqrt))(zero) == 0
    # The chain rule through zero: the length of a zero vector.
    assert jax.grad(lambda x: safe_sqrt(x * x))(zero) == 0


@pytest.mark.parametrize("otherwise", [0.0, 2.0])
def test_safe_divide(otherwise):
    numerator, denominator = jnp.array([3.0, 1.0, 0.0]), jnp.array([2.0, 0.0, 0.0])
    found = safe_divide(numerator, denominator, otherwise)
    np.testing.assert_array_equal(found, [1.5, otherwise, otherwise])
    for argnum, expected in ((0, [0.5, 0, 0]), (1, [-0.75, 0, 0])):
        rates = jax.vmap(jax.grad(safe_divide, argnum), (0, 0, None))(
            numerator, denominator, otherwise
        )
        np.testing.assert_array_equal(rates, expected)
    _, rate = jax.jvp(safe_divide, (1.0, 0.0), (1.0, 1.0))
    assert rate == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_cases", [1, 2, 4, 7])
def test_choose_once_returns_its_cases(dtype, n_cases):
    # Every one of the exclusive patterns (one case true, or none), batched as lanes are.
    patterns = np.concatenate([np.eye(n_cases, dtype=bool), np.zeros((1, n_cases), bool)])
    chosen = jax.jit(jax.vmap(lambda row: choose_once(*row, dtype=dtype)))(jnp.asarray(patterns))
    assert all(case.dtype == bool for case in chosen)
    np.testing.assert_array_equal(np.stack(chosen, axis=-1), patterns)


def _mixed(a, b, c):
    return {"sum": a["x"] * jnp.sin(b) + c, "product": a["y"] * b * c}


@pytest.mark.parametrize("varied", [(0, 1, 2), (0,), (1, 2), (2,)])
@pytest.mark.parametrize("reverse", [False, True])
def test_sparse_jvp_is_jvp(varied, reverse):
    """Inside a rule with symbolic zeros, against JAX's own rule for the plain function."""

    @jax.custom_jvp
    def function(a, b, c):
        return _mixed(a, b, c)

    def rule(primals, tangents):
        return sparse_jvp(_mixed, primals, tangents)

    function.defjvp(rule, symbolic_zeros=True)
    rng = np.random.default_rng(0)
    arguments = [
        {"x": jnp.asarray(rng.normal(size=3)), "y": jnp.asarray(rng.normal(size=3))},
        jnp.asarray(rng.normal(size=3)),
        jnp.asarray(rng.normal(size=3)),
    ]

    def of_varied(f):
        def call(values):
            full = list(arguments)
            for index, value in zip(varied, values, strict=True):
                full[index] = value
            return f(*full)

        return call

    values = [arguments[i] for i in varied]
    transform = jax.jacrev if reverse else jax.jacfwd
    found, expected = (transform(of_varied(f))(values) for f in (function, _mixed))
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for u, v in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(u, v, atol=1e-15)  # the same products of numbers near 1


def test_sparse_jvp_of_constants():
    """A rule none of whose arguments vary: the value, and a tangent of zeros."""
    primals = ({"x": jnp.ones(2), "y": jnp.arange(2.0)}, jnp.arange(2.0), jnp.ones(2))
    zeros = jax.tree.map(lambda leaf: SymbolicZero(jax.typeof(leaf)), primals)
    value, rate = sparse_jvp(_mixed, primals, zeros)
    expected = _mixed(*primals)
    for key, leaf in expected.items():
        np.testing.assert_array_equal(value[key], leaf)
        np.testing.assert_array_equal(rate[key], np.zeros(2))


def test_sparse_jvp_of_plain_tangents():
    primals = ({"x": jnp.ones(2), "y": jnp.arange(2.0)}, jnp.arange(2.0), jnp.ones(2))
    tangents = jax.tree.map(lambda leaf: leaf + 0.5, primals)
    found, expected = sparse_jvp(_mixed, primals, tangents), jax.jvp(_mixed, primals, tangents)
    for u, v in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(u, v)


def test_a_differential_in_both_modes():
    """Along the tangents that are not known to be zero, of which one may be left out; beside it a
    count, which has no derivative."""
    a = {"x": jnp.asarray([0.3, -1.2]), "y": jnp.asarray([2.0, 0.7])}
    b, c = jnp.asarray([0.4, 1.1]), jnp.asarray([1.5, -0.2])
    still = jax.tree.map(lambda leaf: SymbolicZero(jax.typeof(leaf)), c)
    db = jnp.asarray([0.5, -2.0])

    def function(a, b, c):
        return {**_mixed(a, b, c), "count": jnp.sum(b > 0)}

    differential = Differential(function, (a, b, c), (a, db, still))
    assert len(differential.directions) == 3
    # Of the leaves by name: "product", then "sum".
    along_b = [a["y"] * db * c, a["x"] * jnp.cos(b) * db]
    for found, expected in zip(differential.push([None, None, db]), along_b, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-15)
    tangent = differential.tree(along_b)
    assert tangent["count"].dtype == jax.dtypes.float0 and tangent["sum"] is along_b[1]
    changes = [jnp.asarray([1.0, 3.0]), jnp.asarray([-2.0, 0.5])]
    pulled = differential.pull(changes)
    expected = [jnp.sin(b) * changes[1], b * c * changes[0]]
    expected += [a["y"] * c * changes[0] + a["x"] * jnp.cos(b) * changes[1]]
    for found, own in zip(pulled, expected, strict=True):
        np.testing.assert_allclose(found, own, rtol=1e-15)


def test_linear_equations_with_a_right_side_that_is_known_in_part():
    """Both modes and a Hessian, where JAX by itself cannot transpose."""

    def solved(a, b):
        def solve(_, right):
            x, y = right
            return x / a, y / a + x / a**2

        def transposed(_, right):
            x, y = right
            return x / a + y / a**2, y / a

        def equations(unknown):
            x, y = unknown
            return a * x, a * y - x

        x, y = linear_solve(equations, (b, jnp.ones_like(b)), solve, transposed)
        return jnp.sum(x * y)

    plain = lambda a, b: jnp.sum((b / a) * (1 / a + b / a**2))  # noqa: E731
    a, b = jnp.asarray([0.7, -1.3]), jnp.asarray([0.4, 2.0])
    transforms = (jax.jacrev, jax.jacfwd, lambda f, n: jax.jacfwd(jax.jacrev(f, n), n))
    for transform in transforms:
        found, expected = (transform(f, (0, 1))(a, b) for f in (solved, plain))
        for u, v in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(u, v, rtol=1e-13, atol=1e-14)
