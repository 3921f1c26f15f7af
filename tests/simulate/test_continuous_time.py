"""Continuous time: from impact to impact, proved to miss none."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, quick_jit

import jaxrb as rb
from jaxrb.bodies import Phase, spin_bounds
from jaxrb.math import Diag3, Quat, Vec3
from jaxrb.math.principal import PrincipalAxes

GRAVITY = (0.0, 0.0, -9.80665)
CONTINUOUS = rb.EventDriven(rb.ExactFlight(), dt=None)
# Of the continuous problem, by Taylor series in 24 digits and Newton's rule.
TIMES = [
    2.6491323431753971233,
    4.8945305294234768567,
    5.352061251907043597,
    6.5250434030798301019,
    9.4616782324117595485,
]
HEIGHT = 6.3013410198687  # at 10 s [m], likewise


def case_one(height=10.0, dtype=jnp.float64):
    """Tran and Leok's Case I."""
    body = rb.RigidBody(rb.Ellipsoid((2.0, 3.0, 4.0)), 1.0)
    world = rb.World([body], [rb.HalfSpace()], gravity=GRAVITY)
    position = jnp.array([[0, 0, 1.0]], dtype) * height
    state = rb.State(
        position,
        jnp.array([[1.0, 0, 0, 0]], dtype),
        jnp.array([[0, 0, 10.0]], dtype),
        jnp.array([[0.8, -1.0, 4 / 2.6]], dtype),
    )
    return world, state


def random_states(rng, n, bodies=1, height=(1.0, 2.0), spin=1.0):
    """Of random orientations, with angular velocities of a given size [rad/s]."""
    quaternion = rng.normal(size=(n, bodies, 4))
    quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
    omega = rng.normal(size=(n, bodies, 3))
    omega *= spin / np.linalg.norm(omega, axis=-1, keepdims=True)
    position = np.zeros((n, bodies, 3))
    position[..., 2] = rng.uniform(*height, size=(n, bodies))
    velocity = rng.normal(size=(n, bodies, 3))
    return rb.State(*map(jnp.asarray, (position, quaternion, velocity, omega)))


@pytest.mark.slow
def test_impacts_of_case_one_are_those_of_newtons_equations():
    world, state = case_one()
    save = rb.SaveAt(final=True, impacts=8)
    sol = rb.simulate(world, state, CONTINUOUS, 10.0, save=save)
    assert int(sol.impacts.count) == 5
    # Each impact amplifies the round-off of those before by some ten.
    np.testing.assert_allclose(sol.impacts.time[:5], TIMES, rtol=0, atol=1e-12)
    np.testing.assert_allclose(sol.final.position[0, 2], HEIGHT, rtol=0, atol=1e-10)
    assert int(sol.stats.flow_evaluations) <= 60  # 12 an impact


@pytest.mark.slow
def test_turns_follow_impacts_in_every_lane():
    """1024 worlds of Case I; none waits for a stall."""
    world, _ = case_one()
    heights = jnp.linspace(10.0, 11.0, 1024)
    states = jax.vmap(lambda height: case_one(height)[1])(heights)
    sol = rb.simulate_batch(world, states, CONTINUOUS, 10.0)
    turns, impacts = np.asarray(sol.stats.flow_evaluations), np.asarray(sol.impacts.count)
    assert turns.max() <= 200
    assert turns.sum() <= 12 * impacts.sum()
    energy = jax.vmap(lambda state: rb.energy(world, state))
    np.testing.assert_allclose(energy(sol.final), energy(states), rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("spin", [40.0, 1000.0])
def test_a_spinning_coin_hits_the_floor_when_its_edge_does(spin):
    """A coin that spins steadily about a diameter, the horizontal x: its lowest point is
    r |cos| + h |sin| below its centre; the first root by bisection in this closed form."""
    radius, half, height = 0.012, 0.001, 0.3
    coin = rb.RigidBody(rb.Cylinder(radius, half), 0.005)
    world = rb.World([coin], [rb.HalfSpace()], gravity=GRAVITY)
    tilt = 0.3
    q = [[np.cos(tilt / 2), np.sin(tilt / 2), 0.0, 0.0]]
    state = rb.State([[0, 0, height]], q, [[0, 0, 0.5]], [[spin, 0, 0]])
    save = rb.SaveAt(final=True, impacts=1)
    method = dataclasses.replace(CONTINUOUS, max_impacts=40)
    sol = rb.simulate(world, state, method, 0.35, save=save)

    def gap(t):
        angle = tilt + spin * t
        lowest = radius * abs(np.sin(angle)) + half * abs(np.cos(angle))
        return height + 0.5 * t - 0.5 * 9.80665 * t * t - lowest

    ts = np.linspace(0, 0.35, 100_001)
    first = np.argmax(gap(ts) < 0)
    lower, upper = ts[first - 1], ts[first]
    for _ in range(60):
        middle = 0.5 * (lower + upper)
        lower, upper = (middle, upper) if gap(middle) > 0 else (lower, middle)
    np.testing.assert_allclose(sol.impacts.time[0], lower, rtol=0, atol=1e-12)


@pytest.mark.long
def test_derivatives_through_five_impacts():
    """Both modes against each other and against differences of the simulation."""

    def height(start):
        world, state = case_one(start)
        return rb.simulate(world, state, CONTINUOUS, 10.0).final.position[0, 2]

    start, h = jnp.float64(10.0), 1e-6
    reverse = jax.jit(jax.grad(height))(start)
    forward = jax.jvp(height, (start,), (jnp.ones_like(start),))[1]
    near, far = (height(start + k * h) - height(start - k * h) for k in (1, 2))
    differences = (8 * near - far) / (12 * h)
    # The derivative itself is 230 and has lost what the motion has: some 1e3 times round-off.
    np.testing.assert_allclose(reverse, forward, rtol=1e-11)
    # Round-off of the height, 1e-12 m, divided by h.
    np.testing.assert_allclose(reverse, differences, rtol=0, atol=2e-5)


@pytest.mark.long
def test_saved_times_change_nothing():
    world, state = case_one()
    plain = rb.simulate(world, state, CONTINUOUS, 10.0)
    ts = [0.0, 2.0, 2.6491, 2.64914, 7.5, 10.0]
    saved = rb.simulate(world, state, CONTINUOUS, 10.0, save=rb.SaveAt(ts=ts))
    spaced = rb.simulate(world, state, CONTINUOUS, 10.0, save=rb.SaveAt(every=5, spacing=0.5))
    for other in (saved, spaced):
        np.testing.assert_array_equal(other.final.position, plain.final.position)
        assert int(other.stats.flow_evaluations) == int(plain.stats.flow_evaluations)
        assert bool(other.reached.all())
    np.testing.assert_allclose(spaced.ts, [0, 2.5, 5.0, 7.5, 10.0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(
        spaced.states.position[3], saved.states.position[4], rtol=0, atol=1e-14
    )
    # Under way the centre is on its parabola.
    np.testing.assert_allclose(saved.states.position[1, 0, 2], 30 - 0.5 * 9.80665 * 4, rtol=1e-15)
    np.testing.assert_array_equal(saved.states.position[-1], plain.final.position)
    half = rb.simulate(world, state, CONTINUOUS, 7.5)
    np.testing.assert_allclose(half.final.position, saved.states.position[4], rtol=0, atol=1e-12)


@pytest.mark.slow
def test_float32():
    world, state = case_one(dtype=jnp.float32)
    world = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), world)
    save = rb.SaveAt(final=True, impacts=4)
    sol = rb.simulate(world, state, CONTINUOUS, 6.0, save=save)
    assert sol.final.position.dtype == jnp.float32
    # 1e-7, amplified by some ten an impact.
    np.testing.assert_allclose(sol.impacts.time[:3], TIMES[:3], rtol=0, atol=3e-5)


@pytest.mark.slow
def test_bounces_that_accumulate_end():
    """Each bounce takes e times as long: at 2 v/(g (1 - e)) after the first impact all are over."""
    world = rb.World(
        [rb.RigidBody(rb.Sphere(0.1), 1.0)],
        [rb.HalfSpace()],
        gravity=GRAVITY,
        contact_law=rb.Frictionless(0.5),
    )
    state = rb.State([[0, 0, 1.1]], [[1.0, 0, 0, 0]], [[0, 0, 0.0]], [[0, 0, 5.0]])
    sol = rb.simulate(world, state, CONTINUOUS, 10.0, throw=False)
    assert sol.result == rb.RESULTS.zeno
    fall = np.sqrt(2 / 9.80665)
    ended = fall + 2 * fall * 0.5 / (1 - 0.5)
    np.testing.assert_allclose(sol.stats.time, ended, rtol=0, atol=1e-6)
    # From the last bounce, whose speed is 1e-8 m/s and has an error like that.
    np.testing.assert_allclose(sol.zeno_time[0], ended, rtol=0, atol=1e-8)


THROWN = {
    "rod": (rb.Capsule(1e-3, 0.1), [[0, 0, -0.1], [0, 0, 0.1]], 1e-3),
    "plate": (
        rb.Box((0.1, 0.08, 1e-3)),
        [[x, y, z] for x in (-0.1, 0.1) for y in (-0.08, 0.08) for z in (-1e-3, 1e-3)],
        0.0,
    ),
    "die": (
        rb.Rounded(rb.Box((0.006, 0.006, 0.006)), 1e-3),
        [[x, y, z] for x in (-6e-3, 6e-3) for y in (-6e-3, 6e-3) for z in (-6e-3, 6e-3)],
        1e-3,
    ),
}


def thrown_low(rng, n, corners, radius, spin):
    """Of random orientations, a little above the floor at their lowest points."""
    size = float(np.max(np.linalg.norm(corners, axis=1))) + radius
    states = random_states(rng, n, spin=spin)
    lowest = np.min(np.asarray(states.rotation_matrix)[:, :, 2] @ np.transpose(corners), axis=-1)
    position = np.zeros((n, 1, 3))
    position[..., 2] = radius - lowest + rng.uniform(0.01, 0.5, size=(n, 1)) * size
    return dataclasses.replace(states, position=jnp.asarray(position))


def turned(z, moments, h):
    """Quaternions and angular velocities, shape (7, n), a step later, by Runge and Kutta's rule."""
    a, b, c = moments

    def rate(z):
        w, x, y, q, p, r, s = z
        turn = [-x * p - y * r - q * s, w * p + y * s - q * r]
        turn += [w * r - x * s + q * p, w * s + x * r - y * p]
        spin = [(b - c) / a * r * s, (c - a) / b * s * p, (a - b) / c * p * r]
        return jnp.stack([0.5 * rate for rate in turn] + spin)

    one = rate(z)
    two = rate(z + h / 2 * one)
    three = rate(z + h / 2 * two)
    return z + h / 6 * (one + 2 * two + 2 * three + rate(z + h * three))


def sampled(states, moments, end, number, time, gap):
    """Free flights at so many equal times to the end, of all worlds together: independent of the
    closed form, and to 1e-13 rad with 1e-3 rad a step.

    Args:
        gap: function of the time and of each body's quaternions, shape (4, n).

    Returns:
        the least gap of each world at samples before `time`, and the gap at the first after it, or
        inf; shapes (n,).
    """
    h, n_bodies = end / number, states.position.shape[1]

    def step(carry, k):
        z, least, after = carry
        found = gap(k * h, *(body[:4] for body in z))
        least = jnp.where(k * h < time - 1e-12, jnp.minimum(least, found), least)
        after = jnp.where((k * h > time) & jnp.isinf(after), found, after)
        return ([turned(body, moments, h) for body in z], least, after), None

    both = jnp.concatenate([states.quaternion, states.angular_velocity], axis=2)
    never = jnp.full(time.shape, jnp.inf)
    start = ([both[:, body].T for body in range(n_bodies)], never, never)
    return jax.lax.scan(step, start, jnp.arange(number + 1.0))[0][1:]


def before_and_after(states, time, look, chunk=2_048):
    """`sampled`, some worlds at a time."""
    parts = []
    for k in range(0, len(time), chunk):
        some = jax.tree.map(lambda leaf, k=k: leaf[k : k + chunk], states)
        parts.append(look(some, jnp.asarray(time[k : k + chunk])))
    return np.concatenate([np.asarray(part) for part in parts], axis=1)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["die", *before_releases(*sorted({*THROWN} - {"die"}))])
def test_no_impact_is_missed(kind):
    """10^5 fast throws close to the floor, a third of them of each kind, sampled at a thousandth of
    1/spin: until the first impact all corners are above it, and right after it one is below."""
    shape, corners, radius = THROWN[kind]
    spin, n = 300.0, 17 * 2_048
    states = thrown_low(np.random.default_rng(7), n, corners, radius, spin)
    world = rb.World([rb.RigidBody(shape, 0.01)], [rb.HalfSpace()], gravity=GRAVITY)
    end, number = 12 / spin, 12_000
    first = rb.SaveAt(final=True, impacts=1)
    method = dataclasses.replace(CONTINUOUS, max_impacts=64)
    found = rb.simulate_batch(world, states, method, end, save=first, throw=False)
    time = np.asarray(found.impacts.time[:, 0])
    # Plates may clatter, in ever smaller impacts: that ends a world after its first.
    assert np.asarray(found.successful | np.isfinite(time)).all()
    moments = np.diag(world.bodies[0].inertia_matrix())

    def look(states, time):
        height, speed = states.position[:, 0, 2], states.velocity[:, 0, 2]

        def gap(t, quaternion):
            w, x, y, z = quaternion
            # The vertical in axes of the body.
            up = jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), w**2 - x**2 - y**2 + z**2])
            lowest = jnp.min(jnp.asarray(corners) @ up, axis=0)
            return height + speed * t + 0.5 * GRAVITY[2] * t**2 + lowest - radius

        return sampled(states, moments, end, number, time, gap)

    lowest, after = before_and_after(states, time, jax.jit(look))
    assert np.isfinite(time).mean() > 0.5
    assert (lowest > -1e-13).all()
    hit = time < end * (1 - 2 / number)
    assert (after[hit] < 0).all()


CUBOID = np.array([0.1, 0.15, 0.2])


def gaps_in_flight(state, duration, n=4000):
    """Of a cuboid over the floor at n + 1 times, by Runge and Kutta's rule: independent of the
    closed form, to 1e-9 m for 0.01 rad a step."""
    moments = jnp.asarray(np.sum(CUBOID**2) - CUBOID**2)
    h = duration / n
    height, speed = state.position[0, 2], state.velocity[0, 2]

    def rate(z):
        q, omega = z[:4], z[4:]
        turn = rb.lie.quaternion.multiply(q, jnp.concatenate([jnp.zeros(1), omega])) / 2
        return jnp.concatenate([turn, jnp.cross(moments * omega, omega) / moments])

    def gap(t, z):
        lowest = jnp.sum(jnp.asarray(CUBOID) * jnp.abs(rb.lie.quaternion.to_matrix(z[:4])[2]))
        return height + speed * t + 0.5 * GRAVITY[2] * t**2 - lowest

    def step(z, k):
        a = rate(z)
        b = rate(z + h / 2 * a)
        c = rate(z + h / 2 * b)
        return z + h / 6 * (a + 2 * b + 2 * c + rate(z + h * c)), gap(k * h, z)

    start = jnp.concatenate([state.quaternion[0], state.angular_velocity[0]])
    return jax.lax.scan(step, start, jnp.arange(n + 1.0))[1]


@pytest.mark.long
def test_ten_thousand_throws_of_a_cuboid():
    """With 10^5 elastic impacts: energies stay, each impact closes a gap that was closing, and of
    200 throws no sample of any flight is below the floor, so that no dip deeper than 1e-6 m, which
    samples may miss, is without its impact."""
    n, end, most = 10_000, 3.2, 40
    states = random_states(np.random.default_rng(4), n, height=(0.5, 1.0), spin=8.0)
    world = rb.World([rb.RigidBody(rb.Box(CUBOID), 1.0)], [rb.HalfSpace()], gravity=GRAVITY)
    method = dataclasses.replace(CONTINUOUS, max_impacts=64)
    save = rb.SaveAt(final=True, impacts=most)
    sol = rb.simulate_batch(world, states, method, end, save=save)
    impacts = sol.impacts
    count, time = np.asarray(impacts.count), np.asarray(impacts.time)
    assert count.sum() > 100_000 and count.max() < most
    energy = jax.vmap(lambda state: rb.energy(world, state))
    np.testing.assert_allclose(energy(sol.final), energy(states), rtol=1e-12)

    happened = np.arange(most) < count[:, None]
    assert (time[:, 1:] > time[:, :-1])[happened[:, 1:]].all()

    def approach(state, position):
        arm = position - state.position[..., 0, :]
        omega = jnp.einsum("...ij,...j", state.rotation_matrix, state.angular_velocity)
        return np.asarray(state.velocity[..., 0, 2] + jnp.cross(omega[..., 0, :], arm)[..., 2])

    before, after = (approach(s, impacts.position) for s in (impacts.before, impacts.after))
    assert (before[happened] < 0).all()
    np.testing.assert_allclose(after[happened], -before[happened], rtol=0, atol=1e-12)

    # Flights of the sample: from the start and from each impact, to the next or to the end.
    some = happened[:200]
    flights = np.concatenate([np.ones((200, 1), bool), some], axis=1)
    first = jax.tree.map(lambda leaf: leaf[:200, None], states)
    later = jax.tree.map(lambda leaf: leaf[:200], impacts.after)
    starts = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, 1)[flights], first, later)
    borders = np.concatenate([np.zeros((200, 1)), np.where(some, time[:200], end)], axis=1)
    durations = np.diff(np.append(borders, np.full((200, 1), end), axis=1), axis=1)[flights]
    hits = np.append(some, np.zeros((200, 1), bool), axis=1)[flights]
    gaps = np.asarray(jax.jit(jax.vmap(gaps_in_flight))(starts, jnp.asarray(durations)))
    assert gaps.min() > -1e-8
    np.testing.assert_allclose(gaps[hits, -1], 0.0, atol=1e-8)
    assert (gaps[~hits, -1] > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [3, 100, 1000])
def test_thin_rods_take_no_more_evaluations_than_thick_ones(ratio):
    """Per flight from impact to impact, of 256 throws. That angular velocities along a thin rod
    are large for its momentum is no reason for short trials."""
    radius = 0.1 / ratio
    states = random_states(np.random.default_rng(4), 256, height=(0.5, 1.0), spin=8.0)
    rod = rb.RigidBody(rb.Capsule(radius, 0.1), 0.01)
    world = rb.World([rod], [rb.HalfSpace()], gravity=GRAVITY)
    sol = rb.simulate_batch(world, states, CONTINUOUS, 2.0)
    flights = np.asarray(sol.impacts.count) + 1
    per_flight = np.asarray(sol.stats.flow_evaluations) / flights
    assert flights.mean() > 5
    assert per_flight.mean() < 10
    assert per_flight.max() < 25


def between_segments(offset, u, w, half):
    """The distance of segments of equal lengths about two middles, along unit vectors; shapes
    (3, n). In closed form: of points inside of both, or of an end and the other segment."""

    def product(a, b):
        return jnp.sum(a * b, axis=0)

    cosine = product(u, w)
    steep = jnp.maximum(1 - cosine**2, 1e-300)
    along = (product(offset, u) - product(offset, w) * cosine) / steep
    across = (product(offset, u) * cosine - product(offset, w)) / steep
    inside = (jnp.abs(along) <= half) & (jnp.abs(across) <= half)
    middle = jnp.linalg.norm(offset + across[None] * w - along[None] * u, axis=0)
    distance = jnp.where(inside, middle, jnp.inf)
    for end_of_one in (-half, half):
        place = jnp.clip(product(offset + end_of_one * w, u), -half, half)
        gap = jnp.linalg.norm(offset + end_of_one * w - place[None] * u, axis=0)
        distance = jnp.minimum(distance, gap)
        place = jnp.clip(-product(offset - end_of_one * u, w), -half, half)
        gap = jnp.linalg.norm(offset - end_of_one * u + place[None] * w, axis=0)
        distance = jnp.minimum(distance, gap)
    return distance


@pytest.mark.long
def test_no_impact_of_rods_with_each_other_is_missed():
    """Thrown at each other, sampled at a thousandth of 1/spin: until the first impact their axes
    keep two radii apart, and right after it they do not."""
    half, radius, n, spin = 0.1, 1e-3, 2 * 2_048, 60.0
    rod = rb.RigidBody(rb.Capsule(radius, half), 0.01)
    world = rb.World([rod, rod], gravity=GRAVITY)
    states = random_states(np.random.default_rng(3), n, 2, height=(0.0, 0.05), spin=spin)
    apart = jnp.asarray([[[-0.12, 0, 0], [0.12, 0, 0]]])
    towards = jnp.asarray([[[1.0, 0, 0], [-1.0, 0, 0]]])
    states = dataclasses.replace(
        states, position=states.position + apart, velocity=0.1 * states.velocity + towards
    )
    end, number = 0.3, 18_000
    method = dataclasses.replace(CONTINUOUS, max_impacts=64)
    save = rb.SaveAt(final=True, impacts=1)
    sol = rb.simulate_batch(world, states, method, end, save=save, throw=False)
    time = np.asarray(sol.impacts.time[:, 0])
    # What begins within the other ends at once.
    begins = np.asarray(sol.result != rb.RESULTS.initial_penetration)
    assert np.asarray(sol.successful | np.isfinite(time))[begins].all()
    moments = np.diag(rod.inertia_matrix())

    def look(states, time):
        place, speed = (v[:, 1] - v[:, 0] for v in (states.position, states.velocity))

        def axis(quaternion):
            w, x, y, z = quaternion
            return jnp.stack([2 * (x * z + w * y), 2 * (y * z - w * x), w**2 - x**2 - y**2 + z**2])

        def gap(t, one, other):
            offset = (place + speed * t).T
            return between_segments(offset, axis(one), axis(other), half) - 2 * radius

        return sampled(states, moments, end, number, time, gap)

    lowest, after = before_and_after(states, time, jax.jit(look))
    assert np.isfinite(time).mean() > 0.2
    assert (lowest[begins] > -1e-13).all()
    hit = time < end * (1 - 2 / number)
    assert (after[hit] < 0).all()


@pytest.mark.long
def test_boxes_hit_each_other_as_in_small_steps():
    """Against steps of 2 ms of the same flow, in which dips are probed."""
    box = rb.RigidBody(rb.Box((0.1, 0.12, 0.15)), 1.0)
    world = rb.World([box, box], [rb.HalfSpace()], gravity=GRAVITY)
    states = random_states(np.random.default_rng(5), 16, bodies=2, height=(1.0, 1.2), spin=8.0)
    shift = jnp.asarray([[[-0.5, 0, 0], [0.5, 0, 0]]])
    states = dataclasses.replace(
        states, position=states.position + shift, velocity=0.2 * states.velocity - 2 * shift
    )
    save = rb.SaveAt(final=True, impacts=4)
    steps = rb.EventDriven(rb.ExactFlight(), 2e-3, detect="interior", on_zeno="stop")
    found = rb.simulate_batch(world, states, CONTINUOUS, 0.6, save=save)
    expected = rb.simulate_batch(world, states, steps, 0.6, save=save)
    assert int(found.impacts.count.sum()) > 16
    # Edges come near each other as slowly as along directions that turn with them.
    flights = np.asarray(found.impacts.count) + 1
    assert (np.asarray(found.stats.flow_evaluations) / flights).mean() < 12
    np.testing.assert_array_equal(found.impacts.count, expected.impacts.count)
    both = np.isfinite(expected.impacts.time)
    times = (np.asarray(sol.impacts.time)[both] for sol in (found, expected))
    np.testing.assert_allclose(*times, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(found.impacts.pair, expected.impacts.pair)


@pytest.mark.long
def test_with_friction():
    """Up to the end of the bounces, against steps of 2 ms."""
    body = rb.RigidBody(rb.Ellipsoid((0.1, 0.15, 0.2)), 1.0)
    law = rb.Coulomb(0.8, 0.3)
    world = rb.World([body], [rb.HalfSpace()], gravity=GRAVITY, contact_law=law)
    states = random_states(np.random.default_rng(5), 16, spin=8.0)
    save = rb.SaveAt(final=True, impacts=4)
    steps = rb.EventDriven(rb.ExactFlight(), 2e-3, detect="interior", on_zeno="stop")
    found, expected = (
        rb.simulate_batch(world, states, method, 0.8, save=save, throw=False)
        for method in (CONTINUOUS, steps)
    )
    np.testing.assert_allclose(found.impacts.time[:, 0], expected.impacts.time[:, 0], atol=1e-13)
    np.testing.assert_allclose(
        found.impacts.impulse[:, 0], expected.impacts.impulse[:, 0], rtol=0, atol=1e-10
    )


@pytest.mark.long
def test_second_derivatives_in_all_pairs_of_modes():
    """By the height and the spin of Case I, through an impact and with one at hand after it."""
    world, first = case_one()
    method = dataclasses.replace(CONTINUOUS, max_impacts=4)

    def height(numbers):
        state = dataclasses.replace(
            first,
            position=first.position.at[0, 2].set(numbers[0]),
            angular_velocity=first.angular_velocity * numbers[1],
        )
        return rb.simulate(world, state, method, 5.2).final.position[0, 2]

    start, h = jnp.array([10.0, 1.0]), 1e-4
    modes = itertools.product((jax.jacfwd, jax.jacrev), repeat=2)
    hessians = [quick_jit(outer(inner(height)))(start) for outer, inner in modes]
    for hessian in hessians[1:]:
        np.testing.assert_allclose(hessian, hessians[0], rtol=1e-10)
    gradient = quick_jit(jax.grad(height))
    columns = []
    for step in h * jnp.eye(2):
        near, far = (gradient(start + k * step) - gradient(start - k * step) for k in (1, 2))
        columns.append((8 * near - far) / (12 * h))
    # Round-off of the gradient, 1e-12 of 1e3, divided by h, and the fourth-order remainder.
    np.testing.assert_allclose(np.stack(columns, 1), hessians[0], rtol=1e-6)


@pytest.mark.slow
def test_checkpoints_without_steps(tmp_path):
    """A run in segments is the run in one call."""
    world, state = case_one()
    path = tmp_path / "case.jaxrb"
    sol = rb.io.simulate_with_checkpoints(world, state, CONTINUOUS, 10.0, path, every=3.0)
    # Velocities between the segments instead of momenta, and five impacts after them.
    np.testing.assert_allclose(sol.final.position[0, 2], HEIGHT, rtol=0, atol=1e-9)
    assert int(rb.io.resume(path).impacts.count) == int(sol.impacts.count) == 5


@pytest.mark.slow
def test_energy_over_many_impacts():
    """An elastic box in a box: no drift in 1e4 impacts."""
    body = rb.RigidBody(rb.Ellipsoid((0.1, 0.15, 0.2)), 1.0)
    world = rb.World([body], [rb.Complement(rb.Box((0.5, 0.5, 0.5)))])
    state = rb.State([[0, 0, 0.0]], [[1.0, 0, 0, 0]], [[3.0, 2.0, 1.0]], [[1.0, 5.0, 2.0]])
    sol = rb.simulate(world, state, CONTINUOUS, 2000.0)
    assert int(sol.impacts.count) > 10_000
    np.testing.assert_allclose(rb.energy(world, sol.final), rb.energy(world, state), rtol=1e-12)


FLOWS = [
    rb.ExactFlight(),
    rb.LieVariational(),
    rb.QuaternionVariational(),
    rb.QuaternionEnergyMomentum(),
    rb.EnergyMidpoint(),
    rb.SimoWong(),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "flow", [*FLOWS[:2], *before_releases(*FLOWS[2:])], ids=lambda flow: type(flow).__name__
)
def test_bounds_of_the_second_derivative(flow):
    """Of the rotation matrix by the duration, for random bodies and spins, thin rods among them."""
    rng = np.random.default_rng(11)
    n, angles = 200, np.array([0.1, 0.3, 0.6, 0.9, 1.3])
    parts = rng.exponential(size=(n, 3)) * 10.0 ** rng.uniform(-3, 0, size=(n, 3))
    moments = jnp.asarray(parts.sum(axis=1, keepdims=True) - parts)
    momentum = moments * jnp.asarray(rng.normal(size=(n, 3)))
    zero = jnp.zeros(1)

    def rotation(duration, moments, momentum):
        tensor = Diag3(Vec3.of(moments[None]))
        inertial = rb.bodies.Inertial(jnp.ones(1), tensor, None, PrincipalAxes.of(tensor))
        none = Vec3(zero, zero, zero)
        phase = Phase(none, Quat(zero + 1, none), none, Vec3.of(momentum[None]))
        still = Vec3(zero[0], zero[0], zero[0])
        end, error = flow.drift(duration, phase, inertial, still)
        w, x, y, z = (part[0] for part in (end.orientation.w, *end.orientation.v.array().T))
        rows = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
        return jnp.array(rows), error

    @jax.jit
    @jax.vmap
    def ratio(moments, momentum):
        bounds = spin_bounds(Vec3.of(momentum[None]), PrincipalAxes(Vec3.of(moments[None]), None))

        def at(angle):
            duration = angle / bounds.rate[0]
            turn = lambda t: rotation(t, moments, momentum)[0]  # noqa: E731
            second = jax.jacfwd(jax.jacfwd(turn))(duration)
            growth = flow.bend_growth(angle)
            size = jnp.linalg.norm(second, ord=2) / (bounds.bend[0] * growth)
            solved = rotation(duration, moments, momentum)[1] <= 1
            return jnp.where(solved, size, 0.0)

        return jax.vmap(at)(jnp.asarray(angles))

    largest = np.asarray(ratio(moments, momentum))
    assert (largest > 0)[:, 0].all()
    assert largest.max() <= 1 + 1e-9
    # It is no idle bound: some body comes close to it.
    assert largest.max() > 0.9


@pytest.mark.slow
def test_steps_of_another_flow_can_be_proved():
    """A rod that turns past the vertical in the middle of a step touches the floor there alone."""
    rod = rb.RigidBody(rb.Capsule(0.001, 0.1), 0.01)
    world = rb.World([rod], [rb.HalfSpace()], gravity=(0, 0, 0))
    spin, dt = 2.0, 0.05
    tilt = 0.5 * spin * dt
    # Its lower end comes from 0.1 mm above the floor, and would get 2e-5 m below it.
    q = [[np.cos(tilt / 2), 0, -np.sin(tilt / 2), 0]]
    state = rb.State([[0, 0, 0.101 - 2e-5]], q, [[0, 0, 0.0]], [[0, spin, 0]])
    counts = {}
    for detect in ("end", "proved"):
        method = rb.LGVCI(dt, detect=detect)
        counts[detect] = int(rb.simulate(world, state, method, dt).impacts.count)
    assert counts["end"] == 0
    assert counts["proved"] > 0


def test_what_continuous_time_cannot_do_is_named():
    world, state = case_one()
    with pytest.raises(ValueError, match="needs ExactFlight"):
        rb.EventDriven(rb.LieVariational(), dt=None)
    with pytest.raises(ValueError, match='on_zeno="rest" needs dt'):
        rb.EventDriven(rb.ExactFlight(), dt=None, on_zeno="rest")
    with pytest.raises(ValueError, match="looks at the ends of steps"):
        rb.EventDriven(rb.ExactFlight(), dt=None, detect="end")
    with pytest.raises(ValueError, match="counts steps"):
        rb.simulate(world, state, CONTINUOUS, 1.0, save=rb.SaveAt(every=10))
    with pytest.raises(ValueError, match=r"SaveAt\.spacing"):
        rb.SaveAt(ts=[0.0], spacing=0.1)
    with pytest.raises(ValueError, match=r"SaveAt\.spacing"):
        rb.simulate(world, state, rb.LGVCI(0.1), 1.0, save=rb.SaveAt(every=1, spacing=0.1))
    drag = rb.Drag(0, 0.1)
    pushed = rb.World(world.bodies, world.obstacles, gravity=GRAVITY, forces=[drag])
    with pytest.raises(ValueError, match=r"World\.forces"):
        rb.simulate(pushed, state, CONTINUOUS, 1.0)
    moving = rb.Moving(rb.HalfSpace(), lambda t, args: (jnp.zeros(3), jnp.array([1.0, 0, 0, 0])))
    table = rb.World(world.bodies, [moving], gravity=GRAVITY)
    with pytest.raises(ValueError, match="obstacles that move"):
        rb.simulate(table, state, CONTINUOUS, 1.0)
    directors = rb.EventDriven(rb.DirectorEnergyMomentum(), 0.01, detect="proved")
    with pytest.raises(ValueError, match="no bound of the curvature"):
        rb.simulate(world, state, directors, 0.1)


def test_a_pinned_body_is_refused_by_name():
    body = rb.RigidBody(rb.Box((0.1, 0.1, 0.1)), 1.0)
    pin = rb.Pin(0, anchor=(0, 0, 0.1), point=(0, 0, 0.1))
    world = rb.World([body], joints=[pin], gravity=GRAVITY)
    state = rb.State([[0, 0, 0.0]], [[1.0, 0, 0, 0]], [[0, 0, 0.0]], [[0, 0, 1.0]])
    with pytest.raises(ValueError, match=r"World\.joints must be empty"):
        rb.simulate(world, state, CONTINUOUS, 1.0)
