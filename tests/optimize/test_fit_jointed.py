"""Fits of bodies in joints against ordinary differential equations of their angles, by SciPy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

import jaxrb as rb
from jaxrb import optimize as ro

# Of second order in its step: the swing is off by 0.14 standard deviations at most, and a stiffness
# fitted to it by 0.7 of its own (0.18 with half the step).
METHOD = rb.EventDriven(rb.LieVariational(), 0.01)
HALF, MASS, G = (0.02, 0.02, 0.25), 1.0, 9.81
MOMENT = MASS / 3 * (HALF[0] ** 2 + HALF[2] ** 2)
SD = (1e-3, np.radians(0.5))
# Damping [N m s/rad], stiffness [N m/rad] and where the hinge is in the rod [m].
TRUE = np.array([0.05, 0.5, 0.01, 0.0, 0.25])
GIVEN = np.array([0.065, 0.35, 0.0, 0.0, 0.23])
TS = np.linspace(0.0, 1.0, 80)
CHARTS: dict[Any, Any] = {
    "joints[0].damping": ro.Positive(),
    "joints[0].stiffness": ro.Positive(),
    "joints[0].anchor": ro.Real(),
    "contact_law.restitution": ro.Bounded(0, 1),
}


def pendulum(numbers, dtype: Any = np.float64):
    """A rod that swings on a hinge near its end, with a spring and a damper."""
    damping, stiffness, *anchor = numbers
    rod = rb.RigidBody(rb.Box(HALF), MASS)
    hinge = rb.Hinge(0, axis=(0, 1, 0), anchor=anchor, damping=damping, stiffness=stiffness)
    world = rb.World([rod], joints=[hinge], contact_law=rb.Frictionless(0.5))
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), world)


def swing(numbers, start, ts=TS):
    """The angle of the rod, by its equation of motion."""
    damping, stiffness, x, _, z = numbers
    inertia = MOMENT + MASS * (x**2 + z**2)

    def rates(t, y):
        angle, rate = y
        # The centre of mass is at -R(angle) anchor, at the height x sin(angle) - z cos(angle).
        gravity = -MASS * G * (x * np.cos(angle) + z * np.sin(angle))
        return [rate, (gravity - damping * rate - stiffness * angle) / inertia]

    return solve_ivp(rates, (ts[0], ts[-1]), start, t_eval=ts, rtol=1e-10, atol=1e-12).y


def places(numbers, angle):
    x, y, z = numbers[2:]
    s, c = np.sin(angle), np.cos(angle)
    return -np.stack([c * x + s * z, y + 0 * s, -s * x + c * z], axis=-1)


START = np.array([1.0, 0.5])


def measured(seed, numbers=TRUE, start=START):
    """Places and attitudes with noise."""
    rng = np.random.default_rng(seed)
    angle, _ = swing(numbers, start)
    place = places(numbers, angle) + rng.normal(0, SD[0], (TS.size, 3))
    turn = Rotation.from_rotvec(angle[:, None] * np.array([0.0, 1, 0]))
    turn = turn * Rotation.from_rotvec(rng.normal(0, SD[1], (TS.size, 3)))
    return place, turn


def poses(place, turn):
    return ro.Poses(TS, place[:, None], turn.as_quat(scalar_first=True)[:, None], SD)


def fitted(data, world=None, **options):
    world = pendulum(GIVEN) if world is None else world
    return ro.fit(world, data, ro.Parameters(world, CHARTS), METHOD, **options)


def reference(place, turn):
    """The same least squares by SciPy: the numbers and their standard deviations."""

    def residual(x):
        angle, _ = swing(x[:5], x[5:])
        off = Rotation.from_rotvec(angle[:, None] * np.array([0.0, 1, 0])).inv() * turn
        missed = (place - places(x[:5], angle)) / SD[0]
        return np.concatenate([missed.ravel(), off.as_rotvec().ravel() / SD[1]])

    scale = np.array([0.05, 0.5, 0.1, 0.1, 0.1, 1.0, 1.0])
    found = least_squares(residual, np.concatenate([TRUE, START]), x_scale=scale, diff_step=1e-5)
    return found.x, np.sqrt(np.diagonal(np.linalg.inv(found.jac.T @ found.jac))), 2 * found.cost


def of_steps():
    """By how much the numbers of the differential equation that fits a run best are off: those of
    steps of this size, without noise."""
    angle, rate = START
    ends = (places(TRUE, np.array([angle + e * rate]))[0] for e in (1e-6, -1e-6))
    velocity = np.subtract(*ends) / 2e-6
    turned = [np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0]
    position = places(TRUE, np.array([angle]))
    start = rb.State(position, [turned], [velocity], [[0.0, rate, 0.0]])
    states = rb.simulate(pendulum(TRUE), start, METHOD, TS[-1], save=rb.SaveAt(ts=TS)).states
    turns = Rotation.from_quat(states.quaternion[:, 0], scalar_first=True)
    return reference(np.asarray(states.position[:, 0]), turns)[0][:5] - TRUE


def values(fit):
    """Damping, stiffness and anchor, and half the widths of their intervals in sds."""
    names = list(CHARTS)[:3]
    value, low, high = (
        np.concatenate([np.ravel(fit.estimates[name][part]) for name in names]) for part in range(3)
    )
    return value, (high - low) / (2 * 1.959964), low, high


@pytest.fixture(scope="module")
def fit():
    return fitted(poses(*measured(0)))


@pytest.mark.long
def test_a_pendulum_is_that_of_the_differential_equation(fit):
    """From a damping and a stiffness that are 30 % wrong, on a hinge that is 2 cm off: estimates,
    intervals and chi-square are those of SciPy's fit of the angle."""
    found, sd, squares = reference(*measured(0))
    value, width, low, high = values(fit)
    # Of a stiffness that is by 0.7 sd: so much that of steps of 10 ms differs, by order two.
    np.testing.assert_allclose((value - found[:5] + of_steps()) / sd[:5], 0.0, atol=0.02)
    np.testing.assert_allclose(width / sd[:5], 1.0, atol=0.02)
    np.testing.assert_allclose(fit.chi_square, squares, atol=1.0)
    # Five intervals of 95 %: each of these holds for this noise.
    assert (low < TRUE).all() and (high > TRUE).all()
    assert fit.chi_square / fit.dof < 1.2


@pytest.mark.long
def test_freedoms_are_those_that_the_hinge_leaves(fit):
    """80 poses of 6 numbers, less 6 parameters and an angle with its rate. Nothing is hit."""
    assert fit.dof == 480 - 6 - 2
    assert fit.result == ro.RESULTS.no_impact
    assert fit.unidentifiable == ({"contact_law.restitution": 1.0},)
    assert np.isfinite(fit.estimates["joints[0].damping"].upper)


@pytest.mark.long
def test_the_first_state_is_on_the_fitted_hinge(fit):
    """And from it one simulation passes through all that was measured."""
    (state,) = fit.states
    for error in rb.joint_violations(fit.world, state):
        assert np.abs(error).max() < 1e-12
    sol = rb.simulate(fit.world, state, METHOD, TS[-1], save=rb.SaveAt(ts=TS))
    place, _ = measured(0)
    missed = (place - np.asarray(sol.states.position[:, 0])) / SD[0]
    np.testing.assert_allclose(missed, fit.residuals[0][:, :3], atol=1e-3)


@pytest.mark.long
def test_starts_agree_on_a_hinge():
    """From hinges up to 3 cm off and numbers up to 40 % wrong."""
    steps = np.random.default_rng(3).uniform(-1, 1, (6, 6)) * [0.4, 0.4, 0.03, 0.03, 0.03, 1.0]
    fit = fitted(poses(*measured(1)), starts=steps)
    np.testing.assert_allclose(fit.starts.chi_square, fit.chi_square, rtol=1e-7)
    # Of what was hit nothing is known: the last step stays where it was.
    assert np.ptp(fit.starts.parameters[:, :5], axis=0).max() < 1e-6


@pytest.mark.long
def test_a_start_that_fails_does_not_end_the_others():
    """As of numbers that are none, where no hinge can hold."""
    steps = np.zeros((3, 6))
    steps[1, 2:5] = np.nan
    fit = fitted(poses(*measured(1)), starts=steps)
    assert fit.result == ro.RESULTS.no_impact
    assert np.isinf(fit.starts.chi_square[1])
    np.testing.assert_allclose(fit.starts.chi_square[[0, 2]], fit.chi_square, rtol=1e-10)


@pytest.mark.long
def test_intervals_of_a_pendulum_cover_the_truth():
    """Of 95 %, five of each of twelve noises: more than three standard deviations of 60 below."""
    covered, ratios = 0, []
    for seed in range(100, 112):
        fit = fitted(poses(*measured(seed)))
        _, _, low, high = values(fit)
        covered += int(((low < TRUE) & (high > TRUE)).sum())
        ratios.append(fit.chi_square / fit.dof)
    print(f"{covered} of 60, chi-square per freedom {np.mean(ratios):.4f}")
    assert covered >= 51
    # Twelve times 472 freedoms: standard deviation 0.019.
    assert abs(np.mean(ratios) - 1) < 0.06


@pytest.mark.long
def test_places_alone_tell_of_a_pendulum():
    """Seen as points, where the rod is near is told by `states`, though that is no state of the
    hinge; it turns about what holds it all the same."""
    place, turn = measured(2)
    world = pendulum(GIVEN)
    data = ro.Poses(TS, place[:, None], np.full((TS.size, 1, 4), np.nan), SD)
    guess = rb.State(
        place[:1], turn[0].as_quat(scalar_first=True)[None], np.zeros((1, 3)), np.zeros((1, 3))
    )
    fit = fitted(data, world, states=guess)
    assert fit.dof == 240 - 6 - 2
    assert fit.chi_square / fit.dof < 1.3
    damping = fit.estimates["joints[0].damping"]
    assert damping.lower < TRUE[0] < damping.upper
    with pytest.raises(ValueError, match="`states` says at the first time"):
        fitted(data, world)


@pytest.mark.long
def test_a_pendulum_in_single_precision():
    """To half a standard deviation what SciPy finds in double precision."""
    world = pendulum(GIVEN, np.float32)
    fit = fitted(poses(*measured(0)), world)
    assert fit.states[0].position.dtype == np.float32
    found, sd, _ = reference(*measured(0))
    value, width, _, _ = values(fit)
    np.testing.assert_allclose((value - found[:5] + of_steps()) / sd[:5], 0.0, atol=0.5)
    np.testing.assert_allclose(width / sd[:5], 1.0, atol=0.05)
    assert fit.chi_square / fit.dof < 1.2


BALL, ARM, BEATS = 0.05, 0.3, np.linspace(0.0, 1.4, 120)


def beats(restitution, x, z, start):
    """The angle of a ball on an arm that hits a wall where it hangs, under gravity (x, 0, z)."""
    inertia = MASS * (0.4 * BALL**2 + ARM**2)

    def rates(t, y):
        return [y[1], MASS * ARM * (z * np.sin(y[0]) - x * np.cos(y[0])) / inertia]

    def hits(t, y):
        return y[0]

    event: Any = hits
    event.terminal, event.direction = True, -1
    found, t, y = [], 0.0, np.asarray(start)
    while t < BEATS[-1]:
        flight = solve_ivp(
            rates, (t, BEATS[-1]), y, events=event, dense_output=True, rtol=1e-10, atol=1e-12
        )
        assert flight.sol is not None
        end = flight.t[-1]
        own = (t <= BEATS) & (end >= BEATS)
        found.append(flight.sol(BEATS[own])[0])
        # Off the wall by next to nothing, so that this impact is not found again.
        t, y = end, np.array([1e-12, -restitution * flight.y[1, -1]])
    return np.concatenate(found)


@pytest.mark.slow
def test_a_pinned_ball_tells_the_restitution_of_a_wall():
    """Two impacts, from a restitution of 0.55 and a gravity of 9: estimate and interval are
    those of SciPy's fit of the angle. Steps of 0.01 s are off by less than the tolerance."""
    true, numbers = np.array([0.75, 0.0, -G]), np.array([0, 0, 0, 0, ARM])
    rng = np.random.default_rng(0)
    angle = beats(0.75, 0.0, -G, START)
    place = places(numbers, angle) + rng.normal(0, SD[0], (BEATS.size, 3))
    turn = Rotation.from_rotvec(angle[:, None] * np.array([0.0, 1, 0]))
    turn = turn * Rotation.from_rotvec(rng.normal(0, SD[1], (BEATS.size, 3)))

    def residual(x):
        angle = beats(x[0], x[1], x[2], x[3:])
        off = Rotation.from_rotvec(angle[:, None] * np.array([0.0, 1, 0])).inv() * turn
        missed = (place - places(numbers, angle)) / SD[0]
        return np.concatenate([missed.ravel(), off.as_rotvec().ravel() / SD[1]])

    found = least_squares(residual, [*true, *START], diff_step=1e-5, x_scale=[1, 1, 10, 1, 1])
    sd = np.sqrt(np.linalg.inv(found.jac.T @ found.jac)[0, 0])
    world = rb.World(
        [rb.RigidBody(rb.Sphere(BALL), MASS)],
        [rb.HalfSpace([-1.0, 0, 0], -BALL)],
        joints=[rb.Pin(0, anchor=(0, 0, ARM))],
        gravity=(0, 0, -9.0),
        contact_law=rb.Frictionless(0.55),
    )
    charts: dict[Any, Any] = {"contact_law.restitution": ro.Bounded(0, 1), "gravity": ro.Real()}
    method = rb.EventDriven(rb.QuaternionEnergyMomentum(), 0.01, on_zeno="stop")
    data = ro.Poses(BEATS, place[:, None], turn.as_quat(scalar_first=True)[:, None], SD)
    fit = ro.fit(world, data, ro.Parameters(world, charts), method)
    assert fit.result == ro.RESULTS.successful and fit.impacts == 2
    assert fit.dof == 720 - 4 - 6
    assert abs(fit.chi_square - fit.dof) < 4 * np.sqrt(2 * fit.dof)
    restitution = fit.estimates["contact_law.restitution"]
    assert restitution.lower < true[0] < restitution.upper
    np.testing.assert_allclose(restitution.value, found.x[0], atol=0.5 * sd)
    width = (restitution.upper - restitution.lower) / (2 * 1.959964)
    np.testing.assert_allclose(width, sd, rtol=0.05)
