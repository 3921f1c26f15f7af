"""Problems of different length: Newton's rule for square roots, with as many turns as it takes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrb.exec.work_queue import Task, of_lanes, run_queue, where_needed


def needed(problems):
    return problems[0] > 0


def start(problems):
    return (
        problems[1],
        jnp.zeros(problems.shape[1:], jnp.int32),
        jnp.zeros(problems.shape[1:], bool),
    )


def turn(state, problems):
    x, turns, _ = state
    following = (x + problems[0] / x) / 2
    return following, turns + 1, jnp.abs(following - x) <= 1e-15 * x


def ended(state):
    return state[2]


def finish(state, problems):
    """Root, turns, and the number of which it is the root."""
    return jnp.stack([state[0], state[1].astype(float), problems[0]])


ROOTS = Task(needed, start, turn, ended, finish)


def roots(problems):
    return run_queue(ROOTS, problems)[:1]


def numbers(n):
    """Squares and first guesses, far off by up to 2^40: from 5 to 45 turns; some not needed."""
    rng = np.random.default_rng(0)
    square = np.where(np.arange(n) % 7 == 3, -1.0, rng.uniform(1, 10, n))
    return jnp.asarray([square, np.exp2(rng.uniform(0, 40, n))])


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 5, 16, 17, 129, 5000])
def test_every_problem_is_solved_once(n):
    problems = numbers(n)
    x, turns, squares = jax.jit(lambda p: run_queue(ROOTS, p))(problems)
    wanted = problems[0] > 0
    expected = jnp.where(wanted, jnp.sqrt(jnp.abs(problems[0])), 0.0)
    np.testing.assert_allclose(x, expected, rtol=4e-16)
    np.testing.assert_array_equal(turns == 0, ~wanted)
    np.testing.assert_array_equal(squares, jnp.where(wanted, problems[0], 0.0))
    # As many turns as alone.
    alone = jax.vmap(lambda p: run_queue(ROOTS, p[:, None])[1, 0], in_axes=1)(problems)
    np.testing.assert_array_equal(turns, alone)


def test_nothing_to_do():
    problems = jnp.stack([-jnp.ones(300), jnp.ones(300)])
    np.testing.assert_array_equal(run_queue(ROOTS, problems), 0)


def test_batches_of_any_nesting_are_one_call():
    calls = []

    def watched(problems):
        calls.append(problems.shape)
        return roots(problems)

    solve = of_lanes(watched)
    problems = numbers(60).T.reshape(3, 20, 2)
    nested = jax.vmap(jax.vmap(lambda p: solve(p[:, None])[0, 0]))(problems)
    assert calls[-1] == (2, 60)
    np.testing.assert_array_equal(nested.reshape(-1), roots(numbers(60))[0])
    fixed = jax.vmap(lambda scale: solve(numbers(4))[0] * scale)(jnp.arange(2.0))
    np.testing.assert_array_equal(fixed[1], roots(numbers(4))[0])


@pytest.mark.slow
def test_derivatives_of_all_orders_and_modes():
    """Through the loop, whose tangent converges with it: d sqrt(a), and 0 by the guess."""

    def wide(problems):
        """Some turns more, for the tangents to converge too."""

        def more(state, problems):
            for _ in range(3):
                state = turn(state, problems)
            return state[0][None]

        return run_queue(ROOTS._replace(finish=more), problems)

    root = lambda a: of_lanes(roots, of_lanes(wide).slopes)(jnp.stack([a, 3 * a])[:, None])[0, 0]  # noqa: E731
    a = 5.0
    for order, expected in ((1, 0.5 / a**0.5), (2, -0.25 / a**1.5), (3, 0.375 / a**2.5)):
        for first in (jax.jacfwd, jax.jacrev):
            for others in (jax.jacfwd, jax.jacrev):
                function = first(root)
                for _ in range(order - 1):
                    function = others(function)
                np.testing.assert_allclose(jax.jit(function)(a), expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("n", [7, 600, 5000])
def test_only_what_is_needed_is_worked_on(n):
    """Few columns of many, in chunks of which none may touch a column that is not needed."""

    def slopes(columns):
        return jnp.sqrt(columns)[None] / columns[None, 1:]

    def wanted(columns):
        return columns[0] > 0

    problems = (
        numbers(n).at[0].set(jnp.where(jnp.arange(n) % 3 == 1, 2.0 + jnp.arange(float(n)), -1.0))
    )
    with jax.debug_nans(True):
        found = jax.jit(where_needed(slopes, wanted, (1.0, 1.0)))(problems)
    assert found.shape == (1, 2, n)
    mask = np.asarray(problems[0] > 0)
    squares = np.asarray(problems)[:, mask]
    np.testing.assert_allclose(found[0][:, mask], np.sqrt(squares) / squares[1], rtol=1e-15)
    assert not np.any(found[0][:, ~mask])
