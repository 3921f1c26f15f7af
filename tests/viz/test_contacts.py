"""The plot of contact forces: of forces that are given, what is drawn."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.simulate import ContactForces

mpl.use("Agg")

N = 11  # times saved, at every tenth of a second
BALL = rb.RigidBody(rb.Sphere(0.1))
WORLD = rb.World([BALL] * 3, [rb.HalfSpace(), rb.HalfSpace((1.0, 0.0, 0.0), -1.0)])


@pytest.fixture(scope="module")
def flight():
    """Three balls that touch nothing."""
    zero = jnp.zeros((3, 3))
    high = zero.at[:, 2].set(9.0).at[:, 0].set(jnp.arange(3.0))
    start = rb.State(high, jnp.tile(jnp.eye(1, 4), (3, 1)), zero, zero)
    method = rb.LGVCI(0.1, on_zeno="stop")
    return rb.simulate(WORLD, start, method, 1.0, save=rb.SaveAt(every=1))


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def with_contacts(flight, force, mode, partners):
    """The flight with forces along axes of which the first tangent of each second contact is
    turned around."""
    axes = np.tile(np.eye(3)[[2, 0, 1]], (N, len(partners), 1, 1))
    axes[:, 1::2, 1] *= -1
    none = jnp.zeros((N, len(partners)))
    contacts = ContactForces(
        jnp.asarray(force, float),
        none,
        jnp.asarray(mode),
        jnp.zeros((N, len(partners), 3)),
        jnp.asarray(axes),
        jnp.ones(N, bool),
        jnp.zeros(N),
        partners,
    )
    return dataclasses.replace(flight, contacts=contacts)


def two_pairs(flight):
    """Body 0 on the plane in two points, body 1 against body 2 in one, later."""
    force, mode = np.zeros((N, 4, 3)), np.zeros((N, 4), int)
    force[:, 0], force[:, 1] = (3.0, 1.0, 0.0), (5.0, -1.0, 4.0)
    mode[:, 0] = 1
    mode[:4, 1], mode[4:, 1] = 2, 1
    force[6:, 2], mode[6:, 2] = (2.0, 0.0, 0.5), 2
    return with_contacts(flight, force, mode, ((0, 0), (0, 0), (1, 4), (2, 1)))


def curves(ax):
    return [line.get_ydata() for line in ax.get_lines() if len(line.get_xdata()) == N]


def bands(ax):
    """By opacity and colour of the bands, the times that they cover."""
    found = {}
    for band in ax.collections:
        spans = [(p.vertices[:, 0].min(), p.vertices[:, 0].max()) for p in band.get_paths()]
        if spans:
            key = mpl.colors.to_hex(band.get_facecolor()[0]), band.get_alpha() == 1.0
            found[key] = sum(end - start for start, end in spans)
    return found


@pytest.mark.slow
def test_forces_are_summed_over_the_points_of_a_pair(flight):
    normal, friction, later, rubs = curves(rb.viz.plot_contact_forces(WORLD, two_pairs(flight)))
    np.testing.assert_allclose(normal, 8.0)
    # (1, 0) and, its first tangent turned around, (1, 4).
    np.testing.assert_allclose(friction, np.hypot(2.0, 4.0))
    np.testing.assert_allclose(later, np.where(np.arange(N) >= 6, 2.0, 0.0))
    np.testing.assert_allclose(rubs, later / 4)


@pytest.mark.slow
def test_bands_say_what_sticks_and_slides(flight):
    ax = rb.viz.plot_contact_forces(WORLD, two_pairs(flight))
    shown = {key: round(length, 9) for key, length in bands(ax).items()}
    blue, orange = "#0072b2", "#d55e00"
    assert shown == {(blue, False): 0.4, (blue, True): 0.6, (orange, False): 0.4}
    assert [text.get_text() for text in ax.texts] == ["body 0, obstacle 0", "bodies 1, 2"]
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["normal", "friction", "sticks", "slides"]
    assert min(ax.get_yticks()) >= 0 > ax.get_ylim()[0]


def test_of_many_pairs_the_largest_are_drawn(flight):
    """In the order of their contacts; forces that were not found leave gaps."""
    partners = (*((k, 0) for k in range(3)), *((k, 1) for k in range(3)), (0, 3), (0, 4))
    force = np.zeros((N, 8, 3))
    force[..., 0] = [5.0, 1.0, 6.0, 7.0, 8.0, 2.0, 9.0, 10.0]
    force[3, 4] = np.nan
    ax = rb.viz.plot_contact_forces(
        WORLD, with_contacts(flight, force, np.ones((N, 8), int), partners)
    )
    heights = [curve[0] for curve in curves(ax)[::2]]
    np.testing.assert_allclose(heights, [5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
    assert np.isnan(curves(ax)[6]).sum() == 1


def test_only_times_that_were_reached(flight):
    sol = two_pairs(flight)
    ended = eqx.tree_at(lambda s: s.stats.time, sol, jnp.asarray(0.55))
    ax = rb.viz.plot_contact_forces(WORLD, ended)
    assert max(len(line.get_xdata()) for line in ax.get_lines()) == 6
    assert ax.get_xlim() == pytest.approx((0.0, 0.5))


def test_nothing_that_touches_and_given_axes(flight):
    still = with_contacts(flight, np.zeros((N, 1, 3)), np.zeros((N, 1), int), ((0, 0),))
    figures = plt.get_fignums()
    _, ax = rb.viz.new_figure()
    assert rb.viz.plot_contact_forces(WORLD, still, ax=ax) is ax
    assert not curves(ax) and plt.get_fignums() == figures


def test_refused(flight):
    with pytest.raises(ValueError, match=r"no forces of contacts: .*contacts=True"):
        rb.viz.plot_contact_forces(WORLD, flight)
    batch = jax.tree.map(lambda leaf: leaf[None], two_pairs(flight))
    with pytest.raises(ValueError, match=r"sol is of a batch"):
        rb.viz.plot_contact_forces(WORLD, batch)
