"""Solids and bodies from mesh files."""

import sys

import numpy as np
import pytest
import trimesh

import jaxrb as rb
from jaxrb.io import load, load_body, load_mesh


def brick(tmp_path, name="brick.stl", shift=(0.0, 0.0, 0.0)):
    mesh = trimesh.creation.box((1.0, 2.0, 3.0))
    mesh.apply_translation(shift)
    mesh.export(tmp_path / name)
    return mesh


@pytest.mark.parametrize("suffix", [".stl", ".obj", ".ply", ".off"])
def test_brick(tmp_path, suffix):
    brick(tmp_path, f"brick{suffix}", (5, 0, 0))
    path = tmp_path / f"brick{suffix}"
    solid = load(path)
    assert isinstance(solid, rb.ConvexPolyhedron) and solid.vertices.shape == (8, 3)
    found = solid.mass_properties(density=2.0)
    np.testing.assert_allclose(found.volume, 6.0, rtol=1e-13)
    np.testing.assert_allclose(found.center_of_mass, [5, 0, 0], atol=1e-13)
    body = load(path, density=2.0)
    np.testing.assert_allclose(body.mass, 12.0, rtol=1e-14)
    np.testing.assert_allclose(body.inertia, np.diag([13.0, 10.0, 5.0]), atol=1e-13)
    np.testing.assert_allclose(np.mean(body.shape.vertices, axis=0), 0, atol=1e-14)
    small = load(path, mass=3.0, scale=0.01)
    np.testing.assert_allclose(small.inertia, np.diag([13, 10, 5]) / 4e4, atol=1e-17)


def test_components(tmp_path):
    parts = [brick(tmp_path, shift=(x, 0, 0)) for x in (-2.0, 2.0)]
    path = tmp_path / "two.stl"
    trimesh.util.concatenate(parts).export(path)
    with pytest.raises(ValueError, match=r'two.stl is not convex.*2 parts with hulls="components"'):
        load(path)
    assert load(path, hulls="whole").vertices.shape == (8, 3)  # the outer corners
    pair = load(path, hulls="components")
    assert isinstance(pair, rb.Union)
    np.testing.assert_allclose(pair.signed_distance(np.zeros(3)), 1.5, atol=1e-14)
    body = load(path, mass=2.0, hulls="components")
    one = np.array([13.0, 10.0, 5.0]) / 12
    expected = np.diag(2 * one + 2 * 4 * np.array([0, 1, 1]))
    np.testing.assert_allclose(body.inertia, expected, atol=1e-13)
    # With its shape as a hull the body keeps the mass properties of its mesh.
    whole = load(path, mass=2.0, hulls="whole")
    np.testing.assert_allclose(whole.inertia, expected, atol=1e-13)


def test_hollow_and_inverted_meshes(tmp_path):
    mesh = trimesh.creation.box((1.0, 1.0, 1.0))
    mesh.invert()
    mesh.export(tmp_path / "inverted.stl")
    np.testing.assert_allclose(load(tmp_path / "inverted.stl", density=1.0).mass, 1.0, rtol=1e-14)
    shell = trimesh.creation.box((2.0, 2.0, 2.0))
    trimesh.util.concatenate([shell, mesh]).export(tmp_path / "hollow.stl")
    hollow = load_body(tmp_path / "hollow.stl", density=1.0)
    np.testing.assert_allclose(hollow.mass, 7.0, rtol=1e-14)
    np.testing.assert_allclose(hollow.inertia, np.eye(3) * (8 * 8 - 2) / 12, atol=1e-13)
    # A hollow is a component that is inside out: it has no hull, and counts as before.
    split = load_body(tmp_path / "hollow.stl", density=1.0, hulls="components")
    assert isinstance(split.shape, rb.ConvexPolyhedron)
    np.testing.assert_allclose(split.mass, 7.0, rtol=1e-14)
    np.testing.assert_allclose(split.inertia, hollow.inertia, atol=1e-13)


def test_only_convex_meshes_are_their_hulls(tmp_path):
    """A ring is none, and its hull is taken only where this is asked for."""
    path = tmp_path / "ring.stl"
    ring = trimesh.creation.annulus(r_min=0.5, r_max=1.0, height=0.4)
    ring.export(path)
    ratio = 1 / (1 - 0.5**2)  # of discs
    for options in ({}, {"density": 1.0}, {"hulls": "components"}):
        with pytest.raises(ValueError, match=f"ring.stl .*not convex.* has {ratio:.4g} times") as e:
            load(path, **options)
        assert 'hulls="whole"' in str(e.value) and "CoACD" in str(e.value)
    assert load(path, hulls="whole").signed_distance(np.zeros(3)) < 0
    body = load(path, hulls="whole", density=1.0)
    np.testing.assert_allclose(body.mass, ring.volume, rtol=1e-6)  # of the ring itself
    # Overlapping copies have more volume than their hull, but do not fill it.
    copy = ring.copy()
    copy.apply_translation((1e-3, 0, 0))
    trimesh.util.concatenate([ring, copy]).export(tmp_path / "twice.ply")
    with pytest.raises(ValueError, match="is not convex"):
        load(tmp_path / "twice.ply")
    # Single precision and fine facets do not make a convex mesh another one.
    for name, mesh in {
        "ball": trimesh.creation.icosphere(subdivisions=4, radius=0.1),
        "rod": trimesh.creation.cylinder(radius=0.01, height=3.0, sections=200),
    }.items():
        mesh.apply_translation((3.0, 2.0, 1.0))
        mesh.export(tmp_path / f"{name}.stl")
        assert isinstance(load(tmp_path / f"{name}.stl"), rb.ConvexPolyhedron)


def test_errors(tmp_path, monkeypatch):
    mesh = brick(tmp_path)
    path = tmp_path / "open.stl"
    mesh.update_faces(np.arange(len(mesh.faces)) > 0)
    mesh.export(path)
    with pytest.raises(ValueError, match=r"open.stl is not closed.*no volume"):
        load(path)
    path = tmp_path / "brick.stl"
    with pytest.raises(ValueError, match="exactly one of mass"):
        load(path, mass=1.0, density=1.0)
    with pytest.raises(ValueError, match="density must be positive"):
        load(path, density=-1.0)
    with pytest.raises(ValueError, match="hulls must be None"):
        load_mesh(path, hulls="vhacd")
    flat = trimesh.Trimesh([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [(0, 1, 2), (0, 2, 1)], process=False)
    flat.export(tmp_path / "flat.off")
    with pytest.raises(ValueError, match=r"flat.off encloses no volume"):
        load(tmp_path / "flat.off")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.stl"):
        load(tmp_path / "nowhere.stl")
    (tmp_path / "noise.ply").write_text("no mesh")
    with pytest.raises(ValueError, match=r"noise.ply"):
        load(tmp_path / "noise.ply")
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.raises(ImportError, match=r"jaxrb\[mesh\]"):
        load(path)
