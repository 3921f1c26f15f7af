"""What is compiled: no slow operations, no retracing, memory like a square root."""

import importlib
from functools import partial

import equinox as eqx
import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, quick_jit

import jaxrb as rb

# The package has a function of the name of the folder.
logged_flight = importlib.import_module("jaxrb.simulate.logged_flight")

METHOD = rb.LGVCI(dt=0.01, on_zeno="stop")


def scene(z0, radius=1.0):
    one = jnp.ones_like(z0)
    axes = jnp.stack([2 * one, 3 * one, 4 * one]) * radius
    up = jnp.array([0, 0, 1], z0.dtype)
    world = rb.World(
        [rb.RigidBody(rb.Ellipsoid(axes), mass=one)],
        [rb.HalfSpace(up, 0 * one)],
        gravity=-9.81 * up,
        contact_law=rb.Frictionless(one),
    )
    state = rb.State(
        jnp.stack([0 * z0, 0 * z0, z0])[None],
        jnp.array([[1.0, 0, 0, 0]], z0.dtype),
        jnp.array([[2.0, 2, 10]], z0.dtype),
        jnp.array([[1.0, -1, 1]], z0.dtype),
    )
    return world, state


def height(z0, t1=1.0, backend="auto"):
    world, state = scene(z0)
    sol = rb.simulate(world, state, METHOD, t1, throw=False, backend=backend)
    return sol.final.position[0, 2]


def kernels(function, *arguments):
    """How many calls XLA is asked to make one kernel of."""
    return jax.jit(function).lower(*arguments).as_text().count('xla_cpu_small_call = "true"')


def test_loops_of_a_few_worlds_are_one_kernel_on_a_cpu():
    """The loop without derivatives; and with them the search and what is flown again, backwards
    too. Of many worlds XLA shares out each operation; and it is left alone if one asks for it."""
    z0 = jnp.asarray(12.0)
    assert kernels(height, z0) == kernels(jax.vmap(height), z0 + jnp.arange(64.0)) == 1
    assert kernels(jax.grad(height), z0) == 2
    assert kernels(jax.vmap(height), z0 + jnp.zeros(1 << 16)) == 0
    by_itself = partial(height, backend="xla")
    assert kernels(by_itself, z0) == kernels(jax.grad(by_itself), z0) == 0
    for transformed in (lambda f: f, jax.grad):
        found, expected = (quick_jit(transformed(run))(z0) for run in (height, by_itself))
        np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.slow
def test_runs_that_save_are_one_kernel_as_well():
    """With the record, which would be copied in between otherwise. Many worlds are left to XLA."""

    def saved(z0, backend="auto"):
        save = rb.SaveAt(every=10, impacts=4)
        sol = rb.simulate(*scene(z0), METHOD, 1.0, save=save, throw=False, backend=backend)
        return sol.states.position[:, 0, 2], sol.impacts.time

    z0 = jnp.asarray(4.5)
    assert kernels(saved, z0) == kernels(jax.vmap(saved), z0 + jnp.arange(4.0)) == 1
    assert kernels(jax.vmap(saved), z0 + jnp.arange(64.0)) == 0
    for transformed in (lambda f: f, jax.jacfwd):
        runs = [
            quick_jit(transformed(partial(saved, backend=name)))(z0) for name in ("auto", "xla")
        ]
        for found, expected in zip(*runs, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_the_batched_run_fuses(dtype):
    text = jax.jit(jax.vmap(height)).lower(jnp.linspace(10, 11, 8, dtype=dtype)).as_text()
    assert "stablehlo.while" in text
    for slow in ("dot_general", "custom_call", "gather", "scatter", "cholesky", "sort"):
        assert f"stablehlo.{slow}" not in text, slow
    # No lane leaves its precision (scalar constants are folded when compiled).
    assert ("xf64>" in text) == (dtype == jnp.float64)


def test_changing_numbers_does_not_retrace():
    @eqx.debug.assert_max_traces(max_traces=1)
    def traced(world, state):
        return rb.simulate(world, state, METHOD, 0.5, throw=False).final.position

    run = eqx.filter_jit(traced)
    for z0, radius in ((10.0, 1.0), (11.0, 1.3), (9.0, 0.7)):
        run(*scene(jnp.asarray(z0), radius))


def test_eager_calls_compile_once():
    from jaxrb.simulate import solve

    world, state = scene(jnp.asarray(10.0))
    rb.simulate(world, state, METHOD, 0.37)
    before = solve._solve._cache_size()
    rb.simulate(world, eqx.tree_at(lambda s: s.velocity, state, state.velocity * 2), METHOD, 0.37)
    rb.simulate(*scene(jnp.asarray(12.0), 1.1), rb.LGVCI(dt=0.01, on_zeno="stop"), 0.37)
    assert solve._solve._cache_size() == before


@pytest.mark.slow
def test_reverse_mode_memory_grows_like_the_square_root():
    def temporary(n_steps):
        gradient = jax.jit(jax.grad(lambda z: height(z, n_steps * 0.01)))
        compiled = gradient.lower(jnp.asarray(10.0)).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    small, large = temporary(400), temporary(6400)
    # 16 times the steps: 4 times the memory, plus what does not grow; linear would be 16.
    assert large < 5.5 * small


@pytest.mark.slow
@pytest.mark.parametrize("batch", [16])
def test_lanes_do_not_influence_each_other(batch):
    z0 = jnp.linspace(5.0, 11.0, batch)
    run = jax.jit(lambda z: height(z, 4.0))
    together = jax.jit(jax.vmap(lambda z: height(z, 4.0)))(z0)
    alone = jnp.stack([run(z) for z in z0])
    # Lanes of a vector unit may round differently, by fused multiplication and addition.
    assert float(jnp.max(jnp.abs(together - alone))) < 1e-12


def test_worlds_wait_little_for_each_other():
    """Each lane is in its own phase of the work: one loop turn a step, and a few more."""

    def run(z0):
        world, state = scene(z0)
        return rb.simulate(world, state, METHOD, 10.0, throw=False)

    sol = jax.jit(jax.vmap(run))(10 + jax.random.uniform(jax.random.key(0), (1024,)))
    assert float(jnp.mean(sol.impacts.count)) > 4
    assert int(jnp.max(sol.stats.flow_evaluations)) <= 1.2 * 1000


@pytest.mark.long
@pytest.mark.parametrize("transform", ["jit", "vmap", "grad", "jvp"])
def test_transformations_compose(transform):
    z0 = jnp.asarray(10.0)
    plain = height(z0)
    if transform == "jit":
        assert abs(float(jax.jit(height)(z0) - plain)) < 1e-13
    elif transform == "vmap":
        assert jnp.allclose(jax.vmap(height)(jnp.stack([z0, z0])), plain, atol=1e-13)
    elif transform == "grad":
        total = lambda z: jnp.sum(jax.vmap(height)(z))  # noqa: E731
        lanes = quick_jit(jax.vmap(jax.grad(height)))(jnp.stack([z0, z0 + 1]))
        summed = quick_jit(jax.grad(total))(jnp.stack([z0, z0 + 1]))
        assert jnp.allclose(lanes, summed, atol=1e-13)
        assert jnp.allclose(lanes, 1.0)  # in free flight
    else:
        _, rate = jax.jvp(jax.jit(height), (z0,), (jnp.ones(()),))
        assert abs(float(rate) - 1) < 1e-13


def calls(jaxpr, name):
    """How often a program calls a function that is traced once."""
    inner = (sub for eqn in jaxpr.eqns for sub in jax.extend.core.jaxprs_in_params(eqn.params))
    own = sum(eqn.params.get("name") == name for eqn in jaxpr.eqns)
    return own + sum(calls(sub, name) for sub in inner)


RESTING = {
    "located": rb.LGVCI(dt=0.01, on_zeno="rest"),
    **{
        scheme: rb.MoreauJean(0.01, scheme=scheme, impacts="stepped")
        for scheme in ("variational", "implicit", "semi_explicit")
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "joined"),
    [
        ("variational", False),
        pytest.param("implicit", False, marks=pytest.mark.slow),
        pytest.param("located", True, marks=pytest.mark.slow),
        *before_releases(
            ("located", False), ("variational", True), ("implicit", True), ("semi_explicit", True)
        ),
    ],
)
def test_derivatives_do_not_seek_impulses_again(method, joined):
    """Those of contacts that last and of joints are known when a trajectory is flown again."""

    def place(friction):
        law, rail = rb.Coulomb(friction, 0.0), rb.Slider(0, [1.0, 0, 0])
        body = rb.RigidBody(rb.Box((0.1, 0.1, 0.05)), 1.0)
        world = rb.World([body], [rb.HalfSpace()], contact_law=law, joints=[rail] * joined)
        upright = jnp.array([[1.0, 0, 0, 0]])
        at = jnp.array([[0, 0, 0.05]])
        state = rb.State(at, upright, jnp.array([[1.0, 0, 0]]), jnp.zeros((1, 3)))
        return rb.simulate(world, state, RESTING[method], 0.1, throw=False).final.position[0, 0]

    value, slope = (jax.make_jaxpr(f)(0.3).jaxpr for f in (place, jax.grad(place)))
    assert calls(slope, "_search") == calls(value, "_search") > 0


IN_FLIGHT = np.array([0.013, 0.11, 0.25])  # within steps
TRACED_ONCE = {
    "impacts": (rb.Coulomb(0.5, 0.3), {}, rb.LGVCI(0.01), rb.SaveAt(final=True)),
    "accumulation": (rb.Frictionless(0.5), {}, rb.LGVCI(0.01, on_zeno="rest"), None),
    "contacts that last": (
        *(rb.Coulomb(0.5, 0.3), {}, rb.LGVCI(0.01, on_zeno="rest")),
        rb.SaveAt(ts=IN_FLIGHT, impacts=4),
    ),
    "a joint": (rb.Frictionless(0.5), {"joints": [rb.Hinge(0, (0, 1, 0))]}, rb.LGVCI(0.01), None),
    "steps": (rb.Coulomb(0.5, 0.3), {}, rb.MoreauJean(0.01, impacts="stepped"), rb.SaveAt(every=5)),
}


@pytest.mark.parametrize("name", list(TRACED_ONCE))
def test_the_derivative_of_a_flight_is_traced_once(name, monkeypatch):
    """JAX differentiates a loop again when it finds that something moves which did not when it
    began, and so all loops around it and in it: tracing took three times as long."""
    law, options, method, save = TRACED_ONCE[name]
    save = rb.SaveAt(ts=IN_FLIGHT) if save is None else save
    traced = []
    original = logged_flight._located_end
    count = lambda *a: traced.append(1) or original(*a)  # noqa: E731
    monkeypatch.setattr(logged_flight, "_located_end", count)
    body = rb.RigidBody(rb.Ellipsoid((0.3, 0.2, 0.1)), 1.0)
    world = rb.World([body], [rb.HalfSpace((0.0, 0, 1))], contact_law=law, **options)
    start = rb.State([[0.0, 0, 0]], [[1.0, 0, 0, 0]], [[1.0, 0, 0]], [[0.0, 0.5, 0]])

    def height(z):
        raised = eqx.tree_at(lambda s: s.position, start, start.position.at[0, 2].add(z))
        sol = rb.simulate(world, raised, method, 0.3, save=save, throw=False)
        return jnp.sum(sol.states.position[..., 2]) + sol.final.position[0, 2]

    jax.jit(jax.grad(height)).trace(1.0)
    assert len(traced) == 1
