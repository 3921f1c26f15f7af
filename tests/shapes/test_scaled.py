"""A scaled solid is the solid of scaled numbers."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb

FACTOR = 2.5
SHIFT, TURN = np.array([0.3, -0.2, 0.5]), (0.9, 0.1, -0.3, 0.2)
# (solid, the same with all lengths multiplied)
PAIRS = {
    "ellipsoid": (rb.Ellipsoid((1.0, 2.0, 0.5)), rb.Ellipsoid((2.5, 5.0, 1.25))),
    "placed cone": (
        rb.Placed(rb.Cone(0.8, 1.2), SHIFT, TURN),
        rb.Placed(rb.Cone(2.0, 3.0), FACTOR * SHIFT, TURN),
    ),
    "rounded box": (
        rb.Rounded(rb.Box((0.4, 0.6, 0.8)), 0.2),
        rb.Rounded(rb.Box((1.0, 1.5, 2.0)), 0.5),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_scaled(name):
    shape, expected = PAIRS[name]
    scaled = rb.Scaled(shape, FACTOR)
    points = np.random.default_rng(0).normal(size=(50, 3))
    for quantity in ("signed_distance", "support"):
        found, truth = (getattr(s, quantity)(jnp.asarray(points)) for s in (scaled, expected))
        np.testing.assert_allclose(found, truth, rtol=0, atol=1e-14)
    np.testing.assert_allclose(scaled.bounding_radius(), expected.bounding_radius(), rtol=1e-15)
    assert scaled.is_centered == expected.is_centered
    found, truth = (s.mass_properties(density=0.7) for s in (scaled, expected))
    for quantity in ("volume", "mass", "center_of_mass", "inertia"):
        np.testing.assert_allclose(
            getattr(found, quantity), getattr(truth, quantity), rtol=1e-13, atol=1e-14
        )


def test_rounding_a_scaled_box():
    """The radius is not scaled."""
    found = rb.Rounded(rb.Scaled(rb.Box((0.4, 0.6, 0.8)), FACTOR), 0.5)
    truth = PAIRS["rounded box"][1]
    np.testing.assert_allclose(
        found.mass_properties(mass=1.0).inertia, truth.mass_properties(mass=1.0).inertia, rtol=1e-13
    )


def test_scaled_parts_and_lengths():
    union = rb.Scaled(rb.Union(rb.Sphere(0.5), rb.Placed(rb.Sphere(0.3), SHIFT)), FACTOR)
    assert len(union.parts()) == 2
    np.testing.assert_allclose(union.lengths(), [0.5, 0.3, FACTOR])


@pytest.mark.parametrize(
    ("message", "shape", "factor"),
    [
        ("Scaled.shape must be a bounded", rb.HalfSpace(), 1.0),
        ("Scaled.factor must be positive", rb.Sphere(1.0), 0.0),
        (r"Scaled.factor must have shape \(\)", rb.Sphere(1.0), (1.0, 2.0, 3.0)),
    ],
)
def test_refuses(message, shape, factor):
    with pytest.raises(ValueError, match=message):
        rb.Scaled(shape, factor)
