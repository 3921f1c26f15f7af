"""Batches over cores and devices give the numbers of single runs."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, on_devices, quick_jit

import jaxrb as rb

METHOD = rb.LGVCI(dt=0.01, on_zeno="stop")
WORLD = rb.World([rb.RigidBody(rb.Ellipsoid((2.0, 3.0, 4.0)))], [rb.HalfSpace()])


def starts(n, lowest=9.0):
    z0 = jnp.linspace(lowest, 11.0, n)
    zero = jnp.zeros_like(z0)
    ones = jnp.ones((n, 1, 3))
    return rb.State(
        jnp.stack([zero, zero, z0], axis=-1)[:, None],
        jnp.broadcast_to(jnp.array([1.0, 0, 0, 0]), (n, 1, 4)),
        2 * ones,
        ones,
    )


def singles(states, t1):
    run = jax.jit(lambda s: rb.simulate(WORLD, s, METHOD, t1).final.position)
    n = states.position.shape[0]
    return np.stack([run(jax.tree.map(lambda leaf, k=k: leaf[k], states)) for k in range(n)])


@pytest.mark.parametrize(
    ("n", "chunk"), [*before_releases((1, None), (7, 2), (16, 4)), (300, None)]
)
@pytest.mark.slow
def test_batch_equals_single_runs(n, chunk):
    states = starts(n)
    batch = rb.simulate_batch(WORLD, states, METHOD, 3.0, chunk=chunk)
    assert batch.final.position.shape == (n, 1, 3)
    assert batch.states.position.shape == (n, 1, 1, 3)
    # Vector lanes may contract products and sums differently; steep impacts amplify that.
    np.testing.assert_allclose(batch.final.position, singles(states, 3.0), rtol=0, atol=1e-11)


@pytest.mark.slow
def test_batch_of_worlds():
    masses = jnp.linspace(0.5, 2.0, 5)
    worlds = jax.vmap(
        lambda m: rb.World(
            [rb.RigidBody(rb.Ellipsoid((2.0, 3.0, 4.0)), mass=m)],
            [rb.HalfSpace()],
            contact_law=rb.Frictionless(1 - m / 10),
        )
    )(masses)
    states = starts(5)
    batch = rb.simulate_batch(worlds, states, METHOD, 3.0, batch_world=True, chunk=2)
    for k in range(5):
        world, state = jax.tree.map(lambda leaf, k=k: leaf[k], (worlds, states))
        alone = rb.simulate(world, state, METHOD, 3.0)
        np.testing.assert_allclose(batch.final.position[k], alone.final.position, atol=1e-12)


@pytest.mark.long
def test_batch_can_be_differentiated_and_jitted():
    states = starts(4)

    def loss(states):
        return jnp.sum(rb.simulate_batch(WORLD, states, METHOD, 3.0).final.position[..., 2])

    gradient = quick_jit(jax.grad(loss))(states).position
    single = quick_jit(jax.grad(lambda s: rb.simulate(WORLD, s, METHOD, 3.0).final.position[0, 2]))
    for k in range(4):
        alone = single(jax.tree.map(lambda leaf, k=k: leaf[k], states)).position
        np.testing.assert_allclose(gradient[k], alone, rtol=1e-10)


@pytest.mark.slow
def test_failures_are_named_by_lane():
    states = starts(6)
    sunk = eqx.tree_at(lambda s: s.position, states, states.position.at[4, 0, 2].set(0.5))
    with pytest.raises(RuntimeError, match=r"1 of 6 worlds.*world 4.*penetrates"):
        rb.simulate_batch(WORLD, sunk, METHOD, 1.0)
    sol = rb.simulate_batch(WORLD, sunk, METHOD, 1.0, throw=False)
    assert np.asarray(sol.result == rb.RESULTS.successful).tolist() == [True] * 4 + [False, True]


@pytest.mark.parametrize("n", [10, *before_releases(8)])
@pytest.mark.long
def test_lanes_are_sharded_over_devices(n):
    program = f"""
        import numpy as np
        import jaxrb as rb
        from test_batch import METHOD, WORLD, singles, starts
        assert len(jax.devices()) == 4
        states = starts({n})
        sol = rb.simulate_batch(WORLD, states, METHOD, 3.0)
        assert sol.final.position.shape == ({n}, 1, 3)
        np.testing.assert_allclose(sol.final.position, singles(states, 3.0), rtol=0, atol=1e-12)
        last = jax.devices()[3]
        sol = rb.simulate_batch(WORLD, states, METHOD, 3.0, devices=[last])
        assert sol.final.position.devices() == {{last}}
        # A failure within a program leaves no device waiting.
        end = jax.jit(lambda states: rb.simulate_batch(WORLD, states, METHOD, 3.0).final)
        try:
            end(starts({n}, lowest=-1.0)).position.block_until_ready()
        except Exception as error:
            assert "penetrates an obstacle" in str(error)
            print("sharded")
    """
    assert "sharded" in on_devices(4, program)


@pytest.mark.parametrize("bad", ["single", "empty", "world"])
def test_bad_batches_are_named(bad):
    states = starts(3)
    if bad == "single":
        with pytest.raises(ValueError, match="states must be a State with a leading axis"):
            rb.simulate_batch(WORLD, jax.tree.map(lambda leaf: leaf[0], states), METHOD, 1.0)
    elif bad == "empty":
        with pytest.raises(ValueError, match="at least one state"):
            rb.simulate_batch(WORLD, jax.tree.map(lambda leaf: leaf[:0], states), METHOD, 1.0)
    else:
        with pytest.raises(ValueError, match="batch_world needs a leading axis of 3"):
            rb.simulate_batch(WORLD, states, METHOD, 1.0, batch_world=True)


@pytest.mark.slow
def test_states_of_worlds_that_ended_early_are_not_read_without_a_word():
    world = rb.World([rb.RigidBody(rb.Sphere(0.5))], [rb.HalfSpace()])
    position = jnp.zeros((3, 1, 3)).at[:, 0, 2].set(jnp.array([0.4, 0.8, 0.9]))
    zero = jnp.zeros((3, 1, 3))
    states = rb.State(position, jnp.zeros((3, 1, 4)).at[..., 0].set(1.0), zero, zero)

    def solution(**options):
        return rb.simulate_batch(world, states, METHOD, 0.05, throw=False, **options)

    sol = solution()
    with pytest.warns(UserWarning, match=r"1 of 3 worlds ended early .*1 initial_penetration"):
        _ = sol.final
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ = sol.final  # once
        for read in (lambda sol: sol.successful, lambda sol: sol.result, repr, str):
            sol = solution()
            read(sol)
            _ = sol.states
        _ = solution(failed="nan").final
