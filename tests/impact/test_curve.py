"""The course of an impact against SciPy's integration of its hodograph."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit
from impacts import APPROACH, ICOSAHEDRON
from scipy.integrate import solve_ivp

import jaxrb as rb


@pytest.mark.parametrize(("mu", "vz"), [(0.8, -0.0772), (0.25, -0.8), (3.0, -0.5)])
@pytest.mark.slow
def test_points_are_on_the_hodograph(mu, vz):
    """gamma' = -mu B gamma^ + d (31) while it slides; at the end the whole impulse. With mu = 3
    the contact is at first pressed together: v_z falls."""
    v = np.array([*APPROACH[:2], vz])
    law = rb.Coulomb(mu, 0.9)
    curve = rb.impulse_curve(ICOSAHEDRON, v, law, n=50)
    impact = rb.solve_impact(ICOSAHEDRON, v, law)
    np.testing.assert_array_equal(curve.impulse[0], 0.0)
    np.testing.assert_allclose(curve.impulse[-1], impact.impulse, rtol=0, atol=1e-13)
    np.testing.assert_allclose(curve.velocity[-1], impact.velocity, rtol=0, atol=1e-13)
    normal = np.asarray(curve.impulse[:, 2])
    assert np.all(np.diff(normal) > 0)

    b, d = ICOSAHEDRON[:2, :2], ICOSAHEDRON[:2, 2]
    slides = normal < min(float(impact.events.s), np.inf) * 0.95

    def rate(_, gamma):
        return d - mu * b @ gamma / np.linalg.norm(gamma)

    span = (0.0, normal[slides][-1])
    truth = solve_ivp(rate, span, v[:2], "DOP853", normal[slides], rtol=1e-12, atol=1e-14).y.T
    np.testing.assert_allclose(curve.velocity[slides, :2], truth, atol=1e-11)
    assert slides.sum() > 5


@pytest.mark.slow
def test_without_friction_it_is_straight():
    curve = rb.impulse_curve(ICOSAHEDRON, APPROACH, rb.Frictionless(0.5), n=5)
    np.testing.assert_allclose(curve.impulse[:, :2], 0.0)
    assert curve.impulse.shape == (5, 3)


def test_refused():
    with pytest.raises(ValueError, match="n must be at least 2; got 1"):
        rb.impulse_curve(ICOSAHEDRON, APPROACH, rb.Coulomb(0.3), n=1)
    with pytest.raises(RuntimeError, match="symmetric and positive definite"):
        rb.impulse_curve(-jnp.eye(3), APPROACH, rb.Coulomb(0.3))


@pytest.mark.long
def test_precision_and_derivative():
    """In float32 to its round-off; derivatives by mu and v, through jit, against differences."""
    single = rb.impulse_curve(
        jnp.asarray(ICOSAHEDRON, "f4"), jnp.asarray(APPROACH, "f4"), rb.Coulomb(0.8, 0.9), n=20
    )
    double = rb.impulse_curve(ICOSAHEDRON, APPROACH, rb.Coulomb(0.8, 0.9), n=20)
    assert single.impulse.dtype == single.velocity.dtype == jnp.float32
    scale = float(jnp.abs(double.impulse).max())
    np.testing.assert_allclose(single.impulse, double.impulse, atol=2e-6 * scale)

    def middle(numbers):
        v = jnp.asarray(APPROACH) + numbers[1] * jnp.array([0.3, -0.2, -0.1])
        return rb.impulse_curve(ICOSAHEDRON, v, rb.Coulomb(numbers[0], 0.9), n=20).impulse[9]

    numbers, h = jnp.array([0.8, 0.0]), 1e-5
    found = quick_jit(jax.jacrev(middle))(numbers)
    steps = h * jnp.eye(2)
    expected = jnp.stack([middle(numbers + s) - middle(numbers - s) for s in steps], 1) / (2 * h)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(jax.jacfwd(middle)(numbers), found, rtol=1e-12, atol=1e-14)
