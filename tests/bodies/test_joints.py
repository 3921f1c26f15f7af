"""Kinematics of joints: residuals, their rates, coordinates, derivatives, and what is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, quick_jit
from jax.flatten_util import ravel_pytree
from mechanisms import (
    BODIES,
    along_motion,
    every_joint,
    flat_matrix,
    mechanism,
    random_state,
    rank,
)
from scipy.spatial.transform import Rotation

import jaxrb as rb
from jaxrb.bodies import Inertial
from jaxrb.bodies.joints.rows import JointRows
from jaxrb.bodies.state import to_phase
from jaxrb.simulate.results import Code
from jaxrb.simulate.system import build, initial_code, joint_rows, loads_of

STATE = random_state()
JOINTS = every_joint(STATE)
POINT = (0.3, 0.2, -0.4)
AXIS = np.array([1.0, -2.0, 0.5])
Y = (0.0, 1.0, 0.0)


def off(size, seed=1):
    """The state with bodies moved and turned by about a size [m], [rad]."""
    step = np.random.default_rng(seed).normal(size=(3, 12)) * size
    step[:, 6:] = 0.0
    return STATE.retract(step)


# --- residuals and rows ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.0, 1e-3, 0.2])
def test_rates_are_derivatives_along_the_motion(size):
    rows, phase, inertial = mechanism(JOINTS, off(size))

    @quick_jit
    def both(phase):
        g = along_motion(rows.violation, phase, inertial)
        angle = along_motion(rows.coordinates.value, phase, inertial)
        return (*g, rows.rate(phase, inertial)), (*angle, rows.coordinates.rate(phase, inertial))

    for value, expected, found in both(phase):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        assert np.all(np.isfinite(value))
    if size == 0:
        np.testing.assert_allclose(both(phase)[0][0], 0.0, atol=4e-15)


def test_the_number_and_rank_of_rows():
    counts = {"Pin": 3, "Hinge": 5, "Slider": 5, "Weld": 6, "Distance": 1}
    counts |= {"Universal": 4, "Gimbal": 3}
    expected = []
    for joint in JOINTS:
        rows, phase, _ = mechanism([joint], STATE)
        in_plane = isinstance(joint, rb.Planar)
        expected.append((3 if joint.turns else 4) if in_plane else counts[type(joint).__name__])
        assert rows.n_rows == expected[-1]
        assert rank(rows.jacobian(phase), 3) == rows.n_rows
    rows = mechanism(JOINTS, STATE).rows
    found = np.bincount(rows.joints).tolist()
    assert found == expected


def test_a_four_bar_has_twenty_rows_of_rank_seventeen():
    corners = np.array([[0.0, 0, 0], [0.3, 0, 1.0], [1.2, 0, 1.1], [1.0, 0, 0]])
    rod = rb.RigidBody(rb.Box([0.1, 0.1, 0.6]), 1.0)
    middle = (corners[:-1] + corners[1:]) / 2
    along = np.diff(corners, axis=0)
    q = Rotation.from_rotvec(np.arctan2(along[:, 0], along[:, 2])[:, None] * [0, 1.0, 0])
    still = np.zeros((3, 3))
    state = rb.State(middle, q.as_quat(scalar_first=True), still, still)
    ends = [(0, None), (1, 0), (2, 1), (2, None)]
    hinges = [rb.Hinge.at(state, i, Y, x, j) for (i, j), x in zip(ends, corners, strict=True)]
    rows, phase, _ = mechanism(hinges, state, [rod] * 3)
    assert rows.n_rows == 20
    assert rank(rows.jacobian(phase), 3) == 17
    np.testing.assert_allclose(rows.violation(phase), 0.0, atol=1e-15)


@pytest.mark.parametrize("kind", [rb.Hinge, rb.Slider])
def test_rows_do_no_work_on_the_free_motion(kind):
    """Of a body that moves with the other one and, besides, along its coordinate."""
    here = dataclasses.replace(STATE, velocity=np.zeros((3, 3)), angular_velocity=np.zeros((3, 3)))
    v, w, rate = np.array([0.3, -1.0, 2.0]), np.array([1.0, 0.4, -0.7]), 1.7
    joint = kind.at(here, 0, AXIS, POINT, 1)
    unit = AXIS / np.linalg.norm(AXIS)
    turn = w + (rate * unit if kind is rb.Hinge else 0.0)
    x = np.asarray(here.position)
    velocity = v + np.cross(w, x)
    if kind is rb.Hinge:
        velocity[0] += rate * np.cross(unit, x[0] - POINT)
    else:
        velocity[0] += rate * unit
    omega = [Rotation.from_quat(q, scalar_first=True).inv() for q in np.asarray(here.quaternion)]
    spins = np.stack([omega[0].apply(turn), omega[1].apply(w), omega[2].apply(w)])
    moving = dataclasses.replace(here, velocity=velocity, angular_velocity=spins)
    rows, phase, inertial = mechanism([joint], moving)
    np.testing.assert_allclose(rows.rate(phase, inertial), 0.0, atol=1e-14)
    np.testing.assert_allclose(rows.coordinates.rate(phase, inertial), rate, rtol=1e-14)
    # The opposite statement: impulses of rows have no part along the coordinate.
    free = np.concatenate([velocity, spins], axis=-1).reshape(-1)
    np.testing.assert_allclose(flat_matrix(rows.jacobian(phase), 3) @ free, 0.0, atol=1e-13)


def test_impulses_between_bodies_cancel():
    """Forces and torques about the origin of the world sum up to zero, joint by joint."""
    between = [joint for joint in JOINTS if joint.other is not None]
    rows, phase, _ = mechanism(between, off(0.1))
    turns = Rotation.from_quat(np.asarray(phase.orientation.array()), scalar_first=True)
    for directions in (rows.jacobian(phase), rows.coordinates.directions(phase)):
        n = directions.sides[0].linear.x.shape[0]
        force, torque = directions.push(jnp.arange(1.0, n + 1), 3)
        force, torque = np.asarray(force.array()), turns.apply(np.array(torque.array()))
        np.testing.assert_allclose(force.sum(0), 0.0, atol=1e-13)
        about = np.cross(phase.position.array(), force) + torque
        # A pin whose points are apart has forces along two lines.
        if directions.sides[0].linear.x.shape[0] != rows.n_rows:
            np.testing.assert_allclose(about.sum(0), 0.0, atol=1e-12)


def test_the_order_of_bodies_and_joints():
    """Shapes that alternate make the bodies' order in a phase another one."""
    bodies = [rb.RigidBody(s) for s in (rb.Sphere(0.3), rb.Box([0.1, 0.2, 0.3]), rb.Sphere(0.1))]
    world = rb.World(bodies, joints=JOINTS, pairs=())
    system, phase = build(world, off(0.1))
    assert system.dynamics.order == (0, 2, 1)
    rows = joint_rows(world, system.inertial)
    there = JointRows.of(JOINTS, Inertial.of(bodies, np.float64))
    here = to_phase(off(0.1), Inertial.of(bodies, np.float64))
    np.testing.assert_allclose(rows.violation(phase), there.violation(here), atol=1e-15)
    push, expected = (
        d.push(jnp.arange(1.0, rows.n_rows + 1), 3)[1].array()
        for d in (rows.jacobian(phase), there.jacobian(here))
    )
    np.testing.assert_allclose(np.asarray(push)[[0, 2, 1]], expected, atol=1e-13)


# --- coordinates -----------------------------------------------------------------------------


def turned(angle, sign=1.0, **options):
    """A hinge about an axis askew, whose body is turned, at a tilted other body."""
    here = STATE
    unit = AXIS / np.linalg.norm(AXIS)
    hinge = rb.Hinge.at(here, 0, AXIS, POINT, 1, **options)
    turn = Rotation.from_rotvec(angle * unit)
    q = turn * Rotation.from_quat(here.quaternion[0], scalar_first=True)
    position = turn.apply(np.asarray(here.position[0]) - POINT) + POINT
    state = dataclasses.replace(
        here,
        position=here.position.at[0].set(position),
        quaternion=here.quaternion.at[0].set(sign * q.as_quat(scalar_first=True)),
    )
    return mechanism([hinge], state)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_hinge_through_a_full_turn(sign):
    for angle in np.linspace(-np.pi, np.pi, 25)[1:]:
        rows, phase, _ = turned(angle, sign)
        found = float(rows.coordinates.value(phase)[0])
        assert abs(np.remainder(found - angle + np.pi, 2 * np.pi) - np.pi) < 1e-14
        assert -np.pi < found <= np.pi
        np.testing.assert_allclose(rows.violation(phase), 0.0, atol=3e-15)
        assert rank(rows.jacobian(phase), 3) == 5


def test_angles_between_limits_are_followed_beyond_half_a_turn():
    for angle in (-0.5, 3.0, 4.0, 5.0):
        rows, phase, _ = turned(angle, limits=(0.0, 4.5))
        np.testing.assert_allclose(rows.coordinates.value(phase), angle, rtol=1e-14)
        np.testing.assert_array_equal(rows.coordinates.lower, 0.0)
        np.testing.assert_array_equal(rows.coordinates.upper, 4.5)
        np.testing.assert_allclose(rows.limited.value(phase), angle, rtol=1e-14)
        assert rows.rubbing is None


def test_half_a_turn_exactly():
    """The larger of the two angles, for each sign of the quaternions; derivatives are finite."""
    body = rb.RigidBody(rb.Sphere(0.1))
    hinge = rb.Hinge(0, (0.0, 0.0, 1.0))
    for q in ([0.0, 0, 0, 1], [0.0, 0, 0, -1], [-0.0, 0, 0, 1]):
        state = rb.State(np.zeros((1, 3)), [q], np.zeros((1, 3)), [[0.0, 0, 2]])
        world = rb.World([body], joints=[hinge])
        assert float(rb.joint_coordinates(world, state)[0]) == np.pi
        assert float(rb.joint_velocities(world, state)[0]) == pytest.approx(2.0, rel=1e-14)
    # Upside down there is no angle, but neither is there a NaN.
    rows, phase, inertial = mechanism(
        [hinge],
        rb.State(np.zeros((1, 3)), [[0.0, 1, 0, 0]], np.zeros((1, 3)), [[1.0, 2, 3]]),
        [body],
    )
    for f in (rows.coordinates.value, rows.violation, lambda p: rows.coordinates.rate(p, inertial)):
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(jax.jacrev(f)(phase)))


def test_coordinates_are_in_the_order_of_the_joints():
    world = rb.World(BODIES, joints=JOINTS)
    np.testing.assert_allclose(rb.joint_coordinates(world, STATE), np.zeros(19), atol=1e-14)
    rows, phase, inertial = mechanism(JOINTS, STATE)
    several = (10, 10, 11, 11, 12, 12, 12, 13, 13, 13)
    in_plane = (14, 14, 15, 15)
    assert rows.coordinates.joints == (2, 5, 14, 0, 6, *in_plane, *several)
    order = np.array([3, 0, 1, 4, *range(9, 19), 5, 6, 2, 7, 8])
    expected = rows.coordinates.rate(phase, inertial)[order]
    np.testing.assert_allclose(rb.joint_velocities(world, STATE), expected, atol=1e-14)
    none = rb.World(BODIES)
    assert rb.joint_coordinates(none, STATE).shape == rb.joint_velocities(none, STATE).shape == (0,)


def test_a_slider_along_the_axis_of_the_other_body():
    """The other body is turned, and takes the axis along."""
    q = Rotation.from_rotvec([0.0, 0.0, np.pi / 2])
    position = [[2.0, 1.5, 0.0], [2.0, 1.0, 0.0]]
    quaternion = np.stack([q.as_quat(scalar_first=True)] * 2)
    state = rb.State(position, quaternion, [[0, 3.0, 0], [0, 1.0, 0]], np.zeros((2, 3)))
    slider = rb.Slider(0, (1.0, 0, 0), other=1, other_anchor=(0.2, 0.0, 0.0))
    world = rb.World([rb.RigidBody(rb.Sphere(0.1))] * 2, joints=[slider])
    np.testing.assert_allclose(rb.joint_coordinates(world, state), 0.3, rtol=1e-14)
    np.testing.assert_allclose(rb.joint_velocities(world, state), 2.0, rtol=1e-14)
    np.testing.assert_allclose(rb.joint_violations(world, state)[0], 0.0, atol=1e-15)


def test_the_other_axis_stands_for_the_shortest_turn():
    hinge = rb.Hinge(0, (0.0, 0.0, 2.0), other_axis=(3.0, 0.0, 0.0))
    turn = Rotation.from_quat(hinge.reference, scalar_first=True)
    np.testing.assert_allclose(turn.as_rotvec(), [0.0, np.pi / 2, 0.0], atol=1e-15)
    np.testing.assert_allclose(hinge.other_axis, [2.0, 0.0, 0.0], atol=1e-15)


# --- transformations -------------------------------------------------------------------------


def everything(joints, state):
    rows, phase, inertial = mechanism(joints, state)
    springs = rows.coordinates
    parts = [
        rows.violation(phase),
        rows.rate(phase, inertial),
        springs.value(phase),
        springs.rate(phase, inertial),
        springs.stiffness * springs.stretch(phase),
        springs.damping,
        springs.friction,
        jnp.where(jnp.isfinite(springs.lower), springs.lower + springs.upper, 0.0),
    ]
    return jnp.concatenate(parts)


@pytest.mark.slow
def test_derivatives_by_the_numbers_of_joints():
    """By anchors, axes, references, limits, stiffness, damping, rest and friction in both modes,
    at a pose that violates the joints somewhat."""
    numbers = {"limits": (-1.0, 2.0), "stiffness": 3.0, "damping": 0.5, "friction": 0.2}
    joints = [
        rb.Hinge.at(STATE, 0, AXIS, POINT, 1, rest_angle=0.3, **numbers),
        rb.Hinge.at(STATE, 2, (0.0, 1.0, 0.0), POINT, rest_angle=0.3, stiffness=1.0),
        rb.Slider.at(STATE, 2, AXIS, POINT, 1, rest_displacement=0.3, **numbers),
        rb.Weld.at(STATE, 0, 2),
        rb.Pin.at(STATE, 1, POINT),
        rb.Distance.at(STATE, 1, POINT, (1.0, 1.0, 1.0), 2),
    ]
    flat, back = ravel_pytree(joints)
    weights = np.random.default_rng(2).normal(size=everything(joints, STATE).shape)

    def value(x):
        return jnp.sum(weights * everything(back(x), off(0.05)))

    expected = differences(quick_jit(value), flat)
    np.testing.assert_allclose(quick_jit(jax.grad(value))(flat), expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(quick_jit(jax.jacfwd(value))(flat), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
def test_satisfied_joints_have_derivatives():
    """At the identity, where angles and separations vanish, forward over reverse."""
    still = np.zeros((3, 3))
    state = rb.State(still, np.eye(1, 4).repeat(3, 0), still, still)
    joints = [
        rb.Hinge(0, (1.0, 0, 0), stiffness=1.0),
        rb.Hinge(0, (0, 0, 1.0), other=1, limits=(0.0, 1.0)),
        rb.Slider(1, (0, 1.0, 0), other=2),
        rb.Weld(2),
        rb.Pin(1, (0, 0, 0), other=2),
        rb.Distance(0, (0, 0, 0), 1.0),
    ]
    flat, back = ravel_pytree(joints)

    def value(x):
        return jnp.sum(everything(back(x), state) ** 2)

    @quick_jit
    def derivatives(x):
        return jax.jvp(jax.value_and_grad(value), (x,), (jnp.ones_like(x),))

    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(derivatives(flat)))


@pytest.mark.slow
def test_single_precision_and_batches():
    single = jax.tree.map(lambda leaf: leaf.astype(np.float32), (JOINTS, off(0.1)))
    found = everything(*single)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, everything(JOINTS, off(0.1)), rtol=0, atol=2e-5)
    states = [off(0.1, seed) for seed in range(3)]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    many = quick_jit(jax.vmap(lambda state: everything(JOINTS, state)))
    np.testing.assert_allclose(many(batch), [everything(JOINTS, s) for s in states], atol=1e-13)
    text = many.lower(batch).as_text()
    assert "dot_general" not in text and "custom_call" not in text


def test_programs_do_not_grow_with_the_number_of_joints():
    """But for a list of numbers to stack."""

    def length(n):
        body = rb.RigidBody(rb.Sphere(0.1))
        joints = [rb.Hinge(k + 1, (0, 1.0, 0), other=k) for k in range(n)]
        inertial = Inertial.of([body] * (n + 1), np.float64)
        rows = JointRows.of(joints, inertial)
        still = np.zeros((n + 1, 3))
        phase = to_phase(rb.State(still, np.eye(1, 4).repeat(n + 1, 0), still, still), inertial)
        jaxpr = jax.make_jaxpr(lambda p: (rows.violation(p), rows.jacobian(p)))(phase)
        return len(jaxpr.eqns)

    assert length(3) == length(12)


# --- starts and worlds -----------------------------------------------------------------------


def code_of(joints, state):
    world = rb.World(BODIES, joints=joints, pairs=())
    system, phase = build(world, state)
    return int(initial_code(jnp.zeros(()), world, state, system, phase, 0.0))


def test_pins_are_rows_where_bodies_do_not_turn_about_them():
    pin = rb.Pin(1, (0.0, 0.0, 1.0), (0.3, 0.2, 0.1))
    world = rb.World(BODIES, joints=[pin], pairs=())
    held, _ = build(world, STATE)
    free, phase = build(world, STATE, pivots=False)
    assert held.inertial.pivot is not None and free.inertial.pivot is None
    rows = joint_rows(world, free.inertial)
    off, slip = rb.constraint_violation(world, STATE)
    np.testing.assert_allclose(rows.violation(phase), off[1], rtol=1e-14)
    np.testing.assert_allclose(rows.rate(phase, free.inertial), slip[1], rtol=1e-13)
    assert joint_rows(rb.World(BODIES), free.inertial) is None


@pytest.mark.slow
def test_starts_that_violate_a_joint():
    still = dataclasses.replace(STATE, velocity=np.zeros((3, 3)), angular_velocity=np.zeros((3, 3)))
    assert code_of(JOINTS, still) == Code.successful
    for joint in JOINTS[:5]:
        assert code_of([joint, rb.Pin.at(STATE, 0, POINT, 1)], STATE) == Code.joint_violated
        far = still.position.at[:, 0].multiply(jnp.array([1.1, 0.9, 1.2]))
        assert code_of([joint], dataclasses.replace(still, position=far)) == Code.joint_violated
    hinge = rb.Hinge(0, (0, 0, 1.0))
    q = np.eye(1, 4).repeat(3, 0)
    at_rest = rb.State(np.zeros((3, 3)), q, np.zeros((3, 3)), [[0, 0, 3.0]] * 3)
    assert code_of([hinge], at_rest) == Code.successful
    upside_down = dataclasses.replace(at_rest, quaternion=jnp.asarray(q)[:, ::-1][:, [0, 3, 1, 2]])
    assert code_of([hinge], upside_down) == Code.joint_violated


def test_joined_bodies_do_not_hit_each_other_by_default():
    ball = rb.RigidBody(rb.Sphere(0.1))
    joints = [rb.Hinge(1, (0, 1.0, 0), other=0), rb.Pin(2, (0, 0, 1.0))]
    assert rb.World([ball] * 3, joints=joints).pairs == ((0, 2), (1, 2))
    assert rb.World([ball] * 3, joints=joints, pairs=[(0, 1)]).pairs == ((0, 1),)


def test_worlds_name_their_joints():
    world = rb.World(BODIES, joints=JOINTS)
    expected = "joints: 2 Slider, 2 Pin, 2 Hinge, 2 Weld, 2 Distance"
    assert expected in repr(world) and "2 Planar" in repr(world)
    assert repr(rb.Pin(0, Y)) == "Pin(body=0, anchor=[0, 1, 0], other=None, point=[0, 0, 0])"
    assert world.pins == (None, None, None)
    pin = rb.Pin(1, (0, 0, 1.0))
    assert rb.World(BODIES, joints=[pin]).pins == (None, pin, None)


def test_files_hold_joints(tmp_path):
    world = rb.World(BODIES, joints=JOINTS, forces=[rb.Motor((0, 2), (1.0, 2.0))])
    rb.io.save(tmp_path / "world.jaxrb", world)
    found = rb.io.load(tmp_path / "world.jaxrb")
    assert jax.tree.structure(found) == jax.tree.structure(world)
    assert all(map(np.array_equal, jax.tree.leaves(found), jax.tree.leaves(world)))


STOPS = rb.LGVCI(0.1, on_zeno="stop")
BALL = rb.RigidBody(rb.Sphere(0.1))
ONE = rb.State(np.zeros((1, 3)), np.eye(1, 4), np.zeros((1, 3)), np.zeros((1, 3)))
TWO = rb.State(np.zeros((2, 3)), np.eye(1, 4).repeat(2, 0), *np.zeros((2, 2, 3)))


TWO_AXES = np.eye(3)[:2]


def driven(motor):
    return rb.World([BALL], joints=[rb.Universal(0, TWO_AXES)], forces=[motor])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rb.Hinge(0, (0, 0, 0.0)), r"Hinge.axis must be finite and not zero"),
        (lambda: rb.Hinge(0, Y, other=0), r"Hinge.other must be another body than Hinge.body = 0"),
        (lambda: rb.Hinge(0, Y, other=-1), r"Hinge.other must be the index of another body"),
        (lambda: rb.Hinge(0.5, Y), r"Hinge.body must be the index"),
        (lambda: rb.Hinge(0, Y, (0, 1.0)), r"Hinge.anchor must have shape"),
        (lambda: rb.Hinge(0, Y, other_anchor=(0, 1, np.inf)), r"Hinge.other_anchor must be finite"),
        (
            lambda: rb.Hinge(0, Y, limits=(1.0, 0.0)),
            r"Hinge.limits must be finite \(lower, upp",
        ),
        (lambda: rb.Hinge(0, Y, limits=(-4.0, 4.0)), r"Hinge.limits must be less than a turn"),
        (lambda: rb.Hinge(0, Y, stiffness=-1.0), r"Hinge.stiffness must be finite and at least 0"),
        (lambda: rb.Hinge(0, Y, damping=np.nan), r"Hinge.damping must be finite and at least 0"),
        (lambda: rb.Hinge(0, Y, friction=-0.1), r"Hinge.friction must be finite and at least 0"),
        (
            lambda: rb.Hinge(0, Y, reference=(0, 0, 0, 0.0)),
            r"Hinge.reference must be finite and",
        ),
        (lambda: rb.Hinge(0, Y, reference=(1, 0, 0, 0.0), other_axis=Y), r"give one of them"),
        (lambda: rb.Hinge(0, Y, other_axis=(0, -1.0, 0)), r"Hinge.other_axis is opposite"),
        (lambda: rb.Hinge(0, Y, rest_angle=np.inf), r"Hinge.rest_angle must be finite"),
        (lambda: rb.Slider(0, (0, np.nan, 0)), r"Slider.axis must be finite and not zero"),
        (lambda: rb.Slider(0, Y, limits=(0.0, np.inf)), r"Slider.limits must be finite"),
        (lambda: rb.Slider(0, Y, limits=0.3), r"Slider.limits must have shape \(2,\)"),
        (lambda: rb.Weld(1, 1), r"Weld.other must be another body"),
        (lambda: rb.Distance(0, (0, 0, 0), 0.0), r"Distance.length must be positive"),
        (lambda: rb.Pin(0, (0, 0, 1.0), (0, 0, 0), other_anchor=(0, 0, 0)), r"are one thing"),
        (
            lambda: rb.Pin(0, (0, 0, 1.0), other=1, other_anchor=(0, 0)),
            r"Pin.other_anchor must",
        ),
        (
            lambda: rb.Hinge.at(ONE, 1, Y, (0, 0, 0)),
            r"Hinge.body: there is no body 1; the stat",
        ),
        (lambda: rb.Weld.at(jax.tree.map(lambda x: x[None], ONE), 0), r"Weld.at needs one state"),
        (
            lambda: rb.World([BALL], joints=[rb.Hinge(0, Y, other=1)]),
            r"World.joints: there is no",
        ),
        (lambda: rb.World([BALL], joints=[BALL]), r"joints\[0\] must be a joint, such as Pin;"),
        (lambda: rb.World([BALL], joints=rb.Hinge(0, Y)), r"put brackets around the Hinge"),
        (lambda: rb.Motor(True, 1.0), r"Motor.joint must be the index of a joint"),
        (lambda: rb.Motor("a", 1.0), r"Motor.joint must be"),
        (lambda: rb.Motor(None, 1.0), r"Motor.joint must be an index or several"),
        (lambda: rb.Motor((0, 0), (1.0, 1.0)), r"Motor.joint must hold different indices"),
        (lambda: rb.Motor((0, 1), 1.0), r"Motor.torque must have shape \(2,\)"),
        (lambda: rb.Motor(0, 1.0, velocity_dependent=1), r"velocity_dependent must be True or Fal"),
        (lambda: rb.World([BALL], forces=[rb.Motor(0, 1.0)]), r"Motor.joint: there is no joint 0"),
        (lambda: rb.Motor(0, 1.0, axis=-1), r"Motor.axis must be the index of a coordinate"),
        (lambda: rb.Motor((0, 0), (1.0, 1.0), axis=(0,)), r"Motor.axis must hold as many indices"),
        (lambda: rb.Motor((0, 0), (1.0, 1.0), axis=(1, 1)), r"hold each axis of a joint once"),
        (lambda: driven(rb.Motor(0, 1.0)), r"Motor.axis must say which of the 2 coordinates"),
        (lambda: driven(rb.Motor(0, 1.0, axis=2)), r"a Universal, has no coordinate 2; it has 2"),
        (lambda: rb.Planar(0, [Y, Y]), r"Planar.axes must be perpendicular"),
        (lambda: rb.Planar(0, Y), r"Planar.axes must be given for 3 axes|Planar.axes\[0\]"),
        (
            lambda: rb.Planar(0, np.eye(3), limits=((0, 9), None, (0, 9))),
            r"Planar.limits must be less than a turn apart",
        ),
        (
            lambda: rb.Planar(0, np.eye(3), rest_coordinates=1.0),
            r"Planar.rest_coordinates must have shape \(3,\)",
        ),
        (lambda: rb.Universal(0, np.eye(3)), r"Universal.axes must be given for 2 axes"),
        (lambda: rb.Universal(0, [Y, Y]), r"Universal.axes must be two axes that are not parallel"),
        (lambda: rb.Universal(0, TWO_AXES, limits=((0, 1), (1, 0))), r"Universal.limits\[1\] must"),
        (lambda: rb.Universal(0, TWO_AXES, limits=(0, 1)), r"Universal.limits\[0\] must"),
        (lambda: rb.Universal(0, TWO_AXES, stiffness=(1.0,)), r"stiffness must be given for 2 ax"),
        (
            lambda: rb.Universal(0, TWO_AXES, damping=(1.0, -1.0)),
            r"Universal.damping\[1\] must be f",
        ),
        (lambda: rb.Universal(0, TWO_AXES, rest_angles=1.0), r"rest_angles must have shape \(2,\)"),
        (lambda: rb.Gimbal(0, [Y, Y, Y]), r"Gimbal.axes must be three axes, the second one perp"),
        (lambda: rb.Gimbal(0, np.eye(3), reference=(0, 0, 0, 0)), r"Gimbal.reference must be fin"),
        (
            lambda: rb.Gimbal(0, np.eye(3), limits=(None, (-1.0, 2.0), None)),
            r"Gimbal.limits\[1\] must lie between two angles .*, 1.5708 and others half a turn",
        ),
        (
            lambda: rb.World([BALL], joints=[rb.Weld(0)], forces=[rb.Motor(0, 1.0)]),
            r"Motor.joint must be a Hinge, a Slider, a Univ.*; World.joints\[0\] is a Weld",
        ),
        (
            lambda: rb.simulate(rb.World([BALL], joints=[rb.Hinge(0, Y)]), ONE, STOPS, 1.0),
            r"World.joints\[0\] is a Hinge. Use EventDriven",
        ),
        (
            lambda: rb.simulate(
                rb.World([BALL, BALL], joints=[rb.Pin(0, Y, other=1)]),
                TWO,
                STOPS,
                1.0,
            ),
            r"World.joints\[0\] is a Pin between two bodies. Use EventDriven",
        ),
        (
            lambda: rb.constraint_violation(rb.World([BALL], joints=[rb.Weld(0)]), ONE),
            r"World.joints\[0\] is a Weld: joint_violations knows all joints",
        ),
    ],
)
def test_wrong_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_numbers_of_several_axes_may_be_traced():
    """In a tuple beside known ones, as where one of them is fitted."""

    def torque(stiffness):
        joint = rb.Universal(0, TWO_AXES, stiffness=(stiffness, 0.0), rest_angles=(0.3, 0.0))
        world = rb.World([BALL], joints=[joint], gravity=(0.0, 0.0, 0.0))
        phase = to_phase(ONE, Inertial.of(world.bodies, ONE.position.dtype))
        loads = loads_of(world, ONE.position.dtype)
        inertial = Inertial.of(world.bodies, ONE.position.dtype)
        return loads[0].wrench(0.0, phase, inertial, None).torque.x[0]

    for derivative in (jax.grad(torque), jax.jacfwd(torque), jax.jit(jax.grad(torque))):
        np.testing.assert_allclose(derivative(2.0), 0.3, rtol=1e-14)
    batch = jax.vmap(torque)(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(batch, [0.3, 0.6], rtol=1e-14)
