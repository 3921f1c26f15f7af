"""Batches of impacts over cores and devices give the numbers of `vmap`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import on_devices, quick_jit
from impacts import random_impacts

import jaxrb as rb
from jaxrb.impact import batch

N = 301  # of most tests, which then share programs


def problems(n=N, dtype=float):
    w, v, mu, e = (jnp.asarray(x, dtype) for x in random_impacts(n, seed=5))
    return w, v, jax.vmap(rb.Coulomb)(mu, e)


def one(w, v, law):
    return rb.solve_impact(w, v, law, throw=False)


def many(w, v, law):
    return rb.solve_impact_batch(w, v, law, batch_law=True)


VMAP = quick_jit(jax.vmap(one))


def assert_same(found, expected, digits=1e-11):
    def same(x, y):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=digits, atol=digits / 100)

    jax.tree.map(same, found, expected)


@pytest.mark.parametrize("smallest", [4096, 64], ids=["together", "in chunks"])
@pytest.mark.slow
def test_equals_vmap(smallest, monkeypatch):
    """The last of four chunks of 76 is filled up."""
    monkeypatch.setattr(batch, "SMALLEST_CHUNK", smallest)
    monkeypatch.setattr(batch, "n_cores", lambda: 4)
    assert_same(many(*problems()), VMAP(*problems()))


@pytest.mark.slow
def test_single_precision(monkeypatch):
    monkeypatch.setattr(batch, "SMALLEST_CHUNK", 64)
    found = many(*problems(dtype=jnp.float32))
    expected = VMAP(*problems(dtype=jnp.float32))
    assert found.impulse.dtype == jnp.float32
    np.testing.assert_allclose(found.impulse, expected.impulse, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "law", [rb.Coulomb(0.4, 0.7), rb.Frictionless(0.5)], ids=["rough", "smooth"]
)
@pytest.mark.slow
def test_one_law_for_all(law):
    w, v, _ = problems()
    expected = VMAP(w, v, jax.tree.map(lambda leaf: jnp.full(N, leaf), law))
    assert_same(rb.solve_impact_batch(w, v, law), expected)


@pytest.mark.slow
def test_collinearity_is_passed_on():
    w, v, law = problems()
    tolerant = rb.solve_impact_batch(w, v, law, batch_law=True, collinearity=0.3)
    straight = np.isfinite(tolerant.events.l).sum()
    assert straight > np.isfinite(many(w, v, law).events.l).sum()


@pytest.mark.slow
def test_gradient_under_jit():
    def gradient(solve):
        loss = lambda *problem: jnp.sum(solve(*problem).impulse ** 2)  # noqa: E731
        return quick_jit(jax.grad(loss, (0, 1, 2)))(*problems(20))

    assert_same(gradient(many), gradient(jax.vmap(one)), 1e-10)


def test_refused():
    w, v, laws = problems(3)
    law = rb.Coulomb(0.5)
    with pytest.raises(
        ValueError, match=r"inverse_inertia must have shape \(n, 3, 3\); got \(3, 3"
    ):
        rb.solve_impact_batch(w[0], v, law)
    with pytest.raises(
        ValueError, match=r"inverse_inertia must have shape \(3, 3, 3\); got \(3, 3, 2"
    ):
        rb.solve_impact_batch(w[:, :, :2], v, law)
    with pytest.raises(ValueError, match=r"velocity must have shape \(3, 3\); got \(2, 3\)"):
        rb.solve_impact_batch(w, v[:2], law)
    with pytest.raises(ValueError, match="inverse_inertia must hold at least one impact"):
        rb.solve_impact_batch(w[:0], v[:0], law)
    with pytest.raises(ValueError, match="batch_law needs 3 numbers in every leaf of law"):
        rb.solve_impact_batch(w, v, law, batch_law=True)
    with pytest.raises(ValueError, match="law must hold single numbers without batch_law"):
        rb.solve_impact_batch(w, v, laws)
    with pytest.raises(ValueError, match="law must be a contact law"):
        rb.solve_impact_batch(w, v, 0.5)
    with pytest.raises(ValueError, match="collinearity must lie between 0 and 1"):
        rb.solve_impact_batch(w, v, law, collinearity=1.0)
    with pytest.raises(ValueError, match="inverse_inertia of impact 1 must be symmetric"):
        rb.solve_impact_batch(w.at[1, 0, 1].add(1.0).at[0].set(jnp.nan), v, law)


@pytest.mark.slow
def test_failures_are_counted_and_the_first_is_named():
    w, v, law = problems()
    v = v.at[0, 2].set(1.0)  # recedes, which is no failure
    bad_w, bad_v = w.at[2].multiply(-1), v.at[3].multiply(jnp.inf)
    message = "2 of 301 impacts were not resolved; the first, impact 2: .* positive definite"
    with pytest.raises(RuntimeError, match=message):
        many(bad_w, bad_v, law)
    result = rb.solve_impact_batch(bad_w, bad_v, law, batch_law=True, throw=False).result
    codes = ("receding", "successful", "invalid_inverse_inertia", "non_finite", "successful")
    for lane, code in enumerate(codes):
        assert bool((result == getattr(rb.IMPACT_RESULTS, code))[lane]), lane
    np.testing.assert_array_equal(many(w, v, law).impulse[0], 0)
    with pytest.raises(Exception, match="positive definite"):
        jax.block_until_ready(quick_jit(many)(bad_w, v, law).impulse)


@pytest.mark.slow
def test_a_failure_is_raised_by_a_jitted_derivative():
    """Which alone is returned, without a value."""
    w = 2 * jnp.eye(3)
    law = rb.Coulomb(0.3, restitution=0.5)
    slope = quick_jit(jax.grad(lambda v: rb.solve_impact(w, v, law).impulse[2]))
    assert np.isfinite(slope(jnp.array([0.3, 0.1, -1.0]))).all()
    with pytest.raises(Exception, match="infinite or NaN"):
        slope(jnp.array([jnp.inf, 0.1, -1.0])).block_until_ready()


@pytest.mark.slow
def test_impacts_are_sharded_over_devices():
    program = """
        from helpers import quick_jit
        from test_solve_impact_batch import VMAP, assert_same, many, problems
        assert len(jax.devices()) == 2
        w, v, law = problems(31)
        assert_same(many(w, v, law), VMAP(w, v, law))
        # One device does what can raise within a program: a failure leaves no other waiting.
        try:
            quick_jit(many)(-w, v, law).impulse.block_until_ready()
        except Exception as error:
            assert "positive definite" in str(error)
            print("sharded")
    """
    assert "sharded" in on_devices(2, program)
