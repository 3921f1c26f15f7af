"""The example that makes the figures of Tran and Leok, Section 7, and the plots it uses."""

import dataclasses
import re
import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import pytest

import jaxrb as rb
from jaxrb import viz
from jaxrb.cli.cases import CASES

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

NAMES = [
    "figure_6_snapshots",
    "figure_7_energies",
    "figure_8_energy_error",
    "figure_9_heights",
    "figure_10_divergence",
]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """What the example returns, prints and writes after 7 s.

    All cases are ellipsoids here, which share one program, in place of three.
    """
    import tran_leok

    out = tmp_path_factory.mktemp("figures")
    ellipsoid = dict(zip(CASES, [CASES["I"], CASES["II"], CASES["I"], CASES["I"]], strict=True))
    cases = {name: dataclasses.replace(case, name=name) for name, case in ellipsoid.items()}
    with pytest.MonkeyPatch.context() as patch:
        lines = []
        patch.setattr("builtins.print", lambda *words, **_: lines.append(" ".join(words)))
        patch.setattr(tran_leok, "CASES", cases)
        counts = tran_leok.main(out=out, steps=700)
    return counts, lines, out


@pytest.mark.slow
def test_counts_the_impacts_of_all_runs(example):
    counts, lines, _ = example
    for name in CASES:
        np.testing.assert_array_equal(counts[name], np.full(13, 4))
        (row,) = [line for line in lines if re.match(rf"{name} +\d", line)]
        count, paper, mean, std, error, growth = row.split()[1:]
        assert (count, paper, mean, std) == ("4", "-", "4.0", "0.0")
        assert float(error) < 1e-14
        # Three impacts have multiplied 1e-8 m, by some hundred in all.
        assert 2 < float(growth) < 7


@pytest.mark.slow
def test_writes_the_figures(example):
    _, lines, out = example
    for name in NAMES:
        for suffix, start in ((".png", b"\x89PNG"), (".pdf", b"%PDF")):
            path = out / (name + suffix)
            assert path.read_bytes().startswith(start)
            assert f"written  {path}" in lines
    assert len(list(out.iterdir())) == 2 * len(NAMES) + 1
    captions = (out / "captions.txt").read_text()
    assert re.findall(r"^Figure (\d+)\.", captions, re.MULTILINE) == ["6", "7", "8", "9", "10"]
    assert "{" not in captions


SHAPES = {
    "cube": (rb.Rounded(rb.Box((0.5, 1.0, 1.5)), 1e-13), 6.0),
    "sphere": (rb.Sphere(1.0), 4 / 3 * np.pi),
    "cylinder": (rb.Cylinder(1.0, 0.5), np.pi),
    "apart": (
        rb.Union(rb.Box((1.0, 1.0, 1.0)), rb.Placed(rb.Box((0.5, 0.5, 0.5)), (3.0, 0.0, 0.0))),
        9.0,
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_surface_encloses_the_volume(name):
    shape, volume = SHAPES[name]
    a, b, c = np.moveaxis(viz.surface(shape, 2000), 1, 0)
    # The divergence theorem; positive only if all triangles face outwards.
    found = np.sum(a * np.cross(b, c)) / 6
    # A hull of n points on a sphere lacks some 2 pi/(sqrt(3) n) in its radius.
    np.testing.assert_allclose(found, volume, rtol=1e-2 if name in ("sphere", "cylinder") else 1e-9)


def test_surface_of_a_union_leaves_out_what_is_inside():
    union = CASES["III"].build()[0].bodies[0].shape
    corners = viz.surface(union)
    distance = np.asarray(union.signed_distance(corners))
    assert np.abs(distance.max(axis=1)).max() < 1e-9  # a corner of each lies on the surface
    whole = len(viz.surface(union.a)) + len(viz.surface(union.b))
    assert 0.5 * whole < len(corners) < 0.95 * whole


def states(position, quaternion):
    """Bodies at rest, leading axis over the times."""
    position = jnp.asarray(position)[:, None]
    quaternion = jnp.broadcast_to(jnp.asarray(quaternion), (*position.shape[:-1], 4))
    return rb.State(position, quaternion, jnp.zeros_like(position), jnp.zeros_like(position))


def test_pose_distance_is_the_papers():
    axis = np.array([1.0, -2.0, 2.0]) / 3
    for angle in (1e-9, 0.3, 3.0):
        turned = rb.lie.quaternion.exp(angle * axis)
        a = states([[1.0, 2.0, 3.0]], rb.lie.quaternion.exp(np.array([0.3, 0.2, -0.1])))
        b = states(
            [[1.0, 2.0 + 4e-9, 3.0 - 3e-9]], rb.lie.quaternion.multiply(a.quaternion[0, 0], turned)
        )
        matrices = np.asarray(a.rotation_matrix[0, 0] - b.rotation_matrix[0, 0])
        found = viz.pose_distance(b, a)
        assert found.shape == (1, 1)
        np.testing.assert_allclose(found[0, 0], 5e-9 + 2 * np.sin(angle / 2), rtol=1e-6)
        np.testing.assert_allclose(found[0, 0], 5e-9 + np.linalg.norm(matrices, 2), rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_plots_draw_into_the_axes_they_are_given(name):
    import matplotlib.pyplot as plt

    world, _ = CASES[name].build()
    before, open_figures = dict(mpl.rcParams), plt.get_fignums()
    figure, axes = viz.new_figure(2, 2)
    t = np.linspace(0.0, 1.0, 5)
    flight = states(np.stack([3 * t, t, 12 - t], axis=-1), [1.0, 0.0, 0.0, 0.0])
    energies = viz.Energies.of(world, t, flight)
    np.testing.assert_allclose(energies.total, 9.80665 * (12 - t), rtol=1e-14)
    assert np.all(energies.rotational == 0)
    parts = energies.total - energies.rotational, energies.rotational
    drawn = [
        viz.plot_snapshots(world, flight, t, path=flight.position, ax=axes[0, 0]),
        viz.plot_energies(t, *parts, impact_times=[0.5], ax=axes[0, 1]),
        viz.plot_heights(t, {"fall": flight.position[:, 0, 2]}, ax=axes[1, 0]),
        viz.plot_divergence(t, {"a": t + 1e-8, "b": t + 1e-9}, ax=axes[1, 1]),
    ]
    assert all(a is b for a, b in zip(drawn, axes.flat, strict=True))
    viz.add_colorbar(figure, axes.flat, "time [s]")
    figure.canvas.draw()
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == open_figures
