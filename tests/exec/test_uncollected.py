"""Garbage is not collected while a program is traced, and as before afterwards."""

import gc

import jax
import jax.numpy as jnp
import pytest

import jaxrb as rb
from jaxrb.exec.uncollected import uncollected


@pytest.fixture
def collecting():
    """Whether it is, as it was after the test."""
    before = gc.isenabled()
    yield
    (gc.enable if before else gc.disable)()


@pytest.mark.parametrize("before", [True, False])
def test_collects_as_before_after_a_call_and_after_an_error(collecting, before):
    (gc.enable if before else gc.disable)()
    assert uncollected(gc.isenabled)() is False
    assert gc.isenabled() is before

    @uncollected
    def fails():
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fails()
    assert gc.isenabled() is before


def test_nothing_is_collected_while_a_gradient_is_traced(collecting):
    """Most of what tracing keeps is there when the flight is traced, which a load is part of."""
    gc.enable()
    found = []

    def load(t, body, args):
        found.append(gc.isenabled())
        return jnp.zeros((1, 3), t.dtype), jnp.zeros((1, 3), t.dtype)

    world = rb.World([rb.RigidBody(rb.Sphere(0.1), 1.0)], forces=[rb.Force(load)])

    def height(z):
        state = rb.State(jnp.array([[0, 0, 1.0]]) * z, jnp.eye(1, 4), *2 * [jnp.zeros((1, 3))])
        return rb.simulate(world, state, rb.LGVCI(0.1), 0.2).final.position[0, 2]

    assert jnp.isfinite(jax.grad(height)(1.0))
    assert found and not any(found)
    assert gc.isenabled()
