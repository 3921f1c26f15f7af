"""Tracking controllers: the laws against the paper's formulas in matrices, with the derivatives of
references written out by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closed_loops import (
    GRAVITY,
    QUADROTOR,
    SCREW,
    control_of_pose,
    control_of_quadrotor,
    errors_of,
    heading_path,
    screw,
)
from loads import BODIES, FULL, state, wrench_at

import jaxrb as rb

GAINS = (10.0, 6.0, 2.0, 0.6)
MASS = 0.5  # of body 1


def body_1(here):
    """x, v, R and Omega of body 1, which has a full inertia tensor, as arrays of NumPy."""
    rows = (here.position, here.velocity, here.rotation_matrix, here.angular_velocity)
    return [np.asarray(row[1], float) for row in rows]


def told(load):
    return load.under_gravity(jnp.asarray(GRAVITY))


def test_attitude():
    here = state()
    load = rb.AttitudeTracking(1, lambda t, args: 3 * screw(t, args)[1], *GAINS[2:])
    force, torque = wrench_at(load, here, t=0.3, args=SCREW)
    _, expected = control_of_pose(0.3, body_1(here), SCREW, MASS, FULL, GAINS)
    np.testing.assert_allclose(torque[1], expected, rtol=1e-13)
    assert not np.any(force) and not np.any(torque[np.array([0, 2])])
    assert load.velocity_dependent and not load.conservative and load.bodies == (1,)


def test_pose():
    here, load = state(), told(rb.PoseTracking(1, screw, *GAINS))
    force, torque = wrench_at(load, here, t=0.3, args=SCREW)
    expected = control_of_pose(0.3, body_1(here), SCREW, MASS, FULL, GAINS)
    for found, row in zip((force, torque), expected, strict=True):
        np.testing.assert_allclose(found[1], row, rtol=1e-13)
        assert not np.any(found[np.array([0, 2])])


def test_quadrotor():
    """With derivatives of the computed attitude that are written out, quotient by quotient."""
    here, load = state(), told(rb.QuadrotorTracking(1, heading_path, *GAINS))
    force, torque = wrench_at(load, here, t=0.3, args=QUADROTOR)
    expected = control_of_quadrotor(0.3, body_1(here), QUADROTOR, MASS, FULL, GAINS)
    np.testing.assert_allclose(force[1], expected[0], rtol=1e-12)
    np.testing.assert_allclose(torque[1], expected[1], rtol=1e-11)


def test_neither_sign_nor_length_of_quaternions_counts():
    """Nothing unwinds: attitudes are what is compared."""
    here = state()
    torques = []
    for scale, sign in ((1.0, 1.0), (-2.0, 1.0), (0.3, -1.0)):
        load = rb.AttitudeTracking(
            1, lambda t, args, scale=scale: scale * screw(t, args)[1], *GAINS[2:]
        )
        other = eqx.tree_at(lambda s: s.quaternion, here, sign * here.quaternion)
        torques.append(wrench_at(load, other, args=SCREW)[1][1])
    np.testing.assert_allclose(torques[1:], [torques[0]] * 2, rtol=1e-13)


def test_errors_of_a_state():
    here = state()
    forces = [
        rb.PoseTracking(1, screw, *GAINS),
        rb.Drag(0, 0.1),
        rb.AttitudeTracking(1, lambda t, args: screw(t, args)[1], *GAINS[2:]),
    ]
    world = rb.World(BODIES, pairs=(), forces=forces)
    pose, attitude = rb.tracking_errors(world, here, 0.3, SCREW)
    expected = errors_of(0.3, body_1(here), SCREW)
    names = ("position", "velocity", "attitude", "angular_velocity", "configuration")
    for name, row in zip(names, expected, strict=True):
        np.testing.assert_allclose(getattr(pose, name), row, rtol=1e-13, err_msg=name)
    np.testing.assert_array_equal(attitude.attitude, pose.attitude)
    assert attitude.position is None and attitude.velocity is None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("kind", "reference", "args"),
    [(rb.PoseTracking, screw, SCREW), (rb.QuadrotorTracking, heading_path, QUADROTOR)],
)
def test_dtypes_and_batches(kind, reference, args, dtype):
    here = state(dtype)

    def torque(gain):
        load = told(kind(1, reference, gain, *GAINS[1:]))
        return wrench_at(load, here, t=dtype(0.3), args=args.astype(dtype))

    force, torque = jax.vmap(torque)(jnp.array([2.0, 10.0]))
    assert force.dtype == torque.dtype == dtype
    single = wrench_at(told(kind(1, reference, *GAINS)), state(), t=0.3, args=args)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    for found, expected in zip((force, torque), single, strict=True):
        np.testing.assert_allclose(found[1], expected, rtol=tolerance, atol=tolerance)


class Turning(eqx.Module):
    rate: jax.Array

    def __call__(self, t, args):
        half = self.rate * t / 2
        return jnp.stack([jnp.cos(half), 0 * half, 0 * half, jnp.sin(half)])


def test_gains_and_numbers_of_references_are_differentiated():
    """About the z axis of a ball: M = -k_R sin(a - r t) - k_Omega (w - r)."""
    angle, rate, t = 0.4, 0.7, 0.3
    here = state()
    here = rb.State(
        here.position,
        here.quaternion.at[2].set(jnp.array([np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2)])),
        here.velocity,
        here.angular_velocity.at[2].set(jnp.array([0.0, 0.0, 0.2])),
    )
    load = rb.AttitudeTracking(2, Turning(jnp.asarray(rate)), 2.0, 0.6)
    slope = jax.jit(jax.grad(lambda load: wrench_at(load, here, t=t)[1][2, 2]))(load)
    off = angle - rate * t
    np.testing.assert_allclose(slope.attitude_gain, -np.sin(off), rtol=1e-13)
    np.testing.assert_allclose(slope.angular_velocity_gain, -(0.2 - rate), rtol=1e-13)
    by_rate = 2.0 * t * np.cos(off) + 0.6
    np.testing.assert_allclose(slope.reference.numbers.rate, by_rate, rtol=1e-13)


KINDS = [rb.PoseTracking, rb.QuadrotorTracking]


@pytest.mark.parametrize("kind", [*KINDS, rb.AttitudeTracking])
def test_bad_input(kind):
    name, n_gains = kind.__name__, 2 if kind is rb.AttitudeTracking else 4
    with pytest.raises(ValueError, match=f"{name}.body must be the index of a body"):
        kind(-1, screw, *GAINS[:n_gains])
    with pytest.raises(ValueError, match=f"{name}.reference must be a function"):
        kind(0, (0.0, 0.0, 0.0), *GAINS[:n_gains])
    names = ("position_gain", "velocity_gain", "attitude_gain", "angular_velocity_gain")[-n_gains:]
    for k, gain in enumerate(names):
        for wrong in (0.0, -1.0, np.inf, np.nan):
            with pytest.raises(ValueError, match=f"{name}.{gain} must be positive and finite"):
                kind(0, screw, *GAINS[:k], wrong, *GAINS[k + 1 : n_gains])
        with pytest.raises(ValueError, match=rf"{name}.{gain} must have shape \(\); got \(3,\)"):
            kind(0, screw, *GAINS[:k], np.ones(3), *GAINS[k + 1 : n_gains])
    with pytest.raises(ValueError, match=r"World.forces: there is no body 3; the world has 3"):
        rb.World(BODIES, forces=[kind(3, screw, *GAINS[:n_gains])])


@pytest.mark.parametrize("kind", KINDS)
def test_bad_references(kind):
    name = f"{kind.__name__}.reference"
    second, shape = ("heading", 3) if kind is rb.QuadrotorTracking else ("quaternion", 4)
    for returned, message in (
        (
            np.zeros(3),
            rf"must return a pair \(position, {second}\).* got one array of shape \(3,\)",
        ),
        ((np.zeros(3),), "got a tuple of length 1"),
        (None, "got None"),
    ):
        load = told(kind(0, lambda t, args, returned=returned: returned, *GAINS))
        with pytest.raises(ValueError, match=f"{name} must return a pair.*") as raised:
            wrench_at(load, state())
        raised.match(message)
    wrong = told(kind(0, lambda t, args: (np.zeros(2), np.ones(shape)), *GAINS))
    with pytest.raises(
        ValueError, match=rf"The position that {name} returns .* \(3,\); got \(2,\)"
    ):
        wrench_at(wrong, state())
    wrong = told(kind(0, lambda t, args: (np.zeros(3), np.ones(2)), *GAINS))
    with pytest.raises(ValueError, match=rf"The {second} that {name} returns must have shape"):
        wrench_at(wrong, state())


def test_bad_attitude():
    load = rb.AttitudeTracking(0, lambda t, args: np.zeros(3), 1.0, 1.0)
    message = r"What AttitudeTracking.reference returns must have shape \(4,\); got \(3,\)"
    with pytest.raises(ValueError, match=message):
        wrench_at(load, state())


def test_missing_args_are_told():
    with pytest.raises(TypeError) as raised:
        wrench_at(told(rb.PoseTracking(0, screw, *GAINS)), state())
    assert "args of simulate is None" in raised.value.__notes__[0]
