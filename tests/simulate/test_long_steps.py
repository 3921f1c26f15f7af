"""Steps in which a body turns too far for the flow are taken in parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit

import jaxrb as rb

WORLD = rb.World([rb.RigidBody(rb.Ellipsoid((0.2, 0.3, 0.4)))], [rb.HalfSpace()])


def final(spin, dt=0.01, t1=0.4, **options):
    omega = jnp.stack([spin, -1.5 * spin, 2 * spin])[None]
    start = rb.State(jnp.array([[0, 0, 0.6]]), [[1.0, 0, 0, 0]], [[0.2, 0.3, 0.0]], omega)
    return rb.simulate(WORLD, start, rb.LGVCI(dt), t1, throw=False, **options)


def test_fast_bodies_fly_on_with_their_energy_and_angular_momentum():
    """At 0.3 to 5 rad a step; a step of that length alone has no solution from 1 rad on."""
    spins = jnp.array([10.0, 40.0, 100.0, 200.0])
    sols = quick_jit(jax.vmap(lambda spin: final(spin, t1=0.1)))(spins)
    assert np.all(sols.successful)
    energy = np.asarray(sols.stats.energy)
    np.testing.assert_allclose(energy[:, 1], energy[:, 0], rtol=2e-14)
    more = np.asarray(sols.stats.flow_evaluations)
    assert more[0] == 10  # one for each step
    assert np.all(np.diff(more) > 0)


@pytest.mark.slow
def test_derivatives_through_parts_and_an_impact():
    """The parts are constants: the derivative is that of the same sequence of flights."""
    height = lambda spin: final(spin, t1=0.4).final.position[0, 2]  # noqa: E731
    spin, step = 30.0, 1e-5
    sol = final(jnp.asarray(spin))
    assert sol.successful and int(sol.impacts.count) == 1
    assert int(sol.stats.flow_evaluations) > 80
    f = [height(jnp.asarray(spin + k * step)) for k in (-2, -1, 1, 2)]
    expected = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step)
    for derivative in (jax.jacfwd, jax.jacrev):
        found = quick_jit(derivative(height))(jnp.asarray(spin))
        np.testing.assert_allclose(found, expected, rtol=2e-7)


def test_what_no_part_cures_is_a_code():
    """A flow without iterations solves nothing."""
    world = rb.World([rb.RigidBody(rb.Ellipsoid((0.2, 0.3, 0.4)))])
    start = rb.State([[0, 0, 0.0]], [[1.0, 0, 0, 0]], [[0.0, 0, 0]], [[30.0, 20.0, 10.0]])
    method = rb.EventDriven(rb.QuaternionEnergyMomentum(iterations=0), 0.1)
    with pytest.raises(RuntimeError, match="even in a small part of a step"):
        rb.simulate(world, start, method, 0.1)
