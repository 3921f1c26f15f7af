"""Steps in which a body turns too far for the flow are taken in parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit

import jaxrb as rb

WORLD = rb.World([rb.RigidBody(rb.Ellipsoid((0.2, 0.3, 0.4)))], [rb.HalfSpace()])


def final(spin, dt=0.01, t1=0.4, detect="end", **options):
    omega = jnp.stack([spin, -1.5 * spin, 2 * spin])[None]
    start = rb.State(jnp.array([[0, 0, 0.6]]), [[1.0, 0, 0, 0]], [[0.2, 0.3, 0.0]], omega)
    return rb.simulate(WORLD, start, rb.LGVCI(dt, detect=detect), t1, throw=False, **options)


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
@pytest.mark.parametrize(("detect", "impacts"), [("end", 1), ("proved", 2)])
def test_derivatives_through_parts_and_impacts(detect, impacts):
    """A part is a fraction of what is left of its step, which depends on the time of an impact, on
    t1 and on dt. The run ends in parts of the step of its first impact."""

    def end(x):
        spin, t1, dt = x
        sol = final(spin, dt, t1, detect, max_steps=40)
        state = sol.final
        parts = state.position, state.quaternion, state.velocity, state.angular_velocity / 30
        return jnp.concatenate([part[0] for part in parts]), sol

    x = jnp.array([30.0, 0.265, 0.03])
    run = quick_jit(end)
    _, sol = run(x)
    assert sol.successful and int(sol.impacts.count) == impacts
    # Of nine steps, each in four parts that take two evaluations more to find.
    assert int(sol.stats.flow_evaluations) > 50
    expected = []
    for k, step in enumerate((1e-5, 1e-6, 1e-7)):
        f = [np.asarray(run(x.at[k].add(m * step))[0]) for m in (-2, -1, 1, 2)]
        expected.append((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step))
    expected = np.stack(expected, axis=1)
    largest = np.abs(expected).max(axis=0)
    for derivative in (jax.jacfwd, jax.jacrev):
        found = quick_jit(derivative(lambda x: end(x)[0]))(x)
        np.testing.assert_allclose(np.asarray(found) / largest, expected / largest, atol=2e-7)


def test_flights_do_not_depend_on_what_is_kept_of_them():
    """The log of a run is cut into blocks, some of which end between two parts of a step."""
    kept = [None, rb.SaveAt(final=True, impacts=2), rb.SaveAt(every=1)]
    ends = [final(jnp.asarray(30.0), 0.03, 0.265, save=save).final for save in kept]
    for end in ends[1:]:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-13), ends[0], end)


def test_what_no_part_cures_is_a_code():
    """A flow without iterations solves nothing."""
    world = rb.World([rb.RigidBody(rb.Ellipsoid((0.2, 0.3, 0.4)))])
    start = rb.State([[0, 0, 0.0]], [[1.0, 0, 0, 0]], [[0.0, 0, 0]], [[30.0, 20.0, 10.0]])
    method = rb.EventDriven(rb.QuaternionEnergyMomentum(iterations=0), 0.1)
    with pytest.raises(RuntimeError, match="even in a small part of a step"):
        rb.simulate(world, start, method, 0.1)
