"""Jacobians of many frictional impacts against differences, and those known from before."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit
from impacts import APPROACH, ICOSAHEDRON, random_impacts

import jaxrb as rb
from jaxrb.impact import AbstractHypothesis
from jaxrb.impact.coulomb import columns, known_impulse, sensitivity, solver
from jaxrb.math import Sym3, Vec3

STRONGE = rb.Stronge()
SOLVE = jax.jit(solver(STRONGE))
SENSITIVITY = jax.jit(sensitivity(STRONGE))


def problems(n, seed=0, *, near_rays=False):
    """Columns of random impacts, some of which do not approach."""
    w, v, mu, e = random_impacts(n, seed)
    if near_rays:
        ray = np.asarray(jax.jit(jax.vmap(rb.invariant_directions))(w, mu).direction)[:, 0]
        rng = np.random.default_rng(seed)
        v[:, :2] = ray + 10.0 ** rng.uniform(-17, 0, n)[:, None] * rng.normal(size=(n, 2))
    v[::7, 2] *= -1
    return columns(
        Sym3.of(jnp.asarray(w)), Vec3.of(jnp.asarray(v)), jnp.asarray(mu), jnp.asarray(e)
    )


@pytest.mark.parametrize("near_rays", [False, True])
@pytest.mark.long
def test_against_differences(near_rays):
    """Along mu, e and the normal velocity, across which rays do not move much."""
    x = problems(2000, near_rays=near_rays)
    found = np.asarray(SENSITIVITY(x))
    assert found.shape == (3, 11, 2000)
    np.testing.assert_array_equal(found[:, :, ::7], 0)
    size = np.abs(found).max((0, 1)) + 1e-300
    for number in (8, 10) if near_rays else range(11):
        h = 1e-6
        f = [np.asarray(SOLVE(x.at[number].add(k * h)))[:3] for k in (-2, -1, 1, 2)]
        numbers = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
        error = np.abs(found[:, number] - numbers).max(0) / size
        # A few impacts change the order of their events in between.
        assert np.quantile(error, 0.98) < 1e-7, number


@pytest.mark.slow
def test_of_a_batch_and_by_itself():
    """One queue under any vmap."""
    x = problems(60)
    nested = x.T.reshape(3, 20, 11)
    apart = quick_jit(jax.vmap(jax.vmap(lambda x: sensitivity(STRONGE)(x[:, None])[..., 0])))
    together = SENSITIVITY(jnp.tile(x, (1, 34))[:, :2000])[..., :60]
    found = apart(nested).reshape(60, 3, 11)
    np.testing.assert_allclose(found, together.transpose(2, 0, 1), rtol=1e-9, atol=1e-12)


def test_known_slopes():
    """Of first order they are taken as they are, in both modes, and nothing is followed."""
    x = problems(2)[:, 1:]

    def impulse(x, known, slope):
        return known_impulse(STRONGE)(x, known, slope)

    known, slope = jnp.arange(3.0)[:, None], jnp.arange(33.0).reshape(3, 11, 1)
    for derivative in (jax.jacfwd, jax.jacrev):
        program = jax.jit(lambda *x, d=derivative: (impulse(*x), d(impulse)(*x)))
        value, first = program(x, known, slope)
        np.testing.assert_array_equal(value, known)
        np.testing.assert_array_equal(first[..., 0, :, 0], slope[..., 0])
        assert "while" not in program.lower(x, known, slope).as_text()


@pytest.mark.long
def test_second_derivatives_from_known_slopes():
    """Against differences of the first ones."""
    x = problems(2)[:, 1:]
    rows = jnp.tile(x, (1, 2000))
    known, slope = SOLVE(rows)[:3, :1], SENSITIVITY(rows)[..., :1]
    steps = 1e-5 * jnp.eye(11)
    f = [SENSITIVITY(rows.at[:, :11].add(k * steps))[..., :11] for k in (-2, -1, 1, 2)]
    numbers = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * 1e-5)
    scale = np.abs(numbers).max()

    def impulse(x):
        return known_impulse(STRONGE)(x, known, slope)

    for outer, inner in itertools.product((jax.jacfwd, jax.jacrev), repeat=2):
        second = quick_jit(outer(inner(impulse)))(x)[:, 0, :, 0, :, 0]
        np.testing.assert_allclose(second / scale, numbers / scale, atol=1e-8)


def test_products_have_the_precision_of_their_numbers():
    """Where the default is less (10 bits on some GPUs), of derivatives, too."""
    found = []

    def is_program(value):
        return hasattr(value, "eqns") or hasattr(value, "jaxpr")

    def visit(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name in ("dot_general", "conv_general_dilated"):
                found.append(equation.params["precision"])
            for value in jax.tree.leaves(equation.params, is_leaf=is_program):
                if is_program(value):
                    visit(getattr(value, "jaxpr", value))

    x = jnp.ones((11, 300), jnp.float32).at[8].set(-1.0)
    for function in (solver(STRONGE), sensitivity(STRONGE)):
        visit(jax.make_jaxpr(function)(x).jaxpr)
    body = rb.CollidingBody(1.0, (1.0, 2.0, 3.0), (0.0, 0.0, 1.0))
    for function, arguments in (
        (rb.inverse_inertia_matrix, (body,)),
        (rb.contact_velocity, (body,)),
        (rb.invariant_directions, (jnp.eye(3), 0.3)),
    ):
        visit(jax.make_jaxpr(function)(*arguments).jaxpr)
    assert len(found) > 10
    assert all(set(precision) == {jax.lax.Precision.HIGHEST} for precision in found)


class Squared(AbstractHypothesis):
    """The normal impulse of restitution is e^2 times that of compression."""

    name = "squared"

    def excess(self, e, now):
        return now.impulse - now.compressed_at - e * e * now.compressed_at

    def left(self, e, now):
        return (1 + e * e) * now.compressed_at - now.impulse


@pytest.mark.slow
def test_a_hypothesis_is_one_class():
    """Poisson's with another e."""
    squared = rb.solve_impact(ICOSAHEDRON, APPROACH, rb.Coulomb(0.8, 0.7, Squared()))
    poisson = rb.solve_impact(ICOSAHEDRON, APPROACH, rb.Coulomb(0.8, 0.49, rb.Poisson()))
    np.testing.assert_allclose(squared.impulse, poisson.impulse, rtol=1e-13)
