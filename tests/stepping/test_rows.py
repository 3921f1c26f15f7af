"""Sums over items between bodies against products with whole matrices."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrb.stepping.rows import WORLD, Links, Rows, group, over_needed, take, total

# Runs of different lengths, the same bodies twice, and more than are written out.
SIDES = [(0, 1)] * 4 + [(2, WORLD)] * 3 + [(1, 3)] + [(0, 1)] * 2 + [(4, 2)] * 5 + [(3, WORLD)]
N_BODIES = 5


@pytest.mark.parametrize("lanes", [1, 12])
def test_momentum_is_that_of_the_whole_matrix(lanes):
    """Where runs without an active item in any lane are left out, and where all are summed."""
    rng, n = np.random.default_rng(1), len(SIDES)
    direction, first, second = rng.normal(size=(3, 3, 3, n, lanes))
    impulse = rng.normal(size=(3, n, lanes))
    active = rng.random((n, lanes)) < 0.5
    active[[4, 5, 6, 15]] = False
    impulse = np.where(active, impulse, 0.0)
    expected = np.zeros((6, N_BODIES, lanes))
    for k, (a, b) in enumerate(SIDES):
        here = np.concatenate([direction[:, :, k], first[:, :, k]], axis=1)
        there = np.concatenate([direction[:, :, k], second[:, :, k]], axis=1)
        expected[:, a] += np.einsum("ril,rl->il", here, impulse[:, k])
        if b != WORLD:
            expected[:, b] -= np.einsum("ril,rl->il", there, impulse[:, k])
    levers = jnp.asarray(first), jnp.asarray(second)
    rows = Rows(jnp.asarray(direction), levers, Links(SIDES, N_BODIES))
    found = rows.momentum_of(jnp.asarray(impulse), jnp.asarray(active))
    np.testing.assert_allclose(found, expected, atol=1e-14)
    np.testing.assert_allclose(rows.momentum(jnp.asarray(impulse)), expected, atol=1e-14)


@pytest.mark.parametrize("at_once", [0, 1, 3])
def test_only_what_is_needed_is_looked_at(at_once):
    needed = np.array([False, True, True, False, False, True, True, False])

    def mark(k, seen):
        return seen.at[k].set(True)

    seen = over_needed(mark, jnp.asarray(needed), jnp.zeros(8, bool), at_once)
    # Empty places of the last round stand for the first number.
    np.testing.assert_array_equal(np.asarray(seen)[1:], needed[1:])


# Of items: in turn, each as many or some as many; one each; not in turn; in too many blocks.
OWNERS = [
    [0, 0, 0, 1, 1, 1],
    [0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4],
    [0, 1, 2, 3],
    [1, 1, 0, 0, 1],
    [0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6],
    [0] * 9 + [1] * 9 + [2] * 4,
]


@pytest.mark.parametrize("owner", OWNERS, ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sums_over_owners_and_numbers_of_them(owner, axis):
    """Against NumPy, entry by entry, along any axis."""
    owner = np.array(owner)
    count = owner.max() + 1
    rng = np.random.default_rng(0)
    shape, of_owners = [2, 3, 4], [2, 3, 4]
    shape[axis], of_owners[axis] = len(owner), count
    items, numbers = rng.normal(size=shape), rng.normal(size=of_owners)
    summed = np.zeros(of_owners)
    np.add.at(summed, tuple(owner if k == axis else slice(None) for k in range(3)), items)
    found = total(jnp.asarray(items), group(owner, count), axis)
    np.testing.assert_allclose(found, summed, atol=1e-14)
    np.testing.assert_array_equal(
        take(jnp.asarray(numbers), owner, axis), np.take(numbers, owner, axis)
    )
