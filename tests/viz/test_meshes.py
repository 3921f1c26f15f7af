"""Meshes of solids: closed, outward, and as large as they should be."""

import sys

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.shapes.base import AbstractSolid
from jaxrb.viz import mesh, surface
from jaxrb.viz.meshes import Mesh, section


def torus(z):
    """Of radii 1 and 0.3."""
    return jnp.sqrt((jnp.sqrt(z[0] ** 2 + z[1] ** 2 + 1e-12) - 1.0) ** 2 + z[2] ** 2) - 0.3


BALL = 4 / 3 * np.pi  # of radius 1
TURN = (0.9, 0.1, -0.3, 0.2)
POINTS = ((1.0, 1.0, 1.0), (1.0, -1.0, -1.0), (-1.0, 1.0, -1.0), (-1.0, -1.0, 1.0))
# The shape, its volume [m^3], and by how much of it the mesh may differ: the hull of n points on a
# sphere lacks some 2 pi/(sqrt(3) n) in its radius, marching cubes cut off edges.
SHAPES = {
    "sphere": (rb.Sphere(1.0), BALL, 0.02),
    "ellipsoid": (rb.Ellipsoid((2.0, 3.0, 4.0)), 24 * BALL, 0.02),
    "box": (rb.Box((0.5, 1.0, 1.5)), 6.0, 1e-9),
    "capsule": (rb.Capsule(0.5, 1.0), BALL / 8 + np.pi / 2, 0.02),
    "cylinder": (rb.Cylinder(0.5, 1.0), np.pi / 2, 0.01),
    "cone": (rb.Cone(1.0, 2.0), 2 * np.pi / 3, 0.01),
    "polyhedron": (rb.ConvexPolyhedron(POINTS), 8 / 3, 1e-9),
    "placed": (rb.Placed(rb.Box((0.5, 1.0, 1.5)), (3.0, 2.0, 1.0), TURN), 6.0, 1e-9),
    "scaled": (rb.Scaled(rb.Cone(1.0, 2.0), 2.0), 16 * np.pi / 3, 0.01),
    # Faces, quarters of cylinders and eighths of a ball around a cube.
    "rounded": (
        rb.Rounded(rb.Box((0.5, 0.5, 0.5)), 0.2),
        1 + 6 * 0.2 + 3 * np.pi * 0.2**2 + BALL * 0.2**3,
        0.01,
    ),
    "union": (
        rb.Union(rb.Sphere(1.0), rb.Placed(rb.Sphere(1.0), (1.0, 0.0, 0.0))),
        2 * BALL - 5 * np.pi / 12,
        0.01,
    ),
    "apart": (
        rb.Union(rb.Box((1.0, 1.0, 1.0)), rb.Placed(rb.Box((0.5, 0.5, 0.5)), (3.0, 0.0, 0.0))),
        9.0,
        0.02,
    ),
    # What is left of a ball beyond a plane at a distance h: pi (1 - h)^2 (2 + h)/3 is gone.
    "intersection": (
        rb.Intersection(rb.Sphere(1.0), rb.HalfSpace((0.0, 0.0, 1.0), 0.4)),
        BALL - np.pi * 0.6**2 * 2.4 / 3,
        0.01,
    ),
    "difference": (
        rb.Difference(rb.Box((1.0, 1.0, 0.5)), rb.Cylinder(0.5, 1.0)),
        4 - np.pi / 4,
        0.02,
    ),
    "hollow": (rb.Difference(rb.Sphere(1.0), rb.Sphere(0.5)), BALL * 7 / 8, 0.01),
    "torus": (rb.Implicit(torus, 1.4), 2 * np.pi**2 * 0.3**2, 0.02),
    "rounded torus": (
        rb.Placed(rb.Rounded(rb.Implicit(torus, 1.4), 0.1), (1.0, 2.0, 3.0), TURN),
        2 * np.pi**2 * 0.4**2,
        0.02,
    ),
}


def is_closed(found: Mesh) -> bool:
    """Whether each side of a triangle is that of just one other, the other way around."""
    sides = np.stack([found.faces, np.roll(found.faces, -1, axis=1)], axis=-1).reshape(-1, 2)
    sides = set(map(tuple, sides.tolist()))
    return len(sides) == 3 * len(found.faces) and all((b, a) in sides for a, b in sides)


@pytest.mark.parametrize("name", SHAPES)
def test_closed_outward_and_of_the_right_volume(name):
    shape, volume, tolerance = SHAPES[name]
    found = mesh(shape)
    assert is_closed(found)
    np.testing.assert_allclose(found.volume, volume, rtol=tolerance)
    # The corners of the triangles lie on the surface, or within a cell of it where there are edges.
    size = np.ptp(found.vertices, axis=0).max()
    assert np.abs(shape.signed_distance(found.vertices)).max() < 0.02 * size
    assert len(found.faces) < 30_000


@pytest.mark.parametrize("name", ["box", "union", "difference", "torus"])
def test_signed_volume_of_creased_meshes_and_surfaces(name):
    shape, volume, tolerance = SHAPES[name]
    found = mesh(shape)
    creased = found.creased()
    np.testing.assert_array_equal(creased.triangles, found.triangles)
    corners = surface(shape)
    if name == "union":  # what lies inside is left out
        distance = np.asarray(shape.signed_distance(corners))
        assert np.abs(distance.max(axis=1)).max() < 1e-9
    else:
        a, b, c = np.moveaxis(corners, 1, 0)
        volumes = np.sum(a * np.cross(b, c)) / 6
        np.testing.assert_allclose(volumes, volume, rtol=tolerance)


def test_creases_part_faces_and_leave_curves():
    assert len(mesh(rb.Box((1.0, 1.0, 1.0))).creased().vertices) == 24
    ball = mesh(rb.Sphere(1.0))
    assert len(ball.creased().vertices) == len(ball.vertices)


def test_sections_lie_in_their_planes():
    lines = section(mesh(rb.Ellipsoid((2.0, 3.0, 4.0))), 1)
    assert np.abs(lines[..., 1]).max() < 1e-12
    on = (lines[..., 0] / 2) ** 2 + (lines[..., 2] / 4) ** 2
    assert on.max() < 1 + 1e-12
    assert on.min() > 0.97
    length = np.linalg.norm(lines[:, 1] - lines[:, 0], axis=-1).sum()
    np.testing.assert_allclose(length, 19.3769, rtol=0.01)  # the perimeter, 16 E(3/4)


def test_finer_meshes_are_closer():
    shape, volume, _ = SHAPES["hollow"]
    coarse, fine = (abs(mesh(shape, cells=cells).volume / volume - 1) for cells in (24, 48))
    assert fine < 0.4 * coarse


def test_what_cannot_be_found_is_said(monkeypatch):
    far = rb.Placed(rb.Sphere(1.0), (5.0, 0.0, 0.0))
    with pytest.raises(ValueError, match="Intersection is empty"):
        mesh(rb.Intersection(rb.Sphere(1.0), far))
    monkeypatch.setitem(sys.modules, "skimage.measure", None)
    with pytest.raises(ImportError, match=r'pip install "jaxrb\[viz\]"'):
        mesh(SHAPES["torus"][0])
    mesh(SHAPES["box"][0])


class Torus(AbstractSolid):
    """A solid of a user's own that says nothing about convexity."""

    ring: float = 0.3
    tube: float = 0.1

    def distance_map(self, point):
        outward = jnp.sqrt(point.x**2 + point.y**2) - self.ring
        return jnp.sqrt(outward**2 + point.z**2) - self.tube

    def support_map(self, direction):
        raise NotImplementedError

    def bounding_radius(self):
        return jnp.asarray(self.ring + self.tube)


def test_a_solid_is_not_taken_for_convex():
    """A hull would fill the hole: 0.1414 m^3."""
    exact = 2 * np.pi**2 * 0.3 * 0.1**2
    assert mesh(Torus()).volume == pytest.approx(exact, rel=0.03)
