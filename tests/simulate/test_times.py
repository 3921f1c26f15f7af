"""Times as numbers: derivatives by them, programs that they share, capacities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences, quick_jit
from scipy.optimize import fsolve

import jaxrb as rb
from jaxrb.simulate import solve
from jaxrb.simulate.time_grid import TimeGrid, rounded_up

WORLD = rb.World([rb.RigidBody(rb.Ellipsoid((0.2, 0.3, 0.4)))], [rb.HalfSpace()])
START = rb.State([[0, 0, 1.0]], [[1.0, 0, 0, 0]], [[2.0, 0.3, 1.0]], [[1.0, -1.5, 2.0]])


def run(t1=0.9, dt=0.01, t0=0.0, **options):
    return rb.simulate(WORLD, START, rb.LGVCI(dt), t1, t0, **options)


@pytest.mark.long
def test_the_derivative_by_the_end_is_the_velocity_there():
    """In both modes, after an impact (at 0.55 s); the discrete flow moves on parabolas exactly."""
    position = lambda t1: run(t1, max_steps=100).final.position  # noqa: E731
    end = jnp.asarray(0.703)
    velocity = run(0.703).final.velocity
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(quick_jit(mode(position))(end), velocity, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_a_throw_of_given_speed_reaches_its_target_in_the_least_time():
    """The angle and the time of flight, by Newton's rule with the derivatives of the simulation,
    against the root of the parabolas before and after the bounce.

    Two angles lead there; the lower one takes half the time.
    """
    speed, e, g, z0, target = 6.0, 0.8, 9.81, 0.9, np.array([6.5, 0.6])

    def closed_form(unknowns):
        angle, time = unknowns
        vx, vz = speed * np.cos(angle), speed * np.sin(angle)
        impact = (vz + np.sqrt(vz**2 + 2 * g * z0)) / g
        up, rest = e * (g * impact - vz), time - impact
        return np.array([vx * time, 0.1 + up * rest - g * rest**2 / 2]) - target

    def miss(unknowns):
        angle, time = unknowns
        zero = jnp.zeros_like(angle)
        world = rb.World(
            [rb.RigidBody(rb.Sphere(0.1))],
            [rb.HalfSpace()],
            gravity=(0.0, 0.0, -g),
            contact_law=rb.Frictionless(e),
        )
        velocity = speed * jnp.stack([jnp.cos(angle), zero, jnp.sin(angle)])
        start = rb.State([[0.0, 0.0, 0.1 + z0]], [[1.0, 0, 0, 0]], velocity[None], [[0.0, 0, 0]])
        method = rb.LGVCI(0.01, on_zeno="stop")
        sol = rb.simulate(world, start, method, time, throw=False, max_steps=256)
        return sol.final.position[0, 0::2] - jnp.asarray(target)

    step = quick_jit(lambda u: u - jnp.linalg.solve(jax.jacfwd(miss)(u), miss(u)))
    ways = []
    for guess in ([0.2, 1.1], [1.1, 2.2]):
        found = jnp.array(guess)
        for _ in range(8):
            found = step(found)
        np.testing.assert_allclose(found, fsolve(closed_form, guess, xtol=1e-13), rtol=1e-12)
        ways.append(found)
    flat, steep = np.asarray(ways)
    assert flat[0] < steep[0] and flat[1] < 0.6 * steep[1]


@pytest.mark.slow
@pytest.mark.parametrize("mode", [*before_releases(jax.jacfwd), jax.jacrev])
def test_derivatives_by_the_step_size_the_start_and_times_saved(mode):
    """Through an impact, against differences of fourth order; the number of steps stays."""
    save = lambda ts: rb.SaveAt(ts=ts)  # noqa: E731

    def states(numbers):
        dt, t0, ts = numbers[0], numbers[1], numbers[2:]
        sol = run(0.905, dt, t0, save=save(ts), max_steps=100)
        return jnp.concatenate([sol.states.position, sol.states.angular_velocity], axis=-1)

    numbers = jnp.array([0.01, 0.001, 0.203, 0.807])
    found = quick_jit(mode(states))(numbers)
    expected = differences(quick_jit(states), numbers, step=1e-6)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)


def test_runs_of_other_lengths_and_step_sizes_share_a_program():
    """Within the capacity, the next of eight numbers between powers of two."""
    run(0.65)
    before = solve._solve._cache_size()
    for t1, dt, t0 in [(0.66, 0.01, 0.0), (0.71, 0.01, 0.0), (0.7, 0.0101, 0.0), (1.7, 0.01, 1.0)]:
        run(t1, dt, t0)
    assert solve._solve._cache_size() == before


def test_capacities_leave_at_most_an_eighth_unused():
    n = np.arange(1, 5000)
    capacity = np.array([rounded_up(int(k)) for k in n])
    assert np.all(capacity >= n)
    assert np.max(capacity / n) <= 1.125
    assert len(np.unique(capacity[n > 512])) <= 8 * 4


def test_too_few_steps_are_a_code_with_a_remedy():
    sol = run(0.9, max_steps=50, throw=False)
    assert sol.result == rb.RESULTS.max_steps_reached
    assert not sol.successful
    np.testing.assert_allclose(sol.stats.time, 0.5, atol=1e-15)
    with pytest.raises(RuntimeError, match="raise max_steps of simulate"):
        run(0.9, max_steps=50)


def test_traced_times_that_are_impossible_are_a_code():
    def result(t1, ts):
        return run(t1, save=rb.SaveAt(ts=ts), max_steps=20, throw=False).result

    codes = [
        quick_jit(result)(*numbers)
        for numbers in [(0.1, jnp.array([0.1, 0.05])), (-0.1, jnp.array([0.0, 0.0]))]
    ]
    assert all(code == rb.RESULTS.invalid_times for code in codes)


@pytest.mark.slow
def test_traced_and_known_times_save_the_same():
    ts = np.array([0.0, 0.123, 0.5, 0.61, 0.9])
    known = run(0.9, save=rb.SaveAt(ts=ts))
    traced = quick_jit(lambda ts: run(0.9, save=rb.SaveAt(ts=ts)))(jnp.asarray(ts))
    np.testing.assert_allclose(traced.ts, ts, rtol=0, atol=1e-16)
    for a, b in zip(*map(jax.tree.leaves, (known.states, traced.states)), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


@pytest.mark.long
def test_what_was_not_reached_is_marked():
    """`reached` says which states exist; NaN takes their place and that of their derivatives."""

    def solution(height, failed):
        start = rb.State(
            START.position.at[0, 2].set(height),
            START.quaternion,
            START.velocity,
            START.angular_velocity,
        )
        save = rb.SaveAt(every=20)
        method = rb.LGVCI(0.01)
        return rb.simulate(
            WORLD, start, method, 0.9, save=save, throw=False, max_steps=50, failed=failed
        )

    kept, marked = solution(1.0, "keep"), solution(1.0, "nan")
    # Room for the steps 0, 20 and 40 that are made, and for the end, which is not reached.
    assert kept.reached.tolist() == marked.reached.tolist() == [True] * 3 + [False]
    heights = np.asarray(marked.states.position[:, 0, 2])
    assert np.isfinite(heights).tolist() == marked.reached.tolist()
    np.testing.assert_array_equal(heights[:3], kept.states.position[:3, 0, 2])
    assert np.isnan(marked.final.position).all()
    slope = jax.jacrev(lambda h: solution(h, "nan").states.position[:, 0, 2])(1.0)
    assert np.isfinite(slope).tolist() == marked.reached.tolist()


def test_single_precision_steps_end_where_they_should():
    """Known times are counted in double precision: the last of 10^4 steps is no longer than
    others."""
    grid = TimeGrid.of(0.0, 100.0, 0.01, None, jnp.float32)
    assert int(grid.n_steps) == 10_000
    np.testing.assert_allclose(grid.last_dt, 0.01, rtol=1e-7)
