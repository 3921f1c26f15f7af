"""Many bodies, of which only those that are near each other are looked at."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences, quick_jit

import jaxrb as rb
from jaxrb.contact import near

RADIUS, DT = 0.1, 0.005
WALLS = [rb.HalfSpace(sign * row, -0.8) for row in np.eye(3) for sign in (1.0, -1.0)]
# The number of contacts from which on they are looked for among those that are near, and the limit
# of impacts in methods of that number: how contacts are looked for is not among the arguments of a
# program, but it is compiled once for each method.
NEAR, ALL = (near.FEW, 500), (10**9, 501)


@pytest.fixture
def method(monkeypatch):
    def of(kind, **options):
        few, max_impacts = kind
        monkeypatch.setattr(near, "FEW", few)
        return rb.LGVCI(DT, on_zeno="stop", max_impacts=max_impacts, **options)

    return of


def gas(n, speed=1.0, seed=0, spacing=0.4):
    """Balls on a lattice around the origin, with random velocities."""
    rng = np.random.default_rng(seed)
    per_side = int(np.ceil(n ** (1 / 3)))
    lattice = np.stack(np.meshgrid(*[np.arange(per_side)] * 3, indexing="ij"), -1).reshape(-1, 3)
    position = (lattice[:n] - (per_side - 1) / 2) * spacing
    velocity, spin = speed * rng.normal(size=(2, n, 3))
    turn = np.tile([1.0, 0, 0, 0], (n, 1))
    return rb.State(*(jnp.asarray(part) for part in (position, turn, velocity, spin)))


def box_of_balls(n=32, law=None, walls=WALLS, body=None):
    body = rb.RigidBody(rb.Sphere(RADIUS), mass=1.0) if body is None else body
    return rb.World([body] * n, walls, gravity=(0, 0, 0), contact_law=law)


def several(n, **options):
    states = [gas(n, seed=seed, **options) for seed in range(3)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def run(world, states, method, t1=0.5):
    fly = lambda state: rb.simulate(world, state, method, t1, throw=False)  # noqa: E731
    return quick_jit(jax.vmap(fly))(states)


def assert_same(found, expected, tolerance=1e-12):
    np.testing.assert_array_equal(found.impacts.count, expected.impacts.count)
    for a, b in zip(jax.tree.leaves(found.final), jax.tree.leaves(expected.final), strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance)


@pytest.mark.slow
def test_a_kernel_of_many_bodies_is_made_by_xla_with_lists():
    """It would look at all pairs: minutes to compile, and slower. A warning says so."""
    world, states = box_of_balls(), several(32)
    method = rb.LGVCI(DT, on_zeno="stop")
    by_xla = rb.simulate_batch(world, states, method, 0.25, backend="xla")
    with pytest.warns(UserWarning, match="not as a kernel: of so many contacts it keeps a list"):
        found = rb.simulate_batch(world, states, method, 0.25, backend="kernel")
    assert not np.any(found.stats.kernel)
    assert int(found.impacts.count.min()) > 0
    for a, b in zip(jax.tree.leaves(found.final), jax.tree.leaves(by_xla.final), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "law",
    [rb.Frictionless(0.9), rb.Coulomb(0.3, 0.9), rb.Rough()],
    ids=["Frictionless", "Coulomb", "Rough"],
)
@pytest.mark.long
def test_as_if_all_were_looked_at(method, law):
    """And a world of a batch is what it is alone."""
    world, states = box_of_balls(law=law), several(32)
    found = run(world, states, method(NEAR))
    assert np.sum(found.impacts.count) > 150
    assert np.all(found.successful)
    assert_same(found, run(world, states, method(ALL)))
    # Of balls each impact takes one evaluation of the flow, that in which it was expected.
    expected = found.stats.steps + found.impacts.count
    assert np.all(np.asarray(found.stats.flow_evaluations) <= 1.05 * np.asarray(expected))
    alone = rb.simulate(world, jax.tree.map(lambda leaf: leaf[1], states), method(NEAR), 0.5)
    np.testing.assert_allclose(alone.final.position, found.final.position[1], atol=1e-12)


@pytest.mark.long
def test_boxes_and_balls(method):
    """Contacts of every kind of pair have a list, as far as the balls around both are known."""
    shapes = [rb.Box((0.1, 0.12, 0.08)), rb.Ellipsoid((0.1, 0.08, 0.06)), rb.Sphere(0.08)]
    bodies = [rb.RigidBody(shapes[i % 3], mass=1.0) for i in range(18)]
    world = rb.World(bodies, WALLS, gravity=(0, 0, -1), contact_law=rb.Frictionless(0.8))
    states = several(18)
    found = run(world, states, method(NEAR), t1=0.2)
    assert np.sum(found.impacts.count) > 15
    assert_same(found, run(world, states, method(ALL), t1=0.2))


@pytest.mark.slow
def test_more_near_than_places(monkeypatch, method):
    """Then all are looked at: nothing is lost, and the solution says in how many flights."""
    monkeypatch.setattr(near, "PLACES", 1)
    # Each of 27 balls is nearer to its neighbours on the lattice than lists of 27 contacts tell.
    world, states = box_of_balls(27), several(27, spacing=0.2001, speed=0.1)
    found, expected = (run(world, states, method(kind), t1=0.1) for kind in (NEAR, ALL))
    assert np.sum(found.impacts.count) > 100
    assert_same(found, expected)
    flights = np.asarray(found.stats.flow_evaluations)
    assert np.all(found.stats.crowded > 0) and np.all(found.stats.crowded <= flights)
    assert "flights with more contacts near than are listed: " in str(found)
    assert not np.any(expected.stats.crowded)
    # Where there is place none is counted, nor of worlds that wait for others of their batch.
    monkeypatch.setattr(near, "PLACES", 12)
    sparse = run(world, states, method(NEAR), t1=0.09)
    assert not np.any(sparse.stats.crowded) and "near" not in str(sparse)


@pytest.mark.slow
def test_order_of_bodies_does_not_matter(method):
    state, order = gas(32), np.random.default_rng(1).permutation(32)
    world = box_of_balls(law=rb.Frictionless(0.9))
    states = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf[order]]), state)
    position = run(world, states, method(NEAR), t1=0.4).final.position
    np.testing.assert_allclose(position[0][order], position[1], atol=1e-10)


@pytest.mark.parametrize("law", [rb.Frictionless(0.9), *before_releases(rb.Coulomb(0.3, 0.9))])
@pytest.mark.long
def test_derivatives(method, law):
    """In both modes those of a world whose contacts are all looked at, and of differences."""
    start = gas(20, spacing=0.25)

    def final(kind, x):
        body = rb.RigidBody(rb.Sphere(RADIUS + x[1]), mass=1.0)
        world = box_of_balls(20, law, body=body)
        moved = eqx.tree_at(lambda s: s.velocity, start, start.velocity * (1 + x[0]))
        sol = rb.simulate(world, moved, method(kind), 0.1)
        return sol.final.position[:, 0], sol.impacts.count

    x = jnp.zeros(2)
    _, count = final(NEAR, x)
    assert count > 5
    of = {
        (kind, mode): quick_jit(mode(lambda x, kind=kind: final(kind, x)[0]))(x)
        for kind in (NEAR, ALL)
        for mode in (jax.jacfwd, jax.jacrev)
    }
    for found in of.values():
        np.testing.assert_allclose(found, of[ALL, jax.jacfwd], rtol=1e-9, atol=1e-10)
    numeric = differences(lambda x: final(NEAR, jnp.asarray(x))[0], np.zeros(2), 1e-5)
    np.testing.assert_allclose(of[NEAR, jax.jacrev], numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_record(method):
    """Impacts are recorded as those of a world whose contacts are all looked at."""
    world, state = box_of_balls(20), gas(20, spacing=0.25)
    save = rb.SaveAt(final=True, impacts=30)
    found, expected = (
        rb.simulate(world, state, method(kind), 0.15, save=save).impacts for kind in (NEAR, ALL)
    )
    assert 5 < found.count < 30
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "t1"), [(100, 0.5), pytest.param(1000, 0.05, marks=pytest.mark.long)]
)
def test_a_gas_keeps_its_energy(method, n, t1):
    """And between no walls its momentum and its angular momentum."""
    state = gas(n, seed=3, spacing=0.3)
    world = box_of_balls(n, rb.Frictionless(1.0), walls=[])
    sol = rb.simulate(world, state, method(NEAR), t1)
    assert sol.impacts.count > n // 5
    start, end = sol.stats.energy
    np.testing.assert_allclose(end, start, rtol=1e-12)
    after = sol.final
    np.testing.assert_allclose(after.velocity.sum(0), state.velocity.sum(0), atol=1e-10)
    orbital = lambda s: jnp.cross(s.position, s.velocity).sum(0)  # noqa: E731
    np.testing.assert_allclose(orbital(after), orbital(state), atol=1e-10)


@pytest.mark.slow
def test_motion_that_is_no_number_is_told(method):
    world, state = box_of_balls(), gas(32)
    fast = eqx.tree_at(lambda s: s.velocity, state, state.velocity.at[3].set(1e308))
    sol = rb.simulate(world, fast, method(NEAR), 0.1, throw=False)
    assert sol.result == rb.RESULTS.non_finite
