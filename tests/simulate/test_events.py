"""When and in what order impacts happen, and what they do, against closed forms."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb

IDENTITY = (1.0, 0.0, 0.0, 0.0)
EPS = np.finfo(float).eps


def ball(radius, position, velocity, spin=(0.0, 0.0, 0.0)):
    """One sphere and the state it starts in; the arguments may be traced."""
    rows = [jnp.asarray(a, float)[None] for a in (position, IDENTITY, velocity, spin)]
    return rb.RigidBody(rb.Sphere(radius)), rb.State(*rows)


def full_inertia(body):
    inertia = body.shape.mass_properties(mass=body.mass).inertia
    return jnp.diag(inertia) if inertia.ndim == 1 else inertia


def rotation(rng):
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def matrix(q):
    w, v = q[0], q[1:]
    skew = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    return np.eye(3) + 2 * w * skew + 2 * skew @ skew


def product(p, q):
    return np.array(
        [p[0] * q[0] - p[1:] @ q[1:], *(p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:]))]
    )


# --- a bouncing sphere ------------------------------------------------------------------


def bounces(h, v, g, e, t1):
    """Times of impact, speeds after them, and the height and velocity at t1."""
    t, times, speeds = 0.0, [], []
    while True:
        flight = (v + np.sqrt(v * v + 2 * g * h)) / g
        if t + flight > t1:
            rest = t1 - t
            return times, speeds, h + v * rest - g * rest**2 / 2, v - g * rest
        t += flight
        v, h = e * (g * flight - v), 0.0
        times.append(t)
        speeds.append(v)


@functools.partial(jax.jit, static_argnums=1)
def drop(parameters, dt):
    def one(h, v, g, e):
        radius = 0.3
        body, state = ball(
            radius, jnp.stack([0 * h, 0 * h, h + radius]), jnp.stack([0.4 + 0 * v, 0 * v, v])
        )
        world = rb.World(
            [body],
            [rb.HalfSpace()],
            gravity=jnp.stack([0 * g, 0 * g, -g]),
            contact_law=rb.Frictionless(e),
        )
        save = rb.SaveAt(final=True, impacts=24)
        return rb.simulate(
            world,
            state,
            rb.LGVCI(dt=dt, max_impacts=80, on_zeno="stop"),
            1.5,
            save=save,
            throw=False,
        )

    return jax.vmap(one)(*parameters)


@pytest.mark.parametrize("dt", [0.01, 0.5])
@pytest.mark.slow
def test_bouncing_sphere(dt):
    """Parabolas are flown exactly, so also a step with several impacts in it is exact."""
    rng = np.random.default_rng(1)
    n = 50
    # Restitutions from 0.94 leave the accumulation of impacts beyond t1.
    h, v = rng.uniform(0.02, 0.2, n), rng.uniform(0.0, 0.5, n)
    g, e = rng.uniform(3.0, 12.0, n), np.concatenate([[1.0], rng.uniform(0.94, 1.0, n - 1)])
    sol = drop((h, v, g, e), dt)
    assert np.all(np.asarray(sol.result == rb.RESULTS.successful))
    most = 0
    for k in range(n):
        times, speeds, height, velocity = bounces(h[k], v[k], g[k], e[k], 1.5)
        count = len(times)
        assert int(sol.impacts.count[k]) == count
        most = max(most, np.bincount(np.floor(np.array(times, float) / 0.5).astype(int)).max())
        # Round-off of some 1e-15 m over closing speeds of 0.5 m/s and more, a few times over.
        np.testing.assert_allclose(sol.impacts.time[k, :count], times, rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            sol.impacts.after.velocity[k, :count, 0, 2], speeds, rtol=0, atol=1e-11
        )
        end = sol.final.position[k, 0]
        np.testing.assert_allclose(end, [0.6, 0, height + 0.3], rtol=0, atol=1e-11)
        np.testing.assert_allclose(sol.final.velocity[k, 0], [0.4, 0, velocity], rtol=0, atol=1e-11)
    assert most >= 3  # impacts in one step of 0.5 s


# --- several planes ---------------------------------------------------------------------


@jax.jit
def in_room(parameters):
    """A ball in a turned room of six planes, without gravity, in steps of 0.5 s."""

    def one(normals, offsets, position, velocity, e):
        body, state = ball(0.1, position, velocity)
        planes = [rb.HalfSpace(normals[i], offsets[i]) for i in range(6)]
        world = rb.World([body], planes, gravity=(0, 0, 0), contact_law=rb.Frictionless(e))
        save = rb.SaveAt(final=True, impacts=24)
        return rb.simulate(
            world, state, rb.LGVCI(dt=0.5, on_zeno="stop"), 2.0, save=save, throw=False
        )

    return jax.vmap(one)(*parameters)


def room(frame, centre, half, scale):
    """Planes of any normal length around a box, axis by axis, lower before upper."""
    normals = np.stack([s * frame[:, axis] for axis in range(3) for s in (1, -1)])
    offsets = [s * (frame[:, axis] @ centre) - half[axis] for axis in range(3) for s in (1, -1)]
    return normals * scale[:, None], np.array(offsets) * scale


@pytest.mark.slow
def test_room_of_six_tilted_shifted_planes_with_normals_of_any_length():
    """Along each axis of the room the ball moves to and fro by itself."""
    rng = np.random.default_rng(2)
    n, t1, radius = 64, 2.0, 0.1
    lanes, expected = [], []
    for _ in range(n):
        frame, centre = matrix(rotation(rng)), rng.normal(size=3)
        half = rng.uniform(0.5, 1.5, 3)
        inner = half - radius
        start, v = rng.uniform(-0.9, 0.9, 3) * inner, rng.uniform(-3, 3, 3)
        normals, offsets = room(frame, centre, half, rng.uniform(0.2, 5.0, 6))
        lanes.append((normals, offsets, centre + frame @ start, frame @ v, 1.0))
        hits, end, speed = [], np.zeros(3), np.zeros(3)
        for axis in range(3):
            t, x, s = 0.0, start[axis], v[axis]
            while True:
                wait = (np.sign(s) * inner[axis] - x) / s
                if t + wait > t1:
                    break
                t, x = t + wait, np.sign(s) * inner[axis]
                hits.append((t, 2 * axis + (s > 0)))
                s = -s
            end[axis], speed[axis] = x + s * (t1 - t), s
        expected.append((sorted(hits), centre + frame @ end, frame @ speed))
    sol = in_room(tuple(np.stack([lane[k] for lane in lanes]) for k in range(5)))
    assert np.all(np.asarray(sol.result == rb.RESULTS.successful))
    assert max(len(hits) for hits, _, _ in expected) >= 6
    for k, (hits, end, velocity) in enumerate(expected):
        assert int(sol.impacts.count[k]) == len(hits)
        times, planes = [t for t, _ in hits], [p for _, p in hits]
        assert np.asarray(sol.impacts.pair[k, : len(hits)]).tolist() == [[0, p] for p in planes]
        # Round-off of the gap, 1e-15, over normal speeds that may be as small as 0.03.
        np.testing.assert_allclose(sol.impacts.time[k, : len(hits)], times, rtol=0, atol=1e-11)
        np.testing.assert_allclose(sol.final.position[k, 0], end, rtol=0, atol=1e-12)
        np.testing.assert_allclose(sol.final.velocity[k, 0], velocity, rtol=0, atol=1e-13)


@pytest.mark.slow
def test_corners_and_edges_reverse_every_component():
    """Impacts at one time are taken one after the other, without time between them."""
    frame, centre, half = np.eye(3), np.zeros(3), np.full(3, 1.1)
    rng = np.random.default_rng(3)
    directions = [(1, 1, 1), (1, 0, -1), (-1, -1, 0), (-1, 1, -1), (0.5, 0.5, 0.5)]
    speeds = [1.0, 0.7, 1.3, 1 / 3, 1.9]
    cases = [(d, s, e) for d, s in zip(directions, speeds, strict=True) for e in (1.0, 0.5, 0.0)]
    lanes = []
    for d, s, e in cases:
        normals, offsets = room(frame, centre, half, rng.uniform(0.2, 5.0, 6))
        lanes.append((normals, offsets, np.zeros(3), s * np.array(d), e))
    sol = in_room(tuple(np.stack([np.asarray(lane[k]) for lane in lanes]) for k in range(5)))
    assert np.all(np.asarray(sol.result == rb.RESULTS.successful))
    for k, (d, s, e) in enumerate(cases):
        v = s * np.array(d)
        time = 1 / np.abs(v).max()  # the ball's centre has 1 m to go
        if time > 2:
            np.testing.assert_allclose(sol.final.position[k, 0], 2 * v, rtol=0, atol=1e-14)
            continue
        struck = np.flatnonzero(v)
        n = len(struck)
        np.testing.assert_allclose(sol.impacts.time[k, :n], time, rtol=0, atol=1e-13)
        planes = np.asarray(sol.impacts.pair[k, :n, 1])
        assert sorted(planes) == sorted(2 * axis + (v[axis] > 0) for axis in struck)
        np.testing.assert_allclose(sol.impacts.after.velocity[k, n - 1, 0], -e * v, atol=1e-14)
        if time * (1 + 2 / max(e, 1e-9)) > 2:  # before the opposite corner
            assert int(sol.impacts.count[k]) == n
            end = v * time - e * v * (2 - time)
            np.testing.assert_allclose(sol.final.position[k, 0], end, rtol=0, atol=1e-13)


# --- contacts that open again within a step ---------------------------------------------


@functools.partial(jax.jit, static_argnums=1)
def throw_at_ceiling(depths, detect):
    def one(depth):
        g, z0, radius, height = 9.81, 0.5, 0.2, 1.7
        rise = height - radius - z0
        v = jnp.sqrt(2 * g * (rise + depth))
        body, state = ball(
            radius, jnp.stack([0 * v, 0 * v, z0 + 0 * v]), jnp.stack([0 * v, 0 * v, v])
        )
        world = rb.World(
            [body],
            [rb.HalfSpace((0, 0, -1), -height)],
            gravity=(0, 0, -g),
            contact_law=rb.Frictionless(0.5),
        )
        method = rb.EventDriven(rb.LieVariational(), 0.9, detect=detect, on_zeno="stop")
        save = rb.SaveAt(final=True, impacts=2)
        return v, rb.simulate(world, state, method, 0.9, save=save, throw=False)

    return jax.vmap(one)(depths)


@pytest.mark.slow
def test_only_interior_detection_finds_a_contact_that_opens_within_the_step():
    # The apex, 0.45 s into the single step, would lie so far behind the ceiling.
    depths = np.array([1e-1, 1e-2, 1e-3, 1e-5, 1e-7, 1e-9])
    g, z0, rise, t1 = 9.81, 0.5, 1.0, 0.9
    v, missed = throw_at_ceiling(depths, "end")
    assert np.all(np.asarray(missed.result == rb.RESULTS.successful))
    end = z0 + np.asarray(v) * t1 - g * t1**2 / 2
    np.testing.assert_array_equal(missed.impacts.count, 0)
    np.testing.assert_allclose(missed.final.position[:, 0, 2], end, rtol=0, atol=1e-14)
    _, found = throw_at_ceiling(depths, "interior")
    assert np.all(np.asarray(found.result == rb.RESULTS.successful))
    np.testing.assert_array_equal(found.impacts.count, 1)
    # v^2 - 2 g rise is 2 g depth; the difference of squares would cancel.
    closing = np.sqrt(2 * g * depths)
    time = 2 * rise / (np.asarray(v) + closing)
    # The gap is known to its round-off, 8 eps (1.7 + 1.5 + 0.2); the depth to that of v.
    uncertain = 30 * EPS / closing + 1e-15
    assert np.all(np.abs(found.impacts.time[:, 0] - time) <= 2 * uncertain)
    np.testing.assert_allclose(
        found.impacts.after.velocity[:, 0, 0, 2],
        -0.5 * closing,
        rtol=0,
        atol=2 * g * uncertain.max(),
    )
    rest = t1 - time
    end = z0 + rise - 0.5 * closing * rest - g * rest**2 / 2
    assert np.all(np.abs(found.final.position[:, 0, 2] - end) <= 20 * uncertain)


@jax.jit
@jax.vmap
def swing_rod(start, touch):
    """A long ellipsoid that turns about y past the vertical; its tip dips into the ground."""

    thin, long, rate = 0.1, 1.0, 3.0
    height = jnp.sqrt((thin * jnp.sin(touch)) ** 2 + (long * jnp.cos(touch)) ** 2)
    zero = 0 * start
    body = rb.RigidBody(rb.Ellipsoid((thin, thin, long)))
    state = rb.State(
        jnp.stack([zero, zero, height])[None],
        jnp.stack([jnp.cos(start / 2), zero, jnp.sin(start / 2), zero])[None],
        jnp.zeros((1, 3)),
        jnp.stack([zero, rate + zero, zero])[None],
    )
    world = rb.World([body], [rb.HalfSpace()], gravity=(0, 0, 0))
    method = rb.EventDriven(rb.LieVariational(), 0.1, detect="interior")
    return rb.simulate(
        world, state, method, 0.1, save=rb.SaveAt(final=True, impacts=2), throw=False
    )


@pytest.mark.slow
def test_a_swinging_rod_touches_within_a_step():
    start, touch = np.array([-0.15, -0.15, -0.12]), np.array([-0.1, -0.05, -0.1])
    found = swing_rod(start, touch)
    assert np.all(np.asarray(found.result == rb.RESULTS.successful))
    np.testing.assert_array_equal(found.impacts.count, 1)
    # A segment of duration a turns a principal axis by the angle with sine a Omega.
    time = np.sin(touch - start) / 3.0
    np.testing.assert_allclose(found.impacts.time[:, 0], time, rtol=0, atol=1e-12)


def first_touches(position, velocity, radius):
    """When balls of one radius first touch the first one, which moves alone: closed form."""
    to = position[:, 1:] - position[:, :1]
    speed = np.linalg.norm(velocity, axis=-1, keepdims=True)
    along = np.sum(to * velocity[:, None], axis=-1) / speed
    off2 = np.sum(to**2, axis=-1) - along**2
    depth2 = (2 * radius) ** 2 - off2
    times = (along - np.sqrt(np.maximum(depth2, 0))) / speed
    return np.where(depth2 > 0, times, np.inf)


@pytest.mark.parametrize("radii", [10, 50])
@pytest.mark.slow
def test_balls_that_cross_within_a_step_touch_and_none_that_is_passed_hides_another(radii):
    """Three balls lie along the path of a first; some are hit, some missed by less than a radius,
    in any order. The first step takes all of it."""
    rng, n, radius = np.random.default_rng(radii), 64, 0.1
    velocity = np.zeros((n, 3))
    velocity[:, 0] = radii * radius / 1.0
    position = np.zeros((n, 4, 3))
    position[:, 1:, 0] = radius * radii * np.array([0.3, 0.55, 0.8])
    off, angle = rng.uniform(0, 3 * radius, (n, 3)), rng.uniform(0, 2 * np.pi, (n, 3))
    position[:, 1:, 1:] = np.stack([off * np.cos(angle), off * np.sin(angle)], axis=-1)
    bodies = [rb.RigidBody(rb.Sphere(radius))] * 4
    world = rb.World(bodies, gravity=(0, 0, 0), pairs=[(0, 1), (0, 2), (0, 3)])
    unit = np.zeros((n, 4, 4))
    unit[..., 0] = 1.0
    moving = np.zeros((n, 4, 3))
    moving[:, 0] = velocity
    states = rb.State(position, unit, moving, np.zeros((n, 4, 3)))
    method = rb.EventDriven(rb.LieVariational(), 1.0, detect="interior")
    save = rb.SaveAt(final=True, impacts=1)
    run = jax.jit(
        jax.vmap(lambda state: rb.simulate(world, state, method, 1.0, save=save, throw=False))
    )
    sol = run(jax.tree.map(jnp.asarray, states))
    assert np.all(sol.successful)
    times = first_touches(position, velocity, radius)
    hit = np.isfinite(times).any(axis=1)
    assert 30 < hit.sum() < 64 and np.isinf(times[hit, 0]).any()
    np.testing.assert_array_equal(np.asarray(sol.impacts.count) > 0, hit)
    found = np.asarray(sol.impacts.time)[hit, 0]
    # A gap of 1e-15 m at grazing incidence leaves sqrt of it to the time.
    np.testing.assert_allclose(found, times[hit].min(axis=1), rtol=0, atol=1e-9)


# --- what is recorded -------------------------------------------------------------------

SHAPES = {
    "sphere": rb.Sphere(0.5),
    "ellipsoid": rb.Ellipsoid((0.4, 0.6, 0.8)),
    "box": rb.Box((0.3, 0.5, 0.4)),
    "rounded": rb.Rounded(rb.Box((0.3, 0.2, 0.5)), 0.1),
    "small sphere": rb.Sphere(0.2),
    "long box": rb.Box((0.2, 0.2, 0.9)),
}
MASSES = {name: 0.7 + 0.3 * k for k, name in enumerate(SHAPES)}
PLANES = (((0.3, -0.2, 2.0), -0.5), ((-1.5, 0.0, 0.4), -3.0))


def mixed_state(names, seed):
    """Positions and motions of each body by its name, whatever the order."""
    rows = []
    for name in names:
        rng = np.random.default_rng([seed, list(SHAPES).index(name)])
        rows.append(
            (
                rng.uniform([-1, -1, 1.2], [1, 1, 2.0]),
                rotation(rng),
                rng.uniform(-2, 2, 3),
                rng.uniform(-3, 3, 3),
            )
        )
    return [np.stack(column) for column in zip(*rows, strict=True)]


@functools.partial(jax.jit, static_argnums=(1, 2))
def fly_mixed(states, names, tolerance=None):
    def one(position, quaternion, velocity, spin, e):
        world = rb.World(
            [rb.RigidBody(SHAPES[name], mass=MASSES[name]) for name in names],
            [rb.HalfSpace(*plane) for plane in PLANES],
            contact_law=rb.Frictionless(e),
            pairs=(),
        )
        state = rb.State(position, quaternion, velocity, spin)
        method = rb.LGVCI(dt=0.01, tolerance=tolerance, max_impacts=100, on_zeno="stop")
        save = rb.SaveAt(final=True, impacts=16)
        sol = rb.simulate(world, state, method, 0.8, save=save, throw=False)
        gaps = jax.vmap(lambda s: rb.gaps(world, s))
        energies = jax.vmap(lambda s: rb.energy(world, s))
        inertia = jnp.stack([full_inertia(body) for body in world.bodies])
        record = sol.impacts
        return sol, gaps(record.before), energies(record.before), energies(record.after), inertia

    return jax.vmap(one)(*states)


@pytest.mark.parametrize("tolerance", [None, pytest.param(1e-6, marks=pytest.mark.slow)])
def test_record_of_impacts_is_consistent(tolerance):
    names = ("box", "sphere", "rounded", "ellipsoid")
    lanes = 12
    states = [np.stack(c) for c in zip(*(mixed_state(names, s) for s in range(lanes)), strict=True)]
    e = np.linspace(0.7, 1.0, lanes)
    sol, gaps, energy_before, energy_after, inertia = jax.tree.map(
        np.asarray, fly_mixed((*states, e), names, tolerance)
    )
    record, checked = sol.impacts, set()
    assert np.all(sol.result == rb.RESULTS.successful)
    for lane in range(lanes):
        count = int(record.count[lane])
        times = record.time[lane, : min(count, 16)]
        assert np.all(np.diff(times) >= 0) and np.all((times > 0) & (times <= 0.8))
        for k in range(len(times)):
            body, plane = record.pair[lane, k]
            pick = lambda leaf, lane=lane, k=k, body=body: leaf[lane, k, body]  # noqa: E731
            before, after = jax.tree.map(pick, (record.before, record.after))
            gap = gaps[lane, k, body, plane]
            # 8 eps of lengths up to 4 m by default; the gap of the state handed out is
            # rounded anew, by an eps or two of the same lengths.
            assert -4 * EPS * 4 <= gap <= (8 * EPS * 4 if tolerance is None else tolerance)
            np.testing.assert_array_equal(before.position, after.position)
            np.testing.assert_allclose(before.quaternion, after.quaternion, atol=4e-16)

            normal = np.array(PLANES[plane][0])
            offset = PLANES[plane][1] / np.linalg.norm(normal)
            normal = normal / np.linalg.norm(normal)
            point, impulse = record.position[lane, k], record.impulse[lane, k]
            np.testing.assert_allclose(record.normal[lane, k], normal, atol=1e-15)
            assert abs(point @ normal - offset - gap) < 1e-13
            np.testing.assert_allclose(
                after.velocity - before.velocity, impulse / MASSES[names[body]], atol=1e-13
            )
            size = impulse @ normal
            assert size > 0
            np.testing.assert_allclose(impulse, size * normal, atol=1e-13)
            R, J = matrix(before.quaternion), inertia[lane, body]
            arm = R.T @ (point - before.position)
            torque = np.cross(arm, R.T @ impulse)
            change = J @ (after.angular_velocity - before.angular_velocity)
            np.testing.assert_allclose(change, torque, atol=1e-12)

            def normal_velocity(s, R=R, arm=arm, normal=normal):
                return normal @ (s.velocity + R @ np.cross(s.angular_velocity, arm))

            closing, opening = normal_velocity(before), normal_velocity(after)
            assert closing < 0
            assert abs(opening + e[lane] * closing) < 1e-12
            chi = np.cross(arm, R.T @ normal)
            inverse = 1 / MASSES[names[body]] + chi @ np.linalg.solve(J, chi)
            lost = energy_before[lane, k] - energy_after[lane, k]
            # Energies are of order 100 J: round-off of 1e-14 each.
            assert abs(lost - (1 - e[lane] ** 2) * closing**2 / (2 * inverse)) < 1e-12
            # The bodies that are not struck pass unchanged.
            others = [i for i in range(len(names)) if i != body]
            np.testing.assert_array_equal(
                record.before.velocity[lane, k, others], record.after.velocity[lane, k, others]
            )
            checked.add((int(body), int(plane)))
    assert {body for body, _ in checked} == {0, 1, 2, 3}
    assert {plane for _, plane in checked} == {0, 1}


@pytest.mark.long
def test_the_order_of_bodies_does_not_matter():
    names = ("sphere", "ellipsoid", "box", "long box")
    orders = [names, ("box", "sphere", "long box", "ellipsoid")]
    lanes, results = 3, []
    e = np.array([1.0, 0.8, 0.6])
    for order in orders:
        states = [
            np.stack(c) for c in zip(*(mixed_state(order, s) for s in range(lanes)), strict=True)
        ]
        sol = jax.tree.map(np.asarray, fly_mixed((*states, e), order)[0])
        assert np.all(sol.result == rb.RESULTS.successful)
        results.append((order, sol))
    _, first = results[0]
    assert first.impacts.count.min() >= 5
    for order, sol in results[1:]:
        place = [order.index(name) for name in names]
        np.testing.assert_array_equal(sol.impacts.count, first.impacts.count)
        for lane in range(lanes):
            n = min(int(first.impacts.count[lane]), 16)
            struck = [order[i] for i in sol.impacts.pair[lane, :n, 0]]
            assert struck == [names[i] for i in first.impacts.pair[lane, :n, 0]]
            np.testing.assert_array_equal(
                sol.impacts.pair[lane, :n, 1], first.impacts.pair[lane, :n, 1]
            )
            np.testing.assert_allclose(
                sol.impacts.time[lane, :n], first.impacts.time[lane, :n], rtol=0, atol=1e-12
            )
        # The same arithmetic, up to how products and sums are contracted; round-off grows
        # some tenfold with each impact of a body.
        for got, expected in zip(
            jax.tree.leaves(sol.final), jax.tree.leaves(first.final), strict=True
        ):
            np.testing.assert_allclose(got[:, place], expected, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_several_bodies_equal_each_alone():
    """An impact of one body cuts the flight of all in two. For spheres and for bodies that do
    not spin that changes nothing but round-off; others turn at a pace that depends on it."""
    kinds = ["sphere", "box", "small sphere", "ellipsoid"]
    starts = {
        "sphere": ([0.0, 0, 2.0], [0.5, 0, 1], [1.0, 2, 3]),
        "box": ([1.0, 0, 1.5], [0.0, 0, -2], [0.0, 0, 0]),
        "small sphere": ([0.0, 1, 1.0], [0.0, 1, 0], [0.0, 0, 4]),
        "ellipsoid": ([0.0, 2, 1.1], [0.2, 0, 0], [0.0, 0, 0]),
    }

    def fly(names):
        world = rb.World(
            [rb.RigidBody(SHAPES[n], mass=MASSES[n]) for n in names],
            [rb.HalfSpace()],
            contact_law=rb.Frictionless(0.9),
            pairs=(),
        )
        x, v, w = (np.array([starts[n][k] for n in names]) for k in range(3))
        state = rb.State(x, np.tile(np.array(IDENTITY), (len(names), 1)), v, w)
        return rb.simulate(world, state, rb.LGVCI(dt=0.05, on_zeno="stop"), 1.5)

    together = fly(kinds)
    assert int(together.impacts.count) >= 6
    for k, name in enumerate(kinds[:2]):
        alone = fly([name])
        assert int(alone.impacts.count) >= 1
        for field in ("position", "velocity", "angular_velocity"):
            np.testing.assert_allclose(
                getattr(together.final, field)[k],
                getattr(alone.final, field)[0],
                rtol=0,
                atol=1e-12,
            )


# --- boxes ------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=1)
def drop_box(parameters, rounded):
    """A box of half extents (0.3, 0.5, 0.4) that falls 1 m; e, and its attitude, are given."""

    def one(quaternion, e, height):
        core = rb.Box((0.3, 0.5, 0.4))
        body = rb.RigidBody(rb.Rounded(core, 0.1) if rounded else core, mass=2.0)
        world = rb.World(
            [body], [rb.HalfSpace()], gravity=(0, 0, -10), contact_law=rb.Frictionless(e)
        )
        zero = jnp.zeros((1, 3))
        state = rb.State(jnp.stack([0 * e, 0 * e, height])[None], quaternion[None], zero, zero)
        save = rb.SaveAt(final=True, impacts=4)
        sol = rb.simulate(
            world, state, rb.LGVCI(dt=0.02, on_zeno="stop"), 0.7, save=save, throw=False
        )
        return sol, full_inertia(body)

    return jax.vmap(one)(*parameters)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.slow
def test_box_dropped_on_corner_edge_and_face(rounded):
    half, radius = np.array([0.3, 0.5, 0.4]), 0.1 if rounded else 0.0
    mass, fall = 2.0, 1.0
    t = np.sqrt(2 * fall / 10)
    generic = np.array([0.9, 0.2, -0.3, 0.1])
    attitudes = {
        "face": np.array(IDENTITY),
        "other face": np.array([0.5, 0.5, 0.5, 0.5]),
        "edge": np.array([np.cos(0.2), 0, np.sin(0.2), 0]),
        "other edge": np.array([np.cos(0.6), -np.sin(0.6), 0, 0]),
        "corner": generic / np.linalg.norm(generic),
    }
    lanes, expected = [], []
    for q in attitudes.values():
        for e in (0.5, 1.0):
            R = matrix(q)
            down = -R.T @ np.array([0, 0, 1.0])
            # Faces and edges that lie flat, to the last bit, are touched in their middle.
            core = half * np.where(np.abs(down) > 1e-12, np.sign(down), 0.0)
            arm = core + radius * down
            height = -(R @ arm)[2]
            lanes.append((q, e, height + fall))
            expected.append((arm, height, e, R))
    sol, inertia = jax.tree.map(
        np.asarray,
        drop_box(tuple(np.stack([np.asarray(x[k]) for x in lanes]) for k in range(3)), rounded),
    )
    assert np.all(sol.result == rb.RESULTS.successful)
    for k, (arm, height, e, R) in enumerate(expected):
        # A lever arm of round-off (1e-17 m) is all that turns a box that falls on a face.
        assert abs(sol.impacts.time[k, 0] - t) < 1e-14
        assert abs(sol.impacts.before.position[k, 0, 0, 2] - height) < 1e-14
        chi = np.cross(arm, R.T @ np.array([0, 0, 1.0]))
        J = inertia[k]
        impulse = (1 + e) * 10 * t / (1 / mass + chi @ np.linalg.solve(J, chi))
        after = jax.tree.map(lambda leaf, k=k: leaf[k, 0, 0], sol.impacts.after)
        np.testing.assert_allclose(after.velocity, [0, 0, -10 * t + impulse / mass], atol=1e-13)
        np.testing.assert_allclose(
            after.angular_velocity, impulse * np.linalg.solve(J, chi), rtol=0, atol=1e-12
        )
    for k in range(4):  # flat on a face: up again like a ball
        _, height, e, _ = expected[k]
        rest = 0.7 - t
        end = height + e * 10 * t * rest - 10 * rest**2 / 2
        assert int(sol.impacts.count[k]) == 1
        np.testing.assert_allclose(sol.final.position[k, 0], [0, 0, end], rtol=0, atol=1e-13)
    spins = np.linalg.norm(sol.impacts.after.angular_velocity[:, 0, 0], axis=-1)
    assert spins[:4].max() < 1e-13 and spins[4:].min() > 0.5


# --- frames -----------------------------------------------------------------------------


def test_turning_and_shifting_the_scene_turns_and_shifts_the_result():
    rng = np.random.default_rng(5)
    turns = [(np.array(IDENTITY), np.zeros(3))]
    turns += [(rotation(rng), rng.normal(size=3)) for _ in range(4)]

    @jax.jit
    @jax.vmap
    def fly(normal, offset, gravity, position, quaternion, velocity):
        world = rb.World(
            [rb.RigidBody(rb.Ellipsoid((2.0, 3.0, 4.0)), inertia=(5.0, 4.0, 2.6))],
            [rb.HalfSpace(normal, offset)],
            gravity=gravity,
            contact_law=rb.Frictionless(0.9),
        )
        spin = jnp.array([[0.8, -1.0, 1.5]])
        state = rb.State(position[None], quaternion[None], velocity[None], spin)
        return rb.simulate(world, state, rb.LGVCI(dt=0.01, on_zeno="stop"), 4.0, throw=False)

    rows = []
    for q, shift in turns:
        R = matrix(q)
        normal = R @ np.array([0.1, -0.2, 1.5])
        gravity = R @ np.array([0, 0, -9.81])
        position, velocity = R @ np.array([0, 0, 8.0]) + shift, R @ np.array([2.0, 2, 1])
        start = product(q, np.array([0.8, 0.6, 0, 0]))
        rows.append((normal, 0.3 + normal @ shift, gravity, position, start, velocity))
    sol = fly(*(np.stack(column) for column in zip(*rows, strict=True)))
    assert np.all(np.asarray(sol.result == rb.RESULTS.successful))
    assert int(sol.impacts.count.min()) >= 2
    home = jax.tree.map(lambda leaf: np.asarray(leaf)[0, 0], sol.final)
    for k, (q, shift) in enumerate(turns):
        end, R = jax.tree.map(lambda leaf, k=k: np.asarray(leaf)[k, 0], sol.final), matrix(q)
        # Round-off, amplified by two or three impacts.
        np.testing.assert_allclose(end.position, R @ home.position + shift, rtol=0, atol=1e-11)
        np.testing.assert_allclose(end.velocity, R @ home.velocity, rtol=0, atol=1e-11)
        np.testing.assert_allclose(end.angular_velocity, home.angular_velocity, rtol=0, atol=1e-11)
        np.testing.assert_allclose(matrix(end.quaternion), R @ matrix(home.quaternion), atol=1e-11)
