"""Invariant directions against their definition, sampling, and Theorem 5."""

import jax
import numpy as np
from impacts import ICOSAHEDRON, random_impacts

import jaxrb as rb


def test_against_sampling_and_theorem_5():
    w, _, mu, _ = random_impacts(2000, seed=5)
    found = jax.jit(jax.vmap(rb.invariant_directions))(w, mu)
    number = np.asarray(found.exists).sum(1)
    assert set(number) == {2, 4}
    angle = np.linspace(0, 2 * np.pi, 20001)[:-1]
    u = np.stack([np.cos(angle), np.sin(angle)])
    push = w[:, :2, 2:] - mu[:, None, None] * (w[:, :2, :2] @ u)
    turning = u[0] * push[:, 1] - u[1] * push[:, 0]
    np.testing.assert_array_equal(number, (turning * np.roll(turning, 1, axis=1) < 0).sum(1))

    resist = np.linalg.norm(np.linalg.solve(w[:, :2, :2], w[:, :2, 2:])[..., 0], axis=1)
    centrifugal = (np.nan_to_num(found.growth, nan=-1.0) > 0).sum(1)
    np.testing.assert_array_equal(centrifugal, resist > mu)

    s, exists = np.nan_to_num(found.direction), np.asarray(found.exists)
    push = w[:, None, :2, 2] - mu[:, None, None] * np.einsum("nij,nkj->nki", w[:, :2, :2], s)
    np.testing.assert_allclose(np.linalg.norm(s, axis=-1)[exists], 1, rtol=1e-15)
    across = (s[..., 0] * push[..., 1] - s[..., 1] * push[..., 0])[exists]
    assert np.abs(across).max() < 1e-13 * np.abs(w).max()


def test_weak_and_strong_friction():
    """Two directions, along d, where friction is weak; those of B where it is strong."""
    w, _, mu, _ = random_impacts(2000, seed=6)
    find = jax.jit(jax.vmap(rb.invariant_directions))
    weak = find(w, 1e-9 * mu)
    assert (np.asarray(weak.exists).sum(1) == 2).all()
    along = w[:, :2, 2] / np.linalg.norm(w[:, :2, 2], axis=1, keepdims=True)
    cosine = np.einsum("nki,ni->nk", np.asarray(weak.direction)[:, :2], along)
    np.testing.assert_allclose(np.sort(cosine), np.tile([-1, 1], (2000, 1)), atol=1e-7)
    assert (np.asarray(find(w, 1e9 * mu).exists).sum(1) == 4).all()


def test_exceptional_directions():
    """(-1, 0), which the paper's quartic leaves out; along d alone; all of them."""
    ellipse = rb.invariant_directions(np.diag([3.5, 2.5, 1.0]), 0.3)
    np.testing.assert_allclose(ellipse.direction, [[1, 0], [0, 1], [-1, 0], [0, -1]], atol=1e-15)
    np.testing.assert_allclose(ellipse.growth, [-1.05, -0.75, -1.05, -0.75], rtol=1e-14)
    eccentric = np.diag([3.5, 3.5, 1.0])
    eccentric[0, 2] = eccentric[2, 0] = 0.5
    along = rb.invariant_directions(eccentric, 0.3)
    assert list(along.exists) == [True, True, False, False]
    np.testing.assert_allclose(along.direction[:2], [[1, 0], [-1, 0]], atol=1e-15)
    sphere = rb.invariant_directions(np.diag([3.5, 3.5, 1.0]), 0.3)
    assert bool(sphere.every)
    assert not sphere.exists.any()


def test_of_the_icosahedron():
    """Figures 4 a to d: two centripetal; two; one and a centrifugal one; four."""
    counts = []
    for mu in (0.8, 0.4, 0.25, 3.0):
        growth = np.asarray(rb.invariant_directions(ICOSAHEDRON, mu).growth)
        counts.append((int((growth <= 0).sum()), int((growth > 0).sum())))
    assert counts == [(2, 0), (2, 0), (1, 1), (4, 0)]
