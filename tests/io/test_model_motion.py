"""Motions of models with joints, against MuJoCo and a closed form."""

import equinox as eqx
import mujoco
import numpy as np
import pytest
from helpers import slope
from scipy.integrate import solve_ivp

import jaxrb as rb
from jaxrb.io import load

pytestmark = pytest.mark.slow  # steps with joints take long to compile

ROD = '<geom type="capsule" size=".03 .3" pos="0 0 -.3" mass="{}"/>'
NO_CONTACT = '<option><flag contact="disable"/></option>'


def write(tmp_path, body, after="", before=NO_CONTACT):
    path = tmp_path / "model.xml"
    path.write_text(f"<mujoco>{before}<worldbody>{body}</worldbody>{after}</mujoco>")
    return path


@pytest.mark.long
def test_a_driven_cart_with_two_poles(tmp_path):
    """Accelerations at a random state, and the motion after that, which MuJoCo's RK4 gives to
    1e-8: both are found with the second order of the scheme."""
    path = write(
        tmp_path,
        '<body pos="0 0 1"><joint name="rail" type="slide" axis="1 0 0" damping=".5" '
        'stiffness="3" armature=".4"/><geom type="box" size=".2 .1 .1" mass="1"/>'
        '<body><joint name="pivot" axis="0 1 0" '
        f'stiffness=".4" springref="30" damping=".01" armature=".02"/>{ROD.format(0.4)}'
        '<body pos="0 0 -.6">'
        f'<joint name="knee" axis="0 1 .3" armature=".05"/>{ROD.format(0.3)}</body></body></body>',
        '<actuator><motor joint="rail" gear="2"/><position joint="knee" kp=".5" kv=".01"/>'
        "</actuator>",
    )
    model = load(path)
    rng = np.random.default_rng(4)
    q, v, u = rng.normal(size=3), rng.normal(size=3), rng.normal(size=2)

    @eqx.filter_jit
    def run(dt, t1):
        method = rb.LGVCI(dt)
        sol = rb.simulate(model.world, model.state_at(q, v), method, t1, args=u, max_steps=200)
        rates = rb.joint_velocities(model.world, sol.final)
        return rb.joint_coordinates(model.world, sol.final), rates

    reference = mujoco.MjModel.from_xml_path(str(path))
    reference.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    reference.opt.timestep = 1e-3
    data = mujoco.MjData(reference)
    data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, u
    mujoco.mj_forward(reference, data)
    h = np.asarray(1e-4)
    first, second = run(h, h)[1], run(h, 2 * h)[1]
    # The difference quotient is of second order: of 1e-8 times a third derivative of some 1e3.
    np.testing.assert_allclose((4 * first - second - 3 * v) / (2 * h), data.qacc, atol=1e-4)

    steps = np.array([40, 80, 160])
    mujoco.mj_step(reference, data, 400)
    t = np.asarray(0.4)
    errors = [np.abs(run(t / n, t)[0] - data.qpos).max() for n in steps]
    assert abs(slope(t / steps, errors) - 2) < 0.1 and errors[-1] < 1e-4, errors


def servo(joint, kp, kv, force):
    gains = f'gainprm="{kp}" biasprm="0 -{kp} -{kv}" forcerange="-{force} {force}"'
    return f'<general joint="{joint}" biastype="affine" {gains}/>'


@pytest.mark.long
def test_stiff_servos_within_their_ranges(tmp_path):
    """An arm with rotors that are heavier than its links, whose servos push as they may until they
    brake. Their damping would stop a link alone in a thousandth of a second: no step is taken in
    parts, and the motion is MuJoCo's with steps of 10 us, but for a part of the step in which a
    servo comes off its limit."""
    path = write(
        tmp_path,
        '<body pos="0 0 1"><joint name="base" axis="0 0 1" armature=".1" damping="1"/>'
        f'{ROD.format(1.2)}<body pos="0 0 -.6"><joint name="elbow" axis="0 1 0" armature=".1"/>'
        f'{ROD.format(0.8)}<body pos="0 0 -.6"><joint name="wrist" axis="1 0 0" armature=".05"/>'
        f"{ROD.format(0.2)}</body></body></body>",
        f"<actuator>{servo('base', 2000, 200, 20)}{servo('elbow', 2000, 200, 30)}"
        f"{servo('wrist', 800, 80, 3)}</actuator>",
    )
    model = load(path)
    (motor,) = (load for load in model.world.forces if isinstance(load, rb.Motor))
    np.testing.assert_array_equal(motor.damping, [200, 200, 80])
    np.testing.assert_array_equal(motor.limits, [[-20, 20], [-30, 30], [-3, 3]])
    u = np.array([0.5, -0.6, 0.8])

    @eqx.filter_jit
    def run(dt, t1):
        sol = rb.simulate(model.world, model.state, rb.LGVCI(dt), t1, args=u, max_steps=200)
        return rb.joint_coordinates(model.world, sol.final), sol.stats

    reference = mujoco.MjModel.from_xml_path(str(path))
    reference.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    reference.opt.timestep = 1e-5
    data = mujoco.MjData(reference)
    data.ctrl[:] = u
    mujoco.mj_step(reference, data, 30_000)
    t = np.asarray(0.3)
    for n, allowed in ((30, 1e-2), (150, 1e-3)):
        found, stats = run(t / n, t)
        assert int(stats.flow_evaluations) == n
        np.testing.assert_allclose(found, data.qpos, rtol=0, atol=allowed)


@pytest.mark.long
def test_a_parallelogram_swings_as_a_pendulum(tmp_path):
    """Two cranks and a coupler that a connect closes: one rod of length L with the mass of the
    coupler at its end, and another rod."""
    length, mass = 0.6, 0.5
    rod = ROD.format(mass)
    path = write(
        tmp_path,
        f'<body name="crank"><joint axis="0 1 0"/>{rod}<body name="coupler" pos="0 0 -.6" '
        f'euler="0 -90 0"><joint axis="0 1 0"/>{rod}</body></body>'
        f'<body name="rocker" pos=".6 0 0"><joint axis="0 1 0"/>{rod}</body>',
        '<equality><connect body1="coupler" body2="rocker" anchor="0 0 -.6"/></equality>'
        '<keyframe><key name="swinging" qvel="2 -2 2"/></keyframe>',
    )
    model = load(path, keyframe="swinging")
    assert not model.report
    world = model.world
    dt, t = 0.01, 0.5
    final = rb.simulate(world, model.state, rb.LGVCI(dt), t).final
    moment = float(world.bodies[0].inertia_matrix()[1, 1]) + mass * (length / 2) ** 2
    inertia, weight = 2 * moment + mass * length**2, 2 * mass * 9.81 * length
    exact = solve_ivp(
        lambda _, y: [y[1], -weight / inertia * np.sin(y[0])],
        (0, t),
        [0.0, 2.0],
        rtol=1e-11,
        atol=1e-11,
    ).y[0, -1]
    found = rb.joint_coordinates(world, final)
    # Of second order: (omega dt)^2/24 of the angle, some 1e-4 with omega = 5.
    np.testing.assert_allclose(found, [exact, -exact, exact], atol=5e-4)
    for errors in rb.joint_violations(world, final):
        assert np.abs(errors).max() < 1e-10


LEG = (
    '<body pos="{0} {1} 0"><joint axis="0 1 0" stiffness="20" damping=".5" springref="20"/>'
    '<geom type="capsule" size=".03" fromto="0 0 0 0 0 -.2" mass=".3"/><body pos="0 0 -.2">'
    '<joint axis="0 1 0" stiffness="20" damping=".5" springref="-40"/>'
    '<geom type="capsule" size=".025" fromto="0 0 0 0 0 -.2" mass=".2"/></body></body>'
)


@pytest.mark.long
@pytest.mark.parametrize("t1", [0.6, 1.0])
def test_a_quadruped_falls_and_stands(tmp_path, t1):
    """Its legs are springs: its four feet are on the ground then, and carry its weight. The legs
    turn in planes, so that the feet cannot all stay where they are while it rolls: they slip by
    next to nothing, with the friction that they have at most."""
    legs = "".join(LEG.format(x, y) for x in (-0.2, 0.2) for y in (-0.15, 0.15))
    path = write(
        tmp_path,
        '<geom type="plane" size="5 5 .1" contype="1" conaffinity="0"/>'
        '<body pos="0 0 .5" euler="2 3 0"><freejoint/>'
        f'<geom type="box" size=".3 .1 .05" mass="4"/>{legs}</body>',
        before='<default><geom contype="0" conaffinity="1" friction=".8"/></default>',
    )
    model = load(path, restitution=0.0)
    assert not model.report and len(model.world.joints) == 8
    sol = rb.simulate(model.world, model.state, rb.LGVCI(0.005), t1)
    assert sol.successful
    gaps = np.asarray(rb.gaps(model.world, sol.final)).ravel()
    assert np.abs(np.sort(gaps)[:4]).max() < 1e-8
    assert 0.2 < sol.final.position[0, 2] < 0.45
    assert np.abs(rb.joint_violations(model.world, sol.final)[0]).max() < 1e-9
