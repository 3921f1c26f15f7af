"""Resistance to rolling and to spinning in contacts that last, against closed forms of a ball.

About its contact a ball that rolls is slowed by mu_r N: (7/5) m r^2 alpha = -mu_r m g.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences, quick_jit

import jaxrb as rb

G, R = 9.81, 0.1
METHODS = {
    "located": rb.LGVCI(0.01, on_zeno="rest"),
    "stepped": rb.MoreauJean(0.01, impacts="stepped"),
}


def final(method, rolling, spinning, mu, velocity, spin, slope, t1):
    """A ball on a plane that falls along x, rolling along x and y, at t1: position, velocity and
    angular velocity in the world, and whether it succeeded."""
    law = rb.Coulomb(mu, 0.0, rolling_friction=rolling, spinning_friction=spinning)
    gravity = G * jnp.stack([jnp.sin(slope), 0.0 * slope, -jnp.cos(slope)])
    ball = rb.RigidBody(rb.Sphere(R), mass=0.7)
    world = rb.World([ball], [rb.HalfSpace()], gravity=gravity, contact_law=law)
    turning = jnp.stack([-velocity[1] / R, velocity[0] / R, spin])
    start = rb.State(
        jnp.array([[0.0, 0.0, R]]),
        jnp.array([[1.0, 0, 0, 0]]),
        jnp.append(velocity, 0.0)[None],
        turning[None],
    )
    sol = rb.simulate(world, start, method, t1, throw=False, max_steps=128)
    end = sol.final
    omega = end.rotation_matrix[0] @ end.angular_velocity[0]
    return jnp.concatenate([end.position[0], end.velocity[0], omega]), sol.successful


def many(method):
    return quick_jit(jax.vmap(lambda *numbers: final(METHODS[method], *numbers)))


@pytest.fixture(scope="module", params=[pytest.param("located", marks=pytest.mark.slow), "stepped"])
def runs(request):
    """Of each method balls that roll, stop, spin, roll down a slope and lie on one."""
    slope = 0.03
    holds = R * np.tan(slope)
    cases = [
        # mu_r, mu_s, mu, velocity, spin, slope, t1
        (0.004, 0.01, 0.5, (0.6, 0.8), 0.0, 0.0, 1.0),
        (0.05, 0.01, 0.5, (0.6, 0.8), 0.0, 0.0, 1.0),
        (0.0, 0.002, 0.5, (0.0, 0.0), 9.0, 0.0, 0.5),
        (0.0, 0.002, 0.5, (0.0, 0.0), 1.0, 0.0, 0.5),
        (0.0, 0.0, 0.5, (0.5, 0.0), 2.0, 0.0, 0.7),
        (0.9 * holds, 0.0, 0.5, (0.0, 0.0), 0.0, slope, 1.0),
        (1.000001 * holds, 0.0, 0.5, (0.0, 0.0), 0.0, slope, 1.0),
    ]
    columns = [jnp.asarray(np.array(column, float)) for column in zip(*cases, strict=True)]
    found, good = many(request.param)(*columns)
    assert good.all()
    return cases, np.asarray(found)


@pytest.mark.slow
def test_a_rolling_ball_decelerates_by_its_rolling_friction(runs):
    """To round-off: nothing changes in a step but by constants."""
    cases, found = runs
    rolling, *_, velocity, _, _, t1 = cases[0]
    a, v = 5 / 7 * rolling * G / R, np.array(velocity)
    np.testing.assert_allclose(found[0, 3:5], v * (1 - a * t1), atol=1e-12)
    np.testing.assert_allclose(found[0, :2], v * (t1 - a * t1**2 / 2), atol=1e-12)
    np.testing.assert_allclose(
        found[0, 6:8], np.array([-v[1], v[0]]) * (1 - a * t1) / R, atol=1e-11
    )


@pytest.mark.slow
def test_a_rolling_ball_stops_and_lies(runs):
    """After v^2/(2 a); the step in which it stops is met to its square."""
    cases, found = runs
    rolling, *_, velocity, _, _, _ = cases[1]
    a = 5 / 7 * rolling * G / R
    way = np.array(velocity) / (2 * a)
    np.testing.assert_allclose(found[1, :2], way, atol=a * 0.01**2 / 2)
    np.testing.assert_allclose(found[1, 3:], 0.0, atol=1e-10)


def test_a_spinning_ball_slows_down_about_its_normal(runs):
    """(2/5) m r^2 alpha = -mu_s m g, until it lies."""
    cases, found = runs
    _, spinning, *_, spin, _, t1 = cases[2]
    alpha = spinning * G / (0.4 * R**2)
    np.testing.assert_allclose(found[2, 8], spin - alpha * t1, atol=1e-11)
    np.testing.assert_allclose(found[3, 3:], 0.0, atol=1e-10)
    np.testing.assert_allclose(found[2:4, :2], 0.0, atol=1e-12)


def test_a_ball_that_spins_rolls_straight_on(runs):
    """Of the points that touch one by one, those at the start of a step move to one side, those at
    its end to the other."""
    cases, found = runs
    velocity, spin, _, t1 = cases[4][3:]
    np.testing.assert_allclose(found[4, :2], [velocity[0] * t1, 0.0], atol=1e-12)
    np.testing.assert_allclose(found[4, 6:], [0.0, velocity[0] / R, spin], atol=1e-11)


def test_a_slope_holds_a_ball_up_to_its_rolling_friction(runs):
    """A ball rolls down by (5/7) g (sin - (mu_r/r) cos), or not at all."""
    cases, found = runs
    slope, t1 = cases[5][-2:]
    a = 5 / 7 * G * (np.sin(slope) - cases[5][0] / R * np.cos(slope))
    np.testing.assert_allclose(found[5, 3:5], [a * t1, 0.0], atol=1e-12)
    np.testing.assert_allclose(found[6, [0, 1, 3, 4, 5, 6, 7, 8]], 0.0, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("method", [*before_releases("located"), "stepped"])
def test_derivatives_are_those_of_differences(method):
    """By friction of all three kinds, velocity, spin and slope, of a ball that rolls and spins, and
    of one that has stopped spinning; in both modes."""

    def of(x):
        numbers = (x[0], x[1], x[2], x[3:5], x[5], x[6], jnp.asarray(0.3))
        return final(METHODS[method], *numbers)[0]

    # The second ball slips at first, and its spin has come to an end.
    at = jnp.array([
        [0.004, 0.002, 0.5, 0.6, 0.8, 6.0, 0.03],
        [0.004, 0.02, 0.02, 0.6, 0.8, 6.0, 0.2],
    ])  # fmt: skip
    forward, reverse = (
        quick_jit(jax.vmap(jacobian(of)))(at) for jacobian in (jax.jacfwd, jax.jacrev)
    )
    np.testing.assert_allclose(forward, reverse, atol=1e-9 * np.abs(forward).max())
    runs = jax.jit(jax.vmap(of))
    for k, exact in enumerate(forward):
        one = lambda x, k=k: runs(jnp.broadcast_to(jnp.asarray(x), (2, 7)))[k]  # noqa: E731
        found = differences(one, at[k], step=1e-5)
        np.testing.assert_allclose(exact, found, atol=2e-7 * np.abs(exact).max())


def test_what_has_no_resistance_to_rolling_says_so():
    law = rb.Coulomb(0.5, 0.0, rolling_friction=0.001)
    ball = rb.RigidBody(rb.Sphere(R))
    start = rb.State(*(jnp.array([x]) for x in ([0, 0, 1.0], [1.0, 0, 0, 0], [0.0] * 3, [0.0] * 3)))
    world = rb.World([ball], [rb.HalfSpace()], contact_law=law)
    with pytest.raises(ValueError, match=r'rolling or spinning.*on_zeno="rest"'):
        rb.simulate(world, start, rb.LGVCI(0.01, on_zeno="stop"), 0.1)
    table = rb.Moving(rb.HalfSpace(), lambda t, args: (jnp.zeros(3), jnp.array([1.0, 0, 0, 0])))
    with pytest.raises(ValueError, match="obstacle 0 moves"):
        world = rb.World([ball], [table], contact_law=law)
        rb.simulate(world, start, METHODS["located"], 0.1)
    with pytest.raises(ValueError, match=r"Coulomb.rolling_friction must be 0 or more"):
        rb.Coulomb(0.5, rolling_friction=-0.1)


@pytest.mark.long
def test_laws_of_pairs_may_have_resistance_that_others_have_not():
    """The contacts of that pair alone get it."""
    pair = rb.PairLaw(rb.Coulomb(0.5, 0.0, spinning_friction=0.002), 0, obstacle=0)
    balls = [rb.RigidBody(rb.Sphere(R))] * 2
    world = rb.World(balls, [rb.HalfSpace()], contact_law=rb.Coulomb(0.5, 0.0), pair_laws=[pair])
    row = lambda *x: jnp.array([x, x], float)  # noqa: E731
    start = rb.State(row(0, 0, R).at[1, 0].set(1.0), row(1, 0, 0, 0), row(0, 0, 0), row(0, 0, 9))
    sol = rb.simulate(world, start, METHODS["stepped"], 0.1)
    slowed = 9 - 0.002 * G / (0.4 * R**2) * 0.1
    np.testing.assert_allclose(sol.final.angular_velocity[:, 2], [slowed, 9.0], atol=1e-12)
