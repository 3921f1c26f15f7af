"""The memory that runs need besides their results, from XLA's plan of it, which depends on nothing
else."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.cli.cases import CASES

WORLDS, STEPS, DT = 100, 1000, 0.01
METHOD = rb.LGVCI(DT, on_zeno="stop")


def plan(function, dtype=float):
    """Bytes in each of a batch of worlds: what a program needs on the way, and what it returns."""
    heights = jax.ShapeDtypeStruct((WORLDS,), dtype)
    memory = jax.jit(jax.vmap(function)).lower(heights).compile().memory_analysis()
    return memory.temp_size_in_bytes / WORLDS, memory.output_size_in_bytes / WORLDS


def run(height, save, steps=STEPS):
    """A tumbling ellipsoid, from a height of its centre [m]."""
    world = rb.World([rb.RigidBody(rb.Ellipsoid((2.0, 3.0, 4.0)))], [rb.HalfSpace()])
    at = jnp.stack([0 * height, 0 * height, height])[None]
    rest = ([[1.0, 0, 0, 0]], [[2.0, 2, 10]], [[1.0, -1, 1]])
    state = rb.State(at, *(jnp.array(row, height.dtype) for row in rest))
    return rb.simulate(world, state, METHOD, steps * DT, save=save, throw=False)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, slow(jnp.float64)])
@pytest.mark.parametrize(
    "save",
    [
        rb.SaveAt(every=100, impacts=16),
        *map(
            slow,
            [
                rb.SaveAt(every=1),
                rb.SaveAt(every=10),
                rb.SaveAt(every=100),
                rb.SaveAt(every=1, impacts=16),
                rb.SaveAt(every=10, impacts=16),
                rb.SaveAt(final=True, impacts=16),
                rb.SaveAt(ts=np.linspace(0.003, 9.97, 100)),
                rb.SaveAt(ts=np.linspace(0.003, 9.97, 100), impacts=16),
            ],
        ),
    ],
    ids=lambda save: repr(save)[:40],
)
def test_what_is_saved_takes_no_more_on_the_way_than_in_the_result(save, dtype):
    """Every state and every impact has a slot, and nothing else is kept."""
    temporary, result = plan(lambda height: run(height, save), dtype)
    assert temporary <= 1.3 * result


@pytest.mark.slow
def test_times_that_are_traced_take_no_more_than_known_ones():
    def at_times(height):
        ts = height - height + jnp.linspace(0.003, 9.97, 100)
        return run(height, rb.SaveAt(ts=ts))

    temporary, result = plan(at_times)
    assert temporary <= 1.3 * result


@pytest.mark.slow
def test_memory_of_a_gradient():
    """It grows little faster than the square root, as the log, of 6 bytes an arc, is short."""

    def gradient(steps):
        height = lambda z: run(z, None, steps).final.position[0, 2]  # noqa: E731
        return plan(jax.grad(height), jnp.float32)[0]

    few, many = gradient(1000), gradient(10_000)
    assert many <= 3.5 * few
    assert few <= 6000 and many <= 19_000


@pytest.mark.long
def test_a_gradient_of_what_is_saved_takes_that_of_the_run_and_the_results():
    save = rb.SaveAt(every=10, impacts=16)
    alone = plan(jax.grad(lambda z: run(z, None).final.position[0, 2]))[0]
    saved = plan(jax.grad(lambda z: jnp.sum(run(z, save).states.position)))[0]
    result = plan(lambda z: run(z, save))[1]
    assert saved <= alone + 1.3 * result


@pytest.mark.slow
def test_a_million_steps_of_an_elastic_body():
    """Nothing is carried along but the state, and neither work nor errors grow."""
    world, state = CASES["I"].build()

    @functools.partial(jax.jit, static_argnums=1)
    def end(state, steps):
        return rb.simulate(world, state, METHOD, steps * DT)

    def on_the_way(steps):
        return end.lower(state, steps).compile().memory_analysis().temp_size_in_bytes

    assert on_the_way(1_000_000) == on_the_way(1000)
    turns, energies = [], []
    for _ in range(10):
        sol = end(state, 100_000)
        state = sol.final
        turns.append(int(sol.stats.flow_evaluations))
        energies += sol.stats.energy.tolist()
    assert abs(turns[-1] / turns[0] - 1) <= 0.01  # impacts differ in number
    # A random walk of round-off: some eps times the square root of the number of steps.
    assert np.abs(np.array(energies) / energies[0] - 1).max() <= 1e-12
