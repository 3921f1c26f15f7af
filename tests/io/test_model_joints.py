"""Joints and motors of MJCF and URDF, against MuJoCo: places, velocities, energies and forces."""

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.bodies import Inertial
from jaxrb.bodies.state import to_phase
from jaxrb.io import load
from jaxrb.simulate.system import loads_of

BALL_GEOM = '<geom size=".1" mass=".5" pos=".02 .01 .03"/>'
BOX = '<geom type="box" size=".05 .06 .3" pos=".01 .02 -.3" mass=".6"/>'
GIMBAL = "".join(
    f'<joint name="g{a}" axis="{a}" pos=".1 0 .1"/>' for a in ("1 0 0", "0 1 0", "0 0 1")
)
SLIDES = "".join(f'<joint type="slide" axis="{a}"/>' for a in ("1 0 0", "0 1 0", "0 1 1"))

MODELS = {
    "double pendulum": '<body pos="0 .1 2" euler="10 20 30"><joint name="shoulder" axis="0 1 .2" '
    f'pos="0 0 .1" ref="20"/>{BOX}<body pos="0 0 -.6" euler="0 0 40"><joint name="elbow" '
    f'axis="1 0 0" pos="0 .02 0"/>{BOX}</body></body>',
    "cart with poles": '<body pos="0 0 1" euler="0 10 0"><joint name="rail" type="slide" '
    f'axis="1 0 0" ref=".3"/>{BOX}<body><joint name="pivot" axis="0 1 0"/>{BOX}'
    f'<body pos="0 0 -.6"><joint name="knee" axis="0 1 .3"/>{BOX}</body></body></body>',
    "arm with a ball joint": f'<body euler="0 0 20"><joint axis="0 0 1"/>{BOX}'
    f'<body pos="0 0 -.4"><geom size=".05" mass=".2"/><body pos="0 .1 0" euler="40 0 0">'
    f'<joint type="ball" pos="0 0 .1"/>{BOX}</body></body></body>',
    "universal joint": f'<body pos="0 0 1"><freejoint/>{BOX}<body pos="0 .3 0" euler="5 6 7">'
    f'<joint axis="1 0 .2" pos=".1 .1 0"/><joint axis="0 1 .3" pos=".1 .1 0"/>{BOX}</body></body>',
    "two hinges": f'<body pos="0 0 1">{BOX}<joint axis="1 0 .2" pos=".1 .1 0"/>'
    f'<joint axis="0 1 .3"/><body pos="0 .3 0" euler="5 6 7"><joint axis="0 1 0" pos="0 0 .08"/>'
    f'<joint axis="1 0 .5" pos=".2 .1 .04"/>{BOX}</body></body>',
    "gimbal": f'<body pos="0 0 1">{GIMBAL}{BOX}<body pos="0 .3 0" euler="5 6 7">'
    f"{GIMBAL.replace('g', 'h')}{BOX}</body></body>",
    "free by six joints": f'<body pos="1 0 1" euler="0 30 0">{SLIDES}{GIMBAL}{BOX}</body>'
    f'<body pos="1 2 1" euler="0 30 0">{SLIDES}<joint type="ball"/>{BOX}</body>',
    "in a plane": f'<body pos="1 0 1" euler="0 30 10"><joint name="rz" type="slide" axis="0 0 2" '
    f'ref="1.2"/><joint name="rx" type="slide" axis="1 0 0"/><joint name="ry" axis="0 1 0" '
    f'pos=".1 0 .2" ref="25"/>{BOX}<body pos="0 .3 0" euler="5 6 7"><joint name="dx" type="slide" '
    f'axis="1 0 0"/><joint name="dy" type="slide" axis="0 1 0" ref=".3"/>{BOX}<body pos="0 0 -.5">'
    f'<joint name="knee" axis="0 1 0"/>{BALL_GEOM}</body></body></body>',
    "tree": f'<body pos="0 0 1"><freejoint/>{BOX}'
    + "".join(
        f'<body pos="{x} {y} 0" euler="0 {30 * x} 0"><joint name="hip{x}{y}" axis="0 1 0"/>{BOX}'
        f'<body pos="0 0 -.5"><joint name="foot{x}{y}" type="slide" axis="0 0 1"/>{BALL_GEOM}'
        "</body></body>"
        for x in (-1, 1)
        for y in (-1, 1)
    )
    + "</body>",
}


def write(tmp_path, body, after="", before=""):
    path = tmp_path / "model.xml"
    path.write_text(f"<mujoco>{before}<worldbody>{body}</worldbody>{after}</mujoco>")
    return path


def opened(path, **options):
    """The model, and MuJoCo's with its data."""
    reference = mujoco.MjModel.from_xml_path(str(path))
    reference.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    reference.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    return load(path, **options), reference, mujoco.MjData(reference)


def set_to(reference, data, qpos, qvel):
    data.qpos[:], data.qvel[:] = qpos, qvel
    mujoco.mj_normalizeQuat(reference, data.qpos)
    mujoco.mj_forward(reference, data)


def with_coordinates(reference):
    """The hinges and slides that are no part of what leaves a body free."""
    kinds = [int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)]
    few = reference.body_jntnum[reference.jnt_bodyid] <= 3
    return np.flatnonzero(few & np.isin(reference.jnt_type, kinds))


def random_coordinates(reference, rng):
    """Without full turns; of three hinges the second one turns less than it can be told."""
    q = rng.uniform(-2.5, 2.5, reference.nq)
    joints = with_coordinates(reference)
    first = reference.body_jntadr[reference.jnt_bodyid[joints]]
    middle = (reference.body_jntnum[reference.jnt_bodyid[joints]] == 3) & (joints == first + 1)
    q[reference.jnt_qposadr[joints[middle]]] *= 0.6
    return q


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_places_velocities_and_energies(tmp_path, name):
    """All agree with MuJoCo's to round-off, at any coordinates."""
    model, reference, data = opened(write(tmp_path, MODELS[name]), restitution=0.5)
    assert not model.report.lost and not model.report.assumed
    rng = np.random.default_rng(0)
    joints = with_coordinates(reference)
    state_at = eqx.filter_jit(model.state_at)
    for qpos, qvel in ((reference.qpos0, np.zeros(reference.nv)), *((None, None),) * 3):
        q = random_coordinates(reference, rng) if qpos is None else qpos
        v = rng.normal(size=reference.nv) if qvel is None else qvel
        set_to(reference, data, q, v)
        state = model.state if qpos is not None else state_at(q, v)
        for errors in rb.joint_violations(model.world, state):
            np.testing.assert_allclose(errors, 0.0, atol=1e-13)
        np.testing.assert_allclose(
            rb.joint_coordinates(model.world, state),
            data.qpos[reference.jnt_qposadr[joints]],
            atol=1e-13,
        )
        np.testing.assert_allclose(
            rb.joint_velocities(model.world, state),
            data.qvel[reference.jnt_dofadr[joints]],
            atol=1e-12,
        )
        kinetic = rb.kinetic_energy(model.world, state)
        np.testing.assert_allclose(kinetic, data.energy[1], rtol=1e-12)
        np.testing.assert_allclose(
            rb.energy(model.world, state), data.energy.sum(), rtol=1e-12, atol=1e-12
        )


def test_velocities_of_bodies(tmp_path):
    """MuJoCo's cvel is of the point that coincides with the centre of mass of the tree."""
    model, reference, data = opened(write(tmp_path, MODELS["tree"]))
    rng = np.random.default_rng(1)
    set_to(reference, data, rng.normal(size=reference.nq), rng.normal(size=reference.nv))
    state = model.state_at(data.qpos, data.qvel)
    for k in range(len(model.names)):
        body = k + 1  # no body is welded to another
        turn = data.xmat[body].reshape(3, 3)
        np.testing.assert_allclose(state.position[k], data.xipos[body], atol=1e-13)
        np.testing.assert_allclose(state.rotation_matrix[k], turn, atol=1e-13)
        omega, velocity = data.cvel[body, :3], data.cvel[body, 3:]
        arm = data.xipos[body] - data.subtree_com[reference.body_rootid[body]]
        np.testing.assert_allclose(turn @ state.angular_velocity[k], omega, atol=1e-12)
        np.testing.assert_allclose(state.velocity[k], velocity + np.cross(omega, arm), atol=1e-12)


@pytest.mark.slow
def test_states_have_derivatives(tmp_path):
    """The derivative of positions by the coordinates of hinges is what unit rates do."""
    model, _, _ = opened(write(tmp_path, MODELS["double pendulum"]))
    q = jnp.array([0.4, -0.7])
    jacobian = jax.jacrev(lambda q: model.state_at(q).position)(q)
    rates = jax.vmap(model.state_at, (None, 0))(q, jnp.eye(2)).velocity
    np.testing.assert_allclose(np.moveaxis(np.asarray(jacobian), -1, 0), rates, atol=1e-14)
    with pytest.raises(ValueError, match=r"qpos must have shape \(2,\)"):
        model.state_at(jnp.zeros(3))
    with pytest.raises(ValueError, match=r"qvel must have shape \(2,\)"):
        model.state_at(q, jnp.zeros(1))


DRIVEN = (
    '<body pos="0 0 1"><joint name="rail" type="slide" axis="1 0 0" damping=".5" stiffness="3" '
    f'springref=".2"/>{BOX}<body><joint name="pivot" axis="0 1 0" damping=".02" stiffness=".4" '
    f'springref="30"/>{BOX}<body pos="0 0 -.6" gravcomp=".5"><joint name="knee" axis="0 1 .3" '
    f'damping=".03" ref="10" actuatorfrcrange="-1.5 1.5"/>{BOX}</body></body></body>'
)
ACTUATORS = (
    '<actuator><motor name="push" joint="rail" gear="-2" ctrlrange="-1 1"/>'
    '<position name="servo" joint="knee" kp="2" kv=".1" forcerange="-1 1"/>'
    '<motor name="unused" joint="knee" group="3"/>'
    '<velocity name="spin" joint="pivot" kv=".1" gear="2"/>'
    '<motor name="more" joint="knee" gear=".9"/>'
    '<damper name="brake" joint="rail" kv="3" ctrlrange="0 1"/></actuator>'
)


def efforts(model, state, args):
    """The forces of all loads of a world, by their power with unit velocities of its joints."""
    world = model.world
    inertial = Inertial.of(world.bodies, state.position.dtype)
    phase = to_phase(state, inertial)
    wrenches = [
        load.wrench(0.0, phase, inertial, args) for load in loads_of(world, state.position.dtype)
    ]
    mass = np.array([body.mass for body in world.bodies])
    force = mass[:, None] * np.asarray(world.accelerations())
    force = force + sum(np.asarray(wrench.force.array()) for wrench in wrenches)
    torque = sum(np.asarray(wrench.torque.array()) for wrench in wrenches)
    return lambda unit: np.sum(force * unit.velocity) + np.sum(torque * unit.angular_velocity)


@pytest.mark.slow
def test_springs_dampers_and_motors_push_as_those_of_mujoco(tmp_path):
    """With kinetic energies that agree, equal forces along the coordinates mean equal
    accelerations. Controls are within and beyond their ranges."""
    before = '<option actuatorgroupdisable="3"/>'
    path = write(tmp_path, DRIVEN, ACTUATORS, before)
    model, reference, data = opened(path)
    assert [e.name for e in model.report.entries] == ["unused"] and not model.report.lost
    assert model.control_names == ("push", "servo", "unused", "spin", "more", "brake")
    assert model.joint_names == ("rail", "pivot", "knee")
    assert model.controls.shape == (6,) and not np.any(model.controls)
    rng = np.random.default_rng(2)
    for scale in (0.3, 1.0, 3.0):
        q = rng.uniform(-2.5, 2.5, 3)  # jaxrb's angles know no full turns
        v, u = scale * rng.normal(size=3), scale * rng.normal(size=6)
        data.ctrl[:] = u
        set_to(reference, data, q, v)
        expected = data.qfrc_passive + data.qfrc_actuator
        data.qvel[:] = 0
        mujoco.mj_forward(reference, data)
        expected += -data.qfrc_bias  # by gravity alone, at rest
        for args in (u, lambda t, u=u: jnp.asarray(u)):
            power = efforts(model, model.state_at(q, v), args)
            found = [power(model.state_at(q, unit)) for unit in np.eye(3)]
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


TORSO = (
    f'<body name="torso" pos="0 0 1"><freejoint/>{BOX}'
    '<body pos="0 .3 0" euler="5 6 7">'
    '<joint name="x" axis="1 0 0" pos=".1 0 .1" range="-40 50" stiffness="2" damping=".1"/>'
    '<joint name="z" axis="0 0 1" pos=".1 0 .1" range="-60 70" springref="10" stiffness="3"/>'
    f'<joint name="y" axis="0 1 0" pos=".1 0 .1" damping=".2" frictionloss=".05"/>{BOX}'
    '<body pos="0 0 -.6">'
    '<joint name="one" axis="1 .2 0" pos="0 0 .2" stiffness="1" springref="-5"/>'
    f'<joint name="two" axis="0 1 .5" range="-30 60" damping=".3"/>{BOX}</body></body></body>'
)
MUSCLES = (
    '<actuator><motor joint="y" gear="3"/><position joint="z" kp="2" kv=".1"/>'
    '<motor joint="two" gear="-2"/><velocity joint="one" kv=".1"/><motor joint="z"/></actuator>'
)


@pytest.mark.slow
def test_several_hinges_of_a_body_push_as_those_of_mujoco(tmp_path):
    """Gimbals and universal joints: springs, dampers and motors along each of their angles."""
    model, reference, data = opened(write(tmp_path, TORSO, MUSCLES))
    assert not model.report.lost and model.joint_names == ("x+z+y", "one+two")
    gimbal, universal = model.world.joints
    assert type(gimbal) is rb.Gimbal and type(universal) is rb.Universal
    assert gimbal.limits[2] is None and universal.limits[0] is None
    np.testing.assert_allclose(gimbal.limits[1], np.radians([-60, 70]), rtol=1e-14)
    assert gimbal.friction[:2] == (None, None) and gimbal.friction[2] == 0.05
    rng = np.random.default_rng(5)
    for _ in range(3):
        q = np.concatenate([rng.normal(size=7), rng.uniform(-1.2, 1.2, 5)])
        v, u = rng.normal(size=11), rng.normal(size=5)
        data.ctrl[:] = u
        set_to(reference, data, q, v)
        expected = data.qfrc_passive + data.qfrc_actuator
        data.qvel[:] = 0
        mujoco.mj_forward(reference, data)
        expected += -data.qfrc_bias
        power = efforts(model, model.state_at(q, v), u)
        found = [power(model.state_at(q, unit)) for unit in np.eye(11)]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_coordinates_that_turn_back_or_begin_elsewhere(tmp_path):
    """A range over a place where the second of three angles turns back makes a pin of them, and
    what it loses is said; with `ref`, angles are those from the initial pose."""
    axes = ("1 0 0", "0 1 0", "0 0 1")
    hinge = '<joint name="{0}" axis="{0}" {1}/>'
    over = "".join(hinge.format(axis, 'range="-100 100"') for axis in axes)
    report = load(write(tmp_path, f"<body>{over}{BOX}</body>"), strict=False).report
    assert [entry.why.split()[1] for entry in report.lost] == ["range"] * 3
    shifted = "".join(hinge.format(a, 'ref="20" range="10 80" springref="30"') for a in axes)
    model, reference, _ = opened(write(tmp_path, f"<body>{shifted}{BOX}</body>"))
    (gimbal,) = model.world.joints
    np.testing.assert_allclose(gimbal.rest_angles, np.radians([10] * 3), rtol=1e-13)
    np.testing.assert_allclose(gimbal.limits, np.radians([[-10, 60]] * 3), rtol=1e-13)
    q = np.array([0.3, 0.5, 0.9])
    found = rb.joint_coordinates(model.world, model.state_at(q))
    np.testing.assert_allclose(found, q - reference.qpos0, rtol=1e-13)
    motor = '<actuator><motor name="m" joint="0 1 0"/></actuator>'
    path = write(tmp_path, f"<body>{shifted}{BOX}</body>", motor)
    (entry,) = load(path, strict=False).report.lost
    assert entry.name == "m", entry
    assert "none that has a coordinate" in entry.why


def test_controls_must_be_given(tmp_path):
    model = load(write(tmp_path, DRIVEN, ACTUATORS))
    for args in (None, jnp.zeros(2)):
        with pytest.raises(ValueError, match=r"6 controls .*args=model\.controls"):
            efforts(model, model.state, args)


def test_controls_have_derivatives(tmp_path):
    """The force of a servo is kp times its control, and of a motor gear times it, in range."""
    model = load(write(tmp_path, DRIVEN, ACTUATORS.replace('forcerange="-1 1"', "")))
    motors = [load for load in model.world.forces if isinstance(load, rb.Motor)]

    def torques(u):
        """One of the joints is a servo's that feeds the rate back, with a motor of its own."""
        found = jnp.zeros(3)
        for motor in motors:
            found = found.at[np.array(motor.joint)].add(motor.torque(0.0, model.state, u))
        return found

    assert sorted(index for motor in motors for index in motor.joint) == [0, 1, 2]
    torques = jax.jacrev(torques)(jnp.full(6, 0.1))
    expected = np.zeros((3, 6))
    expected[0, 0], expected[1, 3], expected[2, [1, 2, 4]] = -2.0, 0.2, (2.0, 1.0, 0.9)
    np.testing.assert_allclose(torques, expected, atol=1e-14)


def test_keyframes_are_states(tmp_path):
    keys = (
        '<keyframe><key name="bent" qpos=".1 .2 -.3" qvel="1 -1 2" ctrl="2 .5 0 1 .4 0"/>'
        '<key qpos=".4 .5 .6"/></keyframe>'
    )
    path = write(tmp_path, DRIVEN, ACTUATORS + keys)
    model = load(path)
    assert set(model.keyframes) == {"bent", "number 1"}
    bent = model.keyframes["bent"]
    np.testing.assert_allclose(rb.joint_coordinates(model.world, bent.state), [0.1, 0.2, -0.3])
    np.testing.assert_allclose(rb.joint_velocities(model.world, bent.state), [1.0, -1.0, 2.0])
    np.testing.assert_array_equal(bent.controls, [2.0, 0.5, 0.0, 1.0, 0.4, 0.0])
    second = model.keyframes["number 1"].state
    np.testing.assert_allclose(rb.joint_coordinates(model.world, second), [0.4, 0.5, 0.6])
    started = load(path, keyframe="bent")
    np.testing.assert_array_equal(started.controls, bent.controls)
    np.testing.assert_array_equal(started.state.position, bent.state.position)


def test_limits_friction_and_armature(tmp_path):
    joint = '<joint name="j" range="10 200" frictionloss=".3" armature=".4"/>'
    path = write(tmp_path, f"<body>{joint}{BOX}</body>")
    model, reference, data = opened(path)
    assert not model.report.lost
    (hinge,) = model.world.joints
    np.testing.assert_allclose(hinge.limits, np.radians([10, 200]), rtol=1e-14)
    assert hinge.friction == 0.3
    q, v = np.array([3.4]), np.array([2.0])
    set_to(reference, data, q, v)
    state = model.state_at(q, v)
    np.testing.assert_allclose(rb.joint_coordinates(model.world, state), q, rtol=1e-14)
    # MuJoCo counts armature, too.
    np.testing.assert_allclose(rb.kinetic_energy(model.world, state), data.energy[1], rtol=1e-13)

    off = '<option><flag limit="disable" frictionloss="disable"/></option>'
    (hinge,) = load(write(tmp_path, f"<body>{joint}{BOX}</body>", before=off)).world.joints
    assert hinge.limits is None and hinge.friction is None


FOUR_BAR = (
    '<body name="crank" pos="0 0 0"><joint name="a" axis="0 1 0"/>{0}'
    '<body name="coupler" pos="0 0 -.6"><joint name="b" axis="0 1 0"/>{0}</body></body>'
    '<body name="rocker" pos="1 0 0"><joint name="c" axis="0 1 0"/>{0}<site name="s" pos=".1 0 0"/>'
    "</body>"
).format('<geom type="capsule" size=".02 .3" pos="0 0 -.3" mass=".5" contype="0" conaffinity="0"/>')


@pytest.mark.slow
@pytest.mark.parametrize(
    ("equality", "kind"),
    [
        ('<connect name="loop" body1="coupler" body2="rocker" anchor="0 0 -.6"/>', rb.Pin),
        ('<connect name="loop" body1="coupler" anchor=".1 .2 -.6"/>', rb.Pin),
        ('<weld name="loop" body1="coupler" body2="rocker" anchor=".1 .2 .3"/>', rb.Weld),
        ('<weld name="loop" body1="world" body2="rocker"/>', rb.Weld),
        ('<connect name="loop" site1="s" site2="t"/>', rb.Pin),
        ('<weld name="loop" site1="t" site2="s"/>', rb.Weld),
    ],
)
def test_equality_constraints(tmp_path, equality, kind):
    """Their errors are those of MuJoCo at all coordinates, zero where it says so."""
    body = f'{FOUR_BAR}<site name="t" pos=".3 .2 .1" euler="10 20 30"/>'
    path = write(tmp_path, body, f"<equality>{equality}</equality>")
    model, reference, data = opened(path, restitution=0.5)
    assert model.joint_names == ("a", "b", "c", "loop") and not model.report.lost
    assert type(model.world.joints[-1]) is kind
    at_sites = "site1" in equality  # which are apart at first
    assert len(model.report.assumed) == at_sites
    rng = np.random.default_rng(3)
    for q in (np.zeros(3), rng.normal(size=3)):
        set_to(reference, data, q, rng.normal(size=3))
        state = model.state_at(q, data.qvel)
        off, rate = rb.joint_violations(model.world, state)
        np.testing.assert_allclose(off[:-1], 0.0, atol=1e-14)
        if kind is rb.Pin:
            expected = np.linalg.norm(data.efc_pos[: data.ne])
            np.testing.assert_allclose(off[-1], expected, atol=1e-13)
            np.testing.assert_allclose(
                rate[-1], np.linalg.norm(data.efc_vel[: data.ne]), atol=1e-13
            )
        elif not at_sites:
            holds = np.abs(data.efc_pos[: data.ne]).max() < 1e-12
            assert (off[-1] < 1e-12) == holds


def test_welded_sites_coincide(tmp_path):
    """Where one frame lies on the other the weld of both holds."""
    body = (
        f'<body pos="1 2 3" euler="30 0 10"><freejoint/>{BOX}<site name="s" pos=".1 0 0" '
        'euler="0 50 0"/></body><site name="t" pos="1 1 1" euler="10 20 30"/>'
    )
    path = write(tmp_path, body, '<equality><weld site1="s" site2="t"/></equality>')
    model, reference, data = opened(path)
    mujoco.mj_kinematics(reference, data)
    own, there = (data.site(site).xmat.reshape(3, 3) for site in "st")
    turn = there @ own.T @ data.xmat[1].reshape(3, 3)
    position = data.site("t").xpos - turn @ reference.site("s").pos
    quaternion = np.zeros(4)
    mujoco.mju_mat2Quat(quaternion, turn.ravel())
    state = model.state_at(np.concatenate([position, quaternion]))
    assert rb.joint_violations(model.world, state)[0] < 1e-13
    assert rb.joint_violations(model.world, model.state)[0] > 0.1


def test_a_start_that_violates_a_constraint_is_said(tmp_path):
    connect = '<equality><connect name="loop" body1="coupler" body2="rocker" anchor="0 0 -.6"/>'
    keys = '</equality><keyframe><key name="open" qpos="1 0 0"/></keyframe>'
    path = write(tmp_path, FOUR_BAR, connect + keys)
    assert not load(path).report.assumed
    (sentence,) = load(path, keyframe="open").report.assumed
    assert "'loop' is off by" in sentence and "state_at" in sentence


def test_a_start_beyond_a_range_is_said(tmp_path):
    """Of angles and displacements, and by how much: 0 is no angle of the knee."""
    body = (
        f'<body><joint name="rail" type="slide" range=".2 1"/>{BOX}<body pos="0 0 -.6">'
        f'<joint name="knee" axis="0 1 0" range="10 90"/>{BOX}</body></body>'
    )
    keys = '<keyframe><key name="bent" qpos=".5 .8"/></keyframe>'
    path = write(tmp_path, body, keys)
    knee, rail = sorted(load(path).report.assumed)
    assert f"'knee' is {np.radians(10):.3g} rad beyond its range" in knee
    assert "'rail' is 0.2 m beyond its range" in rail
    assert not load(path, keyframe="bent").report.assumed


def test_a_body_does_not_touch_what_carries_it(tmp_path):
    """By MuJoCo's rules: unless the flag or an explicit pair says so, or that is the world."""
    ball = '<geom name="{0}" size=".3"/>'
    chain = "".join(f'<body name="{n}"><joint/>{ball.format(n)}' for n in "abc") + "</body>" * 3
    floor = '<geom type="plane" size="1 1 1" pos="0 0 -9"/>'
    model = load(write(tmp_path, floor + chain))
    assert model.world.pairs == ((0, 2),) and len(model.world.obstacles) == 1
    pair = '<contact><pair geom1="a" geom2="b"/></contact>'
    assert load(write(tmp_path, chain, pair)).world.pairs == ((0, 1), (0, 2))
    every = '<option><flag filterparent="disable"/></option>'
    assert load(write(tmp_path, chain, before=every)).world.pairs == ((0, 1), (0, 2), (1, 2))


LIMB = f'<body name="limb"><joint name="j" {{0}}/>{BOX}</body>'
UNKNOWN = {
    "its armature": (LIMB.format('type="ball" armature=".1"'), ""),
    "its range": (LIMB.format('range="-360 360"'), ""),
    "its margin": (LIMB.format('range="-60 60" margin="1"'), ""),
    "its frictionloss": (LIMB.format('type="ball" frictionloss="1"'), ""),
    "joint constraints": (LIMB.format(""), '<equality><joint name="j" joint1="j"/></equality>'),
    "none that has a coordinate": (
        LIMB.format('type="ball"'),
        '<actuator><motor name="j" joint="j" gear="1 2 3"/></actuator>',
    ),
    "has an activation": (
        LIMB.format(""),
        '<actuator><intvelocity name="j" joint="j" kp="3" actrange="-1 1"/></actuator>',
    ),
    "no affine function": (
        LIMB.format('range="-60 60"'),
        '<actuator><muscle name="j" joint="j" lengthrange="-1 1"/></actuator>',
    ),
    "acts on a site": (
        LIMB.format("") + '<site name="s"/>',
        '<actuator><general name="j" site="s" gear="1 0 0 0 0 0"/></actuator>',
    ),
    "one of several": (LIMB.format('type="slide"/><joint'), ""),
    # The second axis of a gimbal must be perpendicular to its neighbours.
    "one of several (hinge, hinge, hinge)": (
        LIMB.format('axis="1 0 0"/><joint axis="1 1 0"/><joint axis="0 0 1"'),
        "",
    ),
    # Two hinges whose axes are parallel.
    "one of several (hinge, hinge)": (LIMB.format('axis="0 0 1"/><joint pos="0 1 0"'), ""),
    "a body that it holds is left out": (
        LIMB.format('type="slide"/><joint').replace('"j"', '"k"')
        + f'<body name="b"><joint/>{BOX}</body>',
        '<equality><weld name="j" body1="limb" body2="b"/></equality>',
    ),
}


@pytest.mark.parametrize("why", UNKNOWN)
def test_what_is_lost_is_named(tmp_path, why):
    body, after = UNKNOWN[why]
    body += f'<body name="rest" pos="9 0 0"><freejoint/>{BALL_GEOM}</body>'
    path = write(tmp_path, body, after)
    with pytest.raises(ValueError, match=r"strict=False"):
        load(path)
    report = load(path, strict=False).report
    assert any(why in entry.why and entry.name == "j" for entry in report.lost), str(report)


@pytest.mark.slow
def test_single_precision(tmp_path):
    with jax.enable_x64(False):
        model = load(write(tmp_path, DRIVEN, ACTUATORS))
        assert {leaf.dtype.name for leaf in jax.tree.leaves(model)} == {"float32"}
        off, _ = rb.joint_violations(model.world, model.state_at(jnp.array([0.5, 2.0, -1.0])))
        assert np.abs(off).max() < 1e-6
        efforts(model, model.state, model.controls)


LINK = (
    '<link name="{0}"><inertial><origin xyz="0 .1 -.3"/><mass value="2"/><inertia ixx=".3" '
    'iyy=".4" izz=".5" ixy="0" ixz="0" iyz="0"/></inertial></link>'
)
JOINT = (
    '<joint name="{0}" type="{1}"><parent link="{2}"/><child link="{3}"/><origin xyz="0 0 -.5" '
    'rpy="0 .3 0"/><axis xyz="0 1 0"/>{4}</joint>'
)


@pytest.mark.slow
@pytest.mark.parametrize("floating", [True, False])
def test_joints_of_urdf(tmp_path, floating):
    parts = [LINK.format(name) for name in ("base", "turn", "arm", "rod", "tip")]
    parts += [
        JOINT.format("wheel", "continuous", "base", "turn", '<dynamics damping=".3"/>'),
        JOINT.format(
            "elbow",
            "revolute",
            "turn",
            "arm",
            '<limit lower="-1" upper="2" effort="9" '
            'velocity="1"/><dynamics damping=".1" friction=".2"/>',
        ),
        JOINT.format(
            "rail",
            "prismatic",
            "arm",
            "rod",
            '<limit lower="0" upper=".4" effort="9" velocity="1"/>',
        ),
        JOINT.format("glue", "fixed", "rod", "tip", ""),
    ]
    path = tmp_path / "robot.urdf"
    path.write_text(f'<robot name="r">{"".join(parts)}</robot>')
    model = load(path, floating_base=floating)
    assert not model.report.lost
    harmless = [("limit", "elbow"), ("limit", "rail")]
    harmless += [] if floating else [("link", "base")]
    assert [(e.element, e.name) for e in model.report.harmless][: len(harmless)] == harmless
    wheel, elbow, rail = model.world.joints
    assert model.names == (("base",) if floating else ()) + ("turn", "arm", "rod")
    assert [type(j) for j in (wheel, elbow, rail)] == [rb.Hinge, rb.Hinge, rb.Slider]
    assert wheel.other == (0 if floating else None) and wheel.limits is None
    assert wheel.damping == 0.3 and elbow.damping == 0.1 and elbow.friction == 0.2
    np.testing.assert_array_equal(elbow.limits, [-1, 2])
    np.testing.assert_array_equal(rail.limits, [0, 0.4])
    assert model.world.bodies[-1].mass == 4.0
    q = np.concatenate([np.zeros(3), np.ones(4), [0.3, 0.2, 0.1]])[0 if floating else 7 :]
    state = model.state_at(q)
    np.testing.assert_allclose(rb.joint_coordinates(model.world, state), q[-3:], atol=1e-14)
    assert np.abs(rb.joint_violations(model.world, state)[0]).max() < 1e-14


def test_mimic_of_urdf_is_named(tmp_path):
    mimic = '<mimic joint="a" multiplier="2"/>'
    text = "".join(LINK.format(name) for name in ("base", "one", "two"))
    text += JOINT.format("a", "continuous", "base", "one", "")
    text += JOINT.format("b", "continuous", "base", "two", mimic)
    path = tmp_path / "robot.urdf"
    path.write_text(f'<robot name="r">{text}</robot>')
    with pytest.raises(ValueError, match="joint constraints are not known"):
        load(path)
