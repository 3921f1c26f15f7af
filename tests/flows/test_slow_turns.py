"""Bodies that hardly turn, whose squared momenta are no numbers of single precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit

import jaxrb as rb
from jaxrb.simulate.system import build

H, HALF = 0.01, np.array([0.1, 0.15, 0.2])
SPEEDS = np.float32(10.0) ** -np.arange(2, 46, dtype="f4")
DIRECTION = np.array([0.5, 1.0, -0.7], "f4")
FLOWS = [
    rb.LieVariational(),
    rb.ExactFlight(),
    rb.FourthOrder(rb.LieVariational()),
    rb.EnergyMidpoint(),
    rb.SimoWong(),
    rb.QuaternionEnergyMomentum(),
    rb.QuaternionVariational(),
    rb.DirectorEnergyMomentum(),
]


def turned(flow, omega, forces=()):
    """Twice the vector of a step's quaternion per second, and the error of the step."""
    body = rb.RigidBody(rb.Box(tuple(HALF)), 1.0)
    world = rb.World([body], gravity=(0, 0, 0), forces=list(forces))
    zero = jnp.zeros((1, 3), omega.dtype)
    stretch = jnp.zeros((1, 6), omega.dtype) if flow.has_stretch else None
    start = rb.State(zero, jnp.eye(1, 4, dtype=omega.dtype), zero, omega[None], stretch)
    system, phase = build(world, start)
    step = flow.step(jnp.float32(0.0), jnp.float32(H), phase, system.dynamics)
    return 2 * step.phase.orientation.v.array()[0] / H, step.error


@pytest.mark.parametrize("dragged", [False, True], ids=["free", "dragged"])
@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: type(flow).__name__)
def test_a_step_has_derivatives_however_slow_the_turn(flow, dragged):
    """In both modes, of all that it returns: a body turns by h omega, about."""
    with jax.enable_x64(False):
        forces = [rb.Drag(0, linear=0.1, angular=1e-4)] if dragged else []

        def both(omega):
            of_turn = lambda omega: turned(flow, omega, forces)[0]  # noqa: E731
            moved, change = jax.jvp(of_turn, (omega,), (jnp.ones(3, "f4"),))
            # The error takes part: nothing is known of what a program does with it.
            _, pull = jax.vjp(lambda omega: turned(flow, omega, forces), omega)
            (back,) = pull((jnp.ones(3, "f4"), jnp.zeros((), "f4")))
            return moved, change, back

        omega = SPEEDS[:, None] * DIRECTION[None]
        moved, change, back = quick_jit(jax.vmap(both))(omega)
    assert moved.dtype == jnp.float32
    # The turns are of 1e-4 rad at most.
    np.testing.assert_allclose(moved, omega, atol=2e-4)
    np.testing.assert_allclose(change, 1.0, atol=2e-4)
    np.testing.assert_allclose(back, 1.0, atol=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: type(flow).__name__)
def test_second_derivatives_however_slow_the_turn(flow):
    """Those of h/2 of Euler's J^{-1} (J omega x omega), which all flows of order 2 have."""
    j = np.array(
        [HALF[1] ** 2 + HALF[2] ** 2, HALF[0] ** 2 + HALF[2] ** 2, HALF[0] ** 2 + HALF[1] ** 2]
    )
    expected = np.zeros((3, 3, 3))
    for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        expected[a, b, c] = expected[a, c, b] = H / 2 * (j[b] - j[c]) / j[a]
    with jax.enable_x64(False):
        hessian = jax.jacrev(jax.jacfwd(lambda omega: turned(flow, omega)[0]))
        found = quick_jit(jax.vmap(hessian))(SPEEDS[:, None] * DIRECTION[None])
    # The next terms are of h^2 omega, 1e-6 at most.
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), atol=1e-6)
