"""Fixed solids of models as obstacles, and which bodies touch them, against MuJoCo and against
closed forms."""

import equinox as eqx
import jax
import mujoco
import numpy as np
import pytest
import trimesh
from helpers import quick_jit

import jaxrb as rb
from jaxrb.io import load

G = 9.81
BALL = '<body name="{0}" pos="{1}"><freejoint/><geom name="{0}" size=".1" {2}/></body>'


def mjcf(tmp_path, body, before="", after="", **options):
    path = tmp_path / "model.xml"
    path.write_text(f"<mujoco>{before}<worldbody>{body}</worldbody>{after}</mujoco>")
    return load(path, **options)


CORNERS = " ".join(f"{x} {y} {z}" for x in (-0.1, 0.1) for y in (-0.2, 0.1) for z in (0, 0.3))
WEDGE = f'<asset><mesh name="wedge" vertex="{CORNERS} 0 0 .5"/></asset>'
SOLIDS = {
    "sphere": 'type="sphere" size=".2"',
    "capsule": 'type="capsule" size=".1 .3"',
    "cylinder": 'type="cylinder" size=".2 .1"',
    "box": 'type="box" size=".1 .2 .3"',
    "mesh": 'type="mesh" mesh="wedge"',
    "ellipsoid": 'type="ellipsoid" size=".1 .2 .3"',
}


@pytest.mark.long
def test_distances_of_all_kinds_agree_with_mujoco(tmp_path):
    """Of each solid that moves from each that is fixed, on nested bodies without joints. An
    ellipsoid and a solid with flat faces are compared where their gap is one: see `pair_gaps`."""
    rng = np.random.default_rng(0)
    place = lambda scale: 'pos="{:.3f} {:.3f} {:.3f}"'.format(*rng.normal(size=3) * scale)  # noqa: E731
    turned = lambda: 'euler="{:.0f} {:.0f} {:.0f}"'.format(*rng.uniform(0, 90, 3))  # noqa: E731
    fixed = "".join(
        f"<body {place(3)} {turned()}><body {place(1)} {turned()}>"
        f'<geom name="fixed {name}" {solid} {place(0.1)} {turned()}/></body></body>'
        for name, solid in SOLIDS.items()
    )
    moving = "".join(
        f'<body {place(3)} {turned()}><freejoint/><geom name="{name}" {solid}/></body>'
        for name, solid in SOLIDS.items()
    )
    model = mjcf(tmp_path, fixed + moving, WEDGE, restitution=0.5)
    assert model.report.lost == () and model.world.obstacle_pairs is None
    gaps = np.asarray(quick_jit(rb.gaps)(model.world, model.state))
    reference = mujoco.MjModel.from_xml_path(str(tmp_path / "model.xml"))
    reference.opt.ccd_tolerance, reference.opt.ccd_iterations = 1e-12, 500
    data = mujoco.MjData(reference)
    mujoco.mj_forward(reference, data)
    flat = {"box", "mesh", "capsule", "cylinder"}
    for i, name in enumerate(SOLIDS):
        for k, other in enumerate(SOLIDS):
            if "ellipsoid" in (name, other) and {name, other} & flat:
                continue
            ends = reference.geom(name).id, reference.geom(f"fixed {other}").id
            known = mujoco.mj_geomDistance(reference, data, *ends, 100.0, None)
            # MuJoCo rounds corners of meshes to float32, and searches to about 1e-6.
            np.testing.assert_allclose(gaps[i, k], known, atol=2e-5, err_msg=f"{name} {other}")
    assert np.all(np.isfinite(gaps))


def test_contacts_with_what_is_fixed_agree_with_mujoco(tmp_path):
    """Balls and fixed solids in one place, so that MuJoCo finds all contacts that masks,
    exclusions, priorities and explicit pairs leave, with their friction."""
    rng = np.random.default_rng(2)
    names, walls = [f"b{k}" for k in range(8)], [f"w{k}" for k in range(6)]

    def surface(name):
        return (
            f'name="{name}" contype="{rng.integers(1, 8)}" conaffinity="{rng.integers(8)}" '
            f'priority="{rng.integers(3)}" friction="{rng.integers(1, 9) / 10}" '
            f'condim="{rng.choice([1, 3])}"'
        )

    kinds = ['type="box" size="1 1 1"', 'size="1"', 'type="capsule" size="1 1"']
    fixed = "".join(
        f'<body name="{wall}"><geom {kinds[k % 3]} {surface(wall)}/></body>'
        for k, wall in enumerate(walls)
    )
    moving = "".join(
        f'<body name="{name}" pos="{x:.3f} 0 0"><freejoint/><geom size="1" {surface(name)}/></body>'
        for name, x in zip(names, rng.uniform(0.1, 0.5, len(names)), strict=True)
    )
    after = '<exclude body1="b0" body2="w0"/><exclude body1="w1" body2="b1"/>'
    after += '<pair geom1="w2" geom2="b2" friction=".05 .05 0 0 0"/>'
    after += '<pair geom1="b0" geom2="w0" friction=".07 .07 0 0 0"/>'
    model = mjcf(tmp_path, fixed + moving, after=f"<contact>{after}</contact>", restitution=0.5)
    assert model.report.lost == ()
    reference = mujoco.MjModel.from_xml_path(str(tmp_path / "model.xml"))
    data = mujoco.MjData(reference)
    mujoco.mj_forward(reference, data)
    expected = {}
    for contact in data.contact:
        ends = sorted(reference.geom(int(geom)).name for geom in contact.geom)
        if ends[1] in walls:
            pair = names.index(ends[0]), walls.index(ends[1])
            expected[pair] = contact.friction[0] if contact.dim > 1 else 0.0
    world = model.world
    assert 20 < len(expected) < len(names) * len(walls)
    special = {
        (law.body, law.obstacle): float(law.law.coefficient_of_friction)
        for law in world.pair_laws
        if law.obstacle is not None
    }
    usual = float(world.contact_law.coefficient_of_friction)
    assert world.obstacle_pairs is not None
    assert {pair: special.get(pair, usual) for pair in world.obstacle_pairs} == expected


@pytest.mark.slow
def test_balls_dropped_on_solids(tmp_path):
    """On a sphere and a capsule beside their middles, on a box and a mesh; a plane that they pass
    reflects the last one alone. Without friction and loss the velocity is reflected."""
    masks = 'contype="{}" conaffinity="{}" condim="1"'
    only, both = masks.format(1, 1), masks.format(3, 3)
    bar = 'type="capsule" fromto="2 -1 0 2 1 0" size=".2"'
    slab = 'type="box" pos="4 0 0" size=".3 .3 .05"'
    corners = " ".join(f"{x} {y} {z}" for x in (-1, 1) for y in (-1, 1) for z in (-0.2, 0.2))
    fixed = f'<geom size=".2" {only}/><geom {bar} {only}/><geom {slab} {only}/>'
    fixed += f'<geom type="mesh" mesh="slab" pos="6.2 0 0" {only}/>'
    fixed += f'<geom type="plane" pos="0 0 .5" size="1 1 1" {masks.format(2, 2)}/>'
    places = [(0.1, 0, 1.0), (2.1, 0, 1.0), (4.1, 0.1, 1.0), (6.0, 0.3, 1.0), (9.0, 0, 1.0)]
    texts = [f"{x} {y} {z}" for x, y, z in places]
    balls = "".join(BALL.format(f"b{k}", text, only) for k, text in enumerate(texts[:4]))
    model = mjcf(
        tmp_path,
        fixed + balls + BALL.format("b4", texts[4], both),
        before=f'<asset><mesh name="slab" vertex="{corners}"/></asset>',
    )
    world = model.world
    kinds = [type(getattr(o, "shape", o)).__name__ for o in world.obstacles]
    assert kinds == ["Sphere", "Capsule", "Box", "ConvexPolyhedron", "HalfSpace"]
    assert world.obstacle_pairs is not None
    # The last ball touches all, the others all but the plane.
    assert set(world.obstacle_pairs) == {(i, k) for i in range(5) for k in range(5)} - {
        (i, 4) for i in range(4)
    }
    method = rb.LGVCI(0.01, on_zeno="stop")
    sol = rb.simulate(world, model.state, method, 0.45, save=rb.SaveAt(final=True, impacts=6))
    record = sol.impacts
    assert int(record.count) == 5
    rise = np.sqrt(0.3**2 - 0.1**2)
    heights = np.array([rise, rise, 0.15, 0.3, 0.6])
    slope = np.array([0.1, 0, rise]) / 0.3
    up = np.array([0, 0, 1.0])
    normals = np.array([slope, slope, up, up, up])
    for pair, time, normal, velocity in zip(
        record.pair[:5], record.time[:5], record.normal[:5], record.after.velocity[:5], strict=True
    ):
        body, obstacle = (int(k) for k in pair)
        assert body == obstacle
        fallen = np.sqrt(2 * (1.0 - heights[body]) / G)
        # Corners of the mesh are rounded to float32.
        atol = 1e-7 if body == 3 else 1e-11
        np.testing.assert_allclose(time, fallen, atol=atol)
        np.testing.assert_allclose(normal, normals[body], atol=10 * atol)
        before = -G * fallen * up
        reflected = before - 2 * (before @ normals[body]) * normals[body]
        np.testing.assert_allclose(velocity[body], reflected, atol=100 * atol)


@pytest.mark.slow
def test_a_ball_rolls_off_a_box(tmp_path):
    """It is faster than sqrt(g r), so that it leaves the edge at once, in a parabola."""
    speed, radius, edge, top = 1.5, 0.1, 0.3, 0.8
    table = f'<geom type="box" pos="0 0 {top - 0.1}" size="{edge} 1 .1" friction="1"/>'
    key = (
        f'<keyframe><key qpos="0 0 {top + radius} 1 0 0 0" qvel="{speed} 0 0 0 {{}} 0"/></keyframe>'
    )
    ball = BALL.format("ball", f"0 0 {top + radius}", "")
    model = mjcf(
        tmp_path,
        '<geom type="plane" size="5 5 1"/>' + table + ball,
        after=key.format(speed / radius),
        restitution=0.0,
        keyframe=0,
    )
    assert isinstance(model.world.contact_law, rb.Coulomb)
    dt, t1 = 0.005, 0.45
    sol = rb.simulate(model.world, model.state, rb.LGVCI(dt, on_zeno="rest"), t1)
    flown = t1 - edge / speed
    expected = [speed * t1, 0, top + radius - G * flown**2 / 2]
    # In the step in which it passes the edge the contact holds or not as a whole.
    np.testing.assert_allclose(sol.final.position[0], expected, atol=G * dt * flown)
    np.testing.assert_allclose(sol.final.velocity[0], [speed, 0, -G * flown], atol=G * dt)


def test_friction_of_pairs(tmp_path):
    """By MuJoCo's rule, a law for each pair that differs from the most frequent one."""
    model = mjcf(
        tmp_path,
        '<geom type="box" size="1 1 1" friction=".3"/>'
        '<geom type="capsule" pos="9 0 0" size="1 1" friction=".2"/>'
        '<geom size="1" pos="0 9 0" friction=".1" priority="1"/>'
        + BALL.format("a", "0 0 2", 'friction=".25"')
        + BALL.format("b", "1 0 2", 'friction=".25"'),
        restitution=0.5,
    )
    world = model.world
    found = dict.fromkeys(world.pairs, float(world.contact_law.coefficient_of_friction))
    assert found == {(0, 1): 0.25}
    special = {
        (law.body, law.obstacle): float(law.law.coefficient_of_friction) for law in world.pair_laws
    }
    assert special == {(i, k): mu for i in range(2) for k, mu in ((0, 0.3), (2, 0.1))}


def test_bodies_that_miss_the_floor(tmp_path):
    """As those of many robots, of which the feet alone touch it."""
    none = 'contype="0" conaffinity="0"'
    leg = (
        f'<body name="trunk" pos="0 0 1"><freejoint/><geom size=".1" {none}/>'
        '<body name="thigh"><joint axis="0 1 0"/>'
        f'<geom type="capsule" fromto="0 0 0 0 0 -.4" size=".05" {none}/>'
        '<body name="foot" pos="0 0 -.4"><joint axis="0 1 0"/><geom size=".06"/></body>'
        "</body></body>"
    )
    model = mjcf(tmp_path, '<geom type="plane" size="1 1 1"/>' + leg, restitution=0.5)
    assert model.report.lost == () and model.names == ("trunk", "thigh", "foot")
    assert model.world.obstacle_pairs == ((2, 0),)
    after = '<contact><exclude body1="foot" body2="world"/></contact>'
    model = mjcf(tmp_path, '<geom type="plane" size="1 1 1"/>' + leg, after=after, restitution=0.5)
    assert model.world.obstacles == () and model.world.obstacle_pairs is None
    assert any("that nothing touches" in entry.why for entry in model.report.harmless)


def test_hulls_of_fixed_meshes_are_named(tmp_path):
    trimesh.creation.annulus(r_min=0.5, r_max=1.0, height=0.4).export(tmp_path / "ring.stl")
    model = mjcf(
        tmp_path,
        '<geom type="mesh" mesh="ring" pos="0 0 .3"/>' + BALL.format("ball", "0 0 3", ""),
        before='<asset><mesh file="ring.stl"/></asset>',
        restitution=0.5,
    )
    (sentence,) = model.report.assumed
    assert "mesh 'ring' is not convex" in sentence
    # Its hull closes the hole, at a height of 0.3 + 0.2.
    np.testing.assert_allclose(rb.gaps(model.world, model.state), [[2.4]], atol=1e-6)


def test_single_precision(tmp_path):
    with jax.enable_x64(False):
        solids = "".join(f"<geom {solid}/>" for solid in SOLIDS.values())
        model = mjcf(tmp_path, solids + BALL.format("a", "0 0 9", ""), WEDGE, restitution=0.5)
        assert len(model.world.obstacles) == len(SOLIDS)
        numbers = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
        assert {leaf.dtype.name for leaf in numbers} == {"float32"}


def test_fixed_links_of_urdf_are_obstacles(tmp_path):
    """Those welded to the world, and the root without a floating base."""
    box = '<collision><geometry><box size=".2 .4 .6"/></geometry></collision>'
    inertial = (
        '<inertial><mass value="1"/>'
        '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    ball = '<collision><geometry><sphere radius=".1"/></geometry></collision>'
    text = (
        f'<link name="base">{inertial}{box}</link><link name="post">{inertial}{box}</link>'
        f'<link name="slide">{inertial}{ball}</link>'
        '<joint name="weld" type="fixed"><parent link="base"/><child link="post"/>'
        '<origin xyz="0 0 2"/></joint>'
        '<joint name="rail" type="prismatic"><parent link="base"/><child link="slide"/>'
        '<axis xyz="0 0 1"/><origin xyz="0 0 1"/><limit lower="-1" upper="1"/></joint>'
    )
    path = tmp_path / "robot.urdf"
    path.write_text(f'<robot name="robot">{text}</robot>')
    model = load(path, floating_base=False, restitution=0.5)
    assert model.report.lost == () and model.names == ("slide",)
    np.testing.assert_allclose(rb.gaps(model.world, model.state), [[0.6, 0.6]], atol=1e-14)


def test_what_is_deep_in_what_at_the_start_is_named(tmp_path):
    """As runs would end with it: in the pose in which the model starts, of what is kept."""
    base = '<geom name="base" type="sphere" size=".2"/>'
    base += '<geom name="ground" type="plane" size="1 1 1" pos="0 0 -1"/>'
    arm = (
        '<body name="arm" pos="0 0 .25"><joint type="slide" axis="0 0 1"/>'
        '<geom name="tip" type="sphere" size=".1"/></body>'
    )
    other = BALL.format("ball", "1 0 -.9", "")
    keys = '<keyframe><key name="up" qpos=".1 1 0 -.9 1 0 0 0"/></keyframe>'
    model = mjcf(tmp_path, base + arm + other, after=keys, restitution=0.5)
    (note,) = model.report.assumed
    assert "'base' and 'arm' are 0.05 m deep in each other at the start" in note
    deepest = float(np.min(rb.gaps(model.world, model.state)))
    np.testing.assert_allclose(deepest, -0.05, atol=1e-12)
    assert load(tmp_path / "model.xml", restitution=0.5, keyframe="up").report.assumed == ()
    apart = base.replace('"base"', '"base" contype="0" conaffinity="0"')
    assert mjcf(tmp_path, apart + arm + other, after=keys, restitution=0.5).report.assumed == ()
