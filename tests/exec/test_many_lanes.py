"""Functions of many lanes against those that `jax.vmap` makes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_batching import custom_vmap
from jax.extend.core import jaxpr_as_fun

from jaxrb.exec import lane_call as lane_call_of
from jaxrb.exec.lane_call import lane_call
from jaxrb.exec.lanes import Lanes, in_all_lanes
from jaxrb.exec.one_kernel import in_one_kernel
from jaxrb.exec.traced import called
from jaxrb.math.rarely import any_of_batch, if_any

RNG = np.random.default_rng(0)
N, M = 3, 4  # lanes of the first `vmap` and of the second
A, B = jnp.asarray(RNG.uniform(0.5, 2.0, (M, N))), jnp.asarray(RNG.uniform(0.5, 2.0, (M, N)))
K = jnp.asarray(RNG.integers(0, 3, (M, N)), jnp.int32)


def until_large(a, b, k):
    """A loop that ends later in some lanes than in others, with one inside."""

    def turn(carry):
        x, n = carry
        inner = jax.lax.while_loop(lambda y: y < b, lambda y: y * 1.5 + a, x)
        return inner * 1.1, n + 1

    return jax.lax.while_loop(lambda carry: carry[0] < 20 + k.astype(a.dtype), turn, (a, 0))


def as_often(a, b, k):
    """A loop that all lanes go through equally often; some of what it carries has lanes late."""

    def turn(carry):
        n, first, second, third, still = carry
        return n + 1, first + a, second * 0.5 + first, third + second * b, still + 2.0

    start = (0, 0.0, jnp.zeros(()), jnp.ones(()), 1.0)
    return *jax.lax.while_loop(lambda carry: carry[0] < 5, turn, start), k


def rows(a, b, k):
    """Scans of rows of one lane, of all, and of none."""
    along = jnp.stack([a, b, a * b])

    def turn(carry, row):
        total, count = carry
        return (total * row[0] + row[1], count + 1), (total, count, row[0] + k.astype(a.dtype))

    carry, ys = jax.lax.scan(turn, (jnp.zeros(()), 0), (along, jnp.arange(3.0)), reverse=True)
    _, none = jax.lax.scan(lambda c, _: (c + 1.0, c), 0.0, None, length=2)
    return carry, ys, none


def branches(a, b, k):
    own = jax.lax.switch(k, [jnp.sin, lambda x: until_large(x, b, k)[0], lambda x: x * 0 + b], a)
    common = jax.lax.cond(jnp.ones(2).sum() > 1, lambda x: (x, 1.0), lambda x: (b, x * 0 + 2), a)
    return own, common, jax.lax.cond(a > b, lambda: 1.0, lambda: 2.0)


def rules(a, b, k):
    """Rules of its own: for derivatives, for lanes, for linear systems."""

    def half(_, x):
        return x / (2 + b)

    solved = jax.lax.custom_linear_solve(lambda x: (2 + b) * x, a, half, half)
    kept = jax.checkpoint(lambda x: jax.nn.relu(jax.jit(jnp.cos)(x - b)))(a)
    any_large = any_of_batch(a > 1.9)
    rarely = if_any(a > 1.9, lambda x: jnp.where(a > 1.9, x * 2, x), lambda x: x, b)
    never = if_any(a > 9.0, lambda x: jnp.where(a > 9.0, x * 2, x), lambda x: x, b)
    return solved, kept, any_large, rarely, never, summed(a), summed(jnp.ones(()) * 3)


@custom_vmap
def summed(x):
    return x


@summed.def_vmap
def _(number, mapped, x):
    """The sum over the lanes, which has none."""
    return summed(
        until_large(jnp.sum(x, 0), 1.0, jnp.zeros(()))[0] if mapped[0] else number * x
    ), False


def calls(a, b, k):
    function = jax.make_jaxpr(lambda a, k: list(branches(a, 1.5, k)[1]))(a, k)
    both = jax.vmap(lambda b: lane_call(function, [a * b, k]))(jnp.arange(1.0, 3.0))
    return both, jax.vmap(lambda b: in_one_kernel(until_large, a, b, k))(jnp.stack([a, b]))


FUNCTIONS = [until_large, as_often, rows, branches, rules, calls]
# Of each `vmap` which arguments have lanes.
MAPPED = {
    "all": [(True, True, True)],
    "one": [(False, True, False)],
    "none": [],
    "twice": [(True, True, True), (True, False, True)],
    "apart": [(True, False, False), (False, True, True)],
}


@pytest.mark.parametrize("mapped", list(MAPPED))
@pytest.mark.parametrize("function", FUNCTIONS)
def test_lanes_are_those_of_vmap(function, mapped):
    levels = MAPPED[mapped]
    numbers = (N, M)[: len(levels)]
    expected = function
    for each in levels:
        expected = jax.vmap(expected, tuple(0 if has else None for has in each))
    # Of those that have no lanes one alone.
    given = []
    for i, array in enumerate((A, B, K)):
        has = [each[i] for each in levels] + [False] * (2 - len(levels))
        given.append(array[:: 1 if has[1] else M, :: 1 if has[0] else N].squeeze())
    traced = jax.make_jaxpr(lambda *a: jax.tree.leaves(function(*a)))(A[0, 0], B[0, 0], K[0, 0])
    lanes = tuple(Lanes(*pair) for pair in zip(levels, numbers, strict=True))
    found = in_all_lanes(traced, lanes)
    results = jax.jit(jaxpr_as_fun(found))(*given)
    for a, b in zip(results, jax.tree.leaves(jax.jit(expected)(*given)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-14)


def operations(function):
    jaxpr = function.jaxpr if hasattr(function, "jaxpr") else function
    return [eqn.primitive.name for eqn in jaxpr.eqns] + [
        name for eqn in jaxpr.eqns for inner in called(eqn) for name in operations(inner)
    ]


def test_only_what_results_need_is_left():
    """No rules of functions, no linear systems, and nothing that no result depends on."""

    def function(a, b, k):
        unused = jax.lax.scan(lambda c, _: (jnp.tan(c), None), a, None, length=3)[0]
        used = jax.jit(lambda x, y: (jnp.sin(x), jnp.tan(y)))(a, unused)[0]
        return [used, rules(a, b, k)[0]]

    traced = jax.make_jaxpr(function)(A[0, 0], B[0, 0], K[0, 0])
    assert {"custom_linear_solve", "tan"} <= set(operations(traced))
    left = operations(in_all_lanes(traced, (Lanes((True, False, True), N),)))
    assert sorted(left) == ["add", "div", "sin"]


def loop(a, b):
    """A smooth function of numbers with lanes and without, in a loop."""
    turn = lambda _, x: jnp.sin(x) * b + a  # noqa: E731
    return jax.lax.fori_loop(0, 3, turn, a * b), jnp.sum(a) * b


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (1, None)])
@pytest.mark.parametrize("transform", [jax.jacfwd, jax.jacrev, lambda f, _: jax.hessian(f, (0, 1))])
@pytest.mark.parametrize("most", [lane_call_of._MOST_APART, 0])
def test_derivatives_of_batches(axes, transform, most, monkeypatch):
    """Derivatives around a `vmap`: what lanes share has the sum of theirs, taken at the end or
    along the way."""
    monkeypatch.setattr(lane_call_of, "_MOST_APART", most)
    a = A if axes[0] is not None else A[0]
    b = B[0] if axes[1] == 0 and axes[0] is None else B[:, 0]
    b = b if axes[1] == 0 else b[0]

    def of(function):
        batch = jax.vmap(lambda a, b: function(a * 1.0, b), axes)
        cost = lambda a, b: sum(jnp.sum(part**2) for part in batch(a, b))  # noqa: E731
        return jax.jit(transform(cost, (0, 1)))(a, b)

    ours, theirs = of(lambda a, b: in_one_kernel(loop, a, b)), of(loop)
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-13)


def test_derivatives_of_nested_batches():
    def of(function):
        batch = jax.vmap(jax.vmap(function, (0, None)), (None, 0))
        cost = lambda a, b: sum(jnp.sum(part**3) for part in batch(a, b))  # noqa: E731
        return jax.jit(jax.grad(cost, (0, 1)))(A, B[:, 0])

    ours, theirs = of(lambda a, b: in_one_kernel(loop, a, b)), of(loop)
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_large_shared_numbers_are_summed_up_along_the_way():
    """The change of a table in which each lane looks up some numbers: 64 lanes of 2^20 would be
    half a gigabyte."""
    table, places = jnp.ones(1 << 20), jnp.arange(64, dtype=jnp.int32)

    def found(place, table):
        read = lambda k, x: x + jnp.sin(table[place * k] * x)  # noqa: E731
        return jax.lax.fori_loop(0, 5, read, jnp.ones(()))

    def cost(table):
        return jnp.sum(jax.vmap(lambda place: in_one_kernel(found, place, table))(places))

    plain = lambda table: jnp.sum(jax.vmap(found, (0, None))(places, table))  # noqa: E731
    compiled = jax.jit(jax.grad(cost)).lower(table).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 20 * table.nbytes
    np.testing.assert_allclose(compiled(table), jax.jit(jax.grad(plain))(table), rtol=1e-12)
