"""Gaps of solids against the Minkowski difference of their corners, and against sampled normals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, quick_jit
from scipy.optimize import nnls
from scipy.spatial import ConvexHull

import jaxrb as rb
from jaxrb.contact.narrow_phase import prepare, separation
from jaxrb.contact.separating_axis import Heights, is_well_within
from jaxrb.lie import quaternion as quaternions
from jaxrb.math import Quat, Vec3

RNG = np.random.default_rng(7)
BOX = rb.Box((0.5, 0.3, 0.2))
CAPSULE = rb.Capsule(0.1, 0.4)
TETRAHEDRON = rb.ConvexPolyhedron(RNG.normal(size=(4, 3)) * 0.4)
# Some of its points are inside of the hull, and two more are only filled up.
POLYHEDRON = rb.ConvexPolyhedron(RNG.normal(size=(12, 3)) * 0.4, pad_to=14)
MOVED = rb.Placed(rb.Rounded(BOX, 0.05), (0.1, 0.2, -0.1), (1.0, 0.3, -0.2, 0.5))


def corners(solid):
    """Those of its core, and the radius by which it is rounded."""
    if isinstance(solid, rb.Placed):
        points, radius = corners(solid.shape)
        q = np.asarray(solid.quaternion) / np.linalg.norm(solid.quaternion)
        turn = np.asarray(quaternions.to_matrix(q))
        return points @ turn.T + np.asarray(solid.position), radius
    if isinstance(solid, rb.Rounded):
        points, radius = corners(solid.shape)
        return points, radius + float(solid.radius)
    if isinstance(solid, rb.Box):
        signs = np.stack(np.meshgrid(*[(-1, 1)] * 3), axis=-1).reshape(-1, 3)
        return signs * np.asarray(solid.half_extents), 0.0
    if isinstance(solid, rb.Capsule):
        return np.array([[0, 0, -1], [0, 0, 1]]) * float(solid.half_length), float(solid.radius)
    return np.asarray(solid.vertices), 0.0


def minkowski_gap(first, second, shift, turn):
    """Of the cores: the distance of the origin from the hull of all differences of corners (by
    non-negative least squares), or minus its depth in it (by the faces of Qhull); less radii."""
    (a, r), (b, s) = corners(first), corners(second)
    differences = (a[:, None] - (b @ turn.T + shift)[None]).reshape(-1, 3)
    system = np.vstack([differences.T, np.ones(len(differences))])
    weights, _ = nnls(system, np.array([0.0, 0.0, 0.0, 1.0]))
    distance = np.linalg.norm(differences.T @ weights) / weights.sum()
    if distance < 1e-7 and np.linalg.matrix_rank(differences - differences[0], tol=1e-9) == 3:
        distance = ConvexHull(differences).equations[:, 3].max()
    return distance - r - s


def colliders_of(first, second, *, standing=False):
    """In which two solids are compared."""
    return tuple(recipe.made() for recipe in prepare(first, second, standing=standing))


def placed(first, second):
    """The separation as a function of shift and quaternion, in JAX."""
    colliders = colliders_of(first, second)

    @jax.jit
    def of(shift, quaternion):
        gap, normal, point = separation(
            *colliders, Vec3.of(shift), Quat.of(quaternion).normalized()
        )
        return gap, normal.array(), point.array()

    return of


def measured(first, second):
    """The same in numbers."""
    of = placed(first, second)

    def numbers(shift, quaternion):
        gap, normal, point = of(jnp.asarray(shift), jnp.asarray(quaternion, float))
        return float(gap), np.asarray(normal), np.asarray(point)

    return numbers


def distance_from(solid):
    # A bound method of a module is a tree of arrays to jit.
    return jax.jit(lambda point: solid.signed_distance(point))  # noqa: PLW0108


def poses(n, scale, seed):
    rng = np.random.default_rng(seed)
    for k in range(n):
        quaternion = rng.normal(size=4)
        if k % 4 == 3:  # faces and edges parallel
            quaternion = np.array([1.0, 0.0, 0.0, 0.0])
        quaternion /= np.linalg.norm(quaternion)
        yield rng.normal(size=3) * scale, quaternion, np.asarray(quaternions.to_matrix(quaternion))


def test_a_pose_alone_has_the_separation_it_has_in_a_batch():
    """Alone edges are looked at where a corner is on no face, in a batch wherever that is so in
    one of its poses: faces on faces, corners over faces, edges, and boxes in each other."""
    of, few = placed(BOX, BOX), list(poses(60, 0.6, seed=5))
    flat = [(np.array([0.1, 0.05, z]), few[3][1], None) for z in (0.4, 0.41, 0.39)]
    shift, quaternion, _ = zip(*few, *flat, strict=True)
    shift, quaternion = jnp.array(shift), jnp.array(quaternion)
    together = jax.vmap(of)(shift, quaternion)
    alone = [jnp.stack(x) for x in zip(*map(of, shift, quaternion), strict=True)]
    assert 10 < jnp.sum(together[0] > 0) < 53
    for found, own in zip(together, alone, strict=True):
        np.testing.assert_allclose(found, own, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (BOX, BOX),
        (BOX, TETRAHEDRON),
        (POLYHEDRON, MOVED),
        pytest.param(CAPSULE, CAPSULE, marks=pytest.mark.slow),
        pytest.param(TETRAHEDRON, CAPSULE, marks=pytest.mark.slow),
        pytest.param(POLYHEDRON, POLYHEDRON, marks=pytest.mark.slow),
    ],
)
def test_solids_with_corners(first, second):
    of, inside, apart = measured(first, second), 0, 0
    from_first, from_second = distance_from(first), distance_from(second)
    for shift, quaternion, turn in poses(200, 0.6, seed=1):
        gap, normal, point = of(shift, quaternion)
        truth = minkowski_gap(first, second, shift, turn)
        np.testing.assert_allclose(gap, truth, rtol=0, atol=1e-13)
        np.testing.assert_allclose(np.linalg.norm(normal), 1.0, atol=1e-14)
        if gap > 0:
            # The points that are said to be closest belong to the solids.
            on_second = (np.asarray(point) - shift) @ turn
            on_first = point + gap * normal
            assert abs(from_first(on_first)) < 1e-13
            assert abs(from_second(on_second)) < 1e-13
        inside += gap < 0
        apart += gap > 0
    assert apart > 20
    assert inside > 5


@pytest.mark.parametrize("other", [BOX, POLYHEDRON])
def test_boxes_that_are_pressed_into_each_other(other):
    """By a hundred-thousandth to a tenth of their size, flat and tilted, and hanging over edges:
    of some a corner is well within the other, which tells the depth without edges; of others these
    separate more."""
    of, rng, known = placed(BOX, other), np.random.default_rng(3), []
    a, b = colliders_of(BOX, other)
    points, _ = corners(other)
    within = jax.jit(_is_known_by_a_corner)
    for k in range(300):
        depth, tilt = 10 ** rng.uniform((-5, -6), (-1.3, -0.5))
        quaternion = np.array([1.0, *(tilt * rng.normal(size=2)), rng.normal() * (k % 3)])
        quaternion /= np.linalg.norm(quaternion)
        turn = np.asarray(quaternions.to_matrix(quaternion))
        # The lowest corner is that depth below the upper face of the first.
        lowest = (points @ turn.T)[:, 2].min()
        shift = np.array([*rng.uniform(-0.6, 0.6, 2), 0.2 - lowest - depth])
        gap, *_ = of(jnp.asarray(shift), jnp.asarray(quaternion))
        truth = minkowski_gap(BOX, other, shift, turn)
        np.testing.assert_allclose(gap, truth, rtol=0, atol=1e-13)
        if truth < -1e-7:
            known.append(bool(within(a, b, shift, quaternion)))
    assert len(known) > 100
    assert 0.1 < np.mean(known) < 0.9


def _is_known_by_a_corner(a, b, shift, quaternion):
    heights = Heights.of(a, b.moved(Vec3.of(shift), Quat.of(quaternion).normalized()))
    separations = jnp.concatenate([jnp.min(over, axis=1) for over in heights])
    best = jnp.argmax(separations)
    return is_well_within(heights, best, separations[best], jnp.asarray(1e-14))


@pytest.mark.slow
@pytest.mark.parametrize("axes", [(0.2, 0.3, 0.9), (0.02, 0.3, 0.9)])
def test_ellipsoids(axes):
    """No sampled normal separates more; the closest points are on the surfaces."""
    first, second = rb.Ellipsoid(axes), rb.Rounded(rb.Ellipsoid((0.6, 0.3, 0.2)), 0.1)
    of = measured(first, second)
    from_first, from_second = distance_from(first), distance_from(second)
    sampled = RNG.normal(size=(20_000, 3))
    sampled /= np.linalg.norm(sampled, axis=1, keepdims=True)
    apart = 0
    for shift, quaternion, turn in poses(100, 1.2, seed=2):
        gap, normal, point = of(shift, quaternion)

        def along(n, shift=shift, turn=turn):
            second_height = np.linalg.norm((n @ turn) * [0.6, 0.3, 0.2], axis=-1) + 0.1
            return -n @ shift - np.linalg.norm(n * np.array(axes), axis=-1) - second_height

        np.testing.assert_allclose(along(np.asarray(normal)), gap, rtol=0, atol=1e-14)
        if gap < -0.05:  # deep: another normal may be better, but the sign is right
            continue
        assert along(sampled).max() <= gap + 1e-14
        on_second = (np.asarray(point) - shift) @ turn
        # Where they are nearly flat, the points are known to 1e-16/curvature only.
        assert abs(from_first(point + gap * normal)) < 1e-12
        assert abs(from_second(on_second)) < 1e-12
        apart += gap > 0
    assert apart > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("axes", "radius", "solid"),
    [
        ((0.2, 0.3, 0.5), 0.0, BOX),
        ((0.02, 0.3, 0.9), 0.0, TETRAHEDRON),
        ((0.2, 0.2, 0.5), 0.0, CAPSULE),
        ((0.3, 0.3, 0.3), 0.1, MOVED),
        ((0.4, 0.2, 0.3), 0.05, POLYHEDRON),
    ],
)
def test_ellipsoid_and_solid_with_corners(axes, radius, solid):
    """No sampled normal separates more; the closest points are on the surfaces."""
    ellipsoid = rb.Ellipsoid(axes)
    first = rb.Rounded(ellipsoid, radius) if radius else ellipsoid
    of, exchanged = measured(first, solid), measured(solid, first)
    from_first, from_second = distance_from(first), distance_from(solid)
    sampled = RNG.normal(size=(40_000, 3))
    sampled /= np.linalg.norm(sampled, axis=1, keepdims=True)
    vertices, rounding = corners(solid)
    apart, inside = 0, 0
    for shift, quaternion, turn in poses(100, 0.8, seed=3):
        gap, normal, point = of(shift, quaternion)
        points = vertices @ turn.T + shift

        def along(n, points=points):
            height = np.linalg.norm(n * np.array(axes), axis=-1)
            return -height - np.max(n @ points.T, axis=-1) - radius - rounding

        np.testing.assert_allclose(along(np.asarray(normal)), gap, rtol=0, atol=1e-13)
        best = along(sampled).max()
        if gap > 0:
            assert best <= gap + 1e-13
            on_second = (np.asarray(point) - shift) @ turn
            assert abs(from_first(point + gap * normal)) < 1e-12
            assert abs(from_second(on_second)) < 1e-12
        elif best > 2e-3:  # as fine as the samples are
            assert gap > 0
        apart += gap > 0
        inside += gap < 0
        back = exchanged(-shift @ turn, quaternion * [1, -1, -1, -1])
        np.testing.assert_allclose(back[0], gap, rtol=0, atol=1e-13)
        np.testing.assert_allclose(turn @ back[1], -normal, rtol=0, atol=1e-7)
    assert apart > 20
    assert inside > 5


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_touching_ellipsoids(scale):
    """Ellipsoids that touch in a known point: each is x^T A x = 1 about its centre, moved along
    its normal there until they meet."""
    first, second = np.array([0.2, 0.3, 0.9]) * scale, np.array([0.6, 0.3, 0.2]) * scale
    of = measured(rb.Ellipsoid(first), rb.Ellipsoid(second))
    for _, quaternion, turn in poses(20, 1.0, seed=4):
        n = RNG.normal(size=3)
        n /= np.linalg.norm(n)
        low = -(first**2) * n / np.linalg.norm(first * n)  # the first's point, n into it
        own = turn.T @ n
        high = turn @ (second**2 * own / np.linalg.norm(second * own))
        gap, normal, point = of(low - high, quaternion)
        np.testing.assert_allclose(gap, 0.0, atol=1e-15 * scale)
        np.testing.assert_allclose(normal, n, atol=2e-8)  # s(n) is flat: its root of round-off
        np.testing.assert_allclose(point, low, atol=1e-8 * scale)


@pytest.mark.slow
def test_ball_and_solid():
    """The signed distance of the centre, less the radius."""
    for solid in (BOX, CAPSULE, POLYHEDRON, MOVED, rb.Cylinder(0.2, 0.4), rb.Ellipsoid((1, 2, 3))):
        of = measured(solid, rb.Placed(rb.Sphere(0.15), (0.0, 0.1, 0.0)))
        for shift, quaternion, turn in poses(5, 1.0, seed=5):
            gap, normal, point = of(shift, quaternion)
            center = turn @ [0.0, 0.1, 0.0] + shift
            np.testing.assert_allclose(gap, solid.signed_distance(center) - 0.15, atol=1e-14)
            np.testing.assert_allclose(center - 0.15 * np.asarray(-normal), point, atol=1e-14)


@pytest.mark.slow
def test_flat_contact_is_in_the_middle():
    """A box flat on a larger one, turned and off its centre: the middle of what touches."""
    small, large = rb.Box((0.1, 0.2, 0.3)), rb.Box((1.0, 1.0, 1.0))
    half = np.pi / 12
    quaternion = np.array([np.cos(half), 0.0, 0.0, np.sin(half)])
    gap, normal, point = measured(large, small)(np.array([0.3, -0.2, 1.3]), quaternion)
    np.testing.assert_allclose([gap, *normal], [0.0, 0.0, 0.0, -1.0], atol=1e-15)
    np.testing.assert_allclose(point, [0.3, -0.2, 1.0], atol=1e-15)
    # Two boxes of which each covers the other's corner: the middle of the common rectangle.
    gap, _, point = measured(large, large)(np.array([1.5, 1.0, 2.0]), np.array([1.0, 0, 0, 0]))
    np.testing.assert_allclose([gap, *point], [0.0, 0.75, 0.5, 1.0], atol=1e-15)
    # Capsules side by side.
    gap, _, point = measured(CAPSULE, CAPSULE)(np.array([0.2, 0.0, 0.3]), np.array([1.0, 0, 0, 0]))
    np.testing.assert_allclose([gap, *point], [0.0, 0.1, 0.0, 0.15], atol=1e-15)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (rb.Ellipsoid((0.2, 0.3, 0.9)), rb.Ellipsoid((0.6, 0.3, 0.2))),
        (CAPSULE, BOX),
        (CAPSULE, rb.Rounded(rb.Ellipsoid((0.2, 0.3, 0.5)), 0.1)),
        (POLYHEDRON, rb.Sphere(0.2)),
        *before_releases(
            (BOX, POLYHEDRON),
            (rb.Ellipsoid((0.2, 0.3, 0.5)), BOX),
            (rb.Ellipsoid((0.2, 0.2, 0.3)), rb.Rounded(POLYHEDRON, 0.1)),
        ),
    ],
)
@pytest.mark.slow
def test_derivatives(first, second):
    """Of gap, normal and point by the pose, in both modes, against differences."""
    of = placed(first, second)
    found = lambda x: jnp.concatenate([jnp.atleast_1d(v) for v in of(x[:3], x[3:])])  # noqa: E731
    x = jnp.array([0.5, -0.6, 0.9, 0.4, -0.7, 0.2, 0.5])
    assert found(x)[0] > 0
    forward, reverse = (quick_jit(mode(found))(x) for mode in (jax.jacfwd, jax.jacrev))
    np.testing.assert_allclose(forward, reverse, atol=1e-13)
    step = 1e-6
    for k in range(7):
        difference = (found(x.at[k].add(step)) - found(x.at[k].add(-step))) / (2 * step)
        np.testing.assert_allclose(forward[:, k], difference, atol=1e-8)


@pytest.mark.parametrize("solid", [BOX, *before_releases(CAPSULE)])
@pytest.mark.slow
def test_every_normal_of_an_ellipsoid_has_its_derivatives(solid):
    """Those of the closest corner or edge too, where the search ends at the root itself. Where
    within the step another feature becomes the closest, differences are none: seldom."""
    of = placed(rb.Ellipsoid((0.2, 0.3, 0.5)), solid)

    def normal(x):
        return of(x[:3], x[3:])[1]

    x = jnp.asarray(np.random.default_rng(6).normal(size=(200, 7)))
    x = x[jax.vmap(lambda x: of(x[:3], x[3:])[0])(x) > -0.1]
    assert len(x) > 150
    every, step = jax.jit(jax.vmap(normal)), 1e-6
    expected = [
        (every(x.at[:, k].add(step)) - every(x.at[:, k].add(-step))) / (2 * step) for k in range(7)
    ]
    off = np.abs(quick_jit(jax.vmap(jax.jacfwd(normal)))(x) - jnp.stack(expected, axis=-1))
    assert np.sum(off.max(axis=(1, 2)) > 1e-6) <= 2


@pytest.mark.slow
def test_unknown_pairs_are_refused():
    cut = rb.Difference(rb.Sphere(1.0), rb.HalfSpace())
    with pytest.raises(ValueError, match="closest points of a Cylinder and a Difference"):
        prepare(rb.Cylinder(0.1, 0.2), cut)
    with pytest.raises(ValueError, match="closest points of a Difference and a Box are not known"):
        prepare(cut, BOX)
