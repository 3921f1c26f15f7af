"""The law of a rough ball against Garwin's recursion, its energy, and differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, some_slow
from impacts import random_impacts

import jaxrb as rb

MASS, RADIUS = 0.3, 0.05
FLOOR, CEILING = np.eye(3), np.diag([1.0, -1.0, -1.0])  # from the world to the contact frame


def bounce(velocity, spin, frame, law):
    """Of a solid ball on a plane that does not move."""
    inertia = [0.4 * MASS * RADIUS**2] * 3
    ball = rb.CollidingBody(MASS, inertia, (0, 0, RADIUS), frame @ velocity, spin, frame)
    impact = rb.solve_impact(rb.inverse_inertia_matrix(ball), rb.contact_velocity(ball), law)
    dv, domega = ball.velocity_changes(impact.impulse)
    return velocity + frame.T @ np.asarray(dv), spin + np.asarray(domega), impact


def test_a_ball_thrown_under_a_table_comes_back():
    """Garwin (1969): each bounce reverses the velocity of the surface and keeps the angular
    momentum about the point of contact; three of them reverse the throw."""
    velocity, spin = np.array([1.0, 0.0, -1.0]), np.zeros(3)
    v, turn = 1.0, 0.0  # forward, and of the surface, R omega_y
    for frame, side in ((FLOOR, -1), (CEILING, 1), (FLOOR, -1)):
        velocity, spin, impact = bounce(velocity, spin, frame, rb.Rough())
        slip, kept = v + side * turn, v - side * 0.4 * turn
        v, turn = np.linalg.solve([[1, side], [1, -side * 0.4]], [-slip, kept])
        np.testing.assert_allclose(velocity[0], v, rtol=1e-13)
        np.testing.assert_allclose(RADIUS * spin[1], turn, rtol=1e-12)
        assert float(impact.energy_dissipated) == pytest.approx(0, abs=1e-15)
    assert velocity[0] == pytest.approx(-0.97, abs=0.01)
    assert velocity[2] == 1.0


LAWS = jnp.array([[1.0, 1.0], [0.5, 0.0], [0.3, -1.0], [0.0, 0.7]])  # e and beta


@pytest.mark.parametrize("friction", some_slow([None, 0.4], 0.4))
def test_energy_cone_and_separation(friction):
    """It dissipates as it says; with friction no less, in the cone; and never pulls."""
    w, v, *_ = random_impacts(2000, seed=3)

    def one(w, v, e, beta):
        return rb.solve_impact(w, v, rb.Rough(e, beta, friction), throw=False)

    for e, beta in LAWS:
        impact = jax.jit(jax.vmap(one, (0, 0, None, None)))(w, v, e, beta)
        assert (impact.result == rb.IMPACT_RESULTS.successful).all()
        normal, tangential = impact.impulse[:, 2], np.hypot(*impact.impulse[:, :2].T)
        np.testing.assert_allclose(impact.velocity[:, 2], -e * v[:, 2], atol=1e-12)
        along = v[:, 2] ** 2 / w[:, 2, 2] / 2
        rest = np.einsum("ni,ni->n", v, np.linalg.solve(w, v[..., None])[..., 0]) / 2 - along
        expected = (1 - e**2) * along + (1 - beta**2) * rest
        lost = impact.energy_dissipated - expected
        limited = np.abs(lost) > 1e-9 * (along + rest)
        assert (np.asarray(impact.energy_dissipated) > -1e-12 * (along + rest)).all()
        assert (normal > -1e-13 * np.abs(impact.impulse).max(1)).all()
        slack = (np.inf if friction is None else friction) * np.maximum(normal, 1e-300) - tangential
        assert (slack > -1e-12 * (normal + tangential)).all()
        if friction is None:
            # What is limited would pull.
            assert (normal[limited] < 1e-9 * tangential[limited]).all()
        else:
            assert (np.abs(slack[limited]) < 1e-9 * normal[limited]).all()
            assert limited.any() == (beta > -1)


def hit():
    """One in which no normal impulse would have to pull."""
    w, v, *_ = (x[0] for x in random_impacts(1, seed=4))
    return w, v


def test_slip_after():
    """-beta times what N leaves, and what e N adds; 0 is said to stick; -1 is frictionless."""
    w, v = hit()
    e, beta = 0.6, 0.3
    after = rb.solve_impact(w, v, rb.Rough(e, beta)).velocity
    push = -v[2] / w[2, 2] * w[:2, 2]
    np.testing.assert_allclose(after[:2], -beta * (v[:2] + push) + e * push, atol=1e-14)
    plastic = rb.solve_impact(w, v, rb.Rough(0.0, 0.0))
    np.testing.assert_allclose(plastic.velocity, 0, atol=1e-14)
    assert list(plastic.modes) == [rb.ContactMode.slide, rb.ContactMode.stick]
    smooth = rb.solve_impact(w, v, rb.Rough(0.6, -1.0))
    plain = rb.solve_impact(w, v, rb.Frictionless(0.6))
    np.testing.assert_allclose(smooth.impulse, plain.impulse, atol=1e-15)
    assert smooth.event_sequence == plain.event_sequence == "cr"


def _impulse(x):
    return rb.solve_impact(hit()[0], x[3:], rb.Rough(x[0], x[1], x[2]), throw=False).impulse


IMPULSE = jax.jit(_impulse)
FORWARD, REVERSE = jax.jit(jax.jacfwd(_impulse)), jax.jit(jax.jacrev(_impulse))


def test_derivatives():
    """By e, beta, mu and the velocity, where friction limits the impulse and where not."""
    v = hit()[1]
    for mu in (0.02, 9.0):
        x = jnp.array([0.6, 0.3, mu, *v])
        found = REVERSE(x)
        np.testing.assert_allclose(FORWARD(x), found, atol=1e-14)
        np.testing.assert_allclose(found, differences(IMPULSE, x), atol=1e-9)
        assert (np.abs(found[:, 2]).max() > 0) == (mu < 1)


def test_refused():
    with pytest.raises(ValueError, match=r"Rough.tangential_restitution must be in the interval"):
        rb.Rough(1.0, 1.5)
    with pytest.raises(ValueError, match=r"Rough.friction must be 0 or more; got -1.0"):
        rb.Rough(1.0, 1.0, -1.0)
    with pytest.raises(ValueError, match="law must say how the impulse develops"):
        rb.impulse_curve(np.eye(3), [1.0, 0.0, -1.0], rb.Rough())
