"""Jumps of velocity and states from synthetic flights with noise, whose truth is known."""

import numpy as np
import pytest
from helpers import unsign
from scipy.spatial.transform import Rotation

from jaxrb.optimize import nodes

G = np.array([[0.0, 0.0, -9.81]])
DT = 0.01
TS = DT * np.arange(120)
SD = 1e-3


def flight(rng, changes=(), sd=SD, ts=TS):
    """Positions of one body, shape (T, 1, 3), whose velocity changes at some times, continuous."""
    velocity = np.array([1.0, -0.5, 4.0])
    place = velocity * ts[:, None] + G * ts[:, None] ** 2 / 2
    for time, change in changes:
        place += np.maximum(ts - time, 0.0)[:, None] * np.asarray(change)
    return (place + sd * rng.normal(size=place.shape))[:, None]


@pytest.mark.parametrize("seed", range(10))
def test_jumps_are_found_within_two_samples(seed):
    """Of 1 m/s: two sides of 6 samples with noise of 1 mm tell velocities to 2.4e-3/0.042 m/s,
    thus a jump is 12 standard deviations."""
    rng = np.random.default_rng(seed)
    times = np.array([0.31, 0.62, 0.95]) + rng.uniform(0, DT, size=3)
    ways = rng.normal(size=(3, 3))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    found = nodes.jumps(TS, flight(rng, zip(times, ways, strict=True)), G, SD)
    assert len(found) == 3
    np.testing.assert_allclose(found, times, atol=2 * DT)


@pytest.mark.parametrize("change", [3.0, 30.0, 300.0])
def test_a_large_jump_is_one(change):
    """However far it stands out of the noise, and with a third of the samples missing."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        time = rng.uniform(0.4, 0.8)
        place = flight(rng, [(time, [0, 0, change])])
        found = nodes.jumps(TS, place, G, SD)
        assert len(found) == 1 and abs(found[0] - time) < 2 * DT
        place[rng.uniform(size=len(place)) < 0.3] = np.nan
        known = TS[np.isfinite(place[:, 0, 0])]
        found = nodes.jumps(TS, place, G, SD)
        before, after = known[known <= time].max(), known[known > time].min()
        # Within two samples of those that there are.
        assert len(found) == 1 and abs(found[0] - time) < 2 * max(DT, after - before)


def test_free_flight_has_none():
    """A score of 6 standard deviations in three coordinates has a probability of 7e-8, and there
    are 115 in each of 200 flights."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        place = flight(rng)
        place[rng.uniform(size=len(place)) < 0.1] = np.nan
        assert nodes.jumps(TS, place, G, SD).size == 0


def test_times_may_begin_anywhere():
    """As of a clock that counts from 1970, whose squares leave nothing of milliseconds."""
    rng = np.random.default_rng(6)
    found = nodes.jumps(1.7e9 + TS, flight(rng, [(0.605, [0, 0, 2])]), G, SD)
    assert len(found) == 1 and abs(found[0] - 1.7e9 - 0.605) < 2 * DT


def test_jumps_of_either_body():
    rng = np.random.default_rng(0)
    both = np.concatenate(
        [flight(rng, [(0.405, [0, 2, 0])]), flight(rng, [(0.805, [0, 0, 3])])], axis=1
    )
    found = nodes.jumps(TS, both, np.repeat(G, 2, axis=0), SD)
    np.testing.assert_allclose(found, [0.405, 0.805], atol=2 * DT)


def test_an_impact_in_a_gap_of_the_data_lies_in_its_middle():
    rng = np.random.default_rng(1)
    place = flight(rng, [(0.6, [0, 0, 5])])
    place[55:66] = np.nan  # from 0.54 to 0.66 s nothing is known
    np.testing.assert_allclose(nodes.jumps(TS, place, G, SD), [0.6], atol=1e-12)


def attitudes(rng, spin, sd=0.0, ts=TS):
    """Of a body that turns about a fixed axis of its own, shape (T, 1, 4)."""
    start = Rotation.from_rotvec([0.3, -1.0, 0.4])
    turn = start * Rotation.from_rotvec(ts[:, None] * np.asarray(spin))
    turn = turn * Rotation.from_rotvec(sd * rng.normal(size=(len(ts), 3)))
    return turn.as_quat(scalar_first=True)[:, None], start


def test_states_are_as_good_as_their_noise_allows():
    """Over 50 throws, errors over their predicted standard deviations have a mean square of one.

    The prediction is that of a straight line through 24 samples, and of a parabola for the
    attitude, from (B^T B)^-1.
    """
    time = 0.5
    window = TS[np.sort(np.argsort(np.abs(TS - time), kind="stable")[: 2 * nodes.WINDOW])] - time
    line = np.linalg.inv(np.vander(window, 2).T @ np.vander(window, 2))
    parabola = np.linalg.inv(np.vander(window, 3).T @ np.vander(window, 3))
    spin = np.array([1.0, -2.0, 3.0])
    sums = np.zeros(4)
    for seed in range(50):
        rng = np.random.default_rng(seed)
        turns, start = attitudes(rng, spin, 1e-3)
        found = nodes.states_at(np.array([time]), np.zeros(0), TS, (flight(rng), turns), G)
        place = np.array([1.0, -0.5, 4.0]) * time + G[0] * time**2 / 2
        truth = start * Rotation.from_rotvec(spin * time)
        off = truth.inv() * Rotation.from_quat(found.quaternion[0, 0], scalar_first=True)
        errors = [
            (found.position[0, 0] - place) / (SD * np.sqrt(line[1, 1])),
            (found.velocity[0, 0] - [1.0, -0.5, 4.0 - 9.81 * time]) / (SD * np.sqrt(line[0, 0])),
            off.as_rotvec() / (1e-3 * np.sqrt(parabola[2, 2])),
            (found.angular_velocity[0, 0] - spin) / (1e-3 * np.sqrt(parabola[1, 1])),
        ]
        sums += [np.mean(error**2) for error in errors]
    # 150 squares have a mean of 1 with standard deviation sqrt(2/150) = 0.12. The noise of the
    # middle attitude turns the frame of the others a little: the spin is allowed more.
    np.testing.assert_allclose(sums / 50, 1.0, atol=0.4)


@pytest.mark.parametrize("rate", [0.5, 10.0, 40.0, 100.0])
def test_the_spin_is_found_however_fast(rate):
    """Up to 1 rad between samples; over the whole window, of 24 samples, attitudes come round."""
    rng = np.random.default_rng(2)
    spin = rate * np.array([2.0, -1.0, 2.0]) / 3
    turns, start = attitudes(rng, spin)
    times = np.array([0.0, 0.303, 1.18])
    found = nodes.states_at(times, np.zeros(0), TS, (flight(rng, sd=0.0), turns), G)
    # About a fixed axis rotation vectors are straight lines: exact to round-off.
    np.testing.assert_allclose(found.angular_velocity[:, 0], np.tile(spin, (3, 1)), rtol=1e-9)
    expected = (start * Rotation.from_rotvec(times[:, None] * spin)).as_quat(scalar_first=True)
    np.testing.assert_allclose(
        found.quaternion[:, 0], unsign(expected, found.quaternion[:, 0]), atol=1e-9
    )


def test_states_are_from_one_side_of_a_jump():
    """Without noise they are exact on both sides, close to it."""
    rng = np.random.default_rng(3)
    place = flight(rng, [(0.505, [0.0, 1.0, 6.0])], sd=0.0)
    turns, _ = attitudes(rng, np.zeros(3))
    times = np.array([0.48, 0.53])
    found = nodes.states_at(times, np.array([0.505]), TS, (place, turns), G)
    before = np.array([1.0, -0.5, 4.0 - 9.81 * 0.48])
    after = np.array([1.0, 0.5, 10.0 - 9.81 * 0.53])
    np.testing.assert_allclose(found.velocity[:, 0], [before, after], atol=1e-10)
    np.testing.assert_array_equal(found.ts, times)


def test_missing_samples_are_left_out():
    rng = np.random.default_rng(4)
    place, (turns, _) = flight(rng, sd=0.0), attitudes(rng, [0.0, 0.0, 2.0])
    place[40:55, 0, 1] = np.nan
    turns[::2] = np.nan
    found = nodes.states_at(np.array([0.5]), np.zeros(0), TS, (place, turns), G)
    np.testing.assert_allclose(found.velocity[0, 0], [1.0, -0.5, 4.0 - 9.81 * 0.5], atol=1e-10)
    np.testing.assert_allclose(found.angular_velocity[0, 0], [0, 0, 2], atol=1e-9)


def test_what_was_hardly_measured_has_no_state():
    rng = np.random.default_rng(5)
    place, (turns, _) = flight(rng), attitudes(rng, np.zeros(3))
    turns[1:] = np.nan
    with pytest.raises(ValueError, match="attitude of body 0 was measured 1 times"):
        nodes.states_at(np.array([0.5]), np.zeros(0), TS, (place, turns), G)
