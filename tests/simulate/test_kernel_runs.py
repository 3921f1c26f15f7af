"""Runs as one kernel, here in C: the numbers of XLA's loop, counters included."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.bench.problem import CASE, heights, start

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
pytestmark = needs_compiler

N = 16


def case_1(law=None, **options):
    """Case I from 16 heights; 400 steps."""
    world, state = CASE.build()
    if law is not None:
        world = rb.World(world.bodies, world.obstacles, contact_law=law)
    states = jax.vmap(start, in_axes=(None, 0))(state, heights(N))
    return world, states, rb.LGVCI(0.01, **{"on_zeno": "stop", **options}), 4.0


def with_flow(flow, dt=0.01):
    world, states, _, t1 = case_1()
    return world, states, rb.EventDriven(flow, dt, on_zeno="stop"), t1


def balls():
    """Three balls that hit each other and a plane."""
    world = rb.World([rb.RigidBody(rb.Sphere(0.1)) for _ in range(3)], [rb.HalfSpace()])
    rng = np.random.default_rng(1)
    places = np.array([[0.0, 0.0, 1.0], [0.15, 0.02, 1.3], [0.3, 0.04, 1.6]])
    position = jnp.asarray(places + rng.uniform(-0.05, 0.05, (N, 3, 3)))
    still = jnp.zeros((N, 3, 3))
    upright = jnp.broadcast_to(jnp.asarray([1.0, 0.0, 0.0, 0.0]), (N, 3, 4))
    return world, rb.State(position, upright, still, still), rb.LGVCI(0.01, on_zeno="stop"), 1.0


def balls_and_shelf():
    """The same balls, of which one falls through a shelf and another does not see the plane."""
    world, states, method, t1 = balls()
    obstacles = [rb.HalfSpace(), rb.HalfSpace((0, 0, 1.0), 0.5)]
    pairs = [(0, 1), (1, 0), (2, 0), (2, 1)]
    return rb.World(world.bodies, obstacles, obstacle_pairs=pairs), states, method, t1


def box():
    world, states, method, t1 = case_1()
    body = rb.RigidBody(rb.Box((0.5, 0.4, 0.3)))
    law = rb.Frictionless(0.9)
    return rb.World([body], world.obstacles, contact_law=law), states, method, t1


def dice():
    """Dice that fall, bounce, slide and come to lie."""
    law = rb.Coulomb(0.4, restitution=0.3)
    world = rb.World([rb.RigidBody(rb.Box((0.01, 0.01, 0.01)))], [rb.HalfSpace()], contact_law=law)
    rng = np.random.default_rng(1)
    quaternion = rng.normal(size=(N, 1, 4))
    quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
    position = np.tile([0.0, 0.0, 0.05], (N, 1, 1))
    velocity, spin = rng.normal(size=(N, 1, 3)) * 0.5, rng.normal(size=(N, 1, 3)) * 10
    states = rb.State(*map(jnp.asarray, (position, quaternion, velocity, spin)))
    return world, states, rb.LGVCI(0.002, on_zeno="rest"), 0.5


def stepped():
    world, states, _, t1 = case_1(rb.Frictionless(0.5))
    return world, states, rb.MoreauJean(0.01, impacts="stepped"), t1


SCENES = {
    "case I": case_1,
    "interior": lambda: case_1(detect="interior"),
    "rest": lambda: case_1(rb.Frictionless(0.5), on_zeno="rest"),
    "friction": lambda: case_1(rb.Coulomb(0.3, restitution=0.8)),
    "exact flight": lambda: with_flow(rb.ExactFlight()),
    "continuous": lambda: with_flow(rb.ExactFlight(), None),
    "quaternions": lambda: with_flow(rb.QuaternionVariational()),
    "energy midpoint": lambda: with_flow(rb.EnergyMidpoint()),
    "energy-momentum": lambda: with_flow(rb.QuaternionEnergyMomentum()),
    "directors": lambda: with_flow(rb.DirectorEnergyMomentum()),
    "box": box,
    "balls": balls,
    "balls and shelf": balls_and_shelf,
    "stepped": stepped,
}
MARKS = dict.fromkeys(SCENES, pytest.mark.slow)
MARKS.update(dict.fromkeys(("case I", "continuous", "balls"), ()))
# Their operations are those of others, in other orders.
MARKS.update(
    dict.fromkeys(
        ("interior", "quaternions", "energy midpoint", "energy-momentum"), pytest.mark.long
    )
)


def both(scene, **options):
    """The same runs by XLA and by a kernel."""
    world, states, method, t1 = scene
    run = lambda backend: rb.simulate_batch(  # noqa: E731
        world, states, method, t1, throw=False, backend=backend, **options
    )
    xla, kernel = run("xla"), run("kernel")
    assert not np.any(xla.stats.kernel)
    assert np.all(kernel.stats.kernel)
    for name in ("result", "ts", "reached"):
        a, b = getattr(xla, name), getattr(kernel, name)
        jax.tree.map(np.testing.assert_array_equal, a, b)
    np.testing.assert_array_equal(xla.impacts.count, kernel.impacts.count)
    np.testing.assert_array_equal(xla.stats.steps, kernel.stats.steps)
    return xla, kernel


def assert_near(a, b, atol):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=0, atol=atol), a, b)


@pytest.mark.slow
# Both evaluate the same operations; XLA contracts some products and sums into one rounding. Bounces
# amplify these 1e-16 to at most 1e-12 in 400 steps; what lies was solved for to a tolerance.
@pytest.mark.parametrize(
    ("name", "atol"),
    [pytest.param(name, 2e-12, marks=MARKS[name]) for name in SCENES],
)
def test_ends_as_by_xla(name, atol):
    xla, kernel = both(SCENES[name]())
    assert np.any(xla.impacts.count > 0) or name == "stepped"
    assert_near(xla.final, kernel.final, atol)


@pytest.mark.long
def test_dice_that_come_to_lie_do_so_in_a_kernel():
    """A long program: contacts that last, with friction at four corners."""
    xla, kernel = both(dice())
    assert_near(xla.final, kernel.final, 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["case I", pytest.param("friction", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "save",
    [
        pytest.param({"every": 7}, marks=pytest.mark.slow),
        {"ts": [0.0, 0.1234, 0.5, 1.0, 1.357, 2.0, 4.0]},
    ],
)
def test_saves_what_xla_saves(name, save):
    xla, kernel = both(SCENES[name](), save=rb.SaveAt(**save))
    assert_near(xla.states, kernel.states, 2e-12)


@pytest.mark.slow
def test_a_save_at_the_time_of_an_impact():
    """A ball that touches the plane and falls towards it bounces at t0."""
    world = rb.World([rb.RigidBody(rb.Sphere(0.5))], [rb.HalfSpace()])
    still = jnp.zeros((1, 1, 3))
    upright = jnp.asarray([[[1.0, 0.0, 0.0, 0.0]]])
    state = rb.State(still + 0.5, upright, jnp.asarray([[[0.0, 0.0, -2.0]]]), still)
    method = rb.LGVCI(0.01, on_zeno="stop")
    xla, kernel = both((world, state, method, 0.1), save=rb.SaveAt(every=1))
    assert_near(xla.states, kernel.states, 1e-14)
    assert kernel.impacts.count == 1


@pytest.mark.slow
def test_worlds_that_end_early_save_their_last_state():
    """Bounces that accumulate end the simulation; later times hold the last state."""
    world, states, method, _ = case_1(rb.Frictionless(0.1))
    xla, kernel = both((world, states, method, 6.0), save=rb.SaveAt(every=20))
    assert not np.any(kernel.successful)
    assert not np.all(kernel.reached)
    # Each bounce makes a difference of the time of the next 1/0.1 times as large.
    soon = lambda states: jax.tree.map(lambda leaf: leaf[:, :8], states)  # noqa: E731
    assert_near(soon(xla.states), soon(kernel.states), 1e-12)
    held = np.where(kernel.reached[..., None], 0.0, kernel.states.position[:, :, 0])
    last = np.where(kernel.reached[..., None], 0.0, kernel.final.position[:, None, 0])
    np.testing.assert_array_equal(held, last)


@pytest.mark.slow
def test_single_precision():
    jax.config.update("jax_enable_x64", False)
    try:
        xla, kernel = both(case_1())
        assert kernel.final.position.dtype == np.float32
        # Four bounces amplify a round-off of 1e-6 m tenfold.
        assert_near(xla.final, kernel.final, 1e-4)
    finally:
        jax.config.update("jax_enable_x64", True)


def test_one_world_is_one_of_a_batch_to_the_bit():
    world, states, method, t1 = case_1()
    batch = rb.simulate_batch(world, states, method, t1, backend="kernel")
    state = jax.tree.map(lambda leaf: leaf[3], states)
    alone = rb.simulate(world, state, method, t1, backend="kernel")
    assert alone.stats.kernel
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[3]), alone.final, batch.final)


@pytest.mark.slow
def test_worlds_of_their_own_under_vmaps_and_jit():
    world, states, method, t1 = case_1()
    laws = jnp.linspace(0.5, 1.0, 3)

    def run(restitution, state, backend):
        law = rb.Frictionless(restitution)
        own = rb.World(world.bodies, world.obstacles, contact_law=law)
        return rb.simulate(own, state, method, t1, throw=False, backend=backend).final

    def all_runs(backend):
        each = jax.vmap(lambda e, s: run(e, s, backend), (None, 0))
        return jax.jit(jax.vmap(each, (0, None)))(laws, states)

    assert_near(all_runs("xla"), all_runs("kernel"), 2e-12)


@pytest.mark.long
def test_derivatives_are_those_of_xla():
    world, _, method, _ = case_1()
    state = CASE.build()[1]

    def height(z, backend):
        moved = jax.vmap(start, in_axes=(None, 0))(state, z)
        final = rb.simulate_batch(world, moved, method, 1.5, throw=False, backend=backend).final
        return final.position[..., 2].sum()

    z = heights(N)
    with pytest.warns(UserWarning, match="not as a kernel: it is differentiated"):
        by_kernel = jax.grad(lambda z: height(z, "kernel"))(z)
    np.testing.assert_array_equal(by_kernel, jax.grad(lambda z: height(z, "xla"))(z))
    np.testing.assert_allclose(np.abs(by_kernel), 1.0, rtol=1e-9)  # -1 after a bounce, elastic


@pytest.mark.slow
def test_impacts_are_recorded_by_xla():
    world, states, method, t1 = case_1()
    save = rb.SaveAt(final=True, impacts=4)
    with pytest.warns(UserWarning, match="not as a kernel: it keeps records of impacts"):
        sol = rb.simulate_batch(world, states, method, t1, save=save, backend="kernel")
    assert not np.any(sol.stats.kernel)
    assert np.all(sol.impacts.count > 0)


def test_unknown_backend():
    world, states, method, t1 = case_1()
    with pytest.raises(ValueError, match="backend must be one of 'auto', 'xla', 'kernel'"):
        rb.simulate_batch(world, states, method, t1, backend="cuda")


@pytest.mark.slow
def test_a_world_that_is_too_large_says_so(monkeypatch):
    """It falls back to XLA: a warning says why, the statistics that it did."""
    monkeypatch.setattr("jaxrb.exec.kernel.build.MOST_STATEMENTS", 100)
    world, states, method, _ = case_1()
    with pytest.warns(UserWarning, match="a kernel of [0-9]+ statements is too long"):
        sol = rb.simulate_batch(world, states, method, 0.25, backend="kernel")
    assert not np.any(sol.stats.kernel)
    np.testing.assert_allclose(sol.stats.time, 0.25)
