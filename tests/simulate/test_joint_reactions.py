"""Forces of joints at an instant: against closed forms, multipliers of Lagrange and the balance of
momenta of flights."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, quick_jit
from scipy.spatial.transform import Rotation

import jaxrb as rb

G = 9.81
X, Y, Z = np.eye(3)
TWISTED = np.array([[0.3, 0.04, -0.05], [0.04, 0.4, 0.06], [-0.05, 0.06, 0.2]])


def upright(n):
    return np.eye(1, 4).repeat(n, 0)


def about_y(angles):
    turns = Rotation.from_rotvec(np.asarray(angles)[:, None] * Y)
    return turns.as_quat(scalar_first=True)


# --- one body --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_pendulum_on_a_hinge(dtype):
    """Along the rod m g cos(a) + m l w^2; across it m g sin(a) J/(J + m l^2), of which nothing is
    left for a point. A body without symmetry about the axis has moments across it: what turns it is
    d/dt(J w) about the hinge."""
    m, length, angle, rate = 2.0, 0.7, 0.6, 1.5
    body = rb.RigidBody(rb.Sphere(0.1), m, TWISTED)
    down = np.array([-np.sin(angle), 0, -np.cos(angle)])
    ahead = np.array([-np.cos(angle), 0, np.sin(angle)])
    point = np.array([1.0, 2.0, 3.0])
    joint = rb.Hinge(0, (0, 3.0, 0), (0, 0, length), other_anchor=point)
    world = rb.World([body], gravity=(0, 0, -G), joints=[joint])
    state = rb.State([point + length * down], about_y([angle]), [length * rate * ahead], [rate * Y])
    world, state = jax.tree.map(lambda leaf: leaf.astype(dtype), (world, state))
    force, torque = rb.joint_reactions(world, state)
    assert force.dtype == torque.dtype == dtype and force.shape == torque.shape == (1, 3)
    about = TWISTED[1, 1] + m * length**2
    along, across = G * np.cos(angle) + length * rate**2, G * np.sin(angle) * TWISTED[1, 1] / about
    turning = -m * G * length * np.sin(angle) / about
    # The moment that is needed about the centre of mass, and the arm of the force about it.
    needed = TWISTED @ (turning * Y) + np.cross(rate * Y, TWISTED @ (rate * Y))
    needed = Rotation.from_quat(about_y([angle])[0], scalar_first=True).apply(needed)
    expected = m * (across * ahead - along * down)
    moment = needed - np.cross(-length * down, expected)
    accuracy = 1e-12 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(force[0], expected, atol=accuracy)
    np.testing.assert_allclose(torque[0], moment, atol=accuracy)
    assert abs(moment[1]) < 1e-12 < abs(moment[0])


def test_a_slider_with_a_motor():
    """It carries the weight, whatever pushes along it, and the moment of both about its anchor. A
    spring, a damper and a motor of a function of time and args do not change it but by that."""
    m, anchor = 3.0, np.array([0.1, 0.2, 0.3])
    slider = rb.Slider(0, X, anchor, stiffness=20.0, damping=4.0)
    motor = rb.Motor(0, lambda t, state, args: t * args["gain"])
    body = rb.RigidBody(rb.Box((0.1, 0.2, 0.05)), m)
    world = rb.World([body], joints=[slider], gravity=(0, 0, -G), forces=[motor])
    state = rb.State([[0.4, 0, 0] - anchor], upright(1), [[0.5, 0, 0]], np.zeros((1, 3)))
    force, torque = rb.joint_reactions(world, state, 2.0, {"gain": jnp.asarray(7.0)})
    np.testing.assert_allclose(force, [[0, 0, m * G]], atol=1e-12)
    push = 2.0 * 7.0 - 20.0 * 0.4 - 4.0 * 0.5
    np.testing.assert_allclose(torque[0], -np.cross(anchor, [push, 0, m * G]), atol=1e-12)


# --- chains ----------------------------------------------------------------------------------

LENGTHS, MASSES, MOMENTS = np.array([0.8, 0.5]), np.array([1.2, 0.7]), np.array([0.09, 0.03])
SPRING = {"stiffness": 1.5, "rest_angle": 0.2}
INNER = {"damping": 0.3, "friction": 0.25, "armature": 0.12, **SPRING}


def double_pendulum(angles, rates, masses=MASSES, gravity=G, **inner):
    """Two rods that hang from the origin and from each other, and a bob on the second one that is
    of another shape, so that bodies are sorted in another order."""
    bodies = [
        rb.RigidBody(shape, mass, jnp.array([moment] * 3))
        for shape, mass, moment in zip(
            (rb.Sphere(0.1), rb.Box([0.1, 0.1, 0.1])), masses, MOMENTS, strict=True
        )
    ]
    half = LENGTHS / 2
    joints = [
        rb.Hinge(1, Y, (0, 0, half[1]), other=0, other_anchor=(0, 0, -half[0]), **inner),
        rb.Hinge(0, Y, (0, 0, half[0])),
    ]
    angles, rates = np.asarray(angles), np.asarray(rates)
    along = np.stack([-np.sin(angles), np.zeros(2), -np.cos(angles)], axis=-1)
    swing = rates[:, None] * np.cross(Y, along)
    place, speed = (np.cumsum(LENGTHS[:, None] * a, 0) - half[:, None] * a for a in (along, swing))
    state = rb.State(place, about_y(angles), speed, rates[:, None] * Y)
    return rb.World(bodies, joints=joints, gravity=jnp.stack([0.0, 0.0, -gravity])), state


def multipliers(angles, rates, torque=0.0, armature=0.0):
    """By the equations of Lagrange of the first kind in (x, z, angle) of both rods: the forces on
    the first rod at the origin, and on the second at their joint."""
    (c1, c2), (a1, a2), (w1, w2) = LENGTHS / 2, angles, rates
    # The ends at c from the centre: x + c sin(a), z + c cos(a) above; below the other sign.
    up1, up2, low = ((c * np.cos(a), -c * np.sin(a)) for c, a in ((c1, a1), (c2, a2), (c1, a1)))
    rows = np.array(
        [
            [1, 0, up1[0], 0, 0, 0],
            [0, 1, up1[1], 0, 0, 0],
            [-1, 0, low[0], 1, 0, up2[0]],
            [0, -1, low[1], 0, 1, up2[1]],
        ]
    )
    top = -c1 * w1**2 * np.array([np.sin(a1), np.cos(a1)])
    turned = np.concatenate([top, top - c2 * w2**2 * np.array([np.sin(a2), np.cos(a2)])])
    (m1, m2), (j1, j2) = MASSES, MOMENTS
    mass = np.diag([m1, m1, j1, m2, m2, j2])
    mass[np.ix_([2, 5], [2, 5])] += armature * np.array([[1, -1], [-1, 1]])
    push = np.array([0, -m1 * G, -torque, 0, -m2 * G, torque])
    matrix = np.block([[mass, -rows.T], [rows, np.zeros((4, 4))]])
    return np.linalg.solve(matrix, np.concatenate([push, -turned]))[6:].reshape(2, 2)


ANGLES, RATES = (1.0, -0.4), (0.5, 2.0)


def test_a_double_pendulum_against_multipliers():
    """Its hinges bear no moment in the plane; nor across it, as the motion is plane."""
    world, state = double_pendulum(ANGLES, RATES)
    force, torque = rb.joint_reactions(world, state)
    expected = multipliers(ANGLES, RATES)[::-1]
    np.testing.assert_allclose(np.asarray(force)[:, [0, 2]], expected, rtol=1e-12)
    np.testing.assert_allclose(force[:, 1], 0, atol=1e-13)
    np.testing.assert_allclose(torque, 0, atol=1e-13)


def test_what_acts_in_joints_counts():
    """A spring, a damper, dry friction, a motor and a rotor, in a joint between bodies."""
    world, state = double_pendulum(ANGLES, RATES, **INNER)
    world = dataclasses.replace(world, forces=[rb.Motor(0, 0.4)])
    angle, rate = ANGLES[1] - ANGLES[0], RATES[1] - RATES[0]
    torque = 0.4 - 1.5 * (angle - 0.2) - 0.3 * rate - 0.25 * np.sign(rate)
    expected = multipliers(ANGLES, RATES, torque, INNER["armature"])[::-1]
    force, moment = rb.joint_reactions(world, state)
    np.testing.assert_allclose(np.asarray(force)[:, [0, 2]], expected, rtol=1e-12)
    np.testing.assert_allclose(moment, 0, atol=1e-13)
    # At rest it is not known how much of it acts: none of it is counted.
    world, still = double_pendulum(ANGLES, (0.3, 0.3), friction=5.0)
    expected = multipliers(ANGLES, (0.3, 0.3))[::-1]
    force, _ = rb.joint_reactions(world, still)
    np.testing.assert_allclose(np.asarray(force)[:, [0, 2]], expected, rtol=1e-12)


def test_a_weld_in_free_flight():
    """Two bodies are one, which tumbles as Euler's equations say; the weld gives each what it
    needs. In an even spin about an axis of symmetry that is the centripetal force alone."""
    bodies = [rb.RigidBody(rb.Sphere(0.1), 2.0, TWISTED), rb.RigidBody(rb.Sphere(0.1), 1.0)]
    place = np.array([[0.1, -0.3, 0.2], [0.6, 0.4, -0.1]])
    q = Rotation.random(2, random_state=0)
    turns, masses = q.as_quat(scalar_first=True), np.array([2.0, 1.0])
    omega, point = np.array([1.0, -2.0, 1.5]), np.array([0.2, 0.5, 0.3])
    centre = masses @ place / 3
    arms = place - centre
    spins = q.inv().apply(np.tile(omega, (2, 1)))
    state = rb.State(place, turns, np.cross(omega, arms), spins)
    here = rb.Weld.at(state, 0, 1)
    anchor = q[0].inv().apply(point - place[0])
    other_anchor = q[1].inv().apply(point - place[1])
    weld = rb.Weld(0, 1, anchor, other_anchor, reference=here.reference)
    world = rb.World(bodies, joints=[weld], gravity=(0, 0, 0))
    for error in rb.joint_violations(world, state):
        np.testing.assert_allclose(error, 0, atol=1e-14)
    turn = q.as_matrix()
    own = turn @ np.stack([body.inertia_matrix() for body in bodies]) @ turn.swapaxes(1, 2)
    whole = own.sum(0) + sum(
        m * (r @ r * np.eye(3) - np.outer(r, r)) for m, r in zip(masses, arms, strict=True)
    )
    change = np.linalg.solve(whole, -np.cross(omega, whole @ omega))
    pull = masses[0] * (np.cross(change, arms[0]) + np.cross(omega, np.cross(omega, arms[0])))
    moment = own[0] @ change + np.cross(omega, own[0] @ omega) - np.cross(point - place[0], pull)
    force, torque = rb.joint_reactions(world, state)
    np.testing.assert_allclose(force[0], pull, rtol=1e-12)
    np.testing.assert_allclose(torque[0], moment, rtol=1e-11)
    ball = rb.RigidBody(rb.Sphere(0.1), 2.0)
    world = rb.World([ball, ball], joints=[rb.Weld(0, 1, (-0.5, 0, 0), (0.5, 0, 0))])
    state = rb.State([0.5 * X, -0.5 * X], upright(2), [1.5 * Y, -1.5 * Y], [3.0 * Z] * 2)
    force, torque = rb.joint_reactions(world, state)
    np.testing.assert_allclose(force, [-2.0 * 0.5 * 9.0 * X], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(torque, 0, atol=1e-13)


# --- closed loops and flights ----------------------------------------------------------------

CORNERS = np.array([[0.0, 0, 0], [0.0, 0, 1.0], [1.5, 0, 1.4], [1.5, 0, 0]])


def four_bar(masses=(1.0, 1.0, 1.0), gravity=G, rate=1.0, damping=0.0):
    """Four hinges with 20 rows of rank 17; it moves as the first bar turns by a rate."""
    along = np.diff(CORNERS, axis=0)
    lengths, turn = np.linalg.norm(along, axis=1), np.arctan2(along[:, 0], along[:, 2])
    bodies = [
        rb.RigidBody(rb.Box([0.1, 0.05, length / 2]), mass)
        for length, mass in zip(lengths, masses, strict=True)
    ]
    omega = np.array([1.0, 0.0, 0.0])
    first = np.cross(Y, along[0])
    shape = np.stack([np.cross(Y, along[1]), np.cross(Y, along[2])])[:, [0, 2]].T
    omega[1:] = np.linalg.solve(shape, -first[[0, 2]])
    swing = np.cross(omega[:, None] * Y, along)
    rate = jnp.asarray(rate)
    velocity = rate * jnp.asarray(np.cumsum(swing, axis=0) - swing / 2, rate.dtype)
    middle, spin = (CORNERS[1:] + CORNERS[:-1]) / 2, rate * jnp.asarray(omega, rate.dtype)
    poses = (jnp.asarray(own, rate.dtype) for own in (middle, about_y(turn)))
    state = rb.State(*poses, velocity, spin[:, None] * jnp.asarray(Y, rate.dtype)[None])
    ends = [(0, None), (1, 0), (2, 1), (2, None)]
    joints = [
        rb.Hinge.at(state, i, Y, x, j, damping=damping)
        for (i, j), x in zip(ends, CORNERS, strict=True)
    ]
    return rb.World(bodies, joints=joints, gravity=jnp.stack([0.0, 0.0, -gravity])), state


def on_bodies(world, state, force, torque):
    """The sums of what joints do to bodies, about their centres of mass, world frame."""
    n, turn = len(world.bodies), Rotation.from_quat(state.quaternion, scalar_first=True)
    total, about = np.zeros((n, 3)), np.zeros((n, 3))
    for joint, f, m in zip(world.joints, np.asarray(force), np.asarray(torque), strict=True):
        point = state.position[joint.body] + turn[joint.body].apply(np.array(joint.anchor))
        for body, sign in ((joint.body, 1), (joint.other, -1)):
            if body is not None:
                total[body] += sign * f
                about[body] += sign * (m + np.cross(point - state.position[body], f))
    return total, about


def check_balance(world, state, method, h, tolerance):
    """With the weights and the changes of momenta about the middle of a flight over 2 h."""
    save = rb.SaveAt(ts=np.array([0.1 - h, 0.1, 0.1 + h]))
    states = rb.simulate(world, state, method, 0.1 + h, save=save).states
    middle = jax.tree.map(lambda leaf: leaf[1], states)

    def momenta(state):
        spins = rb.angular_momentum(world, state, about=state.position, per_body=True)
        return rb.linear_momentum(world, state, per_body=True), spins

    linear, angular = jax.vmap(momenta)(states)
    weight = np.array([body.mass for body in world.bodies])[:, None] * np.asarray(world.gravity)
    total, about = on_bodies(world, middle, *rb.joint_reactions(world, middle))
    accuracy = {"rtol": 0, "atol": tolerance * np.abs(total).max()}
    np.testing.assert_allclose(total, (linear[2] - linear[0]) / (2 * h) - weight, **accuracy)
    np.testing.assert_allclose(about, (angular[2] - angular[0]) / (2 * h), **accuracy)


@pytest.mark.slow
def test_a_four_bar_balances_the_momenta_of_a_flight():
    """The flight is of second order in its step of 0.5 ms, and the difference over 2 ms too."""
    world, state = four_bar()
    check_balance(world, state, rb.LGVCI(5e-4), 2e-3, 2e-5)


@pytest.mark.slow
def test_joints_of_all_kinds_balance_the_momenta_of_a_flight():
    """A chain, each joint of which is of another kind."""
    shapes = [rb.Box((0.1, 0.06, 0.04)), rb.Ellipsoid((0.1, 0.07, 0.05))]
    bodies = [rb.RigidBody(shapes[k % 2], 1.0 + 0.3 * k) for k in range(7)]
    place = np.zeros((7, 3))
    place[:, 0] = 0.3 * np.arange(7)
    spin = np.array([0.3, 0.5, 1.0])
    state = rb.State(place, upright(7), np.cross(spin, place), np.tile(spin, (7, 1)))
    points, further = place[:-1] + np.array([0.15, 0.02, -0.03]), 0.05 * X
    pin, hinge, slider, universal, gimbal, rod = points
    joints = [
        rb.Pin.at(state, 1, pin, 0),
        rb.Hinge.at(state, 2, Y + Z, hinge, 1),
        rb.Slider.at(state, 3, X + Z, slider, 2),
        rb.Universal.at(state, 4, (Y, Z), universal, 3, second_point=universal + further),
        rb.Gimbal.at(state, 5, (X, Y, Z), gimbal, 4),
        rb.Distance.at(state, 6, rod + further, rod, 5),
    ]
    world = rb.World(bodies, joints=joints, gravity=(0, 0, -G), pairs=[])
    check_balance(world, state, rb.LGVCI(5e-4), 2e-3, 1e-4)


def together(numbers):
    """What joints do to the bodies of a four-bar, and the forces in its plane, by its masses, the
    gravity, the rate and the damping."""
    world, state = four_bar(numbers[:3], *numbers[3:])
    force, torque = rb.joint_reactions(world, state)
    return jnp.concatenate([force[:, jnp.array([0, 2])].ravel(), torque[:, 1]]), force, torque


@pytest.mark.slow
def test_rows_that_repeat_others():
    """Forces across a plane loop, and moments, which are not unique, are none: those are the least.
    Derivatives are those of differences, in both modes."""
    numbers = jnp.array([1.0, 1.5, 0.7, G, 2.0, 0.2])
    found, force, torque = quick_jit(together)(numbers)
    np.testing.assert_allclose(force[:, 1], 0, atol=1e-12)
    np.testing.assert_allclose(torque, 0, atol=1e-12)
    expected = differences(quick_jit(lambda x: together(x)[0]), numbers, step=1e-2)
    forward = quick_jit(jax.jacfwd(lambda x: together(x)[0]))(numbers)
    np.testing.assert_allclose(forward, expected, atol=1e-9)
    weights = np.random.default_rng(0).normal(size=12)
    reverse = quick_jit(jax.grad(lambda x: together(x)[0] @ weights))(numbers)
    np.testing.assert_allclose(reverse, weights @ expected, atol=1e-9)
    single = quick_jit(together)(numbers.astype(jnp.float32))[0]
    np.testing.assert_allclose(single, found, atol=2e-4)


@pytest.mark.slow
def test_derivatives_by_the_state():
    """Along the motion of a double pendulum, by both angles and rates."""

    def forces(numbers):
        angles, rates = numbers[:2], numbers[2:]
        zero, half = jnp.zeros(2), LENGTHS / 2
        along = jnp.stack([-jnp.sin(angles), zero, -jnp.cos(angles)], axis=-1)
        ahead = jnp.stack([-jnp.cos(angles), zero, jnp.sin(angles)], axis=-1)
        swing = rates[:, None] * ahead
        place, speed = (
            jnp.cumsum(LENGTHS[:, None] * a, 0) - half[:, None] * a for a in (along, swing)
        )
        turns = jnp.stack([jnp.cos(angles / 2), zero, jnp.sin(angles / 2), zero], axis=-1)
        state = rb.State(place, turns, speed, jnp.stack([zero, rates, zero], axis=-1))
        return rb.joint_reactions(double_pendulum(ANGLES, RATES)[0], state)[0][:, ::2]

    numbers = np.array([*ANGLES, *RATES])
    expected = differences(lambda x: multipliers(x[:2], x[2:])[::-1], numbers)
    forward = quick_jit(jax.jacfwd(forces))(numbers)
    np.testing.assert_allclose(forward, expected, atol=1e-9)
    np.testing.assert_allclose(quick_jit(jax.jacrev(forces))(numbers), forward, atol=1e-12)
    many = numbers * np.array([[1.0], [0.7], [-1.2]])
    batch = quick_jit(jax.vmap(forces))(many)
    alone = [multipliers(x[:2], x[2:])[::-1] for x in many]
    np.testing.assert_allclose(batch, np.stack(alone), atol=1e-12)


# --- pins, contacts, and what is refused -----------------------------------------------------


def test_pins_to_the_world():
    """As `reaction_forces` has them, with springs, drag and torques that are known by time and
    args; a body without a pin has no force."""
    state = rb.State(
        [[0.0, 0, 0], [1.0, 0, 0], [2.0, 0, 1]], upright(3), np.zeros((3, 3)), [[1.0, 2, 3]] * 3
    )
    anchors = {0: np.array([0.1, 0.2, 0.3]), 2: np.array([-0.3, 0.1, 0.2])}
    pins = [rb.Pin.at(state, k, np.asarray(state.position[k]) + a) for k, a in anchors.items()]
    speed = np.zeros((3, 3))
    for k, anchor in anchors.items():
        speed[k] = -np.cross([1.0, 2, 3], anchor)
    state = dataclasses.replace(state, velocity=jnp.asarray(speed))
    bodies = [rb.RigidBody(rb.Sphere(0.1), 1.0 + k, TWISTED) for k in range(3)]
    forces = [
        rb.ConstantForce(0, (1.0, 2.0, 3.0)),
        rb.Spring(0, other=2, stiffness=5.0, rest_length=1.0),
        rb.Force(lambda t, state, args: (t * args * state.velocity, args * state.velocity)),
    ]
    world = rb.World(bodies, joints=pins, forces=forces, pairs=[])
    args = jnp.asarray(0.7)
    force, torque = rb.joint_reactions(world, state, 2.0, args)
    expected = rb.reaction_forces(world, state, 2.0, args)
    np.testing.assert_allclose(force, np.asarray(expected)[[0, 2]], rtol=1e-12)
    np.testing.assert_allclose(expected[1], 0)
    np.testing.assert_allclose(torque, 0, atol=1e-12)
    with pytest.raises(ValueError, match=r"World.forces: only those of ConstantForce"):
        rb.mean_reaction_forces(world, jnp.zeros(1), jax.tree.map(lambda leaf: leaf[None], state))


@pytest.mark.slow
def test_a_table_stands():
    """A slab is held up by a post that stands on the ground: with the forces of the ground, the
    weld carries the weight of the slab and its moment. Along a trajectory likewise."""
    post, slab = rb.RigidBody(rb.Box((0.2, 0.2, 0.3)), 2.0), rb.RigidBody(rb.Box((0.3,) * 3), 1.0)
    weld = rb.Weld(1, 0, (-0.1, 0, -0.3), (0, 0, 0.3))
    world = rb.World([post, slab], [rb.HalfSpace()], joints=[weld], pairs=[])
    still = np.zeros((2, 3))
    state = rb.State([[0, 0, 0.3], [0.1, 0, 0.9]], upright(2), still, still)
    contacts = rb.contact_forces(world, state, rb.LGVCI(0.01))
    assert contacts.solved
    force, torque = rb.joint_reactions(world, state, contacts=contacts)
    np.testing.assert_allclose(force, [[0, 0, G]], atol=1e-9)
    np.testing.assert_allclose(torque, [[0, -0.1 * G, 0]], atol=1e-9)
    at_times = jax.tree.map(lambda leaf: leaf[None], (state, contacts))
    each = jax.vmap(lambda state, own: rb.joint_reactions(world, state, contacts=own))(*at_times)
    np.testing.assert_allclose(each[0][0], force, rtol=1e-12)
    alone = rb.World([post], [rb.HalfSpace()], joints=[rb.Weld(0)])
    one = jax.tree.map(lambda leaf: leaf[:1], state)
    beyond = dataclasses.replace(contacts, partners=((1, 0),) * len(contacts.partners))
    with pytest.raises(ValueError, match=r"contacts must be of the same world"):
        rb.joint_reactions(alone, one, contacts=beyond)
    # Without them all falls.
    for found in rb.joint_reactions(world, state):
        np.testing.assert_allclose(found, 0, atol=1e-12)


def hanging(ratio, dtype, n=20):
    """A chain at rest, every second link of which has another mass; the forces at its joints, and
    the weights below them."""
    place = np.zeros((n, 3))
    place[:, 2] = -0.1 * np.arange(n)
    state = rb.State(place, upright(n), np.zeros((n, 3)), np.zeros((n, 3)))
    link = rb.Box([0.02, 0.02, 0.05])
    masses = np.where(np.arange(n) % 2, 1.0, ratio)
    points = place + 0.05 * Z
    pins = [rb.Pin.at(state, k, point, k - 1 if k else None) for k, point in enumerate(points)]
    world = rb.World([rb.RigidBody(link, m) for m in masses], joints=pins, gravity=(0, 0, -G))
    world, state = jax.tree.map(lambda leaf: leaf.astype(dtype), (world, state))
    return rb.joint_reactions(world, state)[0][:, 2], G * np.cumsum(masses[::-1])[::-1]


@pytest.mark.slow
def test_masses_that_differ():
    """Found to the precision, or not a number: never something else."""
    for ratio, dtype, accuracy in ((1e-6, "float64", 1e-11), (1e-4, "float32", 1e-3)):
        found, weights = hanging(ratio, dtype)
        np.testing.assert_allclose(found, weights, rtol=accuracy)
    assert jnp.isnan(hanging(1e-6, "float32")[0]).all()


def test_motions_that_joints_do_not_let_be():
    """A body held at two points turns about the line through them, and about no other one."""
    ball = rb.RigidBody(rb.Sphere(0.1))
    pins = [rb.Pin(0, 0.5 * X, 0.5 * X), rb.Pin(0, -0.5 * X, -0.5 * X)]
    world = rb.World([ball], joints=pins, gravity=(0, 0, -G))
    still = np.zeros((1, 3))
    force, _ = rb.joint_reactions(world, rb.State(still, upright(1), still, [3.0 * X]))
    np.testing.assert_allclose(force, 2 * [ball.mass * G / 2 * Z], atol=1e-13)
    force, _ = rb.joint_reactions(world, rb.State(still, upright(1), still, [3.0 * Z]))
    assert jnp.isnan(force).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_falls_and_spins_as_a_whole(dtype):
    """Nothing but round-off is left to what joints hold twice."""
    spin = np.array([0.0, 3.0, 0.0])
    bodies = [rb.RigidBody(rb.Sphere(0.1), 1.0 + 0.3 * k) for k in range(3)]
    place = np.array([[0.1, 0.3, 0.2]] * 3)
    state = rb.State(place, upright(3), np.tile([9.0, -7.0, 3.0], (3, 1)), np.tile(spin, (3, 1)))
    welds = [rb.Weld.at(state, i, j) for i, j in ((0, 1), (1, 2), (2, 0))]
    world = rb.World(bodies, joints=welds, gravity=(3.0, -1.7, -G), pairs=[])
    world, state = jax.tree.map(lambda leaf: leaf.astype(dtype), (world, state))
    for found in rb.joint_reactions(world, state):
        np.testing.assert_allclose(found, 0, atol=100 * jnp.finfo(dtype).eps)


def test_what_there_is_not():
    ball = rb.RigidBody(rb.Sphere(0.1))
    state = rb.State([[0.0, 0, 0]], upright(1), [[0.0, 0, 0]], [[0.0, 0, 0]])
    force, torque = rb.joint_reactions(rb.World([ball]), state)
    assert force.shape == torque.shape == (0, 3)
    hinged = rb.World([ball], joints=[rb.Hinge(0, Y)])
    with pytest.raises(ValueError, match=r"is a Hinge: joint_reactions knows"):
        rb.reaction_forces(hinged, state)
    with pytest.raises(ValueError, match=r"The world has 2 bodies"):
        rb.joint_reactions(rb.World([ball, ball], joints=[rb.Hinge(0, Y)]), state)
