"""The Lie group variational flow against exact rigid-body motion and its defining equation.

Truths: the free asymmetric top in Jacobi's elliptic functions, the symmetric top's steady
precession, a solution by an order-8 Runge-Kutta method at 1e-13, the discrete equation
S(h Pi) = F J_d - J_d F^T of Tran and Leok written with dense matrices, ballistic flight, and
differences. The flow is of order 2, so errors against the exact motion are judged by their
slope; everything the flow does exactly is asked for to round-off.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, slope, unsign
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation
from scipy.special import ellipj

from jaxrb import LieVariational
from jaxrb.bodies import Inertial, Phase
from jaxrb.flows.lie_variational import cayley_vector
from jaxrb.math import Diag3, Quat, Sym3, Vec3

FLOW = LieVariational()
MOMENTS = np.array([1.0, 2.0, 2.6])
TURN = Rotation.from_rotvec([0.4, -0.9, 0.6]).as_matrix()
FULL = TURN @ np.diag(MOMENTS) @ TURN.T
FULL = (FULL + FULL.T) / 2
STILL = np.zeros(3)
CASES = {"diag": MOMENTS, "sym": FULL}


def vec(a):
    return Vec3.of(jnp.asarray(a))


def tensor(inertia):
    """Principal moments, shape (n, 3), or full tensors, shape (n, 3, 3)."""
    inertia = jnp.asarray(inertia)
    return Diag3(Vec3.of(inertia)) if inertia.ndim == 2 else Sym3.of(inertia)


def body(omega, inertia, q=(1.0, 0.0, 0.0, 0.0), *, mass=1.0, x=STILL, v=STILL, dtype=np.float64):
    """One body, as the flow wants it: components of shape (1,)."""
    omega, inertia = np.asarray(omega, dtype), np.asarray(inertia, dtype)
    pi = inertia * omega if inertia.ndim == 1 else inertia @ omega
    mass = np.asarray([mass], dtype)
    phase = Phase(
        vec(np.asarray([x], dtype)),
        Quat.of(jnp.asarray([q], dtype)),
        vec(np.asarray([v], dtype) * mass),
        vec(pi[None]),
    )
    return phase, Inertial(jnp.asarray(mass), tensor(inertia[None]))


def orientation(phase):
    return np.asarray(phase.orientation.array())[0]


def momentum(phase):
    return np.asarray(phase.angular_momentum.array())[0]


@jax.jit
def one(h, phase, inertial, gravity):
    return FLOW.drift(h, phase, inertial, vec(gravity))


@jax.jit
def run(h, n, phase, inertial, gravity):
    """n steps, and the largest error of their implicit equations."""

    def turn(_, carry):
        phase, worst = carry
        phase, error = FLOW.drift(h, phase, inertial, vec(gravity))
        return phase, jnp.maximum(worst, error)

    return jax.lax.fori_loop(0, n, turn, (phase, jnp.zeros(())))


def elliptic(t, start, moments=MOMENTS):
    """Omega(t) of the free top with Omega(0) = (w1, 0, w3), I1 < I2 < I3 (Landau, sec. 37)."""
    i1, i2, i3 = moments
    energy, squared = np.sum(moments * start**2), np.sum((moments * start) ** 2)  # 2 E, M^2
    assert squared > energy * i2
    rate = np.sqrt((i3 - i2) * (squared - energy * i1) / (i1 * i2 * i3))
    m = (i2 - i1) * (energy * i3 - squared) / ((i3 - i2) * (squared - energy * i1))
    sn, cn, dn, _ = ellipj(rate * t, m)
    return np.array(
        [
            np.sqrt((energy * i3 - squared) / (i1 * (i3 - i1))) * cn,
            np.sqrt((energy * i3 - squared) / (i2 * (i3 - i2))) * sn,
            np.sqrt((squared - energy * i1) / (i3 * (i3 - i1))) * dn,
        ]
    )


SPIN = np.array([0.9, 0.0, 1.2])
DURATION = 3.2
STEPS = np.array([16, 32, 64, 128, 256])


def accurate_attitude(omega, inertia, t):
    """The quaternion at time t, by DOP853 at 1e-13."""
    inverse = np.linalg.inv(inertia)

    def rate(_, y):
        w, x, yy, z, *o = y
        o = np.array(o)
        v = np.array([x, yy, z])
        turn = [-0.5 * v @ o, *(0.5 * (w * o + np.cross(v, o)))]
        return [*turn, *(inverse @ np.cross(inertia @ o, o))]

    solution = solve_ivp(
        rate, (0, t), [1.0, 0, 0, 0, *omega], method="DOP853", rtol=1e-13, atol=1e-14
    )
    return solution.y[:4, -1]


def errors_of_attitude_and_spin(omega, moments, q_true, omega_true):
    attitude, spin = [], []
    for n in STEPS:
        phase, worst = run(DURATION / n, n, *body(omega, moments), STILL)
        assert worst <= 1
        attitude.append(np.linalg.norm(unsign(orientation(phase), q_true) - q_true))
        spin.append(np.linalg.norm(momentum(phase) / moments - omega_true))
    return attitude, spin


def test_order_2_for_the_asymmetric_top():
    # The closed form solves Euler's equations; order-4 differences are good to 1e-11.
    omega = elliptic(0.7, SPIN)
    rate = differences(lambda t: elliptic(t[0], SPIN), np.array([0.7]))[:, 0]
    np.testing.assert_allclose(MOMENTS * rate, np.cross(MOMENTS * omega, omega), atol=1e-10)
    np.testing.assert_allclose(elliptic(0.0, SPIN), SPIN, atol=1e-14)

    q_true = accurate_attitude(SPIN, np.diag(MOMENTS), DURATION)
    attitude, spin = errors_of_attitude_and_spin(SPIN, MOMENTS, q_true, elliptic(DURATION, SPIN))
    # 16 steps of 0.3 rad to 256 of 0.02 rad: errors from 1e-2 to 1e-5, far above 1e-13.
    assert abs(slope(DURATION / STEPS, attitude) - 2) < 0.2
    assert abs(slope(DURATION / STEPS, spin) - 2) < 0.2
    assert attitude[-1] < 1e-3 and spin[-1] < 1e-3


@pytest.mark.parametrize("axial", [0.7, 2.4], ids=["rod", "disc"])
def test_order_2_for_the_precession_of_a_symmetric_top(axial):
    """R(t) = exp(t S(L)/I) exp(t S(e3) (1 - I3/I) W3), from R(0) = 1."""
    moments, omega = np.array([1.5, 1.5, axial]), np.array([0.8, -0.3, 1.1])
    own = omega[2] * (1 - axial / 1.5)
    true = Rotation.from_rotvec(moments * omega / 1.5 * DURATION) * Rotation.from_rotvec(
        [0, 0, own * DURATION]
    )
    # In the body the angular velocity turns about e3 at the rate -own.
    omega_true = Rotation.from_rotvec([0, 0, -own * DURATION]).apply(omega)
    attitude, spin = errors_of_attitude_and_spin(
        omega, moments, true.as_quat(scalar_first=True), omega_true
    )
    assert abs(slope(DURATION / STEPS, attitude) - 2) < 0.2
    assert abs(slope(DURATION / STEPS, spin) - 2) < 0.2
    assert attitude[-1] < 1e-3 and spin[-1] < 1e-3


def test_a_sphere_spins_about_a_fixed_axis_at_the_rate_of_its_cayley_turn():
    """J f = (1 + f.f) g/2 along one axis: tan(a/2) with sin(a) = h W, exactly."""
    omega, h = np.array([0.6, -1.0, 1.4]), 0.1
    phase, _ = one(h, *body(omega, 2.0 * np.ones(3)), STILL)
    rate = np.linalg.norm(omega)
    true = Rotation.from_rotvec(omega / rate * np.arcsin(h * rate))
    np.testing.assert_allclose(orientation(phase), true.as_quat(scalar_first=True), atol=1e-15)
    np.testing.assert_allclose(momentum(phase), 2 * omega, rtol=1e-15)


@pytest.mark.parametrize("inertia", CASES.values(), ids=CASES)
def test_free_flight_keeps_energy_and_spatial_momentum(inertia):
    """Over 1e5 steps of 0.02 rad, about 300 turns.

    The scheme keeps both exactly, so what is left is round-off: each step turns the
    quaternion and the momentum with relative errors near 1e-16, of random sign. They walk at
    random to 3e-14 in 1e5 steps, or, if all had a bias of a tenth, drift to 1e-12.
    """
    omega = np.array([1.2, -0.9, 1.3])  # 2 rad/s
    n, q0 = 100_000, np.array([0.5, 0.5, -0.5, 0.5])

    @jax.jit
    def fly(phase, inertial):
        def turn(phase, _):
            phase, error = FLOW.drift(0.01, phase, inertial, vec(STILL))
            return phase, (phase, error)

        return jax.lax.scan(turn, phase, length=n)[1]

    phases, errors = fly(*body(omega, inertia, q0))
    assert errors.max() <= 1
    q = np.array(phases.orientation.array()[::100, 0])
    pi = np.array(phases.angular_momentum.array()[::100, 0])
    dense = inertia if inertia.ndim == 2 else np.diag(inertia)

    assert np.abs(np.linalg.norm(q, axis=-1) - 1).max() <= 1e-12
    energy = np.einsum("ni,ij,nj->n", pi, np.linalg.inv(dense), pi) / 2
    exact = omega @ dense @ omega / 2
    assert np.abs(energy / exact - 1).max() <= 1e-12
    spatial = Rotation.from_quat(q, scalar_first=True).apply(pi)
    start = Rotation.from_quat(q0, scalar_first=True).apply(dense @ omega)
    assert np.abs(spatial - start).max() <= 1e-12 * np.linalg.norm(start)
    # The body did turn: the momentum in its frame has been far from where it began.
    assert np.abs(pi - dense @ omega).max() > 1


def skew(a):
    x, y, z = a
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


@pytest.mark.parametrize("inertia", CASES.values(), ids=CASES)
@pytest.mark.parametrize("angle", [1e-6, 0.01, 0.1, 0.4])
def test_the_discrete_equation_holds(inertia, angle):
    dense = inertia if inertia.ndim == 2 else np.diag(inertia)
    j_d = np.trace(dense) / 2 * np.eye(3) - dense
    rng = np.random.default_rng(0)
    h = 0.1
    for q0 in Rotation.random(5, random_state=1).as_quat(scalar_first=True):
        direction = rng.normal(size=3)
        omega = direction / np.linalg.norm(direction) * angle / h
        before, inertial = body(omega, inertia, q0)
        after, error = one(h, before, inertial, STILL)
        assert error <= 1
        start, end = (
            Rotation.from_quat(orientation(p), scalar_first=True) for p in (before, after)
        )
        F = (start.inv() * end).as_matrix()
        # Numbers of the size of j_d, a few round-offs of which are 1e-14 of the trace, 5.6.
        left, right = skew(h * (dense @ omega)), F @ j_d - j_d @ F.T
        np.testing.assert_allclose(right, left, atol=1e-14)
        np.testing.assert_allclose(momentum(after), F.T @ dense @ omega, atol=2e-14 * angle / h)


def test_a_turned_body_frame_gives_the_same_motion():
    """Full tensor A J A^T, momentum A Pi, attitude q A^-1: the same body, axes turned by A."""
    omega, a = np.array([1.2, -0.9, 1.3]), Rotation.from_matrix(TURN)
    principal, worst = run(0.05, 40, *body(omega, MOMENTS), STILL)
    q0 = a.inv().as_quat(scalar_first=True)
    turned, worst_turned = run(0.05, 40, *body(TURN @ omega, FULL, q0), STILL)
    assert worst <= 1 and worst_turned <= 1
    # 40 steps of a few round-offs each.
    np.testing.assert_allclose(momentum(turned), TURN @ momentum(principal), atol=1e-13)
    expected = Rotation.from_quat(orientation(principal), scalar_first=True) * a.inv()
    found = Rotation.from_quat(orientation(turned), scalar_first=True)
    np.testing.assert_allclose(found.as_matrix(), expected.as_matrix(), atol=1e-13)


GRAVITY = np.array([0.3, -0.2, -9.81])


def moving(inertia):
    return body(
        [1.2, -0.9, 1.3],
        inertia,
        (0.5, 0.5, -0.5, 0.5),
        mass=2.5,
        x=[1.0, -2.0, 3.0],
        v=[0.4, 0.5, -0.6],
    )


@pytest.mark.parametrize("inertia", CASES.values(), ids=CASES)
def test_a_step_of_no_duration_is_the_identity(inertia):
    phase, inertial = moving(inertia)
    after, error = one(0.0, phase, inertial, GRAVITY)
    assert error <= 1
    for u, v in zip(jax.tree.leaves(phase), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(u, v)


@pytest.mark.parametrize("inertia", CASES.values(), ids=CASES)
def test_the_flow_is_symmetric(inertia):
    phase, inertial = moving(inertia)
    forth, _ = one(0.1, phase, inertial, GRAVITY)
    assert np.abs(momentum(forth) - momentum(phase)).max() > 0.01
    back, error = one(-0.1, forth, inertial, GRAVITY)
    assert error <= 1
    for u, v in zip(jax.tree.leaves(phase), jax.tree.leaves(back), strict=True):
        np.testing.assert_allclose(v, u, atol=1e-14)  # two steps of numbers up to 5


@pytest.mark.parametrize("inertia", CASES.values(), ids=CASES)
def test_rotation_is_symplectic(inertia):
    """The derivative of the map keeps the symplectic form of T*SO(3).

    For body-frame variations (xi, p) and (eta, s) of (R, Pi) the form is
    xi.s - eta.p + Pi.(xi x eta), minus the differential of Pi . xi.
    """
    phase, inertial = moving(inertia)
    q0, pi0 = phase.orientation.array()[0], phase.angular_momentum.array()[0]

    def local(z):
        q = Quat.of(q0) * Quat(jnp.ones(()), vec(z[:3] / 2))  # to first order exp(z)
        given = Phase(
            phase.position,
            jax.tree.map(lambda leaf: leaf[None], q),
            phase.linear_momentum,
            vec((pi0 + z[3:])[None]),
        )
        after, _ = FLOW.drift(0.1, given, inertial, vec(STILL))
        return jnp.concatenate([after.orientation.array()[0], after.angular_momentum.array()[0]])

    after, by = jax.jit(lambda z: (local(z), jax.jacfwd(local)(z)))(jnp.zeros(6))
    after, by = np.asarray(after), np.asarray(by)
    w, x, y, z = after[:4]
    # xi = 2 conj(q) dq, vector part.
    back = 2 * np.array([[-x, w, z, -y], [-y, -z, w, x], [-z, y, -x, w]])
    tangent = np.concatenate([back @ by[:4], by[4:]])

    def form(pi):
        return np.block([[-skew(pi), np.eye(3)], [-np.eye(3), np.zeros((3, 3))]])

    np.testing.assert_allclose(
        tangent.T @ form(after[4:]) @ tangent, form(np.asarray(pi0)), atol=3e-14
    )


@pytest.mark.parametrize("duration", [0.5, 2.0])
@pytest.mark.parametrize("n", [1, 16])
def test_ballistic_flight_is_exact(duration, n):
    x, v, mass = np.array([1.0, -2.0, 3.0]), np.array([0.4, 0.5, -0.6]), 2.5
    still = body(STILL, MOMENTS, mass=mass, x=x, v=v)
    phase, worst = run(duration / n, n, *still, GRAVITY)
    assert worst <= 1
    expected = x + v * duration + GRAVITY * duration**2 / 2
    # Numbers up to 20, n roundings.
    np.testing.assert_allclose(phase.position.array()[0], expected, atol=5e-14)
    np.testing.assert_allclose(
        phase.linear_momentum.array()[0], mass * (v + GRAVITY * duration), atol=2e-13
    )
    np.testing.assert_array_equal(orientation(phase), [1, 0, 0, 0])


def test_bodies_do_not_influence_each_other():
    """Two in one call, of which one is in another place: each as alone."""
    single = [moving(MOMENTS), body([0.1, 0.2, -0.3], MOMENTS[::-1], mass=0.7, v=[1.0, 0, 0])]
    pair = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *single)
    together, _ = one(0.1, *pair, GRAVITY)
    for k, (phase, inertial) in enumerate(single):
        alone, _ = one(0.1, phase, inertial, GRAVITY)
        for u, v in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(u[k], v[0], atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("inertia", CASES.values(), ids=CASES)
@pytest.mark.parametrize("angle", [0.0, 1e-6, 0.05, 0.2, 0.4])
def test_the_error_is_allowed_up_to_four_tenths_of_a_radian(angle, inertia, dtype):
    for direction in DIRECTIONS:
        phase, inertial = body(direction * angle, inertia, dtype=dtype)
        after, error = one(dtype(1), phase, inertial, STILL.astype(dtype))
        assert error.dtype == dtype and after.orientation.w.dtype == dtype
        assert error <= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("inertia", CASES.values(), ids=CASES)
def test_the_error_of_a_step_of_two_radians_is_not(inertia, dtype):
    for direction in DIRECTIONS:
        phase, inertial = body(direction * 2, inertia, dtype=dtype)
        _, error = one(dtype(1), phase, inertial, STILL.astype(dtype))
        assert error > 1


_draw = np.random.default_rng(3).normal(size=(20, 3))
DIRECTIONS = np.concatenate([np.eye(3), _draw / np.linalg.norm(_draw, axis=-1, keepdims=True)])


@pytest.mark.parametrize("inertia", CASES.values(), ids=CASES)
@pytest.mark.parametrize("angle", [0.8, 0.9])
def test_the_error_is_the_squared_residual_in_units_of_round_off(inertia, angle):
    """Where two iterations leave more than round-off."""
    dense = inertia if inertia.ndim == 2 else np.diag(inertia)
    omega = angle * DIRECTIONS[4]
    phase, inertial = body(omega, inertia)
    after, error = one(1.0, phase, inertial, STILL)
    w, *v = orientation(after)
    f, k = np.array(v) / w, dense @ omega / 2
    residual = dense @ f - k - np.cross(k, f) - (k @ f) * f
    relative = np.linalg.norm(residual) / np.linalg.norm(k)
    assert relative > 1e-12
    # What is allowed is some tens or hundreds of round-offs.
    allowed = relative / np.sqrt(float(error)) / np.finfo(float).eps
    assert 16 < allowed < 1024


def test_more_iterations_reach_further():
    """0.9 rad about a general axis: two iterations fail, six do not, as documented."""
    phase, inertial = body(0.9 * DIRECTIONS[4], MOMENTS)
    _, few = one(1.0, phase, inertial, STILL)
    _, many = LieVariational(iterations=6).drift(1.0, phase, inertial, vec(STILL))
    assert few > 1 >= many


# Derivatives of the implicit solve, by k and all the numbers of J.
K = 0.15 * np.array([1.0, -1.5, 2.0])
WEIGHTS = jnp.array([0.7, -1.1, 0.4])
POINTS = {
    "diag": np.concatenate([K, MOMENTS]),
    "sym": np.concatenate([K, np.diag(FULL), FULL[[1, 0, 0], [2, 2, 1]]]),
}


def solution(z):
    k, d = Vec3.of(z[:3]), Vec3.of(z[3:6])
    return cayley_vector(k, Sym3(d, Vec3.of(z[6:])) if z.size > 6 else Diag3(d), 2).array()


def weighted(z):
    return jnp.sum(WEIGHTS * solution(z) ** 2)


GRADIENTS = {"forward": jax.jacfwd(weighted), "reverse": jax.jacrev(weighted)}
GRADIENT = jax.jit(GRADIENTS["reverse"])


@pytest.mark.parametrize("kind", POINTS)
def test_derivative_of_the_cayley_vector(kind):
    z = POINTS[kind]
    forward, backward = (jax.jit(d(solution))(z) for d in (jax.jacfwd, jax.jacrev))
    np.testing.assert_allclose(forward, backward, atol=1e-14)
    # Order-4 differences with step 1e-3: 1e-11 for derivatives of order ten.
    np.testing.assert_allclose(forward, differences(jax.jit(solution), z), atol=1e-10)


@pytest.mark.parametrize("kind", POINTS)
def test_derivative_at_rest(kind):
    """f = J^-1 k to first order."""
    z = np.concatenate([np.zeros(3), POINTS[kind][3:]])
    dense = FULL if kind == "sym" else np.diag(MOMENTS)
    expected = np.concatenate([np.linalg.inv(dense), np.zeros((3, z.size - 3))], axis=1)
    for jacobian in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(jax.jit(jacobian(solution))(z), expected, atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("kind", POINTS)
@pytest.mark.parametrize("inner", GRADIENTS)
@pytest.mark.parametrize("outer", ["forward", "reverse"])
def test_second_derivatives_in_every_combination_of_modes(kind, inner, outer):
    z = POINTS[kind]
    gradient = GRADIENTS[inner]
    hessian = jax.jit({"forward": jax.jacfwd, "reverse": jax.jacrev}[outer](gradient))(z)
    truth = differences(GRADIENT, z)
    np.testing.assert_allclose(hessian, truth, atol=1e-9)  # differences of order 4, as above
    np.testing.assert_allclose(hessian, np.asarray(hessian).T, atol=1e-13)
    assert np.abs(truth).max() > 0.01


@pytest.mark.slow
def test_derivative_of_a_step_by_its_duration():
    """Of all that a step returns: forward, reverse and differences agree."""
    phase, inertial = moving(FULL)

    def flat(h):
        after, _ = FLOW.drift(h[0], phase, inertial, vec(GRAVITY))
        return jnp.concatenate(jax.tree.leaves(after))

    h = np.array([0.1])
    forward, backward = (jax.jit(d(flat))(h) for d in (jax.jacfwd, jax.jacrev))
    np.testing.assert_allclose(forward, backward, atol=1e-13)
    np.testing.assert_allclose(forward, differences(jax.jit(flat), h), atol=1e-9)
