"""`parallel_vmap` gives what a loop over the lanes gives, however they are spread."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import on_devices

import jaxrb as rb


def landing(drop, restitution):
    """The height of a ball 0.6 s after it was dropped from a height, both of its lowest point."""
    law = rb.Frictionless(restitution)
    world = rb.World([rb.RigidBody(rb.Sphere(0.1))], [rb.HalfSpace()], contact_law=law)
    zero = jnp.zeros((1, 3))
    start = rb.State(zero.at[0, 2].set(drop + 0.1), jnp.eye(1, 4), zero, zero)
    method = rb.LGVCI(0.01, on_zeno="stop")
    return rb.simulate(world, start, method, 0.6).final.position[0, 2] - 0.1


def slopes(drop, restitution):
    """The derivatives of `landing`, e g s (t - s) - g (t - s)^2/2 with s = sqrt(2 drop/g)."""
    g, e = 9.81, restitution
    s = np.sqrt(2 * drop / g)
    up = 0.6 - s
    return ((1 + e) * up - e * s) / s, g * s * up


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [None, 3])
def test_jacobians_of_a_batch_are_those_in_closed_form(chunk):
    drops = jnp.linspace(0.5, 1.2, 8)
    spread = rb.parallel_vmap(jax.jacfwd(landing, (0, 1)), (0, None), chunk=chunk)
    by_drop, by_restitution = spread(drops, jnp.asarray(0.8))
    expected = slopes(np.asarray(drops), 0.8)
    np.testing.assert_allclose(by_drop, expected[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(by_restitution, expected[1], rtol=0, atol=1e-12)


def test_trees_and_shared_arguments_keep_their_places():
    def f(scale, tree, shift):
        return {"sum": scale * (tree["a"] + jnp.sum(tree["b"])) + shift}

    tree = {"a": jnp.arange(5.0), "b": jnp.arange(10.0).reshape(5, 2)}
    spread = rb.parallel_vmap(f, (None, 0, 0), chunk=2)
    found = spread(jnp.asarray(2.0), tree, jnp.ones(5))["sum"]
    lanes = [2.0 * (k + (2 * k + 2 * k + 1)) + 1 for k in range(5)]
    np.testing.assert_array_equal(found, lanes)


def test_it_can_be_transformed():
    spread = rb.parallel_vmap(jnp.sin, chunk=2)
    x = jnp.linspace(0.0, 1.0, 5)
    for found in (
        jax.grad(lambda x: jnp.sum(spread(x)))(x),
        jax.jit(lambda x: jax.jvp(spread, (x,), (jnp.ones(5),))[1])(x),
    ):
        np.testing.assert_allclose(found, np.cos(x), rtol=1e-15)
    nested = jax.vmap(spread)(jnp.stack([x, 2 * x]))
    np.testing.assert_allclose(nested, np.sin([x, 2 * x]), rtol=1e-15)


def test_lanes_are_sharded_over_devices():
    """Even shares stay on their devices, others come to the first of them."""
    program = """
        import jax, jax.numpy as jnp, numpy as np
        import jaxrb as rb

        spread = rb.parallel_vmap(lambda x, y: (x * y, jnp.cumsum(x)[-1]), (0, None))
        devices = jax.devices()
        for n in (5, 8):
            x = jnp.arange(2.0 * n).reshape(n, 2)
            for run in (spread, jax.jit(spread)):
                product, total = run(x, jnp.ones(2) * 3)
                where = set(devices) if n == 8 else {devices[0]}
                assert product.devices() == where or run is not spread
                np.testing.assert_array_equal(product, 3 * x)
                np.testing.assert_array_equal(total, x.sum(1))
        # One that is not the first is cut into chunks as well.
        last = rb.parallel_vmap(jnp.sin, chunk=3, devices=devices[3:])(jnp.arange(8.0))
        assert last.devices() == {devices[3]}
        np.testing.assert_array_equal(last, jnp.sin(jnp.arange(8.0)))
        print("sharded")
    """
    assert "sharded" in on_devices(4, program)


def test_failures_are_raised():
    spread = rb.parallel_vmap(landing, (0, None), chunk=2)
    with pytest.raises(Exception, match="initial_penetration"):  # its type is XLA's
        spread(jnp.array([0.5, 0.6, -0.05, 0.7]), jnp.asarray(0.8))


@pytest.mark.parametrize(
    ("in_axes", "arguments", "message"),
    [
        (1, None, "in_axes must be 0 or None"),
        ((None, None), None, "once 0"),
        ((0,), (jnp.ones(3), jnp.ones(3)), "1 entries for 2 arguments"),
        (0, (jnp.ones(3), jnp.ones(4)), r"one leading axis.*\(3,\), \(4,\)"),
        (0, (jnp.ones(()),), "one leading axis"),
        (0, (jnp.ones((0, 2)),), "at least one lane"),
    ],
)
def test_wrong_arguments_are_named(in_axes, arguments, message):
    with pytest.raises(ValueError, match=message):
        rb.parallel_vmap(jnp.add, in_axes)(*arguments)
