"""Cylinders and cones against other solids and each other.

The gap along the normal that is found is a lower bound of the distance, by support functions in
NumPy; that of the points that are found is an upper bound, by signed distances. Where both are the
gap it is proved. Where solids penetrate each other, normals are sampled.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences, quick_jit
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation
from test_manifolds import measured as patches
from test_narrow_phase import BOX, CAPSULE, POLYHEDRON, colliders_of, distance_from

import jaxrb as rb
from jaxrb.contact.narrow_phase import patch, separation
from jaxrb.math import Quat, Vec3

CYLINDER, CONE = rb.Cylinder(0.3, 0.4), rb.Cone(0.35, 0.6)
ELLIPSOID = rb.Ellipsoid((0.2, 0.3, 0.6))
ROUND = rb.Rounded(rb.Placed(CONE, (0.1, -0.2, 0.1), (1.0, 0.3, -0.2, 0.5)), 0.05)
ROUND_AXIS = Rotation.from_quat([1.0, 0.3, -0.2, 0.5], scalar_first=True).apply([0.0, 0, 1])
PAIRS = [
    (CYLINDER, BOX),
    (POLYHEDRON, CONE),
    (CONE, CAPSULE),
    (CYLINDER, CYLINDER),
    (ROUND, CYLINDER),
    (CONE, ELLIPSOID),
]


def height(solid, n):
    """The support function, from the definition of each solid; n of shape (k, 3)."""
    across = np.hypot(n[:, 0], n[:, 1])
    match solid:
        case rb.Placed():
            turn = Rotation.from_quat(np.asarray(solid.quaternion), scalar_first=True)
            found = height(solid.shape, turn.inv().apply(n)) + n @ np.asarray(solid.position)
        case rb.Rounded():
            found = height(solid.shape, n) + float(solid.radius)
        case rb.Cylinder():
            found = solid.radius * across + solid.half_height * np.abs(n[:, 2])
        case rb.Cone():
            found = np.maximum(solid.radius * across, solid.height * n[:, 2])
        case rb.Ellipsoid():
            found = np.linalg.norm(n * np.asarray(solid.semi_axes), axis=1)
        case rb.Capsule():
            found = solid.radius + solid.half_length * np.abs(n[:, 2])
        case rb.Box():
            found = np.abs(n) @ np.asarray(solid.half_extents)
        case _:
            found = np.max(n @ np.asarray(solid.vertices).T, axis=1)
    return np.asarray(found)


def along(first, second, shift, turn, n):
    """The separation along directions."""
    return -n @ shift - height(first, -n) - height(second, n @ turn)


def climbed(first, second, shift, turn, rng):
    """The greatest of many directions, with more and more of them around the best."""
    n, best, wide = rng.normal(size=(4000, 3)), -np.inf, 0.1
    center = n[0]
    while wide > 1e-9:
        n /= np.linalg.norm(n, axis=1, keepdims=True)
        found = along(first, second, shift, turn, n)
        if found.max() > best:
            best, center = found.max(), n[np.argmax(found)]
        else:
            wide *= 0.6
        n = center + wide * rng.normal(size=(300, 3))
    return best


def poses(number, scale, seed):
    """Some with parallel or perpendicular axes."""
    rng = np.random.default_rng(seed)
    shift, quaternion = rng.normal(size=(number, 3)) * scale, rng.normal(size=(number, 4))
    quaternion[::4], quaternion[1::8] = [1, 0, 0, 0], [1, 1, 0, 0]
    shift[::8, :2] *= 0.1
    return shift, quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)


def measured(first, second):
    colliders = colliders_of(first, second)

    @jax.jit
    @jax.vmap
    def of(shift, quaternion):
        gap, normal, point = separation(
            *colliders, Vec3.of(shift), Quat.of(quaternion).normalized()
        )
        return gap, normal.array(), point.array()

    return lambda *pose: tuple(np.asarray(x) for x in of(*map(jnp.asarray, pose)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"), [PAIRS[0], PAIRS[2], PAIRS[3], *before_releases(PAIRS[1], *PAIRS[4:])]
)
def test_gap_normal_and_point(first, second):
    shift, quaternion = poses(600, 0.7, seed=1)
    turns = Rotation.from_quat(quaternion, scalar_first=True).as_matrix()
    gap, normal, point = measured(first, second)(shift, quaternion)
    apart = gap > 0
    assert 100 < apart.sum() < 550
    # A search that does not end says so, and none but in the midst of each other.
    lost = np.isnan(gap)
    assert lost.sum() < 4
    np.testing.assert_allclose(np.linalg.norm(normal[~lost], axis=1), 1.0, atol=1e-14)
    low = [
        along(first, second, *pose)[0] for pose in zip(shift, turns, normal[:, None], strict=True)
    ]
    np.testing.assert_allclose(np.array(low)[~lost], gap[~lost], rtol=0, atol=4e-15)
    on_first = point + gap[:, None] * normal
    on_second = np.einsum("nij,ni->nj", turns, point - shift)
    # Where a side and an edge are nearly parallel the points have fewer digits.
    for solid, points in ((first, on_first), (second, on_second)):
        off = jax.vmap(distance_from(solid))(jnp.asarray(points[apart]))
        np.testing.assert_allclose(off, 0.0, atol=1e-12)
    rng, shallow = np.random.default_rng(2), 0
    for k in np.flatnonzero(lost | (gap <= 0))[:60]:
        best = climbed(first, second, shift[k], turns[k], rng)
        assert best < (-0.1 if lost[k] else 1e-12)
        # The gap is along a direction, so that it is no more than the greatest.
        if best > -0.05:
            assert best <= gap[k] + 1e-12
            shallow += 1
    assert shallow > 0


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [(CYLINDER, CYLINDER), *before_releases((CONE, BOX))])
def test_axes_that_are_nearly_parallel_or_perpendicular(first, second):
    """By 1e-12 to 1e-2, in which a foot on a rim depends on the last digits of the normal."""
    rng = np.random.default_rng(10)
    shift, quaternion = poses(400, 0.7, seed=11)
    base = np.where(np.arange(400)[:, None] % 2, [1.0, 1, 0, 0], [1.0, 0, 0, 0])
    quaternion = base + rng.normal(size=(400, 4)) * 10.0 ** rng.uniform(-12, -2, size=(400, 1))
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    turns = Rotation.from_quat(quaternion, scalar_first=True).as_matrix()
    gap, normal, point = measured(first, second)(shift, quaternion)
    apart = gap > 0.01
    assert apart.sum() > 100 and not np.isnan(gap).any()
    low = [
        along(first, second, *pose)[0] for pose in zip(shift, turns, normal[:, None], strict=True)
    ]
    np.testing.assert_allclose(low, gap, rtol=0, atol=4e-15)
    on_first = point + gap[:, None] * normal
    on_second = np.einsum("nij,ni->nj", turns, point - shift)
    # Moved onto the solids they are points of them, whose distance bounds the gap from above.
    onto_first, onto_second = (
        jax.vmap(lambda x, solid=solid: onto(solid, x))(jnp.asarray(points[apart]))
        for solid, points in ((first, on_first), (second, on_second))
    )
    moved = np.einsum("nij,nj->ni", turns[apart], onto_second) + shift[apart]
    above = np.linalg.norm(np.asarray(onto_first) - moved, axis=1) - gap[apart]
    np.testing.assert_allclose(above, 0.0, atol=1e-11)


def onto(solid, point):
    """The closest point of a solid, of one outside."""
    distance, outward = jax.value_and_grad(solid.signed_distance)(point)
    return point - outward * jnp.maximum(distance, 0.0)


@pytest.mark.slow
def test_distance_by_minimisation():
    """Points of a cylinder and of a cone, by SciPy's constrained minimisation."""
    shift, quaternion = poses(40, 0.9, seed=3)
    gap, _, _ = measured(CYLINDER, CONE)(shift, quaternion)
    turns = Rotation.from_quat(quaternion, scalar_first=True)
    compared = 0
    for k in np.flatnonzero(gap > 0.05)[:12]:
        turn = turns[int(k)].as_matrix()

        def squared(x, turn=turn, k=k):
            return np.sum((x[:3] - turn @ x[3:] - shift[k]) ** 2)

        limits = [
            lambda x: 0.3**2 - x[0] ** 2 - x[1] ** 2,
            lambda x: 0.4 - np.abs(x[2]),
            lambda x: (0.35 * (1 - x[5] / 0.6)) ** 2 - x[3] ** 2 - x[4] ** 2,
            lambda x: x[5] * (0.6 - x[5]),
        ]
        found = minimize(
            squared,
            [0, 0, 0, 0, 0, 0.2],
            constraints=[{"type": "ineq", "fun": limit} for limit in limits],
            options={"ftol": 1e-14, "maxiter": 300},
        )
        # The apex is a corner of its limits, where the minimisation may stop early.
        if found.success:
            assert gap[k] <= np.sqrt(found.fun) + 1e-7
            compared += abs(gap[k] - np.sqrt(found.fun)) < 1e-5
    assert compared >= 8


@pytest.mark.long
def test_known_gaps():
    """Closed forms: parallel axes, crossing axes, an apex over a face, discs on each other."""
    half, slant = np.sqrt(0.5), np.hypot(0.6, 0.35)
    # Two sides with parallel lines: their normals are (h, r)/s away from the axis and up.
    sides = (-0.6 * 0.6 / slant, -0.8 * 0.6 / slant, -0.35 / slant)
    for first, second, shift, quaternion, gap, normal in [
        (CYLINDER, CYLINDER, (0.7, 0.0, 0.1), (1, 0, 0, 0), 0.1, (-1, 0, 0)),
        (CYLINDER, CYLINDER, (0.0, 0.8, 0.1), (half, 0, half, 0), 0.2, (0, -1, 0)),
        (CYLINDER, CYLINDER, (0.1, 0.2, 0.75), (1, 0, 0, 0), -0.05, (0, 0, -1)),
        (CYLINDER, BOX, (0.1, 0.2, 0.63), (1, 0, 0, 0.3), 0.03, (0, 0, -1)),
        (CONE, BOX, (0.1, -0.1, 0.85), (1, 0, 0, 0.3), 0.05, (0, 0, -1)),
        (CONE, CONE, (0.0, 0.0, 0.7), (1, 0, 0, 0), 0.1, (0, 0, -1)),
        (CONE, CONE, (0.6, 0.8, 1.2), (0, 1, 0, 0), 0.6 / slant, sides),
        (CONE, ELLIPSOID, (0.0, 0.0, -0.7), (1, 0, 0, 0), 0.1, (0, 0, 1)),
    ]:
        pose = np.array([shift]), np.array([quaternion], float)
        found = measured(first, second)(*pose)
        np.testing.assert_allclose(found[0][0], gap, atol=2e-15)
        np.testing.assert_allclose(found[1][0], normal, atol=2e-15)


def numbers(first, second):
    """Gap, normal and point, of a shift and a quaternion, to be differentiated."""
    colliders = colliders_of(first, second)

    def of(x):
        found = separation(*colliders, Vec3.of(x[:3]), Quat.of(x[3:]).normalized())
        return jnp.concatenate([found.gap[None], found.normal.array(), found.point.array()])

    return of


@pytest.mark.parametrize(("first", "second"), [PAIRS[0], *before_releases(*PAIRS[1:])])
@pytest.mark.long
def test_derivatives(first, second):
    """Of gap, normal and point in both modes, and second ones of the gap, against differences."""
    of = numbers(first, second)
    shift, quaternion = poses(30, 1.0, seed=5)
    # Poses without symmetry, whose closest points are one each.
    chosen = [k for k in range(30) if k % 4 and k % 8 != 1]
    x = jnp.asarray(np.concatenate([shift, quaternion], axis=1)[chosen])
    x = x[jax.jit(jax.vmap(of))(x)[:, 0] > 0.02]
    assert len(x) > 5
    forward, reverse = (quick_jit(jax.vmap(mode(of)))(x) for mode in (jax.jacfwd, jax.jacrev))
    np.testing.assert_allclose(forward, reverse, atol=1e-11)
    bend = quick_jit(jax.vmap(jax.hessian(lambda x: of(x)[0])))(x)
    slope = jax.grad(lambda x: of(x)[0])
    step = 1e-6
    for found, function in ((forward, jax.jit(jax.vmap(of))), (bend, quick_jit(jax.vmap(slope)))):
        ends = [[function(x.at[:, k].add(h)) for h in (-step, step)] for k in range(7)]
        expected = jnp.stack([(b - a) / (2 * step) for a, b in ends], axis=-1)
        off = np.abs(found - expected).max(axis=(1, 2)) / (1 + np.abs(expected).max(axis=(1, 2)))
        # Within the step another feature may become the closest: seldom.
        assert np.sum(off > 1e-6) <= 1


@pytest.mark.long
def test_derivatives_where_nothing_is_unique():
    """They are finite in both modes, flat on each other, side by side and touching in corners."""
    for first, second, pose in [
        (CYLINDER, BOX, (0.1, 0.0, 0.6, 1, 0, 0, 0)),
        (CYLINDER, BOX, (0.5 + 0.3, 0.0, 0.0, 1, 0, 0, 0)),
        (CONE, BOX, (-0.5, -0.3, 0.8, 1, 0, 0, 0)),
        (CYLINDER, CYLINDER, (0.1, 0.0, 0.8, 1, 0, 0, 0)),
        (CYLINDER, CYLINDER, (0.6, 0.0, 0.1, 1, 0, 0, 0)),
        (CYLINDER, CYLINDER, (0.6, 0.0, 0.8, 1, 0, 0, 0)),
    ]:
        of, x = numbers(first, second), jnp.asarray(pose, float)
        np.testing.assert_allclose(of(x)[0], 0.0, atol=1e-15)
        for mode in (jax.jacfwd, jax.jacrev):
            assert np.isfinite(quick_jit(mode(of))(x)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [PAIRS[0], *before_releases(PAIRS[4], PAIRS[5])])
def test_single_precision(first, second):
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (first, second))
    shift, quaternion = (x.astype(np.float32) for x in poses(300, 0.7, seed=6))
    gap, normal, point = measured(*single)(shift, quaternion)
    assert gap.dtype == normal.dtype == point.dtype == np.float32
    exact = measured(first, second)(shift.astype(float), quaternion.astype(float))[0]
    shallow = exact > -0.05
    np.testing.assert_allclose(gap[shallow], exact[shallow], rtol=0, atol=4e-6)


TABLE = rb.Box((1.0, 1.0, 0.2))


@pytest.mark.slow
def test_a_cylinder_stands_on_a_face():
    """A hexagon of points of its rim, which stay as it turns about its axis; the lowest point of
    the rim at any tilt beyond 0.2, below which it is drawn in."""
    yaw, tilt = np.linspace(0.0, 3.0, 20), np.repeat([0.0, 1e-9, 1e-4, 0.02, 0.25], 4)
    turn = Rotation.from_rotvec(np.stack([0 * tilt, tilt, 0 * tilt], axis=1))
    turn = turn * Rotation.from_rotvec(np.stack([0 * yaw, 0 * yaw, yaw], axis=1))
    place = np.tile([0.2, 0.1, 0.7], (20, 1))
    gap, normal, _, on_second = patches(TABLE, CYLINDER)(place, turn.as_quat(scalar_first=True))
    np.testing.assert_allclose(normal, np.tile([0, 0, -1.0], (20, 7, 1)), atol=1e-15)
    corners = on_second[0, :6, :2] - [0.2, 0.1]
    turns = np.deg2rad([0, 60, 120, 180, 240, 300])
    expected = 0.09 * np.cos(turns[:, None] - turns[None])
    np.testing.assert_allclose(corners @ corners.T, expected, atol=1e-15)
    for k in range(20):
        bottom = place[k] + turn[k].apply([0, 0, -0.4])
        away = on_second[k, :6] - bottom
        np.testing.assert_allclose(np.linalg.norm(away, axis=1), 0.3, atol=1e-14)
        np.testing.assert_allclose(on_second[k, :6], on_second[0, :6], atol=0.5 * tilt[k] + 1e-14)
        np.testing.assert_allclose(gap[k, :6], on_second[k, :6, 2] - 0.2, atol=1e-15)
        inside = (1 - np.cos(np.pi / 6)) * 0.025 * max(1 - np.sin(tilt[k]) / 0.2, 0) ** 2
        lowest = 0.5 - 0.4 * np.cos(tilt[k]) - 0.3 * np.sin(tilt[k])
        np.testing.assert_allclose(gap[k, 6], lowest + 0.3 * inside, atol=1e-15)
        assert -1e-15 <= gap[k].min() - lowest <= 0.3 * 0.0027


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "shift", "quaternion", "ends"),
    [
        (TABLE, CYLINDER, (0.9, 0.8, 0.5), (1, 1, 0, 0), [[0.9, 0.4, 0.2], [0.9, 1.0, 0.2]]),
        (CYLINDER, CYLINDER, (0.6, 0, 0.1), (1, 0, 0, 0), [[0.3, 0, 0.4], [0.3, 0, -0.3]]),
        (CAPSULE, CYLINDER, (0.4, 0, 0.2), (1, 0, 0, 0), [[0.1, 0, 0.4], [0.1, 0, -0.2]]),
    ],
)
def test_lines_of_sides_have_two_ends(first, second, shift, quaternion, ends):
    gap, _, _, on_second = patches(first, second)(np.array([shift]), np.array([quaternion], float))
    used = gap[0] < 0.5
    np.testing.assert_allclose(gap[0, used], 0.0, atol=1e-15)
    found = on_second[0, used]
    assert len(found) == 2
    apart = np.linalg.norm(found[:, None] - np.array(ends)[None], axis=2)
    np.testing.assert_allclose(apart.min(axis=0), 0.0, atol=1e-14)


@pytest.mark.parametrize(
    ("first", "second"),
    [PAIRS[0], *before_releases(*PAIRS[1:5])],
)
@pytest.mark.slow
def test_least_gap_of_a_patch_is_that_of_the_solids(first, second):
    shift, quaternion = poses(200, 0.8, seed=8)
    quaternion[::4] += np.random.default_rng(9).normal(size=(50, 4)) * 1e-9
    exact, *_ = measured(first, second)(shift, quaternion)
    gap, normal, on_first, on_second = patches(first, second)(shift, quaternion)
    apart = exact > 0
    missed = gap[apart].min(axis=1) - exact[apart]
    assert missed.min() >= -1e-13
    # Discs that are nearly flat on a face are drawn in, of radii up to 0.35; nothing else is.
    turns = Rotation.identity(200), Rotation.from_quat(quaternion, scalar_first=True)
    tilt = np.zeros(200)
    for solid, turn in zip((first, second), turns, strict=True):
        if isinstance(solid, rb.Cylinder | rb.Cone | rb.Rounded):
            axis = turn.apply(ROUND_AXIS if solid is ROUND else [0.0, 0, 1])
            across = np.linalg.norm(np.cross(axis[:, None], normal), axis=2).max(axis=1)
            tilt = np.maximum(tilt, across)
    inside = np.minimum(0.0027, (1 - np.cos(np.pi / 6)) * np.tan(tilt[apart]))
    assert np.all(missed <= np.where(tilt[apart] < 0.2, 0.35 * inside, 0) + 1e-13)
    off = on_first - on_second - gap[..., None] * normal
    # What is open has a large gap and the points of one that is not.
    used = apart[:, None] & (np.linalg.norm(off, axis=2) < 1e-12)
    assert np.all(used[apart].any(axis=1))
    assert np.all(gap[apart[:, None] & ~used] > 0.5)


@pytest.mark.long
def test_a_patch_can_be_differentiated():
    """By pose, tilted and flat; against differences where it is tilted."""
    colliders = colliders_of(TABLE, CYLINDER, standing=True)

    @jax.jit
    def of(x):
        found = patch(*colliders, Vec3.of(x[:3]), Quat.of(x[3:]).normalized())
        vectors = jnp.stack([v.array() for v in (found.normal, *found.points)])
        return jnp.concatenate([found.gap, vectors.reshape(-1)])

    slope = quick_jit(jax.jacfwd(of))
    x = np.array([0.1, 0.2, 0.6, 1.0, 0.02, -0.03, 0.3])
    np.testing.assert_allclose(slope(x), differences(of, x, step=1e-5), rtol=1e-7, atol=1e-8)
    assert np.isfinite(slope(np.array([0.1, 0.2, 0.6, 1.0, 0.0, 0.0, 0.0]))).all()
