"""What is saved and differentiated is the motion that was found.

A trajectory is flown again for its derivatives and for some of what is saved. Where impulses are
known, bodies that they hold do not hold on to each other: flown on from where the replay itself
arrives, here it would leave the run by a factor of some ten in each step.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences, quick_jit

import jaxrb as rb

DT, STEPS, HALF = 0.02, 40, 0.1


class TowardsAim(eqx.Module):
    """A torque that grows with the angle that is missing in a joint of the arm."""

    stiffness: jax.Array
    joint: int = eqx.field(static=True)

    def __call__(self, t, state, args):
        return self.stiffness * (0.3 - rb.joint_coordinates(arm(), state)[self.joint])


def arm(stiffness=None):
    """Two links whose hinges are not parallel, with rotors that are heavy beside them, without
    servos or with stiff ones."""
    bodies = [rb.RigidBody(rb.Box((HALF, 0.05, 0.03)))] * 2
    place = {"anchor": (-HALF, 0, 0), "armature": 1.0}
    first = rb.Hinge(0, (0, 0, 1), **place)
    second = rb.Hinge(1, (0, 1, 0), other=0, other_anchor=(HALF, 0, 0), **place)
    servos = []
    if stiffness is not None:
        servos = [rb.Motor(i, TowardsAim(stiffness, i), damping=1.0) for i in range(2)]
    return rb.World(bodies, joints=[first, second], forces=servos)


def moved(stiffness, t1=DT * STEPS, save=None):
    """The world and a run from rest, with links in one line."""
    still = jnp.zeros((2, 3))
    upright = jnp.broadcast_to(jnp.asarray([1.0, 0, 0, 0]), (2, 4))
    start = rb.State(still.at[:, 0].set(jnp.asarray([HALF, 3 * HALF])), upright, still, still)
    world, options = arm(stiffness), {"max_steps": STEPS, "save": save, "backend": "xla"}
    return world, rb.simulate(world, start, rb.LGVCI(DT), t1, **options)


def angles(world, state):
    """Of the joints, and their rates; shape (4,)."""
    both = rb.joint_coordinates(world, state), rb.joint_velocities(world, state)
    return jnp.concatenate(both)


@pytest.mark.slow
def test_saved_states_are_those_of_the_run():
    """Joints hold in each, and it is where a run to its time ends."""

    def saved(stiffness):
        world, sol = moved(stiffness, save=rb.SaveAt(every=1))
        off = jax.vmap(lambda state: jnp.stack(rb.joint_violations(world, state)))(sol.states)
        return off, jax.vmap(lambda state: angles(world, state))(sol.states)

    def end(stiffness, t1):
        world, sol = moved(stiffness, t1)
        return angles(world, sol.final)

    stiffness, end = jnp.asarray(500.0), quick_jit(end)
    off, found = jax.jit(saved)(stiffness)  # fused: what is flown again is rounded otherwise
    assert found.shape == (STEPS + 1, 4) and jnp.max(jnp.abs(off)) < 1e-10
    for n in (10, 25, STEPS):
        # The last step of a run has its own length: round-off of its time counts in the rates.
        np.testing.assert_allclose(found[n], end(stiffness, n * DT), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [jax.jacfwd, *before_releases(jax.jacrev)])
def test_derivatives_are_those_of_the_run(mode):
    """By the stiffness, after all steps."""

    def end(stiffness):
        world, sol = moved(stiffness)
        return angles(world, sol.final)

    stiffness = jnp.asarray(500.0)
    expected = differences(quick_jit(end), stiffness, 1e-2)
    assert jnp.max(jnp.abs(expected)) > 1e-4
    np.testing.assert_allclose(quick_jit(mode(end))(stiffness), expected, rtol=1e-6, atol=1e-10)
