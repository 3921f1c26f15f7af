"""Shooting against the closed forms of a ball that bounces."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb import optimize as ro

METHOD = rb.EventDriven(rb.LieVariational(), 0.02, on_zeno="stop")
RADIUS, E, G = 0.1, 0.7, 9.81
# The velocity at once, then what follows from it, are free; the velocity alone.
MASK = np.zeros((1, 12), bool)
MASK[0, 6:9] = True


def world_of(restitution=E):
    return rb.World(
        [rb.RigidBody(rb.Sphere(RADIUS), 2.0)],
        [rb.HalfSpace([0.0, 0, 1], 0.0)],
        gravity=[0.0, 0, -G],
        contact_law=rb.Frictionless(restitution),
    )


def thrown(velocity=(1.0, 0.0, 1.0), height=1.0):
    return rb.State([[0.0, 0, RADIUS + height]], [[1.0, 0, 0, 0]], [velocity], [[0.0, 0, 0]])


class Target(eqx.Module):
    """The place of the ball, whose numbers are leaves."""

    place: jax.Array

    def __call__(self, state):
        return state.position[0] - self.place


class Height(eqx.Module):
    """The height of the ball over one that is wanted."""

    wanted: float = eqx.field(static=True)

    def __call__(self, state):
        return state.position[0, 2:] - self.wanted


def target(x, y, z):
    return Target(jnp.array([x, y, z]))


def after_one_bounce(w, h, t):
    """Height and vertical velocity at t of a ball from h with w, after one bounce."""
    fall = (w + np.sqrt(w**2 + 2 * G * h)) / G
    up = E * np.sqrt(w**2 + 2 * G * h)
    tau = t - fall
    return RADIUS + up * tau - G * tau**2 / 2, up - G * tau, fall


def shot(residual=None, start=None, t1=1.0, world=None, **options):
    options = {"free": MASK, "starts": 8, **options}
    residual = target(0.7, -0.2, 0.6) if residual is None else residual
    start = thrown() if start is None else start
    world = world_of() if world is None else world
    return ro.shoot(world, start, METHOD, t1, residual=residual, **options)


def test_a_throw_reaches_a_place_after_a_bounce():
    sol = shot()
    assert sol.result == ro.RESULTS.successful and sol.cost < 1e-16
    velocity = np.asarray(sol.state.velocity[0])
    assert int(sol.impacts) == 1
    z, w, _ = after_one_bounce(velocity[2], 1.0, 1.0)
    np.testing.assert_allclose(
        [velocity[0], velocity[1], z], [0.7, -0.2, 0.6], rtol=1e-8, atol=1e-9
    )
    np.testing.assert_allclose(sol.end.velocity[0, 2], w, rtol=1e-8)
    assert "8 starts" in str(sol) and "successful" in str(sol)


@pytest.mark.slow
def test_the_number_of_impacts_may_be_given():
    """Straight up and down the place lies on the way of throws with none, one and two impacts."""
    mask = MASK & (np.arange(12) == 8)
    sols = {n: shot(Height(0.6), free=mask, starts=64, impacts=(n,), t1=1.4) for n in (1, 2)}
    for n, sol in sols.items():
        assert sol.result == ro.RESULTS.successful and int(sol.impacts) == n
        done = np.asarray(sol.all.result == ro.RESULTS.successful)
        assert (np.asarray(sol.all.impacts)[done] == n).all()
    w = float(sols[1].state.velocity[0, 2])
    np.testing.assert_allclose(after_one_bounce(w, 1.0, 1.4)[0], 0.6, rtol=1e-8)
    # Thereafter the ball flies for 2 E times as long as before, less its start in mid-air.
    w = float(sols[2].state.velocity[0, 2])
    landing = np.sqrt(w**2 + 2 * G)
    tau = 1.4 - (w + landing) / G - 2 * E * landing / G
    height = RADIUS + E**2 * landing * tau - G * tau**2 / 2
    np.testing.assert_allclose(height, 0.6, rtol=1e-8)
    never = shot(Height(0.6), free=mask, impacts=(40,), rounds=2)
    assert never.result == ro.RESULTS.other_impacts and np.isinf(never.cost)


@pytest.mark.slow
def test_every_start_that_succeeded_flies_there():
    sol = shot(starts=32, key=jax.random.key(4))
    done = np.asarray(sol.all.result == ro.RESULTS.successful)
    assert done.sum() >= 8
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf[done]), sol.all.state)
    ends = rb.simulate_batch(world_of(), states, METHOD, 1.0).final.position[:, 0]
    np.testing.assert_allclose(ends, [[0.7, -0.2, 0.6]] * done.sum(), atol=2e-8)
    assert (np.asarray(sol.all.cost)[done] <= 1e-16).all()


def test_starts_may_be_given():
    starts = jax.tree.map(lambda *leaves: jnp.stack(leaves), thrown(), thrown((0.5, 0.1, 0.8)))
    sol = shot(starts=starts)
    assert sol.all.cost.shape == (2,) and sol.result == ro.RESULTS.successful


@pytest.mark.slow
def test_the_place_of_an_impact():
    """Just after the second impact, at a given place; time and place in closed form."""
    place = target(1.5, 0.3, RADIUS)
    sol = shot(place, stop=rb.StopAfter(impacts=2), t1=3.0)
    assert sol.result == ro.RESULTS.successful
    velocity = np.asarray(sol.state.velocity[0])
    *_, fall = after_one_bounce(velocity[2], 1.0, 0.0)
    hit = fall + 2 * E * np.sqrt(velocity[2] ** 2 + 2 * G) / G
    np.testing.assert_allclose(sol.time, hit, rtol=1e-9)
    np.testing.assert_allclose(velocity[:2] * hit, [1.5, 0.3], rtol=1e-7)
    missed = shot(place, stop=rb.StopAfter(impacts=2), t1=0.3, rounds=1)
    assert missed.result == ro.RESULTS.event_missed


@pytest.mark.slow
def test_where_a_function_changes_its_sign():
    """At x = 0.8 the ball shall be 0.5 high, and that in 1 s: then its velocity is known."""

    class Goal(eqx.Module):
        def __call__(self, state):
            return state.position[0, 1:] - jnp.array([0.0, 0.5])

    plane = rb.StopWhen(lambda t, state: state.position[0, 0] - 0.8)
    sol = shot(Goal(), stop=plane, t1=2.0)
    assert sol.result == ro.RESULTS.successful
    velocity = np.asarray(sol.state.velocity[0])
    np.testing.assert_allclose(velocity[0] * sol.time, 0.8, rtol=1e-8)
    np.testing.assert_allclose(sol.end.position[0], [0.8, 0.0, 0.5], atol=1e-8)
    # Later rounds, too, look for the crossing till the end, not till that of the round before.
    hurried = shot(Goal(), stop=plane, t1=2.0, max_iterations=2, rounds=60)
    assert hurried.rounds > 1 and hurried.result == ro.RESULTS.successful
    np.testing.assert_allclose(hurried.end.position[0], [0.8, 0.0, 0.5], atol=1e-8)
    aside = thrown((-1.0, 0.0, 1.0))
    away = shot(Goal(), start=aside, stop=plane, t1=2.0, starts=1)
    assert away.result == ro.RESULTS.event_missed


@pytest.mark.slow
def test_a_free_end_and_a_parameter():
    """Dropped from 1 m, the ball is at the top of its second flight, 0.5 m high, for one
    restitution and one time: e^2 h = 0.5 m, t = sqrt(2 h/g) (1 + e)."""

    class Top(eqx.Module):
        def __call__(self, state):
            return jnp.stack([state.position[0, 2] - RADIUS - 0.5, state.velocity[0, 2]])

    world = world_of(0.6)
    free = ro.Parameters(world, {"contact_law.restitution": ro.Bounded(0, 1)})
    sol = ro.shoot(
        world,
        thrown((0.0, 0.0, 0.0)),
        METHOD,
        0.7,
        residual=Top(),
        free=("t1",),
        parameters=free,
        starts=4,
    )
    assert sol.result == ro.RESULTS.successful
    np.testing.assert_allclose(sol.world.contact_law.restitution, np.sqrt(0.5), rtol=1e-8)
    np.testing.assert_allclose(sol.time, np.sqrt(2 / G) * (1 + np.sqrt(0.5)), rtol=1e-8)


def test_what_does_not_succeed_says_so():
    below = shot(target(0.7, -0.2, -5.0), rounds=2)  # under the floor
    assert below.result in (ro.RESULTS.stalled, ro.RESULTS.max_iterations_reached)
    assert below.cost > 1.0
    inside = shot(start=thrown(height=-0.05), rounds=2)
    assert inside.result == ro.RESULTS.simulation_failed and np.isinf(inside.cost)
    assert inside.world_result == rb.RESULTS.initial_penetration
    # A goal that is no attitude, of which a program that is traced knows nothing.
    nowhere = eqx.Partial(ro.pose_error, quaternion=jnp.zeros(4))
    missed = shot(nowhere, rounds=2)
    assert missed.result == ro.RESULTS.residual_not_finite and np.isinf(missed.cost)
    assert "NaN or infinite" in str(missed)
    # A norm at zero has no derivative; it seemed that no step gains anything.
    still = lambda state: jnp.linalg.norm(state.position[0] * 0.0)[None] - 1.0  # noqa: E731
    steep = shot(still, rounds=2)
    assert steep.result == ro.RESULTS.derivative_not_finite and steep.cost == 1.0
    assert steep.world_result == rb.RESULTS.successful


def test_bad_input():
    with pytest.raises(ValueError, match="t1 must lie after t0"):
        shot(t1=0.0)
    with pytest.raises(ValueError, match="free must name some of"):
        shot(free=("speed",))
    with pytest.raises(ValueError, match="put brackets around"):
        shot(free="velocity")
    with pytest.raises(ValueError, match="nothing is free"):
        shot(free=())
    with pytest.raises(ValueError, match="mask of shape"):
        shot(free=np.ones(3, bool))
    with pytest.raises(ValueError, match="spread must name some of"):
        shot(spread={"speed": 1.0})
    with pytest.raises(ValueError, match="impacts must be some whole numbers"):
        shot(impacts=(0.5,))
    with pytest.raises(ValueError, match="leave them out with StopAfter"):
        shot(impacts=(2,), stop=rb.StopAfter(impacts=2))
    with pytest.raises(ValueError, match='leave out "t1"'):
        shot(free=("velocity", "t1"), stop=rb.StopWhen(lambda t, state: t))
    with pytest.raises(ValueError, match="state must be a State"):
        shot(start="thrown")
    with pytest.raises(ValueError, match="positive whole number"):
        rb.StopAfter(0)
    with pytest.raises(ValueError, match="must be a function"):
        rb.StopWhen(3.0)
    with pytest.raises(ValueError, match="needs a position, a quaternion, or both"):
        ro.pose_error(thrown())
    with pytest.raises(ValueError, match=r"pose_error: position must have shape \(3,\)"):
        ro.pose_error(thrown(), jnp.zeros((1, 3)))
    with pytest.raises(ValueError, match="pose_error: quaternion must have unit length"):
        ro.pose_error(thrown(), quaternion=jnp.zeros(4))


def test_errors_of_poses():
    """Half a right angle about z, and 0.3 m aside."""
    quaternion = [[np.cos(np.pi / 8), 0, 0, np.sin(np.pi / 8)]]
    state = rb.State([[0.3, 0, 0]], quaternion, [[0.0, 0, 0]], [[0.0, 0, 0]])
    missed = ro.pose_error(state, jnp.zeros(3), jnp.array([1.0, 0, 0, 0]))
    np.testing.assert_allclose(missed, [0.3, 0, 0, 0, 0, np.pi / 4], atol=1e-15)
    # Four typed digits.
    typed = ro.pose_error(state, quaternion=[0.9239, 0.0, 0.0, 0.3827])
    np.testing.assert_allclose(typed, 0.0, atol=1e-4)
