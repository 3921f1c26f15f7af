"""Bodies under tracking control, against closed forms and the equations of the closed loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closed_loops import (
    GRAVITY,
    QUADROTOR,
    SCREW,
    closed_loop,
    control_of_pose,
    control_of_quadrotor,
    errors_of,
    heading_path,
    on_heading_path,
    screw,
    screw_by_hand,
)
from helpers import before_releases, differences, quick_jit, slope
from scipy.spatial.transform import Rotation

import jaxrb as rb

MASS, MOMENTS = 1.3, np.array([0.05, 0.08, 0.11])
GAINS = np.array([5.0, 6.0, 1.0, 0.8])  # k_x, k_v, k_R, k_Omega: no mode oscillates
SHAPE = rb.Ellipsoid([0.1, 0.15, 0.2])
FLOOR = rb.HalfSpace((0.0, 0.0, 1.0), -0.7)  # below the reference
AT_REST = SCREW * np.array([0, 0, 1, 1, 0])  # a reference that does not move


def follower(kind, reference, gains=GAINS, mass=MASS, obstacles=()):
    control = kind(0, reference, *gains)
    body = rb.RigidBody(SHAPE, mass, MOMENTS)
    law = rb.Coulomb(friction=0.3, restitution=0.6)
    return rb.World([body], obstacles, gravity=GRAVITY, forces=[control], contact_law=law)


@quick_jit
def follow(state, dt, t0, t1, args):
    """The end of a flight that follows `screw`; one program for all."""
    world = follower(rb.PoseTracking, screw)
    return rb.simulate(world, state, rb.LGVCI(dt), t1, t0, args=args, max_steps=4000).final


def state_of(x, v, R, omega):
    q = Rotation.from_matrix(R).as_quat(scalar_first=True)
    return rb.State(*(jnp.asarray(row)[None] for row in (x, q, v, omega)))


def motion(state):
    """x, v, R and Omega."""
    rows = (state.position, state.velocity, state.rotation_matrix, state.angular_velocity)
    return [np.asarray(row[0]) for row in rows]


def on_reference(t=0.0):
    (x, v, _), R, omega, _ = screw_by_hand(t, SCREW)
    return x, v, R, omega


def far_away(args=SCREW):
    """At rest, beside the reference and turned from it by 170 degrees."""
    (x, *_), R, *_ = screw_by_hand(0.0, args)
    turn = Rotation.from_rotvec(np.deg2rad(170.0) * np.array([2.0, -1.0, 2.0]) / 3).as_matrix()
    return x + np.array([1.0, -0.5, 0.7]), np.zeros(3), R @ turn, np.zeros(3)


def largest(found, expected):
    return max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True))


def orders(run, start, end, steps):
    """The order of the error at the end of a flight."""
    errors = [largest(motion(run(state_of(*start), dt)), end) for dt in steps]
    return slope(steps, errors)


@pytest.mark.slow
def test_second_order_far_from_the_reference_and_on_it():
    """Against the equations of the closed loop, and the reference."""
    steps, t1 = np.array([0.02, 0.01, 0.005]), 1.5
    start = far_away()
    end = closed_loop(control_of_pose, SCREW, MASS, MOMENTS, GAINS, start, t1)
    run = lambda state, dt: follow(state, dt, 0.0, t1, SCREW)  # noqa: E731
    assert abs(orders(run, start, end, steps) - 2) < 0.05
    assert abs(orders(run, on_reference(), on_reference(t1), steps) - 2) < 0.05


def test_errors_decay_at_the_rates_of_the_linear_equations():
    """From 170 degrees. Near a reference at rest m e'' + k_v e' + k_x e = 0, and for each principal
    axis J e'' + k_Omega e' + k_R e = 0, whose slower modes are left: quadratic terms and the faster
    modes are below 1e-5 of them. Steps change the rates by some (rate dt)^2, and where they hold
    a weight they leave a constant error of position, which differences do not see."""
    k_x, k_v, k_R, k_Omega = GAINS
    start = far_away(AT_REST)
    assert errors_of(0.0, start, AT_REST)[-1] > 1.98  # Psi
    states = [follow(state_of(*start), 0.005, 0.0, 11.0, AT_REST)]
    for t in (11.0, 12.0):
        states.append(follow(states[-1], 0.005, t, t + 1.0, AT_REST))
    errors = [errors_of(0.0, motion(state), AT_REST) for state in states]
    e_x, _, e_R, _, psi = (np.array(rows) for rows in zip(*errors, strict=True))

    def slower(inertia, damping, stiffness):
        return (-damping + np.sqrt(damping**2 - 4 * inertia * stiffness)) / (2 * inertia)

    moved = np.diff(e_x, axis=0)
    rates = slower(MOMENTS, k_Omega, k_R)
    np.testing.assert_allclose(np.log(e_R[2] / e_R[1]), rates, rtol=1e-4)
    np.testing.assert_allclose(np.log(moved[1] / moved[0]), slower(MASS, k_v, k_x), rtol=1e-4)
    # And the one number that says how far an attitude is: |e_R|^2/2 once small.
    assert 2 * rates.min() < np.log(psi[2] / psi[1]) < 2 * rates.max()
    assert psi[2] < 1e-10


@pytest.mark.parametrize("seed", range(4))
def test_almost_all_attitudes_converge(seed):
    """The energy of the errors never grows: by the law its derivative is -k_v e_v.e_v
    - k_Omega e_Omega.e_Omega. But for what steps make of it: errors on the reference are 1e-3."""
    rng = np.random.default_rng(seed)
    x, v, _, omega = on_reference()
    R = Rotation.random(random_state=seed).as_matrix()
    state = state_of(x + rng.normal(size=3), v + rng.normal(size=3), R, omega + rng.normal(size=3))
    k_x, _, k_R, _ = GAINS
    energies = []
    for t in np.arange(0.0, 10.0, 0.25):
        e_x, e_v, _, e_Omega, psi = errors_of(t, motion(state), SCREW)
        stored = k_x * e_x @ e_x + MASS * e_v @ e_v + e_Omega @ (MOMENTS * e_Omega)
        energies.append(stored / 2 + k_R * psi)
        state = follow(state, 0.01, t, t + 0.25, SCREW)
    assert energies[0] > 2.0
    assert np.diff(energies).max() < 1e-6
    assert energies[-1] < 1e-6


@pytest.mark.slow
def test_a_controller_with_nothing_to_do():
    """On a reference in steady motion the terms of the law cancel to round-off, which no iteration
    makes small relative to itself. Compiled as users do: fused, the law rounds otherwise in each
    place of the program."""

    def steady(t, args):
        half = args * t / 2
        zero = 0 * t
        return jnp.stack([zero, t, zero]), jnp.stack([jnp.cos(half), zero, zero, jnp.sin(half)])

    @jax.jit
    @jax.vmap
    def run(rate):
        velocity, spin = (jnp.zeros((1, 3)).at[0, k].set(x) for k, x in ((1, 1.0), (2, rate)))
        state = rb.State(velocity * 0.0, jnp.eye(1, 4), velocity, spin)
        world = follower(rb.PoseTracking, steady)
        sol = rb.simulate(world, state, rb.LGVCI(0.004), 4.0, args=rate, throw=False)
        return sol.successful, sol.final.angular_velocity - spin

    successful, change = run(jnp.linspace(-3.0, 3.0, 7))
    assert successful.all()
    assert np.abs(change).max() < 1e-3  # of second order


def thrown_down():
    """From the reference, tilted."""
    x, v, R, omega = on_reference()
    tilted = R @ Rotation.from_rotvec([0.6, 0.3, 0.0]).as_matrix()
    return state_of(x, v - np.array([0.0, 0.0, 6.0]), tilted, omega)


@pytest.mark.long
@pytest.mark.parametrize("obstacles", [(), *before_releases(((FLOOR,),))], ids=["free", "impact"])
def test_derivatives_of_the_final_error(obstacles):
    """By gains, the mass and numbers of the reference, in both modes; the differences are good to
    some 1e-11."""

    def final_error(numbers):
        mass, args = numbers[4], jnp.concatenate([numbers[5:], jnp.asarray(SCREW[2:])])
        world = follower(rb.PoseTracking, screw, numbers[:4], mass, obstacles)
        method = rb.LGVCI(0.02, on_zeno="stop")
        final = rb.simulate(world, thrown_down(), method, 0.4, args=args, throw=False).final
        (error,) = rb.tracking_errors(world, final, 0.4, args)
        return jnp.concatenate([error.position, error.attitude, error.angular_velocity])

    numbers = np.array([*GAINS, MASS, *SCREW[:2]])
    expected = differences(quick_jit(final_error), numbers)
    assert np.abs(expected).max(axis=0).min() > 1e-3  # all of them matter
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(quick_jit(mode(final_error))(numbers), expected, atol=1e-9)


@pytest.mark.slow
def test_recovery_after_an_impact():
    """Thrown at a floor below the reference a body bounces off, spins by friction, and is back
    where it would be without the floor, but for the slowest mode, exp(-1.09 t)."""
    start = thrown_down()

    @quick_jit
    def run(state, t1):
        world = follower(rb.PoseTracking, screw, obstacles=[FLOOR])
        method = rb.LGVCI(0.01, on_zeno="stop")
        sol = rb.simulate(world, state, method, t1, args=SCREW, max_steps=4000)
        return sol.final, sol.impacts.count

    after, count = run(start, 0.25)
    away = errors_of(0.25, motion(after), SCREW)
    assert count == 1 and after.velocity[0, 2] > 0.5
    assert np.abs(away[0]).max() > 0.3 and np.abs(away[3]).max() > 0.4
    final, count = run(start, 9.0)
    assert count == 1
    free = follow(start, 0.01, 0.0, 9.0, SCREW)
    assert largest(motion(final), motion(free)) < 3e-4


@pytest.mark.slow
def test_quadrotor():
    """From rest upside down against the equations of the closed loop; and on its path, where the
    paper's law leaves no error and the steps one of second order."""
    gains, t1 = (10.0, 6.0, 2.0, 0.6), 1.0

    @quick_jit
    def run(state, dt):
        world = follower(rb.QuadrotorTracking, heading_path, gains)
        return rb.simulate(world, state, rb.LGVCI(dt), t1, args=QUADROTOR, max_steps=2000).final

    steps = np.array([0.01, 0.005, 0.0025])
    loop = (control_of_quadrotor, QUADROTOR, MASS, MOMENTS, gains)
    path = [on_heading_path(t, QUADROTOR, MASS, gains) for t in (0.0, t1)]
    assert largest(closed_loop(*loop, path[0], t1), path[1]) < 1e-9
    assert abs(orders(run, path[0], path[1], steps) - 2) < 0.05
    x, v, R, omega = path[0]
    start = x, 0 * v, R @ Rotation.from_rotvec([3.0, 0.0, 0.3]).as_matrix(), 0 * omega
    assert abs(orders(run, start, closed_loop(*loop, start, t1), steps) - 2) < 0.1
