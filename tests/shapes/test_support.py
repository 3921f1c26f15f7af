"""Supports of convex solids against brute force over points of their surfaces.

A point is the furthest along d if it lies in the solid and no other point of it is further:
membership comes from the definition of the solid, the rest from sampled surface points. Both
are exact up to round-off (20 eps); that the sampled points come close to it (1 % of the size
with 10^4 of them) shows that the samples are of this solid.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxrb as rb
from jaxrb.math import Vec3
from jaxrb.shapes.base import components

TIGHT = 5e-15
RADIUS = 0.3
AXES = np.array([2.0, 3.0, 0.5])
HALF = np.array([0.5, 1.2, 0.8])


def sphere_points(n, seed):
    a = np.random.default_rng(seed).normal(size=(n, 3))
    return a / np.linalg.norm(a, axis=-1, keepdims=True)


def box_points(n, half, seed):
    """Points of the faces, and the corners."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, size=(n, 3))
    face = rng.integers(3, size=n)
    points[np.arange(n), face] = np.sign(points[np.arange(n), face])
    corners = np.stack(np.meshgrid(*[[-1, 1]] * 3), axis=-1).reshape(-1, 3)
    return np.concatenate([points, corners]) * half


def rounded_box_points(n, seed):
    corners = box_points(0, HALF, 0)
    ball = sphere_points(n, seed)
    return (corners[:, None] + RADIUS * ball).reshape(-1, 3)


def lathe_points(radii, heights, n, seed):
    """Points of a surface of revolution about z, whose profile is a line of segments."""
    rng = np.random.default_rng(seed)
    corners = np.stack([radii, heights], axis=-1)
    segment = rng.integers(len(corners) - 1, size=n)
    part = rng.uniform(size=(n, 1)) ** 2  # denser towards the corners
    profile = corners[segment] * (1 - part) + corners[segment + 1] * part
    profile = np.concatenate([profile, np.repeat(corners, 200, axis=0)])
    angle = rng.uniform(0, 2 * np.pi, size=len(profile))
    out = np.stack([np.cos(angle), np.sin(angle)], axis=-1) * profile[:, :1]
    return np.concatenate([out, profile[:, 1:]], axis=-1)


def around(p):
    """Distances from the z-axis."""
    return np.linalg.norm(p[..., :2], axis=-1)


def capsule_points(n, seed):
    """Balls at the ends of the segment, and the side between them."""
    ball = 0.4 * sphere_points(n, seed)
    caps = ball + [0.0, 0.0, 1.1] * np.sign(ball[:, 2:])
    return np.concatenate([caps, lathe_points([0.4, 0.4], [-1.1, 1.1], n, seed)])


TURN = Rotation.from_rotvec([0.4, -0.9, 0.6])
SHIFT = np.array([0.3, -0.2, 0.5])

# name: (shape, points of its surface, how far a point is outside it)
SOLIDS = {
    "sphere": (
        rb.Sphere(0.7),
        0.7 * sphere_points(10_000, 0),
        lambda p: np.linalg.norm(p, axis=-1) / 0.7 - 1,
    ),
    "ellipsoid": (
        rb.Ellipsoid(AXES),
        AXES * sphere_points(10_000, 1),
        lambda p: np.linalg.norm(p / AXES, axis=-1) - 1,
    ),
    "box": (
        rb.Box(HALF),
        box_points(10_000, HALF, 2),
        lambda p: np.max(np.abs(p) / HALF, axis=-1) - 1,
    ),
    "rounded box": (
        rb.Rounded(rb.Box(HALF), RADIUS),
        rounded_box_points(5_000, 3),
        lambda p: np.linalg.norm(p - np.clip(p, -HALF, HALF), axis=-1) / RADIUS - 1,
    ),
    "capsule": (
        rb.Capsule(0.4, 1.1),
        capsule_points(5_000, 6),
        lambda p: np.linalg.norm(p - [0, 0, 1] * np.clip(p, -1.1, 1.1), axis=-1) / 0.4 - 1,
    ),
    "cylinder": (
        rb.Cylinder(0.6, 0.9),
        lathe_points([0, 0.6, 0.6, 0], [-0.9, -0.9, 0.9, 0.9], 10_000, 7),
        lambda p: np.maximum(around(p) / 0.6, np.abs(p[..., 2]) / 0.9) - 1,
    ),
    "cone": (
        rb.Cone(0.8, 1.5),
        lathe_points([0, 0.8, 0], [0, 0, 1.5], 10_000, 8),
        lambda p: np.maximum(around(p) / 0.8 + p[..., 2] / 1.5 - 1, -p[..., 2]),
    ),
    "placed ellipsoid": (
        rb.Placed(rb.Ellipsoid(AXES), SHIFT, 2 * TURN.as_quat(scalar_first=True)),
        TURN.apply(AXES * sphere_points(10_000, 9)) + SHIFT,
        lambda p: np.linalg.norm(TURN.inv().apply(p - SHIFT) / AXES, axis=-1) - 1,
    ),
    "union": (
        rb.Union(rb.Sphere(0.7), rb.Placed(rb.Box(HALF), SHIFT)),
        np.concatenate([0.7 * sphere_points(10_000, 10), box_points(10_000, HALF, 11) + SHIFT]),
        lambda p: (
            np.minimum(np.linalg.norm(p, axis=-1) / 0.7, np.max(np.abs(p - SHIFT) / HALF, axis=-1))
            - 1
        ),
    ),
    "rounded union": (
        rb.Rounded(rb.Union(rb.Sphere(0.7), rb.Placed(rb.Sphere(0.4), SHIFT)), RADIUS),
        np.concatenate([sphere_points(10_000, 12), 0.7 * sphere_points(10_000, 13) + SHIFT]),
        lambda p: (
            np.minimum(
                np.linalg.norm(p, axis=-1), np.linalg.norm(p - SHIFT, axis=-1) / (0.4 + RADIUS)
            )
            - 1
        ),
    ),
    "twice rounded box": (
        rb.Rounded(rb.Rounded(rb.Box(HALF), 0.1), RADIUS - 0.1),
        rounded_box_points(5_000, 4),
        lambda p: np.linalg.norm(p - np.clip(p, -HALF, HALF), axis=-1) / RADIUS - 1,
    ),
}


@pytest.mark.parametrize("name", SOLIDS)
def test_support(name):
    shape, surface, outside = SOLIDS[name]
    size = np.abs(surface).max()
    directions = sphere_points(60, 5)
    points = np.asarray(shape.support(jnp.asarray(directions)))
    assert np.max(np.abs(outside(points))) < TIGHT  # on the surface
    reached = np.sum(points * directions, axis=-1)
    best = (surface @ directions.T).max(axis=0)
    assert (reached >= best - TIGHT * size).all()
    assert (reached <= best + 0.01 * size).all()

    height, same = components(shape).support_map(Vec3.of(jnp.asarray(directions)))
    np.testing.assert_allclose(np.broadcast_to(height, (60,)), reached, atol=TIGHT * size)
    np.testing.assert_allclose(same.array(), points, atol=TIGHT * size)


@pytest.mark.parametrize("name", SOLIDS)
def test_bounding_radius(name):
    shape, surface, _ = SOLIDS[name]
    furthest = np.linalg.norm(surface, axis=-1).max()
    radius = float(shape.bounding_radius())
    # It holds every point, and for these shapes is not much larger than need be: of a turned
    # or moved solid only the distance of its origin is known.
    slack = 1.5 if name in ("placed ellipsoid", "union", "rounded union") else 1.01
    assert furthest <= radius * (1 + TIGHT) and radius <= slack * furthest


@pytest.mark.parametrize("name", SOLIDS)
def test_support_ignores_the_length_of_the_direction(name):
    shape = SOLIDS[name][0]
    d = jnp.asarray([0.3, -0.5, 0.2])
    unit = np.asarray(d) / np.linalg.norm(d)
    expected = np.asarray(shape.support(jnp.asarray(unit)))
    for scale in (1e-8, 1e8):
        np.testing.assert_allclose(shape.support(scale * d), expected, rtol=TIGHT)


@pytest.mark.parametrize("name", ["sphere", "ellipsoid", "rounded box"])
def test_the_support_point_is_the_gradient_of_the_height(name):
    """grad h(d) = z for a function h extended with degree 1 (here by hand, h(d/|d|) |d|)."""
    shape = SOLIDS[name][0]

    def height(d):
        length = jnp.sqrt(jnp.sum(d * d))
        return components(shape).support_map(Vec3.of(d / length))[0] * length

    d = jnp.asarray([0.3, -0.5, 0.2])
    np.testing.assert_allclose(jax.grad(height)(d), shape.support(d), rtol=0, atol=TIGHT)


def test_box_takes_the_middle_of_a_face_or_edge():
    box = rb.Box(HALF)
    face, edge = jnp.array([0.0, 0.0, 1.0]), jnp.array([0.0, -1.0, 1.0])
    np.testing.assert_array_equal(box.support(face), [0, 0, HALF[2]])
    np.testing.assert_array_equal(box.support(edge), [0, -HALF[1], HALF[2]])


def test_support_in_float32():
    for shape in (
        rb.Sphere(jnp.float32(0.7)),
        rb.Ellipsoid(jnp.asarray(AXES, jnp.float32)),
        rb.Rounded(rb.Box(jnp.asarray(HALF, jnp.float32)), jnp.float32(RADIUS)),
    ):
        assert shape.support(jnp.ones(3, jnp.float32)).dtype == jnp.float32


@pytest.mark.parametrize("length", [1.0, 7.0])
def test_half_space_distance_to_a_tilted_plane(length):
    normal = np.array([1.0, -2.0, 2.0]) / 3
    plane = rb.HalfSpace(normal * length, 0.5 * length)
    unit, offset = plane.unit_normal_and_offset()
    np.testing.assert_allclose(unit, normal, atol=TIGHT)
    np.testing.assert_allclose(offset, 0.5, atol=TIGHT)
    rng = np.random.default_rng(6)
    heights = rng.normal(size=20)
    along = np.cross(normal, rng.normal(size=(20, 3)))  # in the plane
    points = (0.5 + heights)[:, None] * normal + along
    found = [plane.signed_distance(jnp.asarray(p)) for p in points]
    np.testing.assert_allclose(found, heights, atol=2 * TIGHT)


def test_half_space_distance_of_a_batch_of_points():
    points = np.random.default_rng(7).normal(size=(4, 5, 3))
    found = rb.HalfSpace((0, 0, 1), 0.25).signed_distance(jnp.asarray(points))
    np.testing.assert_allclose(found, points[..., 2] - 0.25, atol=TIGHT)


def test_half_space_defaults_to_the_ground():
    ground = rb.HalfSpace()
    assert ground.signed_distance(jnp.array([3.0, 4.0, 2.0])) == 2
    assert ground.signed_distance(jnp.array([3.0, 4.0, -2.0])) == -2
