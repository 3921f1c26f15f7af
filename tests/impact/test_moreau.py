"""Moreau's law of impact: its own equations, an independent solution, differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences
from impacts import random_impacts
from scipy.optimize import brentq

import jaxrb as rb

N = 4000


def resolved(w, v, mu, e):
    return rb.solve_impact(w, v, rb.Moreau(mu, e), throw=False)


@pytest.fixture(scope="module")
def impacts():
    numbers = random_impacts(N, seed=5)
    return numbers, jax.jit(jax.vmap(resolved))(*numbers)


def test_its_equations_hold(impacts):
    """Newton's restitution, the cone, and slip against the impulse, to round-off."""
    sticks = equations_hold(*impacts)
    assert 0.2 < sticks.mean() < 0.8


def equations_hold(numbers, found):
    """Asserts it of each impact, and says which ones stick after."""
    w, v, mu, e = numbers
    assert (found.result == rb.IMPACT_RESULTS.successful).all()
    p, after = np.asarray(found.impulse), np.asarray(found.velocity)
    size = np.abs(v).max(1) + np.abs(w).max((1, 2)) * np.abs(p).max(1)
    np.testing.assert_allclose(after[:, 2], -e * v[:, 2], atol=1e-14 * size.max())
    pushed, slip = np.hypot(p[:, 0], p[:, 1]), np.hypot(after[:, 0], after[:, 1])
    assert (p[:, 2] > 0).all()
    assert (pushed <= mu * p[:, 2] + 1e-14 * p[:, 2]).all()
    # It sticks, or the impulse is on the cone and straight against the slip.
    sticks = slip < 1e-12 * size
    np.testing.assert_allclose(pushed[~sticks], (mu * p[:, 2])[~sticks], rtol=1e-12)
    along = np.sum(p[:, :2] * after[:, :2], axis=1)
    np.testing.assert_allclose(along[~sticks], -(pushed * slip)[~sticks], rtol=1e-9)
    return sticks


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_in_a_plane(dtype):
    """The slip stays in the plane of the motion, however that lies to the axes of the contact: at
    the ends of the parts in which its angle is sought, within round-off of them, and elsewhere."""
    rng = np.random.default_rng(6)
    root = rng.normal(size=(N, 3, 3))
    w = root @ root.transpose(0, 2, 1) + 0.3 * np.eye(3)
    w[:, 0, 1:] = w[:, 1:, 0] = 0.0
    v = np.zeros((N, 3))
    v[:, 1] = rng.normal(size=N) * (rng.random(N) < 0.5)  # the others have no slip before
    v[:, 2] = -rng.uniform(0.1, 3.0, N)
    beside = rng.choice([-1, 0, 1], N) * 10 ** rng.uniform(-17, -1, N)
    angle = rng.integers(0, 32, N) * (np.pi / 16) + beside
    axes = np.zeros((N, 3, 3))
    axes[:, 0, 0] = axes[:, 1, 1] = np.cos(angle)
    axes[:, 1, 0] = np.sin(angle)
    axes[:, 0, 1] = -axes[:, 1, 0]
    axes[:, 2, 2] = 1.0
    w, v = axes @ w @ axes.transpose(0, 2, 1), np.einsum("nij,nj->ni", axes, v)
    numbers = [x.astype(dtype) for x in (w, v, rng.uniform(0.01, 1.0, N), rng.uniform(0, 1, N))]
    found = jax.jit(jax.vmap(resolved))(*numbers)
    assert (found.result == rb.IMPACT_RESULTS.successful).all()
    if dtype == np.float64:
        sticks = equations_hold(numbers, found)
        assert 0.1 < sticks.mean() < 0.9
    across = np.einsum("ni,ni->n", axes[:, :, 0], np.asarray(found.velocity, float))
    np.testing.assert_allclose(across, 0.0, atol=2e3 * np.finfo(dtype).eps)


def by_normal_impulse(w, v, mu, e):
    """The least normal impulse whose friction opens the gap fast enough.

    The friction of a given normal impulse is unique: of |p| <= mu N it makes the kinetic energy of
    the slip the least.
    """

    def friction(push):
        free = v[:2] + w[:2, 2] * push
        stick = -np.linalg.solve(w[:2, :2], free)
        if np.linalg.norm(stick) <= mu * push:
            return stick
        # (W_tt + l) p = -free with |p| = mu N.
        values, vectors = np.linalg.eigh(w[:2, :2])
        parts = vectors.T @ -free
        of = lambda slack: np.linalg.norm(parts / (values + slack)) - mu * push  # noqa: E731
        slack = brentq(of, 0.0, np.linalg.norm(free) / (mu * push), xtol=1e-300, rtol=1e-15)
        return vectors @ (parts / (values + slack))

    def opening(push):
        return v[2] + w[2, 2] * push + w[2, :2] @ friction(push) + e * v[2]

    pushes = np.geomspace(1e-6, 1e3, 4000) * -v[2] / w[2, 2]
    above = next(k for k, push in enumerate(pushes) if opening(push) > 0)
    push = brentq(opening, pushes[above - 1], pushes[above], xtol=1e-300, rtol=1e-15)
    return np.array([*friction(push), push])


@pytest.mark.slow
def test_an_independent_solution(impacts):
    """By the normal impulse, for which friction is a convex problem of its own."""
    (w, v, mu, e), found = impacts
    for k in range(60):
        expected = by_normal_impulse(w[k], v[k], mu[k], e[k])
        np.testing.assert_allclose(found.impulse[k], expected, rtol=1e-9)


@pytest.mark.slow
def test_a_whole_impulse_is_that_of_a_course_in_one_direction():
    """A ball's slip keeps its direction: there it is Coulomb's law, slipping and sticking."""
    inertia = [0.4 * 0.3 * 0.05**2] * 3
    for friction in (0.1, 0.6):
        ball = rb.CollidingBody(0.3, inertia, (0, 0, 0.05), [1.0, 0.5, -2.0], [3.0, 1.0, 2.0])
        w, v = rb.inverse_inertia_matrix(ball), rb.contact_velocity(ball)
        whole, course = (
            rb.solve_impact(w, v, law(friction, 0.6)).impulse for law in (rb.Moreau, rb.Coulomb)
        )
        np.testing.assert_allclose(whole, course, rtol=1e-12)


@pytest.mark.slow
def test_derivatives():
    """By W, v, mu and e, slipping and sticking, in both modes; second ones of what slips."""
    (w, v, mu, e) = (x[:6] for x in random_impacts(6, seed=8))
    mu = np.array([0.05, 0.1, 0.1, 0.2, 9.0, 9.0])
    modes = set()

    def of(x):
        return resolved(x[:9].reshape(3, 3), x[9:12], x[12], x[13]).impulse

    runs = jax.jit(of)
    forward, reverse = jax.jit(jax.jacfwd(of)), jax.jit(jax.jacrev(of))
    bend, slope = jax.jit(jax.hessian(lambda x: of(x)[0])), jax.jit(jax.grad(lambda x: of(x)[0]))
    for k in range(6):
        x = jnp.concatenate([jnp.ravel(w[k]), v[k], mu[k : k + 1], e[k : k + 1]])
        found = forward(x)
        np.testing.assert_allclose(found, reverse(x), atol=1e-12 * np.abs(found).max())
        np.testing.assert_allclose(
            found, differences(runs, x, step=3e-4), atol=1e-8 * np.abs(found).max()
        )
        second = bend(x)
        expected = differences(slope, x, step=3e-4)
        np.testing.assert_allclose(second, expected, atol=1e-7 * np.abs(second).max())
        modes.add(bool(np.abs(found[:, 12]).max() > 0))
    assert modes == {True, False}


def test_single_precision():
    numbers = random_impacts(300, seed=6)
    single = [jnp.asarray(x, jnp.float32) for x in numbers]
    found = jax.jit(jax.vmap(resolved))(*single)
    assert found.impulse.dtype == jnp.float32
    assert (found.result == rb.IMPACT_RESULTS.successful).all()
    exact = jax.jit(jax.vmap(resolved))(*[x.astype(float) for x in single])
    one, other = np.asarray(found.impulse), np.asarray(exact.impulse)
    off = np.abs(one - other).max(1) / np.abs(other).max(1)
    # Where two solutions are about as good, round-off may choose.
    assert np.quantile(off, 0.99) < 1e-4


def test_refused():
    with pytest.raises(ValueError, match=r"Moreau.restitution must be in the interval"):
        rb.Moreau(0.3, 1.5)
    with pytest.raises(ValueError, match=r"Moreau.friction must be 0 or more; got -1.0"):
        rb.Moreau(-1.0, 1.0)
    with pytest.raises(ValueError, match="law must say how the impulse develops"):
        rb.impulse_curve(np.eye(3), [1.0, 0.0, -1.0], rb.Moreau(0.3))
