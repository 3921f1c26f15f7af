"""Joints in steps with impacts in them: ordinary differential equations, statics, conservation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences, quick_jit
from scipy.integrate import solve_ivp
from test_jointed import angle_of, double_pendulum, exact_double_pendulum, hung

import jaxrb as rb

pytestmark = pytest.mark.slow

G = 9.81
THETA = ["implicit", "nearly_implicit", "semi_explicit"]
ALL = ["variational", *before_releases(*THETA)]


def stepped(dt, scheme="variational", **options):
    return rb.MoreauJean(dt, scheme=scheme, impacts="stepped", **options)


def violations(world, states):
    """The largest errors of joints along a trajectory, of place and of rate."""
    found = jax.vmap(lambda state: jnp.stack(rb.joint_violations(world, state)))(states)
    return jnp.max(jnp.abs(found), axis=(0, 2))


def energies(world, states):
    return jax.vmap(lambda state: rb.energy(world, state))(states)


@pytest.mark.long
@pytest.mark.parametrize("scheme", ALL)
def test_a_double_pendulum_swings_as_lagrange_says(scheme):
    """To second order in the step; joints hold to round-off at every step, and in 20 s the energy
    does not drift, but with the scheme that does not iterate, by the third power of the step."""
    angles, rates = (1.2, -0.4), (0.5, 2.0)
    world, start = double_pendulum(), hung(angles, rates)

    @quick_jit
    def run(dt, t1):
        save = rb.SaveAt(every=1)
        sol = rb.simulate(
            world, start, stepped(dt, scheme), t1, save=save, max_steps=2000, throw=False
        )
        return sol, violations(world, sol.states), energies(world, sol.states)

    errors = []
    for dt in (0.01, 0.005, 0.0025):
        sol, broken, _ = run(dt, 1.0)
        assert sol.successful
        every = round(0.1 / dt)
        times = np.asarray(sol.ts)[: 10 * every + 1 : every]
        found = angle_of(sol.states)[: 10 * every + 1 : every]
        off = found - exact_double_pendulum(angles, rates, times)
        errors.append(np.abs((off + np.pi) % (2 * np.pi) - np.pi).max())
        assert broken.max() <= 1e-12
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    if scheme == "semi_explicit":  # of these steps its errors of the third order are the largest
        assert (ratios > 3.6).all()
    else:
        assert (np.abs(ratios - 4) < 0.4).all()
    sol, broken, energy = run(0.01, 20.0)
    assert sol.successful
    assert broken.max() <= 1e-12
    off = np.abs(energy - energy[0])
    assert off.max() <= (0.25 if scheme == "semi_explicit" else 600 * 0.01**2)


LENGTH, MASS, CART = 0.5, 1.0, 10.0


def on_a_cart(numbers, dt, scheme="variational", t1=0.6):
    """A box that slides on a plane and carries a rod that swings: its place, its speed, the angle
    and its rate at the end, by friction, the rod's mass, the speed and the angle at the start."""
    friction, mass, speed, angle = numbers
    none = jnp.zeros_like(speed)
    anchor = jnp.stack([none, none, none + LENGTH / 2])
    joint = rb.Hinge(1, axis=(0, 1, 0), anchor=anchor, other=0, other_anchor=(0, 0, 0.6))
    world = rb.World(
        [
            rb.RigidBody(rb.Box((0.2, 0.2, 0.1)), CART),
            rb.RigidBody(rb.Box((0.02, 0.02, LENGTH / 2)), mass),
        ],
        [rb.HalfSpace()],
        joints=[joint],
        contact_law=rb.Coulomb(friction, none),
    )
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    hangs = jnp.stack([-LENGTH / 2 * sine, none, 0.7 - LENGTH / 2 * cosine])
    turn = jnp.stack([jnp.cos(angle / 2), none, jnp.sin(angle / 2), none])
    still = jnp.zeros((2, 3), speed.dtype)
    start = rb.State(
        jnp.stack([jnp.stack([none, none, none + 0.1]), hangs]),
        jnp.stack([jnp.stack([none + 1, none, none, none]), turn]),
        still.at[:, 0].set(speed),
        still,
    )
    sol = rb.simulate(world, start, stepped(dt, scheme), t1, max_steps=200, throw=False)
    final = sol.final
    moves = jnp.stack([final.position[0, 0], final.velocity[0, 0]])
    swings = (rb.joint_coordinates(world, final), rb.joint_velocities(world, final))
    return jnp.concatenate([moves, *swings]), sol.result


def exactly_on_a_cart(numbers, t1=0.6):
    """By the equations of Lagrange while it slides forwards, pressed on the plane by all of it."""
    friction, mass, speed, angle = numbers
    arm = LENGTH / 2
    about = mass * ((LENGTH / 2) ** 2 / 3 + 0.02**2 / 3 + arm**2)

    def rate(_, y):
        sine, cosine, spin = np.sin(y[2]), np.cos(y[2]), y[3]
        equations = np.array(
            [
                [CART + mass, -mass * arm * cosine, friction],
                [-mass * arm * cosine, about, 0.0],
                [0.0, -mass * arm * sine, 1.0],
            ]
        )
        right = [
            -mass * arm * sine * spin**2,
            -mass * G * arm * sine,
            (CART + mass) * G + mass * arm * cosine * spin**2,
        ]
        found = np.linalg.solve(equations, right)
        return [y[1], found[0], spin, found[1]]

    start, accuracy = [0.0, speed, angle, 0.0], {"rtol": 1e-12, "atol": 1e-12}
    return solve_ivp(rate, (0, t1), start, "DOP853", **accuracy).y[:, -1]


SWINGING = np.array([0.2, 1.5, 2.0, 0.9])


@pytest.fixture(scope="module")
def cart():
    return quick_jit(on_a_cart)


@pytest.mark.long
def test_what_slides_may_carry_what_swings(cart):
    """To second order: friction and the joint are in one problem."""
    errors = []
    for dt in (0.02, 0.01, 0.005):
        found, result = cart(jnp.asarray(SWINGING), dt)
        assert result == rb.RESULTS.successful
        errors.append(np.abs(found - exactly_on_a_cart(SWINGING)).max())
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    assert (np.abs(ratios - 4) < 0.4).all()


@pytest.mark.long
def test_single_precision(cart):
    found, result = cart(jnp.asarray(SWINGING, jnp.float32), 0.01)
    assert result == rb.RESULTS.successful
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, cart(jnp.asarray(SWINGING), 0.01)[0], atol=1e-4)


@pytest.mark.long
def test_a_batch(cart):
    """Its worlds are those alone."""
    numbers = SWINGING * np.array([[1.0], [0.9], [1.2]])
    together, results = quick_jit(jax.vmap(on_a_cart, (0, None)))(numbers, 0.01)
    assert (results == rb.RESULTS.successful).all()
    alone = [cart(jnp.asarray(x), 0.01)[0] for x in numbers]
    np.testing.assert_allclose(together, np.stack(alone), rtol=0, atol=1e-11)


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["variational", "implicit"])
def test_derivatives_in_both_modes(scheme):
    """While it slides, by friction, mass, speed and angle."""

    def run(x):
        return on_a_cart(x, 0.02, scheme, 0.3)[0]

    expected = differences(quick_jit(run), SWINGING, step=1e-3)
    forward = quick_jit(jax.jacfwd(run))(SWINGING)
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-7)
    weights = jnp.asarray(np.random.default_rng(0).normal(size=4))
    reverse = quick_jit(jax.grad(lambda x: weights @ run(x)))(SWINGING)
    np.testing.assert_allclose(reverse, weights @ expected, rtol=0, atol=1e-7)


def chain(dt, t1, scheme="variational"):
    """A chain that flies: every kind of joint, with all that acts in joints, and no gravity."""
    bodies = [rb.RigidBody(rb.Box((0.1, 0.06, 0.04)), 1.0 + 0.3 * k) for k in range(6)]
    joints = [
        rb.Pin(1, (-0.1, 0, 0), other=0, other_anchor=(0.1, 0, 0)),
        rb.Hinge(2, (0, 1, 1), (-0.1, 0, 0), 1, (0.1, 0, 0), friction=0.02, damping=0.01),
        rb.Slider(3, (1, 0, 0), (-0.1, 0, 0), 2, (0.1, 0, 0), limits=(-0.01, 0.05), stiffness=30.0),
        rb.Weld(4, 3, (-0.1, 0, 0), (0.1, 0, 0)),
        rb.Distance(5, (-0.1, 0, 0), 0.1, 4, (0.1, 0, 0)),
    ]
    world = rb.World(bodies, joints=joints, forces=[rb.Motor(1, 0.2)], gravity=(0, 0, 0), pairs=[])
    position = np.zeros((6, 3))
    position[:, 0] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.1]
    turns = np.tile([1.0, 0, 0, 0], (6, 1))
    # It turns as a whole; the first body, which a pin holds, by itself too.
    spin, own = np.array([0.3, 0.5, 2.0]), np.array([2.0, -1.0, 0.5])
    velocity, rates = np.cross(spin, position), np.tile(spin, (6, 1))
    velocity[0] -= np.cross(own, [0.1, 0, 0])
    rates[0] += own
    start = rb.State(*(jnp.asarray(x) for x in (position, turns, velocity, rates)))
    save = rb.SaveAt(every=1)
    sol = rb.simulate(world, start, stepped(dt, scheme), t1, save=save, max_steps=100, throw=False)
    momenta = jax.vmap(
        lambda state: jnp.concatenate(
            [
                rb.linear_momentum(world, state),
                rb.angular_momentum(world, state, about=jnp.zeros(3)),
            ]
        )
    )(sol.states)
    coordinates = jax.vmap(lambda state: rb.joint_coordinates(world, state))(sol.states)
    return sol.result, momenta, violations(world, sol.states), coordinates


@pytest.mark.long
def test_every_joint_keeps_the_momentum_of_a_chain():
    """With springs, dampers, dry friction, a motor, and a limit that is hit."""
    result, momenta, broken, coordinates = quick_jit(chain)(0.01, 1.0)
    assert result == rb.RESULTS.successful
    assert broken.max() <= 1e-12
    np.testing.assert_allclose(momenta, momenta[:1] + 0 * momenta, rtol=0, atol=1e-12)
    assert 0.05 < coordinates[:, 1].max() < 0.06


def drawer(numbers, scheme="variational", dt=0.01):
    """The place and the speed at times of a drawer with dry friction, a stop and a motor, by its
    friction, the place of the stop, the force of the motor and the speed at the start."""
    friction, stop, force, speed = numbers
    body = rb.RigidBody(rb.Box((0.1, 0.2, 0.05)), mass=3.0)
    limits = jnp.stack([-jnp.ones_like(stop), stop])
    slider = rb.Slider(0, axis=(2, 0, 0), limits=limits, friction=friction)
    world = rb.World([body], [], joints=[slider], forces=[rb.Motor(0, force)])
    still = jnp.zeros((1, 3))
    start = rb.State(still, jnp.array([[1.0, 0, 0, 0]]), still.at[0, 0].set(speed), still)
    save = rb.SaveAt(every=1)
    sol = rb.simulate(world, start, stepped(dt, scheme), 1.0, save=save, throw=False)
    return sol.ts, sol.states.position[:, 0], sol.states.velocity[:, 0], sol.result


@pytest.mark.long
@pytest.mark.parametrize("scheme", ALL)
def test_a_drawer_stops_by_friction_and_at_its_stop(scheme):
    """After m v^2/(2 F) by friction, where steps meet the time of that; and pulled by a motor at
    its stop, beyond which it goes by no more than a step at its speed."""
    run = quick_jit(lambda numbers: drawer(numbers, scheme))
    t, place, speed, result = run(jnp.array([5.0, 10.0, 0.0, 1.0]))
    assert result == rb.RESULTS.successful
    t = np.minimum(np.asarray(t), 0.6)
    np.testing.assert_allclose(place[:, 0], t - 5.0 / 3.0 * t**2 / 2, rtol=0, atol=1e-12)
    np.testing.assert_allclose(place[:, 1:], 0.0, rtol=0, atol=1e-13)
    np.testing.assert_allclose(speed[-1], 0.0, rtol=0, atol=1e-12)
    t, place, speed, result = run(jnp.array([0.0, 0.4, 6.0, 0.0]))
    assert result == rb.RESULTS.successful
    flies = np.asarray(t) < np.sqrt(0.4)
    np.testing.assert_allclose(place[flies, 0], np.asarray(t)[flies] ** 2, rtol=0, atol=1e-12)
    assert 0 <= place[-1, 0] - 0.4 <= 0.01 * 2 * np.sqrt(0.4)
    np.testing.assert_allclose(place[-20:, 0], place[-1, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(speed[-20:], 0.0, rtol=0, atol=1e-11)


HINGE = 0.22
# The rod meets the plane 60 degrees from where it would hang.
MEETS = np.pi / 3


def struck_rod(restitution, dt, scheme="variational"):
    """A rod with round ends that is hinged at the upper one and falls on a plane with the other:
    the angle from where it would hang and its rate at all steps, and the force of the plane at the
    end."""
    rod = rb.RigidBody(rb.Capsule(0.02, 0.2), mass=1.0)
    hinge = rb.Hinge(0, axis=(0, 1, 0), anchor=(0, 0, 0.2), other_anchor=(0, 0, HINGE))
    law = rb.Frictionless(restitution)
    world = rb.World([rod], [rb.HalfSpace()], joints=[hinge], contact_law=law)
    still = jnp.zeros((1, 3))
    start = rb.State(
        jnp.array([[-0.2 * np.sin(1.7), 0, HINGE - 0.2 * np.cos(1.7)]]),
        jnp.array([[np.cos(0.85), 0, np.sin(0.85), 0]]),
        still,
        still,
    )
    method = stepped(dt, scheme)
    sol = rb.simulate(
        world, start, method, 400 * dt, save=rb.SaveAt(every=1), max_steps=400, throw=False
    )
    angle = jax.vmap(lambda state: rb.joint_coordinates(world, state)[0])(sol.states)
    rate = jax.vmap(lambda state: rb.joint_velocities(world, state)[0])(sol.states)
    forces = rb.contact_forces(world, sol.final, method)
    return sol.result, sol.ts, angle, rate, forces.force.sum(0), violations(world, sol.states)


def exactly_struck_rod(restitution, t1):
    """By the equation of the pendulum, and Newton's law at the angle where it hits."""
    rod = rb.RigidBody(rb.Capsule(0.02, 0.2), mass=1.0)
    about = float(rod.inertia_matrix()[1, 1]) + 0.2**2

    def hits(_, y):
        return y[0] - MEETS

    hits.terminal, hits.direction = True, -1
    t, y = 0.0, [1.7, 0.0]
    while t < t1:
        found = solve_ivp(
            lambda _, y: [y[1], -G * 0.2 * np.sin(y[0]) / about],
            (t, t1),
            y,
            "DOP853",
            events=hits,
            rtol=1e-12,
            atol=1e-12,
        )
        t, y = found.t[-1], [max(found.y[0, -1], MEETS), -restitution * found.y[1, -1]]
    return found.y[:, -1]


@pytest.mark.long
@pytest.mark.parametrize("scheme", ALL)
def test_a_hinged_rod_bounces_and_comes_to_rest(scheme):
    """Late by less than a step, which makes up for the 9 rad/s by which the rate jumps; at rest the
    plane bears the half of its weight, and the hinge the other."""
    run = quick_jit(lambda restitution, dt: struck_rod(restitution, dt, scheme))
    for dt in (0.002, 0.001, 0.0005):
        _, ts, angle, rate, _, broken = run(0.5, dt)
        k = round(0.2 / dt)
        assert abs(ts[k] - 0.2) < 1e-12
        assert broken.max() <= 1e-12
        error = np.abs([angle[k], rate[k]] - exactly_struck_rod(0.5, 0.2))
        assert (error <= np.array([9.0, 60.0]) * dt).all()
    result, ts, angle, rate, force, _ = run(0.5, 0.01)
    assert result == rb.RESULTS.successful
    assert (np.asarray(angle) - MEETS).min() > -0.2
    np.testing.assert_allclose(rate[-100:], 0.0, rtol=0, atol=1e-11)
    np.testing.assert_allclose(angle[-100:], angle[-1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(force, [G / 2, 0, 0], rtol=0, atol=1e-8)


@pytest.mark.parametrize("scheme", ["variational", *THETA])
def test_a_box_stays_on_the_ground_while_its_flap_falls(scheme):
    """The box slides and the flap weighs it down. By less than h^2 g/100: to put joints right moves
    bodies off what they lie on, by h^3, and a box that were then let go would fall by h^2 g/2."""
    steps, dt = 13, 0.01
    box = rb.RigidBody(rb.Box((0.1, 0.1, 0.1)), 1.0)
    flap = rb.RigidBody(rb.Box((0.1, 0.05, 0.05)), 0.3)
    hinge = rb.Hinge(0, (0, 1, 0), (0.1, 0, 0.05), 1, (-0.15, 0, 0))
    law = rb.Coulomb(0.2, 0.0)
    ground = [rb.HalfSpace()]
    world = rb.World([box, flap], ground, [hinge], gravity=(0, 0, -G), contact_law=law)
    velocity = jnp.zeros((2, 3)).at[:, 0].set(1.5)
    place = jnp.array([[0, 0, 0.1], [0.25, 0, 0.15]])
    start = rb.State(place, jnp.eye(1, 4).repeat(2, 0), velocity, jnp.zeros((2, 3)))
    save = rb.SaveAt(every=1)
    sol = rb.simulate(
        world, start, stepped(dt, scheme), steps * dt, max_steps=steps, save=save, throw=False
    )
    assert sol.successful
    height = sol.states.position[..., 2]
    assert height[-1, 1] < 0.1  # the flap falls, and has not landed
    np.testing.assert_allclose(height[:, 0], 0.1, atol=dt**2 * G / 100)


def test_a_ball_bounces_beside_what_turns_fast_as_beside_what_rests():
    """By what puts the fast rod right, which leaves gaps open by 1e-4 m and more, no contact counts
    as closed but of what lasts."""
    rod = rb.RigidBody(rb.Box((0.2, 0.02, 0.02)), 1.0)
    hinge = rb.Hinge(1, (0, 1, 0), (0.2, 0, 0), None, (5.0, 0, 3.0))
    world = rb.World(
        [rb.RigidBody(rb.Sphere(0.1), 1.0), rod],
        [rb.HalfSpace()],
        [hinge],
        gravity=(0, 0, -G),
        contact_law=rb.Coulomb(0.2, 1.0),
    )

    def bounced(rate, height):
        zero = jnp.zeros((2, 3))
        place = zero.at[0, 2].set(height).at[1].set(jnp.array([4.8, 0, 3.0]))
        velocity, spin = zero.at[1, 2].set(0.2 * rate), zero.at[1, 1].set(rate)
        start = rb.State(place, jnp.eye(1, 4).repeat(2, 0), velocity, spin)
        method = stepped(0.01, "implicit")
        sol = rb.simulate(world, start, method, 3.0, max_steps=300, throw=False)
        return sol.final.position[0, 2], sol.successful

    many = jax.vmap(jax.vmap(bounced, (None, 0)), (0, None))
    height, successful = quick_jit(many)(jnp.array([0.0, 30.0]), jnp.linspace(0.3, 0.7, 64))
    assert successful.all()
    np.testing.assert_allclose(height[1], height[0], atol=1e-12)


def test_a_start_off_its_joints_is_a_code():
    world, start = double_pendulum(), hung((1.2, -0.4), (0.5, 2.0))
    apart = eqx.tree_at(lambda state: state.position, start, start.position + 0.1)
    sol = rb.simulate(world, apart, stepped(0.01), 0.1, throw=False)
    assert sol.result == rb.RESULTS.joint_violated
