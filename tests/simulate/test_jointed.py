"""Worlds whose bodies are joined, in motion: against ordinary differential equations, conservation
laws and statics. The joints themselves are tested with the bodies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, quick_jit
from scipy.integrate import solve_ivp

import jaxrb as rb

pytestmark = pytest.mark.slow

G, LENGTH = 9.81, 0.5
ROD = rb.RigidBody(rb.Box((0.02, 0.02, LENGTH / 2)), mass=1.0)
TOP, BOTTOM = (0, 0, LENGTH / 2), (0, 0, -LENGTH / 2)


def hung(angles, rates):
    """Rods that hang from each other, turned about y by angles from the vertical."""
    positions, turns, velocities, spins = [], [], [], []
    place, speed = np.zeros(3), np.zeros(3)
    for angle, rate in zip(angles, rates, strict=True):
        down = np.array([-np.sin(angle), 0, -np.cos(angle)])
        moves = rate * np.array([-np.cos(angle), 0, np.sin(angle)])
        positions.append(place + LENGTH / 2 * down)
        velocities.append(speed + LENGTH / 2 * moves)
        place, speed = place + LENGTH * down, speed + LENGTH * moves
        turns.append([np.cos(angle / 2), 0, np.sin(angle / 2), 0])
        spins.append([0, rate, 0])
    return rb.State(*(jnp.asarray(x, float) for x in (positions, turns, velocities, spins)))


def double_pendulum(**options):
    joints = [
        rb.Hinge(0, axis=(0, 1, 0), anchor=TOP),
        rb.Hinge(1, axis=(0, 1, 0), anchor=TOP, other=0, other_anchor=BOTTOM),
    ]
    return rb.World([ROD, ROD], [], joints=joints, **options)


def exact_double_pendulum(angles, rates, times):
    """By the equations of Lagrange, angles from the vertical: the mass matrix couples the rods by
    the cosine of the angle between them."""
    inertia = float(ROD.inertia_matrix()[1, 1])
    a = inertia + LENGTH**2 / 4 + LENGTH**2  # of the first, with the second at its end
    b, c = inertia + LENGTH**2 / 4, LENGTH**2 / 2

    def rate(_, x):
        (p, q), (dp, dq) = x[:2], x[2:]
        mass = np.array([[a, c * np.cos(p - q)], [c * np.cos(p - q), b]])
        pull = -G * LENGTH * np.array([1.5 * np.sin(p), 0.5 * np.sin(q)])
        turn = c * np.sin(p - q) * np.array([-(dq**2), dp**2])
        return np.concatenate([x[2:], np.linalg.solve(mass, pull + turn)])

    start, accuracy = [*angles, *rates], {"rtol": 1e-12, "atol": 1e-12}
    found = solve_ivp(rate, (0, times[-1]), start, "DOP853", times, **accuracy)
    return found.y[:2].T


def angle_of(states):
    q = np.asarray(states.quaternion)
    return 2 * np.arctan2(q[..., 2], q[..., 0])


def test_a_double_pendulum_swings_as_lagrange_says():
    """To second order in the step; joints hold to round-off, and the energy does not drift."""
    angles, rates, t1 = (1.2, -0.4), (0.5, 2.0), 1.0
    errors = []
    world, start = double_pendulum(), hung(angles, rates)

    @jax.jit
    def run(dt):  # one program for both step sizes, which has room for the smaller one's times
        sol = rb.simulate(
            world, start, rb.LGVCI(dt), t1, save=rb.SaveAt(every=1), max_steps=200, throw=False
        )
        return sol, jax.vmap(lambda s: jnp.stack(rb.joint_violations(world, s)))(sol.states)

    for dt in (0.01, 0.005):
        sol, violations = run(dt)
        assert sol.successful
        made = slice(round(t1 / dt) + 1)
        states = jax.tree.map(lambda leaf, made=made: leaf[made], sol.states)
        expected = exact_double_pendulum(angles, rates, np.asarray(sol.ts)[made])
        off = angle_of(states) - expected
        errors.append(np.abs((off + np.pi) % (2 * np.pi) - np.pi).max())
        place, rate = violations[made].transpose(1, 0, 2)
        assert np.abs(place).max() <= 1e-12 and np.abs(rate).max() <= 1e-11
        energy = np.asarray(jax.vmap(lambda s: rb.energy(world, s))(states))
        assert np.abs(energy - energy[0]).max() <= 300 * dt**2
    assert 3.6 <= errors[0] / errors[1] <= 4.4


@pytest.mark.long
def test_derivatives_of_a_double_pendulum():
    """By gravity, mass, an anchor and the start, in both modes against differences of the fourth
    order, whose steps of 1e-3 leave 1e-9."""

    def final(x):
        start = hung((1.2, -0.4), (0.5, 2.0))
        joints = [
            rb.Hinge(0, axis=(0, 1, 0), anchor=TOP),
            rb.Hinge(1, axis=(0, 1, 0), anchor=TOP, other=0, other_anchor=BOTTOM, damping=x[2]),
        ]
        rods = [ROD, rb.RigidBody(rb.Box((0.02, 0.02, LENGTH / 2)), mass=x[1])]
        world = rb.World(rods, [], joints=joints, gravity=jnp.array([0.0, 0.0, -1.0]) * x[0])
        end = rb.simulate(world, start, rb.LGVCI(0.01), 0.4).final
        return jnp.concatenate([end.position.reshape(-1), end.velocity.reshape(-1)])

    x, h = jnp.array([G, 1.0, 0.1]), 1e-3
    value, columns = jax.jit(final), []
    for direction in np.eye(3):
        near, far = (value(x + s * h * direction) - value(x - s * h * direction) for s in (1, 2))
        columns.append((8 * near - far) / (12 * h))
    forward = jax.jit(jax.jacfwd(final))(x)
    np.testing.assert_allclose(forward, np.stack(columns, axis=1), atol=1e-8)
    weights = jnp.asarray(np.random.default_rng(0).normal(size=12))
    reverse = jax.jit(jax.grad(lambda x: weights @ final(x)))(x)
    np.testing.assert_allclose(reverse, weights @ forward, atol=1e-10)


@pytest.mark.long
def test_a_loop_with_redundant_rows_goes_round():
    """Four bars, one of them the world: four hinges have 20 rows, of which 17 are independent. As a
    parallelogram its middle bar stays parallel to the ground."""
    half = LENGTH / 2
    bar = rb.RigidBody(rb.Box((0.02, 0.02, half)), mass=1.0)
    y, flat = (0, 1, 0), (np.sqrt(0.5), 0, np.sqrt(0.5), 0)
    joints = [
        rb.Hinge(0, axis=y, anchor=BOTTOM),
        rb.Hinge(2, axis=y, anchor=BOTTOM, other_anchor=(LENGTH, 0, 0)),
        rb.Hinge(1, axis=y, anchor=BOTTOM, other=0, other_anchor=TOP, reference=flat),
        rb.Hinge(1, axis=y, anchor=TOP, other=2, other_anchor=TOP, reference=flat),
    ]
    world = rb.World([bar] * 3, [], joints=joints, gravity=(0, 0, 0))
    rate = 3.0
    start = rb.State(
        jnp.array([[0, 0, half], [half, 0, LENGTH], [LENGTH, 0, half]], float),
        jnp.array([[1, 0, 0, 0], flat, [1, 0, 0, 0]], float),
        jnp.array([[rate * half, 0, 0], [rate * LENGTH, 0, 0], [rate * half, 0, 0]]),
        jnp.array([[0, rate, 0], [0, 0, 0], [0, rate, 0]], float),
    )
    place, speed = rb.joint_violations(world, start)
    np.testing.assert_allclose(np.concatenate([place, speed]), 0, atol=1e-15)
    # Where all bars lie in one line, after half a second, it could fold either way.
    sol = rb.simulate(world, start, rb.LGVCI(0.01), 0.4, save=rb.SaveAt(every=1))
    place = np.asarray(jax.vmap(lambda s: rb.joint_violations(world, s)[0])(sol.states))
    assert np.abs(place).max() <= 1e-12
    turn = np.asarray(sol.states.quaternion)[:, 1]
    np.testing.assert_allclose(np.abs(turn @ np.array(flat)), 1.0, atol=1e-12)
    # Without gravity a parallelogram turns evenly: no energy is stored anywhere.
    np.testing.assert_allclose(sol.states.angular_velocity[:, 0, 1], rate, atol=1e-10)


def test_joined_bodies_hit_and_rest():
    """Two balls that a rod holds apart fall on a plane with friction and come to lie there."""
    ball = rb.RigidBody(rb.Sphere(0.1), mass=1.0)
    rod = rb.Distance(0, (0, 0, 0), 0.5, other=1)
    world = rb.World([ball, ball], [rb.HalfSpace()], joints=[rod], contact_law=rb.Coulomb(0.5, 0.3))
    start = rb.State(
        jnp.array([[0, 0, 0.5], [0.3, 0, 0.9]]),
        jnp.array([[1.0, 0, 0, 0]] * 2),
        jnp.zeros((2, 3)),
        jnp.zeros((2, 3)),
    )
    sol = rb.simulate(world, start, rb.LGVCI(0.01), 3.0, save=rb.SaveAt(every=5))
    apart = np.diff(np.asarray(sol.states.position), axis=1)[:, 0]
    np.testing.assert_allclose(np.linalg.norm(apart, axis=1), 0.5, atol=1e-12)
    np.testing.assert_allclose(sol.final.position[:, 2], 0.1, atol=1e-9)
    energy = np.asarray(jax.vmap(lambda s: rb.energy(world, s))(sol.states))
    # The flow of order two leaves its error in flight; impacts and friction only take.
    assert energy[-1] < energy[0] and (np.diff(energy) <= 2e-2).all()


def leg(stiffness=300.0, height=0.0):
    """A body on a foot, which move up and down, with a spring and a motor between them."""
    foot, body = rb.RigidBody(rb.Sphere(0.05), 0.2), rb.RigidBody(rb.Box([0.1] * 3), 1.0)
    up = [0.0, 0.0, 1.0]
    joints = [
        rb.Slider(1, up),
        rb.Slider(0, up, other=1, stiffness=stiffness, damping=1.0, rest_displacement=-0.5),
    ]
    world = rb.World(
        [foot, body],
        [rb.HalfSpace()],
        contact_law=rb.Coulomb(0.8, 0.0),
        joints=joints,
        forces=[rb.Motor(1, lambda t, state, args: args)],
    )
    turn, still = jnp.tile(jnp.array([1.0, 0, 0, 0]), (2, 1)), jnp.zeros((2, 3))
    place = jnp.array([[0, 0, 0.2], [0, 0, 0.7]]).at[:, 2].add(height)
    return world, rb.State(place, turn, still, still)


def test_a_run_starts_where_another_ended():
    """Of a leg that hops: at every end of 40 pieces, in the air, at an impact, or on a foot whose
    contact lasts and whose gap is that of joints half a metre apart. The next piece goes on."""
    world, state = leg()

    @jax.jit
    def piece(state, t0, t1):
        return rb.simulate(
            world, state, rb.LGVCI(0.005), t1, t0, args=jnp.zeros(()), throw=False, max_steps=256
        )

    whole, gaps = piece(state, 0.0, 0.8), []
    for k in range(40):
        sol = piece(state, k * 0.02, (k + 1) * 0.02)
        assert sol.successful, (k, sol)
        state = sol.final
        gaps.append(float(rb.gaps(world, state)[0, 0]))
    assert whole.successful
    # The foot stood on the ground twice.
    assert 15 < np.sum(np.abs(gaps) < 1e-13) < 30
    np.testing.assert_allclose(state.position, whole.final.position, atol=1e-9)
    np.testing.assert_allclose(state.velocity, whole.final.velocity, atol=1e-7)


def end_of_a_hop(x):
    """Heights and velocities, by stiffness, height of the fall and force of the motor."""
    world, state = leg(x[0], x[1])
    final = rb.simulate(world, state, rb.LGVCI(0.005), 0.5, args=x[2], throw=False).final
    return jnp.concatenate([final.position[:, 2], final.velocity[:, 2]])


HOP = jnp.array([300.0, 0.0, -2.0])


def test_a_bounce_on_a_slider_can_be_differentiated():
    """A ball that falls from h on a plane with friction. The values of derivatives with joints and
    friction are tested before releases, as they compile for minutes: here they are traced."""
    ball, rail = rb.RigidBody(rb.Sphere(0.1)), rb.Slider(0, [0.0, 0, 1])
    law = rb.Coulomb(0.3, 0.5)
    world = rb.World([ball], [rb.HalfSpace()], contact_law=law, joints=[rail])

    def speed(h):
        place = jnp.array([[0.0, 0, 0.1]]).at[0, 2].add(h)
        state = rb.State(place, jnp.array([[1.0, 0, 0, 0]]), jnp.zeros((1, 3)), jnp.zeros((1, 3)))
        return rb.simulate(world, state, rb.LGVCI(0.01), 0.5, throw=False).final.velocity[0, 2]

    h = jnp.asarray(0.4)
    # -g t + (1 + e) sqrt(2 g h)
    np.testing.assert_allclose(speed(h), -G * 0.5 + 1.5 * np.sqrt(2 * G * 0.4), atol=1e-12)
    value, slope = jax.eval_shape(lambda h: jax.jvp(speed, (h,), (jnp.ones_like(h),)), h)
    assert value.shape == slope.shape == ()


@pytest.mark.long
def test_derivatives_of_a_hop():
    """Through the fall, the landing, a stance that a motor changes, and the take-off."""
    forward = quick_jit(jax.jacfwd(end_of_a_hop))(HOP)
    expected = differences(jax.jit(end_of_a_hop), HOP, step=1e-5)
    np.testing.assert_allclose(forward, expected, atol=1e-7 * np.abs(forward).max())
    reverse = quick_jit(jax.jacrev(end_of_a_hop))(HOP)
    np.testing.assert_allclose(reverse, forward, atol=1e-9 * np.abs(forward).max())
