"""Bodies that roll or slide on a plane and spin, against Newton's and Euler's equations with the
constraint of rolling, or with the friction of sliding, integrated to 1e-11.

These equations are of body frames and know nothing of steps or of cones.
"""

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxrb as rb
from jaxrb.cli.cases import DEMOS

pytestmark = pytest.mark.slow

G = 9.81
UP = np.array([0.0, 0.0, 1.0])


def turned(q, x):
    """A vector of the body frame in the world."""
    w, v = q[0], q[1:]
    return x + 2 * np.cross(v, np.cross(v, x) + w * x)


def up(q):
    """The vertical in the body frame."""
    return turned(q * np.array([1, -1, -1, -1]), UP)


def rate(q, w):
    """The rate of a quaternion at an angular velocity in the body frame."""
    return 0.5 * np.concatenate([[-q[1:] @ w], q[0] * w + np.cross(q[1:], w)])


def cross_matrix(r):
    return np.array([[0, -r[2], r[1]], [r[2], 0, -r[0]], [-r[1], r[0], 0]])


def rolling(axes, mass, inertia):
    """The equations of an ellipsoid that rolls, of position, quaternion and angular velocity."""

    def motion(_, y):
        q, w = y[3:7], y[7:]
        n = up(q)
        scaled, scaled_rate = axes * n, axes * np.cross(n, w)
        size = np.linalg.norm(scaled)
        r = -axes * scaled / size  # from the centre to the lowest point
        r_rate = -axes * (scaled_rate / size - scaled * (scaled @ scaled_rate) / size**3)
        v = -np.cross(w, r)  # that point is at rest
        # m v' = F - m g n with v' = -w' x r - w x r', and J w' + w x J w = r x F.
        across = cross_matrix(r)
        torque = mass * np.cross(r, G * n + np.cross(w, v) - np.cross(w, r_rate))
        turning = inertia - mass * across @ across
        w_rate = np.linalg.solve(turning, torque - np.cross(w, inertia @ w))
        return np.concatenate([turned(q, v), rate(q, w), w_rate])

    return motion


def sliding(radius, center, mass, moments, friction):
    """The equations of a sphere with its centre off the centre of mass, at a principal axis, that
    slides: of position, quaternion, velocity and angular velocity."""

    def motion(_, y):
        q, v, w = y[3:7], y[7:10], y[10:]
        n = up(q)
        r = center - radius * n
        slip = v + turned(q, np.cross(w, r))
        slip[2] = 0.0
        force = UP - friction * slip / np.linalg.norm(slip)  # of a normal force of 1
        torque = np.cross(r, turned(q * np.array([1, -1, -1, -1]), force))
        free = np.cross(w, moments * w) / moments
        # The height of the centre of the sphere stays.
        normal = G - n @ np.cross(w, np.cross(w, center)) + n @ np.cross(free, center)
        normal /= 1 / mass + n @ np.cross(torque / moments, center)
        acceleration = normal * force / mass - G * UP
        return np.concatenate([v, rate(q, w), acceleration, normal * torque / moments - free])

    return motion


def flight(case, dt, t1):
    """The states of a case, ten of them, and its energies."""
    world, start = DEMOS[case].build()
    method = rb.EventDriven(rb.LieVariational(), dt, on_zeno="rest")
    every = round(t1 / dt / 10)
    save = rb.SaveAt(every=every, impacts=8)
    solution = rb.simulate(world, start, method, t1, save=save)
    assert solution.impacts.count == 0
    return solution, np.asarray(jax.vmap(lambda s: rb.energy(world, s))(solution.states))


def errors(solution, true):
    """Of positions and quaternions, relative to the largest of them, and of velocities."""
    states = solution.states
    q = np.asarray(states.quaternion[:, 0])
    rows = {"position": true[:3].T, "quaternion": true[3:7].T}
    rows["angular_velocity"] = true[-3:].T
    found = {name: np.asarray(getattr(states, name)[:, 0]) for name in rows}
    found["quaternion"] = q * np.sign(np.sum(q * rows["quaternion"], axis=1))[:, None]
    return {name: np.abs(found[name] - row).max() / np.abs(row).max() for name, row in rows.items()}


@pytest.mark.long
def test_a_rattleback_is_rolling():
    """Its error is that of a step of the second order, and no energy is lost but by that."""
    world, start = DEMOS["rattleback"].build()
    (body,) = world.bodies
    axes, mass = np.asarray(body.shape.semi_axes), float(body.mass)
    motion = rolling(axes, mass, np.asarray(body.inertia_matrix()))
    parts = [start.position, start.quaternion, start.angular_velocity]
    y = np.concatenate([np.asarray(part)[0] for part in parts])
    true = solve_ivp(
        motion, (0, 1.0), y, method="DOP853", rtol=1e-11, atol=1e-13, dense_output=True
    )
    missed, lost = [], []
    for dt in (0.002, 0.001):
        solution, energy = flight("rattleback", dt, 1.0)
        missed.append(errors(solution, true.sol(np.asarray(solution.ts))))
        lost.append(np.abs(energy / energy[0] - 1).max())
    for name, error in missed[0].items():
        # Half the step leaves a quarter of the error, but for those of the fourth order.
        assert missed[1][name] == pytest.approx(error / 4, rel=0.1), name
    assert lost[1] < lost[0] / 3
    assert lost[1] < 1e-4


@pytest.mark.long
def test_a_tippe_top_slides():
    """The slip turns around the axis of the top; of order 2, and energy never grows."""
    world, start = DEMOS["tippe-top"].build()
    (body,) = world.bodies
    shape = body.shape
    motion = sliding(
        float(shape.shape.radius),
        np.asarray(shape.position),
        float(body.mass),
        np.asarray(body.inertia),
        0.3,
    )
    parts = [start.position, start.quaternion, start.velocity, start.angular_velocity]
    y = np.concatenate([np.asarray(part)[0] for part in parts])
    true = solve_ivp(
        motion, (0, 0.2), y, method="DOP853", rtol=1e-11, atol=1e-13, dense_output=True
    )
    missed = []
    for dt in (0.0005, 0.00025):
        solution, energy = flight("tippe-top", dt, 0.2)
        missed.append(errors(solution, true.sol(np.asarray(solution.ts))))
        assert (np.diff(energy) < 0).all()
    for name, error in missed[0].items():
        assert missed[1][name] < 0.26 * error, name
    assert max(missed[1].values()) < 1e-2
