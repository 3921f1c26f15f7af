"""Motions of mechanisms by RATTLE, with the library's rows: the rows are right if these are."""

import numpy as np
import pytest
from helpers import slope
from mechanisms import rattle
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import jaxrb as rb

G = 9.81
Y = (0.0, 1.0, 0.0)
LENGTHS, MASSES = np.array([0.8, 0.5]), np.array([1.2, 0.7])


def double_pendulum(angles, rates):
    """Two boxes that hang at their upper ends, by angles from the vertical."""
    bodies = [
        rb.RigidBody(rb.Box([0.1, 0.06, length / 2]), mass)
        for length, mass in zip(LENGTHS, MASSES, strict=True)
    ]
    half = LENGTHS / 2
    joints = [
        rb.Hinge(0, Y, anchor=(0, 0, half[0])),
        rb.Hinge(1, Y, anchor=(0, 0, half[1]), other=0, other_anchor=(0, 0, -half[0])),
    ]
    angles, rates = np.asarray(angles), np.asarray(rates)
    along = np.stack([-np.sin(angles), np.zeros(2), -np.cos(angles)], axis=-1)
    faster = rates[:, None] * np.cross(Y, along)
    positions = np.cumsum(LENGTHS[:, None] * along, axis=0) - half[:, None] * along
    velocities = np.cumsum(LENGTHS[:, None] * faster, axis=0) - half[:, None] * faster
    q = Rotation.from_rotvec(angles[:, None] * np.array(Y)).as_quat(scalar_first=True)
    state = rb.State(positions, q, velocities, rates[:, None] * np.array(Y))
    return rb.World(bodies, joints=joints, gravity=(0, 0, -G)), state


def lagrange(world, angles, rates, t):
    """Both angles from the vertical at a time, by the equations of Lagrange."""
    moments = np.array([body.inertia_matrix()[1, 1] for body in world.bodies])
    (m1, m2), (c1, c2), length = MASSES, LENGTHS / 2, LENGTHS[0]
    a, b, c = moments[0] + m1 * c1**2 + m2 * length**2, moments[1] + m2 * c2**2, m2 * length * c2

    def rate(_, y):
        (x1, x2), (w1, w2) = y[:2], y[2:]
        coupling, twist = c * np.cos(x1 - x2), c * np.sin(x1 - x2)
        forces = [
            -twist * w2**2 - (m1 * c1 + m2 * length) * G * np.sin(x1),
            twist * w1**2 - m2 * c2 * G * np.sin(x2),
        ]
        return [w1, w2, *np.linalg.solve([[a, coupling], [coupling, b]], forces)]

    start = [*angles, *rates]
    return solve_ivp(rate, (0, t), start, "DOP853", rtol=1e-12, atol=1e-12).y[:2, -1]


@pytest.mark.slow
def test_a_double_pendulum_against_the_equations_of_lagrange():
    angles, rates, t = (1.0, -0.4), (0.5, 2.0), 0.8
    world, state = double_pendulum(angles, rates)
    np.testing.assert_allclose(rb.joint_coordinates(world, state), [1.0, -1.4], rtol=1e-14)
    np.testing.assert_allclose(rb.joint_velocities(world, state), [0.5, 1.5], rtol=1e-14)
    exact = lagrange(world, angles, rates, t)
    steps = np.array([40, 80, 160, 320])
    errors = []
    for n in steps:
        _, (found, worst, _) = rattle(world, state, t / n, int(n))
        errors.append(np.abs(np.cumsum(found[-1]) - exact).max())
        assert worst.max() < 1e-13
    assert abs(slope(t / steps, errors) - 2) < 0.1, errors
    assert errors[-1] < 5e-4


@pytest.mark.slow
def test_the_energy_of_a_double_pendulum_does_not_drift():
    """Over 40 s; the error oscillates, with the square of the step."""
    world, state = double_pendulum((1.0, -0.4), (0.0, 0.0))
    start = float(rb.energy(world, state))
    largest = []
    for dt in (0.01, 0.005):
        _, (_, worst, energy) = rattle(world, state, dt, int(40 / dt))
        error = energy - start
        first, last = np.split(error, 2)
        assert abs(last.mean() - first.mean()) < 0.2 * np.abs(error).max()
        largest.append(np.abs(error).max())
        assert worst.max() < 1e-12
    assert largest[0] / largest[1] > 3, largest


@pytest.mark.slow
def test_a_four_bar_with_redundant_rows():
    """Twenty rows of rank 17: the bars go on moving in their plane, with their energy."""
    corners = np.array([[0.0, 0, 0], [0.0, 0, 1.0], [1.5, 0, 1.4], [1.5, 0, 0]])
    along = np.diff(corners, axis=0)
    lengths, turn = np.linalg.norm(along, axis=1), np.arctan2(along[:, 0], along[:, 2])
    bodies = [rb.RigidBody(rb.Box([0.1, 0.05, length / 2]), 1.0) for length in lengths]
    # The velocities that leave the rods their lengths, for one radian a second of the first.
    omega = np.array([1.0, 0.0, 0.0])
    first = np.cross(omega[0] * np.array(Y), along[0])
    shape = np.stack([np.cross(Y, along[1]), np.cross(Y, along[2])])[:, [0, 2]].T
    omega[1:] = np.linalg.solve(shape, -first[[0, 2]])
    turning = omega[:, None] * np.array(Y)
    swing = np.cross(turning, along)
    velocity = np.cumsum(swing, axis=0) - swing / 2
    q = Rotation.from_rotvec(turn[:, None] * np.array(Y)).as_quat(scalar_first=True)
    state = rb.State((corners[1:] + corners[:-1]) / 2, q, velocity, turning)
    ends = [(0, None), (1, 0), (2, 1), (2, None)]
    joints = [rb.Hinge.at(state, i, Y, x, j) for (i, j), x in zip(ends, corners, strict=True)]
    world = rb.World(bodies, joints=joints, gravity=(0, 0, -G))
    off, rate = rb.joint_violations(world, state)
    np.testing.assert_allclose(off, 0.0, atol=1e-15)
    np.testing.assert_allclose(rate, 0.0, atol=1e-15)
    end, (angles, worst, energy) = rattle(world, state, 2e-3, 1000)
    assert worst.max() < 1e-12
    assert np.ptp(angles[:, 0]) > 0.5
    np.testing.assert_allclose(energy, float(rb.energy(world, state)), rtol=2e-3)
    np.testing.assert_allclose(end.position.y, 0.0, atol=1e-12)
