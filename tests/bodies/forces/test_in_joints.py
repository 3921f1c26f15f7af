"""Springs, dampers and motors in joints, against potentials, powers and closed forms."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, quick_jit, slope
from loads import BODIES, minus_gradient, potential_at, power, state, world_torque, wrench_at

import jaxrb as rb
from jaxrb.bodies import Dynamics, Inertial
from jaxrb.bodies.forces import joint_loads
from jaxrb.bodies.joints.coordinates import JointCoordinates
from jaxrb.bodies.state import to_phase
from jaxrb.flows import LieVariational
from jaxrb.math import Vec3
from jaxrb.simulate.system import build, loads_of

HERE = state()
AXIS, POINT = (1.0, -2.0, 0.5), (0.3, 0.2, -0.4)
SPRINGS = [
    rb.Slider.at(HERE, 2, AXIS, POINT, 1, stiffness=2.0, rest_displacement=0.4),
    rb.Hinge.at(HERE, 0, AXIS, POINT, 1, stiffness=3.0, rest_angle=-0.5),
    rb.Pin.at(HERE, 0, POINT, 2),
    rb.Hinge.at(HERE, 2, AXIS, POINT, stiffness=0.7, limits=(0.0, 2.0), rest_angle=-4.0),
    rb.Hinge(1, AXIS),
]
DAMPED = [
    rb.Slider.at(HERE, 2, AXIS, POINT, 1, damping=2.0),
    rb.Hinge.at(HERE, 0, AXIS, POINT, 1, damping=3.0),
]


def moved(size=0.3):
    step = np.random.default_rng(5).normal(size=(3, 12)) * size
    return HERE.retract(step)


@pytest.mark.slow
def test_springs_are_gradients_of_their_potential():
    """Also where joints are violated; of both bodies."""
    (load,) = joint_loads(SPRINGS, np.float64)
    assert load.conservative and not load.velocity_dependent
    found, expected = wrench_at(load, moved()), minus_gradient(load, moved())
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13)
    # Half of k (0 - rest)^2 where all coordinates are 0.
    energy = (2.0 * 0.4**2 + 3.0 * 0.5**2 + 0.7 * 4.0**2) / 2
    np.testing.assert_allclose(potential_at(load, HERE), energy, rtol=1e-14)
    world = rb.World(BODIES, joints=SPRINGS, gravity=(0, 0, 0))
    np.testing.assert_allclose(rb.potential_energy(world, HERE), energy, rtol=1e-14)


def test_a_spring_pulls_towards_its_rest():
    hinge = rb.Hinge(0, (0, 0, 1.0), stiffness=3.0, rest_angle=0.2)
    (load,) = joint_loads([hinge], np.float64)
    for angle in (-1.0, 0.5, 3.0):
        q = [[np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2)]]
        here = rb.State(np.zeros((1, 3)), q, np.zeros((1, 3)), np.zeros((1, 3)))
        torque = wrench_at(load, here)[1]
        np.testing.assert_allclose(torque, [[0.0, 0.0, -3 * (angle - 0.2)]], atol=1e-14)


def test_dampers_take_the_power_of_their_rates():
    (load,) = joint_loads(DAMPED, np.float64)
    assert load.velocity_dependent and not load.conservative
    world = rb.World(BODIES, joints=DAMPED)
    for here in (HERE, moved()):
        rate = rb.joint_velocities(world, here)
        found = power(here, *wrench_at(load, here))
        np.testing.assert_allclose(found, -jnp.sum(jnp.array([2.0, 3.0]) * rate**2), rtol=1e-12)


@pytest.mark.parametrize("joints", [SPRINGS[:2], DAMPED])
def test_action_and_reaction(joints):
    (load,) = joint_loads(joints, np.float64)
    force, torque = wrench_at(load, HERE)
    np.testing.assert_allclose(np.sum(force, axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(world_torque(HERE, force, np.array(torque)), 0.0, atol=1e-13)


def motor_wrench(motor, joints=SPRINGS, here=HERE, args=None, t=0.3):
    return wrench_at(motor.in_joints(joints, here.position.dtype), here, t, args)


def test_motors_do_torque_times_rate():
    world = rb.World(BODIES, joints=SPRINGS)
    slider, hinge, other, _ = rb.joint_velocities(world, HERE)
    single = power(HERE, *motor_wrench(rb.Motor(1, 2.0)))
    np.testing.assert_allclose(single, 2 * hinge, rtol=1e-12)
    # Several, in an order that is not that of the joints.
    several = power(HERE, *motor_wrench(rb.Motor((3, 0, 1), (1.0, 2.0, 3.0))))
    np.testing.assert_allclose(several, other + 2 * slider + 3 * hinge, rtol=1e-12)
    # Positive torque turns the body positively about the axis: here 2 N m along its own z.
    here = dataclasses.replace(HERE, quaternion=np.eye(1, 4).repeat(3, 0))
    force, torque = motor_wrench(rb.Motor(0, 2.0), [rb.Hinge(0, (0, 0, 3.0), other=2)], here)
    np.testing.assert_allclose(force, 0.0, atol=1e-15)
    np.testing.assert_allclose(torque, [[0, 0, 2.0], [0, 0, 0], [0, 0, -2.0]], atol=1e-14)


def test_sources_of_motors():
    expected = motor_wrench(rb.Motor(1, 0.6))
    ramp = rb.PiecewiseLinear([0.0, 1.0], [0.0, 2.0])

    def control(t, state, args):
        return args * state.velocity[0, 0] * t

    def placed(t, state, args):
        return 0.6 + 0 * state.position[0, 0]

    speed = float(HERE.velocity[0, 0])
    for motor, args in (
        (rb.Motor(1, ramp), None),
        (rb.Motor(1, control), 2.0 / speed),
        (rb.Motor(1, placed, velocity_dependent=False), None),
    ):
        for one, other in zip(motor_wrench(motor, args=args), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    assert rb.Motor(1, control).velocity_dependent
    assert not rb.Motor(1, control, velocity_dependent=False).velocity_dependent
    assert np.isnan(motor_wrench(rb.Motor(1, control, velocity_dependent=False), args=1.0)[1][0, 0])
    with pytest.raises(ValueError, match=r"Motor.torque\(t, state, args\) must have shape \(\)"):
        motor_wrench(rb.Motor(1, lambda t, state, args: jnp.ones(2)))
    with pytest.raises(NotImplementedError, match="through the joints of its world"):
        wrench_at(rb.Motor(1, 0.6), HERE)


def test_a_world_has_the_loads_of_its_joints():
    world = rb.World(BODIES, joints=[*SPRINGS, *DAMPED], forces=[rb.Motor(1, 2.0)], pairs=())
    assert [type(load).__name__ for load in loads_of(world, np.float64)] == [
        "JointMotors",
        "JointSprings",
        "JointDampers",
    ]
    system, phase = build(world, HERE)
    assert system.dynamics.velocity_dependent and not system.dynamics.conservative
    total = system.dynamics.wrench(0.0, phase)
    parts = [motor_wrench(rb.Motor(1, 2.0))]
    parts += [wrench_at(load, HERE) for load in joint_loads(world.joints, np.float64)]
    np.testing.assert_allclose(total.force.array(), sum(p[0] for p in parts), atol=1e-13)
    np.testing.assert_allclose(total.torque.array(), sum(p[1] for p in parts), atol=1e-13)


# --- a torsional oscillator: two discs on one axis, which need no reaction of their hinge --------

INERTIA = np.array([0.3, 0.7])
STIFFNESS, DAMPING, ANGLE, REST = 5.0, 0.2, 0.9, 0.1


def discs(stiffness=STIFFNESS, damping=DAMPING):
    bodies = [rb.RigidBody(rb.Sphere(0.1), 1.0, (0.5, 0.5, j)) for j in INERTIA]
    hinge = rb.Hinge(0, (0, 0, 1.0), other=1, stiffness=stiffness, damping=damping, rest_angle=REST)
    q = [[np.cos(ANGLE / 2), 0.0, 0.0, np.sin(ANGLE / 2)], [1.0, 0, 0, 0]]
    spins = [[0, 0, 1.3], [0, 0, 0.4]]
    here = rb.State(np.zeros((2, 3)), q, np.zeros((2, 3)), spins)
    return rb.World(bodies, joints=[hinge], gravity=(0, 0, 0)), here


def closed_form(t, stiffness=STIFFNESS, damping=DAMPING):
    """The angle between them: x'' = -(k x + c x') / J with the reduced inertia J."""
    reduced = 1 / np.sum(1 / INERTIA)
    rate = damping / (2 * reduced)
    frequency = np.sqrt(stiffness / reduced - rate**2)
    x, v = ANGLE - REST, 0.9
    swing = x * np.cos(frequency * t) + (v + rate * x) / frequency * np.sin(frequency * t)
    return REST + np.exp(-rate * t) * swing


def flown(t, n, numbers):
    world, here = discs(*numbers)
    masses = Inertial.of(world.bodies, np.float64)
    dynamics = Dynamics(masses, Vec3.of(world.gravity), joint_loads(world.joints, np.float64))

    def step(k, carry):
        phase, work = carry
        done = LieVariational().step(k * (t / n), t / n, phase, dynamics)
        return done.phase, work + (0.0 if done.work is None else done.work)

    end, work = jax.lax.fori_loop(0, n, step, (to_phase(here, masses), jnp.zeros(())))
    state = rb.State(
        end.position.array(),
        end.orientation.array(),
        masses.velocity(end).array(),
        masses.angular_velocity(end).array(),
    )
    return rb.joint_coordinates(world, state)[0], rb.energy(world, state), work


@pytest.mark.slow
@pytest.mark.parametrize("damping", [0.0, DAMPING])
def test_a_torsional_oscillator(damping):
    t, steps = 2.0, np.array([100, 200, 400, 800])
    numbers = (STIFFNESS, damping)
    found = [flown(t, int(n), numbers) for n in steps]
    errors = [abs(float(angle) - closed_form(t, *numbers)) for angle, _, _ in found]
    assert abs(slope(t / steps, errors) - 2) < 0.1, errors
    # What the damper takes is its work.
    start = float(rb.energy(*discs(*numbers)))
    lost = [abs(float(energy - work) - start) for _, energy, work in found]
    assert lost[-1] < 2e-4 and abs(slope(t / steps, lost) - 2) < 0.3, lost


@pytest.mark.slow
def test_derivatives_of_a_step_by_stiffness_and_damping():
    def angle(numbers):
        world, here = discs(*numbers)
        masses = Inertial.of(world.bodies, np.float64)
        loads = joint_loads(world.joints, np.float64)
        dynamics = Dynamics(masses, Vec3.of(world.gravity), loads)
        end = LieVariational().step(0.0, 0.1, to_phase(here, masses), dynamics).phase
        return JointCoordinates.of(world.joints, np.float64).value(end)[0]

    at = jnp.array([STIFFNESS, DAMPING])
    expected = differences(quick_jit(angle), at)
    np.testing.assert_allclose(quick_jit(jax.jacfwd(angle))(at), expected, rtol=1e-9)
    np.testing.assert_allclose(quick_jit(jax.jacrev(angle))(at), expected, rtol=1e-9)


def test_single_precision():
    joints = jax.tree.map(lambda leaf: leaf.astype(np.float32), [*SPRINGS, *DAMPED])
    single = state(np.float32)
    for load in joint_loads(joints, np.float32):
        force, torque = wrench_at(load, single)
        assert force.dtype == torque.dtype == np.float32
