"""Worlds from URDF."""

import numpy as np
import pytest

import jaxrb as rb
from jaxrb.io import load

BASE = """
<link name="base">
  <inertial><origin xyz=".1 .2 .3" rpy=".3 .2 .1"/><mass value="2"/>
    <inertia ixx=".3" iyy=".4" izz=".5" ixy=".01" ixz=".02" iyz=".03"/></inertial>
  <collision><geometry><box size=".2 .4 .6"/></geometry></collision>
</link>"""
TIP = """
<link name="tip"><inertial><mass value="3"/>
  <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="weld" type="{kind}"><parent link="base"/><child link="tip"/>
  <origin xyz="0 0 1"/><axis xyz="1 0 0"/></joint>"""


def urdf(tmp_path, text, name="robot.urdf", **options):
    path = tmp_path / name
    path.write_text(f'<robot name="robot">{text}</robot>')
    return load(path, **options)


def tensor(body):
    return np.asarray(body.inertia) if body.inertia.ndim == 2 else np.diag(body.inertia)


def turn(roll, pitch, yaw):
    c, s = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    x = np.array([[1, 0, 0], [0, c[0], -s[0]], [0, s[0], c[0]]])
    y = np.array([[c[1], 0, s[1]], [0, 1, 0], [-s[1], 0, c[1]]])
    z = np.array([[c[2], -s[2], 0], [s[2], c[2], 0], [0, 0, 1]])
    return z @ y @ x


def test_floating_base_keeps_mass_and_inertia(tmp_path):
    model = urdf(tmp_path, BASE)
    (body,) = model.world.bodies
    assert model.names == ("base",) and body.mass == 2.0 and not model.report.lost
    axes = turn(0.3, 0.2, 0.1)
    given = np.array([[0.3, 0.01, 0.02], [0.01, 0.4, 0.03], [0.02, 0.03, 0.5]])
    np.testing.assert_allclose(tensor(body), axes @ given @ axes.T, atol=1e-14)
    np.testing.assert_allclose(model.state.position, [[0.1, 0.2, 0.3]], atol=1e-15)
    np.testing.assert_allclose(body.shape.position, [-0.1, -0.2, -0.3], atol=1e-15)
    np.testing.assert_allclose(body.shape.shape.half_extents, [0.1, 0.2, 0.3], rtol=1e-15)
    np.testing.assert_array_equal(model.world.gravity, [0, 0, -9.81])


def test_fixed_joints_weld(tmp_path):
    alone = urdf(tmp_path, BASE)
    model = urdf(tmp_path, BASE + TIP.format(kind="fixed"))
    (body,) = model.world.bodies
    assert body.mass == 5.0
    base, tip = np.array([0.1, 0.2, 0.3]), np.array([0, 0, 1.0])
    center = (2 * base + 3 * tip) / 5
    np.testing.assert_allclose(model.state.position, [center], atol=1e-15)
    expected = tensor(alone.world.bodies[0]) + 0.1 * np.eye(3)
    for mass, point in ((2, base), (3, tip)):
        arm = point - center
        expected += mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    np.testing.assert_allclose(tensor(body), expected, atol=1e-14)


def test_roots(tmp_path):
    """A link called world is the world; floating_base=False fixes any other."""
    floating = '<link name="world"/><joint name="j" type="floating"><parent link="world"/>'
    floating += '<child link="base"/><origin xyz="0 0 4"/></joint>'
    model = urdf(tmp_path, floating + BASE, name="robot.xml")
    np.testing.assert_allclose(model.state.position, [[0.1, 0.2, 4.3]], atol=1e-15)
    with pytest.raises(ValueError, match="no body that moves"):
        urdf(tmp_path, BASE, floating_base=False)
    with pytest.raises(ValueError, match="must be larger"):
        urdf(tmp_path, '<link name="massless"/>')


def test_unknown_parts(tmp_path):
    planar = TIP.format(kind="planar") + '<transmission name="gear"/><gazebo reference="tip"/>'
    with pytest.raises(ValueError, match=r"transmission 'gear'"):
        urdf(tmp_path, BASE + planar)
    model = urdf(tmp_path, BASE + planar, strict=False)
    assert model.names == ("base", "tip") and model.world.bodies[0].mass == 2.0
    (joint,) = model.world.joints
    assert isinstance(joint, rb.Planar) and joint.turns and joint.other == 0
    # The tip has no solid.
    harmless = [(e.element, e.name) for e in model.report.harmless]
    assert harmless == [("gazebo", "tip"), ("body", "tip")]


@pytest.mark.parametrize("name", ["meshes/cube.stl", "package://robot/meshes/cube.stl"])
def test_meshes_are_found_beside_the_file(tmp_path, name):
    import trimesh

    (tmp_path / "meshes").mkdir()
    trimesh.creation.box((0.2, 0.4, 0.6)).export(tmp_path / "meshes" / "cube.stl")
    text = BASE.replace('<box size=".2 .4 .6"/>', f'<mesh filename="{name}"/>')
    (body,) = urdf(tmp_path, text).world.bodies
    assert isinstance(body.shape, rb.ConvexPolyhedron) and body.shape.vertices.shape == (8, 3)
    low = np.asarray(body.shape.vertices).min(axis=0)
    np.testing.assert_allclose(low, [-0.2, -0.4, -0.6], rtol=1e-6)
    with pytest.raises(ValueError, match="does not compile"):
        urdf(tmp_path, text.replace("cube.stl", "sphere.stl"))


def test_meshes_are_found_by_the_rules_of_mujoco(tmp_path):
    import trimesh

    (tmp_path / "assets").mkdir()
    trimesh.creation.box((0.2, 0.4, 0.6)).export(tmp_path / "assets" / "cube.stl")
    text = BASE.replace('<box size=".2 .4 .6"/>', '<mesh filename="cube.stl"/>')
    model = urdf(tmp_path, '<mujoco><compiler meshdir="assets"/></mujoco>' + text)
    assert isinstance(model.world.bodies[0].shape, rb.ConvexPolyhedron)


def test_a_visual_mesh_may_be_missing(tmp_path):
    import trimesh

    trimesh.creation.box((0.2, 0.4, 0.6)).export(tmp_path / "cube.stl")
    text = BASE.replace('<box size=".2 .4 .6"/>', '<mesh filename="package://robot/cube.stl"/>')
    picture = "<visual><geometry><mesh filename='package://robot/a.dae'/></geometry></visual>"
    model = urdf(tmp_path, text.replace("<collision>", picture + "<collision>", 1))
    assert isinstance(model.world.bodies[0].shape, rb.ConvexPolyhedron)
    (entry,) = model.report.harmless
    assert (entry.element, entry.name) == ("visual", "package://robot/a.dae")
