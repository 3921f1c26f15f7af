"""What is seen of results, states, impacts and bodies when they are printed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.simulate.saving import Impacts, Stats


@pytest.mark.parametrize("codes", [rb.RESULTS, rb.IMPACT_RESULTS])
def test_codes_print_their_names(codes):
    """Every code prints its name before its remedy, and compares as before."""
    names = [name for name in ("successful", "zeno", "non_finite") if hasattr(codes, name)]
    for name in names:
        item = getattr(codes, name)
        assert f"{codes.__name__}<{name}" in repr(item)
        assert codes[item].partition(": ")[0] == name
        assert [bool(item == getattr(codes, other)) for other in names] == [
            other == name for other in names
        ]
    assert repr(codes.successful).endswith("<successful>")
    assert codes[codes.non_finite].endswith(".")  # the remedy


def test_arrays_of_codes_print_how_many_of_which():
    def chosen(bad):
        return rb.RESULTS.where(bad, rb.RESULTS.zeno, rb.RESULTS.successful)

    several = jax.vmap(chosen)(jnp.array([True, False, True, False, False]))
    assert repr(several).endswith("RESULTS<3 successful, 2 zeno>")
    square = jax.tree.map(lambda leaf: leaf[:4].reshape(2, 2), several)
    assert repr(square).endswith("<2 successful, 2 zeno>")
    none = jax.tree.map(lambda leaf: leaf[:0], several)
    assert repr(none).endswith("<>")
    seen = []
    jax.jit(lambda bad: seen.append(repr(chosen(bad))))(True)
    jax.jit(jax.vmap(lambda bad: seen.append(repr(chosen(bad)))))(jnp.ones(2, bool))
    assert all(text.endswith("<traced>") for text in seen)
    # Trees without numbers, as maps leave them.
    assert repr(jax.tree.map(lambda _: None, several)).endswith("<unknown>")
    with pytest.raises(ValueError, match="from this enumeration"):
        rb.IMPACT_RESULTS[several]


def state(heights):
    n = len(heights)
    zero = jnp.zeros((n, 3))
    position = zero.at[:, 2].set(jnp.asarray(heights))
    quaternion = jnp.zeros((n, 4)).at[:, 0].set(1.0)
    return rb.State(position, quaternion, zero, zero.at[:, 0].set(1.5))


def record(n, room):
    """n impacts of body 0 with obstacle 0, one every tenth of a second."""
    moments = jnp.where(jnp.arange(room) < n, 0.1 * (1.0 + jnp.arange(room, dtype=float)), jnp.inf)
    rows = jnp.zeros((room, 3)).at[:, 2].set(8.8588)
    pair = jnp.zeros((room, 2), jnp.int32)
    return Impacts(jnp.asarray(n), moments, pair, rows, 0 * rows, rows)


def test_states_print_their_numbers():
    assert repr(state([2 / 3])) == (
        "State(\n"
        "  position=[[0, 0, 0.666667]],\n"
        "  quaternion=[[1, 0, 0, 0]],\n"
        "  velocity=[[0, 0, 0]],\n"
        "  angular_velocity=[[1.5, 0, 0]]\n"
        ")"
    )
    assert "[0, 0, 1e-07], [0, 0, 123456]" in repr(state([1e-7, 123456.4]))
    assert "[0, 0, 0]" in repr(state([-0.0]))


def test_large_and_traced_states_print_shapes():
    many = repr(state(np.arange(16.0)))
    assert "position=f64[16,3]" in many and "quaternion=f64[16,4]" in many
    assert "position=f64[100,1,3]" in repr(jax.vmap(state)(jnp.ones((100, 1))))
    seen = []
    jax.jit(lambda s: seen.append(repr(s)))(state([1.0]))
    assert "position=f64[1,3]" in seen[0]
    assert "position=f64[1,3]" in repr(jax.eval_shape(lambda s: s, state([1.0])))
    assert "position=None" in repr(jax.tree.map(lambda _: None, state([1.0])))


def test_impacts_print_a_line_each():
    assert repr(record(2, 4)) == (
        "Impacts(\n"
        "  2 in all, room for 4\n"
        "  t = 0.1 s, pair (0, 0), impulse (0, 0, 8.8588) N s at (0, 0, 0) m\n"
        "  t = 0.2 s, pair (0, 0), impulse (0, 0, 8.8588) N s at (0, 0, 0) m\n"
        ")"
    )
    assert repr(record(0, 4)) == "Impacts(0 in all, room for 4)"
    assert repr(Impacts(jnp.asarray(3))) == "Impacts(3 in all, none on record)"
    many = repr(record(30, 20)).splitlines()  # ten more than there is room for
    assert many[1] == "  30 in all, room for 20" and many[-2] == "  and 12 more on record"
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), record(2, 4), record(3, 4))
    assert repr(batch) == "Impacts(2 worlds, 2 .. 3 in each, room for 4)"
    seen = []
    jax.jit(lambda impacts: seen.append(repr(impacts)))(record(2, 4))
    assert seen == ["Impacts(room for 4, traced)"]
    assert repr(jax.tree.map(lambda _: None, batch)) == "Impacts(0 leaves)"


def test_stats_print_their_numbers():
    counts, energy = (jnp.asarray(1234567), jnp.asarray(7), jnp.asarray(0)), jnp.array([1.0, 1 / 3])
    stats = Stats(*counts, jnp.asarray(0.5), energy, kernel=jnp.asarray(False))
    assert repr(stats) == (
        "Stats(steps=1234567, flow_evaluations=7, crowded=0, time=0.5, energy=[1, 0.333333], "
        "kernel=False)"
    )
