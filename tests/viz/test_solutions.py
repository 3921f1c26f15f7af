"""Plots of a solution: what is drawn, against closed forms."""

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import jaxrb as rb

mpl.use("Agg")

WORLD = rb.World(
    [rb.RigidBody(rb.Sphere(0.5), 2.0)], [rb.HalfSpace()], contact_law=rb.Frictionless(0.8)
)
START = rb.State([[0.0, 0.0, 1.5]], [[1.0, 0, 0, 0]], [[1.0, 0.0, 0.0]], [[0.0, 3.0, 0.0]])
FALL = (2 / 9.81) ** 0.5  # until the first impact, 1 m below
T = np.linspace(0.0, 1.0, 101)
AFTER = T - FALL
HEIGHT = np.where(
    AFTER < 0, 1.5 - 9.81 * T**2 / 2, 0.5 + 0.8 * 9.81 * FALL * AFTER - 9.81 * AFTER**2 / 2
)
RISE = np.where(AFTER < 0, -9.81 * T, 0.8 * 9.81 * FALL - 9.81 * AFTER)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def sol():
    method, save = rb.LGVCI(0.01, on_zeno="stop"), rb.SaveAt(every=1, impacts=8)
    return rb.simulate(WORLD, START, method, 1.0, save=save)


def lines(ax):
    return {line.get_label(): line.get_ydata() for line in ax.get_lines()}


@pytest.mark.slow
def test_energies(sol):
    drawn = lines(rb.viz.plot_energy_parts(WORLD, sol))
    np.testing.assert_allclose(drawn["potential"], 2 * 9.81 * HEIGHT, atol=1e-12)
    np.testing.assert_allclose(drawn["translational"], 1 + RISE**2, atol=1e-12)
    inertia = 0.4 * 2 * 0.5**2
    np.testing.assert_allclose(drawn["rotational"], inertia * 9 / 2, atol=1e-14)
    parts = drawn["potential"] + drawn["translational"] + drawn["rotational"]
    np.testing.assert_allclose(drawn["total"], parts, atol=1e-12)


def test_change_of_an_energy_that_is_conserved():
    """To round-off, relative to its size, in a power of ten that the axis names."""
    energy = -40.0 * (1 + np.array([0.0, 3e-15, -2e-15, 0.0]))
    ax = rb.viz.plot_energy_change([0.0, 1.0, 2.0, 3.0], energy, impact_times=[1.5])
    (drawn,) = [line for line in ax.get_lines() if len(line.get_xdata()) == 4]
    np.testing.assert_allclose(drawn.get_ydata(), [0, -3, 2, 0], atol=0.3)  # units of round-off
    assert ax.get_ylabel() == r"$(E - E_0)/|E_0|$ [$10^{-15}$]"
    assert ax.get_legend() is None
    constant = rb.viz.plot_energy_change([0.0, 1.0], [5.0, 5.0])
    assert constant.get_ylabel() == r"$(E - E_0)/|E_0|$"
    with pytest.raises(ValueError, match="energy must not be 0"):
        rb.viz.plot_energy_change([0.0, 1.0], [0.0, 1.0])


@pytest.mark.slow
def test_gaps_with_the_impact(sol):
    ax = rb.viz.plot_gaps(WORLD, sol)
    np.testing.assert_allclose(lines(ax)["gap"], HEIGHT - 0.5, atol=1e-13)
    marks = [line.get_xdata()[0] for line in ax.get_lines() if line.get_label() == "impact"]
    np.testing.assert_allclose(marks, FALL, rtol=1e-13)


def test_momenta(sol):
    drawn = lines(rb.viz.plot_momentum(WORLD, sol))
    np.testing.assert_allclose(drawn["$p_x$"], 2.0, rtol=1e-14)
    np.testing.assert_allclose(drawn["$p_z$"], 2 * RISE, atol=1e-12)
    drawn = lines(rb.viz.plot_momentum(WORLD, sol, "angular"))
    # z p_x - x p_z, and the spin.
    expected = 2 * HEIGHT - T * 2 * RISE + 0.4 * 2 * 0.5**2 * 3
    np.testing.assert_allclose(drawn["$L_y$"], expected, atol=1e-12)


def test_phase_portrait(sol):
    """The line is cut at the impact, and the jump is drawn between its two velocities."""
    ax = rb.viz.plot_phase_portrait(sol)
    jump, path = ax.get_lines()
    np.testing.assert_allclose(jump.get_xdata(), 0.5, atol=1e-13)
    speed = 9.81 * FALL
    np.testing.assert_allclose(jump.get_ydata(), [-speed, 0.8 * speed], rtol=1e-13)
    z, v = path.get_xdata(), path.get_ydata()
    cut = int(np.flatnonzero(np.isnan(v))[0])
    assert np.isnan(v).sum() == 1
    np.testing.assert_allclose(v[cut - 1], -speed, rtol=1e-13)
    np.testing.assert_allclose(v[cut + 1], 0.8 * speed, rtol=1e-13)
    np.testing.assert_allclose(v[:cut] ** 2 / 2 + 9.81 * z[:cut], 9.81 * 1.5, rtol=1e-13)


@pytest.mark.slow
def test_phase_portrait_of_impacts_at_one_time():
    """Of a ball between two others that strike it one after the other: both jumps are dashed,
    and the line holds no vertical piece."""
    balls = [rb.RigidBody(rb.Sphere(0.1), 1.0)] * 3
    world = rb.World(balls, gravity=(0, 0, 0))
    zero = jnp.zeros((3, 3))
    start = rb.State(
        zero.at[:, 0].set(jnp.array([-0.4, 0.0, 0.2])),
        jnp.tile(jnp.eye(1, 4), (3, 1)),
        zero.at[0, 0].set(1.0),
        zero,
    )
    save = rb.SaveAt(every=1, impacts=8)
    sol = rb.simulate(world, start, rb.LGVCI(0.01, on_zeno="stop"), 0.4, save=save)
    assert int(sol.impacts.count) == 2
    *jumps, path = rb.viz.plot_phase_portrait(sol, body=1, coordinate="x").get_lines()
    heights = np.array([np.ptp(jump.get_ydata()) for jump in jumps])
    np.testing.assert_allclose(heights, 1.0, atol=1e-12)
    np.testing.assert_allclose(np.nan_to_num(np.diff(path.get_ydata())), 0.0, atol=1e-12)


@pytest.mark.slow
def test_many_gaps_become_their_smallest():
    ball = rb.RigidBody(rb.Sphere(0.1))
    world = rb.World([ball] * 3, [rb.HalfSpace(), rb.HalfSpace((0, 0, -1), -9.0)])
    x = jnp.array([0.0, 1.0, 3.0])
    zero = jnp.zeros((3, 3))
    start = rb.State(
        zero.at[:, 0].set(x).at[:, 2].set(2.0), jnp.tile(jnp.eye(1, 4), (3, 1)), zero, zero
    )
    sol = rb.simulate(world, start, rb.LGVCI(0.01, on_zeno="stop"), 0.1, save=rb.SaveAt(every=5))
    drawn = lines(rb.viz.plot_gaps(world, sol))
    np.testing.assert_allclose(drawn["smallest of 9 gaps"], 0.8, rtol=1e-13)


def test_given_axes_and_no_global_state(sol):
    before, figures = dict(mpl.rcParams), plt.get_fignums()
    _, ax = rb.viz.new_figure()
    assert rb.viz.plot_gaps(WORLD, sol, ax=ax) is ax
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == figures


@pytest.mark.slow
def test_refused(sol):
    final = rb.simulate(WORLD, START, rb.LGVCI(0.01, on_zeno="stop"), 0.2)
    with pytest.raises(ValueError, match=r"sol needs states along the way"):
        rb.viz.plot_gaps(WORLD, final)
    batch = jax.tree.map(lambda leaf: leaf[None], sol)
    with pytest.raises(ValueError, match=r"sol is of a batch"):
        rb.viz.plot_energy_parts(WORLD, batch)
    with pytest.raises(ValueError, match=r"kind must be one of linear, angular; got 'spin'"):
        rb.viz.plot_momentum(WORLD, sol, "spin")
    with pytest.raises(ValueError, match=r"body must be an index below 1; got 1"):
        rb.viz.plot_phase_portrait(sol, body=1)
    with pytest.raises(ValueError, match=r"coordinate must be x, y or z"):
        rb.viz.plot_phase_portrait(sol, coordinate="w")
    with pytest.raises(ValueError, match=r"nothing that can touch"):
        rb.viz.plot_gaps(rb.World(WORLD.bodies), sol)
