"""Motions of universal joints, gimbals and planar joints, against the equations of Lagrange in
their coordinates."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, slope
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import jaxrb as rb

pytestmark = pytest.mark.slow  # steps with joints take long to compile

G, MASS = 9.81, 1.3
INERTIA = jnp.array([[0.3, 0.02, -0.01], [0.02, 0.25, 0.03], [-0.01, 0.03, 0.2]])
CENTER = jnp.array([0.05, 0.1, -0.4])  # from the anchor
AXES = jnp.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
ASKEW = jnp.array([[1.0, 0.2, 0.0], [0.0, 0.6, 0.8]])
OFFSET = jnp.array([0.1, -0.05, -0.2])
STIFFNESS, REST = jnp.array([2.0, 3.0, 1.0]), jnp.array([0.1, -0.2, 0.3])
DAMPING, TORQUE = jnp.array([0.3, 0.1, 0.2]), jnp.array([0.5, -0.3, 0.2])
START, RATES = jnp.array([0.4, -0.3, 0.7]), jnp.array([1.0, -0.5, 2.0])


def turn(axis, angle):
    """Rodrigues' formula."""
    x, y, z = axis / jnp.linalg.norm(axis)
    k = jnp.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return jnp.eye(3) + jnp.sin(angle) * k + (1 - jnp.cos(angle)) * (k @ k)


class Lagrange:
    """A body on some axes, one after the other; the first one passes through the origin."""

    def __init__(self, axes, offset):
        self.axes, self.offset, self.n = axes, offset, len(axes)

    def pose(self, q):
        """Centre of mass and rotation matrix."""
        first = turn(self.axes[0], q[0])
        rotation = first
        for axis, angle in zip(self.axes[1:], q[1:], strict=True):
            rotation = rotation @ turn(axis, angle)
        return first @ self.offset + rotation @ CENTER, rotation

    def twist(self, q, rates):
        """Velocity of the centre, and angular velocity in the body frame."""
        (_, rotation), (velocity, change) = jax.jvp(self.pose, (q,), (rates,))
        spin = rotation.T @ change
        return velocity, jnp.array([spin[2, 1], spin[0, 2], spin[1, 0]])

    def lagrangian(self, q, rates):
        velocity, spin = self.twist(q, rates)
        kinetic = (MASS * velocity @ velocity + spin @ INERTIA @ spin) / 2
        stretch = q - REST[: self.n]
        potential = MASS * G * self.pose(q)[0][2] + STIFFNESS[: self.n] @ stretch**2 / 2
        return kinetic - potential

    def change(self, t, y):
        q, rates = jnp.split(y, 2)
        mass = jax.hessian(self.lagrangian, 1)(q, rates)
        transport = jax.jacfwd(jax.grad(self.lagrangian, 1), 0)(q, rates) @ rates
        acting = TORQUE[: self.n] - DAMPING[: self.n] * rates
        force = jax.grad(self.lagrangian)(q, rates) - transport + acting
        return jnp.concatenate([rates, jnp.linalg.solve(mass, force)])

    def end(self, t1):
        """Angles and rates."""
        start = np.concatenate([START[: self.n], RATES[: self.n]])
        change = jax.jit(self.change)
        found = solve_ivp(lambda t, y: np.asarray(change(t, y)), (0, t1), start, rtol=1e-10)
        return found.y[:, -1]

    def state(self):
        q, rates = START[: self.n], RATES[: self.n]
        center, rotation = self.pose(q)
        quaternion = Rotation.from_matrix(np.asarray(rotation)).as_quat(scalar_first=True)
        velocity, spin = self.twist(q, rates)
        return rb.State(center[None], quaternion[None], velocity[None], spin[None])


class LagrangeInPlane(Lagrange):
    """A body that moves along two axes and turns about a third one."""

    def pose(self, q):
        rotation = turn(self.axes[2], q[2])
        return q[:2] @ self.axes[:2] + rotation @ CENTER, rotation


def world(joint, n):
    body = rb.RigidBody(rb.Sphere(0.1), mass=MASS, inertia=INERTIA)
    motor = rb.Motor((0,) * n, TORQUE[:n], axis=tuple(range(n)))
    return rb.World([body], joints=[joint], forces=[motor], gravity=(0.0, 0.0, -G))


@pytest.mark.parametrize(
    ("kind", "exact"),
    [
        (rb.Gimbal, Lagrange(AXES, jnp.zeros(3))),
        (partial(rb.Universal, offset=OFFSET), Lagrange(ASKEW, OFFSET)),
        (rb.Planar, LagrangeInPlane(AXES, jnp.zeros(3))),
    ],
    ids=["gimbal", "universal joint", "planar joint"],
)
def test_springs_dampers_and_motors(kind, exact):
    """With the order of the steps, 2; axes of two hinges that neither meet nor are square."""
    axes, n = exact.axes, exact.n
    rests = "rest_coordinates" if kind is rb.Planar else "rest_angles"
    joint = kind(
        0,
        axes,
        -CENTER,
        stiffness=STIFFNESS[:n],
        damping=DAMPING[:n],
        **{rests: REST[:n]},
    )
    jointed, start, t1 = world(joint, n), exact.state(), 0.6
    np.testing.assert_allclose(rb.joint_coordinates(jointed, start), START[:n], atol=1e-14)
    np.testing.assert_allclose(rb.joint_velocities(jointed, start), RATES[:n], atol=1e-14)

    @jax.jit
    def run(dt):
        sol = rb.simulate(jointed, start, rb.LGVCI(dt), t1, max_steps=200)
        angles = rb.joint_coordinates(jointed, sol.final)
        off = rb.joint_violations(jointed, sol.final)[0]
        return jnp.concatenate([angles, rb.joint_velocities(jointed, sol.final)]), off

    expected, steps, errors = exact.end(t1), np.array([30, 60, 120]), []
    for count in steps:
        found, off = run(jnp.asarray(t1 / count))
        errors.append(np.abs(found - expected).max())
        assert np.abs(off).max() < 1e-12
    assert abs(slope(t1 / steps, errors) - 2) < 0.1 and errors[-1] < 1e-4, errors


def driven(parameters):
    """Angles of a ball in a gimbal without gravity, and how many impacts its limits had."""
    limit, driving, turning = parameters
    body = rb.RigidBody(rb.Sphere(0.3), mass=2.0)
    joint = rb.Gimbal(
        0,
        jnp.eye(3),
        limits=(None, jnp.stack([-limit, limit]), None),
        friction=(0.0, 0.0, 0.05),
        damping=(0.1, 0.0, 0.0),
    )
    torque = jnp.stack([turning, driving, jnp.full_like(turning, 0.02)])
    motor = rb.Motor((0, 0, 0), torque, axis=(0, 1, 2))
    gimbal = rb.World([body], joints=[joint], forces=[motor], gravity=(0.0, 0.0, 0.0))
    still = jnp.zeros((1, 3))
    start = rb.State(still, jnp.array([[1.0, 0.0, 0.0, 0.0]]), still, still)
    save = rb.SaveAt(final=True, impacts=4)
    sol = rb.simulate(gimbal, start, rb.LGVCI(0.01), 1.0, save=save)
    return rb.joint_coordinates(gimbal, sol.final), sol.impacts.count


DRIVEN = jax.jit(driven)
LIMIT, DRIVING, TURNING = GIVEN = 0.3, 0.2, 0.1


def test_limits_and_dry_friction_of_each_angle():
    """One angle is driven to its limit and held there by its motor, one is held by its dry
    friction, and one turns against its damper."""
    angles, n_impacts = DRIVEN(jnp.array(GIVEN))
    moment = 0.4 * 2.0 * 0.3**2
    assert n_impacts == 1  # at sqrt(2 limit moment/torque) = 0.46 s; then it leans on the limit
    np.testing.assert_allclose(angles[1], LIMIT, rtol=1e-12)
    assert np.abs(angles[2]) < 1e-12
    assert 0.5 < angles[0] / (TURNING / (2 * moment)) < 1


@pytest.mark.long
def test_derivatives_by_limits_and_torques():
    """Those of differences. What leans on a limit goes with it, whatever presses it."""
    given = jnp.array(GIVEN)
    derivative = jax.jit(jax.jacrev(lambda p: driven(p)[0]))(given)
    expected = differences(lambda p: np.asarray(DRIVEN(jnp.asarray(p))[0]), given, step=1e-4)
    np.testing.assert_allclose(derivative, expected, atol=1e-8)
    np.testing.assert_allclose(derivative[1], [1.0, 0.0, 0.0], atol=1e-12)
    assert np.abs(derivative[0]).max() > 0.1


@pytest.mark.long
def test_a_planar_joint_slides_and_stops():
    """It falls on the limit of one axis, and dry friction slows it along another: both are exact,
    and so are the derivatives."""
    limit, friction, t1 = 0.5, 2.0, 0.8

    @jax.jit
    def end(limit, friction):
        body = rb.RigidBody(rb.Sphere(0.1), mass=MASS)
        joint = rb.Planar(
            0,
            ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0)),
            limits=(jnp.stack([-limit, limit]), None),
            friction=jnp.stack([0.0 * friction, friction]),
        )
        jointed = rb.World([body], joints=[joint], gravity=(0.0, 0.0, -G))
        start = rb.State(
            jnp.zeros((1, 3)), jnp.eye(1, 4), jnp.array([[2.0, 0.0, 0.0]]), jnp.zeros((1, 3))
        )
        save = rb.SaveAt(final=True, impacts=4)
        sol = rb.simulate(jointed, start, rb.LGVCI(0.01), t1, save=save)
        return sol.final.position[0], (sol.impacts.count, sol.impacts.time[0])

    position, (count, time) = end(limit, friction)
    assert int(count) == 1
    np.testing.assert_allclose(time, np.sqrt(2 * limit / G), rtol=1e-12)
    along = 2.0 * t1 - friction / MASS * t1**2 / 2
    np.testing.assert_allclose(position, [along, 0.0, -limit], atol=1e-10)
    jacobian = jax.jacfwd(end, (0, 1), has_aux=True)(limit, friction)[0]
    np.testing.assert_allclose(jacobian[0], [0.0, 0.0, -1.0], atol=1e-8)
    np.testing.assert_allclose(jacobian[1], [-(t1**2) / MASS / 2, 0.0, 0.0], atol=1e-8)


def test_a_body_in_a_plane_bounces_with_its_derivatives():
    """Out of the plane derivatives die away on the way back, beside those in it: in reverse mode
    after some steps and two impacts with friction they are as small as numbers may be."""

    def end(speed):
        world = rb.World(
            [rb.RigidBody(rb.Ellipsoid((0.1, 0.12, 0.05)), 1.0)],
            [rb.HalfSpace()],
            contact_law=rb.Coulomb(0.3, 0.5),
            joints=[rb.Planar(0, AXES)],
        )
        start = rb.State(
            jnp.array([[0.0, 0.0, 0.5]]),
            jnp.array([[1.0, 0.0, 0.0, 0.0]]),
            speed * jnp.array([[1.0, 0.0, 0.0]]),
            jnp.array([[0.0, 2.0, 0.0]]),
        )
        sol = rb.simulate(world, start, rb.LGVCI(0.005), 0.4, throw=False)
        final = sol.final
        place = jnp.concatenate([final.position[0], final.velocity[0], final.angular_velocity[0]])
        return place, (sol.successful, sol.impacts.count)

    run = jax.jit(end)
    _, (successful, count) = run(1.0)
    assert successful and count == 2
    h = 1e-4
    f = [run(1.0 + k * h)[0] for k in (-2, -1, 1, 2)]
    expected = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
    forward, _ = jax.jit(jax.jacfwd(end, has_aux=True))(1.0)
    backward, _ = jax.jit(jax.jacrev(end, has_aux=True))(1.0)
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-8)
    np.testing.assert_allclose(backward, forward, rtol=0, atol=1e-11)


def test_traces_of_motion_along_what_holds():
    """Products of them with small numbers end as zeros, which nothing may be divided by: such
    velocities are left by searches that move states along joints."""

    def end(speed, trace):
        joint = rb.Slider(0, axis=(0.0, 0.0, 1.0))
        world = rb.World([rb.RigidBody(rb.Sphere(0.1), 1.0)], [rb.HalfSpace()], joints=[joint])
        start = rb.State(
            jnp.array([[0.0, 0.0, 0.5]]),
            jnp.array([[1.0, 0.0, 0.0, 0.0]]),
            jnp.stack([jnp.stack([trace, jnp.zeros(()), speed])]),
            jnp.stack([jnp.stack([trace, -trace, jnp.zeros(())])]),
        )
        final = rb.simulate(world, start, rb.LGVCI(0.01), 0.1).final
        return final.position[0, 2], final.velocity[0]

    run = jax.jit(jax.jacfwd(end))
    for trace in (1e-304, 1e-298, 1e-160):
        place, velocity = run(1.0, trace)
        np.testing.assert_allclose(place, 0.1, rtol=1e-12)
        np.testing.assert_allclose(velocity, [0.0, 0.0, 1.0], atol=1e-12)
