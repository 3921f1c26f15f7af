"""Derivatives in float32 of bodies that slide, in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit

import jaxrb as rb

DT, STEPS, G = 0.01, 10, 9.81
SPEED, FRICTION = 2.6, 0.2
METHODS = {
    "located": rb.MoreauJean(DT),
    "rest": rb.LGVCI(DT, on_zeno="rest"),
    "variational": rb.MoreauJean(DT, impacts="stepped"),
}


def slid(method, n_bodies, welded):
    """Where the first of some boxes is after DT STEPS."""
    half = (0.1, 0.1, 0.1)
    joint = rb.Weld(0, other=1, anchor=(0.1, 0, 0), other_anchor=(-0.1, 0, 0))

    def run(speed, friction):
        zero = jnp.zeros((n_bodies, 3), "f4")
        world = rb.World(
            [rb.RigidBody(rb.Box(half), 1.0)] * n_bodies,
            [rb.HalfSpace()],
            gravity=(0, 0, -G),
            contact_law=rb.Coulomb(friction, 0.0),
            joints=[joint] if welded else [],
        )
        places = zero.at[:, 2].set(0.1).at[:, 0].set(0.2 * jnp.arange(n_bodies, dtype="f4"))
        start = rb.State(
            places, jnp.eye(1, 4, dtype="f4").repeat(n_bodies, 0), zero.at[:, 0].set(speed), zero
        )
        sol = rb.simulate(world, start, method, DT * STEPS, max_steps=STEPS, throw=False)
        place = sol.final.position[0]
        return place, (place, sol.successful)

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "n_bodies"), [("located", 1), ("located", 2), ("rest", 1), ("variational", 2)]
)
def test_where_a_box_slides_has_derivatives_in_reverse_mode(method, n_bodies):
    """x = v T - mu g T^2/2, and upwards and sideways nothing. Its spin is round-off of round-off,
    whose square is no number. Two boxes are welded to each other."""
    run = slid(METHODS[method], n_bodies, n_bodies > 1)
    with jax.enable_x64(False):
        numbers = jnp.asarray(SPEED, "f4"), jnp.asarray(FRICTION, "f4")
        reverse = jax.jacrev(run, argnums=(0, 1), has_aux=True)
        (by_speed, by_friction), (place, successful) = quick_jit(reverse)(*numbers)
    assert place.dtype == jnp.float32 and successful
    time = DT * STEPS
    way = SPEED * time - FRICTION * G * time**2 / 2
    np.testing.assert_allclose(place, [way, 0, 0.1], atol=1e-6)
    np.testing.assert_allclose(by_speed, [time, 0, 0], atol=1e-6)
    np.testing.assert_allclose(by_friction, [-G * time**2 / 2, 0, 0], atol=1e-5)
