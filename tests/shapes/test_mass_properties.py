"""Mass properties against textbook formulas and independent integration.

Closed forms agree to a few round-offs (1e-14). For rounded boxes the solid is integrated
point by point of its (x, y) shadow with Gauss-Legendre nodes in the angle that makes the
integrand smooth: 40 nodes a piece are exact to round-off, so 1e-12 is asked.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb

AXES = np.array([2.0, 3.0, 0.5])
HALF = np.array([0.5, 1.2, 0.8])
DENSITY = 700.0
TIGHT = 1e-14


def principal(mass, squares):
    """m (<y^2> + <z^2>, ...) from the mean squares."""
    return mass * (np.sum(squares) - squares)


def pieces(half, radius):
    """Nodes u >= 0, weights, and the radius left for the other axes.

    A rounded box is a point's distance to the core being at most `radius`; on [0, half] that
    axis uses none of it, and beyond, at half + r sin(t), it leaves r cos(t).
    """
    t, w = np.polynomial.legendre.leggauss(40)
    t, w = (t + 1) / 2, w / 2
    radius = np.asarray(radius)[..., None]
    angle = t * np.pi / 2
    inner = np.broadcast_to(half * t, (*radius.shape[:-1], 40))
    u = np.concatenate([inner, half + radius * np.sin(angle)], axis=-1)
    left = np.concatenate([np.broadcast_to(radius, inner.shape), radius * np.cos(angle)], axis=-1)
    weight = np.concatenate(
        [np.broadcast_to(half * w, inner.shape), radius * np.cos(angle) * w * np.pi / 2], axis=-1
    )
    return u, weight, left


def integrate_rounded_box(half, radius):
    """Volume and mean squares, by quadrature over one octant."""
    x, wx, left = pieces(half[0], np.asarray(radius))
    y, wy, left = pieces(half[1], left)
    top = half[2] + left
    weight = wx[:, None] * wy
    volume = np.sum(weight * top)
    squares = [
        np.sum(weight * top * x[:, None] ** 2),
        np.sum(weight * top * y**2),
        np.sum(weight * top**3 / 3),
    ]
    return 8 * volume, np.array(squares) / volume


def slices(pieces):
    """Volume and mean squares of a solid of revolution, from its slices across z.

    Pieces are (from, to, squared radius by z), polynomials of low degree there.
    """
    t, w = np.polynomial.legendre.leggauss(8)
    sums = np.zeros(3)
    for low, high, squared in pieces:
        z, weight = (low + high + (high - low) * t) / 2, w * (high - low) / 2
        area = np.pi * squared(z)
        sums += [np.sum(weight * f) for f in (area, area * squared(z) / 4, area * z**2)]
    volume, across, along = sums
    return volume, np.array([across, across, along]) / volume


CAP = (1.1, 1.5, lambda z: 0.4**2 - (np.abs(z) - 1.1) ** 2)
CAPSULE = [(-1.1, 1.1, lambda z: 0.4**2 + 0 * z), CAP, (-1.5, -1.1, CAP[2])]

# name: (shape, volume, mean squares of the coordinates)
SOLIDS = {
    "capsule": (rb.Capsule(0.4, 1.1), *slices(CAPSULE)),
    "rounded capsule": (rb.Rounded(rb.Capsule(0.3, 1.1), 0.1), *slices(CAPSULE)),
    "cylinder": (rb.Cylinder(0.6, 0.9), *slices([(-0.9, 0.9, lambda z: 0.36 + 0 * z)])),
    "sphere": (rb.Sphere(0.7), 4 / 3 * np.pi * 0.7**3, np.full(3, 0.7**2 / 5)),
    "ellipsoid": (rb.Ellipsoid(AXES), 4 / 3 * np.pi * 2 * 3 * 0.5, AXES**2 / 5),
    "box": (rb.Box(HALF), 8 * 0.5 * 1.2 * 0.8, HALF**2 / 3),
    "rounded sphere": (
        rb.Rounded(rb.Sphere(0.5), 0.2),
        4 / 3 * np.pi * 0.7**3,
        np.full(3, 0.7**2 / 5),
    ),
    "rounded box": (rb.Rounded(rb.Box(HALF), 0.3), *integrate_rounded_box(HALF, 0.3)),
    "very round box": (rb.Rounded(rb.Box(HALF), 5.0), *integrate_rounded_box(HALF, 5.0)),
    "hardly round box": (rb.Rounded(rb.Box(HALF), 1e-3), *integrate_rounded_box(HALF, 1e-3)),
    "twice rounded box": (
        rb.Rounded(rb.Rounded(rb.Box(HALF), 0.1), 0.2),
        *integrate_rounded_box(HALF, 0.3),
    ),
}


@pytest.mark.parametrize("name", SOLIDS)
def test_mass_properties(name):
    shape, volume, squares = SOLIDS[name]
    tolerance = 1e-12 if "box" in name else TIGHT
    for properties, mass in (
        (shape.mass_properties(density=DENSITY), DENSITY * volume),
        (shape.mass_properties(mass=2.5), 2.5),
    ):
        np.testing.assert_allclose(properties.volume, volume, rtol=tolerance)
        np.testing.assert_allclose(properties.mass, mass, rtol=tolerance)
        np.testing.assert_array_equal(properties.center_of_mass, np.zeros(3))
        np.testing.assert_allclose(properties.inertia, principal(mass, squares), rtol=tolerance)


def test_the_quadrature_knows_a_box_and_a_counted_solid():
    """Of the oracle itself: no rounding, and a count of cells (error one cell in 200)."""
    volume, squares = integrate_rounded_box(HALF, 0.0)
    np.testing.assert_allclose(volume, 8 * np.prod(HALF), rtol=1e-13)
    np.testing.assert_allclose(squares, HALF**2 / 3, rtol=1e-13)
    cells = (np.arange(100) + 0.5) / 100
    points = np.stack(np.meshgrid(*(cells * (h + 0.3) for h in HALF), indexing="ij"), axis=-1)
    inside = np.linalg.norm(np.maximum(points - HALF, 0), axis=-1) <= 0.3
    volume, squares = integrate_rounded_box(HALF, 0.3)
    np.testing.assert_allclose(8 * np.prod(HALF + 0.3) * inside.mean(), volume, rtol=1e-3)
    np.testing.assert_allclose((points[inside] ** 2).mean(axis=0), squares, rtol=1e-3)


def test_rounding_by_nothing():
    found = rb.Rounded(rb.Box(HALF), 0.0).mass_properties(density=DENSITY)
    np.testing.assert_allclose(found.mass, DENSITY * 8 * np.prod(HALF), rtol=TIGHT)
    np.testing.assert_allclose(
        found.inertia, principal(DENSITY * 8 * np.prod(HALF), HALF**2 / 3), rtol=TIGHT
    )


def test_a_small_box_with_a_large_radius_is_a_ball():
    found = rb.Rounded(rb.Box([1e-9, 2e-9, 1e-9]), 2.0).mass_properties(mass=3.0)
    # The half extents change volume and inertia by about 3 half/radius, 3e-9.
    np.testing.assert_allclose(found.volume, 4 / 3 * np.pi * 8, rtol=1e-8)
    np.testing.assert_allclose(found.inertia, 3.0 * 0.4 * 4 * np.ones(3), rtol=1e-8)


@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev])
def test_derivative_by_the_semi_axes(jacobian):
    a = AXES

    def inertia(axes, **given):
        return rb.Ellipsoid(axes).mass_properties(**given).inertia

    at_mass = jax.jit(jacobian(lambda axes: inertia(axes, mass=2.5)))(jnp.asarray(a))
    # I_i = m/5 (sum of the other squares).
    expected = 2.5 * 2 / 5 * a * (1 - np.eye(3))
    np.testing.assert_allclose(at_mass, expected, atol=1e-13)
    at_density = jax.jit(jacobian(lambda axes: inertia(axes, density=DENSITY)))(jnp.asarray(a))
    mass = DENSITY * 4 / 3 * np.pi * np.prod(a)
    moments = principal(mass, a**2 / 5)
    expected = mass * 2 / 5 * a * (1 - np.eye(3)) + moments[:, None] / a
    np.testing.assert_allclose(at_density, expected, rtol=1e-13)


def test_derivative_by_the_rounding_radius_is_the_surface():
    """dV/dr of a rounded solid is its area: six faces, quarter cylinders, a sphere."""
    a, b, c = HALF
    r = 0.3

    def volume(r):
        return rb.Rounded(rb.Box(HALF), r).mass_properties(mass=1.0).volume

    expected = 8 * (a * b + b * c + c * a) + 4 * np.pi * r * (a + b + c) + 4 * np.pi * r**2
    np.testing.assert_allclose(jax.grad(volume)(r), expected, rtol=1e-13)


@pytest.mark.parametrize("given", [{}, {"density": 1.0, "mass": 1.0}])
def test_exactly_one_of_density_and_mass(given):
    with pytest.raises(ValueError, match="exactly one of density and mass"):
        rb.Sphere(1.0).mass_properties(**given)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_lengths_must_be_positive_and_finite(bad):
    for build, name in (
        (rb.Sphere, "Sphere.radius"),
        (lambda u: rb.Ellipsoid([1.0, u, 2.0]), "Ellipsoid.semi_axes"),
        (lambda u: rb.Box([1.0, 2.0, u]), "Box.half_extents"),
    ):
        with pytest.raises(ValueError, match=rf"{name} must be positive and finite"):
            build(bad)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: rb.Sphere([1.0, 2.0]), r"Sphere.radius must have shape \(\)"),
        (lambda: rb.Sphere("large"), "Sphere.radius"),
        (lambda: rb.Sphere(1j), "Sphere.radius must be real"),
        (lambda: rb.Ellipsoid(1.0), r"Ellipsoid.semi_axes must have shape \(3,\)"),
        (lambda: rb.Ellipsoid([1.0, 2.0]), r"Ellipsoid.semi_axes must have shape \(3,\)"),
        (lambda: rb.Box(np.ones((3, 1))), r"Box.half_extents must have shape \(3,\)"),
        (lambda: rb.Rounded(rb.Box([1, 1, 1]), -0.1), "Rounded.radius must be non-negative"),
        (lambda: rb.Rounded(rb.Box([1, 1, 1]), np.nan), "Rounded.radius"),
        (lambda: rb.Rounded(rb.Box([1, 1, 1]), np.inf), "Rounded.radius"),
        (lambda: rb.Rounded(rb.Box([1, 1, 1]), [0.1]), "Rounded.radius must have shape"),
        (lambda: rb.Rounded(rb.HalfSpace(), 0.1), "Rounded.shape must be a bounded shape"),
        (lambda: rb.Rounded(1.0, 0.1), "Rounded.shape must be a bounded shape"),
        (lambda: rb.HalfSpace((0, 0, 0)), "HalfSpace.normal must be finite and not zero"),
        (lambda: rb.HalfSpace((0, np.nan, 1)), "HalfSpace.normal must be finite"),
        (lambda: rb.HalfSpace((0, 1)), r"HalfSpace.normal must have shape \(3,\)"),
        (lambda: rb.HalfSpace(offset=np.inf), "HalfSpace.offset must be finite"),
        (lambda: rb.HalfSpace(offset=[1.0]), r"HalfSpace.offset must have shape \(\)"),
    ],
)
def test_bad_input_names_the_argument(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_integers_become_floating_point():
    assert rb.Box([1, 2, 3]).half_extents.dtype == jnp.float64
