"""Rotors geared to joints, by `armature`: against Lagrange's equations and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, quick_jit, slope
from scipy.integrate import solve_ivp

import jaxrb as rb

INERTIA, STIFFNESS, ANGLE, RATE = np.array([0.3, 0.7]), 5.0, 0.8, 0.9
Y = np.array([0.0, 1.0, 0.0])
REDUCED = 1 / np.sum(1 / INERTIA)
METHODS = {
    "LGVCI": rb.LGVCI,
    "stepped": lambda dt: rb.MoreauJean(dt, impacts="stepped"),
    "theta": lambda dt: rb.MoreauJean(dt, scheme="implicit", impacts="stepped"),
}


def discs(armature, damping):
    """Two discs on one axis, with a spring, a damper and a rotor between them."""
    bodies = [rb.RigidBody(rb.Sphere(0.1), 1.0, (0.5, 0.5, j)) for j in INERTIA]
    acting = {"stiffness": STIFFNESS, "damping": damping, "armature": armature}
    hinge = rb.Hinge(0, (0, 0, 1), other=1, **acting)
    turns = [[np.cos(ANGLE / 2), 0.0, 0.0, np.sin(ANGLE / 2)], [1.0, 0, 0, 0]]
    spins = [[0, 0, RATE + 0.4], [0, 0, 0.4]]
    still = np.zeros((2, 3))
    return rb.World(bodies, joints=[hinge], gravity=(0, 0, 0)), rb.State(still, turns, still, spins)


def exact(t, armature, damping):
    """x = a exp(p t) + b exp(q t) with the roots of (J + armature) x'' + c x' + k x = 0, in which J
    is the reduced inertia of the discs."""
    inertia = REDUCED + armature
    p = (-damping + np.emath.sqrt(damping**2 - 4 * inertia * STIFFNESS)) / (2 * inertia)
    q = -damping / inertia - p
    a = (RATE - q * ANGLE) / (p - q)
    return float((a * np.exp(p * t) + (ANGLE - a) * np.exp(q * t)).real)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_an_oscillator_with_a_rotor(method):
    """Of second order for rotors that are light, as heavy as the discs and a thousand times as
    heavy, though it acts between them; where the damper alone would stop light discs in a step, the
    rotor does not let it. Energy, with the rotor's, and work balance; momentum is that of the
    discs."""

    @jax.jit
    def run(armature, damping, dt):
        world, start = discs(armature, damping)
        sol = rb.simulate(world, start, METHODS[method](dt), 1.0, max_steps=400)
        spin = rb.angular_momentum(world, sol.final) - rb.angular_momentum(world, start)
        energy = rb.energy(world, sol.final) - rb.energy(world, start)
        return rb.joint_coordinates(world, sol.final)[0], energy - sol.stats.work, spin

    steps = np.array([100, 200, 400])
    for armature, damping in ((0.02, 0.3), (0.4, 0.3), (300.0, 0.3), (300.0, 60.0)):
        found = [run(armature, damping, 1 / n) for n in steps]
        errors = [abs(float(angle) - exact(1.0, armature, damping)) for angle, *_ in found]
        lost = [abs(float(left)) for _, left, _ in found]
        # With the heaviest rotor the angle hardly curves, and errors end in round-off.
        assert errors[-1] < 3e-5 and lost[-1] < 1e-4 * (1 + armature), (errors, lost)
        if armature < 1 or damping > 1:
            assert abs(slope(1 / steps, errors) - 2) < 0.1, errors
            assert abs(slope(1 / steps, lost) - 2) < 0.1, lost
        np.testing.assert_allclose([spin for *_, spin in found], 0.0, atol=1e-12)


G, LENGTH, MASS = 9.81, 0.5, 1.0
ROD = rb.RigidBody(rb.Capsule(0.02, LENGTH / 2), mass=MASS)
TOP, BOTTOM = (0, 0, LENGTH / 2), (0, 0, -LENGTH / 2)


def arm(armature, **options):
    """Two rods that hang from each other, with rotors in both hinges."""
    joints = [
        rb.Hinge(0, (0, 1, 0), TOP, armature=armature[0]),
        rb.Hinge(1, (0, 1, 0), TOP, 0, BOTTOM, armature=armature[1]),
    ]
    return rb.World([ROD, ROD], options.pop("obstacles", []), joints=joints, **options)


def hung(first, second=0.0, rates=(0.0, 0.0)):
    """The rods by their relative angles [rad] and rates [rad/s]."""
    angles, spins = jnp.cumsum(jnp.stack([first, second])), jnp.cumsum(jnp.asarray(rates))
    down = jnp.stack([-jnp.sin(angles), 0 * angles, -jnp.cos(angles)], axis=1) * LENGTH
    moves = jnp.stack([-jnp.cos(angles), 0 * angles, jnp.sin(angles)], axis=1)
    moves = moves * spins[:, None] * LENGTH
    halves = lambda x: jnp.stack([x[0] / 2, x[0] + x[1] / 2])  # noqa: E731
    half, zero = angles / 2, 0 * angles
    turns = jnp.stack([jnp.cos(half), zero, jnp.sin(half), zero], axis=1)
    return rb.State(halves(down), turns, halves(moves), jnp.stack([zero, spins, zero], axis=1))


def mass_matrix(second, armature):
    """Of both relative angles."""
    own = float(ROD.inertia_matrix()[1, 1]) + MASS * LENGTH**2 / 4
    cosine = MASS * LENGTH**2 / 2 * np.cos(second)
    first = 2 * own + MASS * LENGTH**2 + 2 * cosine
    return np.array([[first, own + cosine], [own + cosine, own]]) + np.diag(armature)


def swung(angles, rates, armature, t):
    """The angles by Lagrange's equations: M q'' + c = -dV/dq."""

    def rate(_, x):
        q, dq = x[:2], x[2:]
        bent = MASS * LENGTH**2 / 2 * np.sin(q[1])
        gyroscopic = np.array([-bent * (2 * dq[0] * dq[1] + dq[1] ** 2), bent * dq[0] ** 2])
        lower = MASS * G * LENGTH / 2 * np.sin(q.sum())
        pull = np.array([1.5 * MASS * G * LENGTH * np.sin(q[0]) + lower, lower])
        force = -pull - gyroscopic
        return np.concatenate([dq, np.linalg.solve(mass_matrix(q[1], armature), force)])

    accuracy = {"rtol": 1e-12, "atol": 1e-12}
    return solve_ivp(rate, (0, t), [*angles, *rates], "DOP853", **accuracy).y[:2, -1]


@pytest.mark.slow
def test_a_double_pendulum_with_rotors():
    """Their momentum is that of relative angles: the second rotor resists the motion of both rods
    against each other alone. The energy comes and goes within the order of the scheme."""
    armature, angles, rates = np.array([0.3, 0.2]), np.array([0.7, -0.4]), np.array([1.0, 3.0])

    @jax.jit
    def run(dt, t1):
        world, start = arm(armature), hung(*angles, rates)
        sol = rb.simulate(world, start, rb.LGVCI(dt), t1, max_steps=2000)
        energies = jnp.stack([rb.energy(world, start), rb.energy(world, sol.final)])
        return rb.joint_coordinates(world, sol.final), energies

    expected = swung(angles, rates, armature, 0.5)
    steps = np.array([25, 50, 100])
    errors = [np.abs(run(0.5 / n, 0.5)[0] - expected).max() for n in steps]
    assert abs(slope(0.5 / steps, errors) - 2) < 0.1 and errors[-1] < 1e-4, errors
    long = run(0.01, 20.0)[1]
    assert abs(long[1] - long[0]) < 1e-3


@pytest.mark.slow
def test_a_flight_that_is_short_beside_round_off_keeps_the_rate():
    """As between impacts that nearly coincide: what a rotor has moved is lost in the round-off of
    its angle, and over the time it would be any speed. The rate changes by a = -M^-1 tau, times
    that."""
    anchor, angle, rate, armature, stiffness = (0.25, 0.1, -0.3), 0.7, 2.0, 0.5, 3.0
    rod = rb.RigidBody(rb.Box((0.05, 0.05, 0.3)), 1.0)
    hinge = rb.Hinge(0, Y, other_anchor=anchor, armature=armature, stiffness=stiffness)
    world = rb.World([rod], joints=[hinge])
    turn = [np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0]
    start = rb.State([anchor], [turn], np.zeros((1, 3)), [[0.0, rate, 0.0]])

    @quick_jit
    def run(dt):
        sol = rb.simulate(world, start, rb.LGVCI(dt), dt, max_steps=2)
        return rb.joint_velocities(world, sol.final)[0]

    acceleration = -stiffness * angle / (armature + float(rod.inertia_matrix()[1, 1]))
    for dt in (1e-4, 1e-7, 1e-9, 1e-12, 1e-15, 3e-18):
        # The error of the middle's rule, and the round-off of an angle over a longer time.
        allowed = 100 * dt**2 + 1e-7
        assert run(jnp.asarray(dt)) == pytest.approx(rate + acceleration * dt, abs=allowed)


def wall(restitution):
    """What the tip of the arm can hit, and how."""
    law = rb.Frictionless(restitution)
    return {"obstacles": [rb.HalfSpace((-1.0, 0.0, 0.0), -0.3)], "contact_law": law, "pairs": []}


@pytest.mark.slow
@pytest.mark.parametrize("restitution", [1.0, 0.3])
def test_rotors_take_part_in_impacts(restitution):
    """The tip of the second rod hits a wall. The impulse p changes the rates by M^-1 J^T p, with M
    that of the rotors too, and turns the velocity J q' of the tip into -e of it; with e = 1 the
    energy is kept, of which the rotors have a part."""
    armature, rates = np.array([0.3, 0.2]), np.array([-0.5, -1.0])
    world = arm(armature, gravity=(0, 0, 0), **wall(restitution))
    save = rb.SaveAt(final=True, impacts=4)
    sol = rb.simulate(world, hung(-0.3, 0.1, rates), rb.LGVCI(0.01), 0.2, save=save)
    assert sol.impacts.count == 1
    before, after = (
        jax.tree.map(lambda x: x[0], s) for s in (sol.impacts.before, sol.impacts.after)
    )
    q = np.asarray(rb.joint_coordinates(world, before))
    dq, dq_after = (np.asarray(rb.joint_velocities(world, s)) for s in (before, after))
    # Turns about y move a point along x by its height over the hinge.
    tip, elbow = float(sol.impacts.position[0, 2]), -LENGTH * np.cos(q[0])
    jacobian, mass = np.array([tip, tip - elbow]), mass_matrix(q[1], armature)
    change = np.linalg.solve(mass, jacobian)
    p = -(1 + restitution) * (jacobian @ dq) / (jacobian @ change)
    np.testing.assert_allclose(dq_after, dq + change * p, rtol=1e-11)
    kinetic = [rb.kinetic_energy(world, state) for state in (before, after)]
    np.testing.assert_allclose(kinetic[0], dq @ mass @ dq / 2, rtol=1e-12)
    if restitution == 1:
        np.testing.assert_allclose(kinetic[1], kinetic[0], rtol=1e-12)


def bounced(x):
    """The arm falls against the wall, slides on it and a motor presses it there: the angles.

    Args:
        x: both armatures, the restitution, the torque of the motor [N m].
    """
    world = arm(x[:2], forces=[rb.Motor(1, x[3])], **wall(x[2]))
    sol = rb.simulate(world, hung(-0.3, 0.1, (-0.5, -1.0)), rb.LGVCI(0.01), 0.3)
    return rb.joint_coordinates(world, sol.final), sol


@pytest.mark.long
def test_derivatives_by_the_armature_in_both_modes():
    x = jnp.array([0.3, 0.2, 0.5, -1.0])
    value = quick_jit(bounced)
    assert value(x)[1].impacts.count >= 1
    expected = differences(lambda x: value(x)[0], x)
    angles = lambda x: bounced(x)[0]  # noqa: E731
    forward = quick_jit(jax.jacfwd(angles))(x)
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-8)
    np.testing.assert_allclose(quick_jit(jax.jacrev(angles))(x), forward, rtol=0, atol=1e-11)


@pytest.mark.slow
def test_single_precision_and_batches():
    """Of a batch, from no rotors to some thousand times as heavy as the arm."""

    def run(armature, dtype):
        world = arm(jnp.stack([armature, 2 * armature]))
        start = jax.tree.map(lambda leaf: leaf.astype(dtype), hung(0.7, -0.4, (1.0, 3.0)))
        sol = rb.simulate(world, start, rb.LGVCI(0.01), 0.5, throw=False)
        return rb.joint_coordinates(world, sol.final), sol.successful

    armature = jnp.array([0.0, 1e-3, 0.1, 10.0, 1000.0])
    single, double = (
        jax.jit(jax.vmap(lambda a, dtype=dtype: run(a.astype(dtype), dtype)))(armature)
        for dtype in (jnp.float32, jnp.float64)
    )
    assert single[0].dtype == jnp.float32 and single[1].all() and double[1].all()
    # The mean speed of a rotor in a step is known to eps/dt, and so is its impulse: a hundred times
    # a random 1e-5 rad/s, for half a second.
    np.testing.assert_allclose(single[0], double[0], atol=5e-4)
    np.testing.assert_allclose(
        double[0][1], swung((0.7, -0.4), (1.0, 3.0), np.array([1e-3, 2e-3]), 0.5), atol=1e-3
    )


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda a: rb.Hinge(0, (0, 0, 1), armature=a), "Hinge.armature"),
        (lambda a: rb.Slider(0, (0, 0, 1), armature=a), "Slider.armature"),
        (lambda a: rb.Universal(0, np.eye(3)[:2], armature=(0, a)), r"Universal.armature\[1\]"),
        (lambda a: rb.Gimbal(0, np.eye(3), armature=(0, 0, a)), r"Gimbal.armature\[2\]"),
    ],
)
@pytest.mark.parametrize("armature", [-1.0, np.nan, np.inf, "heavy"])
def test_bad_armature(make, name, armature):
    with pytest.raises(ValueError, match=name):
        make(armature)
