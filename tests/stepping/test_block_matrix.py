"""Block elimination against dense linear algebra."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrb.stepping.block_matrix import Elimination

CHAIN = [(k, k + 1) for k in range(6)]
LOOP = [*CHAIN, (0, 6)]
GRID = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5), (1, 3)]


def random_problem(n_bodies, links, lanes, seed, allowed=None):
    """A matrix with the blocks of links, not symmetric, and its dense form; those of others that
    are allowed are zero."""
    rng = np.random.default_rng(seed)
    plan = Elimination(n_bodies, allowed or links)
    blocks = np.zeros((len(plan.blocks), 6, 6, lanes))
    dense = np.zeros((lanes, 6 * n_bodies, 6 * n_bodies))
    present = {(k, k) for k in range(n_bodies)} | {p for i, j in links for p in ((i, j), (j, i))}
    for i, j in present:
        block = rng.normal(size=(6, 6, lanes)) + (40 * np.eye(6)[:, :, None] if i == j else 0)
        blocks[plan.blocks[i, j]] = block
        dense[:, 6 * i : 6 * i + 6, 6 * j : 6 * j + 6] = np.moveaxis(block, -1, 0)
    return plan, blocks, dense, rng.normal(size=(6, n_bodies, lanes))


@pytest.mark.parametrize(
    "n_bodies, links",
    [
        (1, []),
        (2, [(0, 1)]),
        (7, CHAIN),
        (7, LOOP),
        (6, GRID),
        (4, list(itertools.combinations(range(4), 2))),
    ],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_solution_is_that_of_the_dense_matrix(n_bodies, links, transposed):
    plan, blocks, dense, right = random_problem(n_bodies, links, 3, n_bodies)

    def solve(blocks, right):
        return plan.solve(plan.factor(blocks), right, transposed=transposed)

    found = np.asarray(jax.jit(solve)(jnp.asarray(blocks), jnp.asarray(right)))
    for lane in range(3):
        matrix = dense[lane].T if transposed else dense[lane]
        expected = np.linalg.solve(matrix, right[:, :, lane].T.reshape(-1))
        # Diagonal blocks dominate: no digits are lost but by round-off.
        np.testing.assert_allclose(found[:, :, lane].T.reshape(-1), expected, atol=1e-14)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("links", [[], CHAIN, LOOP, [(1, 5), (0, 5), (3, 6)]])
def test_blocks_that_are_zero_fill_in_where_they_must(links, transposed):
    every = list(itertools.combinations(range(7), 2))
    plan, blocks, dense, right = random_problem(7, links, 3, 5, every)
    found = plan.solve(plan.factor(jnp.asarray(blocks)), jnp.asarray(right), transposed)
    for lane in range(3):
        matrix = dense[lane].T if transposed else dense[lane]
        expected = np.linalg.solve(matrix, right[:, :, lane].T.reshape(-1))
        np.testing.assert_allclose(found[:, :, lane].T.reshape(-1), expected, atol=1e-14)


def test_what_is_filled_in_is_little():
    """A chain has no block but its own; a loop of n bodies, eliminated one after the other, n - 3
    pairs more."""
    assert len(Elimination(7, CHAIN).blocks) == 7 + 2 * 6
    assert len(Elimination(7, LOOP).blocks) == 7 + 2 * (7 + 4)
