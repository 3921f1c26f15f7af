"""Bodies that hit each other."""

import time
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, quick_jit

import jaxrb as rb

BALL = rb.RigidBody(rb.Sphere(0.1), 1.0)
ELASTIC = rb.LGVCI(dt=0.01)


def state(position, velocity, quaternion=None, angular_velocity=None):
    """Of bodies at rest but for what is given."""
    position = jnp.asarray(position, float)
    n = len(position)
    identity = jnp.tile(jnp.array([1.0, 0.0, 0.0, 0.0]), (n, 1))
    quaternion = identity if quaternion is None else jnp.asarray(quaternion, float)
    quaternion = quaternion / jnp.linalg.norm(quaternion, axis=1, keepdims=True)
    spin = jnp.zeros((n, 3)) if angular_velocity is None else jnp.asarray(angular_velocity, float)
    return rb.State(position, quaternion, jnp.asarray(velocity, float), spin)


def lane(tree, i):
    return jax.tree.map(lambda leaf: leaf[i], tree)


def in_line(x, v):
    """Centres and velocities along the x-axis."""
    zero = jnp.zeros_like(x)
    return state(jnp.stack([x, zero, zero], -1), jnp.stack([v, zero, zero], -1))


@pytest.mark.parametrize("law", [rb.Frictionless(), *before_releases(rb.Coulomb(0.2))])
@pytest.mark.slow
def test_two_equal_balls_head_on(law):
    """They exchange their velocities: xf = x1 + 2 r + v0 T for the second one."""
    world = rb.World([BALL, BALL], gravity=(0, 0, 0), contact_law=law)

    def final(x):
        start = in_line(x[:2], x[2:])
        return rb.simulate(world, start, ELASTIC, t1=1.0).final.position[1, 0]

    x = jnp.array([0.0, 0.52, 1.0, 0.0])
    np.testing.assert_allclose(final(x), 1.2, atol=1e-14)
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(quick_jit(mode(final))(x), [1, 0, 1, 0], atol=1e-10)


@pytest.mark.slow
def test_newtons_cradle():
    """Of five balls that touch, the first hits: the last leaves with its velocity. Impacts at one
    time follow each other until no pair approaches."""
    world = rb.World([BALL] * 5, gravity=(0, 0, 0))
    x = jnp.array([-0.5, 0.0, 0.2, 0.4, 0.6])
    sol = rb.simulate(
        world,
        in_line(x, jnp.array([1.0, 0, 0, 0, 0])),
        ELASTIC,
        t1=1.0,
        save=rb.SaveAt(final=True, impacts=6),
    )
    assert int(sol.impacts.count) == 4
    np.testing.assert_allclose(sol.impacts.time[:4], 0.3, atol=1e-13)
    # Bodies are counted after the obstacles, of which there are none.
    np.testing.assert_array_equal(sol.impacts.pair[:4], [[0, 1], [1, 2], [2, 3], [3, 4]])
    np.testing.assert_allclose(sol.final.velocity[:, 0], [0, 0, 0, 0, 1], atol=1e-14)


@pytest.mark.slow
def test_impacts_at_one_time_come_in_the_order_of_the_world():
    """Whatever the shapes: a box hits the plane, two boxes and two balls hit each other."""
    box = rb.RigidBody(rb.Box((0.1, 0.1, 0.1)), 1.0)
    pairs = [(1, 3), (0, 2)]
    world = rb.World([box, BALL, box, BALL, box], [rb.HalfSpace()], gravity=(0, 0, 0), pairs=pairs)
    position = [[0, 0, 1], [0, 1, 1], [0.7, 0, 1], [0.7, 1, 1], [5, 5, 0.6]]
    velocity = [[1, 0, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, -1]]
    save = rb.SaveAt(final=True, impacts=4)
    # At one time to the tolerance, that of round-off is not the same for all.
    method = rb.LGVCI(dt=0.01, tolerance=1e-12)
    sol = rb.simulate(world, state(position, velocity), method, t1=0.6, save=save)
    assert int(sol.impacts.count) == 3
    np.testing.assert_allclose(sol.impacts.time[:3], 0.5, atol=2e-12)
    # Partners are counted with the one obstacle first.
    np.testing.assert_array_equal(sol.impacts.pair[:3], [[4, 0], [0, 3], [1, 4]])


def test_three_balls_of_different_mass():
    """The velocities after two impacts, by hand: v' = 2 (momentum)/(mass) - v of each pair."""
    masses = np.array([1.0, 2.5, 0.7])
    bodies = [rb.RigidBody(rb.Sphere(0.1), m) for m in masses]
    start = in_line(jnp.array([0.0, 0.5, 1.0]), jnp.array([1.0, 0.0, 0.0]))
    sol = rb.simulate(rb.World(bodies, gravity=(0, 0, 0)), start, ELASTIC, t1=2.0)
    v = np.array([1.0, 0.0, 0.0])
    for pair in ([0, 1], [1, 2]):
        v[pair] = 2 * (masses[pair] @ v[pair]) / masses[pair].sum() - v[pair]
    assert int(sol.impacts.count) == 2
    np.testing.assert_allclose(sol.final.velocity[:, 0], v, atol=1e-14)


def rack(rows, radius):
    """A triangle of balls that touch."""
    return [
        (i * np.sqrt(3) * radius, (2 * j - i) * radius, 0.0)
        for i in range(rows)
        for j in range(i + 1)
    ]


@pytest.mark.slow
def test_billiard_break():
    """Fifteen balls are broken; every lane of a batch gives what its world gives by itself."""
    radius = 0.0286
    ball = rb.RigidBody(rb.Sphere(radius), 0.17)
    world = rb.World([ball] * 16, gravity=(0, 0, 0))
    places = np.array([(-0.5, 0.0, 0.0), *rack(5, radius)])
    velocity = np.zeros((16, 3))
    velocity[0, 0] = 5.0

    def broken(aside):
        return state(jnp.asarray(places).at[0, 1].add(aside), velocity)

    asides = jnp.array([0.003, -0.004, 0.0081, 0.003])
    states = jax.vmap(broken)(asides)
    method = rb.LGVCI(dt=0.01)
    together = rb.simulate_batch(world, states, method, t1=0.4)
    for i, aside in enumerate(asides):
        start, final = broken(aside), lane(together.final, i)
        assert int(together.impacts.count[i]) > 20
        np.testing.assert_allclose(rb.energy(world, final), rb.energy(world, start), rtol=1e-11)
        for momentum in (rb.linear_momentum, rb.angular_momentum):
            np.testing.assert_allclose(
                momentum(world, final), momentum(world, start), rtol=0, atol=1e-12
            )
        alone = rb.simulate(world, start, method, t1=0.4).final
        # Another program rounds differently, and each impact of a ball makes more of it.
        np.testing.assert_allclose(final.position, alone.position, rtol=0, atol=1e-9)
    first, last = lane(together.final, 0), lane(together.final, 3)
    np.testing.assert_array_equal(first.position, last.position)


def tumbling(law, first, second, **changes):
    world = rb.World([first, second], gravity=(0, 0, -1.0), contact_law=law, **changes)
    quaternion = [[1.0, 0.2, -0.3, 0.1], [1.0, 0.5, 0.1, -0.7]]
    spin = [[1.0, 2.0, -1.0], [0.4, -3.0, 2.0]]
    start = state([[-1.0, 0, 0], [1.0, 0.1, 0.1]], [[1.0, 0, 0], [-1.0, 0, 0]], quaternion, spin)
    return world, start


ELLIPSOID = rb.RigidBody(rb.Ellipsoid((0.2, 0.3, 0.4)), 1.3)
BOX = rb.RigidBody(rb.Box((0.2, 0.3, 0.25)), 2.0)
UNION = rb.RigidBody(
    rb.Union(rb.Ellipsoid((0.2, 0.3, 0.4)), rb.Placed(rb.Sphere(0.2), (0.4, 0, 0))),
    1.0,
    (0.05, 0.06, 0.07),
)


@pytest.mark.parametrize(
    ("law", "first", "second"),
    [
        (rb.Coulomb(0.3, 0.8), BOX, BALL),
        (rb.Frictionless(0.7), UNION, ELLIPSOID),
        *before_releases(
            (rb.Frictionless(), ELLIPSOID, ELLIPSOID),
            (rb.Frictionless(0.7), BOX, rb.RigidBody(rb.Capsule(0.1, 0.3), 0.7)),
        ),
    ],
)
@pytest.mark.slow
def test_balances_of_every_impact(law, first, second):
    """Momentum and angular momentum are those before; the normal velocity obeys Newton's law
    without friction; energy does not grow, and stays with e = 1."""
    world, start = tumbling(law, first, second)
    save = rb.SaveAt(final=True, impacts=8)
    sol = rb.simulate(world, start, rb.LGVCI(dt=0.01), t1=1.5, save=save)
    record, count = sol.impacts, int(sol.impacts.count)
    assert 1 <= count <= 8
    for i in range(count):
        before, after = lane(record.before, i), lane(record.after, i)
        for momentum in (rb.linear_momentum, rb.angular_momentum):
            was, now = momentum(world, before), momentum(world, after)
            np.testing.assert_allclose(now, was, rtol=0, atol=1e-12)
        lost = float(rb.energy(world, before) - rb.energy(world, after))
        np.testing.assert_allclose(rb.pair_gaps(world, before), 0.0, atol=1e-14)
        point, normal, impulse = (
            np.asarray(leaf[i]) for leaf in (record.position, record.normal, record.impulse)
        )
        along = impulse @ normal
        assert along > 0
        speeds = []
        for s in (before, after):
            rotation = np.asarray(s.rotation_matrix)
            turning = np.einsum("bij,bj->bi", rotation, s.angular_velocity)
            at_point = s.velocity + np.cross(turning, point - np.asarray(s.position))
            speeds.append(normal @ (at_point[0] - at_point[1]))
        assert speeds[0] < 0
        if isinstance(law, rb.Frictionless):
            np.testing.assert_allclose(impulse, along * normal, atol=1e-13)
            np.testing.assert_allclose(speeds[1], -float(law.restitution) * speeds[0], rtol=1e-11)
            # T^2 of the impulse: (1 - e^2)/2 of its normal velocity.
            loss = -along * (speeds[0] + speeds[1]) / 2
            np.testing.assert_allclose(lost, loss, atol=1e-12)
        else:
            assert np.linalg.norm(impulse - along * normal) <= 0.3 * along * (1 + 1e-12)
            assert lost > 0


@pytest.mark.long
def test_case_one_against_a_second_ellipsoid():
    """The paper's ellipsoid over a plane and a second one: energy to round-off; derivatives by the
    start through impacts of both kinds against differences, in both modes."""
    body = rb.RigidBody(rb.Ellipsoid((2.0, 3.0, 4.0)), 1.0)
    world = rb.World([body, body], [rb.HalfSpace()], gravity=(0, 0, -1.0))
    spin = [[0.2, -0.4, 0.3], [-0.1, 0.3, 0.2]]

    def final(x):
        position = jnp.array([[-4.0, 0.0, 6.0], [4.0, 0.5, 6.5]]) + jnp.stack([x, -x])
        start = state(position, [[1.0, 0, 0], [-1.0, 0, 0]], None, spin)
        sol = rb.simulate(
            world, start, rb.LGVCI(dt=0.02), t1=4.0, save=rb.SaveAt(final=True, impacts=6)
        )
        return sol, start

    sol, start = final(jnp.zeros(3))
    hit = np.asarray(sol.impacts.pair[: int(sol.impacts.count)])
    assert [0, 2] in hit.tolist()  # the second body, counted after the one plane
    assert {tuple(pair) for pair in hit.tolist()} >= {(0, 0), (1, 0)}
    np.testing.assert_allclose(rb.energy(world, sol.final), rb.energy(world, start), rtol=1e-13)
    of = lambda x: final(x)[0].final.position.reshape(-1)  # noqa: E731
    x = jnp.zeros(3)
    forward, reverse = (quick_jit(mode(of))(x) for mode in (jax.jacfwd, jax.jacrev))
    scale = np.abs(forward).max()
    np.testing.assert_allclose(forward, reverse, rtol=0, atol=1e-11 * scale)
    run, step = jax.jit(of), 1e-6
    for k in range(3):
        difference = (run(x.at[k].add(step)) - run(x.at[k].add(-step))) / (2 * step)
        np.testing.assert_allclose(forward[:, k], difference, rtol=0, atol=1e-6 * scale)


@pytest.mark.slow
def test_laws_of_pairs():
    """Each pair has its own restitution; the bodies are sorted by kinds of shapes within."""
    world = rb.World(
        [BALL, rb.RigidBody(rb.Box((0.1, 0.1, 0.1)), 1.0), BALL],
        [rb.HalfSpace((1, 0, 0), -1.0)],
        gravity=(0, 0, 0),
        pair_laws=[
            rb.PairLaw(rb.Frictionless(0.5), 2, other=0),
            rb.PairLaw(rb.Frictionless(0.25), 0, obstacle=0),
            rb.PairLaw(rb.Frictionless(0.0), 1, other=2),
        ],
    )
    x = jnp.array([0.0, 2.0, 1.0])
    # With equal masses the velocity v of one becomes (1 - e) v/2, that of the other (1 + e) v/2.
    for before, after in [
        ([2.0, 0.0, 0.0], [0.5, 0.0, 1.5]),  # the first ball against the second: e = 0.5
        ([-2.0, 0.0, 0.0], [0.5, 0.0, 0.0]),  # against the wall: e = 0.25
        ([0.0, -2.0, 0.0], [0.0, -1.0, -1.0]),  # the box against the second ball: e = 0
    ]:
        sol = rb.simulate(world, in_line(x, jnp.array(before)), rb.LGVCI(dt=0.01), t1=0.6)
        assert int(sol.impacts.count) == 1
        np.testing.assert_allclose(sol.final.velocity[:, 0], after, atol=1e-13)


@pytest.mark.long
def test_friction_of_a_pair_alone():
    """A ball slides through its impact with the second plane, whose law has friction: it loses
    mu (1 + e) v of its speed along it, and its derivatives are those of this formula."""
    planes = [rb.HalfSpace((0, 1, 0), -1.0), rb.HalfSpace()]

    def end(numbers):
        mu, e = numbers
        rough = rb.PairLaw(rb.Coulomb(mu, e), 0, obstacle=1)
        world = rb.World([BALL], planes, gravity=(0, 0, 0), pair_laws=[rough])
        start = rb.State(
            [[0.0, 0.0, 0.5]], [[1.0, 0, 0, 0]], [[3.0, -2.0, -1.0]], [[0.0, 0.0, 0.0]]
        )
        return rb.simulate(world, start, rb.LGVCI(dt=0.01), t1=0.9).final.velocity[0]

    numbers = jnp.array([0.2, 0.7])
    # The planes are hit one after the other, the one without friction last, without loss.
    slowed = 0.2 * 1.7 * np.array([3.0, -2.0]) / 13**0.5
    value = jax.jit(end)(numbers)
    np.testing.assert_allclose(value, [3 - slowed[0], 2 + slowed[1], 0.7], atol=1e-13)
    slope = np.array([3.0, -2.0]) / 13**0.5
    along = np.stack([-1.7 * slope, -0.2 * slope], axis=1) * np.array([[1.0], [-1.0]])
    expected = np.vstack([along, [0.0, 1.0]])
    for derivative in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(quick_jit(derivative(end))(numbers), expected, atol=1e-12)


@pytest.mark.slow
def test_only_listed_pairs_touch():
    start = in_line(jnp.array([0.0, 0.5, 1.0]), jnp.array([1.0, 0.0, 0.0]))
    world = rb.World([BALL] * 3, gravity=(0, 0, 0), pairs=[(2, 0)])
    sol = rb.simulate(world, start, ELASTIC, t1=2.0)
    assert world.pairs == ((0, 2),)
    np.testing.assert_allclose(sol.final.velocity[:, 0], [0, 0, 1], atol=1e-14)
    world = rb.World([BALL] * 3, gravity=(0, 0, 0), pairs=())
    assert int(rb.simulate(world, start, ELASTIC, t1=2.0).impacts.count) == 0


@pytest.mark.slow
def test_gaps_of_pairs():
    """In the order of the pairs, whatever the kinds of shapes are; with planes apart."""
    bodies = [BALL, BOX, BALL, BALL]
    world = rb.World(bodies, [rb.HalfSpace()])
    start = in_line(jnp.array([0.0, 1.0, 2.0, 4.0]), jnp.zeros(4))
    expected = {(0, 1): 0.7, (0, 2): 1.8, (0, 3): 3.8, (1, 2): 0.7, (1, 3): 2.7, (2, 3): 1.8}
    found = rb.pair_gaps(world, start)
    np.testing.assert_allclose(found, [expected[pair] for pair in world.pairs], atol=1e-15)
    np.testing.assert_allclose(rb.gaps(world, start)[:, 0], [-0.1, -0.25, -0.1, -0.1], atol=1e-15)


BOWL = rb.Difference(rb.Box((0.7, 0.7, 0.7)), rb.Placed(rb.Sphere(0.5), (0.0, 0.0, 0.7)))


def in_a_bowl(offset):
    """A ball is thrown down into a cavity, of which it misses the axis by `offset`."""
    bodies = [rb.RigidBody(BOWL, 2.0, (0.4, 0.5, 0.6)), BALL]
    world = rb.World(bodies, gravity=(0, 0, 0))
    zero = jnp.zeros_like(offset)
    position = jnp.stack([zero, zero, zero, offset, zero, zero + 1.0]).reshape(2, 3)
    return world, state(position, [[0, 0, 0], [0, 0, -1.0]])


@pytest.mark.long
def test_a_ball_in_a_cavity():
    """It hits where its centre is 0.4 from that of the cavity, and then the other side."""
    world, start = in_a_bowl(jnp.asarray(0.11))
    save = rb.SaveAt(final=True, impacts=4)
    sol = rb.simulate(world, start, ELASTIC, t1=2.0, save=save)
    assert int(sol.impacts.count) == 2
    np.testing.assert_allclose(sol.impacts.time[0], 0.3 + np.sqrt(0.4**2 - 0.11**2), atol=1e-13)
    # A push along the common normal turns a bowl about its centre.
    normal = np.array([0.11, 0.0, -np.sqrt(0.4**2 - 0.11**2)]) / 0.4
    arm = np.array([0, 0, 0.7]) + 0.5 * normal
    lever = np.cross(arm, normal)
    w = 1 / 1.0 + 1 / 2.0 + lever @ (lever / np.array([0.4, 0.5, 0.6]))
    impulse = 2 * -normal[2] / w
    after = lane(sol.impacts.after, 0)
    expected = np.array([normal * impulse / 2, [0, 0, -1] - normal * impulse])
    np.testing.assert_allclose(after.velocity, expected, atol=1e-12)
    for of in (rb.energy, rb.linear_momentum, rb.angular_momentum):
        np.testing.assert_allclose(of(world, sol.final), of(world, start), atol=1e-13)


@pytest.mark.long
def test_the_derivative_of_bounces_in_a_cavity():
    def final(offset):
        world, start = in_a_bowl(offset)
        return rb.simulate(world, start, ELASTIC, t1=2.0).final.position[1]

    at, h = jnp.asarray(0.11), 1e-4
    run = jax.jit(final)
    f = [np.asarray(run(at + k * h)) for k in (-2, -1, 1, 2)]
    expected = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(quick_jit(mode(final))(at), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.long
def test_single_precision():
    capsule = rb.RigidBody(rb.Capsule(0.1, 0.3), 0.7)
    world, start = tumbling(rb.Frictionless(0.7), ELLIPSOID, capsule)
    double = rb.simulate(world, start, rb.LGVCI(dt=0.01), t1=1.2).final
    world, start = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (world, start))
    single = rb.simulate(world, start, rb.LGVCI(dt=0.01), t1=1.2).final
    assert single.position.dtype == jnp.float32
    np.testing.assert_allclose(single.position, double.position, atol=2e-5)


@pytest.mark.parametrize(
    ("message", "build"),
    [
        (r"World.pairs must hold pairs of indices", {"pairs": [(0, 1.5)]}),
        (r"World.pairs must hold pairs of indices", {"pairs": [(0, 1, 2)]}),
        (r"pairs of different bodies, each once; got \(1, 1\)", {"pairs": [(1, 1)]}),
        (r"pairs of different bodies, each once; got \(1, 0\)", {"pairs": [(0, 1), (1, 0)]}),
        (r"there is no body 7", {"pairs": [(0, 7)]}),
        (r"World.pair_laws\[0\] must be a PairLaw", {"pair_laws": [rb.Frictionless()]}),
        (
            r"there is no obstacle 0; the world has 0",
            {"pair_laws": [rb.PairLaw(rb.Frictionless(), 0, obstacle=0)]},
        ),
        (
            r"the bodies \(0, 1\) are none of World.pairs",
            {"pairs": (), "pair_laws": [rb.PairLaw(rb.Frictionless(), 1, other=0)]},
        ),
        (
            r"must be laws of one kind .*Stronge.*Newton",
            {
                "contact_law": rb.Coulomb(0.1),
                "pair_laws": [rb.PairLaw(rb.Coulomb(0.1, 1.0, rb.Newton()), 0, other=1)],
            },
        ),
    ],
)
def test_refused(message, build):
    with pytest.raises(ValueError, match=message):
        rb.World([BALL, BALL], **build)


def test_pair_law_refused():
    with pytest.raises(ValueError, match="needs exactly one of other and obstacle"):
        rb.PairLaw(rb.Frictionless(), 0)
    with pytest.raises(ValueError, match=r"PairLaw.obstacle must be the index of an obstacle"):
        rb.PairLaw(rb.Frictionless(), 0, obstacle=-1)
    with pytest.raises(ValueError, match=r"PairLaw.law must be a contact law"):
        rb.PairLaw(0.5, 0, other=1)


def test_overlap_is_reported():
    world = rb.World([BALL, BALL])
    start = in_line(jnp.array([0.0, 0.15]), jnp.zeros(2))
    sol = rb.simulate(world, start, ELASTIC, t1=1.0, throw=False)
    assert sol.result == rb.RESULTS.initial_penetration


def test_worlds_of_many_pairs_are_built_in_seconds():
    pairs = list(combinations(range(200), 2))
    laws = [rb.PairLaw(rb.Frictionless(0.5), i, other=j) for i, j in pairs[::10]]
    start = time.process_time()
    world = rb.World([BALL] * 200, pairs=pairs, pair_laws=laws)
    assert time.process_time() - start < 10
    assert world.pairs == tuple(pairs)
