"""Functions as one kernel of XLA on a CPU: what such a kernel holds, and every transformation."""

import jax
import jax.custom_batching
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import on_devices, quick_jit

from jaxrb.exec import one_kernel
from jaxrb.exec.one_kernel import in_one_kernel

RNG = np.random.default_rng(0)
MARK = "xla_cpu_small_call"


def is_kernel(function, *arguments):
    """Whether some of it is asked to be one; not by XLA, which does so with tiny loops."""
    return MARK in jax.jit(function).lower(*arguments).as_text()


def twice(function):
    """The function in a loop, as only loops are worth a kernel. What it gives is its results."""

    def run(*arguments):
        found = function(*arguments)
        again = lambda _, found: jax.tree.map(lambda new, _: new, function(*arguments), found)  # noqa: E731
        return jax.lax.fori_loop(0, 2, again, found)

    return run


def check(function, *arguments, rtol=1e-14):
    """A kernel gives what XLA gives otherwise."""
    run = lambda *arguments: in_one_kernel(twice(function), *arguments)  # noqa: E731
    assert is_kernel(run, *arguments)
    found, expected = jax.jit(run)(*arguments), jax.jit(function)(*arguments)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        tolerance = rtol if a.dtype == jnp.float64 else 5e-6
        largest = np.max(np.abs(np.asarray(b, float)), initial=0)  # sums may be taken in any order
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * largest)


X = jnp.asarray(RNG.uniform(0.1, 0.9, (3, 5)))
Y = jnp.asarray(RNG.normal(size=(3, 5)))
I32, J32 = jnp.asarray([7, -7, 5, 0, 3], jnp.int32), jnp.asarray([2, 3, -2, 4, 1], jnp.int32)
UINT = jnp.asarray([7, 1, 5], jnp.uint32)
PLACES = jnp.asarray([4, 0, 7, -3, 2], jnp.int32)  # two of them lie outside of five
MATRICES = jnp.asarray(RNG.normal(size=(4, 3, 20))), jnp.asarray(RNG.normal(size=(4, 20, 6)))


def clipped(array, places):
    return array.at[places].get(mode="clip")


def added(array, places, values):
    numbers = jax.lax.ScatterDimensionNumbers((), (0,), (0,))
    return jax.lax.scatter_add(array, places, values, numbers, mode="clip")


def batched(function, in_axes=0):
    return jax.vmap(function, in_axes)


CASES = {
    "arithmetic": (lambda a, b: (a + b, a - b, a * b, a / b, -a, jnp.fmod(a, b)), X, Y),
    "order": (lambda a, b: (a < b, a <= b, a > b, a >= b, a == b, a != b), X, Y),
    "choices": (
        lambda a, b: (jnp.maximum(a, b), jnp.minimum(a, b), jax.lax.clamp(jnp.zeros_like(a), b, a)),
        *(X, Y),
    ),
    "select": (lambda k, a, b: jax.lax.select_n(k, a, b, a), J32 % 3, X[0], Y[0]),
    "rounding": (
        lambda a: (jnp.floor(a), jnp.ceil(a), jax.lax.round(a), jnp.sign(a), jnp.abs(a)),
        Y,
    ),
    "powers": (
        lambda a, b: (jnp.sqrt(a), jax.lax.rsqrt(a), jnp.cbrt(b), a**b, b**3, jnp.square(b)),
        *(X, Y),
    ),
    "functions": (
        lambda a: [
            *(jnp.sin(a), jnp.cos(a), jnp.tan(a), jnp.arcsin(a), jnp.arccos(a), jnp.arctan(a)),
            *(jnp.sinh(a), jnp.cosh(a), jnp.tanh(a), jnp.exp(a), jnp.expm1(a), jnp.exp2(a)),
            *(jnp.log(a), jnp.log1p(a), jnp.arctan2(a, 1 - a), jax.lax.nextafter(a, 2 * a)),
        ],
        X,
    ),
    "logic": (
        lambda a, b: ((a < 0) & (b < 0), (a < 0) | (b < 0), (a < 0) ^ (b < 0), ~(a < 0)),
        *(X, Y),
    ),
    "tests": (lambda a: (jnp.isfinite(a), a.astype(jnp.float32), a.astype(jnp.int32)), Y),
    "integers": (
        lambda a, b: (a // b, a % b, a & b, a | b, a << 2, a >> 1, jax.lax.div(a, b)),
        *(I32, J32),
    ),
    "bits": (
        lambda a, b: (
            jax.lax.population_count(a),
            *(jnp.searchsorted(jnp.arange(9, dtype=jnp.int32), a), jax.lax.lt_to_p.bind(a, b)),
        ),
        *(I32, J32),
    ),
    "unsigned": (lambda a: (jax.lax.shift_right_logical(a, jnp.uint32(1)), a * a), UINT),
    "shapes": (
        lambda a, b: (
            *(a.reshape(5, 3), a.T, a[::2, 1:3], a[::-1], jnp.concatenate([a, b])),
            *(jnp.pad(a, 1), jnp.stack([a, b]), jnp.split(a, [2], axis=1), a[None], a[0]),
            *(
                jax.lax.iota(a.dtype, 5)[None] * a,
                jax.lax.reduce_precision(a, 8, 10),
                jnp.broadcast_to(a, (2, 3, 5)),
            ),
        ),
        *(X, Y),
    ),
    "reductions": (
        lambda a: (
            *(jnp.sum(a, 1), jnp.prod(a), jnp.max(a, 0), jnp.min(a)),
            *(jnp.any(a < 0.2, 1), jnp.all(a < 0.9), jnp.argmax(a, 1), jnp.argmin(a, 0)),
        ),
        X,
    ),
    "cumulative": (
        lambda a: (
            *(jax.lax.cumsum(a, 1), jax.lax.cumprod(a, 0), jax.lax.cummax(a, 1)),
            *(jax.lax.cummin(a, 1, reverse=True),),
        ),
        Y,
    ),
    "indices": (
        lambda a, places: (
            *(clipped(a[0], places), a[0].at[places].get(mode="fill", fill_value=7.0)),
            *(a[places[1], places[0]], jax.lax.dynamic_slice(a, (places[3], places[0]), (2, 2))),
            *(jax.lax.dynamic_update_slice(a, a[:2, :2], (places[0], places[1])),),
            *(batched(clipped)(a, jnp.stack([places, places[::-1], places])),),
        ),
        *(X, PLACES),
    ),
    "scattering": (
        lambda a, b, places: (
            *(a[0].at[places].set(b[0], mode="drop"), a[0].at[places].add(b[0], mode="drop")),
            *(a[0].at[places].min(b[0], mode="drop"), a[0].at[places].max(b[0], mode="clip")),
            *(a[0].at[places].multiply(b[0], mode="clip"), a.at[:, places].set(b, mode="drop")),
            *(a.at[places, places].add(b[0], mode="drop"), a.at[places[1], 1:3].set(9.0)),
            *(
                batched(lambda a, b, p: a.at[p].add(b, mode="drop"))(
                    a, b, jnp.stack([places, places[::-1], places])
                ),
                batched(lambda a, b: a.at[places].set(b, mode="drop"))(a, b),
            ),
        ),
        *(X, Y, PLACES),
    ),
    "short places": (
        lambda a, small, unsigned: (
            *(a[:101].at[small].set(7.0, mode="drop"), a.at[unsigned].add(a[:3], mode="clip")),
            *(a[unsigned], jax.lax.dynamic_slice(a, (unsigned[1],), (4,))),
            *(jax.lax.dynamic_update_slice(a, a[:4], (unsigned[1],)),),
            *(added(a, small[:, None], a[:3]), added(a, unsigned[:, None], a[:3])),
        ),
        *(jnp.asarray(RNG.normal(size=300)), jnp.asarray([3, 100, 7], jnp.int8)),
        jnp.asarray([3, 200, 7], jnp.uint8),
    ),
    "what is known": (
        lambda a: (
            *(a[0].at[jnp.array([1, 3])].set(np.array([3, 4], a.dtype)), a[0].at[2].set(2.0)),
            *(np.eye(2, dtype=a.dtype) @ jnp.array([5, 6], a.dtype) + a[0, :2],),
        ),
        Y,
    ),
    "nothing": (
        lambda a, b: (
            *(
                a[:, :0] @ b[:0],
                a[:0] @ b,
                a[0] + jnp.sum(a[:0] @ b),
                a[:0].at[jnp.zeros(1, int)].set(1.0, mode="drop"),
            ),
            *(a.at[jnp.zeros(0, int)].set(b.T[:0]), a.at[:, :0].add(1.0)),
        ),
        *(Y, X.T),
    ),
    "products": (
        lambda a, b: (
            *(a @ b, a[0] @ b[0], a[0, 0] @ b[0, :, 0], jnp.einsum("nij,njk->ik", a, b)),
            *(jnp.einsum("nij,mjk->nmki", a, b), jnp.tensordot(a, b, ([0, 2], [0, 1]))),
        ),
        *MATRICES,
    ),
    "branches": (
        lambda a, k: (
            *(jax.lax.cond(k[0] > 3, jnp.sin, jnp.cos, a),),
            *(jax.lax.switch(k[1] % 3, [jnp.sin, jnp.cos, jnp.tan], a),),
            *(jax.lax.platform_dependent(a, cpu=jnp.sin, default=jnp.cos),),
        ),
        *(X, J32),
    ),
    "loops": (
        lambda a: (
            *(jax.lax.while_loop(lambda c: jnp.sum(c) < 100, lambda c: 1.5 * c, a),),
            *(jax.lax.scan(lambda c, row: (c + row, c * row), a[0], a),),
            *(jax.lax.fori_loop(0, 3, lambda k, c: c + a[k], a[1]),),
        ),
        X,
    ),
    "calls": (
        lambda a: (
            *(jax.jit(jnp.sin)(a), jax.checkpoint(jnp.sin)(a), jax.nn.relu(a), own_vmap(a)),
            *(own_vjp(a), jax.lax.optimization_barrier(a), in_one_kernel(twice(jnp.cos), a)),
            *(jax.lax.stop_gradient(a), jnp.copy(a)),
        ),
        Y,
    ),
}


@jax.custom_batching.custom_vmap
def own_vmap(a):
    return 2 * a


@own_vmap.def_vmap
def _(_, batched, a):
    return 2 * a, batched[0]


@jax.custom_vjp
def own_vjp(a):
    return 3 * a


own_vjp.defvjp(lambda a: (3 * a, None), lambda _, g: (3 * g,))


def solved(a, b):
    """a x = b and a y = (b backwards), by functions that close over a."""

    def solve(matvec, right):
        x, y = (part / a for part in right)
        missed = right[1] - matvec((x, y))[1]
        return x, y + missed / a

    def equations(unknown):
        return tuple(a * part for part in unknown)

    return jax.lax.custom_linear_solve(equations, (b, b[::-1]), solve, solve)


CASES["a linear system"] = (solved, X, Y)


@pytest.mark.parametrize("name", list(CASES))
def test_operations(name, monkeypatch):
    monkeypatch.setattr(one_kernel, "_MOST_TERMS", 1000)  # products alone would be left to XLA
    function, *arguments = CASES[name]
    check(function, *arguments)
    single = [a.astype(jnp.float32) if a.dtype == jnp.float64 else a for a in arguments]
    check(function, *single)


def test_every_operation_that_is_known_was_tried():
    """What a kernel may hold is a promise about XLA, which ends the process where it is broken."""
    seen = set()
    for function, *arguments in CASES.values():
        seen |= one_kernel._operations(jax.make_jaxpr(function)(*arguments).jaxpr)
    # Other names of the same, or what stands in programs of other versions of JAX alone.
    others = {"add_any", "closed_call", "core_call", "pjit", "remat", "remat2", "copy_p", "name"}
    others |= {"expand_dims", "custom_vjp_call_jaxpr", "unstack", "stack", "sharding_constraint"}
    others |= {"stop_gradient", "checkpoint"}
    assert one_kernel._KNOWN - seen - others == set()


def wander(scale, state):
    """Some steps that depend on all their numbers, with a count that has no derivative."""
    x, v, n = state

    def step(carry, k):
        x, v, n = carry
        force = jax.lax.cond(x[0] > 0.0, jnp.sin, jnp.cos, x) * scale["k"]
        v = v + 0.1 * force - 0.01 * scale["drag"] * v * jnp.sum(v**2)
        return (x + 0.1 * v, v, n + (x[0] > 0).astype(n.dtype)), x[1] * k

    (x, v, n), path = jax.lax.scan(step, (x, v, n), jnp.arange(4, dtype=x.dtype))
    return (x, v, n), jnp.sum(path)


SCALE = {"k": jnp.asarray(0.7), "drag": jnp.asarray(0.3)}
STATE = (jnp.asarray([0.3, -0.2, 0.5]), jnp.asarray([1.0, 0.4, -0.6]), jnp.asarray(0, jnp.int32))
BATCH = jax.tree.map(lambda a: jnp.stack([a, 2 * a, -a, a / 2 if a.ndim else a]), STATE)


def plain(scale, x, v, n):
    (x, v, n), path = wander(scale, (x, v, n))
    return jnp.concatenate([x, v, path[None]])


def own(scale, x, v, n):
    (x, v, n), path = in_one_kernel(wander, scale, (x, v, n))
    return jnp.concatenate([x, v, path[None]])


def value(run):
    return lambda scale, x, v, n: jnp.sum(run(scale, x, v, n) ** 2)


def kept(run):
    return jax.checkpoint(run)


def scanned(run):
    def run_twice(scale, x, v, n):
        def turn(carry, _):
            end = run(scale, *carry, n)
            return (end[:3], end[3:6]), end

        return jax.lax.scan(turn, (x, v), None, length=2)[1]

    return run_twice


AROUND = {
    "itself": lambda run: run,
    "jvp": lambda run: lambda *a: jax.jvp(lambda x: run(a[0], x, *a[2:]), (a[1],), (a[2],)),
    "jacfwd": lambda run: jax.jacfwd(run, (0, 1, 2)),
    "jacrev": lambda run: jax.jacrev(run, (0, 1)),
    "grad": lambda run: jax.grad(value(run), (0, 1, 2)),
    "forward over reverse": lambda run: jax.jacfwd(jax.grad(value(run), (0, 1)), (0, 1)),
    "reverse over reverse": lambda run: jax.jacrev(jax.grad(value(run), (0, 1)), (0, 1)),
    "reverse over forward": lambda run: jax.jacrev(jax.jacfwd(value(run), (0, 1)), (0, 1)),
    "forward over forward": lambda run: jax.jacfwd(jax.jacfwd(value(run), (0, 1)), (0, 1)),
    "grad of a scan": lambda run: jax.grad(value(scanned(run)), (0, 1, 2)),
    "grad of a checkpointed scan": lambda run: jax.grad(value(scanned(kept(run))), (0, 1, 2)),
    "linearize": lambda run: (
        lambda *a: jax.linearize(lambda x: run(a[0], x, *a[2:]), a[1])[1](a[2])
    ),
    "one cotangent": lambda run: jax.grad(lambda *a: run(*a)[4], 1),
}


BATCHES = [
    ((None, 0, 0, 0), (SCALE, *BATCH)),
    (
        ({"k": 0, "drag": None}, None, 0, None),
        ({**SCALE, "k": BATCH[0][:, 0]}, *(STATE[0], *BATCH[1:2]), STATE[2]),
    ),
]


@pytest.mark.parametrize("name", list(AROUND))
def test_transformations(name):
    """Every derivative is that of the plain function, alone and in batches of some arguments."""
    ours, theirs = AROUND[name](own), AROUND[name](plain)
    assert is_kernel(ours, SCALE, *STATE)
    same(quick_jit(ours)(SCALE, *STATE), quick_jit(theirs)(SCALE, *STATE))
    for axes, arguments in [] if "over" in name else BATCHES:
        ours_batched, theirs_batched = jax.vmap(ours, axes), jax.vmap(theirs, axes)
        assert is_kernel(ours_batched, *arguments)
        same(quick_jit(ours_batched)(*arguments), quick_jit(theirs_batched)(*arguments))


def test_second_derivatives_of_a_batch():
    ours, theirs = (AROUND["forward over reverse"](run) for run in (own, plain))
    axes, arguments = BATCHES[1]
    same(quick_jit(jax.vmap(ours, axes))(*arguments), quick_jit(jax.vmap(theirs, axes))(*arguments))


def same(found, expected):
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    for a, b in pairs:
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_without_jit_and_in_nested_batches():
    same(own(SCALE, *STATE), plain(SCALE, *STATE))
    nested = lambda run: jax.vmap(jax.vmap(run, (None, 0, None, None)), (None, None, 0, 0))  # noqa: E731
    same(nested(own)(SCALE, *BATCH), nested(plain)(SCALE, *BATCH))


LOOP = lambda a, b: jax.lax.while_loop(lambda c: jnp.all(c < 99), lambda c: 2 * c + b, a)  # noqa: E731


def test_arguments_that_are_constant_or_not_used():
    """XLA looks through constants, and such a kernel must not lose an argument by that."""
    constants = jnp.ones(3), jnp.asarray(2.0)
    same(jax.jit(lambda: in_one_kernel(LOOP, *constants))(), LOOP(*constants))
    nothing = lambda a, b: (twice(lambda: jnp.asarray(4.0))(), 3)  # noqa: E731
    for given in (
        lambda: in_one_kernel(nothing, *constants),
        lambda a: in_one_kernel(nothing, a, a),
    ):
        arguments = () if given.__code__.co_argcount == 0 else (1.5,)
        assert [float(x) for x in jax.jit(given)(*arguments)] == [4.0, 3.0]
    copies = jax.jit(lambda a: in_one_kernel(lambda a: (twice(jnp.sin)(a), a, a), a))(X)
    same(copies, (jnp.sin(X), X, X))
    half = lambda a: in_one_kernel(LOOP, a, jnp.zeros(()))  # noqa: E731
    same(jax.jit(half)(jnp.ones(3)), LOOP(jnp.ones(3), 0.0))
    assert in_one_kernel(lambda a: (), X) == ()
    assert in_one_kernel(lambda: 1.0) == 1.0
    assert jax.jit(lambda a: in_one_kernel(twice(jnp.sin), a))(jnp.zeros((0, 3))).shape == (0, 3)


def printing(a):
    jax.debug.print("{}", a[0], ordered=False)
    return LOOP(a, 0.0)


def calling_back(a):
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(a.shape, a.dtype), LOOP(a, 0.0))


@pytest.mark.parametrize(
    "function",
    [
        lambda a: jnp.sort(LOOP(a, 0.0)),
        lambda a: jnp.linalg.solve(LOOP(jnp.diag(a), 0.0) + jnp.eye(4), a),
        lambda a: jnp.fft.fft(LOOP(a, 0.0)),
        lambda a: a + jax.random.uniform(jax.random.key(0), 4) * LOOP(a, 0.0),
        lambda a: jnp.convolve(LOOP(a, 0.0), a),
        lambda a: LOOP(a, 0.0).at[1].apply(jnp.cos),
        calling_back,
        printing,
        jnp.sin,  # no loop
    ],
)
def test_what_is_no_kernel_is_compiled_as_it_stands(function):
    a = jnp.asarray([1.0, 2.0, 0.5, 0.25])
    run = lambda a: in_one_kernel(function, a)  # noqa: E731
    assert not is_kernel(run, a)
    np.testing.assert_allclose(jax.jit(run)(a), jax.jit(function)(a), rtol=1e-15)


def test_large_ones_are_left_to_the_threads_of_xla():
    run = lambda a: in_one_kernel(LOOP, a, jnp.asarray(0.5))  # noqa: E731
    assert is_kernel(run, jnp.ones(1 << 15))
    assert not is_kernel(run, jnp.ones(1 << 18))
    at = lambda i, b: i + (b > 2).astype(jnp.int32)  # noqa: E731  (a place for each lane)
    scattering = lambda a, b: jax.lax.fori_loop(0, 2, lambda i, a: a.at[at(i, b)].set(b), a)  # noqa: E731
    run = lambda a: in_one_kernel(jax.vmap(scattering), a, a[:, 0])  # noqa: E731
    assert is_kernel(run, jnp.ones((16, 8)))
    assert not is_kernel(run, jnp.ones((17, 8)))


def test_large_products_are_left_to_the_library_of_xla():
    layers = lambda x, w: jax.lax.fori_loop(0, 2, lambda _, x: jnp.sin(jnp.cos(w @ x)), x)  # noqa: E731
    run = lambda x, w: in_one_kernel(layers, x, w)  # noqa: E731
    assert is_kernel(run, jnp.ones(4), jnp.ones((4, 4)))
    assert not is_kernel(run, jnp.ones(64), jnp.ones((64, 64)))


def test_long_ones_are_not_made_longer(monkeypatch):
    monkeypatch.setattr(one_kernel, "_MOST_OPERATIONS", 10)
    assert not is_kernel(lambda *a: own(SCALE, *a), *STATE)


def test_what_is_exported_is_compiled_as_it_stands():
    """It may be read by another version of XLA, or called in a program of several devices."""
    for platforms in (["cuda", "tpu"], ["cpu"], ["cpu", "cuda"]):
        exported = jax.export.export(jax.jit(own), platforms=platforms)(SCALE, *STATE)
        assert MARK not in exported.mlir_module()
        if "cpu" in platforms:
            same(exported.call(SCALE, *STATE), plain(SCALE, *STATE))
    (n,) = jax.export.symbolic_shape("n")
    beside = lambda array, *state: (2 * array, own(SCALE, *state))  # noqa: E731
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), STATE)
    exported = jax.export.export(jax.jit(beside))(jax.ShapeDtypeStruct((n,), float), *shapes)
    same(exported.call(X[0], *STATE), (2 * X[0], plain(SCALE, *STATE)))


def test_programs_for_several_devices_are_compiled_as_they_stand():
    """XLA takes the arguments of their kernels apart, and where one is used no more it ends the
    process: a batch that saves did so (tests/simulate/test_hosts.py).

    So it is whether the devices are shared out by `jit`, by `shard_map` or by nobody.
    """
    program = """
    import jax.numpy as jnp, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    from jaxrb.exec.one_kernel import in_one_kernel

    mesh = Mesh(np.array(jax.devices()), ("lanes",))

    def function(x, known):
        return jax.lax.fori_loop(0, 2, lambda _, x: jnp.sin(x) * known, x)

    def run(x):
        return in_one_kernel(function, x, jnp.asarray(0.5))

    x = np.linspace(0.1, 0.9, 12)
    expected = 0.5 * np.sin(0.5 * np.sin(x))
    lanes = dict(mesh=mesh, in_specs=P("lanes"), out_specs=P("lanes"), check_vma=False)
    mapped = jax.shard_map(run, **lanes)
    for place in (P("lanes"), P()):
        shared = jax.device_put(x, NamedSharding(mesh, place))
        for compiled in (jax.jit(run), jax.jit(jax.vmap(run)), jax.jit(mapped)):
            np.testing.assert_allclose(compiled(shared), expected, rtol=1e-15)
            assert "small_call" not in compiled.lower(shared).as_text()
    alone = jax.device_put(x, jax.devices()[1])  # of two devices, one
    np.testing.assert_allclose(jax.jit(run)(alone), expected, rtol=1e-15)
    assert "small_call" in jax.jit(run).lower(alone).as_text()
    print("equal")
    """
    assert "equal" in on_devices(2, program)


def test_keys_of_random_numbers_pass():
    def run(a, key):
        return in_one_kernel(lambda a, key: (LOOP(a, 0.5), key), a, key)

    found, key = jax.jit(run)(X, jax.random.key(3))
    same((found, jax.random.key_data(key)), (LOOP(X, 0.5), jax.random.key_data(jax.random.key(3))))


def test_without_any_jit():
    with jax.disable_jit():
        found = own(SCALE, *STATE)
    same(found, plain(SCALE, *STATE))


def test_numbers_from_around_the_function_are_differentiated():
    around = lambda b: jnp.sum(in_one_kernel(lambda a: LOOP(a, b), jnp.ones(3)))  # noqa: E731
    argument = lambda b: jnp.sum(in_one_kernel(LOOP, jnp.ones(3), b))  # noqa: E731
    for transformed, given in ((jax.jacfwd, 0.5), (jax.jit, 0.5), (jax.vmap, [0.5, 1.0])):
        b = jnp.asarray(given)
        same(transformed(around)(b), transformed(argument)(b))


def test_single_precision_stays_single():
    narrow = lambda tree: jax.tree.map(  # noqa: E731
        lambda a: a.astype(jnp.float32) if a.dtype == jnp.float64 else a, tree
    )
    found = jax.jit(jax.grad(value(own), (0, 1, 2)))(narrow(SCALE), *narrow(STATE))
    expected = jax.jit(jax.grad(value(plain), (0, 1, 2)))(SCALE, *STATE)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == jnp.float32
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
