"""Worlds from MJCF, against worlds made by hand and against MuJoCo."""

import dataclasses
import os
import sys
import time
from collections import Counter

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import trimesh

import jaxrb as rb
from jaxrb.io import load

FLOOR = '<geom name="floor" type="plane" size="1 1 .1" condim="1"/>'


def mjcf(tmp_path, body, **sections):
    """The model of an MJCF file with this world body, opened."""
    options = sections.pop("options", {})
    path = write(tmp_path, body, **sections)
    return load(path, **options)


def write(tmp_path, body, before="", after=""):
    path = tmp_path / "model.xml"
    path.write_text(f"<mujoco>{before}<worldbody>{body}</worldbody>{after}</mujoco>")
    return path


@pytest.mark.slow
def test_free_box_bounces_as_one_made_by_hand(tmp_path):
    model = mjcf(
        tmp_path,
        FLOOR + '<body name="brick" pos="0 0 1.1" euler="20 0 0"><freejoint/>'
        '<geom type="box" size=".1 .2 .3" mass="3" condim="1"/></body>',
        options={"restitution": 0.8},
    )
    half = np.array([0.1, 0.2, 0.3])
    inertia = 3 / 3 * (np.sum(half**2) - half**2)
    world = rb.World(
        [rb.RigidBody(rb.Box(half), 3.0, inertia)],
        [rb.HalfSpace()],
        contact_law=rb.Frictionless(0.8),
    )
    angle = np.radians(20) / 2
    state = rb.State(
        np.array([[0.0, 0.0, 1.1]]),
        np.array([[np.cos(angle), np.sin(angle), 0.0, 0.0]]),
        np.zeros((1, 3)),
        np.zeros((1, 3)),
    )
    assert model.names == ("brick",) and len(model.report) == 0
    same(model.world, world)
    same(model.state, state)
    runs = [
        rb.simulate(w, s, rb.LGVCI(0.01), 1.2)
        for w, s in ((model.world, model.state), (world, state))
    ]
    assert runs[0].impacts.count >= 2
    same(runs[0].final, runs[1].final, 1e-13)


def same(tree, other, tolerance=1e-14):
    assert jax.tree.structure(tree) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    ("geom", "shape"),
    [
        ('type="sphere" size=".5"', rb.Sphere(0.5)),
        ('type="sphere" size=".5" euler="10 20 30"', rb.Sphere(0.5)),
        ('type="ellipsoid" size=".1 .2 .3"', rb.Ellipsoid((0.1, 0.2, 0.3))),
        ('type="box" size=".1 .2 .3"', rb.Box((0.1, 0.2, 0.3))),
        ('type="capsule" size=".1 .4"', rb.Capsule(0.1, 0.4)),
        ('type="capsule" size=".1" fromto="0 0 -.4 0 0 .4"', rb.Capsule(0.1, 0.4)),
        ('type="cylinder" size=".1 .4" pos="1 2 3"', rb.Cylinder(0.1, 0.4)),
    ],
)
def test_primitives(tmp_path, geom, shape):
    model = mjcf(tmp_path, f'<body><freejoint/><geom density="500" {geom}/></body>')
    (body,) = model.world.bodies
    if "fromto" in geom:  # MuJoCo turns the axis about itself, or end for end
        assert isinstance(body.shape, rb.Placed)
        body_shape = body.shape.shape
    else:
        body_shape = body.shape
    same(body_shape, shape)
    expected = shape.mass_properties(density=500.0)
    np.testing.assert_allclose(body.mass, expected.mass, rtol=1e-13)
    np.testing.assert_allclose(body.inertia, expected.inertia, rtol=1e-13)
    position = [1, 2, 3] if "pos" in geom else [0, 0, 0]
    np.testing.assert_allclose(model.state.position[0], position, atol=1e-15)


MOVING = {
    "inertial apart from the frame": '<body pos="1 2 3" euler="30 20 10"><freejoint/>'
    '<inertial pos=".1 .2 .3" mass="2" fullinertia=".3 .4 .5 .01 .02 .03"/>'
    '<geom size=".1"/></body>',
    "welded bodies": '<body pos="1 2 3" euler="30 20 10"><freejoint/>'
    '<geom type="box" size=".1 .2 .3" pos=".1 0 0"/>'
    '<body pos="0 0 1" euler="10 50 70"><geom type="capsule" size=".1 .2" pos=".1 .2 .3"/>'
    '<body pos="0 .5 0" euler="0 10 0"><inertial pos=".1 0 0" mass="30" diaginertia="1 2 2.5"/>'
    '<geom type="ellipsoid" size=".1 .2 .1"/></body></body></body>',
    "ball joint": '<body pos="1 2 3" euler="30 20 10"><joint type="ball" pos=".1 .2 .3"/>'
    '<inertial pos=".3 0 .1" mass="2" diaginertia=".3 .4 .5"/>'
    '<geom size=".1" contype="0" conaffinity="0"/>'
    '<body pos="0 0 1"><geom type="box" size=".1 .2 .3" euler="10 20 30"/></body></body>',
}


@pytest.mark.parametrize("name", MOVING)
def test_masses_and_frames_agree_with_mujoco(tmp_path, name):
    """The energies and the momentum of a keyframe say whether mass, centre of mass, inertia,
    attitude and velocities are right."""
    reference = mujoco.MjModel.from_xml_path(str(write(tmp_path, MOVING[name])))
    rng = np.random.default_rng(0)
    q, v = rng.normal(size=reference.nq), rng.normal(size=reference.nv)
    q[-4:] /= np.linalg.norm(q[-4:])
    text = lambda numbers: " ".join(repr(float(x)) for x in numbers)  # noqa: E731
    key = f'<keyframe><key name="flying" qpos="{text(q)}" qvel="{text(v)}"/></keyframe>'
    model = mjcf(tmp_path, MOVING[name], after=key, options={"keyframe": "flying"})
    data = mujoco.MjData(reference)
    data.qpos[:], data.qvel[:] = q, v
    reference.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    mujoco.mj_forward(reference, data)
    mujoco.mj_subtreeVel(reference, data)
    world, state = model.world, model.state
    mass = reference.body_subtreemass[1]
    np.testing.assert_allclose(world.bodies[0].mass, mass, rtol=1e-14)
    np.testing.assert_allclose(state.position[0], data.subtree_com[1], atol=1e-13)
    np.testing.assert_allclose(state.velocity[0], data.subtree_linvel[1], atol=1e-13)
    np.testing.assert_allclose(rb.kinetic_energy(world, state), data.energy[1], rtol=1e-12)
    np.testing.assert_allclose(
        rb.angular_momentum(world, state)
        - np.cross(state.position[0], mass * np.asarray(state.velocity[0])),
        data.subtree_angmom[1],
        atol=1e-12,
    )
    if world.joints:
        assert np.abs(rb.constraint_violation(world, state)).max() < 1e-14
        at_rest = load(tmp_path / "model.xml").state
        assert np.abs(rb.constraint_violation(world, at_rest)).max() < 1e-14


def test_welded_balls_by_hand(tmp_path):
    """Two balls of 1 and 3 kg and radius 0.1 m, 1 m apart."""
    model = mjcf(
        tmp_path,
        '<body name="dumbbell" pos="0 0 5"><freejoint/><geom size=".1" mass="1"/>'
        '<body pos="1 0 0"><geom size=".1" mass="3"/></body></body>',
    )
    (body,) = model.world.bodies
    assert body.mass == 4.0
    np.testing.assert_allclose(model.state.position, [[0.75, 0, 5]], atol=1e-15)
    own = 4 * 0.4 * 0.01
    across = own + 1 * 0.75**2 + 3 * 0.25**2
    np.testing.assert_allclose(body.inertia, [own, across, across], rtol=1e-14)
    assert isinstance(body.shape, rb.Union)
    np.testing.assert_allclose(body.shape.a.position, [-0.75, 0, 0], atol=1e-15)
    np.testing.assert_allclose(body.shape.b.position, [0.25, 0, 0], atol=1e-15)


def test_turned_planes_are_obstacles(tmp_path):
    model = mjcf(
        tmp_path,
        '<body pos="0 0 .5"><geom type="plane" size="1 1 1" euler="0 90 0" pos="-2 0 0"/></body>'
        f'{FLOOR}<body pos="0 0 3"><freejoint/><geom size=".5"/></body>',
    )
    gaps = np.asarray(rb.gaps(model.world, model.state)).ravel()
    np.testing.assert_allclose(np.sort(gaps), [1.5, 2.5], atol=1e-14)


BALLS = "".join(
    f'<body name="{name}" pos="{i} 0 2"><freejoint/>'
    f'<geom name="{name}" size=".1" {{{name}}}/></body>'
    for i, name in enumerate("abc")
)


def test_masks_and_exclusions_choose_pairs(tmp_path):
    body = BALLS.format(a='contype="1" conaffinity="2"', b='contype="2" conaffinity="1"', c="")
    assert mjcf(tmp_path, body).world.pairs == ((0, 1), (0, 2), (1, 2))
    body = BALLS.format(a='contype="1" conaffinity="2"', b='contype="4" conaffinity="4"', c="")
    assert mjcf(tmp_path, body).world.pairs == ((0, 2),)
    body = BALLS.format(a="", b="", c="")
    after = '<contact><exclude body1="c" body2="a"/></contact>'
    assert mjcf(tmp_path, body, after=after).world.pairs == ((0, 1), (1, 2))
    none = '<option><flag contact="disable" gravity="disable"/></option>'
    model = mjcf(tmp_path, FLOOR + body, before=none)
    assert model.world.pairs == () and model.world.obstacles == ()
    assert not np.any(model.world.gravity)


def test_friction(tmp_path):
    floor = FLOOR.replace("condim", 'friction=".3" condim')
    body = floor + BALLS.format(
        a='friction=".2"', b='friction=".6"', c='friction=".1" priority="1"'
    )
    after = (
        '<contact><pair geom1="a" geom2="b" friction=".05 .05 .005 .0001 .0001" condim="3"/>'
        '<pair geom1="b" geom2="floor" condim="1"/></contact>'
    )
    model = mjcf(tmp_path, body, after=after, options={"restitution": 0.5})
    found = {
        (law.body, law.other, law.obstacle): float(law.law.coefficient_of_friction)
        for law in model.world.pair_laws
    }
    assert found == {(0, None, 0): 0.3, (1, None, 0): 0.0, (0, 1, None): 0.05}
    assert model.world.contact_law.friction == 0.1  # of c with the floor, a and b
    assert {float(law.law.restitution) for law in model.world.pair_laws} == {0.5}

    smooth = FLOOR + BALLS.format(a='condim="1"', b='condim="1"', c='condim="1"')
    law = mjcf(tmp_path, smooth, options={"restitution": 0.5}).world.contact_law
    assert isinstance(law, rb.Frictionless) and law.restitution == 0.5
    own = rb.Coulomb(0.7, 0.1, rb.Newton())
    after = after.replace("<pair", '<pair condim="6"', 1).replace('condim="3"', "")
    with pytest.raises(ValueError, match="rolling"):
        mjcf(tmp_path, body, after=after.replace(".0001 .0001", ".0001 .0002"))
    world = mjcf(tmp_path, body, after=after, options={"contact_law": own}).world
    assert world.contact_law is own and world.pair_laws == ()


ROUGH_FLOOR = '<geom name="floor" type="plane" size="9 9 1" friction=".9 .005 .002"/>'
ROLLING_BALL = (
    '<body name="{name}" pos="{x} 0 .1"><freejoint/>'
    '<geom type="sphere" size=".1" friction=".5 .007 .001" solref=".002 1" {more}/></body>'
)


def test_torsional_and_rolling_friction(tmp_path):
    """The larger of two geoms, of the larger condim; those of the geom of higher priority."""
    body = ROUGH_FLOOR + ROLLING_BALL.format(name="a", x=0, more='condim="6"')
    body += ROLLING_BALL.format(name="b", x=3, more='condim="4" priority="1"')
    body += ROLLING_BALL.format(name="c", x=6, more="")
    model = mjcf(tmp_path, body, options={"restitution": 0.0})
    laws = [law.law for law in model.world.pair_laws] + [model.world.contact_law]
    numbers = [(law.friction, law.spinning_friction, law.rolling_friction) for law in laws]
    assert {tuple(None if x is None else float(x) for x in law) for law in numbers} == {
        (0.9, 0.007, 0.002),  # a and the floor
        (0.5, 0.007, 0.001),  # a and c
        (0.5, 0.007, None),  # b and all others
        (0.9, None, None),  # c and the floor
    }


@pytest.mark.long
def test_rolling_balls_decelerate_as_mujocos(tmp_path):
    body = ROUGH_FLOOR + ROLLING_BALL.format(name="a", x=0, more='condim="6"')
    exact = '<option timestep=".001" cone="elliptic" impratio="100"/>'
    path = write(tmp_path, body, before=exact)
    theirs = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(theirs)
    data.qvel[:] = [1, 0, 0, 0, 10, 0]
    for _ in range(300):
        mujoco.mj_step(theirs, data)
    model = load(path, restitution=0.0)
    state = dataclasses.replace(
        model.state,
        velocity=jnp.array([[1.0, 0, 0]]),
        angular_velocity=jnp.array([[0, 10.0, 0]]),
    )
    ended = rb.simulate(model.world, state, rb.LGVCI(0.01, on_zeno="rest"), 0.3).final
    loss = 5 / 7 * 0.002 * 9.81 / 0.1 * 0.3
    np.testing.assert_allclose(ended.velocity[0], [1 - loss, 0, 0], atol=1e-12)
    # Its contacts are soft, and the ball sinks in at first.
    np.testing.assert_allclose(1 - data.qvel[0], loss, rtol=1e-2)


def test_contacts_agree_with_mujoco(tmp_path):
    """Balls in one place, so that MuJoCo finds all contacts that masks, exclusions, priorities
    and explicit pairs leave, with their friction."""
    rng = np.random.default_rng(1)
    n = 20
    names = [f"b{k}" for k in range(n)]
    bodies = "".join(
        f'<body name="{name}" pos="{x:.3f} 0 0"><freejoint/><geom name="{name}" size="1" '
        f'contype="{rng.integers(1, 8)}" conaffinity="{rng.integers(8)}" '
        f'priority="{rng.integers(3)}" friction="{rng.integers(1, 9) / 10}" '
        f'condim="{rng.choice([1, 3])}"/></body>'
        for name, x in zip(names, rng.uniform(0, 0.5, n), strict=True)
    )
    chosen = [rng.choice(names, 2, replace=False) for _ in range(8)]
    after = "".join(f'<exclude body1="{a}" body2="{b}"/>' for a, b in chosen[:5])
    after += "".join(
        f'<pair geom1="{a}" geom2="{b}" friction=".05 .05 0 0 0"/>' for a, b in chosen[4:]
    )
    model = mjcf(tmp_path, bodies, after=f"<contact>{after}</contact>")
    reference = mujoco.MjModel.from_xml_path(str(tmp_path / "model.xml"))
    data = mujoco.MjData(reference)
    mujoco.mj_forward(reference, data)
    expected = {
        tuple(sorted(map(int, contact.geom))): contact.friction[0] if contact.dim > 1 else 0.0
        for contact in data.contact
    }
    assert 100 < len(expected) < n * (n - 1) / 2
    world = model.world
    special = {law.bodies: float(law.law.coefficient_of_friction) for law in world.pair_laws}
    usual = float(world.contact_law.coefficient_of_friction)
    assert {pair: special.get(pair, usual) for pair in world.pairs} == expected


@pytest.mark.slow
def test_models_of_hundreds_of_geoms(tmp_path):
    """A castle of sand that sticks: bodies, walls and their pairs are opened in seconds."""
    wall = '<geom type="box" size=".1 .1 .1" pos="{} 9 0"/>'
    brick = (
        '<body name="{0}" pos="{0} 0 1"><freejoint/><geom type="{1}" size=".1 .1 .1" {2}/></body>'
    )
    n = 340
    kinds = ["box", "capsule", "sphere", "cylinder"]
    bodies = [brick.format(k, kinds[k % 4], 'margin=".01"') for k in range(n)]
    path = write(tmp_path, FLOOR + "".join(wall.format(k) for k in range(40)) + "".join(bodies))
    start = time.process_time()
    model = load(path, strict=False)
    assert time.process_time() - start < 30
    lost = Counter(entry.element for entry in model.report.lost)
    # The bricks stick.
    assert lost == {"geom": n} and len(model.world.obstacles) == 41


def test_a_body_of_hundreds_of_geoms(tmp_path):
    ball = '<geom size=".1" pos="{} 0 0"/>'
    body = f"<body><freejoint/>{''.join(ball.format(k) for k in range(300))}</body>"
    (body,) = mjcf(tmp_path, FLOOR + body).world.bodies
    places = [piece.position[0] for piece in body.shape.pieces()]
    np.testing.assert_allclose(np.diff(places), 1.0, atol=1e-12)
    assert len(places) == 300


def test_gravity_and_its_compensation(tmp_path):
    model = mjcf(
        tmp_path,
        '<body gravcomp=".25"><freejoint/><geom size=".1" mass="2"/></body>',
        before='<option gravity="0 1 -8"/>',
    )
    np.testing.assert_allclose(model.world.accelerations(), [[0, 0.75, -6]], rtol=1e-15)
    frame = '<body gravcomp="1"><freejoint/><geom size=".1"/><body><site/></body></body>'
    np.testing.assert_allclose(mjcf(tmp_path, frame).world.accelerations(), 0.0, atol=1e-14)


def test_what_touches_nothing(tmp_path):
    """It is no part of the shape, unless there is nothing else."""
    visual = '<geom name="hull" type="box" size="1 1 1" contype="0" conaffinity="0"/>'
    model = mjcf(tmp_path, f'{FLOOR}<body pos="0 0 9"><freejoint/>{visual}<geom size=".1"/></body>')
    assert isinstance(model.world.bodies[0].shape, rb.Sphere)
    assert [(e.element, e.name) for e in model.report] == [("geom", "hull")]
    assert model.world.bodies[0].mass > 8000
    model = mjcf(tmp_path, f"<body><freejoint/>{visual}</body>")
    assert isinstance(model.world.bodies[0].shape, rb.Box)
    bare = '<inertial pos="1 0 0" mass="2" diaginertia="3 4 5"/>'
    (body,) = mjcf(tmp_path, f"<body><freejoint/>{bare}</body>").world.bodies
    solid = body.shape.mass_properties(mass=2.0).inertia
    solid = solid if solid.ndim == 2 else jnp.diag(solid)
    np.testing.assert_allclose(solid, np.diag([3, 4, 5]), atol=1e-13)


def test_meshes_by_their_hulls(tmp_path):
    corners = " ".join(f"{x} {y} {z}" for x in (0, 2) for y in (0, 1) for z in (0, 3))
    model = mjcf(
        tmp_path,
        '<body pos="5 0 0"><freejoint/><geom type="mesh" mesh="m" mass="6"/></body>',
        before=f'<asset><mesh name="m" vertex="{corners} 1 .5 1.5"/></asset>',
    )
    (body,) = model.world.bodies
    assert body.shape.vertices.shape == (8, 3)
    np.testing.assert_allclose(model.state.position, [[6, 0.5, 1.5]], rtol=1e-6)
    reach = np.abs(np.asarray(body.shape.vertices))
    np.testing.assert_allclose(reach, np.tile([1, 0.5, 1.5], (8, 1)), rtol=1e-6)


def test_meshes_that_are_not_convex_are_named(tmp_path):
    """Their hull stands for them, as in MuJoCo."""
    trimesh.creation.annulus(r_min=0.5, r_max=1.0, height=0.4).export(tmp_path / "ring.stl")
    trimesh.creation.icosphere(radius=0.1).export(tmp_path / "ball.stl")
    model = mjcf(
        tmp_path,
        '<body><freejoint/><geom type="mesh" mesh="ring"/></body>'
        '<body pos="3 0 0"><freejoint/><geom type="mesh" mesh="ball"/></body>',
        before='<asset><mesh file="ring.stl"/><mesh file="ball.stl"/></asset>',
        options={"restitution": 0.5},
    )
    (sentence,) = model.report.assumed
    assert "mesh 'ring' is not convex" in sentence and "convex hull" in sentence
    assert not model.report.entries


BALL = '<body name="ball" pos="0 0 3"><freejoint/><geom name="ball" size=".1"/></body>'
HILLS = 'nrow="2" ncol="2" size="1 1 1 .1" elevation="0 1 1 0"'
UNKNOWN = {
    "one of several": (
        BALL
        + '<body><joint name="arm" type="hinge"/><joint type="slide"/><geom size=".1"/></body>',
        {},
    ),
    "mocap": (BALL + '<body name="arm" mocap="true"><geom size=".1"/></body>', {}),
    "fixed hfield": (
        BALL + '<geom name="arm" type="hfield" hfield="hills"/>',
        {"before": f'<asset><hfield name="hills" {HILLS}/></asset>'},
    ),
    "damping": (BALL.replace("<freejoint/>", '<joint name="arm" type="free" damping="1"/>'), {}),
    "stiffness": (
        BALL.replace("<freejoint/>", '<joint name="arm" type="ball" stiffness="1"/>'),
        {},
    ),
    "range": (BALL.replace("<freejoint/>", '<joint name="arm" type="ball" range="0 10"/>'), {}),
    "viscosity": (BALL, {"before": '<option viscosity="1"/>'}),
    "override": (BALL, {"before": '<option><flag override="enable"/></option>'}),
    "known are motors": (
        BALL,
        {"after": '<actuator><general body="ball" name="arm" biastype="none"/></actuator>'},
    ),
    "constraints": (
        BALL + '<body pos="9 0 0"><joint name="j"/><geom size=".1"/></body>',
        {"after": '<equality><joint name="arm" joint1="j"/></equality>'},
    ),
    "plugin": (
        BALL,
        {
            "before": '<extension><plugin plugin="mujoco.sdf.torus"><instance name="ring">'
            '<config key="radius1" value="1"/><config key="radius2" value=".1"/></instance>'
            "</plugin></extension>"
        },
    ),
    "tendon": (
        BALL + '<site name="s"/><site name="t" pos="1 0 0"/>',
        {
            "after": '<tendon><spatial name="arm"><site site="s"/><site site="t"/></spatial>'
            "</tendon>"
        },
    ),
    "margin": (FLOOR + BALL.replace('size=".1"', 'size=".1" margin=".01"'), {}),
    "differs by direction": (
        FLOOR + BALL,
        {"after": '<contact><pair geom1="ball" geom2="floor" friction=".1 .2 0 0 0"/></contact>'},
    ),
    "different friction": (
        FLOOR + BALL.replace("</body>", '<geom size=".1" pos="1 0 0" friction="3"/></body>'),
        {},
    ),
    "others do not": (
        BALL
        + BALL.replace('"ball"', '"other"').replace(
            "</body>", '<geom size=".1" contype="2" conaffinity="2"/></body>'
        )
        + '<body><freejoint/><geom size=".1" contype="3" conaffinity="3"/></body>',
        {},
    ),
    "welded together differs": (
        BALL.replace("</body>", '<body gravcomp="1"><geom size=".1"/></body></body>'),
        {},
    ),
}


@pytest.mark.parametrize("why", UNKNOWN)
def test_unknown_physics(tmp_path, why):
    body, sections = UNKNOWN[why]
    path = write(tmp_path, body, **sections)
    with pytest.raises(ValueError, match=why) as error:
        load(path)
    assert str(path) in str(error.value) and "strict=False" in str(error.value)
    if "arm" in body + str(sections):
        assert "'arm'" in str(error.value)
    model = load(path, strict=False)
    assert "ball" in model.names
    assert any(why in str(entry) for entry in model.report.lost)
    assert "changes the motion" in str(model.report) and why in str(model.report)


def test_harmless_parts_are_listed(tmp_path):
    model = mjcf(
        tmp_path,
        '<light name="sun"/><camera name="eye"/><geom name="far" type="box" size="1 1 1"'
        ' contype="0" conaffinity="0"/>' + BALL,
        after='<sensor><clock name="clock"/></sensor>'
        '<equality><weld name="off" body1="ball" active="false"/></equality>',
    )
    assert not model.report.lost
    assert {e.name for e in model.report.harmless} == {"sun", "eye", "far", "clock", "off"}
    title = "This is left out, which does not change the motion:"
    assert str(model.report).startswith(f"{title}\n  camera 'eye': not needed")
    assert str(mjcf(tmp_path, BALL).report) == "Everything was understood."


def test_alike_entries_share_a_line(tmp_path):
    wall = '<geom name="wall {}" type="hfield" hfield="hills"/>'
    walls = "".join(wall.format(k) for k in range(40))
    before = f'<asset><hfield name="hills" {HILLS}/></asset>'
    report = mjcf(tmp_path, walls + BALL, before=before, options={"strict": False}).report
    assert [entry.name for entry in report.lost] == [f"wall {k}" for k in range(40)]
    (line,) = [line for line in str(report).splitlines() if "wall" in line]
    assert line.startswith("  geom 'wall 0', 'wall 1', ") and "and 10 more: a fixed hfield" in line


def test_what_hangs_on_a_joint_is_named(tmp_path):
    """Every body that is left out, and why."""
    arm = (
        '<body name="upper"><joint name="shoulder" type="hinge"/><joint name="stay" type="slide"/>'
        '<geom size=".1"/>'
        '<body name="lower"><joint name="elbow" type="slide"/><geom size=".1"/>'
        '<body name="hand"><geom size=".1"/></body></body>'
        '<body name="cuff"><geom size=".1"/></body></body>'
    )
    path = write(tmp_path, BALL.replace("</body>", arm + "</body>"))
    model = load(path, strict=False)
    assert model.names == ("ball",)
    why = {entry.name: entry.why for entry in model.report.lost if entry.element == "body"}
    assert set(why) == {"upper", "lower", "hand", "cuff"}
    assert why["upper"] == "it hangs on 'shoulder', 'stay', which jaxrb does not know"
    assert why["lower"] == "'upper', which carries it, is left out"
    assert why["hand"] == "it is welded to 'lower', which is left out"
    assert why["cuff"] == "it is welded to 'upper', which is left out"
    with pytest.raises(ValueError, match="body 'hand': it is welded"):
        load(path)
    path = write(tmp_path, arm)
    with pytest.raises(ValueError, match=r"(?s)no body that moves.*body 'hand': it is welded"):
        load(path, strict=False)


@pytest.mark.slow
def test_solids_of_all_kinds_touch_each_other(tmp_path):
    solid = '<body name="{0}" pos="{1} 0 2"><freejoint/><geom type="{2}" size=".1 .2 .1"/></body>'
    bodies = [("can", 0, "cylinder"), ("crate", 1, "box"), ("ball", 2, "sphere")]
    path = write(tmp_path, FLOOR + "".join(solid.format(*body) for body in bodies))
    model = load(path)
    gaps = rb.pair_gaps(model.world, model.state)
    np.testing.assert_allclose(gaps, [0.8, 1.8, 0.8], atol=1e-12)


def test_restitution_is_chosen_or_said(tmp_path):
    path = write(tmp_path, FLOOR + BALL)
    model = load(path)
    assert model.world.contact_law.restitution == 1.0
    (sentence,) = model.report.assumed
    assert "restitution is 1" in sentence and "restitution=" in sentence
    assert str(model.report).endswith(f"This is assumed:\n  {sentence}")
    assert model.report and len(model.report) == 0
    law = rb.Frictionless(0.3)
    for options in ({"restitution": 0.3}, {"contact_law": law}):
        model = load(path, **options)
        assert model.report.assumed == () and model.world.contact_law.restitution == 0.3
    with pytest.raises(ValueError, match=r"restitution=\.\.\. or contact_law=.*got both"):
        load(path, restitution=0.3, contact_law=law)


def test_description(tmp_path):
    model = mjcf(
        tmp_path,
        FLOOR
        + '<camera name="eye"/><geom type="box" size="1 1 1"/>'
        + BALL.replace("</body>", '<geom size=".2"/></body>'),
        before='<option viscosity="1"/>',
        options={"restitution": 0.5, "strict": False},
    )
    text = repr(model)
    assert "bodies: 1, of 2 geoms, named ('ball',)" in text and "obstacles: 2" in text
    assert "World(1 Union, over 1 HalfSpace, 1 Box, " in text
    assert "left out: 1 that changes the motion, 1 without effect" in text
    assert "array" not in text.lower() and len(text) < 400
    assert repr(jax.tree.map(lambda leaf: None, model))  # of no numbers


def test_single_precision(tmp_path):
    with jax.enable_x64(False):
        model = mjcf(tmp_path, FLOOR + BALL)
        assert {leaf.dtype.name for leaf in jax.tree.leaves(model)} == {"float32"}


@pytest.mark.slow
def test_models_in_mujoco():
    folder = os.path.join(os.path.dirname(mujoco.__file__), "testdata")
    path = os.path.join(folder, "model.xml")
    assert os.path.exists(path), "this MuJoCo comes without its model: find another one here"
    with pytest.raises(ValueError, match="wheel_0': its armature is not known"):
        load(path)
    model = load(path, strict=False)
    assert model.names[0] == "head" and {"cylinder", "tumbling"} <= set(model.names)
    gravcomp, servo, motor = model.world.forces
    assert gravcomp.body == 0  # the head
    driven = [[model.joint_names[k] for k in each.joint] for each in (servo, motor)]
    hips = [f"hipz_{k}+hipy_{k}" for k in (1, 2, 2)]
    assert driven == [["wheel_2"], hips] and servo.damping.tolist() == [1.0]
    assert motor.axis == (0, 0, 1)
    assert np.abs(rb.joint_violations(model.world, model.state)[0]).max() < 1e-14
    reference = mujoco.MjModel.from_xml_path(path)
    for name, body in zip(model.names, model.world.bodies, strict=True):
        if not name.startswith("number"):
            np.testing.assert_allclose(body.mass, reference.body(name).mass[0], rtol=1e-14)


def test_errors(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.xml"):
        load(tmp_path / "nowhere.xml")
    path = tmp_path / "model.xml"
    for text, message in {
        "hello": "is no XML",
        "<html/>": "its root is <html>",
        "<mujoco><worldbody><thing/></worldbody></mujoco>": "thing",
        "<mujoco/>": "no body that moves",
    }.items():
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            load(path)
    write(tmp_path, BALL, after='<keyframe><key name="up"/></keyframe>')
    with pytest.raises(ValueError, match=r"no keyframe 'down'; it has \['up'\]"):
        load(path, keyframe="down")
    assert load(path, keyframe=0).names == ("ball",)
    other = tmp_path / "model.sdf"
    other.write_text("<sdf/>")
    with pytest.raises(ValueError, match=r"'.sdf' is not known; known are .jaxrb, .xml"):
        load(other)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ImportError, match=r"jaxrb\[mjcf\]"):
        load(path)
