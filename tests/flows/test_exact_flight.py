"""Exact flight against Euler's equations integrated by Taylor series in forty digits."""

import itertools
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from helpers import before_releases, differences, quick_jit, slope, some_slow, unsign
from scipy.integrate import solve_ivp
from scipy.special import ellipkm1

import jaxrb as rb
from jaxrb.flows.free_rotation import free_rotation, longest_rotation
from jaxrb.flows.tensor_rotation import free_rotation_of_tensor
from jaxrb.math import Sym3, Vec3
from jaxrb.math.principal import PrincipalAxes

ORDER = 40


def by_taylor(duration, momentum, moments):
    """Quaternion and momentum of a free body that starts unturned, in numbers of mpmath."""
    with mp.workdps(40):
        t, k, x = mp.mpf(duration), [*map(mp.mpf, momentum)], [1 / mp.mpf(j) for j in moments]
        q = [mp.mpf(1), mp.mpf(0), mp.mpf(0), mp.mpf(0)]
        rate = abs(t) * mp.sqrt(sum(a * a for a in k)) * max(x)
        n = max(1, int(mp.ceil(2 * rate)))
        for _ in range(n):
            q, k = _taylor_step(t / n, q, k, x)
        return q, k


def _taylor_step(h, q, k, x):
    ks, qs = [[a] for a in k], [[a] for a in q]

    def product(a, b):
        return mp.fdot(a, reversed(b))

    for i in range(ORDER):
        w = [[x[j] * c for c in ks[j]] for j in range(3)]
        dk = [
            product(ks[1], w[2]) - product(ks[2], w[1]),
            product(ks[2], w[0]) - product(ks[0], w[2]),
            product(ks[0], w[1]) - product(ks[1], w[0]),
        ]
        dq = [
            -product(qs[1], w[0]) - product(qs[2], w[1]) - product(qs[3], w[2]),
            product(qs[0], w[0]) + product(qs[2], w[2]) - product(qs[3], w[1]),
            product(qs[0], w[1]) + product(qs[3], w[0]) - product(qs[1], w[2]),
            product(qs[0], w[2]) + product(qs[1], w[1]) - product(qs[2], w[0]),
        ]
        for j in range(3):
            ks[j].append(dk[j] / (i + 1))
        for j in range(4):
            qs[j].append(dq[j] / (2 * (i + 1)))
    powers = [h**i for i in range(ORDER + 1)]
    return [mp.fdot(c, powers) for c in qs], [mp.fdot(c, powers) for c in ks]


PAPER = (5.0, 4.0, 2.6)  # Tran and Leok's Case I
TRIAXIAL = (1.0, 1.25, 2.0)
# On the separatrix the energy is that of a spin about the middle axis.
SEPARATRIX = (np.sqrt(3 / 8), 1.0, np.sqrt(5 / 8))
SCENES = {
    "Case I": (1.0, (4, -4, 4), PAPER),
    "after an impact": (2.0, (8, -2, 5), PAPER),
    "the other side": (2.0, (2, -2, 8), PAPER),
    "axes in another order": (2.0, (8, -2, 5), (4.0, 5.0, 2.6)),
    "in a third": (2.0, (8, -2, 5), (5.0, 2.6, 4.0)),
    "twelve radians": (4.7, (8, -2, 5), PAPER),
    "backwards": (-1.5, (1, 2, 3), TRIAXIAL),
    "a sphere": (2.0, (1, 2, 3), (1.0, 1.0, 1.0)),
    "nearly a sphere": (2.0, (1, 2, 3), (1.0, 1.0 + 1e-9, 1.0 - 1e-9)),
    "a disc": (1.5, (1, 2, 3), (1.0, 1.0, 2.0)),
    "a rod": (1.5, (1, 2, 3), (2.0, 1.0, 2.0)),
    "nearly a disc": (1.5, (1, 2, 3), (1.0, 1.0 + 1e-12, 2.0)),
    "a thin rod": (0.2, (1, 0.3, 1e-3), (1.0, 1.0, 1e-3)),
    "a thin rod, nearly round": (0.2, (1, 0.3, 1e-3), (1.0, 0.9, 1e-3)),
    "steady about the first axis": (2.0, (3, 0, 0), TRIAXIAL),
    "steady about the middle axis": (2.0, (0, 3, 0), TRIAXIAL),
    "steady about the third axis": (3.0, (0, 0, 3), TRIAXIAL),
    "nearly steady about the middle axis": (4.0, (1e-8, 2.5, 0), TRIAXIAL),
    "on the separatrix": (3.0, SEPARATRIX, TRIAXIAL),
    "hardly any spin": (2.0, (1e-8, 2e-8, -1e-8), TRIAXIAL),
    "less than floats can square": (2.0, (1e-170, 2e-170, 0), TRIAXIAL),
    "no spin": (2.0, (0, 0, 0), TRIAXIAL),
    "no time": (0.0, (1, 2, 3), TRIAXIAL),
    "small": (0.1, (1e-9, -2e-9, 3e-9), (2e-10, 3e-10, 4e-10)),
}


def flight(duration, momentum, moments):
    """Quaternion and momentum at the end, and the error."""
    rotation = free_rotation(duration, Vec3.of(momentum), Vec3.of(moments), 4)
    turn = rotation.turn.array()
    end = rb.lie.quaternion.rotate(rb.lie.quaternion.conjugate(turn), momentum)
    return turn, end, rotation.error


fly = quick_jit(flight)


@pytest.mark.parametrize("name", some_slow(SCENES, "a thin rod", "a thin rod, nearly round"))
def test_attitude_and_momentum(name):
    """The round-off of the angle turned is amplified, as it must be: eps W T."""
    duration, momentum, moments = SCENES[name]
    q, k = by_taylor(duration, momentum, moments)
    size = mp.sqrt(sum(a * a for a in k))
    turned = max(1.0, 4 * abs(duration) * np.linalg.norm(np.divide(momentum, moments)))
    for dtype, round_off in ((np.float64, 1e-15), (np.float32, 1e-6)):
        numbers = (np.asarray(n, dtype) for n in SCENES[name])
        found, end, error = fly(*numbers)
        assert found.dtype == dtype and error <= 1
        if dtype == np.float32:  # of the numbers as they are rounded
            exact = [np.asarray(n, dtype).tolist() for n in SCENES[name]]
            q, k = by_taylor(exact[0], exact[1], exact[2])
        sign = (
            1
            if float(q[0]) * float(found[0]) + float(mp.fdot(q[1:], map(float, found[1:]))) > 0
            else -1
        )
        off = max(abs(sign * mp.mpf(float(a)) - b) for a, b in zip(found, q, strict=True))
        assert off <= round_off * turned
        off = max(abs(mp.mpf(float(a)) - b) for a, b in zip(end, k, strict=True))
        assert off <= 2 * round_off * turned * size  # it is rotated once more


@pytest.mark.parametrize("doublings", [6, 8])
def test_flights_past_the_middle_axis(doublings):
    """A racket that turns over once and again in one flight: near the separatrix the elliptic
    functions fall like exp(-t), and what is a difference from 1 of them loses as many digits."""
    moments, momentum = (13.0, 51.4, 64.0), np.array([0.05, 51.4, 0.01])
    many = quick_jit(partial(free_rotation, doublings=doublings))
    longest = quick_jit(partial(longest_rotation, doublings=doublings))
    rotor = (Vec3.of(jnp.asarray(momentum)), Vec3.of(jnp.asarray(moments)))
    for part in (0.3, 0.6, 0.98):
        duration = part * longest(*rotor)
        q, _ = by_taylor(float(duration), momentum.tolist(), moments)
        turn = np.asarray(many(duration, *rotor).turn.array())
        off = min(
            max(abs(s * mp.mpf(float(a)) - b) for a, b in zip(turn, q, strict=True))
            for s in (1, -1)
        )
        # Up to 54 rad: twice what flights of a few radians hold. It lost six digits.
        assert off <= 8e-15 * float(duration)


def test_two_flights_are_one():
    rng = np.random.default_rng(0)
    for _ in range(20):
        moments = rng.uniform(1, 2, 3)
        momentum, first, second = rng.normal(size=3) * 2, *rng.uniform(-1.5, 1.5, 2)
        a, between, _ = fly(first, momentum, moments)
        b, end, _ = fly(second, between, moments)
        whole, at_once, _ = fly(first + second, momentum, moments)
        both = rb.lie.quaternion.multiply(a, b)
        both = both * jnp.sign(jnp.dot(both, whole))
        np.testing.assert_allclose(both, whole, rtol=0, atol=3e-15)
        np.testing.assert_allclose(end, at_once, rtol=0, atol=1e-14)


DERIVED = (
    "after an impact",
    "a sphere",
    "steady about the middle axis",
    "on the separatrix",
    *before_releases(
        "axes in another order", "a disc", "a rod", "no spin", "steady about the first axis"
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", DERIVED)
def test_derivatives(name):
    """By duration, momentum and moments, against differences of the series in forty digits."""
    x = np.concatenate([np.atleast_1d(n) for n in SCENES[name]]).astype(float)

    def ends(x):
        q, end, _ = flight(x[0], x[1:4], x[4:])
        return jnp.concatenate([q, end])

    def exact(x):
        q, k = by_taylor(x[0], x[1:4], x[4:])
        return np.array([*q, *k])

    with mp.workdps(40):
        columns, h = [], mp.mpf(10) ** -12
        for i in range(7):
            step = np.array([h if i == j else mp.mpf(0) for j in range(7)])
            both = exact([*(x + step)]), exact([*(x - step)])
            columns.append(((both[0] - both[1]) / (2 * h)).astype(float))
        expected = np.stack(columns, axis=1)
        sign = float(np.sign(float(exact([*x])[0]))) * np.sign(float(ends(x)[0]))
        expected[:4] *= sign
    forward, reverse = (quick_jit(mode(ends))(x) for mode in (jax.jacfwd, jax.jacrev))
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-13 * scale)
    np.testing.assert_allclose(reverse, forward, rtol=0, atol=1e-13 * scale)


@pytest.mark.long
@pytest.mark.parametrize("name", ["after an impact", *before_releases("a disc", "no spin")])
def test_second_derivatives(name):
    """In all pairs of modes, against differences of the first ones."""
    x = jnp.concatenate([jnp.atleast_1d(jnp.asarray(n, float)) for n in SCENES[name]])
    weights = jnp.array([0.3, -0.5, 0.7, 0.2])

    def of(x):
        return weights @ flight(x[0], x[1:4], x[4:])[0]

    first, h = quick_jit(jax.grad(of)), 1e-3
    slopes = [[np.asarray(first(x.at[i].add(m * h))) for m in (-2, -1, 1, 2)] for i in range(7)]
    expected = np.stack([(f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h) for f in slopes], 1)
    modes = (jax.jacfwd, jax.jacrev)
    for outer, inner in itertools.product(modes, modes):
        hessian = quick_jit(outer(inner(of)))(x)
        np.testing.assert_allclose(hessian, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def spinning(moments, omega, **options):
    """A world of one free body, and its state."""
    body = rb.RigidBody(rb.Sphere(0.1), 1.3, moments)
    still = np.zeros((1, 3))
    state = rb.State(still, [[1.0, 0, 0, 0]], still, jnp.asarray(omega, float)[None])
    return rb.World([body], gravity=(0, 0, -9.81), **options), state


@pytest.mark.long
def test_any_inertia_tensor_is_that_of_turned_axes():
    turn = rb.lie.quaternion.exp(jnp.array([0.3, -0.8, 0.5]))
    matrix = np.asarray(rb.lie.quaternion.to_matrix(turn))
    omega = np.array([1.0, -2.0, 0.5])
    method = rb.EventDriven(rb.ExactFlight(), 0.5)
    world, state = spinning(TRIAXIAL, matrix.T @ omega)
    own = rb.simulate(world, state, method, 2.0).final

    def full(numbers):
        scale, omega = numbers[0], numbers[1:]
        tensor = scale * (matrix @ np.diag(TRIAXIAL) @ matrix.T)
        world, state = spinning(tensor, omega)
        return rb.simulate(world, state, method, 2.0).final

    numbers = jnp.array([1.0, *omega])
    found = full(numbers)
    np.testing.assert_allclose(
        found.angular_velocity[0], matrix @ own.angular_velocity[0], atol=1e-13
    )
    rotation = matrix @ own.rotation_matrix[0] @ matrix.T
    np.testing.assert_allclose(found.rotation_matrix[0], rotation, rtol=0, atol=1e-13)

    by = quick_jit(jax.jacfwd(lambda n: full(n).angular_velocity[0]))(numbers)
    h = 1e-5
    for i in range(4):
        step = h * jnp.eye(4)[i]
        ends = [full(numbers + m * step).angular_velocity[0] for m in (-2, -1, 1, 2)]
        difference = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h)
        np.testing.assert_allclose(by[:, i], difference, rtol=0, atol=1e-9)
    reverse = quick_jit(jax.jacrev(lambda n: full(n).angular_velocity[0]))(numbers)
    np.testing.assert_allclose(reverse, by, rtol=0, atol=1e-13)


@pytest.mark.parametrize("doublings", [0, -1, 1.5, 17])
def test_doublings_are_a_few(doublings):
    with pytest.raises(ValueError, match=r"ExactFlight.doublings must be"):
        rb.ExactFlight(doublings=doublings)


def by_variation(duration, momentum, inertia, change):
    """The quaternion of a free body that starts unturned, and its derivative along a change of its
    inertia tensor, by Euler's equations and their variation: with the turn of the body R and
    delta R = R S(eta), k = R^T k(0) and X = J^{-1},

        eta' = -X k x eta + X (k x eta) + delta X k.
    """
    inverse = np.linalg.inv(inertia)
    of_inverse = -inverse @ change @ inverse

    def product(a, b):
        return np.array(
            [a[0] * b[0] - a[1:] @ b[1:], *(a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:]))]
        )

    def rates(_, y):
        q, eta = y[:4], y[4:]
        k = momentum + 2 * np.cross(q[1:], np.cross(q[1:], momentum) - q[0] * momentum)
        omega = inverse @ k
        own = -np.cross(omega, eta) + inverse @ np.cross(k, eta) + of_inverse @ k
        return np.concatenate([0.5 * product(q, np.array([0.0, *omega])), own])

    options = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-15}
    end = solve_ivp(rates, (0.0, duration), [1.0, *[0.0] * 6], **options).y[:, -1]
    return end[:4], 0.5 * product(end[:4], np.array([0.0, *end[4:]]))


def of_tensor(duration, momentum, inertia):
    """The quaternion of the closed form, in the frame of a body with a full tensor."""
    tensor = Sym3.of(inertia[None])
    axes = PrincipalAxes.of(tensor)
    turn = free_rotation_of_tensor(duration, Vec3.of(momentum[None]), tensor, axes, 4).turn
    return jnp.array([turn.w[0], turn.v.x[0], turn.v.y[0], turn.v.z[0]])


TENSORS = {
    "an oblate body": (1.0, 1.0, 1.7),
    "a prolate body": (1.0, 1.8, 1.8),
    "a cube": (1.5, 1.5, 1.5),
    "nearly oblate, to 1e-12": (1.0, 1.0 + 1e-12, 1.7),
    "nearly oblate, to 1e-9": (1.0, 1.0 + 1e-9, 1.7),
    "nearly a cube, to 1e-6": (2.0, 2.0 + 2e-6, 2.0 - 1e-6),
    "three moments": (1.0, 1.5, 2.2),
}
AXES = {"turned": [0.3, -0.8, 0.5], "of the frame": [0.0, 0.0, 0.0]}


@pytest.mark.parametrize("axes", AXES.values(), ids=AXES)
@pytest.mark.parametrize("moments", TENSORS.values(), ids=TENSORS)
def test_derivatives_by_a_full_tensor(moments, axes):
    """Where moments are equal their axes are any and turn by infinite amounts, but not the body.

    The reference is exact to 1e-13 of what it integrates; the round-off of derivatives is no
    larger where moments are nearly equal.
    """
    turn = np.asarray(rb.lie.quaternion.to_matrix(rb.lie.quaternion.exp(jnp.array(axes))))
    inertia = turn @ np.diag(moments) @ turn.T
    inertia = 0.5 * (inertia + inertia.T)
    momentum, duration = inertia @ np.array([1.1, -1.6, 0.7]), 1.7
    value, pull = of_tensor_and_pull(duration, momentum, inertia)
    changes = np.random.default_rng(7).normal(size=(6, 3, 3))
    for change in changes + changes.swapaxes(1, 2):
        expected = by_variation(duration, momentum, inertia, change)
        np.testing.assert_allclose(value, expected[0], rtol=0, atol=1e-12)
        along = np.einsum("aij,ij->a", pull, change)
        size = np.abs(expected[1]).max()
        np.testing.assert_allclose(along, expected[1], rtol=0, atol=2e-12 * size)


@quick_jit
def of_tensor_and_pull(duration, momentum, inertia):
    by = jax.jacrev(of_tensor, 2)(duration, momentum, inertia)
    return of_tensor(duration, momentum, inertia), by


@quick_jit
def both_modes(duration, momentum, inertia):
    return [
        mode(of_tensor, (1, 2))(duration, momentum, inertia) for mode in (jax.jacfwd, jax.jacrev)
    ]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_derivatives_by_a_full_tensor_in_both_modes(dtype):
    """Of a cube, too, and without spin, where the rotation depends on no tensor."""
    for moments, omega in ((TENSORS["a cube"], 1.0), (TENSORS["three moments"], 1.0), (PAPER, 0.0)):
        inertia = jnp.diag(jnp.array(moments, dtype))
        momentum = omega * inertia @ jnp.array([1.1, -1.6, 0.7], dtype)
        duration = jnp.asarray(0.8, dtype)
        forward, reverse = both_modes(duration, momentum, inertia)
        eps = float(jnp.finfo(dtype).eps)
        for one, other in zip(forward, reverse, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=20 * eps)
        if not omega:
            np.testing.assert_array_equal(forward[1], 0.0)


@pytest.mark.long
def test_second_derivatives_by_a_full_tensor():
    """With three moments, against differences of the first. With two that are equal they are NaN,
    not wrong."""
    turn = np.asarray(rb.lie.quaternion.to_matrix(rb.lie.quaternion.exp(jnp.array(AXES["turned"]))))
    inertia = jnp.asarray(turn @ np.diag(TENSORS["three moments"]) @ turn.T)
    momentum = inertia @ jnp.array([1.1, -1.6, 0.7])
    change = jnp.array([[0.3, -0.2, 0.5], [-0.2, 0.1, 0.4], [0.5, 0.4, -0.6]])

    def along(x, inertia):
        return of_tensor(0.8, momentum * (1 + x[1]), inertia + x[0] * change)

    zero = jnp.zeros(2)
    first = quick_jit(jax.jacfwd(along))
    h = 1e-3
    for modes in itertools.product((jax.jacfwd, jax.jacrev), repeat=2):
        second = quick_jit(modes[0](modes[1](along)))(zero, inertia)
        for i in range(2):
            ends = [first(m * h * jnp.eye(2)[i], inertia) for m in (-2, -1, 1, 2)]
            expected = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h)
            np.testing.assert_allclose(second[:, :, i], expected, rtol=0, atol=1e-10)
    cube = 1.5 * jnp.eye(3)
    assert np.isnan(quick_jit(jax.jacfwd(jax.jacfwd(along)))(zero, cube)[:, 0, 0]).all()


@pytest.mark.long
def test_a_shape_with_a_full_tensor_and_equal_moments():
    """A cylinder that is turned in the frame of its body, by its radius, through an impact."""

    def final(radius):
        cylinder = rb.Cylinder(radius, 0.2)
        placed = rb.Placed(cylinder, [0.1, 0.0, 0.05], [np.cos(0.3), np.sin(0.3), 0.0, 0.0])
        world = rb.World(
            [rb.RigidBody(placed, 1.3)], [rb.HalfSpace()], contact_law=rb.Frictionless(0.6)
        )
        still = [[0.0, 0, 0]]
        state = rb.State([[0.0, 0, 1.0]], [[1.0, 0, 0, 0]], still, [[1.0, 2.0, 0.7]])
        sol = rb.simulate(world, state, rb.EventDriven(rb.ExactFlight(), None), 0.55)
        return jnp.concatenate([sol.final.position[0], sol.final.angular_velocity[0]])

    by = quick_jit(jax.jacrev(final))(0.11)
    h = 1e-5
    ends = [final(0.11 + m * h) for m in (-2, -1, 1, 2)]
    expected = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h)
    np.testing.assert_allclose(by, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.slow
def test_energy_and_momentum_of_many_flights():
    """Round-off as of a random walk, without drift."""
    world, state = spinning(TRIAXIAL, [1.0, 2.0, -0.5])
    world = eqx.tree_at(lambda w: w.gravity, world, jnp.zeros(3))
    n = 20_000
    save = rb.SaveAt(every=n // 20)
    sol = rb.simulate(world, state, rb.EventDriven(rb.ExactFlight(), 0.05), 0.05 * n, save=save)
    energy = np.asarray(jax.vmap(lambda s: rb.energy(world, s))(sol.states))
    assert np.abs(energy / energy[0] - 1).max() < 1e-13
    momentum = np.asarray(jax.vmap(lambda s: rb.angular_momentum(world, s))(sol.states))
    np.testing.assert_allclose(momentum, momentum[:1].repeat(len(momentum), 0), rtol=0, atol=1e-12)


RACKET = (1.0, 2.0, 3.0)


def half_period(wobble):
    """After which a racket with omega_2 = 1 has turned over [s], as below."""
    a, b, c = RACKET
    energy2, momentum2 = b + c * wobble**2, b**2 + (c * wobble) ** 2
    steep = momentum2 - energy2 * a
    nu = np.sqrt((c - b) * steep / (a * b * c))
    rest = (c - a) * wobble**2 * c * (c - b) / ((c - b) * steep)  # 1 - k^2, without cancellation
    return 2 * ellipkm1(rest) / nu


def test_the_racket_turns_over_after_half_a_period_of_the_elliptic_functions():
    """Spun about its middle axis, with a little about the largest (Landau and Lifshitz,
    *Mechanics*, section 37): omega_3 = d, omega_2 = 1 at the start gives

        M^2 - 2 E I_2 = d^2 I_3 (I_3 - I_2) and a period 4 K(k)/nu,
        nu^2 = (I_3 - I_2)(M^2 - 2 E I_1)/(I_1 I_2 I_3).
    """
    wobble = 0.01
    half = half_period(wobble)
    world, state = spinning(RACKET, [0.0, 1.0, wobble])
    found = [
        rb.simulate(world, state, rb.EventDriven(rb.ExactFlight(), n * half / 16), n * half)
        for n in (1, 2)
    ]
    turned, back = (np.asarray(sol.final.angular_velocity[0]) for sol in found)
    # Near the middle axis motions run away from each other by 1/wobble, and so does round-off.
    np.testing.assert_allclose(turned, [0.0, -1.0, wobble], rtol=0, atol=1e-12)
    # Twice for a turn and back.
    np.testing.assert_allclose(back, [0.0, 1.0, wobble], rtol=0, atol=1e-11)


def test_a_racket_in_flight_for_hours_turns_over_in_its_period():
    """265 periods, 1e4 s, in continuous time: some 330 flights of 30 rad. Energy and momentum walk
    by a few eps each. Period and energy E belong to each other, and near the middle axis an
    energy that is off by a part 1e-13 is one of a wobble that is off by a part 1e-9: after 1e4 s
    the racket is off by 1e-6 s, in which it turns by 1e-8 away from the axis."""
    wobble, n = 0.01, 265
    world, state = spinning(RACKET, [0.0, 1.0, wobble])
    world = eqx.tree_at(lambda w: w.gravity, world, jnp.zeros(3))
    duration = 2 * n * half_period(wobble)
    assert 9_990 < duration < 10_000
    sol = rb.simulate(world, state, rb.EventDriven(rb.ExactFlight(), dt=None), duration)
    np.testing.assert_allclose(sol.final.angular_velocity[0], [0, 1, wobble], rtol=0, atol=5e-8)
    np.testing.assert_allclose(rb.energy(world, sol.final), rb.energy(world, state), rtol=3e-13)
    momenta = (rb.angular_momentum(world, s) for s in (sol.final, state))
    np.testing.assert_allclose(*momenta, rtol=0, atol=1e-13)
    assert int(sol.stats.flow_evaluations) < 500


@pytest.mark.parametrize("ratio", [1e-2, 1e-4, 1e-6])
def test_rods_with_all_angular_velocities_alike(ratio):
    """A symmetric top precesses about its momentum at |k|/J_1 and turns about its axis, against
    that, at (1 - J_3/J_1) Omega_3. Only a small part of its angular momentum is along the axis."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        omega = rng.normal(size=3)
        moments = np.array([1.0, 1.0, ratio])
        k = moments * omega
        duration = rng.uniform(0.5, 5.0)
        found = free_rotation(
            jnp.float64(duration), Vec3.of(jnp.asarray(k)), Vec3.of(jnp.asarray(moments)), 4
        )
        size = np.linalg.norm(k)
        half = 0.5 * size * duration
        about = np.array([np.cos(half), *(np.sin(half) * k / size)])
        own = -0.5 * duration * (1 - ratio) * omega[2]
        # In the body frame at the start: first about its axis, backwards, then about k.
        spin = np.array([np.cos(own), 0.0, 0.0, -np.sin(own)])
        w = about[0] * spin[0] - about[1:] @ spin[1:]
        v = about[0] * spin[1:] + spin[0] * about[1:] + np.cross(about[1:], spin[1:])
        expected = np.array([w, *v])
        turn = np.asarray(found.turn.array())
        error = min(np.abs(turn - expected).max(), np.abs(turn + expected).max())
        lost = size / abs(k[2])
        assert error < 4e-15 * max(1.0, 4 * np.linalg.norm(omega) * duration) * max(1.0, lost)


# Of the continuous problem, by Taylor series in 24 digits and Newton's rule.
TIMES = [
    2.6491323431753971233,
    4.8945305294234768567,
    5.352061251907043597,
    6.5250434030798301019,
    9.4616782324117595485,
]


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.01, 0.02])
def test_impacts_of_case_one_are_those_of_newtons_equations(dt):
    body = rb.RigidBody(rb.Ellipsoid((2.0, 3.0, 4.0)), 1.0)
    world = rb.World([body], [rb.HalfSpace()], gravity=(0, 0, -9.80665))
    state = rb.State([[0, 0, 10.0]], [[1.0, 0, 0, 0]], [[0, 0, 10.0]], [[0.8, -1.0, 4 / 2.6]])
    save = rb.SaveAt(final=True, impacts=8)
    sol = rb.simulate(world, state, rb.EventDriven(rb.ExactFlight(), dt), 10.0, save=save)
    assert int(sol.impacts.count) == 5
    np.testing.assert_allclose(sol.impacts.time[:5], TIMES, rtol=0, atol=2e-12)
    np.testing.assert_allclose(rb.energy(world, sol.final), rb.energy(world, state), rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("tilt", [0.0, 0.2])
def test_a_ball_with_any_inertia_comes_to_rest_on_a_plane(tilt):
    """Without friction nothing turns it, nor acts along the plane, in flight, at bounces and while
    the contact lasts: it turns by Euler's equations, slides by g sin(tilt) t^2/2, and lies on the
    plane after a fall of T and bounces of 2 T e, 2 T e^2, ..."""
    radius, fall, e, omega, t1 = 0.1, 0.2, 0.3, [1.0, 2.0, -0.5], 1.6
    normal = np.array([np.sin(tilt), 0.0, np.cos(tilt)])
    down = np.array([np.cos(tilt), 0.0, -np.sin(tilt)])
    body = rb.RigidBody(rb.Sphere(radius), 1.3, TRIAXIAL)
    law = rb.Frictionless(e)
    world = rb.World([body], [rb.HalfSpace(normal)], gravity=(0, 0, -9.81), contact_law=law)
    state = rb.State(
        [(radius + fall) * normal], [[1.0, 0, 0, 0]], [0.4 * down + [0, 0.7, 0]], [omega]
    )
    method = rb.EventDriven(rb.ExactFlight(), 0.01, on_zeno="rest")
    sol = rb.simulate(world, state, method, t1, save=rb.SaveAt(every=10))
    ts, found = np.asarray(sol.ts), np.asarray(sol.states.position[:, 0])
    first = np.sqrt(2 * fall / (9.81 * np.cos(tilt)))
    ended = first * (1 + 2 * e / (1 - e))
    at_rest = ts > ended
    assert 3 < at_rest.sum() < len(ts) - 3
    # All of it is exact but for round-off.
    np.testing.assert_allclose(found[at_rest] @ normal, radius, rtol=0, atol=2e-15)
    slid = 0.4 * ts + 9.81 * np.sin(tilt) * ts**2 / 2
    np.testing.assert_allclose(found @ down, slid, rtol=0, atol=1e-14)
    np.testing.assert_allclose(found[:, 1], 0.7 * ts, rtol=0, atol=1e-14)
    turned, momentum = by_taylor(t1, np.array(TRIAXIAL) * omega, TRIAXIAL)
    turned, momentum = np.array(turned, float), np.array(momentum, float)
    found = unsign(sol.final.quaternion[0], turned)
    np.testing.assert_allclose(found, turned, rtol=0, atol=2e-14)
    found = sol.final.angular_velocity[0]
    np.testing.assert_allclose(found, momentum / TRIAXIAL, rtol=0, atol=5e-14)
    assert sol.successful and 5 < int(sol.impacts.count) < 64


@pytest.mark.slow
def test_flights_that_are_too_long_are_taken_in_parts():
    """A step of 80 rad, of which 4 doublings reach some twelve."""
    world, state = spinning(TRIAXIAL, [10.0, 20.0, -5.0])
    one = rb.simulate(world, state, rb.EventDriven(rb.ExactFlight(), 4.0), 4.0)
    short = rb.simulate(world, state, rb.EventDriven(rb.ExactFlight(), 0.1), 4.0)
    assert 8 < int(one.stats.flow_evaluations) < 40
    long = rb.simulate(world, state, rb.EventDriven(rb.ExactFlight(doublings=8), 4.0), 4.0)
    assert int(long.stats.flow_evaluations) == 1
    for other in (short, long):
        for name in ("position", "velocity", "angular_velocity"):
            expected = getattr(one.final, name)
            # 1e-15 rad for each radian and 20 rad/s; twice four doublings lose a digit.
            np.testing.assert_allclose(getattr(other.final, name), expected, rtol=0, atol=3e-11)
        np.testing.assert_allclose(
            other.final.rotation_matrix, one.final.rotation_matrix, rtol=0, atol=1e-12
        )


def dragged(velocity, omega, moments, mass, drag, duration):
    """Velocity, angular velocity and quaternion of a body in a medium, by the equations of Newton
    and Euler: m v' = m g - (c1 + c2 |v|) v and J omega' = J omega x omega - c omega."""
    linear, quadratic, angular = drag
    moments = np.asarray(moments)

    def rates(_, y):
        v, omega, w, x = y[:3], y[3:6], y[6], y[7:]
        push = -(linear + quadratic * np.linalg.norm(v)) * v
        spin = (np.cross(moments * omega, omega) - angular * omega) / moments
        turn = 0.5 * np.array([-x @ omega, *(w * omega + np.cross(x, omega))])
        return np.concatenate([push / mass + [0, 0, -9.81], spin, turn])

    start = [*velocity, *omega, 1.0, 0.0, 0.0, 0.0]
    options = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-14}
    end = solve_ivp(rates, (0.0, duration), start, **options).y[:, -1]
    return end[:3], end[3:6], end[6:] / np.linalg.norm(end[6:])


@pytest.mark.slow
def test_with_forces_it_is_of_order_two():
    """Drag, against an independent integration."""
    coefficients, velocity, omega, t1 = (0.3, 0.1, 0.2), [1.0, -2.0, 3.0], [1.0, 2.0, -0.5], 1.6
    expected = dragged(velocity, omega, TRIAXIAL, 1.3, coefficients, t1)
    drag = rb.Drag(0, *coefficients[:2], angular=coefficients[2])
    world, state = spinning(TRIAXIAL, omega, forces=[drag])
    state = eqx.tree_at(lambda s: s.velocity, state, jnp.array([velocity]))
    sizes = (0.08, 0.04, 0.02, 0.01)
    errors = []
    for dt in sizes:
        final = rb.simulate(world, state, rb.EventDriven(rb.ExactFlight(), dt), t1).final
        found = (
            final.velocity[0],
            final.angular_velocity[0],
            unsign(final.quaternion[0], expected[2]),
        )
        errors.append([np.abs(a - b).max() for a, b in zip(found, expected, strict=True)])
    # The next term of the error is a hundredth of the first or less in the longest of the steps.
    for row in np.transpose(errors):
        assert slope(sizes, row) == pytest.approx(2, abs=0.01)


@pytest.mark.slow
def test_a_torque_about_the_axis_of_spin_is_exact_in_steps_of_any_size():
    """Body-fixed and constant: the angle is omega t + (torque / J) t^2 / 2, whatever the step."""
    torque, omega, t1 = 0.7, 0.4, 3.0

    def push(t, state, args):
        return jnp.zeros((1, 3)), jnp.array([[0.0, 0.0, torque]])

    world, state = spinning(TRIAXIAL, [0.0, 0.0, omega], forces=[rb.Force(push)])
    moment = float(world.bodies[0].inertia_matrix()[2, 2])
    angle = omega * t1 + torque / moment * t1**2 / 2
    for dt in (3.0, 0.3):
        final = rb.simulate(world, state, rb.EventDriven(rb.ExactFlight(), dt), t1).final
        np.testing.assert_allclose(
            final.quaternion[0], [np.cos(angle / 2), 0, 0, np.sin(angle / 2)], rtol=0, atol=1e-15
        )
        np.testing.assert_allclose(
            final.angular_velocity[0], [0, 0, omega + torque / moment * t1], rtol=0, atol=1e-15
        )


def test_pinned_bodies_are_refused():
    world, state = spinning(TRIAXIAL, [0.0, 0.0, 0.0], joints=[rb.Pin(0, (0, 0, 0.0))])
    with pytest.raises(ValueError, match="ExactFlight does not know joints"):
        rb.simulate(world, state, rb.EventDriven(rb.ExactFlight(), 0.1), 1.0)


@pytest.mark.long
def test_gradients_of_a_batch_through_an_impact_in_both_precisions():
    """After the first impact of Case I, with respect to the initial spin."""

    def final(spin):
        body = rb.RigidBody(rb.Ellipsoid((2.0, 3.0, 4.0)), 1.0)
        world = rb.World([body], [rb.HalfSpace()], gravity=(0, 0, -9.80665))
        at = [jnp.array(row, spin.dtype) for row in ([[0, 0, 10.0]], [[1.0, 0, 0, 0]])]
        state = rb.State(*at, at[0], spin[None])
        after = rb.simulate(world, state, rb.EventDriven(rb.ExactFlight(), 0.02), 3.0).final
        return after.position[0, 2] + after.angular_velocity[0, 0]

    spins = jnp.array([[0.8, -1.0, 4 / 2.6], [0.9, -0.9, 1.6], [1.0, -0.8, 1.7]])
    gradients = quick_jit(jax.vmap(jax.grad(final)))
    found = gradients(spins)
    for spin, gradient in zip(spins, found, strict=True):
        # The impact bends the function: at a step of 1e-3 truncation would be 7e-8.
        expected = differences(jax.jit(final), spin, 1e-4)
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-9)
    single = gradients(spins.astype(jnp.float32))
    assert single.dtype == jnp.float32
    # Round-off of 150 steps, some 2e-6, times the second derivative, some 500.
    np.testing.assert_allclose(single, found, rtol=0, atol=2e-3)
