"""Pictures of bodies over their obstacles."""

import matplotlib as mpl
import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb

import jaxrb as rb
from jaxrb.viz.figure import body_color
from jaxrb.viz.snapshots import cut

mpl.use("Agg")

BALLS = [rb.RigidBody(rb.Sphere(0.1))] * 3
FLOOR = rb.HalfSpace()
WALLS = [rb.HalfSpace((1.0, 0.0, 0.0), -1.0), rb.HalfSpace((-1.0, 0.0, 0.0), -1.0)]


def states(n_times, shift=0.0):
    """The balls, which move along x from the first time to the next."""
    place = np.tile(np.array([[-0.5, 0.0, 0.2], [0.0, 0.3, 0.2], [0.5, 0.0, 0.2]]), (n_times, 1, 1))
    place[1:, :, 0] += shift
    turn = np.zeros((n_times, 3, 4))
    turn[..., 0] = 1.0
    return rb.State(place, turn, 0 * place, 0 * place)


def hues(ax):
    """The colours of the faces of bodies, whatever light falls on them."""
    face = np.asarray(ax.collections[-1].get_facecolor())[:, :3]
    return np.unique(np.round(face / face.max(axis=1, keepdims=True), 6), axis=0)


def expected(colors):
    rgb = np.array([to_rgb(color) for color in colors])
    return np.unique(np.round(rgb / rgb.max(axis=1, keepdims=True), 6), axis=0)


def test_colours_tell_bodies_apart():
    colors = [body_color(index) for index in range(18)]
    assert len(set(colors)) == 18
    rgb = np.array([to_rgb(color) for color in colors])
    distance = np.linalg.norm(rgb[:, None] - rgb, axis=-1) + np.eye(18)
    assert distance.min() > 0.1
    assert body_color(18) == body_color(0)


def test_one_time_shows_bodies_and_several_show_times():
    world = rb.World(BALLS, [FLOOR])
    ax = rb.viz.plot_snapshots(world, states(1), [0.3])
    np.testing.assert_allclose(hues(ax), expected(body_color(k) for k in range(3)), atol=1e-5)
    assert len(hues(rb.viz.plot_snapshots(world, states(2, 0.05), [0.0, 1.0]))) == 2
    assert len(hues(rb.viz.plot_snapshots(world, states(1), [0.3], span=(0.0, 1.0)))) == 1


def test_what_stays_is_drawn_once():
    """In the colour of the last time, whatever moves it by less than can be seen."""
    world = rb.World(BALLS, [FLOOR])
    last = hues(rb.viz.plot_snapshots(world, states(1), [1.0], span=(0.0, 1.0)))
    ax = rb.viz.plot_snapshots(world, states(3, 1e-6), [0.0, 0.5, 1.0])
    np.testing.assert_allclose(hues(ax), last, atol=1e-5)
    once = rb.viz.plot_snapshots(world, states(1), [1.0])
    assert len(ax.collections[-1].get_paths()) == len(once.collections[-1].get_paths())


def test_cut_polygons():
    square = np.array([[-2.0, -1, 0], [2, -1, 0], [2, 1, 0], [-2, 1, 0]])
    found = cut(square, WALLS)
    np.testing.assert_allclose(
        sorted(map(tuple, found)), sorted(map(tuple, square / np.array([2, 1, 1])))
    )
    assert len(cut(square + np.array([9.0, 0.0, 0.0]), WALLS)) == 0
    segment = cut(np.array([[-3.0, 0, 0], [0.5, 0, 0]]), WALLS)
    np.testing.assert_allclose([segment[:, 0].min(), segment[:, 0].max()], [-1.0, 0.5])


def test_obstacles_end_at_each_other():
    """From above, where x is to the right: the floor reaches from wall to wall and no further."""
    ax = rb.viz.plot_snapshots(
        rb.World(BALLS, [FLOOR, *WALLS]), states(1), [0.3], azimuth=-np.pi / 2, elevation=np.pi / 2
    )
    ground = ax.collections[0]
    assert isinstance(ground, PolyCollection)
    (outline,) = ground.get_paths()
    across = np.asarray(outline.vertices)[:, 0]
    np.testing.assert_allclose([across.min(), across.max()], [-1.0, 1.0], atol=1e-12)
    lines = next(part for part in ax.collections if isinstance(part, LineCollection))
    ends = np.concatenate(lines.get_segments())
    assert np.abs(ends[:, 0]).max() < 1 + 1e-12


def test_solids_at_rest_are_behind_the_bodies():
    """A box as an obstacle adds grey faces; a cavity nothing."""
    box = rb.Placed(rb.Box((0.2, 0.2, 0.2)), (0.0, 1.0, 0.0))
    worlds = [rb.World(BALLS, obstacles) for obstacles in ([FLOOR], [FLOOR, box], [box, FLOOR])]
    worlds.append(rb.World(BALLS, [FLOOR, rb.Complement(rb.Sphere(5.0))]))
    counts = [
        sum(
            isinstance(c, PolyCollection)
            for c in rb.viz.plot_snapshots(w, states(1), [0.3]).collections
        )
        for w in worlds
    ]
    assert counts == [counts[0], counts[0] + 1, counts[0] + 1, counts[0]]
