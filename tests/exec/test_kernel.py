"""Functions of one lane as kernels: the C text of them gives what JAX and NumPy give."""

import shutil
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrb.exec.kernel import as_kernel
from jaxrb.exec.kernel.build import lane_program
from jaxrb.exec.kernel.operations import NotScalarError

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
pytestmark = needs_compiler


def rng():
    """The same numbers for each test, in whichever order they run."""
    return np.random.default_rng(0)


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 3.25, -7.5, 1e30, -1e-30, np.inf, -np.inf, np.nan])


def as_lanes(function, *arguments, in_axes=0):
    """The function of lanes by a kernel; fails if it was none."""
    run = lambda *own: as_kernel(function, *own, on_cpu=True)  # noqa: E731
    found, kernel = jax.jit(jax.vmap(run, in_axes))(*arguments)
    assert np.all(kernel)
    return found


def check(function, *arguments, in_axes=0, ulps=0):
    """A kernel gives what XLA gives, to some units in the last place, NaN and signs included."""
    found = as_lanes(function, *arguments, in_axes=in_axes)
    expected = jax.jit(jax.vmap(function, in_axes))(*arguments)
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    for a, b in ((np.asarray(a), np.asarray(b)) for a, b in pairs):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if ulps and np.issubdtype(a.dtype, np.floating):
            np.testing.assert_array_max_ulp(a, b, maxulp=ulps, dtype=a.dtype)
        else:
            np.testing.assert_array_equal(a, b)


EXACT = {
    "arithmetic": lambda a, b: (a + b, a - b, a * b, a / b, -a, abs(a)),
    "order": lambda a, b: (a < b, a <= b, a > b, a >= b, a == b, a != b),
    "extremes": lambda a, b: (jnp.maximum(a, b), jnp.minimum(a, b)),
    "choices": lambda a, b: (jnp.where(a < b, a, b), jnp.clip(a, -1.0, 1.0)),
    "roots": lambda a, b: (jnp.sqrt(a), jnp.sqrt(jnp.abs(b))),
    "rounding": lambda a, b: (jnp.floor(a), jnp.ceil(b), jnp.round(a)),
    "tests": lambda a, b: (jnp.isfinite(a), jnp.isnan(b), jnp.sign(a)),
    "powers": lambda a, b: (a**2, b**3, a**4, jnp.square(b)),
    "logic": lambda a, b: ((a < 0) & (b < 0), (a < 0) | (b < 0), (a < 0) ^ (b < 0), ~(a < 0)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", list(EXACT))
def test_operations_that_are_rounded_once(name, dtype):
    a, b = (x.reshape(-1) for x in np.meshgrid(SPECIAL, SPECIAL))
    check(EXACT[name], jnp.asarray(a, dtype), jnp.asarray(b, dtype))


FUNCTIONS = [
    *(jnp.sin, jnp.cos, jnp.tan, jnp.arctan, jnp.exp, jnp.expm1, jnp.tanh, jnp.sinh, jnp.cosh),
    *(jnp.cbrt, lambda x: jnp.log(jnp.abs(x)), lambda x: jnp.log1p(jnp.abs(x))),
    *(lambda x: jnp.arcsin(x / 4), lambda x: jnp.arccos(x / 4), jax.lax.rsqrt),
    *(lambda x: jnp.arctan2(x, 1 - x), lambda x: jnp.abs(x) ** 1.3),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions(dtype):
    """The C library and XLA approximate each by itself, to a few units in the last place."""
    x = jnp.asarray(rng().uniform(0.1, 3.0, 50), dtype)
    found = as_lanes(lambda x: [function(x) for function in FUNCTIONS], x)
    for function, a in zip(FUNCTIONS, found, strict=True):
        np.testing.assert_allclose(a, function(x), rtol=40 * jnp.finfo(dtype).eps)


def test_integers():
    a, b = jnp.asarray([7, -7, 7, -7, 0]), jnp.asarray([2, 2, -2, -2, 3])

    def function(a, b):
        quotient = jax.lax.div(a, b), jax.lax.rem(a, b)
        return *quotient, a * b, a & b, a | b, jnp.abs(a), a.astype(jnp.int8), a.astype(float)

    check(function, a.astype(jnp.int32), b.astype(jnp.int32))


def test_integers_beyond_what_division_and_conversion_can():
    """By zero, the least by -1, and floating numbers that are no integers: as XLA has them. In C
    the first two would end the process, and of the others C does not say what they are."""
    least = np.iinfo(np.int32).min
    a = jnp.asarray([7, -7, least, least, 0, 5], jnp.int32)
    b = jnp.asarray([0, 0, -1, 0, 0, -1], jnp.int32)

    def function(a, b):
        return jax.lax.div(a, b), jax.lax.rem(a, b), -a, a * a, a + a

    check(function, a, b)
    wild = jnp.asarray([np.nan, np.inf, -np.inf, 1e30, -1e30, 2147483647.5, -2147483649.0, 3.99])

    def to_integers(x):
        return x.astype(jnp.int32), x.astype(jnp.int64), x.astype(jnp.int8), x.astype(bool)

    check(to_integers, wild)
    check(to_integers, wild.astype(jnp.float32))


INTEGERS = (jnp.int8, jnp.int32, jnp.int64, jnp.uint8, jnp.uint32)


def test_places_in_sorted_integers():
    """As JAX looks for them, by an order of its own."""
    steps = jnp.asarray(rng().integers(0, 3, (20, 6)), jnp.int32)
    check(lambda row: jnp.searchsorted(jnp.cumsum(row), jnp.arange(8, dtype=jnp.int32)), steps)


def bits(a, b):
    """All that is done with single bits."""
    lax = jax.lax
    shifts = (lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic)
    return *(shift(a, b) for shift in shifts), lax.population_count(a), a ^ b


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.__name__)
def test_bits(dtype):
    """By as many places as there are, by more, and by fewer than none; known numbers likewise."""
    limits = jnp.iinfo(dtype)
    numbers = [limits.min, limits.max, 0, 1, 77, limits.max // 3]
    places = [0, 1, 5, limits.bits - 1, limits.bits, limits.bits + 3, limits.max, limits.min]
    pairs = np.meshgrid(*(np.array(x, dtype) for x in (numbers, places)))
    a, b = (jnp.asarray(x.reshape(-1)) for x in pairs)
    check(bits, a, b)
    known = lambda _: jnp.stack(bits(a, b))  # noqa: E731
    (found,) = as_lanes(known, jnp.zeros(1))
    np.testing.assert_array_equal(found, jnp.stack(bits(a, b)))


def test_constants_are_folded_as_they_would_be_computed():
    """What is known when a kernel is written goes the way of what is not. By hand, as XLA's own
    evaluator of constants ends the process at the least integer by -1."""
    least = np.int32(np.iinfo(np.int32).min)
    pairs = [(7, 2), (-7, 2), (7, -2), (7, 0), (-7, 0), (least, -1), (least, 0)]

    wild = jnp.asarray([np.nan, np.inf, -1e30, -2.7])

    def known(_):
        pair = lambda f: [f(np.int32(a), np.int32(b)) for a, b in pairs]  # noqa: E731
        return pair(jax.lax.div), pair(jax.lax.rem), wild.astype(jnp.int32)

    quotients, remainders, integers = as_lanes(known, jnp.zeros(1))
    assert [int(q[0]) for q in quotients] == [3, -3, -3, -1, -1, least, -1]
    assert [int(r[0]) for r in remainders] == [1, -1, 1, 7, -7, 0, least]
    assert integers.tolist() == [[0, 2**31 - 1, -(2**31), -2]]


def test_extremes_among_numbers_that_are_none():
    x = jnp.asarray(SPECIAL[rng().integers(0, SPECIAL.size, (20, 4))])
    check(lambda x: (jnp.argmin(x), jnp.argmax(x), jnp.max(x), jnp.min(x)), x)


def shapes(x):
    """Everything that only moves entries."""
    y = jnp.concatenate([x[1:], x[:1] * 2.0], axis=0)
    z = jnp.stack([y, x], axis=1).transpose(1, 0, 2).reshape(-1)
    padded = jnp.pad(z, (1, 2), constant_values=3.0)
    return y, z, padded, jnp.flip(x, 1), x[..., None], jnp.arange(3.0), jnp.split(z, 3)


def reductions(x):
    return (
        (x.sum(), x.sum(0), x.max(1), x.min(), jnp.prod(x, 1), jnp.any(x > 1.0), jnp.all(x < 2.0)),
        (jnp.cumsum(x, 0), jax.lax.cummax(x, 1), jax.lax.cumsum(x, 1, reverse=True)),
        (jnp.argmin(x, 1), jnp.argmax(x), jnp.zeros((0, 3)).sum(0)),
    )


@pytest.mark.parametrize("function", [shapes, reductions])
def test_arrays(function):
    check(function, jnp.asarray(rng().normal(size=(5, 3, 4))), ulps=4)


def test_products_of_matrices():
    a, b = jnp.asarray(rng().normal(size=(5, 3, 4))), jnp.asarray(rng().normal(size=(5, 4, 2)))

    def function(a, b):
        return a @ b, jnp.einsum("ij,kj->ik", a, a), a[0] @ b[:, 1]

    found, expected = as_lanes(function, a, b), jax.vmap(function)(a, b)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-13, atol=1e-13), found, expected)


def test_indices_that_are_known_only_at_run_time():
    """All of JAX's ways to treat an index beyond the array."""
    x = jnp.asarray(rng().normal(size=(9, 4, 3)))
    k = jnp.asarray([0, 1, 2, 3, 4, 7, -1, -4, -9], jnp.int32)

    def function(x, k):
        rows = jnp.stack([k, k + 1])
        return (
            (x[k], x[k, 1], x.at[k].get(mode="fill", fill_value=5.0), x[:, k]),
            (x.at[k].get(mode="clip"), jnp.take(x, rows, axis=0, mode="fill"), x[rows]),
            (jax.lax.dynamic_slice(x, (k, jnp.zeros_like(k)), (2, 2)),),
            (jax.lax.dynamic_update_slice(x, x[:2, :2], (k, jnp.ones_like(k))),),
            (x.at[k].set(7.0), x.at[rows].add(1.0), x.at[k, 1].set(2.0, mode="drop")),
            (x.at[k].mul(2.0, mode="clip"), x.at[1].set(0.0), x[jnp.asarray([2, 0])]),
        )

    check(function, x, k)


def collatz(n):
    """The number of steps to 1, and the largest number on the way."""

    def step(state):
        n, steps, largest = state
        n = jnp.where(n % 2 == 0, n // 2, 3 * n + 1)
        return n, steps + 1, jnp.maximum(largest, n)

    return jax.lax.while_loop(lambda state: state[0] != 1, step, (n, 0 * n, n))[1:]


def test_loops_of_each_lane():
    """Of 27 there are 111 steps, up to 9232."""
    steps, largest = as_lanes(collatz, jnp.asarray([1, 2, 7, 27], jnp.int32))
    assert steps.tolist() == [0, 1, 16, 111]
    assert largest.tolist() == [1, 2, 52, 9232]


def test_loops_within_loops_that_exchange_their_variables():
    """Fibonacci's numbers: the next of one variable is the present other; the constant third is
    folded, the fourth becomes a variable only in the second turn."""

    def fibonacci(n):
        def step(state):
            k, a, b, constant, late = state
            late = jnp.where(late > 0, late, jnp.where(k > 2, a, late))
            return k + 1, b, a + b, constant, late

        zero = jnp.zeros_like(n)
        start = (zero, zero, zero + 1, jnp.int32(5), jnp.int32(0))
        return jax.lax.while_loop(lambda state: state[0] < n, step, start)

    def total(n):
        body = lambda k, sum: sum + fibonacci(k)[1]  # noqa: E731
        return jax.lax.fori_loop(0, n, body, jnp.zeros_like(n)), fibonacci(n)

    n = jnp.asarray([0, 1, 2, 10, 30], jnp.int32)
    found, (_, number, _, constant, late) = as_lanes(total, n)
    numbers = [0, 1]
    while len(numbers) < 31:
        numbers.append(numbers[-1] + numbers[-2])
    assert number.tolist() == [numbers[k] for k in n]
    assert found.tolist() == [sum(numbers[:k]) for k in n]
    assert constant.tolist() == [5] * 5
    assert late.tolist() == [0, 0, 0, 2, 2]


def test_branches():
    x, k = jnp.asarray(rng().normal(size=7)), jnp.asarray([-3, 0, 1, 2, 3, 1, 0], jnp.int32)

    def function(x, k):
        sides = [lambda x: (x + 1.0, 1.0), lambda x: (jnp.sin(x), 1.0), lambda x: (x * x, 1.0)]
        number = jax.lax.switch(k, sides, x)
        truth = jax.lax.cond(x > 0.0, lambda x: x * 2.0, lambda x: -x, x)
        return number, truth, jax.lax.cond(True, jnp.exp, jnp.log, x)

    check(function, x, k, ulps=2)


def test_scans():
    x = jnp.asarray(rng().normal(size=(4, 6)))

    def function(x):
        def step(carry, item):
            return carry * 0.5 + item, (carry, item > 0.0)

        forward = jax.lax.scan(step, x[0], x)
        return forward, jax.lax.scan(step, x[0], x, reverse=True), jax.lax.map(jnp.square, x)

    check(function, x)


def test_numbers_that_all_lanes_share_and_vmaps_within_vmaps():
    x, y = rng().normal(size=(3, 4)), rng().normal(size=(4, 2))
    scale = 3.0

    def function(x, y, scale):
        return x * y * scale, x + 1.0

    run = lambda *a: as_kernel(function, *a, on_cpu=True)[0]  # noqa: E731
    inner = jax.vmap(run, (0, 0, None))
    found = jax.jit(jax.vmap(inner, (0, None, None)))(x, y, scale)
    np.testing.assert_array_equal(found[0], x[:, :, None] * y * scale)
    np.testing.assert_array_equal(found[1], x + 1.0)
    alone = run(x[0, 0], y[0], scale)
    np.testing.assert_array_equal(alone[0], x[0, 0] * y[0] * scale)
    other_axis = jax.vmap(jax.vmap(run, (1, None, None)), (0, None, None))(x[None], y[0, 0], scale)
    np.testing.assert_array_equal(other_axis[1], (x + 1.0).T[None])


def test_equal_values_are_one_and_constants_are_folded():
    """Of two equal products one is left; what no result needs is not computed."""

    def function(x):
        unused = jnp.sin(x)
        return x * x + x * x + jnp.sqrt(jnp.asarray(4.0)), jnp.stack([unused, x])[1]

    program = lane_program(jax.make_jaxpr(function)(1.0), [False])
    assert program.body.count("*") == 1 + program.body.count("(size_t)")
    assert "sin" not in program.body
    assert "sqrt" not in program.body


def test_what_a_loop_does_not_change_is_computed_before_it():
    def function(x, n):
        return jax.lax.fori_loop(0, n, lambda k, y: y + jnp.sqrt(x + 1.0), x)

    body = lane_program(jax.make_jaxpr(function)(1.0, jnp.int32(3)), [False, False]).body
    assert body.index("sqrt") < body.index("while")


def sorted_numbers(x):
    return jnp.sort(x)


def test_what_is_no_kernel_is_compiled_by_xla_and_says_so():
    x = jnp.asarray(rng().normal(size=(3, 4)))
    with pytest.warns(UserWarning, match="compiled by XLA and not as a kernel: sort"):
        found, kernel = jax.vmap(lambda x: as_kernel(sorted_numbers, x, on_cpu=True))(x)
    np.testing.assert_array_equal(found, np.sort(x))
    assert not np.any(kernel)
    found, kernel = jax.vmap(lambda x: as_kernel(sorted_numbers, x, on_cpu=False))(x)
    np.testing.assert_array_equal(found, np.sort(x))
    assert not np.any(kernel)


def test_numbers_of_no_known_type():
    traced = jax.make_jaxpr(lambda x: x * 2)(jnp.zeros(3, complex))
    with pytest.raises(NotScalarError, match="complex128"):
        lane_program(traced, [False])


def test_a_program_that_would_be_too_long_is_given_up_early(monkeypatch):
    monkeypatch.setattr("jaxrb.exec.kernel.values.MOST_VALUES", 10)
    traced = jax.make_jaxpr(jnp.sin)(jnp.zeros(11))
    with pytest.raises(NotScalarError, match="more than 10 values is too long"):
        lane_program(traced, [False])


def test_without_a_compiler_xla_compiles(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.warns(UserWarning, match="no C compiler was found"):
        found, kernel = as_kernel(lambda x: x * 1.375, jnp.ones(3), on_cpu=True)
    np.testing.assert_array_equal(found, np.full(3, 1.375))
    assert not kernel
