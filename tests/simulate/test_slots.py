"""States and impacts that are kept, each in a slot of its own, over many blocks of a run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_saving import assert_states_equal, drop, tumbling

import jaxrb as rb

G, DT = 10.0, 0.01
METHOD = rb.LGVCI(DT, on_zeno="stop")
# Of the lowest point [m]; no impact is within 2 % of a step's end, nor of the end of the run.
HEIGHTS = np.array([0.5, 0.77, 1.0, 1.7])


def bounces(height, impacts):
    """A ball without losses, for 900 steps, saved at each."""
    world, state = drop(height.dtype, e=1.0)
    up = jnp.zeros((1, 3), height.dtype).at[0, 2].set(height - 1)
    state = rb.State(state.position + up, *jax.tree.leaves(state)[1:])
    save = rb.SaveAt(every=1, impacts=impacts)
    return rb.simulate(world, state, METHOD, 900 * DT, save=save, throw=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype, impacts",
    [
        (jnp.float64, 3),  # fewer than there are
        pytest.param(jnp.float64, 40, marks=pytest.mark.slow),
        pytest.param(jnp.float32, 40, marks=pytest.mark.slow),
    ],
)
def test_impacts_are_those_of_the_closed_form(dtype, impacts):
    """The k-th is after 2 k - 1 falls of sqrt(2 h/g)."""

    def times(height):
        sol = bounces(height, impacts)
        record = sol.impacts
        finite = jnp.where(jnp.isfinite(record.time), record.time, 0.0)
        return finite, (record.count, record.time, record.after.velocity[:, 0, 2], sol.states)

    def forward(height):
        _, rate, rest = jax.jvp(times, (height,), (jnp.ones_like(height),), has_aux=True)
        return rate, *rest

    weights = jnp.arange(1, impacts + 1, dtype=dtype)
    weighted = lambda height: jnp.sum(weights * times(height)[0])  # noqa: E731
    heights = jnp.asarray(HEIGHTS, dtype)
    rate, count, time, after, states = jax.jit(jax.vmap(forward))(heights)
    gradient = jax.jit(jax.vmap(jax.grad(weighted)))(heights)
    precision = 1e-12 if dtype == jnp.float64 else 1e-4
    for world, height in enumerate(HEIGHTS):
        fall = np.sqrt(2 * height / G)
        total = int((9 / fall + 1) / 2)
        kept = min(total, impacts)
        k = 2 * np.arange(1, kept + 1) - 1
        assert count[world] == total
        np.testing.assert_allclose(time[world, :kept], k * fall, rtol=precision)
        assert np.all(np.isposinf(time[world, kept:]))
        np.testing.assert_allclose(after[world, :kept], G * fall, rtol=10 * precision)
        assert np.all(np.asarray(after[world, kept:]) == 0)
        expected = k / (G * fall)
        np.testing.assert_allclose(rate[world, :kept], expected, rtol=10 * precision)
        assert np.all(np.asarray(rate[world, kept:]) == 0)
        np.testing.assert_allclose(
            gradient[world], weights[:kept] @ jnp.asarray(expected, dtype), rtol=10 * precision
        )
        # The velocity turns round in the steps that hold the impacts.
        velocity = np.asarray(states.velocity[world, :, 0, 2])
        turned = np.flatnonzero((velocity[:-1] < 0) & (velocity[1:] > 0))
        np.testing.assert_array_equal(turned[:kept], np.floor(time[world, :kept] / DT))
        assert len(turned) == total


@pytest.mark.long
def test_any_choice_of_times_keeps_the_same_states():
    world, state = tumbling()
    t1 = 300 * DT

    def states(save):
        return rb.simulate(world, state, METHOD, t1, save=save).states

    every = states(rb.SaveAt(every=1))
    some = states(rb.SaveAt(every=7, impacts=2))
    taken = jax.tree.map(lambda leaf: leaf[np.r_[0:300:7, 300]], every)
    assert_states_equal(some, taken, 1e-12)
    steps = np.array([0, 0, 3, 90, 90, 91, 200, 299, 300, 300])  # some of them twice
    taken = jax.tree.map(lambda leaf: leaf[steps], every)
    assert_states_equal(states(rb.SaveAt(ts=steps * DT)), taken, 1e-12)
    # Among others in the same steps, known and traced.
    ts = np.sort(np.concatenate([steps * DT, 0.9 + DT * np.linspace(0.1, 0.9, 9), [2.345]]))
    among = np.searchsorted(ts, steps * DT)
    known = states(rb.SaveAt(ts=ts))
    traced = jax.jit(lambda ts: states(rb.SaveAt(ts=ts)))(jnp.asarray(ts))
    for found in (known, traced):
        assert_states_equal(jax.tree.map(lambda leaf: leaf[among], found), taken, 1e-12)
    assert_states_equal(traced, known, 1e-12)
