"""Screws against the motion of points, and rates of axis and angle against differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, quick_jit
from scipy.spatial.transform import Rotation

from jaxrb import rotations

RNG = np.random.default_rng(0)
DTYPES = [np.float64, np.float32]


def motions(dtype):
    """Random ones, and by 1e-6, 3.1 and pi about one axis; displacements of some metres."""
    axis = np.array([2 / 3, 2 / 3, -1 / 3])
    special = Rotation.from_rotvec(axis * np.array([1e-6, 3.1, np.pi])[:, None])
    r = np.concatenate([Rotation.random(20, random_state=0).as_matrix(), special.as_matrix()])
    return r.astype(dtype), RNG.normal(scale=3, size=(23, 3)).astype(dtype)


@quick_jit
def finite(r, u, points):
    screw = rotations.finite_screw(r, u)
    return screw, screw.pitch, screw.displacement(points)


@pytest.mark.parametrize("dtype", DTYPES)
def test_finite_screw(dtype):
    r, u = motions(dtype)
    points = RNG.normal(size=(23, 3)).astype(dtype)
    screw, pitch, moved = jax.tree.map(np.asarray, finite(r, u, points))
    assert moved.dtype == dtype
    wide, x = r.astype(float), u.astype(float)
    eps = float(np.finfo(dtype).eps)
    # Round-off of R times the distance of the axis, which is u/phi for small angles.
    reach = 1 + np.linalg.norm(screw.pose, axis=-1, keepdims=True)
    expected = (wide @ points.astype(float)[..., None])[..., 0] + x - points
    assert np.all(np.abs(moved - expected) <= 40 * eps * reach)
    n, angle = screw.axis.astype(float), screw.angle.astype(float)
    np.testing.assert_allclose(np.linalg.norm(n, axis=-1), 1, atol=4 * eps)
    np.testing.assert_allclose((wide @ n[..., None])[..., 0], n, atol=20 * eps)
    rotation = Rotation.from_matrix(wide)
    np.testing.assert_allclose(angle, rotation.magnitude(), atol=20 * eps)
    np.testing.assert_allclose(screw.translation, np.sum(n * x, axis=-1), atol=40 * eps)
    np.testing.assert_allclose(pitch, 2 * np.pi * screw.translation / angle, rtol=8 * eps)
    # The pose is across the axis and the least squares solution of eq. (67).
    assert np.all(np.abs(np.sum(screw.pose * n, axis=-1)) <= 20 * eps * reach[:, 0])
    if dtype == np.float64:
        for k in range(20):
            system = np.concatenate([wide[k] - np.eye(3), n[k : k + 1]])
            right = np.append(np.outer(n[k], n[k]) @ x[k] - x[k], 0)
            pose = np.linalg.lstsq(system, right)[0]
            np.testing.assert_allclose(screw.pose[k], pose, atol=1e-12)


def test_motions_without_an_axis():
    r = np.stack([np.eye(3)] * 2)
    u = np.array([[0.0, -2.0, 0.0], [0.0, 0.0, 0.0]])
    screw, pitch, moved = finite(r, u, np.ones((2, 3)))
    np.testing.assert_array_equal(screw.axis, [[0, -1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(screw.angle, 0)
    np.testing.assert_array_equal(screw.pose, 0)
    np.testing.assert_array_equal(screw.translation, [2, 0])
    np.testing.assert_array_equal(pitch, [np.inf, 0])
    np.testing.assert_array_equal(moved, u)


def test_a_half_turn_has_the_positive_axis():
    for n in ([0.6, 0.8, 0.0], [-0.6, 0.8, 0.0]):
        r = 2 * np.outer(n, n) - np.eye(3)
        screw, _, _ = finite(r, np.array([1.0, 0.0, 2.0]), np.zeros(3))
        np.testing.assert_allclose(screw.axis, n, atol=1e-15)
        np.testing.assert_allclose(screw.angle, np.pi, rtol=1e-15)


@quick_jit
def instantaneous(x, v, omega, points):
    screw = rotations.instantaneous_screw(x, v, omega)
    return screw, screw.pitch, screw.velocity(points)


@pytest.mark.parametrize("dtype", DTYPES)
def test_instantaneous_screw(dtype):
    x, v, omega, points = RNG.normal(size=(4, 30, 3)).astype(dtype)
    screw, pitch, velocity = jax.tree.map(np.asarray, instantaneous(x, v, omega, points))
    assert velocity.dtype == dtype
    eps = float(np.finfo(dtype).eps)
    speed = np.linalg.norm(omega, axis=-1, keepdims=True)
    scale = 40 * eps * (1 + 1 / speed)
    assert np.all(np.abs(velocity - (v + np.cross(omega, points - x))) <= scale)
    # Eq. (119), and what it was derived from: points of the axis move along it.
    n = omega / speed
    pose = np.cross(omega, v) / speed**2 + x - n * np.sum(n * x, axis=-1, keepdims=True)
    assert np.all(np.abs(screw.pose - pose) <= scale)
    slide = n * np.sum(n * v, axis=-1, keepdims=True)
    assert np.all(np.abs(v + np.cross(omega, screw.pose - x) - slide) <= scale)
    np.testing.assert_allclose(screw.sliding[:, None] * screw.axis, slide, atol=20 * eps)
    np.testing.assert_allclose(screw.angular_speed, speed[:, 0], rtol=8 * eps)
    np.testing.assert_allclose(pitch, 2 * np.pi * screw.sliding / speed[:, 0], rtol=8 * eps)


def test_instants_without_rotation():
    v = np.array([[0.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    screw, pitch, velocity = instantaneous(np.ones((2, 3)), v, np.zeros((2, 3)), np.ones((2, 3)))
    np.testing.assert_array_equal(screw.axis, [[0, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(screw.pose, 0)
    np.testing.assert_array_equal(pitch, [np.inf, 0])
    np.testing.assert_array_equal(velocity, v)


def test_derivatives_are_finite_without_an_axis():
    def of_finite(v):
        screw = rotations.finite_screw(jnp.eye(3), v)
        return screw.axis, screw.angle, screw.pose, screw.translation

    def of_instant(v):
        screw = rotations.instantaneous_screw(v, v, 0 * v)
        return screw.axis, screw.angular_speed, screw.pose, screw.sliding

    program = quick_jit(lambda v: (jax.jacrev(of_finite)(v), jax.jacrev(of_instant)(v)))
    for v in (np.array([0.0, 2.0, 0.0]), np.zeros(3)):
        for leaf in jax.tree.leaves(program(v)):
            assert np.isfinite(leaf).all()


def path(t):
    """An axis and an angle that move, with rates by differences of order 4."""
    polar, azimuth = 0.8 + 0.5 * np.sin(t), 0.3 + 0.7 * t
    n = [np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)]
    return np.array(n), 0.4 + 1.3 * t - 0.5 * t * t


def rate(function, t):
    return differences(lambda s: function(s[0]), np.array([t]))[..., 0]


@quick_jit
def rates(n, phi, dn, dphi, ddn, ddphi):
    first, second = (n, phi, dn, dphi), (n, phi, dn, dphi, ddn, ddphi)
    omega = rotations.spatial_angular_velocity(*first)
    alpha = rotations.spatial_angular_acceleration(*second)
    return (
        rotations.angular_velocity(*first),
        omega,
        rotations.angular_acceleration(*second),
        alpha,
        rotations.instantaneous_axis_rate(omega, alpha),
    )


def turning(t):
    """The two angular velocities of the path, by differences of its rotations."""
    r = Rotation.from_rotvec(np.prod(np.broadcast_arrays(*path(t)[::-1]), axis=0)).as_matrix()

    def matrix(s):
        n, phi = path(s)
        return Rotation.from_rotvec(n * phi).as_matrix()

    dr = rate(matrix, t)
    material, spatial = r.T @ dr, dr @ r.T
    return np.array([[m[2, 1], m[0, 2], m[1, 0]] for m in (material, spatial)])


@pytest.mark.parametrize("t", [0.0, 0.6, 2.0])
def test_angular_velocity_and_acceleration(t):
    n, phi = path(t)
    arguments = [n, np.array(phi)]
    arguments += [rate(lambda s: path(s)[0], t), rate(lambda s: np.array(path(s)[1]), t)]
    for k in (0, 1):
        arguments.append(rate(lambda s, k=k: rate(lambda u: np.array(path(u)[k]), s), t))
    found = rates(*arguments)
    expected = [*turning(t), *rate(turning, t)]
    # Differences with step 1e-3 are good to 1e-12, those of differences to 1e-9.
    for one, truth, tolerance in zip(found, expected, (1e-11, 1e-11, 3e-9, 3e-9), strict=False):
        np.testing.assert_allclose(one, truth, atol=tolerance)

    def instantaneous_axis(s):
        omega = turning(s)[1]
        return omega / np.linalg.norm(omega)

    np.testing.assert_allclose(found[4], rate(instantaneous_axis, t), atol=3e-9)


def test_rates_of_float32_and_at_rest():
    zero = np.zeros(3, np.float32)
    n, phi = np.array([0, 0, 1], np.float32), np.float32(1e-4)
    dn, dphi = np.array([1, 0, 0], np.float32), np.float32(2)
    body, world, *_, axis_rate = rates(n, phi, zero, np.float32(0), zero, np.float32(0))
    assert axis_rate.dtype == np.float32
    np.testing.assert_array_equal(axis_rate, 0)
    np.testing.assert_array_equal(body, 0)
    body, world, *_ = rates(n, phi, dn, dphi, zero, np.float32(0))
    # sin phi n' -+ (1 - cos phi) n x n': 5e-9 next to 1, with all its digits.
    np.testing.assert_allclose(body, [1e-4, -5e-9, 2], rtol=1e-6)
    np.testing.assert_allclose(world, [1e-4, 5e-9, 2], rtol=1e-6)


def test_refusals():
    good, n = np.zeros(3), np.array([0.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="rotation must be orthogonal"):
        rotations.finite_screw(2 * np.eye(3), good)
    with pytest.raises(ValueError, match=r"displacement must have shape \(\.\.\., 3\)"):
        rotations.finite_screw(np.eye(3), np.zeros(2))
    with pytest.raises(ValueError, match="angular_velocity_world must have shape"):
        rotations.instantaneous_screw(good, good, np.zeros(4))
    with pytest.raises(ValueError, match="axis must have unit length"):
        rotations.angular_velocity(2 * n, 1.0, good, 1.0)
    with pytest.raises(ValueError, match="axis_rate must have shape"):
        rotations.angular_velocity(n, 1.0, np.zeros(4), 1.0)
