"""Fits and shots of other numbers, in arrays of the same shapes, compile nothing anew."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_fit import data_of, fitted, world_of as fitted_world
from test_shoot import shot, target, thrown, world_of as shot_world

from jaxrb import optimize as ro


def compiled(caplog, run):
    """What a call gives, and the names of the programs that JAX compiles in it, as JAX logs."""
    caplog.clear()
    with caplog.at_level(logging.WARNING), jax.log_compiles():
        found = run()
    said = [record.getMessage() for record in caplog.records]
    return found, [text for text in said if text.startswith("Finished XLA compilation")]


def test_compilations_are_seen(caplog):
    """Without this, the others could not fail."""
    double = jax.jit(lambda x: 2 * x)
    for x, number in ((jnp.ones(3), 1), (jnp.zeros(3), 0), (jnp.ones(4), 1)):
        assert len(compiled(caplog, lambda x=x: double(x))[1]) == number


@pytest.mark.slow
def test_a_second_fit(caplog):
    """Other noise and another world at first: nothing at all. Other throws are cut at other nodes:
    then single operations on these are compiled, but not the program that flies them."""
    first, programs = compiled(caplog, lambda: fitted(data_of(0)))
    assert any("jit(_lanes)" in program for program in programs)
    second, programs = compiled(caplog, lambda: fitted(data_of(1), world=fitted_world(0.6, 9.3)))
    assert not programs
    throws = [(0.82, (0.5, -0.1, 0.52), 1.8), (0.51, (-0.2, 0.3, 1.48), -1.1)]
    third, programs = compiled(caplog, lambda: fitted(data_of(2, throws=throws)))
    assert not any("jit(_lanes)" in program for program in programs)
    assert len({one.chi_square for one in (first, second, third)}) == 3


@pytest.mark.slow
def test_a_second_shot(caplog):
    """Another goal, another first state, another world, another end, other starts."""
    first, programs = compiled(caplog, lambda: shot(key=jax.random.key(0)))
    assert any("jit(_lanes)" in program for program in programs)
    goal, start = target(0.6, 0.1, 0.55), thrown((0.9, 0.1, 0.8), 1.1)
    second, programs = compiled(
        caplog,
        lambda: shot(goal, start, t1=0.96, world=shot_world(0.75), key=jax.random.key(5)),
    )
    assert not programs
    assert second.result == first.result == ro.RESULTS.successful
    np.testing.assert_allclose(second.end.position[0], [0.6, 0.1, 0.55], rtol=0, atol=2e-8)
