"""Measurements: what is compared with a state, what is missing, and poses from markers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import unsign
from scipy.spatial.transform import Rotation

import jaxrb as rb
from jaxrb import optimize as ro

T, N_BODIES = 5, 2
TS = np.linspace(0.0, 0.4, T)
RNG = np.random.default_rng(0)
POSITION = RNG.normal(size=(T, N_BODIES, 3))
ROTATION = Rotation.random(T * N_BODIES, random_state=0)
QUATERNION = ROTATION.as_quat(scalar_first=True).reshape(T, N_BODIES, 4)
MARKER = np.array([[0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1], [-0.1, 0.05, 0], [0.2, 0, 0.1]])
BODY = (0, 0, 0, 1, 1)
STATE = rb.State(
    jnp.asarray([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0]]),
    jnp.asarray(Rotation.random(2, random_state=1).as_quat(scalar_first=True)),
    jnp.zeros((2, 3)),
    jnp.zeros((2, 3)),
)


def residuals(data):
    """Of all times, against the same state."""
    compare = data.comparison(jnp.float64)
    rows = jax.tree.map(jnp.asarray, data.rows())
    return np.asarray(jax.jit(jax.vmap(lambda row: compare(row, STATE)))(rows))


def gradients(data):
    """Of the sum of squares by a step of the state."""
    compare = data.comparison(jnp.float64)
    rows = jax.tree.map(jnp.asarray, data.rows())

    def total(step):
        moved = STATE.retract(step)
        return jnp.sum(jax.vmap(lambda row: compare(row, moved))(rows) ** 2)

    return np.asarray(jax.jit(jax.grad(total))(jnp.zeros((2, 12))))


def turned(q):
    return Rotation.from_quat(np.asarray(q), scalar_first=True)


def test_poses_are_compared_in_standard_deviations():
    data = ro.Poses(TS, POSITION, QUATERNION, (0.01, 0.1))
    found = residuals(data).reshape(T, N_BODIES, 6)
    np.testing.assert_allclose(found[..., :3], (POSITION - np.asarray(STATE.position)) / 0.01)
    for body in range(N_BODIES):
        own = turned(STATE.quaternion[body]).inv() * turned(QUATERNION[:, body])
        np.testing.assert_allclose(found[:, body, 3:], own.as_rotvec() / 0.1, atol=1e-12)
    assert data.measured().shape == (T, 12) and data.measured().all()
    assert data.noise == (0.01, 0.1)


def test_points_are_compared_in_standard_deviations():
    position = RNG.normal(size=(T, 5, 3))
    data = ro.Points(TS, position, MARKER, 0.02, BODY)
    expected = np.zeros((T, 5, 3))
    for k, body in enumerate(BODY):
        place = np.asarray(STATE.position[body]) + turned(STATE.quaternion[body]).apply(MARKER[k])
        expected[:, k] = (position[:, k] - place) / 0.02
    np.testing.assert_allclose(residuals(data).reshape(T, 5, 3), expected, atol=1e-11)
    assert data.measured().all()


def test_one_body_needs_no_axis():
    data = ro.Poses(TS, POSITION[:, 0], QUATERNION[:, 0], (0.01, 0.1))
    assert data.position.shape == (T, 1, 3) and data.quaternion.shape == (T, 1, 4)
    marked = ro.Points(TS, np.zeros((T, 2, 3)), MARKER[:2], 0.1)
    assert marked.body == (0, 0)


def test_missing_poses_count_for_nothing():
    """A coordinate of a position is missing by itself; one of a quaternion with the others."""
    position, quaternion = POSITION.copy(), QUATERNION.copy()
    position[0, 0, 1] = np.nan
    position[1, 1] = np.nan
    quaternion[2, 0, 3] = np.nan
    quaternion[3] = np.nan
    data = ro.Poses(TS, position, quaternion, (0.01, 0.1))
    missing = np.zeros((T, N_BODIES, 6), bool)
    missing[0, 0, 1] = missing[1, 1, :3] = missing[2, 0, 3:] = missing[3, :, 3:] = True
    np.testing.assert_array_equal(data.measured(), ~missing.reshape(T, 12))
    whole = residuals(ro.Poses(TS, POSITION, QUATERNION, (0.01, 0.1)))
    np.testing.assert_array_equal(residuals(data), np.where(missing.reshape(T, 12), 0.0, whole))
    assert np.isfinite(gradients(data)).all()
    found, turns = data.poses(N_BODIES)
    np.testing.assert_array_equal(np.isnan(turns).all(-1), missing[..., 3:].all(-1))
    np.testing.assert_array_equal(np.isnan(found), missing[..., :3])


def test_missing_points_count_for_nothing():
    position = RNG.normal(size=(T, 5, 3))
    seen = position.copy()
    seen[0, 2] = np.nan
    seen[1, 4, 0] = np.nan
    data = ro.Points(TS, seen, MARKER, 0.02, BODY)
    missing = np.isnan(seen).reshape(T, 15)
    np.testing.assert_array_equal(data.measured(), ~missing)
    whole = residuals(ro.Points(TS, position, MARKER, 0.02, BODY))
    np.testing.assert_array_equal(residuals(data), np.where(missing, 0.0, whole))
    assert np.isfinite(gradients(data)).all()


def test_quaternions_are_normalised():
    data = ro.Poses(TS, POSITION, 1.05 * QUATERNION, (0.01, 0.1))
    np.testing.assert_allclose(data.quaternion, QUATERNION, rtol=1e-15)


def test_poses_from_markers():
    """Three markers of each of two bodies, in order and mixed; exact, and with noise."""
    markers = np.concatenate([MARKER[:3], MARKER[[0, 3, 4]]])[[0, 3, 1, 4, 2, 5]]
    bodies = (0, 1, 0, 1, 0, 1)
    places = np.stack(
        [
            POSITION[:, body] + turned(QUATERNION[:, body]).apply(marker)
            for marker, body in zip(markers, bodies, strict=True)
        ],
        axis=1,
    )
    position, quaternion = ro.Points(TS, places, markers, 1e-3, bodies).poses(N_BODIES)
    np.testing.assert_allclose(position, POSITION, atol=1e-13)
    np.testing.assert_allclose(quaternion, unsign(QUATERNION, quaternion), atol=1e-13)
    noisy = places + 1e-4 * RNG.normal(size=places.shape)
    position, quaternion = ro.Points(TS, noisy, markers, 1e-4, bodies).poses(N_BODIES)
    # A marker 0.1 m from the others is turned by 1e-3 rad by its noise; four of that.
    np.testing.assert_allclose(position, POSITION, atol=4e-4)
    off = (turned(quaternion.reshape(-1, 4)) * ROTATION.inv()).magnitude()
    assert 1e-5 < off.max() < 4e-3


def test_markers_that_tell_no_pose():
    line = np.array([[0.0, 0, 0], [0.1, 0.1, 0], [0.3, 0.3, 0]])
    places = np.zeros((T, 3, 3)) + line
    for markers in (line, 0 * line, line[1:2] + 0 * line):
        position, quaternion = ro.Points(TS, places, markers, 1e-3).poses(1)
        assert np.isnan(position).all() and np.isnan(quaternion).all()
    two = places.copy()
    two[2, 1] = np.nan
    corner = np.eye(3)
    position, _ = ro.Points(TS, np.where(np.isnan(two), np.nan, corner), corner, 1e-3).poses(1)
    np.testing.assert_array_equal(np.isnan(position).all(-1)[:, 0], np.arange(T) == 2)
    # Of a body without markers nothing is known either.
    assert np.isnan(ro.Points(TS, 0 * places + corner, corner, 1e-3).poses(2)[0][:, 1]).all()


def test_noise_of_an_attitude_from_markers():
    """Of markers on a circle of radius 0.1 m, and at one point."""
    circle = 0.1 * np.array([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]])
    assert ro.Points(TS, np.zeros((T, 4, 3)), circle, 1e-3).noise == pytest.approx((1e-3, 1e-2))
    assert ro.Points(TS, np.zeros((T, 4, 3)), 0 * circle, 1e-3).noise == (1e-3, 1.0)


def poses(**changed):
    given = {"ts": TS, "position": POSITION, "quaternion": QUATERNION, "sd": (0.01, 0.1)}
    return lambda: ro.Poses(**{**given, **changed})


def points(**changed):
    given = {"ts": TS, "position": np.zeros((T, 5, 3)), "marker": MARKER, "sd": 0.1, "body": BODY}
    return lambda: ro.Points(**{**given, **changed})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (poses(ts=TS[::-1]), "ts must ascend"),
        (poses(ts=[0, 1, 1, 2, 3]), "ts must ascend"),
        (poses(ts=[0.0]), "at least two finite times"),
        (poses(ts=[0, np.nan, 1, 2, 3]), "at least two finite times"),
        (poses(position=POSITION[1:]), r"Poses.position must have shape \(5, n_bodies, 3\)"),
        (poses(quaternion=QUATERNION[..., :3]), r"Poses.quaternion must have shape \(5"),
        (poses(quaternion=QUATERNION[:, :1]), "position has 2 bodies, Poses.quaternion 1"),
        (poses(quaternion=1.2 * QUATERNION), "unit length to 0.1; the lengths go from 1.2 to 1.2"),
        (poses(quaternion=0 * QUATERNION), "unit length"),
        (poses(sd=(0.01, 0.0)), "Poses.sd must be 2 positive numbers"),
        (poses(sd=0.01), "Poses.sd must be 2 positive numbers"),
        (poses(position=np.nan * POSITION, quaternion=np.nan * QUATERNION), "are missing"),
        (points(marker=MARKER[0]), "Points.marker must be finite, of shape"),
        (points(marker=MARKER[:0], position=np.zeros((T, 0, 3)), body=()), "at least one"),
        (points(marker=np.nan * MARKER), "Points.marker must be finite"),
        (points(position=np.zeros((T, 4, 3))), r"shape \(5, 5, 3\), times by markers"),
        (points(body=(0, 0, 0, 1)), "body of each of 5 markers"),
        (points(body=(0, 0, 0, 1, -1)), "body of each of 5 markers"),
        (points(sd=-1.0), "Points.sd must be a positive number"),
        (points(position=np.full((T, 5, 3), np.nan)), "are missing"),
        (lambda: poses()().check_bodies(3), "Poses are of 2 bodies; the world has 3"),
        (lambda: points()().check_bodies(1), "there is no body 1; the world has 1"),
    ],
)
def test_what_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_worlds_that_fit():
    poses()().check_bodies(2)
    points()().check_bodies(3)
