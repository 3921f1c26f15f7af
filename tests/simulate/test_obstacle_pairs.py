"""Which bodies can hit which obstacles, against closed forms and against worlds of one body."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases

import jaxrb as rb
from jaxrb.simulate.system import build

R, TOP, G = 0.1, 1.0, 9.81
BALL = rb.RigidBody(rb.Sphere(R), 1.0)
# The floor, and a shelf above it.
PLANES = [rb.HalfSpace(), rb.HalfSpace((0, 0, 1.0), TOP)]
# The first ball falls through the shelf, the second does not, the third through everything.
PAIRS = [(0, 0), (1, 1), (1, 0)]
HEIGHT = 2.0


def state(*places):
    places = np.array(places, float)
    still, upright = np.zeros_like(places), np.tile([1.0, 0, 0, 0], (len(places), 1))
    return rb.State(places, upright, still, still)


START = state([0, 0, HEIGHT], [3, 0, HEIGHT], [6, 0, HEIGHT])


def falling(law=None, pairs=PAIRS):
    law = rb.Frictionless(0.5) if law is None else law
    return rb.World([BALL] * 3, PLANES, contact_law=law, pairs=(), obstacle_pairs=pairs)


def test_only_listed_pairs_touch():
    """Others have no contact at all, in flights and where contacts last."""
    world = falling()
    assert world.obstacle_pairs == tuple(PAIRS)
    assert "over 2 HalfSpace, 3 pairs of a body and an obstacle that can touch" in repr(world)
    gap = HEIGHT - R
    found = rb.gaps(world, START)
    np.testing.assert_allclose(found, [[gap, np.inf], [gap, gap - TOP], [np.inf] * 2], atol=1e-15)
    for standing in (False, True):
        system, _ = build(world, START, standing=standing, pivots=not standing)
        assert system.contacts is not None and system.contacts.number == len(PAIRS)
    system, _ = build(falling(pairs=()), START)
    assert system.contacts is None


def test_all_pairs_are_the_default():
    """A list of all is kept as a list: what is added later is not among them."""
    every = [(i, k) for k in (1, 0) for i in range(3)]
    world = falling(pairs=every)
    assert world.obstacle_pairs == tuple(every)
    np.testing.assert_array_equal(rb.gaps(world, START), rb.gaps(falling(pairs=None), START))
    more = dataclasses.replace(world, obstacles=(*world.obstacles, rb.HalfSpace(offset=-3.0)))
    assert np.isinf(rb.gaps(more, START)[:, 2]).all()


METHODS = {
    "end": rb.LGVCI(0.01, on_zeno="stop"),
    "continuous": rb.EventDriven(rb.ExactFlight(), dt=None),
    "interior": rb.LGVCI(0.01, on_zeno="stop", detect="interior"),
    "proved": rb.LGVCI(0.01, on_zeno="stop", detect="proved"),
    "rest": rb.LGVCI(0.01, on_zeno="rest"),
    "Moreau-Jean": rb.MoreauJean(0.01),
}


@pytest.mark.parametrize(
    "name",
    [
        "end",
        *[pytest.param(name, marks=pytest.mark.slow) for name in ("continuous", "rest")],
        *before_releases("interior", "proved", "Moreau-Jean"),
    ],
)
def test_falling_past_a_shelf(name):
    """The times of impact, and where balls are after one bounce, are those of free fall."""
    e, t1 = 0.5, 0.7
    save = rb.SaveAt(final=True, impacts=4)
    sol = rb.simulate(falling(rb.Frictionless(e)), START, METHODS[name], t1, save=save)
    assert int(sol.impacts.count) == 2
    np.testing.assert_array_equal(sol.impacts.pair[:2], [[1, 1], [0, 0]])
    drops = np.array([HEIGHT - R, HEIGHT - TOP - R])
    times = np.sqrt(2 * drops / G)
    np.testing.assert_allclose(sol.impacts.time[:2], times[::-1], atol=1e-12)
    left = t1 - times
    bounced = np.array([R, TOP + R]) + e * G * times * left - G * left**2 / 2
    expected = [*bounced, HEIGHT - G * t1**2 / 2]
    np.testing.assert_allclose(sol.final.position[:, 2], expected, atol=1e-12)


@pytest.mark.slow
def test_derivatives():
    """Of the heights after a bounce by the height of the start, in both modes:
    z = R + e g t (T - t) - g (T - t)^2 / 2 with t = sqrt(2 (h - R) / g)."""
    e, t1 = 0.5, 0.7
    world = falling(rb.Frictionless(e))

    def end(height):
        start = START.position.at[:, 2].set(height)
        moved = rb.State(start, START.quaternion, START.velocity, START.angular_velocity)
        return rb.simulate(world, moved, METHODS["end"], t1).final.position[:, 2]

    times = np.sqrt(2 * (np.array([HEIGHT, HEIGHT - TOP]) - R) / G)
    slope = (e * G * (t1 - 2 * times) + G * (t1 - times)) / (G * times)
    expected = [*slope, 1.0]
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(mode(end)(HEIGHT), expected, atol=1e-11)


@pytest.mark.slow
def test_friction_and_solids_as_in_worlds_of_one_body():
    """A box that slides on a slab and a ball on the floor under it rest and slide as alone; the
    ball starts within the slab, which it does not touch."""
    law = rb.Coulomb(0.3, restitution=0.2)
    slab = rb.Placed(rb.Box((2.0, 2.0, 0.1)), (0, 0, 0.1))
    cube = rb.RigidBody(rb.Box((R, R, R)), 1.0)
    floor, low = rb.HalfSpace(), rb.HalfSpace((0, 0, 1.0), -1.0)
    world = rb.World(
        [cube, BALL],
        [floor, slab, low],
        contact_law=law,
        pairs=(),
        obstacle_pairs=[(0, 1), (1, 0), (0, 2)],
    )
    start = state([0, 0, 0.2 + R], [0.5, 0, R])
    velocity = np.array([[1.0, 0, 0], [1.0, 0, 0]])
    start = rb.State(start.position, start.quaternion, velocity, start.angular_velocity)
    method = rb.LGVCI(0.01, on_zeno="rest")
    t1 = 0.2
    sol = rb.simulate(world, start, method, t1)
    # The box is slowed by mu g.
    slid = t1 - 0.3 * G * t1**2 / 2
    np.testing.assert_allclose(sol.final.position[0], [slid, 0, 0.2 + R], atol=1e-9)
    # The ball is so, too, until it rolls from t = 2 v / (7 mu g) on, at 5 v / 7. The step in which
    # it begins to is taken as a whole, with an error of mu g dt^2.
    rolls = 2 / 7 / (0.3 * G)
    assert rolls < t1
    rolled = rolls - 0.3 * G * rolls**2 / 2 + 5 / 7 * (t1 - rolls)
    np.testing.assert_allclose(sol.final.position[1], [0.5 + rolled, 0, R], atol=1e-4)


PINNED = rb.EventDriven(rb.QuaternionEnergyMomentum(), 0.01, on_zeno="stop")


def rising(t, args):
    return jnp.array([0.0, 0.0, 0.5 * t]), jnp.array([1.0, 0.0, 0.0, 0.0])


@pytest.mark.slow
def test_planes_that_move_and_pins():
    """A ball that a rising plane does not touch stays on its pin, and one that touches it is hit
    at its own time."""
    world = rb.World(
        [BALL, BALL],
        [rb.HalfSpace((0, 0, 1.0), -5.0), rb.Moving(rb.HalfSpace(), rising)],
        joints=[rb.Pin(0, (0.0, 0.0, 0.5))],
        gravity=(0, 0, 0),
        pairs=(),
        obstacle_pairs=[(1, 1)],
    )
    start = state([0, 0, -0.5], [3, 0, 0.2])  # the first behind the moving plane
    save = rb.SaveAt(final=True, impacts=2)
    sol = rb.simulate(world, start, PINNED, 0.5, save=save)
    assert int(sol.impacts.count) == 1
    np.testing.assert_array_equal(sol.impacts.pair[0], [1, 1])
    np.testing.assert_allclose(sol.impacts.time[0], 0.2, atol=1e-12)
    np.testing.assert_allclose(sol.final.velocity, [[0, 0, 0], [0, 0, 1.0]], atol=1e-12)


@pytest.mark.slow
def test_what_is_left_out_may_overlap_at_the_start():
    box = rb.Placed(rb.Box((1.0, 1.0, 1.0)), (0, 0, 0))
    inside = state([0, 0, 0])
    method = rb.LGVCI(0.1, on_zeno="stop")
    free = rb.World([BALL], [box], gravity=(0, 0, -1.0), obstacle_pairs=())
    sol = rb.simulate(free, inside, method, 0.2)
    np.testing.assert_allclose(sol.final.position[0, 2], -0.02, atol=1e-15)
    touching = rb.World([BALL], [box], gravity=(0, 0, -1.0))
    with pytest.raises(Exception, match=r"left out of World.pairs and World.obstacle_pairs"):
        rb.simulate(touching, inside, method, 0.2)


def test_single_precision():
    start, world = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (START, falling()))
    sol = rb.simulate(world, start, METHODS["end"], 0.5, save=rb.SaveAt(final=True, impacts=2))
    assert sol.final.position.dtype == jnp.float32 and int(sol.impacts.count) == 1
    time = np.sqrt(2 * (HEIGHT - TOP - R) / G)
    # The discrete flow of 43 steps rounds each position of some 2 m to 1e-7.
    np.testing.assert_allclose(sol.impacts.time[0], time, atol=5e-6)


@pytest.mark.parametrize(
    ("message", "build"),
    [
        (r"World.obstacle_pairs must hold pairs of indices", {"obstacle_pairs": [(0, 1.5)]}),
        (r"World.obstacle_pairs must hold pairs of indices", {"obstacle_pairs": [0, 1]}),
        (r"World.obstacle_pairs must hold pairs of indices .* got 3", {"obstacle_pairs": 3}),
        (r"World.pairs must hold pairs of indices .* got 3", {"pairs": 3}),
        (r"World.obstacle_pairs must hold pairs of indices", {"obstacle_pairs": [(0, 1, 2)]}),
        (r"a body and an obstacle, each once; got \(0, -1\)", {"obstacle_pairs": [(0, -1)]}),
        (r"a body and an obstacle, each once; got \(0, 1\)", {"obstacle_pairs": [(0, 1)] * 2}),
        (r"World.obstacle_pairs: there is no body 7", {"obstacle_pairs": [(7, 0)]}),
        (
            r"World.obstacle_pairs: there is no obstacle 2; the world has 2",
            {"obstacle_pairs": [(0, 2)]},
        ),
        (
            r"body 1 and obstacle 0 are none of World.obstacle_pairs",
            {
                "obstacle_pairs": [(0, 0)],
                "pair_laws": [rb.PairLaw(rb.Frictionless(), 1, obstacle=0)],
            },
        ),
    ],
)
def test_refused(message, build):
    with pytest.raises(ValueError, match=message):
        rb.World([BALL] * 2, PLANES, **build)


def test_pinned_bodies_that_can_hit_obstacles_with_friction_are_refused():
    law = rb.Coulomb(0.5)
    held = {"joints": [rb.Pin(0, (0.0, 0.0, 3.0))], "contact_law": law, "pairs": ()}
    with pytest.raises(ValueError, match=r"leave the pair out of World.obstacle_pairs"):
        rb.simulate(rb.World([BALL] * 3, PLANES, **held), START, PINNED, 0.1)
    world = rb.World([BALL] * 3, PLANES, **held, obstacle_pairs=[(1, 0)])
    build(world, START)
