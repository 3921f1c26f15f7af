"""Every way a simulation can end early, and what is refused before it starts."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, quick_jit

import jaxrb as rb

RESULTS = rb.RESULTS
ZERO, IDENTITY = ((0.0, 0.0, 0.0),), ((1.0, 0.0, 0.0, 0.0),)
BALL = rb.RigidBody(rb.Sphere(0.5))


def start(z=2.0, v=0.0, quaternion=IDENTITY, spin=ZERO):
    """One body at height z with vertical velocity v; any of them may be traced."""
    z, v = jnp.asarray(z, float), jnp.asarray(v, float)
    x, w = jnp.stack([0 * z, 0 * z, z])[None], jnp.stack([0 * v, 0 * v, v])[None]
    return rb.State(x, jnp.asarray(quaternion), w, jnp.asarray(spin))


# One scene per code: world, state, method, t1.


def fast_spin():
    """With a flow that takes no iteration to solve its equations."""
    world = rb.World([rb.RigidBody(rb.Ellipsoid((1.0, 2.0, 3.0)))], [rb.HalfSpace()])
    method = rb.EventDriven(rb.QuaternionEnergyMomentum(iterations=0), dt=0.01)
    return world, start(10.0, spin=((150.0, 90.0, 70.0),)), method, 0.1


def close_walls():
    """0.01 m between two walls is crossed 50 times in the one step."""
    planes = [rb.HalfSpace(offset=0.0), rb.HalfSpace((0, 0, -1), -1.01)]
    world = rb.World([BALL], planes, gravity=(0, 0, 0))
    return world, start(0.505, 5.0), rb.LGVCI(dt=0.1, max_impacts_per_step=20), 0.1


def accumulation():
    """Free fall of 1.5 m for T = sqrt(0.3) s, then flights of T, T/2, ...: 3 T in all."""
    world = rb.World(
        [BALL], [rb.HalfSpace()], gravity=(0, 0, -10), contact_law=rb.Frictionless(0.5)
    )
    return world, start(2.0), rb.LGVCI(dt=0.02, on_zeno="stop"), 2.0


def lying():
    """On the ground from the start, but for round-off of a measurement: no flight is long."""
    world = rb.World([BALL], [rb.HalfSpace()], contact_law=rb.Frictionless(0.99))
    return world, start(0.5, -1e-6), rb.LGVCI(dt=0.02, on_zeno="stop"), 2.0


def sunk():
    return rb.World([BALL], [rb.HalfSpace()]), start(0.499), rb.LGVCI(dt=0.02), 2.0


def grazing():
    """Released within the tolerance of the gap: it meets the ground without speed."""
    method = rb.LGVCI(dt=0.02, tolerance=1e-3)
    return rb.World([BALL], [rb.HalfSpace()]), start(0.5 + 3e-4), method, 2.0


SCENES = {
    "nonlinear_solve_failed": (fast_spin, r"reduce dt"),
    "max_impacts_reached": (close_walls, r"raise EventDriven\(max_impacts_per_step"),
    "zeno": (accumulation, r"Impacts accumulate \(Zeno\)"),
    "initial_penetration": (sunk, r"penetrates an obstacle at the start"),
    "grazing": (grazing, r"without approaching it"),
}


@pytest.mark.parametrize("code", list(SCENES))
def test_code_and_remedy(code):
    build, remedy = SCENES[code]
    scene = build()
    sol = rb.simulate(*scene, throw=False)
    assert sol.result == getattr(RESULTS, code)
    assert sol.result != RESULTS.successful
    assert float(sol.stats.time) < scene[-1]
    for leaf in jax.tree.leaves((sol.final, sol.states, sol.stats.time)):
        assert np.all(np.isfinite(leaf))
    with pytest.raises(RuntimeError, match=rf"(?s)The simulation ended early: .*{remedy}"):
        rb.simulate(*scene)


def test_what_penetrates_is_named():
    """By how much, and where; in a batch in the first world that does."""
    world, state, method, t1 = sunk()
    deep = r"At the start body 0 is 0.001 m deep in obstacle 0\."
    with pytest.raises(RuntimeError, match=deep):
        rb.simulate(world, state, method, t1)

    def height(lowered):
        below = eqx.tree_at(lambda s: s.position, state, state.position - lowered)
        return rb.simulate(world, below, method, t1).final.position[0, 2]

    # Where derivatives are taken the start is traced, and what comes of it is not.
    for derivative in (jax.grad(height), functools.partial(jax.linearize, height)):
        with pytest.raises(RuntimeError, match=deep):
            derivative(jnp.zeros(()))
    two = rb.World([BALL, BALL], [rb.HalfSpace()])
    place = jnp.array([[0.0, 0, 2.0], [0, 0, 1.05]])
    turn, still = jnp.array([[1.0, 0, 0, 0]] * 2), jnp.zeros((2, 3))
    start_of = lambda height: rb.State(place.at[0, 2].set(height), turn, still, still)  # noqa: E731
    with pytest.raises(RuntimeError, match=r"bodies 0 and 1 are 0.05 m deep in each other\."):
        rb.simulate(two, start_of(2.0), method, t1)
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), start_of(3.0), start_of(2.01))
    with pytest.raises(RuntimeError, match=r"world 1: .* 0 and 1 are 0.04 m deep in each other\."):
        rb.simulate_batch(two, states, method, 0.1)
    worlds = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), two)
    with pytest.raises(RuntimeError, match=r"world 1: .* 0 and 1 are 0.04 m deep in each other\."):
        rb.simulate_batch(worlds, states, method, 0.1, batch_world=True)


def test_contacts_that_last_need_a_limit_of_friction():
    """Without one it would be infinite in the problem of contacts, which is then none."""
    law = rb.Rough(0.5, 0.0)
    world = rb.World([BALL], [rb.HalfSpace()], contact_law=law)
    with pytest.raises(ValueError, match=r"give Rough.friction a number"):
        rb.simulate(world, start(2.0), rb.LGVCI(dt=0.02, on_zeno="rest"), 1.0)


def test_knots_that_do_not_increase_are_a_code():
    """Traced ones, of which nothing is known before, in `args` and in a load."""
    of_args = rb.World([BALL], forces=[rb.Thruster(0, lambda t, push: push(t))])

    @jax.jit
    def results(knots):
        push = rb.PiecewiseLinear(knots, jnp.ones((3, 3)))
        of_load = rb.World([BALL], forces=[rb.Thruster(0, push)])
        rest = (start(2.0), rb.LGVCI(dt=0.02), 0.1)
        sols = (
            rb.simulate(of_args, *rest, args=push, throw=False),
            rb.simulate(of_load, *rest, throw=False),
        )
        return [sol.result for sol in sols]

    for knots, code in (([0.0, 0.05, 0.1], "successful"), ([0.0, 0.07, 0.06], "invalid_times")):
        assert all(found == getattr(RESULTS, code) for found in results(jnp.array(knots)))


def test_throw_from_inside_jit():
    world, state, method, t1 = sunk()

    @jax.jit
    def height(state):
        return rb.simulate(world, state, method, t1).final.position[0, 2]

    with pytest.raises(Exception, match="penetrates an obstacle at the start"):
        height(state).block_until_ready()
    assert np.isfinite(height(start(100.0)))


@pytest.mark.parametrize("derive", [jax.grad, *before_releases(jax.jacfwd)])
@pytest.mark.slow
def test_throw_from_inside_a_jitted_derivative(derive):
    """Which alone is returned, without a value."""
    world, state, method, t1 = sunk()

    def height(z):
        moved = eqx.tree_at(lambda s: s.position, state, state.position.at[0, 2].set(z))
        return rb.simulate(world, moved, method, t1).final.position[0, 2]

    slope = quick_jit(derive(height))
    with pytest.raises(Exception, match="penetrates an obstacle at the start"):
        slope(state.position[0, 2]).block_until_ready()
    assert np.isfinite(slope(jnp.asarray(100.0)))


def test_where_and_when_a_simulation_ended():
    # What no part of a step solves fails in the first one, which leaves the start as it was.
    world, state, method, t1 = fast_spin()
    sol = rb.simulate(world, state, method, t1, throw=False)
    assert int(sol.stats.steps) == 0 and float(sol.stats.time) == 0.0
    np.testing.assert_allclose(sol.final.angular_velocity, state.angular_velocity, rtol=1e-15)
    np.testing.assert_array_equal(sol.final.position, state.position)

    # 21 impacts: the first after 1 ms, then one every 2 ms.
    sol = rb.simulate(*close_walls(), throw=False)
    assert int(sol.impacts.count) == 21
    assert abs(float(sol.stats.time) - (0.001 + 20 * 0.002)) < 1e-13

    # Each flight is half the last, until bounces are no higher than the gap's round-off of
    # 1e-15 m: from there on up to 64 of them, of at most 2 sqrt(2 * 1e-15/10) s each.
    sol = rb.simulate(*accumulation(), throw=False)
    assert abs(float(sol.stats.time) - 3 * np.sqrt(0.3)) < 2e-6
    assert 0.5 - 1e-12 <= float(sol.final.position[0, 2]) < 0.5 + 1e-7

    # A penetrating body is not moved.
    sol = rb.simulate(*sunk(), throw=False)
    assert float(sol.final.position[0, 2]) == 0.499 and float(sol.stats.time) == 0.0


def test_equally_spaced_impacts_are_not_taken_for_accumulation():
    """From wall to wall in equal times, from the first flight on."""
    world, _, method, t1 = close_walls()
    for z, v in ((0.5, 5.0), (0.51, -5.0), (0.5, 4.8), (0.51, -3.7), (0.5, 4.1), (0.5, 6.3)):
        sol = rb.simulate(world, start(z, v), method, t1, throw=False)
        assert sol.result == RESULTS.max_impacts_reached, (z, v)


@pytest.mark.slow
def test_full_log():
    """The log limits only what is saved or recorded along the way."""
    world, state, _, t1 = close_walls()
    method = rb.LGVCI(dt=0.1, max_impacts=1)
    sol = rb.simulate(world, state, method, t1, save=rb.SaveAt(final=True, impacts=1), throw=False)
    assert sol.result == RESULTS.max_impacts_reached
    assert 1 <= int(sol.impacts.count) <= 2 and abs(float(sol.impacts.time[0]) - 0.001) < 1e-15
    with pytest.raises(RuntimeError, match=r"EventDriven\(max_impacts="):
        rb.simulate(world, state, method, t1, save=rb.SaveAt(final=True, impacts=1))
    sol = rb.simulate(world, state, method, t1)
    assert int(sol.impacts.count) == 50


@pytest.mark.slow
def test_accumulation_is_named_as_such_also_when_impacts_are_recorded():
    """Nothing in the physics depends on whether something is recorded."""
    sol = rb.simulate(*accumulation(), save=rb.SaveAt(final=True, impacts=4), throw=False)
    assert sol.result == RESULTS.zeno


@pytest.mark.long
def test_impacts_of_a_body_that_lies_there_accumulate():
    """65 flights of 2e-7 s, each about as long as the last."""
    sol = rb.simulate(*lying(), throw=False)
    assert sol.result == RESULTS.zeno and float(sol.stats.time) < 2e-5
    world, state, method, t1 = lying()
    sol = rb.simulate(world, state, dataclasses.replace(method, on_zeno=None), t1)
    np.testing.assert_allclose(sol.final.position[0, 2], 0.5, atol=1e-12)


@functools.partial(jax.jit, static_argnums=(1, 2))
def touch_ceiling(depths, height, detect):
    """A ball thrown so that its apex would lie `depth` behind a ceiling, and the derivative
    of its last height with respect to that of the ceiling."""
    g, z0, radius = 9.81, 0.5, 0.2

    def one(depth):
        v = jnp.sqrt(2 * g * (height - radius - z0 + depth))

        def end(height):
            world = rb.World(
                [rb.RigidBody(rb.Sphere(radius))],
                [rb.HalfSpace((0, 0, -1), -height)],
                gravity=(0, 0, -g),
            )
            method = rb.EventDriven(rb.LieVariational(), 0.9, tolerance=1e-6, detect=detect)
            sol = rb.simulate(world, start(z0, v), method, 0.9, throw=False)
            return sol.final.position[0, 2], (v, sol)

        slope, (v, sol) = jax.grad(end, has_aux=True)(jnp.asarray(height, float))
        return slope, v, sol

    return jax.vmap(one)(depths)


@pytest.mark.slow
def test_an_apex_that_touches_a_ceiling_is_missed_or_reported_but_never_wrong():
    g, z0, t1 = 9.81, 0.5, 0.9
    depths = np.concatenate([[0.0], np.linspace(-2e-6, 2e-6, 41), [-1e-3, 1e-3]])
    slope, v, sol = jax.tree.map(np.asarray, touch_ceiling(depths, 1.7, "interior"))
    good, touched = sol.result == RESULTS.successful, sol.impacts.count > 0
    assert np.all(good | (sol.result == RESULTS.grazing))
    assert np.all(np.isfinite(slope)) and np.all(np.isfinite(sol.final.position))
    # Within a tolerance from touching, nobody can tell; elsewhere there is no doubt.
    assert np.all(good[np.abs(depths) > 1.5e-6])
    assert not np.any(touched[depths < 0]) and np.all(touched[depths > 1.5e-6])
    free = good & ~touched
    end = z0 + v * t1 - g * t1**2 / 2
    np.testing.assert_allclose(sol.final.position[free, 0, 2], end[free], rtol=0, atol=1e-14)
    np.testing.assert_array_equal(slope[free], 0.0)
    # An impact at speed c at time (v - c)/g sends it down at c, 2 c faster than it would be:
    # z(t1) is lower by 2 c (t1 - t), where c' = -g/c and t' = 1/c with the ceiling's height.
    hit = good & touched & (depths > 1e-4)
    assert hit.sum() == 1
    c = np.sqrt(2 * g * depths[hit])
    time = (v[hit] - c) / g
    # The tolerance of 1e-6 m acts like a ceiling that much lower: c changes by 1e-4 of it.
    np.testing.assert_allclose(
        sol.final.position[hit, 0, 2], end[hit] - 2 * c * (t1 - time), rtol=0, atol=1e-4
    )
    np.testing.assert_allclose(slope[hit], 2 * g / c * (t1 - time) + 2, rtol=2e-3)


# --- traced numbers that no constructor could see --------------------------------------------


@jax.jit
@functools.partial(jax.vmap, in_axes=0)
def traced(mass, e, radius, z, v, length):
    world = rb.World(
        [rb.RigidBody(rb.Sphere(radius), mass=mass)],
        [rb.HalfSpace()],
        contact_law=rb.Frictionless(e),
    )
    state = start(z, v, quaternion=length * jnp.array(IDENTITY))
    return rb.simulate(world, state, rb.LGVCI(dt=0.02, on_zeno="stop"), 1.0, throw=False)


NAN, INF = np.nan, np.inf
#                 mass   e    radius z    v    length of the quaternion
LANES = [
    ("successful", (1.0, 0.9, 0.5, 2.0, 0.0, 1.0)),
    ("non_finite", (NAN, 0.9, 0.5, 2.0, 0.0, 1.0)),
    ("non_finite", (1.0, NAN, 0.5, 2.0, 0.0, 1.0)),
    ("non_finite", (1.0, 0.9, NAN, 2.0, 0.0, 1.0)),
    ("non_finite", (1.0, 0.9, 0.5, NAN, 0.0, 1.0)),
    ("non_finite", (1.0, 0.9, 0.5, 2.0, INF, 1.0)),
    ("non_unit_quaternion", (1.0, 0.9, 0.5, 2.0, 0.0, 1.1)),
    ("non_unit_quaternion", (1.0, 0.9, 0.5, 2.0, 0.0, 0.5)),
    ("successful", (2.0, 0.8, 0.5, 1.5, 1.0, 1.0 + 5e-4)),
    ("invalid_body", (-1.0, 0.9, 0.5, 2.0, 0.0, 1.0)),
    ("invalid_body", (1.0, 0.9, -0.5, 2.0, 0.0, 1.0)),
    ("invalid_contact_law", (1.0, 1.5, 0.5, 2.0, 0.0, 1.0)),
    ("invalid_contact_law", (1.0, -0.1, 0.5, 2.0, 0.0, 1.0)),
    ("initial_penetration", (1.0, 0.9, 0.5, 0.4, 0.0, 1.0)),
    ("zeno", (1.0, 0.0, 0.5, 0.7, 0.0, 1.0)),
    ("successful", (0.5, 1.0, 0.5, 0.5, -1.0, 1.0)),
    ("non_finite", (1.0, 0.9, 0.5, 2.0, 0.0, NAN)),
]


@pytest.mark.slow
def test_codes_of_traced_numbers_and_lanes_that_do_not_disturb_each_other():
    values = np.array([row for _, row in LANES])
    sol = traced(*values.T)
    codes = np.array([name for name, _ in LANES])
    for k, name in enumerate(codes):
        if name == "zeno":  # has tests of its own
            assert not bool((sol.result == RESULTS.successful)[k])
            continue
        assert bool((sol.result == getattr(RESULTS, name))[k]), (k, name)
    good = codes == "successful"
    alone = traced(*values[good].T)
    for among, single in zip(jax.tree.leaves(sol.final), jax.tree.leaves(alone.final), strict=True):
        # Vector lanes of another width may contract products and sums differently.
        np.testing.assert_allclose(among[good], single, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(sol.impacts.count[good], alone.impacts.count)
    finite = ~np.isnan(values).any(axis=1) & ~np.isinf(values).any(axis=1)
    for leaf in jax.tree.leaves(sol.final):
        assert np.all(np.isfinite(np.asarray(leaf)[finite]))
    # Those that never started are where they were; e = 0 came to rest on the ground
    # after a fall of sqrt(0.4/9.81) s.
    never = ~good & (codes != "zeno") & finite
    np.testing.assert_array_equal(np.asarray(sol.final.position)[never, 0, 2], values[never, 3])
    assert np.all(np.asarray(sol.stats.steps)[never] == 0)
    zeno = np.flatnonzero(codes == "zeno")
    time = np.sqrt(0.4 / 9.81)
    assert abs(float(sol.stats.time[zeno[0]]) - time) < 2e-6
    assert abs(float(sol.final.position[zeno[0], 0, 2]) - 0.5) < 1e-7


def test_impossible_traced_inertia():
    @jax.jit
    @jax.vmap
    def run(inertia):
        world = rb.World([rb.RigidBody(rb.Sphere(0.5), inertia=inertia)])
        return rb.simulate(world, start(), rb.LGVCI(dt=0.1), 0.1, throw=False).result

    moments = np.array([[1.0, 1, 1], [1, 1, 2], [1, 1, 2.3], [1, -1, 1], [0, 1, 1]])
    bad = np.asarray(run(moments) == RESULTS.invalid_body)
    assert bad.tolist() == [False, False, True, True, True]


# --- refused before the start ----------------------------------------------------------------

WORLD, STATE, METHOD = rb.World([BALL], [rb.HalfSpace()]), start(), rb.LGVCI(dt=0.1)
F32 = {
    name: jnp.asarray(getattr(STATE, name), "float32")
    for name in ("position", "quaternion", "velocity", "angular_velocity")
}
COARSE = eqx.tree_at(lambda w: w.gravity, WORLD, WORLD.gravity.astype("float32"))


def event_driven(**options):
    return rb.EventDriven(rb.LieVariational(), **{"dt": 0.1, **options})


def run(world=WORLD, state=STATE, method=METHOD, t1=0.1, **options):
    return rb.simulate(world, state, method, t1, **options)


REFUSED = {
    "dt zero": (r"dt must be positive", lambda: rb.LGVCI(dt=0.0)),
    "dt negative": (r"dt must be positive", lambda: rb.LGVCI(dt=-0.1)),
    "dt nan": (r"dt must be finite", lambda: rb.LGVCI(dt=NAN)),
    "tolerance": (r"tolerance must be positive", lambda: event_driven(tolerance=0.0)),
    "per step": (r"max_impacts_per_step must", lambda: event_driven(max_impacts_per_step=0)),
    "per step, broken": (r"max_impacts_per_step", lambda: event_driven(max_impacts_per_step=2.5)),
    "max_impacts": (r"max_impacts must", lambda: event_driven(max_impacts=-1)),
    "detect": (r"detect must be one of .*'middle'", lambda: event_driven(detect="middle")),
    "on_zeno": (r"on_zeno must be one of .*'go'", lambda: event_driven(on_zeno="go")),
    "flow": (r"EventDriven.flow must be a flow", lambda: rb.EventDriven("lie", 0.1)),
    "t1 before t0": (r"t1 must not lie before t0", lambda: run(t1=0.5, t0=1.0)),
    "t1 traced": (r"needs max_steps", lambda: jax.jit(lambda t: run(t1=t).final)(0.1)),
    "t0 traced": (r"needs max_steps", lambda: jax.jit(lambda t: run(t0=t).final)(0.0)),
    "max_steps": (r"max_steps must be a positive", lambda: run(max_steps=0)),
    "failed": (r"failed must be one of 'keep', 'nan'", lambda: run(failed="raise")),
    "t1 infinite": (r"t1 must be finite", lambda: run(t1=INF)),
    "t1 text": (r"t1 must be a number", lambda: run(t1="long")),
    "no method": (r"method must be a method", lambda: run(method=0.1)),
    "no world": (r"world must be a World; got list", lambda: run(world=[BALL])),
    "no state": (r"state must be a State; got ndarray", lambda: run(state=np.zeros((1, 13)))),
    "args": (r"args must be None", lambda: run(args=1.0)),
    "too many bodies": (
        r"The world has 1 bodies, so State.position must have shape \(1, 3\); got \(2, 3\)",
        lambda: run(state=jax.tree.map(lambda leaf: jnp.repeat(leaf, 2, 0), STATE)),
    ),
    "batch of states": (
        r"State.position must have shape \(1, 3\).*simulate_batch",
        lambda: run(state=jax.tree.map(lambda leaf: leaf[None], STATE)),
    ),
    "coarse world": (r"The state is float64 but the world holds.*float32", lambda: run(COARSE)),
    "mixed dtypes": (
        r"one dtype; position has float32, velocity has float64",
        lambda: rb.State(**{**F32, "velocity": STATE.velocity}),
    ),
    "State shape": (
        r"State.velocity must have shape \(n_bodies, 3\)",
        lambda: rb.State(STATE.position, STATE.quaternion, jnp.zeros((2, 3)), STATE.velocity),
    ),
    "State rank": (r"State.position must have", lambda: rb.State(*[jnp.zeros(3)] * 4)),
    "quaternion": (r"State.quaternion must have unit", lambda: start(quaternion=((2.0, 0, 0, 0),))),
    "mass negative": (
        r"RigidBody.mass must be positive",
        lambda: rb.RigidBody(rb.Sphere(1.0), -1.0),
    ),
    "mass zero": (r"RigidBody.mass must be positive", lambda: rb.RigidBody(rb.Sphere(1.0), 0.0)),
    "inertia impossible": (
        r"RigidBody.inertia is impossible",
        lambda: rb.RigidBody(rb.Sphere(1.0), inertia=(1.0, 1.0, 2.3)),
    ),
    "inertia indefinite": (
        r"RigidBody.inertia must be positive definite",
        lambda: rb.RigidBody(rb.Sphere(1.0), inertia=(1.0, -1.0, 1.0)),
    ),
    "inertia unsymmetric": (
        r"RigidBody.inertia must be symmetric",
        lambda: rb.RigidBody(rb.Sphere(1.0), inertia=np.eye(3) + np.eye(3, k=1) / 4),
    ),
    "inertia shape": (
        r"RigidBody.inertia must have shape",
        lambda: rb.RigidBody(rb.Sphere(1.0), inertia=(1.0, 1.0)),
    ),
    "body shape": (r"RigidBody.shape must be", lambda: rb.RigidBody(rb.HalfSpace())),
    "e above": (r"Frictionless.restitution must be in the interval", lambda: rb.Frictionless(1.01)),
    "e below": (
        r"Frictionless.restitution must be in the interval",
        lambda: rb.Frictionless(-0.01),
    ),
    "e nan": (r"Frictionless.restitution must be in the interval", lambda: rb.Frictionless(NAN)),
    "radius": (r"Sphere.radius must be positive", lambda: rb.Sphere(0.0)),
    "normal": (r"HalfSpace.normal must be finite and not zero", lambda: rb.HalfSpace((0, 0, 0))),
    "offset": (r"HalfSpace.offset must be finite", lambda: rb.HalfSpace(offset=INF)),
    "no bodies": (r"World.bodies must hold at least one", lambda: rb.World([])),
    "bare body": (r"World.bodies must be a sequence", lambda: rb.World(BALL)),
    "wrong body": (
        r"World.bodies\[1\] must be a RigidBody",
        lambda: rb.World([BALL, rb.Sphere(1.0)]),
    ),
    "wrong obstacle": (
        r"World.obstacles\[0\] must be a shape or a Moving one",
        lambda: rb.World([BALL], [BALL]),
    ),
    "joints": (
        r"World.joints\[0\] must be a joint, such as Pin",
        lambda: rb.World([BALL], joints=[1]),
    ),
    "forces": (
        r"World.forces\[0\] must be a force, such as Spring",
        lambda: rb.World([BALL], forces=[1]),
    ),
    "force of no body": (
        r"World.forces: there is no body 1; the world has 1",
        lambda: rb.World([BALL], forces=[rb.ConstantForce(1, (0, 0, 1))]),
    ),
    "force": (r"ConstantForce.force must have shape", lambda: rb.ConstantForce(0, (0, 1))),
    "gravity": (r"World.gravity must have shape \(3,\)", lambda: rb.World([BALL], gravity=-9.81)),
    "gravity nan": (r"World.gravity must be finite", lambda: rb.World([BALL], gravity=(0, 0, NAN))),
    "law": (r"World.contact_law must be a contact law", lambda: rb.World([BALL], contact_law=0.5)),
    "SaveAt of nothing": (r"exactly one of", rb.SaveAt),
    "SaveAt of two": (r"exactly one of", lambda: rb.SaveAt(every=1, final=True)),
    "SaveAt of ts and every": (r"exactly one of", lambda: rb.SaveAt(every=1, ts=[0.0])),
    "every zero": (r"SaveAt.every must be a positive", lambda: rb.SaveAt(every=0)),
    "every broken": (r"SaveAt.every must be a positive", lambda: rb.SaveAt(every=1.5)),
    "impacts": (r"SaveAt.impacts must be", lambda: rb.SaveAt(final=True, impacts=-1)),
    "ts nan": (r"SaveAt.ts must be finite", lambda: rb.SaveAt(ts=[0.0, NAN])),
    "ts unsorted": (
        r"SaveAt.ts must be a non-empty, sorted",
        lambda: run(save=rb.SaveAt(ts=[0.1, 0.0])),
    ),
    "ts empty": (r"SaveAt.ts must hold at least one", lambda: run(save=rb.SaveAt(ts=[]))),
    "ts late": (r"SaveAt.ts must .* in \[0.0, 0.1\]", lambda: run(save=rb.SaveAt(ts=[0.0, 0.11]))),
    "ts early": (r"SaveAt.ts must .* in \[0.0, 0.1\]", lambda: run(save=rb.SaveAt(ts=[-0.01]))),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_refused_with_the_name_of_the_argument(case):
    message, attempt = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        attempt()


@pytest.mark.slow
def test_a_coarse_state_in_a_fine_world_is_accepted():
    assert run(state=rb.State(**F32)).final.position.dtype == "float32"
