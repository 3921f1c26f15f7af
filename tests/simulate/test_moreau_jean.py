"""Steps with impacts in them: conservation, closed forms, equations of the schemes, derivatives."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences, quick_jit, slope

import jaxrb as rb

G = 9.81
HALF = np.array([0.3, 0.2, 0.1])
TURN = np.array([0.9, 0.3, -0.2, 0.25]) / np.linalg.norm([0.9, 0.3, -0.2, 0.25])
TUMBLING = np.array([0, 0, 0.5, *TURN, 0.3, 0.2, 0.1, 2, -3, 4])
LYING = np.array([0, 0, 0.1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
SCHEMES = ["variational", "implicit", "nearly_implicit", "semi_explicit"]


def stepped(dt, scheme="variational", **options):
    return rb.MoreauJean(dt, scheme=scheme, impacts="stepped", **options)


def state_of(x):
    """A state of position, quaternion, velocity and angular velocity in one array."""
    x = jnp.asarray(x)
    return rb.State(x[None, :3], x[None, 3:7], x[None, 7:10], x[None, 10:])


def array_of(state):
    parts = (state.position, state.quaternion, state.velocity, state.angular_velocity)
    return jnp.concatenate([part[0] for part in parts])


def box_world(friction, restitution, normal=(0.0, 0.0, 1.0), mass=1.5):
    return rb.World(
        [rb.RigidBody(rb.Box(HALF), mass)],
        [rb.HalfSpace(normal)],
        contact_law=rb.Coulomb(friction, restitution),
    )


def box_program(scheme, theta=0.5):
    """The end of a box's run: its state, the energy, the least gap and the evaluations."""

    def run(x, law, normal, dt, t1):
        world, state = box_world(*law, normal), state_of(x)
        method = stepped(dt, scheme, theta=theta, penetration=0.1)
        sol = rb.simulate(world, state, method, t1, max_steps=1000, throw=False)
        lowest = jnp.min(rb.gaps(world, sol.final))
        return sol.result, array_of(sol.final), rb.energy(world, sol.final), lowest

    program = quick_jit(run)

    def call(x, law, dt, steps, normal=(0.0, 0.0, 1.0)):
        law = [jnp.asarray(number, float) for number in law]
        result, *found = program(jnp.asarray(x), law, jnp.asarray(normal), dt, steps * dt)
        assert result == rb.RESULTS.successful
        return [np.asarray(number) for number in found]

    return call


@pytest.fixture(scope="module")
def box():
    return box_program("variational")


@pytest.mark.slow
def test_free_flight_keeps_energy_and_momentum():
    """Over 2000 steps and about 80 turns."""
    world = rb.World([rb.RigidBody(rb.Box(HALF), 1.5)])
    start = state_of(TUMBLING)
    final = rb.simulate(world, start, stepped(0.01), 20.0).final
    energies = [rb.energy(world, state) for state in (start, final)]
    # It falls 2 km: the energy is a difference of numbers that are so large.
    large = rb.kinetic_energy(world, final)
    np.testing.assert_allclose(energies[1], energies[0], rtol=0, atol=1e-12 * large)
    np.testing.assert_allclose(
        rb.angular_momentum(world, final, about=final.position[0]),
        rb.angular_momentum(world, start, about=start.position[0]),
        rtol=1e-12,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("theta", "order"), [(0.5, 2), (1.0, 1)])
def test_order_in_free_flight(theta, order):
    """Against the closed form of Euler's rotation."""
    world = rb.World([rb.RigidBody(rb.Box(HALF), 1.5)])
    start = state_of(TUMBLING)
    exact = array_of(rb.simulate(world, start, rb.EventDriven(rb.ExactFlight(), None), 0.5).final)
    sizes = [0.02, 0.01, 0.005, 0.0025]

    def end(dt):
        method = stepped(dt, "implicit", theta=theta)
        return array_of(rb.simulate(world, start, method, 0.5, max_steps=300).final)

    errors = [np.max(np.abs(jax.jit(end)(dt) - exact)) for dt in sizes]
    assert abs(slope(sizes, errors) - order) < 0.1


@pytest.mark.long
@pytest.mark.parametrize("law", [(0.3, 0.5), *before_releases(((0.3, 0.0),), ((0.0, 0.9),))])
def test_energy_never_grows(box, law):
    """A box thrown on a corner; with any restitution (bounces add round-off of the solver)."""
    energies = np.array([box(TUMBLING, law, 0.005, k)[1] for k in range(0, 200)])
    assert np.max(np.diff(energies)) < 1e-12
    assert energies[-1] < energies[0] - 0.5


@pytest.mark.slow
def test_what_rests_does_not_drift(box):
    x, *_ = box(LYING, (0.5, 0.0), 0.005, 1000)
    np.testing.assert_allclose(x[:7], LYING[:7], rtol=0, atol=1e-13)
    np.testing.assert_allclose(x[7:], 0, atol=1e-12)


def inclined(angle):
    """A box on an incline and its normal."""
    normal = np.array([np.sin(angle), 0, np.cos(angle)])
    turn = (np.cos(angle / 2), 0, np.sin(angle / 2), 0)
    return np.array([*(0.1 * normal), *turn, *np.zeros(6)]), normal


@pytest.mark.slow
def test_stick_and_slip_on_an_incline(box):
    """Friction a millionth above the slope holds, one below it does not."""
    angle = 0.4
    start, normal = inclined(angle)
    slope = np.tan(angle)
    stuck, *_ = box(start, (slope + 1e-6, 0.0), 0.005, 100, normal)
    # The solver stops at 1e-10 of the velocity that gravity gives in a step, at the latest.
    assert np.linalg.norm(stuck[7:10]) < 1e-10 * G * 0.005
    slid, *_ = box(start, (slope - 1e-6, 0.0), 0.005, 100, normal)
    acceleration = G * (np.sin(angle) - (slope - 1e-6) * np.cos(angle))
    np.testing.assert_allclose(np.linalg.norm(slid[7:10]), 0.5 * acceleration, rtol=0, atol=1e-11)


def test_a_sliding_box_stops(box):
    """At v^2/(2 mu g), to the first order in the step."""
    speed, friction = 1.0, 0.3
    start = LYING.copy()
    start[7] = speed
    for dt in (0.01, 0.005):
        x, *_ = box(start, (friction, 0.0), dt, round(0.5 / dt))
        np.testing.assert_allclose(x[7:], 0, atol=1e-12)
        assert abs(x[0] - speed**2 / (2 * friction * G)) < 0.5 * friction * G * dt**2


CORNERS = HALF * np.array(list(product((-1, 1), repeat=3)))


def rotation(q):
    w, x, y, z = q
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def jacobian(x, corner):
    """Of the velocity of a corner, by velocity and angular velocity in the body's frame."""
    turn = rotation(x[3:7])
    return np.hstack([np.eye(3), -turn @ hat(corner)])


def hat(a):
    """The matrix of a x."""
    return np.cross(np.eye(3), a)


def test_jacobian_of_the_test():
    omega = np.array([1.0, 2, 3])
    found = jacobian(TUMBLING, CORNERS[1])[:, 3:] @ omega
    np.testing.assert_allclose(found, rotation(TURN) @ np.cross(omega, CORNERS[1]))


@pytest.mark.long
@pytest.mark.parametrize(
    ("scheme", "theta"),
    [("implicit", 0.8), *before_releases(("nearly_implicit", 0.5), ("semi_explicit", 0.7))],
)
def test_the_steps_satisfy_the_equations_of_the_notes(scheme, theta):
    """(Moreau--Jean-theta) and its variants, corrected, evaluated in NumPy at what came out.

    What the equations of motion leave over is the impulse of the one corner that hits; it acts
    where the scheme says, and obeys Newton's law and Coulomb's.
    """
    dt, law, mass = 0.005, (0.3, 0.5), 1.5
    a, b, c = HALF**2 / 3
    inertia = mass * np.array([b + c, a + c, a + b])
    m = np.diag([mass] * 3 + list(inertia))
    corner = CORNERS[0]
    turn = np.array([0.8, 0.3, -0.45, 0.1]) / np.linalg.norm([0.8, 0.3, -0.45, 0.1])
    low = np.argmin((rotation(turn) @ CORNERS.T)[2])
    corner = CORNERS[low]
    depth = (rotation(turn) @ corner)[2]
    x = np.array([0, 0, 1e-3 - depth, *turn, 0.3, 0.2, -1.0, 2, -3, 4])
    end, *_ = box_program(scheme, theta)(x, law, dt, 1)

    def force(x):
        return np.array([0, 0, -mass * G, *-np.cross(x[10:], inertia * x[10:])])

    later = end if scheme != "semi_explicit" else x
    mean = theta * force(later) + (1 - theta) * force(x)
    impulse = m @ (end[7:] - x[7:]) - dt * mean
    # Position: the group's exponential of the mean velocity.
    v = (1 - theta) * x[7:] + theta * end[7:]
    np.testing.assert_allclose(end[:3], x[:3] + dt * v[:3], rtol=0, atol=1e-14)
    power, turned = np.eye(3), np.eye(3)
    for k in range(1, 12):
        power = power @ hat(dt * v[3:]) / k
        turned = turned + power
    np.testing.assert_allclose(rotation(end[3:7]), rotation(x[3:7]) @ turned, rtol=0, atol=1e-14)
    place = jacobian(end if scheme == "implicit" else x, corner)
    p = impulse[:3]
    np.testing.assert_allclose(place.T @ p, impulse, rtol=0, atol=1e-11)
    before, after = jacobian(x, corner) @ x[7:], place @ end[7:]
    np.testing.assert_allclose(after[2], -law[1] * before[2], rtol=0, atol=1e-11)
    slip = np.linalg.norm(after[:2])
    assert p[2] > 1
    if slip > 1e-9:
        np.testing.assert_allclose(p[:2], -law[0] * p[2] * after[:2] / slip, atol=1e-10)
    else:
        assert np.linalg.norm(p[:2]) <= law[0] * p[2]


@pytest.mark.slow
def test_two_balls_hit_by_newtons_and_coulombs_laws():
    """In the air, in a step, along the line between their centres half way through it."""
    mass, radius, mu, e, h = np.array([1.0, 3.0]), np.array([0.1, 0.2]), 0.1, 0.6, 0.01
    bodies = [rb.RigidBody(rb.Sphere(r), m) for r, m in zip(radius, mass, strict=True)]
    world = rb.World(bodies, gravity=(0.0, 0.0, 0.0), contact_law=rb.Coulomb(mu, e))
    start = rb.State(
        jnp.array([[0.0, 0, 0], [0.5, 0.1, 0]]),
        jnp.tile(jnp.array([1.0, 0, 0, 0]), (2, 1)),
        jnp.array([[1.0, 0, 0], [-1, 0, 0]]),
        jnp.array([[0.0, 30, 10], [10, 0, 20]]),
    )
    every = rb.SaveAt(every=1)
    sol = quick_jit(lambda s: rb.simulate(world, s, stepped(h), 0.4, save=every, throw=False))(
        start
    )
    v = np.asarray(sol.states.velocity)
    (jump,) = np.flatnonzero(np.abs(np.diff(v[:, 0], axis=0)).max(axis=1) > 1e-9)
    x = np.asarray(sol.states.position[jump]) + h / 2 * v[jump]
    apart = np.linalg.norm(x[0] - x[1])
    n = (x[0] - x[1]) / apart
    # They act on each other at the middle of the depth to which they have met.
    arm = radius + (apart - radius.sum()) / 2
    # Angular velocities of balls are constant in the world between impacts.
    turns = np.asarray(sol.states.rotation_matrix)
    omega = np.einsum("tbij,tbj->tbi", turns, np.asarray(sol.states.angular_velocity))

    def slip(k):
        """The velocity of the first ball at the contact, relative to the second."""
        first, second = (
            v[k, body] + np.cross(omega[k, body], sign * arm[body] * n)
            for body, sign in ((0, -1), (1, 1))
        )
        return first - second

    before, after = slip(jump), slip(jump + 1)
    np.testing.assert_allclose(after @ n, -e * (before @ n), atol=1e-12)
    impulse = mass[:, None] * (v[jump + 1] - v[jump])
    np.testing.assert_allclose(impulse[0], -impulse[1], atol=1e-12)
    # It slides on, and friction is against where it slides.
    along = after - (after @ n) * n
    assert np.linalg.norm(along) > 0.1
    pressure = impulse[0] @ n
    friction = -mu * pressure * along / np.linalg.norm(along)
    np.testing.assert_allclose(impulse[0] - pressure * n, friction, atol=1e-11)
    inertia = 0.4 * mass * radius**2
    for body, sign in ((0, -1), (1, 1)):
        torque = np.cross(sign * arm[body] * n, impulse[body])
        turned = inertia[body] * (omega[jump + 1, body] - omega[jump, body])
        np.testing.assert_allclose(turned, torque, atol=1e-12)


def rolled(numbers, dt=0.01, impacts="stepped", scheme="variational", t1=0.6):
    """A sphere that slides, then rolls, by speed, friction, mass and radius."""
    speed, friction, mass, radius = numbers
    world = rb.World(
        [rb.RigidBody(rb.Sphere(radius), mass)],
        [rb.HalfSpace()],
        contact_law=rb.Coulomb(friction, 0.0),
    )
    zero = 0 * speed
    start = rb.State(
        jnp.stack([zero, zero, radius])[None],
        jnp.array([[1.0, 0, 0, 0]]),
        jnp.stack([speed, zero, zero])[None],
        jnp.zeros((1, 3)),
    )
    method = rb.MoreauJean(dt, scheme=scheme, impacts=impacts)
    final = rb.simulate(world, start, method, t1, throw=False).final
    return jnp.concatenate([final.position[0], final.velocity[0], final.angular_velocity[0]])


@pytest.mark.long
@pytest.mark.parametrize("scheme", [*before_releases("variational"), "implicit"])
def test_derivatives_of_rolling_in_both_modes(scheme):
    """Through sliding and sticking. The step in which the slip ends stays the same one."""
    numbers = np.array([1.0, 0.3, 1.2, 0.1])
    run = lambda x: rolled(x, scheme=scheme)  # noqa: E731
    expected = differences(quick_jit(run), numbers, step=1e-4)
    forward = quick_jit(jax.jacfwd(run))(numbers)
    reverse = quick_jit(jax.jacrev(run))(numbers)
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-7)
    np.testing.assert_allclose(reverse, expected, rtol=0, atol=1e-7)


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["variational", *before_releases("implicit")])
def test_derivatives_of_a_box(scheme):
    """It slides and spins on four corners, by friction, mass, speed, spin; and a box thrown on a
    corner, through the impact, with the steps as they are."""

    def run(numbers, start, steps):
        friction, mass, speed, spin = numbers
        world = box_world(friction, jnp.zeros(()), mass=mass)
        x = start.at[7].add(speed).at[12].add(spin)
        sol = rb.simulate(
            world,
            state_of(x),
            stepped(0.005, scheme, penetration=0.1),
            steps * 0.005,
            max_steps=200,
            throw=False,
        )
        return array_of(sol.final)

    numbers, along = np.array([0.3, 1.2, 0.7, 0.5]), np.array([0.3, -0.5, 0.8, 0.6])
    moved = lambda s, start, steps: run(numbers + s * along, start, steps)  # noqa: E731
    program = quick_jit(moved)
    forward = quick_jit(jax.jacfwd(moved))
    for start, steps in ((LYING, 30), (TUMBLING, 60)):
        f = lambda s, start=start, steps=steps: program(s, jnp.asarray(start), steps)  # noqa: E731
        expected = differences(f, np.zeros(()), step=1e-4)
        found = forward(jnp.zeros(()), jnp.asarray(start), steps)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.max(np.abs(expected)))


@pytest.mark.slow
def test_one_bounce():
    """dz(T)/dz0 of one elastic bounce is -1; that of steps with the impact in them is +1."""

    def height(z0, method):
        world = rb.World([rb.RigidBody(rb.Sphere(0.1))], [rb.HalfSpace()], gravity=(0.0, 0, 0))
        zero = 0 * z0
        start = rb.State(
            jnp.stack([zero, zero, z0])[None],
            jnp.array([[1.0, 0, 0, 0]]),
            jnp.array([[0.0, 0.0, -1.0]]),
            jnp.zeros((1, 3)),
        )
        return rb.simulate(world, start, method, 0.8, throw=False).final.position[0, 2]

    for method, expected in ((rb.MoreauJean(0.01), -1), (stepped(0.01), 1)):
        slope = quick_jit(jax.grad(lambda z, method=method: height(z, method)))(0.5)
        np.testing.assert_allclose(slope, expected, rtol=0, atol=1e-8)


def test_located_is_event_driven():
    """A box in both: the same method, by its own name."""
    world = box_world(jnp.array(0.3), jnp.array(0.2))
    located = rb.MoreauJean(0.01).chosen(world)
    assert isinstance(located, rb.EventDriven)
    assert located.on_zeno == "rest"
    assert isinstance(located.flow, rb.LieVariational)


@pytest.mark.long
def test_batches_and_single_precision():
    """Worlds of a batch are those alone; float32 is near float64."""
    speeds = np.linspace(0.2, 1.4, 4)

    def run(speed):
        x = jnp.asarray(LYING, speed.dtype).at[7].set(speed).at[12].set(speed)
        friction, none = jnp.asarray(0.3, speed.dtype), jnp.zeros((), speed.dtype)
        sol = rb.simulate(box_world(friction, none), state_of(x), stepped(0.005), 0.3, throw=False)
        return sol.result, array_of(sol.final)

    program = quick_jit(run)
    result, together = quick_jit(jax.vmap(run))(jnp.asarray(speeds))
    assert np.all(result == rb.RESULTS.successful)
    alone = np.stack([program(jnp.asarray(speed))[1] for speed in speeds])
    # A problem counts as solved at 1e-10 of the velocity that gravity gives in a step, 5e-12 m/s.
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-11)
    result, coarse = program(jnp.asarray(speeds[2], jnp.float32))
    assert result == rb.RESULTS.successful
    assert coarse.dtype == jnp.float32
    np.testing.assert_allclose(coarse, alone[2], rtol=0, atol=2e-4)


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"theta must lie in \[1/2, 1\]; got 0.4"):
        rb.MoreauJean(0.01, theta=0.4, scheme="implicit")
    with pytest.raises(ValueError, match=r"theta must lie in \[1/2, 1\]"):
        rb.MoreauJean(0.01, theta=1.1, scheme="implicit")
    with pytest.raises(ValueError, match="theta"):
        rb.MoreauJean(0.01, theta=0.7)
    with pytest.raises(ValueError, match="scheme"):
        rb.MoreauJean(0.01, scheme="explicit")
    with pytest.raises(ValueError, match="impacts"):
        rb.MoreauJean(0.01, impacts="sometimes")
    with pytest.raises(ValueError, match='impacts="located" needs scheme="variational"'):
        rb.MoreauJean(0.01, scheme="implicit", impacts="located")
    with pytest.raises(ValueError, match="dt"):
        rb.MoreauJean(None)
    with pytest.raises(ValueError, match="dt"):
        rb.MoreauJean(-0.01)
    with pytest.raises(ValueError, match="residual must be positive"):
        rb.MoreauJean(0.01, impacts="stepped", residual=0.0)
    with pytest.raises(ValueError, match='residual is of impacts="stepped"'):
        rb.MoreauJean(0.01, residual=1e-3)
    with pytest.raises(ValueError, match="tolerance must be positive"):
        rb.MoreauJean(0.01, tolerance=0.0)
    with pytest.raises(ValueError, match="max_iterations"):
        rb.MoreauJean(0.01, max_iterations=0)
    with pytest.raises(ValueError, match="penetration must not be negative"):
        rb.MoreauJean(0.01, penetration=-1.0)


def test_worlds_that_steps_do_not_know():
    bodies = [rb.RigidBody(rb.Sphere(0.1))]
    start = rb.State(
        jnp.array([[0.0, 0, 1]]), jnp.array([[1.0, 0, 0, 0]]), jnp.zeros((1, 3)), jnp.zeros((1, 3))
    )
    rough = rb.World(bodies, [rb.HalfSpace()], contact_law=rb.Rough())
    with pytest.raises(ValueError, match="Rough"):
        rb.simulate(rough, start, stepped(0.01), 0.1)
