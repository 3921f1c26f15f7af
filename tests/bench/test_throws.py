"""Throws to a pose after bounces, taken again by an integrator of ordinary differential equations
with Newton's impacts."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from jaxrb import optimize as ro
from jaxrb.bench import throws

AXES, MASS, E = np.array([0.06, 0.05, 0.04]), 0.5, 0.8
MOMENTS = MASS / 5 * (np.sum(AXES**2) - AXES**2)
G = np.array([0.0, 0.0, -9.81])


def attitude(y):
    return Rotation.from_quat(y[3:7] / np.linalg.norm(y[3:7]), scalar_first=True)


def lowest(y):
    """The normal, and the arm of the lowest point of the ellipsoid, both in its frame."""
    normal = attitude(y).inv().apply([0.0, 0.0, 1.0])
    return normal, -(AXES**2) * normal / np.linalg.norm(AXES * normal)


def gap(t, y):
    return y[2] - np.linalg.norm(AXES * lowest(y)[0])


gap.terminal, gap.direction = True, -1


def rates(t, y):
    (w, x, y_, z), (a, b, c) = y[3:7], y[10:]
    turning = [-x * a - y_ * b - z * c, w * a + y_ * c - z * b,
               w * b + z * a - x * c, w * c + x * b - y_ * a]  # fmt: skip
    spinning = np.cross(MOMENTS * y[10:], y[10:]) / MOMENTS
    return np.concatenate([y[7:10], np.array(turning) / 2, G, spinning])


def bounced(y):
    """By an impulse along the normal that takes 1 + E of the approach."""
    normal, arm = lowest(y)
    lever = np.cross(arm, normal)
    approach = y[9] + lever @ y[10:]
    impulse = -(1 + E) * approach / (1 / MASS + lever @ (lever / MOMENTS))
    after = y.copy()
    after[9] += impulse / MASS
    after[10:] += impulse * lever / MOMENTS
    return after


def flown(state):
    """Where a throw lies at the end, and how often it bounced."""
    parts = state.position, state.quaternion, state.velocity, state.angular_velocity
    t, y, bounces = 0.0, np.concatenate([np.asarray(part)[0] for part in parts]), 0
    while True:
        sol = solve_ivp(rates, (t, throws.T1), y, "DOP853", rtol=1e-12, atol=1e-13, events=gap)
        t, y = sol.t[-1], sol.y[:, -1]
        if sol.status == 0:
            return y, bounces
        y, bounces = bounced(y), bounces + 1


@pytest.mark.long
def test_throws_to_a_full_pose_after_two_or_three_bounces():
    """At least 24 of 25 random reachable poses, each from one call with 128 starts."""
    goals = throws.reachable(throws.N_GOALS)
    assert len(goals) == throws.N_GOALS
    solved, _ = 0, next(throws.found(goals[:1], 128, throws.BOUNCES))  # which compiles
    for (position, quaternion), (shots, seconds) in zip(
        goals, throws.found(goals, 128, throws.BOUNCES), strict=True
    ):
        if shots.result != ro.RESULTS.successful:
            continue
        solved += 1
        assert np.linalg.norm(shots.residual) < 1e-8
        assert seconds < 60
        end, bounces = flown(shots.state)
        assert bounces in throws.BOUNCES and bounces == int(shots.impacts)
        # Two or three bounces multiply the round-off of the integrator by up to a million.
        np.testing.assert_allclose(end[:3], position, atol=1e-6)
        wanted = Rotation.from_quat(np.asarray(quaternion), scalar_first=True)
        assert (attitude(end) * wanted.inv()).magnitude() < 1e-6
    assert solved >= 24
