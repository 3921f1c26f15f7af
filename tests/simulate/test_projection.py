"""Bodies that are moved out of what they penetrate: closed forms of the closest place, differences,
and what does not change."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences, quick_jit, slope
from scipy.integrate import solve_ivp
from scipy.optimize import minimize_scalar

import jaxrb as rb

RADIUS = 0.5
UPRIGHT = (1.0, 0.0, 0.0, 0.0)
THETA = ["implicit", "nearly_implicit", "semi_explicit"]


def stepped(dt=0.01, scheme="variational", **options):
    return rb.MoreauJean(dt, scheme=scheme, impacts="stepped", **options)


def balls_at(places, velocities=None):
    """The state of bodies that do not turn."""
    still = jnp.zeros_like(places)
    upright = jnp.broadcast_to(jnp.asarray(UPRIGHT, places.dtype), (*places.shape[:1], 4))
    return rb.State(places, upright, still if velocities is None else velocities, still)


def drop(method, restitution, dtype=float):
    """A ball that falls on a plane, in 100 steps of 0.01 s: heights of its lowest point, velocities
    and energies."""
    law = rb.Frictionless(restitution)
    world = rb.World([rb.RigidBody(rb.Sphere(RADIUS))], [rb.HalfSpace()], contact_law=law)
    velocity = jnp.array([[0.3, 0, -1.0]], dtype)
    start = balls_at(jnp.array([[0, 0, 1.0]], dtype), velocity)
    sol = rb.simulate(world, start, method, 1.0, save=rb.SaveAt(every=1), throw=False)
    energy = jax.vmap(lambda state: rb.energy(world, state))(sol.states)
    height = sol.states.position[:, 0, 2] - RADIUS
    return sol.result, height, sol.states.velocity[:, 0, 2], energy


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["variational", *before_releases(*THETA)])
def test_a_ball_that_lands_lies_on_the_plane(scheme):
    """Without projection it stays as deep as it was found, up to half of its speed times dt."""
    depths = []
    for projection in (False, True):
        method = stepped(scheme=scheme, projection=projection)
        result, height, speed, _ = quick_jit(lambda e, m=method: drop(m, e))(jnp.zeros(()))
        assert result == rb.RESULTS.successful
        # What has not struck yet may be half a step below the plane.
        landed = np.asarray(speed) > -1e-9
        assert landed.sum() > 50
        depths.append(-np.min(np.asarray(height)[landed]))
        np.testing.assert_allclose(np.asarray(height)[landed][-1], -depths[-1], rtol=0, atol=1e-12)
    assert 1e-3 < depths[0] < 0.5 * 0.01 * 4.0
    assert depths[1] <= 1e-12


@pytest.mark.slow
def test_elastic_bounces_are_as_they_were():
    """What bounces leaves by itself; lifted, it would gain energy in each bounce. With a
    restitution of 0.3 it comes to rest, on the plane."""
    programs = [
        quick_jit(lambda e, p=projection: drop(stepped(projection=p), e)[1:])
        for projection in (False, True)
    ]
    plain, found = (np.asarray(program(jnp.ones(()))) for program in programs)
    np.testing.assert_array_equal(found, plain)
    height, speed, energy = found
    assert np.min(height) < -1e-3 and np.ptp(np.sign(speed)) == 2
    np.testing.assert_allclose(energy, energy[0], rtol=1e-12)
    plain, (height, speed, _) = (np.asarray(program(jnp.asarray(0.3))) for program in programs)
    # Each step leaves 0.3 of the velocity, until dt/2 times it is within the tolerance of gaps.
    assert abs(speed[-1]) < 1e-8 and plain[0, -1] < -1e-4
    assert height[-5:].min() >= -1e-12 and height[-5:].max() <= 1.01e-10


@pytest.mark.slow
def test_a_ball_lands_in_single_precision():
    """Gaps are as exact as numbers of the size of the radius, 2^-25 of which is 1.5e-8 m."""
    run = quick_jit(lambda e: drop(stepped(projection=True), e, jnp.float32))
    result, height, speed, _ = run(jnp.zeros((), jnp.float32))
    assert result == rb.RESULTS.successful and height.dtype == jnp.float32
    landed = np.asarray(speed) > -1e-3
    assert landed.sum() > 50 and np.min(np.asarray(height)[landed]) >= -5e-7


ANGLES = np.array([0.7, -0.4, -1.2])
NORMALS = np.stack([np.sin(ANGLES), 0 * ANGLES, np.cos(ANGLES)], axis=1)


def in_wedge(place, normals=NORMALS, method=None):
    """Where a ball at rest is after a step, between planes through the origin."""
    world = rb.World(
        [rb.RigidBody(rb.Sphere(RADIUS), 2.5)],
        [rb.HalfSpace(tuple(normal)) for normal in normals],
        gravity=(0.0, 0.0, 0.0),
        contact_law=rb.Coulomb(0.4, 0.0),
    )
    method = stepped(penetration=1.0, projection=True) if method is None else method
    sol = rb.simulate(world, balls_at(place[None]), method, 0.01, throw=False)
    return sol.result, sol.final.position[0]


def closest_place(place, normals=NORMALS):
    """The closest centre from which no plane is nearer than the radius: of all sets of planes that
    may touch, the place on these that is outside of the others and is pushed by each."""
    depths = RADIUS - normals @ place
    for size in range(len(normals) + 1):
        for chosen in map(list, combinations(range(len(normals)), size)):
            own = normals[chosen]
            push = np.linalg.lstsq(own @ own.T, depths[chosen], rcond=None)[0]
            moved = place + own.T @ push
            if (push >= -1e-14).all() and (normals @ moved >= RADIUS - 1e-12).all():
                return moved
    raise AssertionError


@pytest.fixture(scope="module")
def places():
    """Of a ball, in and out of any of three planes."""
    random = np.random.default_rng(5)
    return random.uniform([-1.0, -0.5, 0.2], [0.2, 0.5, 1.4], (24, 3))


@pytest.mark.slow
def test_a_ball_in_a_wedge_goes_to_the_closest_place(places):
    """And a batch of them is each alone."""
    results, found = quick_jit(jax.vmap(in_wedge))(jnp.asarray(places))
    assert (results._value == rb.RESULTS.successful._value).all()
    expected = np.array([closest_place(place) for place in places])
    moved = np.linalg.norm(expected - places, axis=1)
    touching = np.abs(expected @ NORMALS.T - RADIUS) < 1e-12
    assert set(touching.sum(axis=1)) >= {0, 1, 2} and moved.max() > 0.1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    alone = quick_jit(in_wedge)
    for place, one in list(zip(places, found, strict=True))[:6]:
        np.testing.assert_allclose(alone(jnp.asarray(place))[1], one, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_a_gap_narrower_than_the_ball_ends_the_run():
    """No place between two planes, 0.9 m apart, is one for a ball of 1 m."""
    slot = [rb.HalfSpace(), rb.HalfSpace((0.0, 0.0, -1.0), -0.9)]
    world = rb.World([rb.RigidBody(rb.Sphere(RADIUS))], slot, contact_law=rb.Frictionless(0.0))
    start = balls_at(jnp.array([[0.0, 0.0, 0.47]]))

    def run(projection):
        method = stepped(penetration=0.2, projection=projection)
        return rb.simulate(world, start, method, 0.05, throw=False).result

    assert quick_jit(lambda: run(False))() == rb.RESULTS.successful
    assert quick_jit(lambda: run(True))() == rb.RESULTS.held_contacts_not_solved


def overlapping(x):
    """Two balls that overlap, at rest: their places after a step, from masses, radii, the depth and
    the direction."""
    masses, radii, depth, direction = x[:2], x[2:4], x[4], x[5:]
    bodies = [rb.RigidBody(rb.Sphere(r), m) for r, m in zip(radii, masses, strict=True)]
    world = rb.World(bodies, gravity=(0.0, 0.0, 0.0), contact_law=rb.Coulomb(0.4, 0.0))
    direction = direction / jnp.sqrt(jnp.sum(direction**2))
    places = jnp.stack([0 * direction, (radii[0] + radii[1] - depth) * direction])
    method = stepped(penetration=1.0, projection=True)
    sol = rb.simulate(world, balls_at(places), method, 0.01, throw=False)
    return sol.final.position, sol.successful


OVERLAP = jnp.array([1.2, 3.6, 0.5, 0.3, 0.05, 0.3, -0.5, 0.7])


def parted(x):
    """What they move by: the inverse ratio of their masses."""
    (m, n), (r, s), depth, direction = x[:2], x[2:4], x[4], x[5:]
    direction = direction / np.linalg.norm(direction)
    return np.stack([-depth * n / (m + n) * direction, (r + s - depth * n / (m + n)) * direction])


@pytest.mark.slow
def test_balls_that_overlap_are_parted_in_the_inverse_ratio_of_masses():
    places, successful = quick_jit(overlapping)(OVERLAP)
    assert successful
    np.testing.assert_allclose(places, parted(np.asarray(OVERLAP)), rtol=0, atol=1e-13)


@pytest.mark.long
def test_derivatives_of_balls_that_are_parted():
    """In both modes, by masses, radii, the depth and the direction."""
    expected = differences(parted, np.asarray(OVERLAP))
    for mode in (jax.jacfwd, jax.jacrev):
        found = quick_jit(mode(lambda x: overlapping(x)[0]))(OVERLAP)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_what_is_pushed_out_pushes_on():
    """A ball in a plane, and one above it: the upper one makes way, from nearby too."""
    ball = rb.RigidBody(rb.Sphere(RADIUS))
    world = rb.World([ball, ball], [rb.HalfSpace()], contact_law=rb.Coulomb(0.3, 0.0))

    def heights(depth, apart):
        first = RADIUS - depth
        up = jnp.stack([first, first + 2 * RADIUS + apart])
        start = balls_at(jnp.stack([0 * up, 0 * up, up], axis=1))
        method = stepped(1e-6, penetration=0.1, projection=True)
        sol = rb.simulate(world, start, method, 1e-6, throw=False)
        return sol.successful, sol.final.position[:, 2] - up

    run = quick_jit(heights)
    # Within a step of a microsecond nothing falls by more than 1e-11 m.
    for depth, apart in ((0.01, 0.0), (0.01, 0.004), (0.01, 0.03), (0.0, -0.01)):
        successful, moved = run(jnp.asarray(depth), jnp.asarray(apart))
        assert successful
        expected = [depth, max(depth - apart, 0.0)]
        np.testing.assert_allclose(moved, expected, rtol=0, atol=2e-11)


def tilted(depth, method):
    """A box on a plane with one edge below it: its height and tilt after a step."""
    half, tilt = np.array([0.3, 0.2, 0.1]), 0.2
    world = rb.World(
        [rb.RigidBody(rb.Box(half), 1.5)],
        [rb.HalfSpace()],
        gravity=(0.0, 0.0, 0.0),
        contact_law=rb.Frictionless(0.0),
    )
    height = half[0] * np.sin(tilt) + half[2] * np.cos(tilt) - depth
    zero = 0 * depth
    place = jnp.stack([zero, zero, height])[None]
    turn = jnp.array([[np.cos(tilt / 2), 0, np.sin(tilt / 2), 0]])
    start = rb.State(place, turn, 0 * place, 0 * place)
    sol = rb.simulate(world, start, method, 0.01, throw=False)
    turn = sol.final.quaternion[0]
    return sol.final.position[0, 2] - height, 2 * jnp.arctan2(turn[2], turn[0]) - tilt


def closest_tilt(depth):
    """Where m dz^2 + J da^2 is least of all places on which the lowest edge touches the plane."""
    tilt, moment = 0.2, (0.3**2 + 0.1**2) / 3

    def lift(turn):
        low = lambda a: 0.3 * np.sin(a) + 0.1 * np.cos(a)  # noqa: E731
        return depth + low(tilt + turn) - low(tilt)

    size = lambda turn: lift(turn) ** 2 + moment * turn**2  # noqa: E731
    turn = minimize_scalar(size, bracket=(-depth, depth), tol=1e-10).x
    return lift(turn), turn


@pytest.mark.slow
def test_a_box_goes_to_the_closest_place_to_second_order():
    """Its corners touch the plane; how far it turns for that differs by the square of the depth."""
    run = quick_jit(lambda depth: tilted(depth, stepped(penetration=0.1, projection=True)))
    errors = []
    for depth in (0.02, 0.01, 0.005):
        rise, turn = map(float, run(jnp.asarray(depth)))
        low = 0.3 * np.sin(0.2 + turn) + 0.1 * np.cos(0.2 + turn)
        start = 0.3 * np.sin(0.2) + 0.1 * np.cos(0.2) - depth
        np.testing.assert_allclose(start + rise, low, rtol=0, atol=1e-13)
        closest = closest_tilt(depth)
        errors.append(max(abs(rise - closest[0]), abs(turn - closest[1])))
        assert abs(closest[1]) > 0.1 * depth
    assert errors[0] < 3 * 0.02**2
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 4, rtol=0.1)


DUMBBELL = rb.Distance(0, (0, 0, 0), 0.5, other=1)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["implicit", *before_releases("variational", "semi_explicit")])
def test_joined_balls_land_and_their_joint_holds(scheme):
    """In each of 2000 steps; what has not struck yet is below the plane for no more than one."""
    ball = rb.RigidBody(rb.Sphere(0.1), mass=1.0)
    law = rb.Coulomb(0.1, 0.0)
    world = rb.World([ball, ball], [rb.HalfSpace()], joints=[DUMBBELL], contact_law=law)
    start = balls_at(jnp.array([[0, 0, 0.5], [0.3, 0, 0.9]]))

    def run():
        method = stepped(0.002, scheme, projection=True)
        save = rb.SaveAt(every=1)
        sol = rb.simulate(world, start, method, 4.0, save=save, throw=False, max_steps=4000)
        broken = jax.vmap(lambda s: jnp.stack(rb.joint_violations(world, s)))(sol.states)
        return sol.result, sol.states.position[..., 2] - 0.1, broken

    result, heights, broken = quick_jit(run)()
    assert result == rb.RESULTS.successful and len(heights) >= 2001
    assert np.abs(broken[:2001]).max() <= 1e-12
    lower = np.asarray(heights[:2001])
    assert np.maximum(lower[1:], lower[:-1]).min() >= -1e-12 and lower.min() < -1e-3
    # A contact counts as closed up to `tolerance`, by default 1e-10.
    assert (lower[-1] >= -1e-12).all() and (lower[-1] <= 1.01e-10).all()


@pytest.mark.slow
def test_a_rod_is_put_back_to_the_limit_of_its_hinge():
    """Without projection it stays beyond by up to half of its rate times dt."""
    length, limit = 0.5, -0.5
    rod = rb.RigidBody(rb.Box((0.02, 0.02, length / 2)), mass=1.0)
    top = (0, 0, length / 2)
    hinge = rb.Hinge(0, axis=(0, 1, 0), anchor=top, limits=(limit, 1.0))
    # Loads press it against its limit.
    world = rb.World([rod], [], joints=[hinge], gravity=(5.0, 0.0, 0.0))
    start = rb.State(
        jnp.array([[0, 0, -length / 2]]),
        jnp.array([UPRIGHT]),
        jnp.zeros((1, 3)),
        jnp.zeros((1, 3)),
    )

    def run(projection):
        method = stepped(0.013, "implicit", projection=projection)
        sol = rb.simulate(world, start, method, 0.65, throw=False)
        place, rate = rb.joint_violations(world, sol.final)
        broken = jnp.max(jnp.abs(jnp.concatenate([place, rate])))
        return sol.successful, rb.joint_coordinates(world, sol.final)[0] - limit, broken

    (_, beyond, _), (successful, held, broken) = (
        quick_jit(lambda p=p: run(p))() for p in (False, True)
    )
    assert successful and -0.05 < float(beyond) < -1e-4
    assert abs(float(held)) <= 1e-12 and float(broken) <= 1e-12


@pytest.mark.slow
def test_a_ball_lands_on_a_table_that_rises():
    """At the place where the table is at the end of each step."""
    rise = 0.7
    motion = lambda t, args: (jnp.stack([0 * t, 0 * t, rise * t]), jnp.array(UPRIGHT))  # noqa: E731
    law = rb.Coulomb(0.3, 0.0)
    table = rb.Moving(rb.HalfSpace(), motion)
    world = rb.World([rb.RigidBody(rb.Sphere(RADIUS))], [table], contact_law=law)
    start = balls_at(jnp.array([[0.0, 0.0, 0.7]]))

    def run(projection):
        method, save = stepped(0.013, projection=projection), rb.SaveAt(every=1)
        sol = rb.simulate(world, start, method, 0.65, save=save, throw=False)
        return sol.successful, sol.states.position[:, 0, 2] - RADIUS - rise * sol.ts

    depths = []
    for projection in (False, True):
        successful, height = quick_jit(lambda p=projection: run(p))()
        assert successful
        depths.append(-np.min(np.asarray(height)[25:51]))
    assert depths[0] > 1e-3 and abs(depths[1]) <= 1e-12


@pytest.mark.slow
def test_a_box_stays_on_a_table_that_shakes():
    """Which accelerates by up to a < g; also with a large tolerance, which leaves gaps open."""
    amplitude, rate, dt, n = 0.02, 8.0, 0.01, 160  # two periods
    height = lambda t: amplitude * jnp.sin(rate * t)  # noqa: E731
    motion = lambda t, args: (jnp.stack([0 * t, 0 * t, height(t)]), jnp.array(UPRIGHT))  # noqa: E731
    table, law = rb.Moving(rb.HalfSpace(), motion), rb.Coulomb(0.5, 0.0)
    world = rb.World([rb.RigidBody(rb.Box((0.3, 0.2, 0.1)))], [table], contact_law=law)
    start = balls_at(jnp.array([[0.0, 0.0, 0.1]]), jnp.array([[0.0, 0.0, amplitude * rate]]))

    def run(tolerance):
        method = stepped(dt, projection=True, tolerance=tolerance)
        sol = rb.simulate(world, start, method, n * dt, save=rb.SaveAt(every=1), throw=False)
        gap = sol.states.position[:, 0, 2] - 0.1 - height(sol.ts)
        rates = sol.states.velocity[:, 0, 2] - amplitude * rate * jnp.cos(rate * sol.ts)
        return sol.successful, gap[: n + 1], rates[: n + 1]

    largest = amplitude * rate**2
    successful, gap, rates = quick_jit(lambda: run(0.5 * largest * dt**2))()
    assert successful
    assert gap.min() >= -1e-12 and gap.max() <= 0.5 * largest * dt**2
    # The velocity is that of the table within half of a step, or a whole one.
    assert np.abs(rates).max() <= largest * dt
    # By default it is open by what the trapezoidal rule leaves of the displacement in a step and
    # half of that of the steps before, and closes that in the next (see `carrying`).
    successful, gap, rates = quick_jit(lambda: run(1e-10))()
    assert successful
    assert gap.min() >= -1e-12 and gap.max() <= largest * rate * dt**3 / 6
    assert np.abs(rates).max() <= 1.1 * largest * rate * dt**2 / 12


def test_projection_is_refused_where_it_has_nothing_to_do():
    with pytest.raises(ValueError, match=r'projection is of impacts="stepped"'):
        rb.MoreauJean(0.01, projection=True)
    with pytest.raises(ValueError, match=r"projection must be True or False; got 1e-10"):
        stepped(projection=1e-10)


def in_a_bowl(dt, projection):
    """A ball that slides in a hollow sphere for 2 s, let go 1 rad from its lowest point: the angle
    at the end, which is that of a pendulum of 1 m, and the least gap."""
    bowl, law = rb.Complement(rb.Sphere(1.3)), rb.Frictionless(0.0)
    world = rb.World([rb.RigidBody(rb.Sphere(0.3))], [bowl], contact_law=law)
    start = balls_at(jnp.array([[np.sin(1.0), 0, -np.cos(1.0)]]))
    method = stepped(dt, projection=projection, penetration=1e-9)
    options = {"save": rb.SaveAt(every=1), "max_steps": 900, "throw": False}
    sol = rb.simulate(world, start, method, 2.0, **options)
    x, _, z = jnp.moveaxis(sol.states.position[:, 0], -1, 0)
    end = sol.final.position[0]
    return sol.successful, jnp.arctan2(end[0], -end[2]), jnp.nanmin(1 - jnp.sqrt(x**2 + z**2))


@pytest.mark.slow
def test_the_order_in_a_bowl_stays_and_the_gap_is_closed():
    """Of a contact that stops what turns towards it in each step it is 1, with and without."""
    fall = lambda _, y: [y[1], -9.81 * np.sin(y[0])]  # noqa: E731
    exact = solve_ivp(fall, (0, 2), [1.0, 0.0], "DOP853", rtol=1e-12, atol=1e-12).y[0, -1]
    sizes, errors, gaps = [0.01, 0.005, 0.0025], [], []
    for projection in (False, True):
        run = quick_jit(lambda dt, p=projection: in_a_bowl(dt, p))
        found = [run(jnp.asarray(dt)) for dt in sizes]
        assert all(successful for successful, *_ in found)
        errors.append([abs(angle - exact) for _, angle, _ in found])
        gaps.append([-gap for *_, gap in found])
        np.testing.assert_allclose(slope(sizes, errors[-1]), 1.0, atol=0.1)
    assert max(gaps[1]) <= 1e-12 and min(gaps[0]) > 1e-3
    assert (np.array(errors[1]) < 0.6 * np.array(errors[0])).all()


def slid(x):
    """Where a box is after landing on a slope without friction and sliding on, from its height,
    its velocity, the place of the slope, its mass and half of its length."""
    height, speed, offset, mass, half = x
    zero = 0 * height
    normal = np.array([0.3, 0.0, 1.0]) / np.sqrt(1.09)
    world = rb.World(
        [rb.RigidBody(rb.Box(jnp.stack([half, 0.2 + zero, 0.1 + zero])), mass)],
        [rb.HalfSpace(tuple(normal), offset)],
        contact_law=rb.Frictionless(0.0),
    )
    places = jnp.stack([zero, zero, height])[None]
    start = balls_at(places, jnp.stack([speed, zero, -1 + zero])[None])
    method = stepped(0.02, projection=True)
    final = rb.simulate(world, start, method, 0.2, throw=False).final
    return jnp.concatenate([final.position[0], final.velocity[0], final.angular_velocity[0]])


@pytest.mark.long
def test_derivatives_of_a_landing_are_those_of_the_steps():
    """Of a box that lands on an edge, turns and is projected: by differences, in both modes."""
    x = jnp.array([0.32, 0.4, 0.0, 1.7, 0.3])
    run = quick_jit(slid)
    expected = differences(lambda x: np.asarray(run(jnp.asarray(x))), np.asarray(x), 1e-5)
    for mode in (jax.jacfwd, jax.jacrev):
        found = quick_jit(mode(slid))(x)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
