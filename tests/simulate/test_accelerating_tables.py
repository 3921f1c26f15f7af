"""Bodies on tables that accelerate, in steps with impacts in them: closed forms.

What rests has the velocity of the table, and its gap is what the rule by which places follow leaves
of the displacement: of order 2 in the step h, with the constant (theta (1 - theta))/2 - 1/24 of the
change of the table's acceleration, which is 1/12 for theta = 1/2 and for the variational scheme.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences, quick_jit
from scipy.optimize import brentq

import jaxrb as rb

G, RADIUS = 9.81, 0.1
UPRIGHT = (1.0, 0.0, 0.0, 0.0)
BALL = rb.RigidBody(rb.Sphere(RADIUS), 0.7)
BOX = rb.RigidBody(rb.Box((0.3, 0.2, RADIUS)), 1.3)
# Of a table that never accelerates by more than g.
AMPLITUDE, RATE = 0.02, 8.0
EVERY = [
    (scheme, theta, projection)
    for scheme, theta in (
        ("implicit", 0.5),
        ("implicit", 1.0),
        ("nearly_implicit", 0.5),
        ("nearly_implicit", 1.0),
        ("semi_explicit", 0.5),
        ("semi_explicit", 1.0),
    )
    for projection in (False, True)
]


def stepped(dt, scheme="variational", theta=0.5, **options):
    return rb.MoreauJean(dt, theta=theta, scheme=scheme, impacts="stepped", **options)


def waves(numbers, t):
    """How far a table has gone that swings, by its amplitude [m], its rate and its phase."""
    amplitude, rate, phase = numbers
    return amplitude * jnp.sin(rate * t + phase)


def rates(numbers, t):
    amplitude, rate, phase = numbers
    return amplitude * rate * jnp.cos(rate * t + phase)


def on_table(body, axis, law, way=waves):
    """A world of a body on a table that moves along an axis."""

    def motion(t, args):
        return way(args, t) * jnp.asarray(axis, t.dtype), jnp.asarray(UPRIGHT, t.dtype)

    return rb.World([body], [rb.Moving(rb.HalfSpace(), motion)], contact_law=law)


def resting(numbers, axis, height=RADIUS):
    """The state of a body on that table that moves with it."""
    axis = jnp.asarray(axis, numbers.dtype)
    place = waves(numbers, 0.0) * axis + jnp.array([0, 0, height], numbers.dtype)
    upright = jnp.asarray([UPRIGHT], numbers.dtype)
    still = jnp.zeros((1, 3), numbers.dtype)
    return rb.State(place[None], upright, (rates(numbers, 0.0) * axis)[None], still)


def relative(numbers, sol, axis):
    """Places and velocities of the body over those of the table."""
    axis = jnp.asarray(axis, numbers.dtype)[None]
    place = sol.states.position[:, 0].at[:, 2].add(-RADIUS)
    gap = place - waves(numbers, sol.ts)[:, None] * axis
    return gap, sol.states.velocity[:, 0] - rates(numbers, sol.ts)[:, None] * axis


def shaken(body, axis, options, end, friction=0.5):
    """A function of the numbers of the table, e and dt, which is compiled once: whether the run was
    successful, times, and how the body is and moves relative to the table."""

    def run(numbers, restitution, dt):
        world = on_table(body, axis, rb.Coulomb(friction, restitution))
        method, save = stepped(dt, **options), rb.SaveAt(every=1)
        start = resting(numbers, axis)
        given = {"args": numbers, "max_steps": 400, "throw": False}
        sol = rb.simulate(world, start, method, end, save=save, **given)
        return sol.successful, sol.ts, *relative(numbers, sol, axis)

    compiled = quick_jit(run)

    def found(numbers, restitution, dt):
        done, ts, *others = map(np.asarray, compiled(*map(jnp.asarray, (numbers, restitution, dt))))
        assert done
        return tuple(values[np.isfinite(ts)] for values in (ts, *others))

    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "theta", "projection"),
    [
        ("variational", 0.5, False),
        ("variational", 0.5, True),
        *before_releases(*EVERY),
    ],
)
def test_a_ball_rests_on_a_table_that_swings(scheme, theta, projection):
    """Let go where it is in the middle or at the top, for two periods and a shorter last step."""
    options = {"scheme": scheme, "theta": theta, "projection": projection}
    run = shaken(BALL, (0, 0, 1), options, 1.603)
    largest = AMPLITUDE * RATE**2  # of the acceleration; times the rate, of its change
    part = abs(0.5 * theta * (1 - theta) - 1 / 24)
    for phase in (0.0, 0.5 * np.pi):
        for restitution in (0.0, 0.5):
            worst = []
            for dt in (0.01, 0.005):
                numbers = np.array([AMPLITUDE, RATE, phase])
                _, gap, speed = run(numbers, restitution, dt)
                # What a step opens is closed by half at least in the next one. One that differs
                # from the one before it, as the first and the last, leaves with theta = 1 what the
                # velocities of both differ by.
                once = 0.5 * (theta - 0.5) * largest * dt**2
                opened = 2 * part * largest * RATE * dt**3 + once + 1e-14
                deep = opened if projection else 2 * part * largest * dt**2 + opened
                assert gap[:, 2].max() <= opened and gap[:, 2].min() >= -deep
                if projection:
                    assert gap[:, 2].min() >= -1e-14
                late = 2 * (theta - 0.5) * largest * dt
                assert np.abs(speed[:, 2]).max() <= 1.1 * late + part * largest * RATE * dt**2 * 1.2
                worst.append((-gap[:, 2].min(), np.abs(speed[:, 2]).max()))
            order = np.log2(np.array(worst[0]) / np.array(worst[1]))
            np.testing.assert_allclose(order[1], 1 if theta > 0.5 else 2, atol=0.15)
            if not projection and theta == 0.5:
                np.testing.assert_allclose(order[0], 2, atol=0.1)
            elif not projection:  # of order 2, and of order 3 with what the first step leaves
                assert order[0] > 1.9


@pytest.mark.parametrize(("scheme", "theta"), [("variational", 0.5), ("nearly_implicit", 1.0)])
def test_the_force_on_what_rests(scheme, theta):
    """m (g + a), in the mean over the step, while the table goes down faster and faster; with
    theta = 1 of the velocities half a step earlier. What moves with the table sticks."""
    numbers, axis, dt = jnp.array([AMPLITUDE, RATE, 0.3]), (0, 0, 1), 0.01
    begun = -(theta - 0.5) * dt
    before, after = (rates(numbers, t) for t in (begun, begun + dt))
    start = resting(numbers, axis)
    velocity = before * jnp.asarray([axis], float)
    start = eqx.tree_at(lambda state: state.velocity, start, velocity)
    world, method = on_table(BALL, axis, rb.Coulomb(0.5, 0.3)), stepped(dt, scheme, theta)
    found = quick_jit(lambda: rb.contact_forces(world, start, method, args=numbers))()
    assert found.solved and (np.asarray(found.mode)[np.asarray(found.gap) < 1e-9] == 1).all()
    push = 0.7 * (float(after - before) / dt + G)
    np.testing.assert_allclose(found.vector[0], [0, 0, push], rtol=1e-9, atol=1e-9)


def flight(numbers, dt):
    """When what lies on the table leaves it, and when it is back."""
    amplitude, rate, phase = numbers
    leaves = (np.arcsin(G / (amplitude * rate**2)) - phase) / rate
    height, speed = (float(f(numbers, leaves)) for f in (waves, rates))
    over = lambda s: height + speed * s - G * s * s / 2 - float(waves(numbers, leaves + s))  # noqa: E731
    grid = np.arange(dt, 1.0, 1e-4)
    back = next(s for s in grid if over(s) > 0 and over(s + 1e-4) <= 0)
    return leaves, leaves + brentq(over, back, back + 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "theta", "projection"),
    [
        ("variational", 0.5, False),
        *before_releases(("implicit", 0.5, True), ("implicit", 1.0, False)),
    ],
)
def test_a_ball_takes_off_where_the_table_falls_faster(scheme, theta, projection):
    """And lands again, within a step of the closed form."""
    options = {"scheme": scheme, "theta": theta, "projection": projection}
    run, numbers = shaken(BALL, (0, 0, 1), options, 0.4), np.array([0.02, 32.0, 0.0])
    for dt in (0.002, 0.001):
        leaves, back = flight(numbers, dt)
        ts, gap, _ = run(numbers, 0.0, dt)
        early = ts <= leaves - dt
        assert np.abs(gap[early, 2]).max() <= 0.02 * 32.0**2 * dt**2
        # Up to its take-off plus two steps, it is open by no more than the jerk makes of it.
        flies = (ts > leaves + dt) & (ts < back - dt)
        assert flies.sum() > 30 and (gap[flies, 2] > -0.02 * 32.0**2 * dt**2).all()
        start = leaves + 3 * dt
        assert (gap[(ts > start) & (ts < back - dt), 2] > 1e-8).all()
        # It has landed as deep as it comes in half of a step or a whole one.
        s = back - leaves
        speed = float(rates(numbers, leaves)) - G * s - float(rates(numbers, back))
        landed = (ts > back + dt) & (ts < back + 3 * dt)
        assert (gap[landed, 2] <= 1e-5).all() and (gap[landed, 2] >= 1.2 * speed * dt).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "theta"),
    [("variational", 0.5), *before_releases(("implicit", 0.5), ("implicit", 1.0))],
)
def test_a_box_is_carried_sideways(scheme, theta):
    """By friction, if it need not accelerate by more than mu g: with the velocity of the table to
    round-off, of theta = 1 with the one half of a step before."""
    axis, dt = (1, 0, 0), 0.01
    run = shaken(BOX, axis, {"scheme": scheme, "theta": theta}, 0.8)
    numbers = np.array([0.05, RATE, 0.0])  # up to 3.2 m/s^2 of 4.9
    largest = 0.05 * RATE**2
    ts, gap, speed = run(numbers, 0.0, dt)
    late = rates(numbers, ts - (theta - 0.5) * dt) - rates(numbers, ts)
    # The first step of theta = 1 begins with the velocity of the table, not with that before.
    np.testing.assert_allclose(speed[1:, 0], late[1:], rtol=0, atol=1e-10)
    part = abs(0.5 * theta * (1 - theta) - 1 / 24)
    assert np.abs(gap[:, 0]).max() <= (2 * part + theta - 0.5) * largest * dt**2
    assert np.abs(gap[:, 1:]).max() <= 1e-9


@pytest.mark.slow
def test_a_box_slides_on_a_table_that_accelerates_more():
    """With mu g, whatever the table does."""
    pull = lambda numbers, t: 0.5 * numbers[0] * t**2  # noqa: E731
    world = on_table(BOX, (1, 0, 0), rb.Coulomb(0.5, 0.0), pull)

    def run(scheme):
        numbers = jnp.array([8.0, 0.0, 0.0])
        start = resting(0 * numbers, (1, 0, 0))
        sol = rb.simulate(world, start, stepped(0.01, scheme), 0.3, args=numbers, throw=False)
        return sol.successful, sol.final.position[0], sol.final.velocity[0]

    done, place, velocity = quick_jit(lambda: run("variational"))()
    assert done
    # Impulses act at the middles of steps, so that places, too, are exact.
    np.testing.assert_allclose(velocity, [0.5 * G * 0.3, 0, 0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(place, [0.25 * G * 0.09, 0, RADIUS], rtol=0, atol=1e-9)


@pytest.mark.slow
def test_a_ball_bounces_off_a_plate_that_swings():
    """v' = (1 + e) u - e v, to what the plate and the ball accelerate by in a step."""
    numbers, restitution = np.array([0.02, 20.0, 1.3]), 0.8

    def run(dt):
        world = on_table(BALL, (0, 0, 1), rb.Frictionless(restitution))
        start = resting(jnp.array([0.0, 0.0, 0.0]), (0, 0, 1), RADIUS + 0.3)
        save, args = rb.SaveAt(every=1), jnp.asarray(numbers)
        options = {"args": args, "max_steps": 800, "throw": False}
        sol = rb.simulate(world, start, stepped(dt), 0.35, save=save, **options)
        return sol.ts, sol.states.velocity[:, 0, 2]

    compiled = quick_jit(run)
    for dt in (0.002, 0.001):
        ts, v = map(np.asarray, compiled(jnp.asarray(dt)))
        ts, v = ts[np.isfinite(ts)], v[np.isfinite(ts)]
        k = int(np.argmax(np.diff(v)))
        assert v[k] < -1.5 and v[k + 1] > 0
        u = float(rates(numbers, ts[k]))
        allowed = dt * (G + (1 + restitution) * 0.02 * 20.0**2)
        np.testing.assert_allclose(
            v[k + 1], (1 + restitution) * u - restitution * v[k], atol=allowed
        )


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["variational", *before_releases("implicit")])
@pytest.mark.parametrize("axis", [(0, 0, 1), *before_releases(((0.6, 0.0, 0.8),))])
def test_derivatives_of_what_rests(scheme, axis):
    """By the table's numbers and by where the body is, which lies a little deep."""
    world = on_table(BOX, axis, rb.Coulomb(2.0, 0.0))

    def end(x):
        numbers, depth = x[:3], 1e-4 + x[3]
        start = resting(numbers, axis, RADIUS - depth)
        method = stepped(0.01, scheme, penetration=1e-3)
        sol = rb.simulate(world, start, method, 0.3, args=numbers, throw=False)
        return jnp.concatenate([sol.final.position[0], sol.final.velocity[0]])

    x = jnp.array([0.015, 7.0, 0.4, 0.0])
    expected = differences(quick_jit(end), x, 1e-5)
    for jacobian in (jax.jacfwd, jax.jacrev):
        found = quick_jit(jacobian(end))(x)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)


@pytest.mark.slow
def test_single_precision():
    """The gap is that of double precision within round-off of the places, and stays closed."""
    numbers = jnp.array([AMPLITUDE, RATE, 0.0], jnp.float32)
    world = on_table(BALL, (0, 0, 1), rb.Coulomb(np.float32(0.5), np.float32(0.0)))
    start = resting(numbers, (0, 0, 1))

    def run(numbers):
        save = rb.SaveAt(every=1)
        method = stepped(0.01, projection=True)
        options = {"args": numbers, "max_steps": 100, "throw": False}
        sol = rb.simulate(world, start, method, 0.8, save=save, **options)
        return sol.successful, *relative(numbers, sol, (0, 0, 1))

    done, gap, speed = quick_jit(run)(numbers)
    assert done and gap.dtype == jnp.float32
    # h^3/12 of the jerk and its h^2/12, and round-off.
    assert np.nanmax(np.abs(gap)) <= 2e-6 and np.nanmax(np.abs(speed)) <= 2e-4


@pytest.mark.slow
def test_batches():
    """Each world of a batch goes as it does alone."""

    def run(phase):
        numbers = jnp.stack([jnp.asarray(AMPLITUDE), jnp.asarray(RATE), phase])
        world = on_table(BALL, (0, 0, 1), rb.Coulomb(0.5, 0.0))
        start, method = resting(numbers, (0, 0, 1)), stepped(0.01, projection=True)
        sol = rb.simulate(world, start, method, 0.2, args=numbers, throw=False)
        return sol.final.position[0, 2], sol.final.velocity[0, 2]

    phases = jnp.array([0.0, 1.0, 2.0])
    together = quick_jit(jax.vmap(run))(phases)
    alone = quick_jit(run)
    np.testing.assert_allclose(
        together, np.transpose([alone(x) for x in phases]), rtol=0, atol=1e-14
    )


def turned(axis, angle, vector):
    """A vector turned about an axis."""
    across = jnp.cross(axis, vector)
    return vector + jnp.sin(angle) * across + (1 - jnp.cos(angle)) * jnp.cross(axis, across)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("axis", "numbers"),
    [((0, 0, 1), (1.5, 0.0)), *before_releases(((0, 0, 1), (0.5, 0.3)), ((0, 1, 0), (0.0, 0.1)))],
)
def test_a_box_is_carried_by_a_table_that_turns(axis, numbers):
    """About its middle, 1 m from the box: evenly, unevenly, and tilting to and fro. All points of
    the face stick as on one rigid body, and the way of the box is that of the table to order 2."""
    axis, center = jnp.asarray(axis, float), jnp.array([1.0, 0.0, RADIUS])
    angle = lambda t: numbers[0] * t + numbers[1] * jnp.sin(3 * t)  # noqa: E731
    spin = lambda t: numbers[0] + 3 * numbers[1] * jnp.cos(3 * t)  # noqa: E731

    def motion(t, args):
        half = 0.5 * angle(t)
        return jnp.zeros(3), jnp.concatenate([jnp.cos(half)[None], jnp.sin(half) * axis])

    table = rb.Moving(rb.HalfSpace(), motion)
    world = rb.World([BOX], [table], contact_law=rb.Coulomb(0.8, 0.0))
    turns = spin(jnp.zeros(())) * axis
    start = rb.State(
        center[None], jnp.array([UPRIGHT]), jnp.cross(turns, center)[None], turns[None]
    )

    def run(dt):
        sol = rb.simulate(world, start, stepped(dt), 1.0, throw=False, max_steps=200)
        place, velocity = sol.final.position[0], sol.final.velocity[0]
        here = turned(axis, angle(1.0), center)
        moves = jnp.cross(spin(1.0) * axis, here)
        turning = sol.final.angular_velocity[0] - spin(1.0) * axis
        return sol.successful, jnp.stack([place - here, velocity - moves, turning])

    compiled = quick_jit(run)
    errors = []
    for dt in (0.02, 0.01):
        done, error = compiled(jnp.asarray(dt))
        assert done
        errors.append(np.linalg.norm(error, axis=1))
    # The largest acceleration is below 3 m/s^2, of which h^2/12 is 1e-4.
    assert errors[0][0] <= 2e-4
    assert (errors[1] <= 0.3 * errors[0] + 1e-12).all()


@pytest.mark.slow
def test_bodies_in_joints_rest_on_a_table_that_swings():
    """Steps of jointed worlds displace bodies exactly: they stay with the table to round-off."""
    mast = rb.RigidBody(rb.Sphere(0.05), 0.5)

    def motion(t, args):
        return waves(args, t) * jnp.asarray([0, 0, 1], t.dtype), jnp.asarray(UPRIGHT, t.dtype)

    world = rb.World(
        [BOX, mast],
        [rb.Moving(rb.HalfSpace(), motion)],
        contact_law=rb.Coulomb(0.5, 0.0),
        joints=[rb.Weld(0, 1, (0.0, 0.0, 0.3))],
        pairs=[],
    )
    numbers = jnp.array([AMPLITUDE, RATE, 0.0])
    box, high = (resting(numbers, (0, 0, 1), height) for height in (RADIUS, RADIUS + 0.3))
    start = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), box, high)

    def run(numbers):
        save, given = rb.SaveAt(every=1), {"args": numbers, "max_steps": 200, "throw": False}
        sol = rb.simulate(world, start, stepped(0.01), 1.603, save=save, **given)
        return sol.successful, sol.ts, *relative(numbers, sol, (0, 0, 1))

    done, ts, gap, speed = map(np.asarray, quick_jit(run)(numbers))
    met = np.isfinite(ts)
    assert done
    np.testing.assert_allclose(gap[met, 2], 0.0, atol=1e-14)
    np.testing.assert_allclose(speed[met, 2], 0.0, atol=1e-13)
