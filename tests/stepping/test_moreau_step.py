"""Which steps of what rests seek impulses anew."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxrb as rb
from jaxrb.flows import LieVariational

DT, WEIGHT = 0.01, 9.81


def test_what_rests_keeps_its_impulses():
    """A ball on a plane, whose impulse balances its weight but for 6e-13 of it, which leaves a
    little more velocity in each step. The step that finds that too much undoes what the steps
    before have left, too: its impulse leaves as much again in the next, which must not be kept, or
    impulses would be sought in every second step for ever."""
    body, law = rb.RigidBody(rb.Sphere(0.1), 1.0), rb.Frictionless(0.0)
    world = rb.World([body], [rb.HalfSpace()], contact_law=law)
    zero = jnp.zeros((1, 3))
    state = rb.State(zero.at[0, 2].set(0.1), jnp.eye(1, 4), zero, zero)
    method = rb.MoreauJean(DT, impacts="stepped")
    system, phase = method.build(world, state, None)
    events, dt = method.events(system, jnp.asarray(DT)), jnp.asarray(DT)
    mode = events.initial_mode(jnp.zeros(()), phase)
    step = jax.jit(lambda *given: events.flow(LieVariational(), jnp.zeros(()), dt, *given))

    impulse = jnp.zeros_like(mode.found.impulse.contact).at[0].set(WEIGHT * DT * (1 + 6e-13))
    # The ball has not come to rest just now, which would have its impulse sought in any case.
    mode = eqx.tree_at(
        lambda mode: (mode.found.impulse.contact, mode.found.still),
        mode,
        (impulse, jnp.ones((), bool)),
    )
    impulses = [impulse]
    for _ in range(20):
        flown = step(phase, mode)
        phase, mode = flown.phase, flown.mode
        impulses.append(mode.found.impulse.contact)
        assert abs(phase.linear_momentum.z[0]) <= 2e-12 * WEIGHT * DT
    impulses = np.array(impulses)[:, 0, 0] / (WEIGHT * DT)
    assert np.sum(np.abs(np.diff(impulses)) > 1e-13) == 2
    assert abs(impulses[-1] - 1) < 1e-14
