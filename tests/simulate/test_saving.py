"""What is saved along a trajectory, and the record of impacts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, quick_jit

import jaxrb as rb

G, RADIUS = 10.0, 0.25


def drop(dtype=float, e=0.9):
    """A ball whose lowest point falls 1 m, with a horizontal speed of 0.5 m/s."""
    world = rb.World(
        [rb.RigidBody(rb.Sphere(RADIUS), mass=2.0)],
        [rb.HalfSpace()],
        gravity=(0, 0, -G),
        contact_law=rb.Frictionless(e),
    )
    rows = ([[0, 0, 1 + RADIUS]], [[1, 0, 0, 0]], [[0.5, 0, 0]], [[0, 0, 0.2]])
    return world, rb.State(*(jnp.array(row, dtype) for row in rows))


def impact_times(e, t1):
    """t_k after a fall of T and flights of 2 T e, 2 T e^2, ..."""
    fall = np.sqrt(2 / G)
    times = [fall]
    while times[-1] <= t1:
        times.append(times[-1] + 2 * fall * e ** len(times))
    return np.array(times[:-1])


def path(ts, e=0.9):
    """Height of the centre and vertical velocity in closed form."""
    ts = np.asarray(ts, float)
    hits = impact_times(e, ts.max())
    fall = np.sqrt(2 / G)
    k = np.searchsorted(hits, ts, side="right")
    since = ts - np.where(k > 0, hits[np.maximum(k - 1, 0)] if len(hits) else 0.0, 0.0)
    up = np.where(k > 0, G * fall * e**k, 0.0)
    return np.where(k > 0, 0, 1) + RADIUS + up * since - G * since**2 / 2, up - G * since


def tumbling():
    """Case I, from just before its first impact; the attitude matters."""
    world = rb.World(
        [rb.RigidBody(rb.Ellipsoid((2.0, 3.0, 4.0)), inertia=(5.0, 4.0, 2.6))], [rb.HalfSpace()]
    )
    state = rb.State(
        jnp.array([[0.0, 0, 4.3]]),
        jnp.array([[0.8, 0.6, 0, 0]]),
        jnp.array([[1.0, 0, -2]]),
        jnp.array([[0.8, -1, 1.5]]),
    )
    return world, state


def assert_states_equal(got, expected, atol):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def item(tree, k):
    return jax.tree.map(lambda leaf: leaf[k], tree)


@pytest.mark.slow
def test_every_k_steps_equals_separate_runs():
    world, state = tumbling()
    method = rb.LGVCI(dt=0.04, on_zeno="stop")
    sol = rb.simulate(world, state, method, 2.0, save=rb.SaveAt(every=15))
    # 50 steps: after 0, 15, 30, 45 and at the end.
    np.testing.assert_allclose(sol.ts, [0, 0.6, 1.2, 1.8, 2.0], rtol=0, atol=1e-15)
    assert sol.states.position.shape == (5, 1, 3) and int(sol.impacts.count) >= 2
    # The same arithmetic in another program: round-off, amplified by impacts.
    assert_states_equal(item(sol.states, 0), state, 1e-15)
    for k in (1, 3):
        assert_states_equal(
            item(sol.states, k), rb.simulate(world, state, method, float(sol.ts[k])).final, 1e-12
        )
    assert_states_equal(item(sol.states, 4), sol.final, 1e-15)  # the conversion is compiled twice
    alone = rb.simulate(world, state, method, 2.0)
    assert_states_equal(sol.final, alone.final, 1e-12)
    assert int(alone.impacts.count) == int(sol.impacts.count)


@pytest.mark.slow
def test_last_step_is_shorter_where_t1_is_no_multiple_of_dt():
    every = 4
    world, state = drop()
    sol = rb.simulate(
        world, state, rb.LGVCI(dt=0.1, on_zeno="stop"), 2.03, save=rb.SaveAt(every=every)
    )
    times = np.append(0.1 * np.arange(0, 21, every), 2.03)
    np.testing.assert_allclose(sol.ts, times, rtol=0, atol=1e-15)
    assert int(sol.stats.steps) == 21 and float(sol.stats.time) == 2.03
    height, velocity = path(times)
    # Round-off of the times of impact, times speeds of 4.5 m/s.
    np.testing.assert_allclose(sol.states.position[:, 0, 2], height, rtol=0, atol=1e-13)
    np.testing.assert_allclose(sol.states.velocity[:, 0, 2], velocity, rtol=0, atol=1e-12)
    np.testing.assert_allclose(sol.states.position[:, 0, 0], 0.5 * times, rtol=0, atol=1e-14)


@pytest.mark.slow
def test_times_round_off_is_no_step_of_its_own():
    world, state = drop()
    # 0.1 * 3 > 0.3 and 2.1/0.3 > 7 in floating point.
    for dt, t1, n in ((0.3, 2.1, 7), (0.7, 2.1, 3)):
        assert int(rb.simulate(world, state, rb.LGVCI(dt=dt, on_zeno="stop"), t1).stats.steps) == n


@pytest.mark.slow
def test_chosen_times_equal_the_closed_form_and_disturb_nothing():
    world, state = drop()
    method, t1 = rb.LGVCI(dt=0.5, on_zeno="stop"), 3.0
    hits = impact_times(0.9, t1)
    assert len(hits) >= 4
    near = np.concatenate([hits - 1e-6, hits + 1e-6])
    ts = np.sort(
        np.concatenate([[0.0, 0.001, 0.5, 0.5, 1.0, 2.9999, t1], near, np.linspace(0.03, 2.97, 40)])
    )
    sol = rb.simulate(world, state, method, t1, save=rb.SaveAt(ts=ts, impacts=8))
    np.testing.assert_array_equal(sol.ts, ts)
    height, velocity = path(ts)
    np.testing.assert_allclose(sol.states.position[:, 0, 2], height, rtol=0, atol=1e-13)
    np.testing.assert_allclose(sol.states.velocity[:, 0, 2], velocity, rtol=0, atol=1e-12)
    assert_states_equal(item(sol.states, 0), state, 1e-15)
    assert_states_equal(item(sol.states, -1), sol.final, 1e-15)
    alone = rb.simulate(world, state, method, t1)
    assert_states_equal(sol.final, alone.final, 1e-13)
    np.testing.assert_allclose(sol.impacts.time[: len(hits)], hits, rtol=0, atol=1e-14)


@pytest.mark.slow
def test_chosen_times_do_not_disturb_a_tumbling_body():
    """Turning in one piece differs from turning in two, so a disturbance would show."""
    world, state = tumbling()
    method = rb.LGVCI(dt=0.04, on_zeno="stop")
    ts = [0.0, 0.013, 0.777, 0.79, 1.5, 1.999]
    sol = rb.simulate(world, state, method, 2.0, save=rb.SaveAt(ts=ts))
    assert_states_equal(sol.final, rb.simulate(world, state, method, 2.0).final, 1e-12)
    # A run that ends within a step flies the same piece of it.
    assert_states_equal(item(sol.states, 3), rb.simulate(world, state, method, 0.79).final, 1e-12)


@pytest.mark.long
@pytest.mark.parametrize(
    "method", [rb.LGVCI(0.05), *before_releases(rb.EventDriven(rb.ExactFlight(), dt=None))]
)
def test_attitudes_between_steps_have_derivatives_in_both_modes(method):
    """By the inertia, on which flights depend that are taken in vain, for impacts that do not
    happen."""
    world, state = tumbling()
    method = dataclasses.replace(method, max_impacts=8)

    def attitude(inertia):
        body = rb.RigidBody(world.bodies[0].shape, inertia=inertia)
        thrown = rb.World([body], world.obstacles)
        return rb.simulate(thrown, state, method, 0.3, save=rb.SaveAt(ts=[0.27])).states.quaternion

    inertia = jnp.array([5.0, 4.0, 2.6])
    reverse, forward = (quick_jit(mode(attitude))(inertia) for mode in (jax.jacrev, jax.jacfwd))
    assert np.abs(forward).max() > 1e-3
    np.testing.assert_allclose(reverse, forward, rtol=0, atol=1e-15)


@pytest.mark.slow
def test_many_saved_times_and_many_impacts_in_few_steps():
    """A ball between two walls: several impacts and several saved times in each step."""
    width, speed, t1 = 0.5, 7.0, 2.0
    world = rb.World(
        [rb.RigidBody(rb.Sphere(0.1))],
        [rb.HalfSpace((1, 0, 0), -0.1), rb.HalfSpace((-1, 0, 0), -0.1 - width)],
        gravity=(0, 0, 0),
    )
    state = rb.State([[0.2, 0.0, 0]], [[1.0, 0, 0, 0]], [[speed, 0.0, 0]], [[0.0, 0, 0]])
    ts = np.linspace(0, t1, 101)
    method = rb.LGVCI(dt=0.5, max_impacts=40, on_zeno="stop")
    sol = rb.simulate(world, state, method, t1, save=rb.SaveAt(ts=ts, impacts=40))
    count = int((0.2 + speed * t1) / width)
    assert int(sol.impacts.count) == count == 28
    along = np.mod(0.2 + speed * ts, 2 * width)
    expected = np.where(along > width, 2 * width - along, along)
    # Impacts do not amplify; each leaves its round-off.
    np.testing.assert_allclose(sol.states.position[:, 0, 0], expected, rtol=0, atol=1e-12)
    times = (width * np.arange(1, count + 1) - 0.2) / speed
    np.testing.assert_allclose(sol.impacts.time[:count], times, rtol=0, atol=1e-12)
    assert np.asarray(sol.impacts.pair[:count, 1]).tolist() == [1, 0] * (count // 2)


@pytest.mark.slow
def test_log_holds_as_many_impacts_as_its_capacity_says():
    """31 impacts, most of them early, fit into the default log (32 and one per 32 steps)."""
    speed, e = 1000.0, 0.8
    world = rb.World(
        [rb.RigidBody(rb.Sphere(0.1))],
        [rb.HalfSpace((1, 0, 0), -0.2), rb.HalfSpace((-1, 0, 0), -0.2)],
        gravity=(0, 0, 0),
        contact_law=rb.Frictionless(e),
    )
    state = rb.State([[0.0, 0.0, 0]], [[1.0, 0, 0, 0]], [[speed, 0.0, 0]], [[0.0, 0, 0]])
    # The ball crosses 0.1 m and then 0.2 m again and again, slower by e each time.
    legs = np.concatenate([[0.1], np.full(59, 0.2)]) / (speed * e ** np.arange(60))
    count = int(np.sum(np.cumsum(legs) <= 1.0))
    assert count == 31
    for save in (rb.SaveAt(final=True), rb.SaveAt(every=10), rb.SaveAt(final=True, impacts=40)):
        sol = rb.simulate(
            world, state, rb.LGVCI(dt=0.01, on_zeno="stop"), 1.0, save=save, throw=False
        )
        assert int(sol.impacts.count) == count
        assert sol.result == rb.RESULTS.successful, (save.every, save.impacts)


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [2, pytest.param(7, marks=pytest.mark.slow)])
def test_record_of_impacts(capacity):
    world, state = drop()
    hits = impact_times(0.9, 3.0)
    n = len(hits)
    assert n == 4
    save = rb.SaveAt(final=True, impacts=capacity)
    record = rb.simulate(world, state, rb.LGVCI(dt=0.5, on_zeno="stop"), 3.0, save=save).impacts
    assert int(record.count) == n
    kept = min(n, capacity)
    for leaf in jax.tree.leaves(record)[1:]:
        assert leaf.shape[0] == capacity
    np.testing.assert_allclose(record.time[:kept], hits[:kept], rtol=0, atol=1e-14)
    assert np.all(np.isposinf(record.time[kept:]))
    assert np.all(np.asarray(record.pair[:kept]) == 0) and np.all(
        np.asarray(record.pair[kept:]) == -1
    )
    up = np.sqrt(2 * G) * 0.9 ** np.arange(kept)
    impulse = 2.0 * 1.9 * up
    np.testing.assert_allclose(record.impulse[:kept, 2], impulse, rtol=1e-13)
    np.testing.assert_allclose(record.before.velocity[:kept, 0, 2], -up, rtol=1e-13)
    np.testing.assert_allclose(record.after.velocity[:kept, 0, 2], 0.9 * up, rtol=1e-13)
    np.testing.assert_allclose(record.position[:kept, 0], 0.5 * hits[:kept], rtol=1e-13)
    np.testing.assert_allclose(record.position[:kept, 1:], 0, atol=1e-14)
    np.testing.assert_array_equal(record.normal[:kept], np.tile([0.0, 0, 1], (kept, 1)))
    for leaf in jax.tree.leaves(
        (record.impulse, record.position, record.normal, record.before, record.after)
    ):
        assert np.all(np.asarray(leaf[kept:]) == 0)


@pytest.mark.slow
def test_no_impacts_and_no_obstacles_leave_the_record_empty():
    world, state = drop()
    free = rb.World(world.bodies, gravity=(0, 0, -G))
    for scene in (world, free):
        save = rb.SaveAt(ts=[0.1], impacts=3)
        sol = rb.simulate(scene, state, rb.LGVCI(dt=0.1, on_zeno="stop"), 0.3, save=save)
        assert int(sol.impacts.count) == 0
        assert np.all(np.isposinf(sol.impacts.time)) and np.all(np.asarray(sol.impacts.pair) == -1)
        for leaf in jax.tree.leaves((sol.impacts.impulse, sol.impacts.before, sol.impacts.after)):
            assert leaf.shape[0] == 3 and np.all(np.asarray(leaf) == 0)
        assert abs(float(sol.states.position[0, 0, 2]) - (1 + RADIUS - G * 0.01 / 2)) < 1e-15
    bare = rb.simulate(world, state, rb.LGVCI(dt=0.1, on_zeno="stop"), 0.3)
    assert bare.impacts.time is None and int(bare.impacts.count) == 0


@pytest.mark.slow
def test_start_at_another_time():
    world, state = drop()
    save = rb.SaveAt(ts=[-7.0, -6.9, -5.3, -4.0], impacts=4)
    sol = rb.simulate(world, state, rb.LGVCI(dt=0.1, on_zeno="stop"), -4.0, t0=-7.0, save=save)
    np.testing.assert_array_equal(sol.ts, [-7.0, -6.9, -5.3, -4.0])
    height, _ = path(np.array(sol.ts) + 7)
    np.testing.assert_allclose(sol.states.position[:, 0, 2], height, rtol=0, atol=1e-12)
    np.testing.assert_allclose(sol.impacts.time, impact_times(0.9, 3.0) - 7, rtol=0, atol=1e-13)
    assert float(sol.stats.time) == -4.0
    every = rb.simulate(
        world, state, rb.LGVCI(dt=0.1, on_zeno="stop"), -6.75, t0=-7.0, save=rb.SaveAt(every=1)
    )
    np.testing.assert_allclose(every.ts, [-7.0, -6.9, -6.8, -6.75], rtol=0, atol=1e-14)
    height, _ = path(np.array(every.ts) + 7)
    np.testing.assert_allclose(every.states.position[:, 0, 2], height, rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"ts": [2.0, 2.0]}])
def test_no_time_at_all(options):
    world, state = drop()
    sol = rb.simulate(
        world,
        state,
        rb.LGVCI(dt=0.1, on_zeno="stop"),
        2.0,
        t0=2.0,
        save=rb.SaveAt(**options, impacts=2),
    )
    assert sol.result == rb.RESULTS.successful
    assert np.all(np.asarray(sol.ts) == 2.0) and int(sol.stats.steps) == 0
    assert float(sol.stats.time) == 2.0
    assert_states_equal(sol.final, state, 1e-15)
    for k in range(len(sol.ts)):
        assert_states_equal(item(sol.states, k), state, 1e-15)
    assert int(sol.impacts.count) == 0 and np.all(np.isposinf(sol.impacts.time))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"final": True}, pytest.param({"ts": [0.05, 0.6]}, marks=pytest.mark.slow)]
)
def test_numbers_take_the_dtype_of_the_state(options):
    dtype = "float32"  # while the world is built in float64
    world, state = drop(dtype)
    save = rb.SaveAt(**options, impacts=2)
    sol = rb.simulate(world, state, rb.LGVCI(dt=0.1, on_zeno="stop"), 0.8, save=save)
    for leaf in jax.tree.leaves((sol.ts, sol.states, sol.final, sol.stats.time, sol.impacts)):
        assert leaf.dtype == (dtype if jnp.issubdtype(leaf.dtype, jnp.floating) else "int32")
    assert int(sol.impacts.count) == 1
    height, _ = path([0.8])
    # One impact at 4.5 m/s: a few eps.
    assert abs(float(sol.final.position[0, 2]) - height[0]) < 32 * jnp.finfo(dtype).eps


@pytest.mark.slow
def test_failed_simulations_fill_up_with_the_last_good_state():
    world, state = drop(e=0.5)
    # Impacts accumulate at three times the fall, 1.34 s.
    ts = [0.2, 1.0, 1.3, 1.5, 2.0]
    method = rb.LGVCI(dt=0.1, on_zeno="stop")
    sol = rb.simulate(world, state, method, 2.0, save=rb.SaveAt(ts=ts), throw=False)
    assert sol.result != rb.RESULTS.successful
    height, _ = path([0.2, 1.0, 1.3], e=0.5)
    np.testing.assert_allclose(sol.states.position[:3, 0, 2], height, rtol=0, atol=1e-12)
    for k in (3, 4):
        assert_states_equal(item(sol.states, k), sol.final, 1e-15)


def test_a_flight_to_a_saved_time_that_fails_is_said():
    """By a force that is nothing and for a moment unknown: no step has its middle then, but one
    flight to a time to save does. That state is not reached; all others are, and so with
    derivatives."""

    def push(t, state, args):
        unknown = (t > 0.11) & (t < 0.115)
        return jnp.where(unknown, jnp.nan, 0.0) + 0 * state.position, 0 * state.position

    world = rb.World([rb.RigidBody(rb.Sphere(0.1), 1.0)], forces=[rb.Force(push)])
    still = np.zeros((1, 3))
    state = rb.State(still, np.array([[1.0, 0, 0, 0]]), still, still)
    ts = [0.05, 0.125, 0.25]

    def flown(speed):
        start = dataclasses.replace(state, velocity=jnp.array([[0.0, 0.0, 1.0]]) * speed)
        save = rb.SaveAt(ts=ts)
        sol = rb.simulate(world, start, rb.LGVCI(dt=0.1), 0.4, save=save, throw=False)
        return sol.states.position[:, 0, 2], sol.reached, sol.result == rb.RESULTS.non_finite

    zero, one = jnp.zeros(()), jnp.ones(())
    (height, *differentiated), (rate, *_) = jax.jvp(flown, (zero,), (one,))
    for reached, failed in (differentiated, flown(zero)[1:]):
        np.testing.assert_array_equal(reached, [True, False, True])
        assert failed
    expected = [-0.5 * 9.81 * t**2 for t in (0.05, 0.4, 0.25)]  # that of the end, where it failed
    np.testing.assert_allclose(height, expected, atol=1e-12)
    np.testing.assert_allclose(rate, [0.05, 0.4, 0.25], atol=1e-12)
    with pytest.raises(RuntimeError, match="infinite or NaN"):
        rb.simulate(world, state, rb.LGVCI(dt=0.1), 0.4, save=rb.SaveAt(ts=ts))
    assert rb.simulate(world, state, rb.LGVCI(dt=0.1), 0.4).successful
