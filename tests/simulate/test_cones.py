"""Cones on a floor: on their base, on their side, and rolling around their apex."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit
from scipy.spatial.transform import Rotation

import jaxrb as rb

RADIUS, HEIGHT, G, FRICTION, T1 = 0.1, 0.25, 9.81, 1.0, 1.0
WORLD = rb.World(
    [rb.RigidBody(rb.Cone(RADIUS, HEIGHT), 0.7)],
    [rb.HalfSpace()],
    gravity=(0, 0, -G),
    contact_law=rb.Coulomb(FRICTION, 0.0),
)
STILL = (0.0, 0.0, 0.0)
UPRIGHT = (1.0, 0.0, 0.0, 0.0)
# Half of the angle at the apex.
ALPHA = np.arctan2(RADIUS, HEIGHT)


@quick_jit
def run(state, dt):
    """Until 1 s; the energies at twenty times as well, by steps of at least 0.01 s."""
    method = rb.EventDriven(rb.LieVariational(), dt, on_zeno="rest")
    save = rb.SaveAt(ts=jnp.linspace(0.0, T1, 21))
    sol = rb.simulate(WORLD, state, method, T1, save=save, max_steps=128, throw=False)
    return sol, jax.vmap(lambda one: rb.energy(WORLD, one))(sol.states)


def state(position, quaternion, velocity=STILL, spin=STILL):
    return rb.State(*(jnp.asarray([row], float) for row in (position, quaternion, velocity, spin)))


def on_side(lifted=0.0):
    """With the apex in the origin and the side on the x-axis, or turned about the y-axis, from it
    by an angle: the centre of mass, the rotation matrix."""
    angle = ALPHA + lifted
    axis = -np.array([np.cos(angle), 0.0, np.sin(angle)])  # towards the apex
    across = np.array([0.0, 1.0, 0.0])
    return -0.75 * HEIGHT * axis, np.stack([np.cross(across, axis), across, axis], axis=1)


def quaternion_of(matrix):
    return Rotation.from_matrix(matrix).as_quat(scalar_first=True)


def assert_stays(sol, start):
    assert sol.successful
    still = np.broadcast_to(start.position, sol.states.position.shape)
    np.testing.assert_allclose(sol.states.position, still, rtol=0, atol=1e-12)
    still = np.broadcast_to(start.quaternion, sol.states.quaternion.shape)
    np.testing.assert_allclose(sol.states.quaternion, still, rtol=0, atol=2e-12)


def no_gain(energy):
    """But round-off, of a joule at most."""
    assert np.diff(energy).max() < 1e-12


def stands():
    start = state((0.2, -0.1, HEIGHT / 4), UPRIGHT)
    sol, energy = run(start, 0.02)
    assert_stays(sol, start)
    no_gain(energy)


def lands():
    """Dropped on its base, turning: friction stops it."""
    start = state((0.2, -0.1, HEIGHT / 4 + 0.1), UPRIGHT, spin=(0, 0, 2.0))
    sol, energy = run(start, 0.02)
    np.testing.assert_allclose(sol.final.position[0], [0.2, -0.1, HEIGHT / 4], rtol=0, atol=1e-12)
    np.testing.assert_allclose(sol.final.velocity, 0.0, atol=1e-11)
    np.testing.assert_allclose(sol.final.angular_velocity, 0.0, atol=1e-11)
    no_gain(energy)
    np.testing.assert_allclose(energy[-1], 0.7 * G * HEIGHT / 4, rtol=1e-12)


def slides():
    """On its base, without falling over: by v^2/(2 mu g), to what a step in which it comes to rest
    slides more or less, mu g dt^2/8 at most."""
    dt, speed = 0.01, 0.5
    sol, energy = run(state((0, 0, HEIGHT / 4), UPRIGHT, (speed, 0, 0)), dt)
    path = speed**2 / (2 * FRICTION * G)
    slid = sol.final.position[0]
    np.testing.assert_allclose(slid[0], path, rtol=0, atol=FRICTION * G * dt**2 / 8)
    np.testing.assert_allclose(slid[1:], [0.0, HEIGHT / 4], rtol=0, atol=1e-12)
    np.testing.assert_allclose(sol.final.velocity, 0.0, atol=1e-12)
    np.testing.assert_allclose(sol.final.quaternion[0], UPRIGHT, rtol=0, atol=1e-12)
    no_gain(energy)


def lies():
    place, matrix = on_side()
    start = state(place, quaternion_of(matrix))
    sol, energy = run(start, 0.02)
    assert_stays(sol, start)
    no_gain(energy)


def falls(lifted):
    """On its side, about a point of its rim that does not slip, the apex lifted by an angle."""
    place, matrix = on_side(-lifted)
    slant = np.hypot(RADIUS, HEIGHT)
    place[2] += slant * np.sin(lifted)
    start = state(place, quaternion_of(matrix))
    sol, energy = run(start, 0.01)
    assert sol.successful and int(sol.impacts.count) == 1
    lying = on_side()[0] + [slant * (np.cos(lifted) - 1), 0, 0]
    np.testing.assert_allclose(sol.final.position[0], lying, rtol=0, atol=1e-12)
    np.testing.assert_allclose(sol.final.velocity, 0.0, atol=1e-11)
    np.testing.assert_allclose(energy[-1], 0.7 * G * lying[2], rtol=1e-12)
    # While it falls over a point, steps of second order do not keep energy to round-off.
    assert np.diff(energy).max() < 2e-4 * energy[0]


def rolls(rate):
    """Around its apex, at a steady rate: the side on the floor is at rest, about which it turns by
    rate cot(alpha); its centre of mass goes round in a circle."""
    place, matrix = on_side()
    spin = np.array([-rate / np.tan(ALPHA), 0, 0])
    start = state(place, quaternion_of(matrix), np.cross(spin, place), matrix.T @ spin)
    errors = []
    for dt in (0.02, 0.01):
        sol, energy = run(start, dt)
        assert sol.successful and int(sol.impacts.count) == 0
        angle = rate * np.asarray(sol.ts)
        circle = np.stack([place[0] * np.cos(angle), place[0] * np.sin(angle)], axis=1)
        position = np.asarray(sol.states.position[:, 0])
        errors.append(np.abs(position[:, :2] - circle).max())
        np.testing.assert_allclose(position[:, 2], place[2], rtol=0, atol=1e-12)
        np.testing.assert_allclose(energy, energy[0], rtol=1e-13)
    # Steps are of second order; seen were rate^3 dt^2/40.
    assert errors[1] < 1e-5 * rate**3
    np.testing.assert_allclose(errors[0] / errors[1], 4.0, rtol=0.02)


@pytest.mark.slow
def test_cones():
    """In one test, as they share a program that takes long to compile."""
    stands()
    lands()
    slides()
    lies()
    for rate in (0.5, 2.0):
        rolls(rate)
    for lifted in (0.05, 0.3):
        falls(lifted)
