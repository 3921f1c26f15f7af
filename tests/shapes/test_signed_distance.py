"""Signed distances against their dual, which the support function alone determines.

For a convex solid the signed distance is max {d . p - h(d) : |d| = 1}, inside and outside.
The support functions h are written out here; the maximum is found by a random search whose
steps shrink to 1e-10: it comes to within 1e-6 below the maximum also along ridges, where
random steps rarely lead up.
"""

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences
from scipy.spatial.transform import Rotation

import jaxrb as rb

AXES = np.array([2.0, 3.0, 0.5])
HALF = np.array([0.5, 1.2, 0.8])
TURN = Rotation.from_rotvec([0.4, -0.9, 0.6])
SHIFT = np.array([0.3, -0.2, 0.5])


CORNERS = np.random.default_rng(2).normal(size=(9, 3))


def rim(d, radius):
    return radius * np.hypot(d[..., 0], d[..., 1])


def ellipsoid(d):
    return np.linalg.norm(AXES * d, axis=-1)


# name: (shape, support function)
SOLIDS = {
    "sphere": (rb.Sphere(0.7), lambda d: np.full(d.shape[:-1], 0.7)),
    "ellipsoid": (rb.Ellipsoid(AXES), ellipsoid),
    "disc": (rb.Ellipsoid((2.0, 2.0, 0.1)), lambda d: np.linalg.norm([2, 2, 0.1] * d, axis=-1)),
    "box": (rb.Box(HALF), lambda d: np.abs(d) @ HALF),
    "rounded box": (rb.Rounded(rb.Box(HALF), 0.3), lambda d: np.abs(d) @ HALF + 0.3),
    "capsule": (rb.Capsule(0.4, 1.1), lambda d: 0.4 + 1.1 * np.abs(d[..., 2])),
    "cylinder": (rb.Cylinder(0.6, 0.9), lambda d: rim(d, 0.6) + 0.9 * np.abs(d[..., 2])),
    "cone": (rb.Cone(0.8, 1.5), lambda d: np.maximum(rim(d, 0.8), 1.5 * d[..., 2])),
    "polyhedron": (rb.ConvexPolyhedron(CORNERS, pad_to=12), lambda d: np.max(d @ CORNERS.T, -1)),
    "placed": (
        rb.Placed(rb.Ellipsoid(AXES), SHIFT, TURN.as_quat(scalar_first=True) * 2),
        lambda d: ellipsoid(d @ TURN.as_matrix()) + d @ SHIFT,
    ),
}


def of_revolution(support, point):
    """The same for a solid of revolution, in the plane of its axis and the point."""
    out = point[:2] / np.linalg.norm(point[:2])
    middle, width = 0.0, np.pi
    for _ in range(4):
        angle = middle + width * np.linspace(-1, 1, 4001)
        d = np.concatenate([np.cos(angle)[:, None] * out, np.sin(angle)[:, None]], axis=1)
        value = d @ point - support(d)
        middle, width = angle[value.argmax()], width / 1000
    return value.max()


def by_search(support, point, rng):
    def value(d):
        return d @ point - support(d)

    d = rng.normal(size=(4000, 3))
    d /= np.linalg.norm(d, axis=-1, keepdims=True)
    best = d[np.argsort(value(d))[-5:]]  # several, should there be local maxima
    step = 0.1
    while step > 1e-10:
        near = best[:, None] + step * rng.normal(size=(5, 60, 3))
        near = np.concatenate([best[:, None], near], axis=1)
        near /= np.linalg.norm(near, axis=-1, keepdims=True)
        index = value(near).argmax(axis=1)
        step *= 0.9
        best = near[np.arange(5), index]
    return value(best).max()


def points(name, n=24):
    """Inside and out, on the scale of the solid."""
    rng = np.random.default_rng(list(SOLIDS).index(name))
    return rng.normal(size=(n, 3)) * rng.choice([0.2, 0.6, 1.5], size=(n, 1))


@pytest.mark.parametrize("name", SOLIDS)
def test_signed_distance(name):
    shape, support = SOLIDS[name]
    rng = np.random.default_rng(7)
    at = points(name)
    found = np.asarray(eqx.filter_jit(shape.signed_distance)(at))
    if name in ("capsule", "cylinder", "cone"):
        expected = [of_revolution(support, p) for p in at]
    else:
        expected = [by_search(support, p, rng) for p in at]
    assert (found < 0).sum() >= 3 and (found > 0).sum() >= 3
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SOLIDS)
def test_slope_is_one_and_leads_to_the_surface(name, dtype):
    shape, _ = SOLIDS[name]
    of_dtype = lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf  # noqa: E731
    shape = jax.tree.map(of_dtype, shape)
    at = jnp.asarray(points(name, 200), dtype)
    distance, normal = jax.jit(jax.vmap(jax.value_and_grad(shape.signed_distance)))(at)
    assert distance.dtype == dtype and normal.dtype == dtype
    # Where feet come close to each other their directions lose digits.
    tight = 1e4 * np.finfo(dtype).eps
    np.testing.assert_allclose(np.linalg.norm(normal, axis=-1), 1, rtol=0, atol=tight)
    # From outside the foot of the point lies on the surface; from inside it may do so
    # as well, as long as the point is not at equal distance from two feet.
    foot = shape.signed_distance(at - distance[:, None] * normal)
    np.testing.assert_allclose(foot, 0, rtol=0, atol=tight)


@pytest.mark.parametrize("name", SOLIDS)
def test_derivatives_by_the_numbers_of_the_shape(name):
    shape, _ = SOLIDS[name]
    numbers, rest = eqx.partition(shape, eqx.is_inexact_array)
    flat, unravel = jax.flatten_util.ravel_pytree(numbers)
    restore = lambda v: eqx.combine(unravel(v), rest)  # noqa: E731
    distance = jax.jit(lambda v, p: restore(v).signed_distance(p))
    derivatives = [jax.jit(mode(distance)) for mode in (jax.jacfwd, jax.jacrev)]
    for p in points(name, 6):
        expected = differences(lambda v, p=p: distance(v, p), flat, 1e-4)
        for derivative in derivatives:
            np.testing.assert_allclose(derivative(flat, p), expected, atol=1e-6)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("scale", [0.0, 1e-12, 0.3, 1.0, 2.0])
def test_ellipsoid_on_its_axes_and_at_its_centre(axis, scale):
    """Along an axis the nearest vertex, or inside of the evolute a pair of other feet."""
    shape = rb.Ellipsoid(AXES)
    p = scale * AXES[axis] * np.eye(3)[axis]
    found, normal = jax.value_and_grad(shape.signed_distance)(jnp.asarray(p))
    expected = by_search(ellipsoid, p, np.random.default_rng(1))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert np.all(np.isfinite(normal))


def test_second_derivatives_of_the_ellipsoid_are_its_curvatures():
    """At the vertex of the axis a, with curvatures a/b^2 and a/c^2 of the surface."""
    a, b, c = AXES
    hessian = jax.hessian(rb.Ellipsoid(AXES).signed_distance)(jnp.array([a, 0.0, 0.0]))
    np.testing.assert_allclose(hessian, np.diag([0, a / b**2, a / c**2]), atol=1e-9)


A = rb.Placed(rb.Ellipsoid(AXES), (0.5, 0.0, 0.0))
B = rb.Box(HALF)


@pytest.mark.parametrize(
    ("shape", "rule"),
    [
        (rb.Union(A, B), lambda a, b: a | b),
        (rb.Intersection(A, B), lambda a, b: a & b),
        (rb.Intersection(A, rb.Complement(B)), lambda a, b: a & ~b),
        (rb.Difference(A, B), lambda a, b: a & ~b),
        (rb.Complement(A), lambda a, b: ~a),
        (rb.Placed(rb.Union(A, B), SHIFT), lambda a, b: a | b),
    ],
    ids=["union", "intersection", "with complement", "difference", "complement", "placed"],
)
def test_constructive_solid_geometry(shape, rule):
    """Membership by the definitions of the solids; the distance is a bound of slope <= 1."""
    rng = np.random.default_rng(3)
    at = rng.uniform(-3, 3, size=(100_000, 3))
    moved = at - SHIFT if isinstance(shape, rb.Placed) else at
    in_a = np.sum(((moved - [0.5, 0, 0]) / AXES) ** 2, axis=-1) < 1
    in_b = np.all(np.abs(moved) < HALF, axis=-1)
    found = np.asarray(eqx.filter_jit(shape.signed_distance)(at))
    np.testing.assert_array_equal(found < 0, rule(in_a, in_b))
    pairs = rng.permutation(len(at))
    apart = np.linalg.norm(at - at[pairs], axis=-1)
    assert np.all(np.abs(found - found[pairs]) <= apart * (1 + 1e-12))


@pytest.mark.parametrize(
    ("message", "make"),
    [
        ("Union.a must be a bounded shape", lambda: rb.Union(rb.HalfSpace(), B)),
        ("Union.b must be a bounded shape", lambda: rb.Union(B, 3)),
        (
            "at least one bounded",
            lambda: rb.Intersection(rb.HalfSpace(), rb.HalfSpace((1.0, 0, 0))),
        ),
        ("Difference.b must be a shape", lambda: rb.Difference(B, None)),
        ("Complement.shape must be a shape", lambda: rb.Complement("box")),
        ("Placed.shape must be a bounded", lambda: rb.Placed(rb.HalfSpace())),
        ("Placed.quaternion must be finite and not", lambda: rb.Placed(B, quaternion=(0, 0, 0, 0))),
        ("Capsule.radius must be positive", lambda: rb.Capsule(-1.0, 1.0)),
        ("Cylinder.half_height must be pos", lambda: rb.Cylinder(1.0, 0.0)),
        ("Cone.height must be positive", lambda: rb.Cone(1.0, np.nan)),
    ],
)
def test_refuses(message, make):
    with pytest.raises(ValueError, match=message):
        make()
