"""Supports and closest points that are searched: those of combined and implicit solids.

The truth is the best of many runs of SLSQP, which knows each solid as a union of sets
{z : g_i(z) <= 0} written out here, started from the furthest of many points of the solid. Its
heights are good to about 1e-11: the error of its derivatives, 1e-8, counts twice.
"""

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences, quick_jit
from scipy.optimize import minimize
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

import jaxrb as rb
from jaxrb.contact import narrow_phase
from jaxrb.math import Quat, Vec3
from jaxrb.shapes.base import components
from jaxrb.shapes.csg import ascent, extremum
from jaxrb.shapes.csg.objective import Along
from jaxrb.shapes.csg.seeds import prepare

TURN = Rotation.from_rotvec([0.4, -0.9, 0.6])
QUATERNION = TURN.as_quat(scalar_first=True)
HALF = np.array([0.5, 0.6, 0.7])
CORNERS = np.random.default_rng(2).normal(size=(9, 3))
AXES = np.array([0.9, 0.5, 0.7])


class Torus(eqx.Module):
    """The distance from a torus around the z-axis."""

    ring: jax.Array
    tube: jax.Array

    def __call__(self, z):
        return jnp.hypot(jnp.hypot(z[0], z[1]) - self.ring, z[2]) - self.tube


def bumpy(z):
    """A smooth solid that is not convex, about a distance from it."""
    q = z / jnp.array([1.0, 0.8, 1.2])
    bumps = 0.08 * jnp.sin(3 * q[0]) * jnp.cos(2 * q[1]) - 0.05 * q[2]
    return jnp.sqrt(jnp.sum(q * q) + 1e-12) - 0.9 - bumps


def ball(radius, center=(0.0, 0.0, 0.0)):
    return lambda z: np.linalg.norm(z - np.array(center), axis=-1) - radius


def sides(half, center=(0.0, 0.0, 0.0), turn=None):
    """The six planes of a box."""

    def plane(k, sign):
        def distance(z):
            moved = z - np.array(center)
            moved = moved if turn is None else turn.inv().apply(moved)
            return sign * moved[..., k] - half[k]

        return distance

    return [plane(k, sign) for k in range(3) for sign in (1, -1)]


def tube(radius):
    return lambda z: np.hypot(z[..., 0], z[..., 1]) - radius


def faces(corners):
    equations = np.unique(ConvexHull(corners).equations.round(12), axis=0)
    return [lambda z, e=e: z @ e[:3] + e[3] for e in equations]


def without(distance):
    return lambda z: -distance(z)


def rounded_box(half, radius):
    def distance(z):
        q = np.abs(z) - half
        outside = np.linalg.norm(np.maximum(q, 0), axis=-1)
        return outside + np.minimum(np.max(q, axis=-1), 0) - radius

    return distance


def cone(radius, height):
    return lambda z: np.hypot(z[..., 0], z[..., 1]) - radius * (1 - z[..., 2] / height)


def ellipsoid(z):
    return np.linalg.norm(TURN.inv().apply(z - 0.8 * CORNERS[0]) / AXES, axis=-1) - 1


WEDGE = rb.Intersection(
    rb.Intersection(rb.Box(HALF), rb.HalfSpace((1.0, 2.0, -1.0), 0.4)),
    rb.Placed(rb.Sphere(0.8), (0.1, 0.0, 0.1)),
)
WEDGE_SURFACES = [
    *sides(HALF),
    lambda z: (z @ np.array([1.0, 2.0, -1.0]) - 0.4) / np.sqrt(6.0),
    ball(0.8, (0.1, 0.0, 0.1)),
]
TORUS = rb.Implicit(Torus(jnp.asarray(1.0), jnp.asarray(0.35)), 1.4)
LENS = rb.Intersection(
    rb.Placed(rb.Sphere(1.0), (0.0, 0.0, 0.6)), rb.Placed(rb.Sphere(1.1), (0.1, 0.0, -0.6))
)

BOWL = rb.Difference(rb.Box((0.7, 0.7, 0.7)), rb.Placed(rb.Sphere(0.5), (0.0, 0.0, 0.7)))
BOWL_SURFACES = [*sides((0.7, 0.7, 0.7)), without(ball(0.5, (0.0, 0.0, 0.7)))]

# name: (shape, the sets whose union it is, in its frame before it is moved and rounded)
SOLIDS = {
    "wedge": (WEDGE, [WEDGE_SURFACES]),
    "polyhedron less ellipsoid": (
        rb.Difference(
            rb.ConvexPolyhedron(CORNERS),
            rb.Placed(rb.Ellipsoid(AXES), 0.8 * CORNERS[0], QUATERNION),
        ),
        [[*faces(CORNERS), without(ellipsoid)]],
    ),
    "drilled cylinder": (
        rb.Difference(rb.Cylinder(1.0, 0.4), rb.Cylinder(0.5, 0.6)),
        [[tube(1.0), *sides((np.inf, np.inf, 0.4))[4:], without(tube(0.5))]],
    ),
    # The upper halves have three faces in common.
    "cut flush": (
        rb.Difference(rb.Box(HALF), rb.Placed(rb.Box(HALF), (0.5, 0.0, 0.0))),
        [[*sides(HALF), lambda z: z[..., 0]]],
    ),
    "nested": (
        rb.Rounded(
            rb.Placed(
                rb.Intersection(
                    rb.Placed(rb.Cone(0.8, 1.5), (0.0, 0.0, -0.4)),
                    rb.Scaled(rb.Rounded(rb.Box(HALF / 2), 0.1), 2.0),
                ),
                (0.2, 0.1, 0.3),
                QUATERNION,
            ),
            0.05,
        ),
        [
            [
                lambda z: cone(0.8, 1.5)(z + np.array([0.0, 0.0, 0.4])),
                lambda z: -0.4 - z[..., 2],
                rounded_box(HALF, 0.2),
            ]
        ],
    ),
    "bumpy": (rb.Implicit(bumpy, 1.4), [[lambda z: np.asarray(BUMPY(jnp.asarray(z)))]]),
}
BUMPY = jax.jit(jnp.vectorize(bumpy, signature="(n)->()"))


def directions(n):
    d = np.random.default_rng(5).normal(size=(n, 3))
    return d / np.linalg.norm(d, axis=-1, keepdims=True)


def highest(sets, heights, gradients, radius):
    """The greatest of each height over the union of sets, by SLSQP, and from below by points of
    the solid. The functions are of points, of shape (..., 3)."""
    rng = np.random.default_rng(3)
    points = rng.uniform(-radius, radius, size=(100_000, 3))
    in_one = [np.max([g(points) for g in surfaces], axis=0) <= 0 for surfaces in sets]
    inner = points[np.any(in_one, axis=0)]
    below = np.array([np.max(height(inner)) for height in heights])
    best = np.full(len(heights), -np.inf)
    for surfaces, inside in zip(sets, in_one, strict=True):
        # A piece may be too small to be hit by the points.
        candidates = points[inside] if inside.any() else points[:100]
        constraints = [{"type": "ineq", "fun": lambda z, g=g: -g(z)} for g in surfaces]
        for k, (height, gradient) in enumerate(zip(heights, gradients, strict=True)):
            order = np.argsort(height(candidates))
            high = candidates[order[-max(5, len(order) // 50) :]]
            for start in [high[-1], *rng.choice(high, 4)]:
                result = minimize(
                    lambda z, height=height: -height(z),
                    start,
                    jac=lambda z, gradient=gradient: -gradient(z),
                    constraints=constraints,
                    method="SLSQP",
                    options={"ftol": 1e-16, "maxiter": 300},
                )
                if max(g(result.x) for g in surfaces) < 1e-12:
                    best[k] = max(best[k], height(result.x))
    return best, below


@pytest.mark.parametrize(
    "name",
    [
        "wedge",
        "nested",
        "bumpy",
        *before_releases("polyhedron less ellipsoid", "drilled cylinder", "cut flush"),
    ],
)
@pytest.mark.slow
def test_support(name):
    shape, sets = SOLIDS[name]
    d = directions(24)
    points = np.asarray(eqx.filter_jit(shape.support)(d))
    reached = np.sum(points * d, axis=-1)
    inner = d if name != "nested" else TURN.inv().apply(d)
    along = [lambda z, d=d: z @ d for d in inner]
    slopes = [lambda z, d=d: d for d in inner]
    heights, below = highest(sets, along, slopes, float(shape.bounding_radius()))
    if name == "nested":
        moved = d @ np.array([0.2, 0.1, 0.3]) + 0.05
        heights, below = heights + moved, below + moved
    else:
        assert np.max(np.abs(shape.signed_distance(jnp.asarray(points)))) < 1e-14
    assert (below < reached).all() and (below > reached - 0.2).all()
    np.testing.assert_allclose(reached, heights, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *before_releases(*(name for name in SOLIDS if name != "bumpy")),
        "bumpy",
        "bowl",
    ],
)
def test_balls_touch_the_closest_point(name):
    """Balls outside, some of them in a hole."""
    shape, sets = SOLIDS.get(name, (BOWL, [BOWL_SURFACES]))
    size, radius = float(shape.bounding_radius()), 0.02
    around = np.random.default_rng(8).uniform(-1.3 * size, 1.3 * size, size=(400, 3))
    distance = np.min([np.max([g(around) for g in surfaces], axis=0) for surfaces in sets], axis=0)
    centers = around[distance > 0.05][:24]
    moved = nested(centers) if name == "nested" else centers
    gap, normal, point = (np.asarray(v) for v in separations(shape, radius)(jnp.asarray(moved)))

    nearness = [lambda z, c=c: -((z - c) ** 2).sum(-1) / 2 for c in centers]
    slopes = [lambda z, c=c: c - z for c in centers]
    heights, below = highest(sets, nearness, slopes, size)
    core = 0.05 if name == "nested" else 0.0
    expected, above = np.sqrt(-2 * heights) - core - radius, np.sqrt(-2 * below) - core - radius
    assert (gap < above).all() and (gap > above - 0.3).all()
    np.testing.assert_allclose(gap, expected, rtol=0, atol=1e-9)
    # The ball is on the side to which the normal does not point, and touches the solid there.
    np.testing.assert_allclose(np.linalg.norm(normal, axis=-1), 1.0, rtol=0, atol=1e-14)
    np.testing.assert_allclose(point, moved + normal * radius, rtol=0, atol=1e-15)
    if name != "nested":
        on_it = np.asarray(shape.signed_distance(jnp.asarray(point + normal * gap[:, None])))
        np.testing.assert_allclose(on_it, 0.0, rtol=0, atol=1e-14)


def nested(z):
    """Moved as the shape of this name."""
    return TURN.apply(z) + np.array([0.2, 0.1, 0.3])


def separations(shape, radius):
    """Of a shape from balls, by their centres."""
    forms = [recipe.made() for recipe in narrow_phase.prepare(shape, rb.Sphere(radius))]

    def of(center):
        still = Quat.of(jnp.array([1.0, 0.0, 0.0, 0.0], center.dtype))
        found = narrow_phase.separation(*forms, Vec3.of(center), still)
        return found.gap, found.normal.array(), found.point.array()

    return jax.jit(jax.vmap(of))


@pytest.mark.long
def test_derivatives_of_the_closest_point():
    """On a face, on an edge, at a corner, and in a hole, by centre and radius of the hole."""
    centers = jnp.array([[0.9, 0.2, 0.1], [0.75, 0.1, 0.95], [0.9, 0.8, 1.1], [0.2, 0.1, 0.6]])

    def found(v):
        hole = rb.Placed(rb.Sphere(v[3]), jnp.stack([v[4], v[4], v[5]]))
        bowl = rb.Difference(rb.Box((0.7, 0.7, 0.7)), hole)
        gap, normal, point = separations(bowl, 0.02)(centers + v[None, :3])
        return jnp.concatenate([gap[:, None], normal, point], axis=1)

    v = jnp.array([0.0, 0.0, 0.0, 0.5, 0.0, 0.7])
    forward = quick_jit(jax.jacfwd(found))(v)
    backward = quick_jit(jax.jacrev(found))(v)
    np.testing.assert_allclose(backward, forward, rtol=0, atol=1e-12)
    expected = differences(jax.jit(found), v, 1e-4)
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-8)


@pytest.mark.long
def test_where_nothing_is_found_or_sought():
    """NaN for an empty solid; within a solid the gap has the right sign."""
    apart = rb.Intersection(rb.Sphere(0.5), rb.Placed(rb.Sphere(0.5), (2.0, 0.0, 0.0)))
    gap, _, _ = separations(apart, 0.1)(jnp.array([[0.6, 0.0, 3.0]]))
    assert np.isnan(gap)
    gap, normal, point = separations(BOWL, 0.1)(jnp.array([[0.6, 0.0, -0.3], [0.0, 0.5, -0.65]]))
    np.testing.assert_allclose(gap, [-0.2, -0.15], rtol=0, atol=1e-14)
    assert np.isfinite(normal).all() and np.isfinite(point).all()


@pytest.mark.slow
def test_support_of_a_torus_and_of_a_nested_union():
    """Closed forms: a ring of radius R reaches R |(d_x, d_y)|; a union the larger height."""
    d = directions(200)
    torus = np.asarray(eqx.filter_jit(TORUS.support)(d))
    expected = np.hypot(d[:, 0], d[:, 1]) + 0.35
    np.testing.assert_allclose(np.sum(torus * d, axis=-1), expected, rtol=0, atol=1e-14)
    both = rb.Union(rb.Placed(TORUS, (0.0, 0.0, 0.5)), rb.Box(HALF))
    reached = np.sum(np.asarray(eqx.filter_jit(both.support)(d)) * d, axis=-1)
    expected = np.maximum(expected + 0.5 * d[:, 2], np.abs(d) @ HALF)
    np.testing.assert_allclose(reached, expected, rtol=0, atol=1e-14)


def outputs(shape, d):
    """A function of the numbers of a shape and of a direction (of any length): the height,
    extended with degree 1, and the point."""
    numbers, rest = eqx.partition(shape, eqx.is_inexact_array)
    flat, unravel = jax.flatten_util.ravel_pytree(numbers)

    def of(v):
        along = v[-3:]
        point = eqx.combine(unravel(v[:-3]), rest).support(along)
        return jnp.concatenate([jnp.sum(along * point)[None], point])

    return of, np.concatenate([flat, d])


WEDGE_CASES = np.array([[0.35, 0.93, 0.1], [-0.5, -0.84, -0.2], [-0.4, -0.6, 0.6]])


@pytest.mark.long
def test_derivatives_by_direction_and_all_numbers():
    """At corners, on edges and faces, in both modes; the point is the derivative of the height
    (eqs. 90, 94), and its own derivative is the lever arm's."""
    of, _ = outputs(WEDGE, WEDGE_CASES[0])
    v = jnp.stack([outputs(WEDGE, d)[1] for d in WEDGE_CASES])
    value = jax.jit(lambda v: jax.lax.map(of, v))
    points = np.asarray(value(v))[:, 1:]
    assert [sum(abs(g(p)) < 1e-12 for g in WEDGE_SURFACES) for p in points] == [3, 2, 1]
    both = jax.jit(lambda v: jax.lax.map(lambda v: (jax.jacfwd(of)(v), jax.jacrev(of)(v)), v))
    forward, backward = both(v)
    np.testing.assert_allclose(backward, forward, rtol=0, atol=1e-12)
    np.testing.assert_allclose(forward[:, 0, -3:], points, rtol=0, atol=1e-13)
    # The same change of every row; they do not depend on each other.
    expected = differences(lambda dv: value(v + dv[None]), np.zeros(v.shape[1]), 1e-4)
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_second_derivatives():
    """Of the height over the edge of a lens: they are the derivatives of the point."""
    prepared = components(prepare(LENS))

    def point(d):
        return prepared.support_map(Vec3.of(d / jnp.sqrt(jnp.sum(d * d))))[1].array()

    d = jnp.array([0.8, 0.3, 0.2])
    height = lambda d: jnp.sum(d * point(d))  # noqa: E731
    expected = differences(jax.jit(point), d, 1e-4)
    for mode in (jax.jacfwd, jax.jacrev):
        found = quick_jit(mode(jax.grad(height)))(d)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_flat_contact_of_corners_is_at_their_middle():
    half = rb.Intersection(rb.Box(HALF), rb.HalfSpace((-1.0, 0.0, 0.0), -0.1))
    point = eqx.filter_jit(half.support)(jnp.array([0.0, 0.0, 1.0]))
    np.testing.assert_allclose(point, [0.3, 0.0, 0.7], rtol=0, atol=1e-15)


@pytest.mark.slow
def test_failures_are_nan(monkeypatch):
    """Nothing is found of an empty solid, and what is not solved is refused."""
    empty = rb.Intersection(rb.Sphere(1.0), rb.Placed(rb.Sphere(1.0), (3.0, 0.0, 0.0)))
    d = jnp.array([0.8, 0.3, 0.2])
    assert np.isnan(empty.support(d)).all()
    monkeypatch.setattr(ascent, "_CLIMBS", 1)
    # A function of its own: compiled ones are kept by the function.
    unfinished = jax.jit(lambda *args: extremum._highest.__wrapped__(*args))  # noqa: PLW0108
    along = Along(Vec3.of(d / jnp.linalg.norm(d)))
    height, point = unfinished(components(prepare(LENS)), along)
    assert np.isnan(height) and np.isnan(point.array()).all()


@pytest.mark.slow
def test_in_float32():
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), LENS)
    d = directions(100)
    points = eqx.filter_jit(single.support)(jnp.asarray(d, jnp.float32))
    assert points.dtype == jnp.float32
    expected = eqx.filter_jit(LENS.support)(d)
    np.testing.assert_allclose(points, expected, rtol=0, atol=1e-5)


def test_rounding_within_a_combination_asks_for_another_order():
    corner = rb.Rounded(rb.Intersection(rb.Box(HALF), rb.Sphere(0.8)), 0.1)
    with pytest.raises(ValueError, match=r"Rounded\.shape must be one solid within"):
        rb.Difference(corner, rb.Sphere(0.3)).support(jnp.ones(3))


@pytest.mark.parametrize(
    ("message", "function", "radius"),
    [
        ("function must be a function", 3.0, 1.0),
        ("must map a point", lambda z: z, 1.0),
        ("bounding_radius must be positive", bumpy, -1.0),
        ("no negative value", lambda z: jnp.sqrt(jnp.sum(z * z) + 1.0), 1.0),
        ("raise Implicit.bounding_radius", lambda z: jnp.abs(z[0]) - 0.5, 1.0),
        ("about a distance", lambda z: 5 * (jnp.sqrt(jnp.sum(z * z)) - 0.5), 1.0),
    ],
)
def test_implicit_refuses(message, function, radius):
    with pytest.raises(ValueError, match=message):
        rb.Implicit(function, radius)


def test_implicit_takes_numbers_from_a_module_only():
    scale = jnp.asarray(0.35)
    plain = rb.Implicit(lambda z: TORUS._function()(z) + 0 * scale, 1.4)
    assert len(jax.tree.leaves(plain)) == 1 and len(jax.tree.leaves(TORUS)) == 3
    with_vector = rb.Implicit(Shifted(jnp.array([0.1, 0.2, 0.3])), 1.5)
    at = jnp.array([[1.1, 0.2, 0.3], [0.1, 0.2, 0.3]])
    np.testing.assert_allclose(with_vector.signed_distance(at), [0.0, -1.0], atol=1e-15)


class Shifted(eqx.Module):
    """A unit ball around a point of shape (3,), the shape that component form splits."""

    center: jax.Array

    def __call__(self, z):
        return jnp.sqrt(jnp.sum((z - self.center) ** 2)) - 1.0
