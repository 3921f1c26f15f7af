"""The tables of derivatives: differences, verdicts, closed forms, and the command."""

import csv
import dataclasses
import json
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.__main__ import main
from jaxrb.bench.gradients import check, closed_forms, engines
from jaxrb.bench.gradients.catalogue import FLOWS, LAWS, SHAPES, throw
from jaxrb.bench.gradients.columns import PARAMETERS, blocks, changed
from jaxrb.bench.gradients.counterexamples import flying
from jaxrb.bench.gradients.differences import points, slopes
from jaxrb.bench.gradients.lasting_counterexamples import lasting
from jaxrb.bench.gradients.matrix import chosen, cover, everything, quick
from jaxrb.simulate.saving import Impacts

COMMAND = ["bench", "gradients", "--dtype", "float64"]


def found_slopes(function, scales, usable=lambda p: np.ones(len(p), bool)):
    batch = points(scales)
    values = function(batch) - function(np.zeros_like(batch[:1]))
    return slopes(values, usable(batch), scales, round_off=4 * np.finfo(float).eps)


def test_differences_and_what_they_say_of_their_error():
    """To 1e-10, where the smallest steps alone would lose half of the digits."""
    numbers = np.array([0.3, 2.0])

    def function(steps):
        x, y = (numbers + steps).T
        return np.stack([np.sin(5 * x) * y, np.exp(x * y)], axis=1)

    found = found_slopes(function, np.ones(2))
    x, y = numbers
    expected = np.array(
        [[5 * np.cos(5 * x) * y, np.sin(5 * x)], [y * np.exp(x * y), x * np.exp(x * y)]]
    )
    error = np.abs(found.value - expected)
    assert np.max(error) < 1e-10
    assert np.all(error <= found.error)


def test_differences_leave_out_what_lies_on_another_piece():
    """|x - 2e-4| by steps to both sides of its kink."""
    kink = 2e-4
    function = lambda steps: np.abs(steps - kink)  # noqa: E731
    found = found_slopes(function, np.ones(1), lambda p: p[:, 0] < kink)
    np.testing.assert_allclose(found.value, -1.0, rtol=1e-10)
    assert found.used < 10
    nothing = found_slopes(function, np.ones(1), lambda p: np.zeros(len(p), bool))
    assert np.isnan(nothing.value) and np.isinf(nothing.error)


# One body, two bodies, an obstacle with numbers in its motion.
MARKS = dict.fromkeys(SHAPES, pytest.mark.long)
MARKS.update(dict.fromkeys(("sphere", "sphere+box", "box on moving plane"), ()))
# Shapes within shapes, and one with many numbers; the others have no numbers of another kind.
MARKS.update(dict.fromkeys(("union", "box in a bowl", "polyhedron"), pytest.mark.slow))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [pytest.param(shape, marks=MARKS[shape]) for shape in SHAPES])
def test_every_number_is_a_column(shape):
    """Each has a name of its own, and changes the motion."""
    motion = throw(shape, "Stronge", "LieVariational", 0)
    parts = blocks(motion, None, steps=True)
    labels = [label for block in parts for label in block.labels]
    assert len(set(labels)) == len(labels)
    assert {block.parameter for block in parts} <= set(PARAMETERS)

    def numbers(step):
        real = eqx.filter(changed(motion, parts, step), eqx.is_inexact_array)
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(real)])

    columns = jax.jacfwd(numbers)(jnp.zeros(len(labels)))
    assert np.all(np.any(np.asarray(columns) != 0, axis=0))


def test_throws_are_the_same_each_time_and_others_by_number():
    first, again, other = (throw("box", "Rough", "stepped", n).state for n in (0, 0, 1))
    np.testing.assert_array_equal(first.angular_velocity, again.angular_velocity)
    assert np.all(first.angular_velocity != other.angular_velocity)


def test_what_the_table_covers():
    names = (set(SHAPES), set(LAWS), set(FLOWS))
    for axis, known in enumerate(names):
        assert {scene[axis] for scene in cover()} == known
        assert {scene[axis] for scene in everything()} == known
    assert set(quick()) <= set(everything())
    assert chosen(["box"], None, ["stepped"]) == [("box", "frictionless", "stepped")]


def flight(mistake):
    """A stand-in for `simulate`: straight on, and of the velocity a part of the derivative is
    left out."""

    def simulate(world, state, method, t1, **_):
        v = state.velocity
        v = (1 - mistake) * v + mistake * jax.lax.stop_gradient(v)
        place = state.position + v * t1
        end = rb.State(place, state.quaternion, state.velocity, state.angular_velocity)
        none = Impacts(jnp.zeros((), int), jnp.full(3, jnp.inf), jnp.full((3, 2), -1))
        none = dataclasses.replace(none, position=jnp.zeros((3, 3)))
        return SimpleNamespace(final=end, result=rb.RESULTS.successful, impacts=none)

    return simulate


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [0.0, 1e-4])
def test_verdicts(mistake, monkeypatch):
    """A derivative that is off by 1e-4 of itself is found, and by its name."""
    monkeypatch.setattr(check, "simulate", flight(mistake))
    motion = throw("sphere", "frictionless", "continuous", 0)
    report = check.Checker(motion, FLOWS["continuous"].method(), ["position", "velocity"])(motion)
    verdicts = {entry.label: entry.verdict for entry in report.entries}
    wrong = {label for label, verdict in verdicts.items() if verdict != "right"}
    assert len(verdicts) == 6 and report.events == 0
    assert wrong == ({f"bodies[0].velocity[{k}]" for k in range(3)} if mistake else set())
    for entry in report.entries:
        if entry.label in wrong:
            assert (entry.verdict, entry.quantity) == ("wrong", "place")
            assert entry.error == pytest.approx(mistake, rel=0.01)


def test_modes_that_differ_are_wrong():
    verdict = lambda error, doubt, modes: check._verdict(("place", error, doubt), modes)  # noqa: E731
    assert verdict(0.0, 0.0, 1e-9) == verdict(0.0, 0.0, np.nan) == "wrong"
    assert verdict(1e-4, 1e-4, 0.0) == verdict(np.nan, np.inf, 0.0) == "undecided"
    assert verdict(1e-4, 1e-8, 0.0) == "wrong"


def test_kinks():
    """Of 2 x + |x| the derivative is 3 to one side and 1 to the other; differences find 2."""
    found = found_slopes(lambda x: np.tile(2 * x + np.abs(x) + x**2, 12), np.ones(1))
    np.testing.assert_allclose(found.value, 2.0, rtol=1e-10)
    np.testing.assert_allclose(found.bend, 1.0, rtol=1e-10)
    for derivative, expected in ((3.0, "kink"), (1.0, "kink"), (2.0, "right"), (50.0, "wrong")):
        entry = check._entry("size", "radius", found.column(0), np.full(12, derivative), 0.0)
        assert entry.verdict == expected


def closed_form_lines(examples):
    return [line for _, found in closed_forms.lines(examples) for line in found]


@pytest.mark.long
def test_closed_forms_of_a_ball_over_a_plane():
    """They share one program. In continuous time all is exact but for round-off, some eps for
    each of the operations, of numbers of order one: far within 1e-12."""
    lines = closed_form_lines(flying()[:4])
    assert len({line.example for line in lines}) == 4
    for line in lines:
        assert line.error < 1e-12 and line.modes < 1e-12 and line.right, line
        assert line.differences == pytest.approx(line.closed, rel=1e-7, abs=1e-9)
    bounce = {line.number: line.forward for line in lines if line.example == lines[0].example}
    # Of a ball that falls at 1 m/s for a second; where impacts fall into steps, +1 and -1.
    assert bounce == pytest.approx({"z0": -1.0, "speed": 1.0}, abs=1e-14)
    fall = 1 / np.sqrt(0.7**2 + 2 * 9.81 * 0.9)
    time = {line.number: line.forward for line in lines if line.output == "time"}
    assert time["z0"] == pytest.approx(fall, rel=1e-14)


@pytest.mark.long
def test_closed_forms_of_flights():
    """1e-10: with friction the impact itself is an integral, to 1e-13."""
    for line in closed_form_lines(flying()):
        assert line.right, line


@pytest.mark.long
def test_closed_forms_of_contacts_that_last():
    """Within their bars: round-off where slip does not end; where it does, some steps of 5 ms."""
    for line in closed_form_lines(lasting()):
        assert line.right, line


def test_another_engine(monkeypatch):
    """Of steps into which the impact falls the derivative is far from -1."""
    table = engines.ball_without_gravity(heights=(0.4, 0.5013), steps=(0.01,))
    slopes = [float(word) for word in table.splitlines()[-1].split()[-2:]]
    assert min(abs(slope + 1) for slope in slopes) > 1
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda name: None)
    assert "not installed" in engines.ball_without_gravity()


@pytest.mark.long
def test_the_command(tmp_path, capsys):
    """One scene by a few numbers, at a throw with an impact."""
    files = {kind: tmp_path / f"table.{kind}" for kind in ("csv", "json")}
    options = ["--shapes", "sphere", "--flows", "continuous", "--throws", "1"]
    options += ["--parameters", "position,restitution"]
    options += [word for kind, file in files.items() for word in (f"--{kind}", str(file))]
    assert main([*COMMAND, *options]) == 0
    text = capsys.readouterr().out
    assert "sphere; frictionless; continuous" in text and "4/4" in text
    with files["csv"].open() as file:
        rows = list(csv.DictReader(file))
    assert [row["parameter"] for row in rows] == ["position"] * 3 + ["restitution"]
    for row in rows:
        assert int(row["impacts"]) >= 1 and row["verdict"] == "right"
        assert float(row["error"]) < check.BAR and float(row["modes"]) < check.MODES_BAR
    assert len(json.loads(files["json"].read_text())["rows"]) == 4


def test_what_is_refused_is_a_row(capsys, monkeypatch):
    """The table goes on after a scene that the library refuses or ends early."""

    def refuse(*_, **__):
        raise ValueError("no such gap")

    monkeypatch.setattr(check, "simulate", refuse)
    options = ["--shapes", "sphere,box", "--throws", "1"]
    assert main([*COMMAND, *options]) == 0
    assert capsys.readouterr().out.count("ValueError: no such gap") == 2


@pytest.mark.parametrize(
    ("option", "told"),
    [("--shapes=teapot", "ellipsoid"), ("--laws=Stronge,x", "Poisson"), ("--throws=0", "positive")],
)
def test_refuses_unknown_names(option, told, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*COMMAND, option])
    assert stop.value.code == 2
    assert told in capsys.readouterr().err
