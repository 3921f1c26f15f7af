"""Obstacles that move as they are told."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, quick_jit
from scipy.optimize import brentq

import jaxrb as rb

RADIUS, G = 0.1, 9.81
BALL = rb.RigidBody(rb.Sphere(RADIUS), 0.7)
METHOD = rb.LGVCI(dt=0.01)
STILL = np.array([1.0, 0.0, 0.0, 0.0])


def state(position, velocity, spin=(0.0, 0.0, 0.0)):
    rows = (position, STILL, velocity, spin)
    return rb.State(*(jnp.asarray([row], float) for row in rows))


def shake(t, args):
    """Up and down, by amplitude [m], frequency [rad/s] and phase."""
    amplitude, frequency, phase = args
    height = amplitude * jnp.sin(frequency * t + phase)
    return jnp.stack([0 * height, 0 * height, height]), jnp.asarray(STILL, height.dtype)


# The ball is nearly in step with the plate: errors shrink from bounce to bounce.
PLATE, RESTITUTION = np.array([0.02, 20.0, 1.3]), 0.9
START, THROWN, END = 0.13, 1.5, 6.8


def bounces(numbers, end):
    """The exact map: the times of the bounces, the velocities after them, and the state at the end,
    by a search for each root of the height over the plate."""
    a, w, p = numbers
    t, z, v, found = 0.0, START, THROWN, []
    height = lambda s: z + v * s - G * s * s / 2 - RADIUS - a * np.sin(w * (t + s) + p)  # noqa: E731
    while True:
        grid = np.linspace(1e-6 if found else 0.0, end - t, 20000)
        below = np.flatnonzero(height(grid) < 0)
        if not len(below):
            return np.array(found), z + v * (end - t) - G * (end - t) ** 2 / 2, v - G * (end - t)
        s = brentq(height, grid[below[0] - 1], grid[below[0]], xtol=1e-15, rtol=1e-15)
        u = a * w * np.cos(w * (t + s) + p)
        t, z, v = t + s, z + v * s - G * s * s / 2, v - G * s
        v = (1 + RESTITUTION) * u - RESTITUTION * v
        found.append((t, v))


def bounced(numbers, obstacle=rb.HalfSpace, impacts=0, detect="end"):
    world = rb.World(
        [BALL],
        [rb.Moving(obstacle(), shake)],
        gravity=(0, 0, -G),
        contact_law=rb.Frictionless(RESTITUTION),
    )
    save = rb.SaveAt(final=True, impacts=impacts)
    start = state((0, 0, START), (0, 0, THROWN))
    method = rb.LGVCI(dt=0.01, detect=detect)
    return rb.simulate(world, start, method, END, save=save, args=numbers, throw=False)


def slab():
    return rb.Placed(rb.Box((1.0, 1.0, 0.5)), (0.0, 0.0, -0.5))


@pytest.mark.parametrize(
    ("obstacle", "detect"),
    [(rb.HalfSpace, "interior"), *before_releases((rb.HalfSpace, "end"), (slab, "end"))],
)
@pytest.mark.slow
def test_a_ball_on_a_shaken_plate(obstacle, detect):
    """v' = (1 + e) u - e v for the velocity u of the plate, over twenty bounces."""
    found, z, v = bounces(PLATE, END)
    assert len(found) >= 20
    sol = bounced(jnp.asarray(PLATE), obstacle, len(found), detect)
    assert sol.successful
    assert int(sol.impacts.count) == len(found)
    np.testing.assert_allclose(sol.impacts.time, found[:, 0], rtol=0, atol=1e-11)
    np.testing.assert_allclose(sol.impacts.after.velocity[:, 0, 2], found[:, 1], rtol=0, atol=1e-11)
    np.testing.assert_allclose(sol.final.position[0, 2], z, rtol=0, atol=1e-11)
    np.testing.assert_allclose(sol.final.velocity[0, 2], v, rtol=0, atol=1e-11)
    jump = sol.impacts.after.velocity - sol.impacts.before.velocity
    np.testing.assert_allclose(sol.impacts.impulse, 0.7 * jump[:, 0], atol=1e-13)


@pytest.mark.parametrize("mode", [*before_releases(jax.jacfwd), jax.jacrev])
@pytest.mark.slow
def test_the_derivatives_of_twenty_bounces(mode):
    """By amplitude, frequency and phase, against differences of the exact map."""

    def final(numbers):
        end = bounced(numbers).final
        return jnp.stack([end.position[0, 2], end.velocity[0, 2]])

    found = np.asarray(quick_jit(mode(final))(jnp.asarray(PLATE)))
    for k, step in enumerate([1e-6, 1e-5, 1e-4]):
        ends = [np.array(bounces(PLATE + s * step * np.eye(3)[k], END)[1:]) for s in (-2, -1, 1, 2)]
        expected = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * step)
        np.testing.assert_allclose(found[:, k], expected, rtol=2e-6, atol=2e-6)


class Turntable(eqx.Module):
    """Turns about z while it is carried along; its numbers can be differentiated."""

    rate: jax.Array
    velocity: jax.Array

    def __call__(self, t, args):
        half, zero = self.rate * t / 2, 0 * t
        return self.velocity * t, jnp.stack([jnp.cos(half), zero, zero, jnp.sin(half)])


@pytest.mark.long
def test_friction_with_a_turntable():
    """A ball that slides throughout its impact gets mu (1 + e) v along the velocity of the point
    that it hits, and spins; the derivative by the rate of turning is that of the direction."""
    mu, e, drop = 0.2, 0.6, 0.5
    place = np.array([0.4, -0.3, RADIUS + drop])
    carried = np.array([0.5, 0.2, 0.0])

    def end(rate):
        motion = Turntable(rate, jnp.asarray(carried))
        table = rb.Moving(rb.Placed(rb.Cylinder(3.0, 0.5), (0, 0, -0.5)), motion)
        world = rb.World([BALL], [table], gravity=(0, 0, -G), contact_law=rb.Coulomb(mu, e))
        final = rb.simulate(world, state(place, (0, 0, 0)), METHOD, 0.4).final
        return jnp.concatenate([final.velocity[0], final.angular_velocity[0]])

    def closed_form(rate):
        fall = np.sqrt(2 * drop / G)
        speed, arm = G * fall, place - carried * fall
        surface = np.cross([0, 0, rate], [arm[0], arm[1], 0]) + carried
        kick = mu * (1 + e) * speed * surface / np.linalg.norm(surface)
        kick[2] = (1 + e) * speed
        spin = np.cross([0, 0, -RADIUS], kick) / (0.4 * RADIUS**2)
        return np.concatenate([kick - np.array([0, 0, G * 0.4]), spin])

    rate = 7.0
    both = quick_jit(lambda rate: jax.jvp(end, (rate,), (jnp.ones_like(rate),)))
    value, slope = both(jnp.asarray(rate))
    np.testing.assert_allclose(value, closed_form(rate), atol=1e-12)
    expected = (closed_form(rate + 1e-5) - closed_form(rate - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, expected, atol=1e-8)


@pytest.mark.slow
def test_a_conveyor_that_rises():
    """A plane that goes along itself and up: the ball, which slides throughout the impact, gets
    mu (1 + e) of the closing speed along the belt, and keeps e of it along the normal."""
    mu, e, drop, belt, rise = 0.2, 0.6, 0.5, 9.0, 0.3

    def carry(t, args):
        return jnp.array([belt, 0.0, rise]) * t, jnp.asarray(STILL)

    obstacles = [rb.HalfSpace(offset=-9.0), rb.Moving(rb.HalfSpace(offset=0.0), carry)]
    law = rb.Coulomb(mu, e)
    world = rb.World([BALL], obstacles, gravity=(0, 0, -G), contact_law=law)
    save = rb.SaveAt(final=True, impacts=1)
    start = state((0, 0, RADIUS + drop), (0, 0, 0))
    sol = rb.simulate(world, start, METHOD, 0.35, save=save)
    fall = (-rise + np.sqrt(rise**2 + 2 * G * drop)) / G
    speed = G * fall + rise
    after = sol.impacts.after
    np.testing.assert_allclose(sol.impacts.time[0], fall, atol=1e-13)
    np.testing.assert_array_equal(sol.impacts.pair[0], [0, 1])
    kick = [mu * (1 + e) * speed, 0, rise + e * speed]
    np.testing.assert_allclose(after.velocity[0, 0], kick, atol=1e-12)
    spin = np.cross([0, 0, -RADIUS], kick) / (0.4 * RADIUS**2)
    np.testing.assert_allclose(after.angular_velocity[0, 0], spin, atol=1e-11)


@pytest.mark.slow
def test_a_shaken_room():
    """A ball between two walls that go along x at one speed is, seen from them, between walls at
    rest."""
    speed = 0.7

    def carry(t, args):
        return jnp.stack([speed * t, 0 * t, 0 * t]), jnp.asarray(STILL)

    room, gravity = rb.Complement(rb.Box((1.0, 0.8, 0.6))), (0, 0, 0)
    still, moved = (rb.World([BALL], [o], gravity=gravity) for o in (room, rb.Moving(room, carry)))
    position, velocity = np.array([0.1, 0.2, -0.1]), np.array([2.0, 1.1, -0.7])
    boost = np.array([[speed, 0, 0]])
    one = rb.simulate(still, state(position, velocity), METHOD, 3.0)
    other = rb.simulate(moved, state(position, velocity + boost[0]), METHOD, 3.0)
    assert int(one.impacts.count) == int(other.impacts.count) > 5
    np.testing.assert_allclose(other.final.velocity, one.final.velocity + boost, atol=1e-12)
    np.testing.assert_allclose(other.final.position, one.final.position + 3 * boost, atol=1e-12)
    args = (jnp.asarray(3.0), None)
    np.testing.assert_allclose(
        rb.gaps(moved, other.final, *args), rb.gaps(still, one.final), atol=1e-12
    )
    assert "over 1 moving Complement" in repr(moved)


@pytest.mark.long
def test_single_precision_and_lanes():
    numbers = jnp.asarray(PLATE, jnp.float32)
    world = rb.World([BALL], [rb.Moving(slab(), shake)], contact_law=rb.Frictionless(RESTITUTION))
    start = state((0, 0, START), (0, 0, THROWN))
    world, single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (world, start))

    def run(phase):
        args = numbers.at[2].set(phase)
        return rb.simulate(world, single, METHOD, 1.0, args=args, throw=False).final.position

    lanes = jax.vmap(run)(jnp.array([1.3, 1.5], jnp.float32))
    assert lanes.dtype == jnp.float32
    np.testing.assert_allclose(lanes[1], run(jnp.float32(1.5)), atol=1e-5)
    double = rb.simulate(
        rb.World([BALL], [rb.Moving(slab(), shake)], contact_law=rb.Frictionless(RESTITUTION)),
        start, METHOD, 1.0, args=jnp.asarray(PLATE),
    )  # fmt: skip
    np.testing.assert_allclose(lanes[0], double.final.position, atol=2e-5)


@pytest.mark.slow
def test_a_motion_that_starts_in_a_body():
    world = rb.World([BALL], [rb.Moving(rb.HalfSpace(), shake)])
    start = state((0, 0, RADIUS + 0.01), (0, 0, 0))
    args = (0.02, 20.0, np.pi / 2)
    sol = rb.simulate(world, start, METHOD, 1.0, args=args, throw=False)
    assert sol.result == rb.RESULTS.initial_penetration
    sol = rb.simulate(world, start, METHOD, 0.01, args=(0.02, 20.0, np.nan), throw=False)
    assert sol.result == rb.RESULTS.non_finite


@pytest.mark.parametrize(
    ("motion", "message"),
    [
        (lambda t, args: jnp.zeros(3), r"must return a pair .* got one array of shape \(3,\)"),
        (lambda t, args: (jnp.zeros(2), jnp.asarray(STILL)), r"position .* shape \(3,\); got \(2,"),
        (lambda t, args: (jnp.zeros(3), jnp.zeros(3)), r"quaternion .* must have shape \(4,\)"),
        (lambda t, args: None, "must return a pair .* got None"),
    ],
)
def test_motions_that_return_something_else(motion, message):
    world = rb.World([BALL], [rb.Moving(rb.HalfSpace(), motion)])
    with pytest.raises(ValueError, match=message):
        rb.simulate(world, state((0, 0, 1), (0, 0, 0)), METHOD, 1.0)


def test_refused():
    with pytest.raises(ValueError, match=r"Moving.motion must be a function; got 3"):
        rb.Moving(rb.Sphere(1.0), 3)
    with pytest.raises(ValueError, match=r"Moving.shape must be a shape; got float"):
        rb.Moving(1.0, shake)
    with pytest.raises(ValueError, match="no motion in this world takes arguments"):
        rb.simulate(rb.World([BALL]), state((0, 0, 1), (0, 0, 0)), METHOD, 1.0, args=(1,))


@pytest.mark.parametrize(
    "height",
    [
        lambda t, args: args[0] * jnp.sin(args[1] * t),
        lambda t, args: args["height"] + 0 * t,
        lambda t, args: args.height + 0 * t,
        lambda t, args: args * t,
        lambda t, args: jnp.sin(args) * t,
        lambda t, args: jnp.interp(t, jnp.arange(3.0), args),
        lambda t, args: jnp.asarray(args) + 0 * t,
    ],
)
def test_args_that_are_missing_are_named(height):
    """Wherever the motion needs them first, whatever Python or JAX says of None there."""
    motion = lambda t, args: (jnp.zeros(3).at[2].set(height(t, args)), jnp.asarray(STILL))  # noqa: E731
    world = rb.World([BALL], [rb.Moving(rb.HalfSpace(), motion)])
    start = state((0, 0, 1), (0, 0, 0))
    starts = jax.tree.map(lambda leaf: leaf[None], start)
    for run in (
        lambda: rb.simulate(world, start, METHOD, 1.0),
        lambda: rb.simulate(world, start, rb.MoreauJean(0.01), 1.0),
        lambda: rb.simulate_batch(world, starts, METHOD, 1.0),
        lambda: rb.gaps(world, start),
    ):
        with pytest.raises((TypeError, AttributeError, ValueError)) as raised:
            run()
        assert "args of simulate is None" in raised.value.__notes__[0]


class Belt(eqx.Module):
    """It moves along x."""

    speed: jax.Array

    def __call__(self, t, args):
        zero = jnp.zeros_like(t)
        return jnp.stack([self.speed * t, zero, zero]), jnp.array([1.0, 0, 0, 0])


@pytest.mark.slow
def test_a_box_is_put_on_a_belt():
    """It slides until it has the speed of the belt, v/(mu g), and is moved by v T - v^2/(2 mu g).
    Then it lies still on it: how fast it goes has no derivative by friction, and that what is left
    of it becomes ever smaller spoils none of the place."""
    dt, steps = 0.01, 80

    def run(numbers):
        friction, speed = numbers
        world = rb.World(
            [rb.RigidBody(rb.Box((0.2, 0.15, 0.05)), 1.0)],
            [rb.Moving(rb.HalfSpace(), Belt(speed))],
            gravity=(0, 0, -G),
            contact_law=rb.Coulomb(friction, 0.0),
        )
        zero = jnp.zeros((1, 3))
        start = rb.State(zero.at[0, 2].set(0.05), jnp.eye(1, 4), zero, zero)
        end = rb.simulate(world, start, rb.MoreauJean(dt), dt * steps, max_steps=steps).final
        return jnp.stack([end.position[0, 0], end.velocity[0, 0]])

    friction, speed = 0.3, 1.0
    numbers = jnp.array([friction, speed])

    compiled = quick_jit(run)
    end = compiled(numbers)
    changes = quick_jit(jax.jacfwd(run))(numbers).T
    slides = speed / (friction * G)
    # Of the step in which it ceases to slide, its square and its first power.
    np.testing.assert_allclose(end, [steps * dt * speed - speed * slides / 2, speed], atol=1e-6)
    by_friction, by_speed = changes
    np.testing.assert_allclose(by_friction, [speed * slides / (2 * friction), 0.0], atol=2e-3)
    np.testing.assert_allclose(by_speed, [steps * dt - slides, 1.0], atol=2e-3)
    h = 1e-5
    for change, d in zip(changes, h * np.eye(2), strict=True):
        difference = (compiled(numbers + d) - compiled(numbers - d)) / (2 * h)
        np.testing.assert_allclose(change, difference, atol=1e-8)
