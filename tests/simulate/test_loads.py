"""Forces and control inputs in simulations, against closed forms and their own order."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, quick_jit, slope

import jaxrb as rb

FLOWS = [
    rb.LieVariational(),
    rb.QuaternionVariational(),
    rb.QuaternionEnergyMomentum(),
    rb.DirectorEnergyMomentum(),
    rb.SimoWong(),
    rb.EnergyMidpoint(),
    rb.ExactFlight(),
]
NAMES = [type(flow).__name__ for flow in FLOWS]
# The first one is quick; two are like others here.
MARKS = {
    "LieVariational": (),
    "SimoWong": pytest.mark.long,
    "EnergyMidpoint": pytest.mark.long,
}
STILL = (0.0, 0.0, 0.0)


def start(position=(0.0, 0.0, 0.0), velocity=STILL, spin=STILL):
    rows = (position, (1.0, 0.0, 0.0, 0.0), velocity, spin)
    return rb.State(*(jnp.asarray(row, float)[None] for row in rows))


def as_array(state):
    parts = (state.position, state.quaternion, state.velocity, state.angular_velocity)
    return jnp.concatenate([part.reshape(-1) for part in parts])


def everything(flow, dt, t1=0.4):
    """A spinning body on a damped spring off its centre, in drag, with thrust and a torque that
    change in time."""
    body = rb.RigidBody(rb.Ellipsoid((0.2, 0.3, 0.4)), 1.3)
    thrust = rb.Thruster(0, lambda t, args: args * jnp.stack([jnp.sin(t), 0 * t, 1 + t]))
    forces = [
        rb.Spring(0, 9.0, anchor=(0.1, 0.2, 0.0), rest_length=0.3, damping=0.4),
        rb.Drag(0, linear=0.3, quadratic=0.2, angular=0.05),
        thrust,
        rb.Torque(0, lambda t, args: jnp.stack([0.1 * jnp.cos(3 * t), 0.05 * t, 0.02 + 0 * t])),
    ]
    world = rb.World([body], gravity=(0.0, 0.0, -1.0), forces=forces)
    state = start((0.3, -0.2, 1.0), (0.5, 0.1, -0.2), (0.6, -0.4, 0.9))
    method = rb.EventDriven(flow, dt)
    return rb.simulate(world, state, method, t1, args=jnp.asarray(0.7), max_steps=400)


@cache
def final_by(flow):
    """One program for all step sizes, as their number is capacity."""
    return quick_jit(lambda dt: as_array(everything(flow, dt).final))


@pytest.mark.slow
@pytest.mark.parametrize(
    "flow",
    [
        pytest.param(flow, marks=MARKS.get(name, pytest.mark.slow), id=name)
        for flow, name in zip(FLOWS, NAMES, strict=True)
    ],
)
def test_forced_steps_are_of_second_order(flow):
    """All kinds of loads at once."""
    final = final_by(flow)
    steps = np.array([1 / 20, 1 / 40, 1 / 80, 1 / 160]) * 0.4
    reference = final(0.4 / 400)
    # Its own error, a hundredth of the smallest, moves the order by less than 0.01.
    errors = [np.abs(final(dt) - reference).max() for dt in steps]
    assert abs(slope(steps, errors) - 2) < 0.1


@pytest.mark.slow
def test_schemes_agree():
    """Their differences are of the order of their errors, h^2 times third derivatives."""
    finals = [final_by(flow)(1e-3) for flow in FLOWS[:3]]
    np.testing.assert_allclose(finals[1], finals[0], rtol=0, atol=3e-5)
    np.testing.assert_allclose(finals[2], finals[0], rtol=0, atol=3e-5)


@pytest.mark.slow
def test_linear_drag_and_its_work():
    """v = v0 exp(-c t/m); the energy that is lost is the work."""
    world = rb.World(
        [rb.RigidBody(rb.Sphere(0.1), 2.0)], gravity=STILL, forces=[rb.Drag(0, linear=3.0)]
    )
    state = start(velocity=(1.0, 2.0, -1.0))
    errors = []
    for dt in (0.02, 0.01, 0.005):
        sol = rb.simulate(world, state, rb.LGVCI(dt), 1.0)
        errors.append(np.abs(sol.final.velocity[0] / state.velocity[0] - np.exp(-1.5)).max())
        change = sol.stats.energy[1] - sol.stats.energy[0]
        # Kicks are symmetric: their work is the change of the kinetic energy to round-off.
        np.testing.assert_allclose(sol.stats.work, change, rtol=1e-13)
    assert abs(slope([0.02, 0.01, 0.005], errors) - 2) < 0.05


def drift(errors):
    """The change of the mean between the first and the second half."""
    half = len(errors) // 2
    return abs(np.mean(errors[half:]) - np.mean(errors[:half]))


@pytest.mark.slow
def test_an_oscillator_keeps_its_energy():
    """Over 10^5 steps, 1600 periods: the kicks are symplectic, the energy oscillates by
    (omega h)^2/4 and does not drift."""
    spring = rb.Spring(0, 100.0)
    world = rb.World([rb.RigidBody(rb.Sphere(0.1))], gravity=STILL, forces=[spring])
    state = start((0.3, 0.0, 0.0), (0.0, 1.0, 0.0))
    sol = rb.simulate(world, state, rb.LGVCI(0.01), 1000.0, save=rb.SaveAt(every=500))
    energy = np.asarray(jax.vmap(lambda s: rb.energy(world, s))(sol.states))
    error = energy / energy[0] - 1
    assert np.abs(error).max() < 0.0026
    assert drift(error) < 1e-4
    assert sol.stats.work is None


@pytest.mark.slow
def test_a_body_that_swings_on_a_spring_keeps_energy_and_angular_momentum():
    """A triaxial body hangs in weightlessness on a spring off its centre, whose force is along a
    line through the origin. Over 10^5 steps the energy oscillates by O(h^2) without drift, and the
    angular momentum about the origin stays to round-off, which walks randomly.

    The motion is chaotic: the means over both halves of a run of some 800 periods differ by chance,
    by 1.5 percent of the largest error. Those of 64 runs together do by an eighth of that.
    """
    body = rb.RigidBody(rb.Ellipsoid((0.2, 0.3, 0.4)), 1.3)
    spring = rb.Spring(0, 9.0, anchor=(0.1, 0.2, 0.0), rest_length=0.3)
    world = rb.World([body], gravity=STILL, forces=[spring])
    state = start((0.3, -0.2, 0.8), (0.5, 0.1, -0.2), (0.6, -0.4, 0.9))
    steps = 0.01 * np.random.default_rng(0).normal(size=(64, 1, 12))
    starts = jax.vmap(state.retract)(jnp.asarray(steps))
    largest = []
    for dt in (0.02, 0.01):
        save = rb.SaveAt(every=100)
        run = lambda start, dt=dt, save=save: rb.simulate(  # noqa: E731
            world, start, rb.LGVCI(dt), 1e5 * dt, save=save, max_steps=100_000
        )
        states = jax.jit(jax.vmap(run))(starts).states
        over_time = lambda number: jax.vmap(jax.vmap(partial(number, world)))  # noqa: E731
        energy = np.asarray(over_time(rb.energy)(states))
        momentum = np.asarray(over_time(rb.angular_momentum)(states))
        np.testing.assert_allclose(momentum - momentum[:, :1], 0, rtol=0, atol=2e-13)
        error = energy / energy[:, :1] - 1
        largest.append(np.abs(error).max(axis=1).mean())
        assert drift(error.mean(axis=0)) < 0.01 * largest[-1]
    assert largest[1] < 1e-3
    assert 3.3 < largest[0] / largest[1] < 5.5  # 4 as the steps become small


@pytest.mark.slow
def test_a_magnetic_top_keeps_what_its_symmetries_keep():
    """A symmetric top with a magnetic moment m along its axis, in a field B, has the potential
    -m.B, which neither turns about B nor turns about the axis change. Over 10^5 steps the angular
    momenta about both stay to round-off, and the energy oscillates by O(h^2) without drift."""
    moment, field, moments = 0.8, jnp.array([0.0, 0.0, 3.0]), (1.0, 1.0, 1.6)

    def axis(state):
        return state.rotation_matrix[0, :, 2]

    def turn(t, state, args):
        torque = jnp.cross(moment * axis(state), field)
        return jnp.zeros((1, 3)), jnp.sum(state.rotation_matrix[0] * torque[:, None], 0)[None]

    magnet = rb.Force(turn, potential=lambda state: -moment * jnp.sum(axis(state) * field))
    body = rb.RigidBody(rb.Sphere(0.1), 1.0, moments)
    world = rb.World([body], gravity=STILL, forces=[magnet])
    tilt = 1.1
    upright = [[np.cos(tilt / 2), np.sin(tilt / 2), 0.0, 0.0]]
    state = rb.State([STILL], upright, [STILL], [[0.3, -0.4, 2.0]])
    save = rb.SaveAt(every=100)
    sol = rb.simulate(world, state, rb.LGVCI(0.02), 2000.0, save=save, max_steps=100_000)
    energy = np.asarray(jax.vmap(lambda s: rb.energy(world, s))(sol.states))
    vertical = jax.vmap(lambda s: rb.angular_momentum(world, s)[2])(sol.states)
    own = moments[2] * sol.states.angular_velocity[:, 0, 2]
    np.testing.assert_allclose(vertical, vertical[0], rtol=5e-13)
    np.testing.assert_allclose(own, own[0], rtol=1e-13)
    error = energy / energy[0] - 1
    assert np.abs(error).max() < 2e-4
    assert drift(error) < 0.01 * np.abs(error).max()
    # It nutates; at a constant tilt energy and momenta would be one.
    assert np.ptp(np.asarray(sol.states.rotation_matrix[:, 0, 2, 2])) > 0.1


def test_a_magnetic_field_does_no_work():
    """F = q v x B turns the velocity: kicks by the mean velocity keep the energy to round-off,
    which adds up over 10^5 steps like a random walk."""
    field = jnp.array([0.0, 0.0, 3.0])

    def lorentz(t, state, args):
        return jnp.cross(state.velocity, args[None]), jnp.zeros_like(state.velocity)

    world = rb.World([rb.RigidBody(rb.Sphere(0.1))], gravity=STILL, forces=[rb.Force(lorentz)])
    state = start(velocity=(1.0, 0.5, 0.2))
    sol = rb.simulate(world, state, rb.LGVCI(0.01), 1000.0, args=field)
    np.testing.assert_allclose(sol.stats.energy[1], sol.stats.energy[0], rtol=1e-12)


KNOTS = np.linspace(0.0, 0.9, 50)


def thrown(values):
    """The final state of a spinning body under thrust, after two bounces."""
    thrust = rb.Thruster(0, rb.PiecewiseLinear(KNOTS, values), anchor=(0.02, 0.0, 0.0))
    body = rb.RigidBody(rb.Ellipsoid((0.2, 0.25, 0.3)))
    law = rb.Frictionless(0.8)
    world = rb.World([body], [rb.HalfSpace()], contact_law=law, forces=[thrust])
    state = start((0.0, 0.0, 0.8), (0.3, 0.0, 0.0), (1.0, 2.0, 0.5))
    return rb.simulate(world, state, rb.LGVCI(0.01, on_zeno="stop"), 0.9)


@pytest.mark.long
@pytest.mark.parametrize("mode", [*before_releases(jax.jacfwd), jax.jacrev])
def test_the_gradient_by_fifty_knots_through_two_bounces(mode):
    values = jnp.asarray(np.random.default_rng(3).normal(size=(50, 3)))
    assert int(thrown(values).impacts.count) == 2
    end = lambda values: as_array(thrown(values).final)  # noqa: E731
    final, found = quick_jit(end), quick_jit(mode(end))(values)
    rng = np.random.default_rng(4)
    for _ in range(3):
        along = jnp.asarray(rng.normal(size=(50, 3)))
        f = [final(values + k * 1e-4 * along) for k in (-2, -1, 1, 2)]
        expected = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / 12e-4
        slope = jnp.sum(found * along[None], (1, 2))
        np.testing.assert_allclose(slope, expected, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_a_force_without_torque_is_differentiated_in_reverse():
    """Of a function that is not said to be free of velocities, and whose torques are no numbers by
    which anything changes: an oscillator, whose position is linear in where it starts and in its
    centre, with 1 - cos(t) and cos(t) of them to the order of the steps, and 1 together."""

    def attraction(t, state, args):
        force = args[None] - state.position
        return force, jnp.zeros_like(force)

    world = rb.World(
        [rb.RigidBody(rb.Sphere(0.1), mass=1.0)], gravity=(0, 0, 0), forces=[rb.Force(attraction)]
    )

    def end(center, position):
        start = rb.State(position, [[1.0, 0, 0, 0]], [[0.3, 0, 0]], [[1.0, -2, 0.3]])
        return rb.simulate(world, start, rb.LGVCI(0.05), 0.5, args=center).final.position

    arguments = jnp.array([0.3, -0.1, 0.2]), jnp.array([[0.0, 0.0, 0.3]])
    by_center, by_position = jax.jit(jax.jacrev(end, (0, 1)))(*arguments)
    np.testing.assert_allclose(by_center[0] + by_position[0, :, 0], np.eye(3), atol=1e-14)
    forward = jax.jit(jax.jacfwd(end, (0, 1)))(*arguments)
    np.testing.assert_allclose(by_center, forward[0], atol=1e-14)
    np.testing.assert_allclose(by_position, forward[1], atol=1e-14)
    np.testing.assert_allclose(by_center[0], (1 - np.cos(0.5)) * np.eye(3), atol=1e-4)


def test_a_jump_of_the_input_between_steps_acts_exactly():
    """A constant thrust in each step, taken in its middle: momentum is the sum of impulses."""
    push = rb.PiecewiseConstant(np.arange(10) * 0.1, np.random.default_rng(5).normal(size=(10, 3)))
    body = rb.RigidBody(rb.Sphere(0.1), 2.0)
    world = rb.World([body], gravity=STILL, forces=[rb.Thruster(0, push)])
    final = rb.simulate(world, start(), rb.LGVCI(0.1), 1.0).final
    np.testing.assert_allclose(final.velocity[0], push.values.sum(0) * 0.1 / 2.0, rtol=1e-13)


@pytest.mark.long
def test_loads_on_pinned_bodies():
    """Gravity as a user's force is gravity: to the order of the scheme, which takes the one at
    the ends of steps and the other within them."""
    pin, body = rb.Pin(0, (0.0, 0.0, 0.5)), rb.RigidBody(rb.Box((0.1, 0.2, 0.3)), 1.7)
    weight = rb.Force(
        lambda t, state, args: (
            jnp.array([[0.0, 0.0, -9.81 * 1.7]]),
            jnp.zeros((1, 3)),
        ),
        velocity_dependent=False,
    )
    worlds = [
        rb.World([body], joints=[pin]),
        rb.World([body], joints=[pin], gravity=STILL, forces=[weight]),
    ]
    tilt, spin = 0.7, np.array([0.2, 0.1, 1.0])
    position = 0.5 * np.array([0.0, np.sin(tilt), -np.cos(tilt)])
    quaternion = np.array([[np.cos(tilt / 2), np.sin(tilt / 2), 0, 0]])
    turn = rb.lie.quaternion.to_matrix(jnp.asarray(quaternion))[0]
    velocity = np.asarray(turn @ jnp.cross(jnp.asarray(spin), jnp.array([0.0, 0.0, -0.5])))
    state = rb.State(position[None], quaternion, velocity[None], spin[None])
    errors = []
    for dt in (0.01, 0.005):
        method = rb.EventDriven(rb.QuaternionEnergyMomentum(), dt)
        a, b = (rb.simulate(world, state, method, 0.5).final for world in worlds)
        errors.append(np.abs(a.position - b.position).max())
        assert np.abs(rb.constraint_violation(worlds[1], b)[0]).max() < 1e-14
    assert errors[0] < 1e-3
    assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.2
