"""Several contact points where faces lie on each other, against an independent implementation:
outlines by Qhull, their overlap by Sutherland and Hodgman's clipping, distances by non-negative
least squares."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation
from test_narrow_phase import (
    BOX,
    CAPSULE,
    MOVED,
    POLYHEDRON,
    TETRAHEDRON,
    colliders_of,
    corners,
    minkowski_gap,
)

import jaxrb as rb
from jaxrb.contact.narrow_phase import patch
from jaxrb.lie import quaternion as quaternions
from jaxrb.math import Quat, Vec3, rotate_inverse
from jaxrb.simulate.system import build, partners
from jaxrb.stepping.contact_rows import ContactRows
from jaxrb.stepping.rows import jacobians

CUBE = rb.ConvexPolyhedron(corners(rb.Box((0.3, 0.3, 0.3)))[0])
angles = 2 * np.pi * np.arange(7) / 7
RING = 0.4 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
# Two faces of seven corners, each of which Qhull divides into five triangles.
PRISM = rb.ConvexPolyhedron(np.concatenate([np.insert(RING, 2, z, axis=1) for z in (-0.2, 0.2)]))
ROUND = rb.Rounded(rb.Box((0.4, 0.3, 0.2)), 0.07)


def measured(first, second):
    """Gaps, normals and points on both, of stacked poses, in NumPy; one program for all."""
    colliders = colliders_of(first, second, standing=True)

    @jax.jit
    @jax.vmap
    def of(shift, quaternion):
        found = patch(*colliders, Vec3.of(shift), Quat.of(quaternion).normalized())
        return found.gap, found.normal.array(), *(point.array() for point in found.points)

    return lambda *pose: tuple(np.asarray(x) for x in of(*map(jnp.asarray, pose)))


def matrix(quaternion):
    return np.asarray(quaternions.to_matrix(quaternion / np.linalg.norm(quaternion)))


def used(gap, normal, on_first, on_second):
    """Which places are not open: their points are as far apart as the gap says."""
    apart = np.sum(normal * (on_first - on_second), axis=-1)
    return np.abs(apart - gap) < 1e-9


def faces(points):
    """Of each face its outward normal, its offset and its corners in turn, by Qhull."""
    found = []
    for *normal, offset in ConvexHull(points).equations:
        if any(np.dot(normal, other) > 1 - 1e-9 for other, _, _ in found):
            continue
        on_it = points[np.abs(points @ normal + offset) < 1e-9]
        one = np.cross(normal, [0.3, 0.5, 0.7])
        flat = np.stack([on_it @ one, on_it @ np.cross(normal, one)], axis=1)
        found.append((np.array(normal), -offset, on_it[ConvexHull(flat).vertices]))
    return found


def clipped(subject, clip):
    """The part of a convex polygon within another, both counter-clockwise, by clipping with one
    side after the other (Sutherland and Hodgman)."""
    for start, end in zip(clip, np.roll(clip, -1, axis=0), strict=True):
        side = end - start
        inside = side[0] * (subject[:, 1] - start[1]) - side[1] * (subject[:, 0] - start[0])
        kept = []
        for k in range(len(subject)):
            here, before = inside[k], inside[k - 1]
            if (here >= 0) != (before >= 0):
                part = before / (before - here)
                kept.append(subject[k - 1] + part * (subject[k] - subject[k - 1]))
            if here >= 0:
                kept.append(subject[k])
        subject = np.array(kept).reshape(-1, 2)
        if not len(subject):
            break
    return subject


def area(polygon):
    x, y = polygon.T
    return 0.5 * np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))


def turned_onto(source, target):
    """A rotation that takes one unit vector to another."""
    axis, cosine = np.cross(source, target), np.dot(source, target)
    if cosine < -1 + 1e-12:
        other = np.cross(source, [0.3, 0.5, 0.7])
        other /= np.linalg.norm(other)
        return 2 * np.outer(other, other) - np.eye(3)
    hat = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.eye(3) + hat + hat @ hat / (1 + cosine)


def quaternion_of(turn):
    return Rotation.from_matrix(turn).as_quat(scalar_first=True)


def laid(first, second, number, seed, aligned=False):
    """Poses of a second solid that lies with a face on a face of the first, some of them at a
    small distance: shift and matrix; the normal into the first, the distance, and both outlines
    across the normal, from above the first's face."""
    rng = np.random.default_rng(seed)
    (a, r), (b, s) = corners(first), corners(second)
    own, others = faces(a), faces(b)
    for _ in range(number):
        (n, offset, outline), (m, depth, outline2) = (
            which[rng.integers(len(which))] for which in (own, others)
        )
        side = outline[1] - outline[0]
        side = side / np.linalg.norm(side)
        axes = np.stack([side, np.cross(n, side)])
        turn = turned_onto(m, -n)
        angle = 0.0 if aligned else rng.uniform(0, 2 * np.pi)
        about = np.cos(angle) * np.eye(3) + (1 - np.cos(angle)) * np.outer(n, n)
        about += np.sin(angle) * np.cross(np.eye(3), -n)
        turn = about @ turn
        distance = rng.choice([0.0, 1e-3, -1e-4])
        lateral = rng.normal(size=2) * 0.2 @ axes
        center = outline.mean(axis=0) - turn @ outline2.mean(axis=0) + lateral
        height = offset + distance + r + s - n @ (turn @ (m * depth))
        shift = center + n * (height - n @ center)
        seen = [axes @ outline.T, axes @ ((outline2 @ turn.T) + shift).T]
        polygons = [x.T if area(x.T) > 0 else x.T[::-1] for x in seen]
        yield shift, turn, (-n, distance, axes, polygons)


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (BOX, BOX),
        (CUBE, PRISM),
        *before_releases((PRISM, BOX), (PRISM, PRISM), (ROUND, BOX), (TETRAHEDRON, CUBE)),
    ],
)
def test_faces_on_faces(first, second):
    """The points are the corners of the overlap, of boxes all, of others the furthest in eight
    directions that are fixed to the face of the first; normals and gaps are those of its plane."""
    cases = [
        case
        for case in laid(first, second, 120, seed=3)
        if area_of(clipped(case[2][3][1], case[2][3][0])) > 1e-2
    ]
    assert len(cases) > 25
    shift = np.stack([case[0] for case in cases])
    quaternion = np.stack([quaternion_of(case[1]) for case in cases])
    gap, normal, on_first, on_second = measured(first, second)(shift, quaternion)
    of_boxes, many = all(own is BOX or own is ROUND for own in (first, second)), 0
    for k, (_, _, (n, distance, axes, polygons)) in enumerate(cases):
        there = used(gap[k], normal[k], on_first[k], on_second[k])
        overlap = clipped(polygons[1], polygons[0])
        np.testing.assert_allclose(gap[k][there], distance, rtol=0, atol=2e-14)
        np.testing.assert_allclose(normal[k], np.broadcast_to(n, normal[k].shape), atol=1e-13)
        seen = on_second[k][there] @ axes.T
        apart = np.linalg.norm(seen[:, None] - overlap[None], axis=2).min(axis=1)
        np.testing.assert_allclose(apart, 0.0, atol=1e-9)
        if of_boxes:
            assert there.sum() == len(distinct(seen)) == len(distinct(overlap))
        else:
            # In which direction the first side of the outline points is the implementation's
            # choice.
            sides = polygons[0] - np.roll(polygons[0], 1, axis=0)
            assert any(furthest(seen, overlap, side) for side in sides)
            assert there.sum() >= min(3, len(distinct(overlap)))
        many += there.sum() > 4
        assert not there[-1]
    assert many > 0.2 * len(cases)


def furthest(points, polygon, side):
    """Whether what is furthest of a polygon in eight directions relative to a side is among some
    of its corners."""
    x = side / np.linalg.norm(side)
    # Seen from above, the second axis is to the right.
    y = np.array([x[1], -x[0]])
    for angle in 0.3 + 2 * np.pi * np.arange(8) / 8:
        found = polygon[np.argmax(polygon @ (np.cos(angle) * x + np.sin(angle) * y))]
        if np.linalg.norm(points - found, axis=1).min() > 1e-9:
            return False
    return True


def distinct(points):
    """Without repetitions."""
    kept = [
        p for k, p in enumerate(points) if np.all(np.linalg.norm(points[:k] - p, axis=1) > 1e-7)
    ]
    return np.array(kept)


def area_of(polygon):
    return area(polygon) if len(polygon) > 2 else 0.0


@pytest.mark.slow
def test_aligned_boxes():
    """Where all corners coincide there are four points; round-off does not exchange them."""
    first, rng = rb.Box((0.2, 0.15, 0.1)), np.random.default_rng(0)
    of = measured(first, first)
    for axis in range(3):
        shift = 2 * np.asarray(first.half_extents) * np.eye(3)[axis]
        noise = 1e-15 * rng.normal(size=(200, 7))
        noise[0] = 0.0
        gap, _, _, on_second = of(shift + noise[:, :3], np.array([1.0, 0, 0, 0]) + noise[:, 3:])
        assert np.all(gap[:, 4:] > 0.1)
        gap, on_second = gap[:, :4], on_second[:, :4]
        np.testing.assert_allclose(gap, 0.0, atol=1e-14)
        np.testing.assert_allclose(
            on_second, np.broadcast_to(on_second[0], (200, 4, 3)), atol=1e-14
        )
        other = [k for k in range(3) if k != axis]
        corner = np.abs(on_second[0][:, other])
        half = np.asarray(first.half_extents)[other]
        np.testing.assert_allclose(corner, np.broadcast_to(half, (4, 2)), atol=1e-14)
        assert len(distinct(on_second[0])) == 4


def near_parallel(number, seed):
    """Poses of which some are aligned, to round-off or to more."""
    rng = np.random.default_rng(seed)
    shift, quaternion = rng.normal(size=(number, 3)) * 0.5, rng.normal(size=(number, 4))
    few = quaternion[::3]
    tilt = few * 10.0 ** rng.uniform(-17, -1, size=(len(few), 1))
    quaternion[::3] = np.array([1.0, 0, 0, 0]) + np.where(np.arange(len(few))[:, None] % 4, tilt, 0)
    return shift, quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (BOX, BOX),
        (POLYHEDRON, MOVED),
        (PRISM, BOX),
        (BOX, CAPSULE),
        (CAPSULE, TETRAHEDRON),
        (CAPSULE, CAPSULE),
    ],
)
def test_least_gap_is_the_distance(first, second):
    """In any pose; and all points are on the surfaces, their gaps along the normals."""
    shift, quaternion = near_parallel(700, seed=11)
    gap, normal, on_first, on_second = measured(first, second)(shift, quaternion)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=2), 1.0, atol=1e-14)
    (a, r), (b, s) = corners(first), corners(second)
    several = 0
    for k in range(len(shift)):
        turn = matrix(quaternion[k])
        truth = minkowski_gap(first, second, shift[k], turn)
        np.testing.assert_allclose(gap[k].min(), truth, rtol=0, atol=2e-13)
        there = used(gap[k], normal[k], on_first[k], on_second[k])
        assert np.all(gap[k][~there] > 0.5)
        apart = on_first[k] - on_second[k] - gap[k][:, None] * normal[k]
        np.testing.assert_allclose(apart[there], 0.0, atol=1e-14)
        # The closest point is in the midst of solids whose cores penetrate, or nearly so.
        there[-1] &= gap[k][-1] > -0.9 * (r + s)
        several += there[:-1].any()
        for points, solid in (
            (on_first[k] + normal[k] * r, a),
            ((on_second[k] - normal[k] * s - shift[k]) @ turn, b),
        ):
            np.testing.assert_allclose(off_surface(solid, points[there]), 0.0, atol=1e-7)
    assert several > 50 or first is second is CAPSULE


def off_surface(points, places):
    """How far places are from the surface of a hull, or from a segment."""
    if len(points) == 2:
        along = points[1] - points[0]
        part = np.clip((places - points[0]) @ along / (along @ along), 0, 1)
        return np.linalg.norm(places - points[0] - part[:, None] * along, axis=1)
    planes = np.array([[*n, -d] for n, d, _ in faces(points)])
    return (places @ planes[:, :3].T + planes[:, 3]).max(axis=1)


@pytest.mark.slow
def test_tilted_boxes():
    """The deepest point is there at any tilt; the others rise with it, and stay where they are."""
    first, second = rb.Box((0.2, 0.15, 0.1)), rb.Rounded(rb.Box((0.1, 0.1, 0.1)), 0.02)
    of, rng = measured(first, second), np.random.default_rng(5)
    tilts = np.concatenate([[0.0], np.logspace(-15, -1, 113)])
    for _ in range(6):
        shift = np.array([*rng.uniform(-0.2, 0.2, 2), 0.2 + 0.02])
        axis = np.array([*rng.normal(size=2), 0])
        axis /= np.linalg.norm(axis)
        yaw = quaternions.exp(jnp.array([0.0, 0, 0.2]))
        turns = [quaternions.exp(jnp.asarray(axis * tilt)) for tilt in tilts]
        quaternion = np.stack([np.asarray(quaternions.multiply(turn, yaw)) for turn in turns])
        gap, normal, _, on_second = of(np.broadcast_to(shift, (len(tilts), 3)), quaternion)
        # The last place is that of the closest point where it is no corner.
        assert np.all(gap[:, -1] >= gap[:, :-1].min(axis=1) - tilts)
        own = gap[0] < 0.1
        assert own.sum() > 3 and not own[-1]
        gap, normal, on_second = gap[:, own], normal[:, own], on_second[:, own]
        assert np.all(gap < 0.1)
        assert np.all(np.abs(gap - gap[:1]) <= 0.4 * tilts[:, None] + 1e-14)
        moved = np.linalg.norm(on_second - on_second[:1], axis=2)
        assert np.all(moved[tilts < 1e-2] <= 2 * tilts[tilts < 1e-2, None] + 1e-13)
        assert np.all(np.abs(normal - normal[:1]).max(axis=2) <= 1.1 * tilts[:, None] + 1e-14)


LENGTHS = {
    "boxes": (rb.Box((0.5, 0.3, 0.2)), rb.Rounded(rb.Box((0.4, 0.2, 0.3)), 0.05)),
    "polyhedra": (rb.Scaled(PRISM, 1.1), rb.Scaled(CUBE, 0.9)),
    "capsule": (rb.Box((0.5, 0.3, 0.2)), rb.Capsule(0.1, 0.4)),
    "capsules": (rb.Capsule(0.15, 0.3), rb.Capsule(0.1, 0.4)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["boxes", "capsule", *before_releases("polyhedra", "capsules")])
def test_derivatives(name):
    """By pose and by all lengths, against differences; finite where nothing is unique, too."""
    first, second = LENGTHS[name]
    leaves, structure = jax.tree.flatten(((first, second), jnp.zeros(3), jnp.zeros(4)))
    # Not single corners of a polyhedron, without which a face is no longer one.
    numbers = [k for k, leaf in enumerate(leaves) if leaf.ndim < 2]
    ends = np.cumsum([leaves[k].size for k in numbers])

    @jax.jit
    def of(x):
        parts = jnp.split(x, ends[:-1])
        own = list(leaves)
        for k, part in zip(numbers, parts, strict=True):
            own[k] = part.reshape(leaves[k].shape)
        (one, other), shift, quaternion = jax.tree.unflatten(structure, own)
        colliders = colliders_of(one, other, standing=True)
        found = patch(*colliders, Vec3.of(shift), Quat.of(quaternion).normalized())
        vectors = jnp.stack([v.array() for v in (found.normal, *found.points)])
        return jnp.concatenate([found.gap, vectors.reshape(-1)])

    slope, rng = jax.jit(jax.jacfwd(of)), np.random.default_rng(2)
    lengths = np.concatenate([np.asarray(leaves[k]).ravel() for k in numbers[:-2]])
    height = {"boxes": 0.56, "polyhedra": 0.5, "capsule": 0.31, "capsules": 0.26}[name]
    around = [0.3, 0.6, 0.64, 0.2] if "capsule" in name else [0.9, 0.02, -0.03, 0.3]
    for _ in range(3):
        shift = np.array([*rng.uniform(-0.15, 0.15, 2), height])
        if name == "capsules":
            shift, around = np.array([height, 0.05, 0.1]), [1.0, 0.02, 0.3, 0.1]
        x = np.concatenate([lengths, shift, around + 0.01 * rng.normal(size=4)])
        expected = differences(of, x, step=1e-5)
        np.testing.assert_allclose(slope(x), expected, rtol=1e-8, atol=1e-8)
        # Flat on each other, and with one centre.
        for place in (shift, 0 * shift):
            assert np.isfinite(slope(np.concatenate([lengths, place, [1.0, 0, 0, 0]]))).all()


@pytest.mark.slow
def test_single_precision():
    first, second = rb.Box((0.5, 0.3, 0.2)), ROUND
    exact, pose = measured(first, second), near_parallel(300, seed=4)
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (first, second))
    gap, normal, *points = measured(*single)(*(x.astype(np.float32) for x in pose))
    assert all(x.dtype == np.float32 for x in (gap, normal, *points))
    assert all(np.isfinite(x).all() for x in (gap, normal, *points))
    np.testing.assert_allclose(gap.min(axis=1), exact(*pose)[0].min(axis=1), rtol=0, atol=3e-6)
    gap, *_, on_second = measured(*single)(
        np.array([[0.2, 0.1, 0.47]], np.float32), np.array([[1, 0, 0, 0.2]], np.float32)
    )
    own = gap[0] < 0.1
    np.testing.assert_allclose(gap[0, own], 0.0, atol=1e-6)
    assert len(distinct(on_second[0, own])) == own.sum() >= 4


SMALL = rb.RigidBody(rb.Box((0.1, 0.1, 0.1)), 1.0)


def slide(t, args):
    """Turns and moves, not uniformly."""
    half = 0.3 * jnp.sin(2 * t) + 0.2
    place = jnp.stack([0.3 * jnp.sin(3 * t), 0.2 * t, -0.5 * t**2])
    return place, jnp.stack([jnp.cos(half), 0.6 * jnp.sin(half), 0.8 * jnp.sin(half), 0 * t])


@pytest.mark.slow
def test_obstacle_that_moves():
    """The normal velocities of a box on a moving box are the rates of the four gaps."""
    table = rb.Moving(rb.Box((0.5, 0.4, 0.1)), slide)
    world = rb.World([SMALL], [table], contact_law=rb.Coulomb(0.5, 0.0))
    position, turn = slide(jnp.asarray(0.3), None)
    place = np.asarray(quaternions.to_matrix(turn)) @ [0.15, -0.1, 0.2] + np.asarray(position)
    turn = np.asarray(quaternions.multiply(turn, jnp.array([np.cos(0.2), 0, 0, np.sin(0.2)])))
    velocity, spin = np.array([0.3, -0.8, 0.4]), np.array([0.2, 0.5, -0.7])
    w, v = turn[0], turn[1:]
    change = np.concatenate([[-v @ spin], w * spin + np.cross(v, spin)]) / 2

    @jax.jit
    def contacts(t):
        quaternion = turn + t * change
        quaternion = quaternion / jnp.sqrt(jnp.sum(quaternion**2))
        rows = (place + t * velocity, quaternion, velocity, spin)
        state = rb.State(*(jnp.asarray(row)[None] for row in rows))
        system, phase = build(world, state, standing=True)
        assert system.contacts is not None
        found = system.contacts.find(0.3 + t, phase)
        return found.gap, found.kinematics(phase, system.inertial).normal_velocity

    gap, rate = contacts(jnp.zeros(()))
    gap, rate = gap[:4], rate[:4]
    np.testing.assert_allclose(gap, 0.0, atol=1e-15)
    step = 1e-6
    expected = (contacts(jnp.asarray(step))[0] - contacts(jnp.asarray(-step))[0])[:4] / (2 * step)
    # The tilt during the step turns the normal against that of the other face.
    np.testing.assert_allclose(rate, expected, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_gaps_are_the_least_of_the_contacts_of_a_pair():
    """Of bodies and of an obstacle, in poses of which some are aligned."""
    table = rb.Placed(rb.Box((1.0, 1.0, 0.1)), (0, 0, -0.1))
    world = rb.World([SMALL] * 2, [rb.HalfSpace((0, 0, 1.0), -5.0), table])
    shift, quaternion = near_parallel(400, seed=3)
    shift[::3, :2], shift[::3, 2] = 0.1 * shift[::3, :2], 0.2
    still = np.zeros((2, 3))
    system, _ = build(world, rb.State(still, np.eye(4)[[0, 0]], still, still), standing=True)
    assert system.contacts is not None
    listed = partners(world, system.contacts)

    @jax.jit
    @jax.vmap
    def both(place, turn):
        state = rb.State(place, turn, jnp.zeros((2, 3)), jnp.zeros((2, 3)))
        system, phase = build(world, state, standing=True)
        assert system.contacts is not None
        found = system.contacts.find(jnp.zeros(()), phase)
        return found.gap, *system.contacts.gaps(jnp.zeros(()), phase)

    lower = np.array([0.0, 0.0, 0.1])
    place = np.stack([np.broadcast_to(lower, shift.shape), lower + shift], axis=1)
    turn = np.stack([np.broadcast_to([1.0, 0, 0, 0], quaternion.shape), quaternion], axis=1)
    every, least, round_off = map(np.asarray, both(place, turn))
    pairs = np.unique(listed, axis=0)
    assert least.shape[1] < every.shape[1]
    expected = [every[:, np.all(listed == pair, axis=1)].min(axis=1) for pair in pairs]
    # Half-spaces have a gap for each corner.
    allowed = 4 * round_off.max()
    for own in expected:
        assert (np.abs(least - own[:, None]).min(axis=1) <= allowed).all()
    np.testing.assert_allclose(least.min(axis=1), np.min(expected, axis=0), rtol=0, atol=allowed)


@pytest.mark.long
def test_rows_of_a_stack():
    """Each point belongs to its pair, whose law it has; the forces of four span all wrenches,
    their normal parts three of them."""
    table = rb.Placed(rb.Box((1.0, 1.0, 0.1)), (0, 0, -0.1))
    special = [rb.PairLaw(rb.Coulomb(0.9, 0.0), 0, other=1)]
    world = rb.World(
        [SMALL, rb.RigidBody(rb.Sphere(0.1), 1.0), SMALL],
        [rb.HalfSpace((0, 0, 1.0), -5.0), table],
        contact_law=rb.Coulomb(0.5, 0.0),
        pairs=[(0, 2), (0, 1)],
        pair_laws=special,
    )
    place = np.array([[0, 0, 0.1], [3.0, 0, 0.1], [0.05, 0.02, 0.3]])
    still = np.zeros((3, 3))
    state = rb.State(place, np.tile([1.0, 0, 0, 0], (3, 1)), still, still)
    system, phase = build(world, state, standing=True)
    contacts = system.contacts
    assert contacts is not None
    listed = partners(world, contacts)
    of = {pair: np.all(listed == pair, axis=1) for pair in [(0, 4), (0, 3), (0, 1), (1, 1), (2, 1)]}
    assert [own.sum() for own in of.values()] == [9, 1, 9, 1, 9]
    friction = np.broadcast_to(system.contact_law.coefficient_of_friction, contacts.shape).ravel()
    np.testing.assert_array_equal(friction, np.where(of[0, 3], 0.9, 0.5))

    rows = ContactRows.of(contacts.find(jnp.zeros(()), phase).points(), phase)
    ours = np.flatnonzero(of[0, 4] & (np.asarray(rows.gap) < 0.1))
    assert len(ours) == 4
    np.testing.assert_allclose(np.asarray(rows.gap)[ours], 0.0, atol=1e-15)
    for jacobian in jacobians(rows.rows.direction, *rows.rows.levers):
        wrenches = np.moveaxis(np.asarray(jacobian)[:, :, ours], 1, -1)
        assert np.linalg.matrix_rank(wrenches[0], tol=1e-6) == 3
        assert np.linalg.matrix_rank(wrenches.reshape(-1, 6), tol=1e-6) == 6
    lasting, _ = build(world, dataclasses.replace(state), standing=False)
    assert lasting.contacts is not None
    assert sum(np.all(partners(world, lasting.contacts) == [0, 4], axis=1)) == 1


def test_faces_that_touch_are_so_whatever_the_round_off():
    """Their edges cross to round-off: how far they are apart there may be computed in two ways, as
    nothing and as some. Poses of two cubes of which one is the other moved along a face."""
    rng, n = np.random.default_rng(0), 8192
    colliders = colliders_of(rb.Box((0.1, 0.1, 0.1)), rb.Box((0.1, 0.1, 0.1)), standing=True)
    turn = Rotation.random(n, random_state=rng)
    aside = np.insert(rng.uniform(-0.19, 0.19, (n, 2)), 0, 0.2, axis=1)
    aside[::3, 1:] = 0.03, 0.02
    first = rng.normal(size=(n, 3))
    second = first + turn.apply(aside)
    quaternion = np.roll(turn.as_quat(), 1, axis=-1)

    @jax.jit
    @jax.vmap
    def of(first, second, quaternion):
        turn = Quat.of(quaternion).normalized()
        shift = rotate_inverse(turn, Vec3.of(second) - Vec3.of(first))
        found = patch(*colliders, shift, turn.conjugate() * turn)
        return found.gap, found.normal.array(), found.points[0].array()

    gap, normal, point = of(*map(jnp.asarray, (first, second, quaternion)))
    np.testing.assert_allclose(np.min(gap, axis=1), 0.0, atol=4e-15)  # of places of size 3
    np.testing.assert_allclose(normal, np.broadcast_to([-1.0, 0, 0], normal.shape), atol=1e-12)
    np.testing.assert_allclose(np.abs(point).max(axis=(0, 1)), 0.1, atol=1e-12)


def test_bodies_act_on_each_other_at_one_place():
    """Of two boxes that penetrate each other unevenly: what acts at their corners turns both by
    opposite torques, their relative velocities at all corners are those of a rigid motion, and
    what sticks at all may tilt: of slips only three are independent."""
    box = rb.RigidBody(rb.Box((0.1, 0.1, 0.1)), 1.0)
    world = rb.World([box] * 2, gravity=(0, 0, 0), contact_law=rb.Coulomb(0.5, 0.0))
    place = np.array([[1.0, 2.0, 3.0], [1.02, 1.97, 3.195]])
    turns = Rotation.from_rotvec([[0, 0, 0], [0.004, -0.007, 0.3]])
    quaternion, still = np.roll(turns.as_quat(), 1, axis=-1), np.zeros((2, 3))
    system, phase = build(world, rb.State(place, quaternion, still, still), standing=True)
    assert system.contacts is not None
    points = system.contacts.find(jnp.zeros(()), phase).points()
    rows = ContactRows.of(points, phase)
    own = np.asarray(rows.gap) < 0.1
    gap, number = np.asarray(rows.gap)[own], own.sum()
    assert number > 4 and gap.max() < -0.003 and np.ptp(gap) > 1e-3
    of_sides = jacobians(rows.rows.direction, *rows.rows.levers)
    of_sides = [np.moveaxis(np.asarray(x)[..., own], -1, 0) for x in of_sides]
    torque = sum(
        np.cross(x, j[..., :3]) + turn.apply(j[..., 3:].reshape(-1, 3)).reshape(number, 3, 3)
        for x, turn, j in zip(place, turns, of_sides, strict=True)
    )
    np.testing.assert_allclose(torque, 0.0, atol=4e-15)
    both = np.concatenate([j.reshape(-1, 6) for j in of_sides], axis=1)
    assert np.linalg.matrix_rank(both, tol=1e-13) == 6
    across = np.concatenate([j[:, 1:].reshape(-1, 6) for j in of_sides], axis=1)
    assert np.linalg.matrix_rank(across, tol=1e-13) == 3


@pytest.mark.slow
def test_what_is_open_changes_as_the_distance_of_the_solids():
    """The end of a capsule that stands on a face, tilted by some degrees, is the closest point and
    a corner, and the place of the closest point is open. Which of both it is, round-off may say
    otherwise in another program: so both gaps have one derivative."""
    colliders = colliders_of(rb.Box((0.5, 0.3, 0.2)), rb.Capsule(0.1, 0.4), standing=True)
    tilts = np.radians([1.0, 4.0, 8.0, 20.0])[:, None]
    turns = Rotation.from_rotvec(tilts * [0.6, 0.8, 0]).as_quat(scalar_first=True)

    def gaps(shift, quaternion):
        return patch(*colliders, Vec3.of(shift), Quat.of(quaternion).normalized()).gap

    shift = jnp.array([0.05, 0.02, 0.7])
    both = jax.jit(jax.vmap(lambda q: (gaps(shift, q), jax.jacfwd(gaps, (0, 1))(shift, q))))
    gap, slopes = both(jnp.asarray(turns))
    slope = np.concatenate(slopes, axis=2)
    for k in range(len(turns)):
        deepest, is_open = np.argmin(gap[k]), np.asarray(gap[k] > 1.0)
        assert is_open[4] and not is_open[deepest]
        expected = np.broadcast_to(slope[k, deepest], slope[k, is_open].shape)
        np.testing.assert_allclose(slope[k, is_open], expected, atol=1e-13)
