"""The benchmarks, at tiny sizes: they run, and report positive numbers."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import before_releases

from jaxrb import bench
from jaxrb.__main__ import main
from jaxrb.bench import (
    bodies,
    compilation,
    contact,
    files,
    flights,
    flows,
    gradient,
    impact,
    memory,
    page,
    parts,
    peers,
    throws,
)
from jaxrb.bench.timing import Quantiles, fastest_of, round_robin

TINY = ["--batches", "2", "--rounds", "1", "--dtype", "float64"]
DOCS = Path(__file__).parents[2] / "docs"


def content_of(path):
    """Of a file, in which all numbers are finite."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


@pytest.fixture
def measured(tmp_path, capsys):
    """Runs a benchmark; its rows by contender, in lists, and what it printed, all of which is in
    the rows."""

    def run(name, *options):
        path = tmp_path / "found.json"
        assert main(["bench", name, *TINY, *options, "--json", str(path)]) == 0
        text = capsys.readouterr().out
        content = content_of(path)
        lines = [line.split() for line in text.splitlines()]
        found = {}
        for row in content["rows"]:
            assert (row["dtype"], row["scene"] in text) == ("float64", True)
            columns = bench.benchmark(name).TABLE.every()
            assert [word for c in columns for word in c.text(row).split()] in lines
            assert all(key in row for column in columns for key in column.entries())
            found.setdefault(row["contender"], []).append(row)
        assert all(note in text for note in content["notes"])
        return found, text

    return run


def spread(row, key="ratio"):
    return [row[name] for name in Quantiles.keys(key)]


def test_lists_the_benchmarks(capsys):
    assert main(["bench"]) == 0
    text = capsys.readouterr().out
    for name in bench.BENCHMARKS:
        assert name in text


@pytest.mark.slow
def test_throughput(measured):
    found, text = measured("throughput")
    ours = {"jit(vmap(simulate))", "simulate_batch"}  # and as a kernel, with a C compiler
    assert {*ours, peers.REFERENCE, "mujoco.rollout, all cores"} <= set(found)
    for name, (row,) in found.items():
        assert min(row["rate"], *spread(row)) > 0
        if name in {*ours, "simulate_batch, kernel"}:
            assert 4 <= row["impacts"] <= 8
            assert 1 < row["turns"] < 1.2
            assert row["failed"] == 0
        else:
            assert row["loses_to"] is None and row["impacts"] is None
    assert "soft contact" in text


@pytest.mark.slow
def test_throughput_without_other_engines(measured, monkeypatch):
    monkeypatch.setattr(peers, "_installed", lambda module: False)
    found, text = measured("throughput")
    (row,) = found["simulate_batch"]
    assert row["rate"] > 0
    assert spread(row) == [None] * 3
    assert "mujoco is not installed" in text


@pytest.mark.slow
@pytest.mark.parametrize("law", ["without friction", *before_releases("friction 0.3")])
def test_gradient(law, measured):
    found, _ = measured("gradient", "--rounds", "3", "--scenes", law)
    cost = {}
    for name, (row,) in found.items():
        assert row["scene"] == law
        assert min(row["rate"], *spread(row)) > 0
        cost[name] = row["ratio_least"]  # which other programs disturb least
    # About 7 and 4 forward runs, with friction or without.
    assert cost["reverse mode, grad"] < 20
    assert cost["forward mode, jvp"] < 12
    assert cost[gradient.FORWARD] == 1


def test_bodies(measured, monkeypatch):
    monkeypatch.setattr(bodies, "N_STEPS", 50)
    found, _ = measured("bodies", "--scenes", "2 balls without")
    assert set(found) == {bodies.OURS, peers.REFERENCE}
    for name, (row,) in found.items():
        assert row["batch"] == (2 if name == bodies.OURS else 1)
        assert min(row["rate"], *spread(row)) > 0
        # The peer is beaten, or is named.
        assert (row["loses_to"] is None) == (row["ratio"] >= 1)
    assert found[bodies.OURS][0]["impacts"] > 0


@pytest.mark.long
def test_contact(measured, monkeypatch):
    """At rest ours do not sink; MuJoCo's do."""
    scene = contact.Scene(1, 0.0, 10, 20, 2, tuple(contact.METHODS))
    monkeypatch.setattr(contact, "SCENES", contact.named(scene))
    found, _ = measured("contact")
    assert set(found) == {*contact.METHODS, contact.REFERENCE}
    for name, (row,) in found.items():
        assert min(row["rate"], *spread(row)) > 0
        ours = name in contact.METHODS
        assert (row["failed"], row["deepest"] < 1e-12) == ((0, True) if ours else (None, False))
        assert row["residual"] <= 1e-9 if ours else row["residual"] is None


@pytest.mark.slow
def test_contact_without_mujoco_tells_of_worlds_that_fail(measured, monkeypatch):
    """A box at 1000 m/s ends an interval deeper in the floor than one may begin."""
    scene = contact.Scene(1, 1e3, 10, 20, 2, ("MoreauJean, stepped",))
    monkeypatch.setattr(contact, "SCENES", contact.named(scene))
    monkeypatch.setitem(sys.modules, "mujoco", None)
    found, text = measured("contact")
    assert "mujoco is not installed" in text
    ((row,),) = found.values()
    assert row["failed"] in (1, 2) and "initial_penetration" in row["why"]
    assert row["loses_to"] is None


@pytest.mark.long
def test_flights(measured, monkeypatch):
    monkeypatch.setattr(flights, "DURATION", 3.0)
    found, _ = measured("flights")
    assert set(found) == set(flights.METHODS)
    for rows in found.values():
        for row in rows:
            assert min(row["rate"], row["impacts"], *spread(row), row["evaluations"]) > 0
            assert row["most_evaluations"] >= row["evaluations"]
            assert row["failed"] == 0


@pytest.mark.long
def test_throws(measured, monkeypatch):
    monkeypatch.setattr(throws, "N_GOALS", 2)
    found, _ = measured("throws", "--batches", "32", "--scenes", "any")
    assert set(found) == {"1", "2", throws.ALL}
    for (row,) in found.values():
        assert row["miss"] < 1e-8 and row["seconds"] > 0 and row["rounds"] >= 1
    assert found[throws.ALL][0]["solved"] == 2


@pytest.mark.slow
def test_impact(measured, monkeypatch):
    monkeypatch.setattr(impact, "LANES", 2)
    found, _ = measured("impact")
    for rows in found.values():
        assert min(rows[0]["us"], *spread(rows[0])) > 0
    assert min(found[name][0]["impacts"] for name in ("without friction", "mu = 0.3")) > 1
    coarse, fine = (found[f"Euler, {n} steps"][0]["error"] for n in (100, 1000))
    assert found[impact.OURS][0]["error"] is None
    assert found["solve_impact_batch"][0]["error"] < 1e-12
    # Of first order: ten times the steps, about a tenth of the error.
    assert 0.02 < fine / coarse < 0.5
    assert coarse < 0.1


def test_flows(measured, monkeypatch):
    monkeypatch.setattr(flows, "FLOWS", flows.FLOWS[:2])
    found, _ = measured("flows")
    assert set(found) == {"LieVariational", "ExactFlight"}
    for (row,) in found.values():
        assert min(row["rate"], *spread(row)) > 0


@pytest.mark.slow
def test_compile(measured, monkeypatch):
    monkeypatch.setattr(compilation, "PROGRAMS", ("forward run",))
    found, _ = measured("compile", "--scenes", "without friction")
    cold, warm = found["forward run"]
    assert (cold["cache"], warm["cache"]) == ("cold", "warm")
    assert min(spread(cold, "trace") + spread(warm, "compile")) > 0
    assert warm["compile"] < cold["compile"]


@pytest.mark.slow
def test_memory(measured, monkeypatch):
    """The bar is that of the tests of `simulate`; one that nothing meets is told as missed.

    It is for a world of many, here of as many as the benchmark takes by itself: some 8 kB of a
    program, most of it tables of where its arrays are, do not grow with them. Nothing is run.
    """
    batches = ("--batches", *map(str, memory.BATCHES))
    names = ("forward run", "every 10th step saved")
    programs = {name: memory.PROGRAMS[name] for name in names}
    programs[names[0]] = programs[names[0]]._replace(goal=0.01)
    monkeypatch.setattr(memory, "PROGRAMS", programs)
    found, _ = measured("memory", *batches)
    (plain,), (saved,) = (found[name] for name in names)
    assert 0 < saved["ratio"] <= saved["goal"] == 1.3 and saved["loses_to"] is None
    assert saved["ratio"] == saved["temporaries"] / saved["results"]
    assert plain["ratio"] > 0.01 and plain["loses_to"] == "the goal"
    # A hundred states of thirteen numbers more than the last one.
    assert saved["results"] - plain["results"] >= 100 * 13 * 8


@pytest.mark.slow
def test_parts(measured):
    found, _ = measured("parts", "--batches", "6", "--scenes", "final")
    row = {name: only for name, (only,) in found.items()}
    assert row[parts.MEMORY]["ratio"] == 1
    for name in (parts.MEMORY, parts.FILES, parts.RESUMED, parts.OPENED, parts.READ):
        assert min(row[name]["seconds"], *spread(row[name])) > 0
    for name in (parts.FILES, parts.READ):
        rate = row[name]["bytes_per_second"] * row[name]["seconds"]
        assert rate == pytest.approx(row[name]["bytes"], rel=1e-12)
    # Of four files two hold two worlds, and two one or two.
    assert 2 * row[parts.READ]["bytes"] < row[parts.FILES]["bytes"]
    # Nothing is computed again.
    assert row[parts.RESUMED]["seconds"] < row[parts.FILES]["seconds"]


@pytest.mark.slow
def test_one_file_for_both_precisions(tmp_path):
    """Each is measured in a process of its own."""
    path = tmp_path / "both.json"
    options = ["--batches", "2", "--rounds", "1", "--note", "a note", "--scenes", "2 balls without"]
    assert main(["bench", "bodies", *options, "--json", str(path)]) == 0
    content = content_of(path)
    assert list(dict.fromkeys(row["dtype"] for row in content["rows"])) == ["float32", "float64"]
    assert content["benchmark"] == "bodies" and content["note"] == "a note"
    assert content["rounds"] == 1
    assert {"jaxrb", "jax", "jaxlib", "numpy", "python"} <= set(content["versions"])
    assert {"platform", "cpu", "cpus", "device", "devices"} <= set(content["machine"])
    assert len(content["notes"]) == len(set(content["notes"]))


def test_numbers_in_files_are_finite(tmp_path):
    path = tmp_path / "rows.json"
    row = {"a": np.float32(0.5), "b": float("nan"), "c": np.inf, "d": np.int64(2), "e": "nan"}
    files.write(path, {"benchmark": "none", "rows": [row, row]})
    content = content_of(path)
    assert content["rows"] == [{"a": 0.5, "b": None, "c": None, "d": 2, "e": "nan"}] * 2
    assert content["benchmark"] == "none"


@pytest.mark.parametrize("place", ["nowhere/found.json", "."])
@pytest.mark.parametrize("name", ["stacks", "gradients"])
def test_refuses_a_file_that_cannot_be_written(place, name, tmp_path, capsys):
    """Before it measures anything: these take an hour."""
    with pytest.raises(SystemExit) as stop:
        main(["bench", name, "--json", str(tmp_path / place)])
    assert stop.value.code == 2
    assert "--json: cannot write" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["contact", "flows"])
def test_refuses_unknown_scenes(name, capsys):
    assert main(["bench", name, "--scenes", "teapot"]) == 2
    told = capsys.readouterr().err
    assert all(scene in told for scene in bench.benchmark(name).SCENES)


def test_the_page_is_what_the_files_say():
    made = page.page((DOCS / "measured").glob("*.json"))
    assert (DOCS / "pages/measured.md").read_text() == made


def test_the_page_shows_what_jaxrb_loses(tmp_path):
    """In bold, and a file of each benchmark with a table of its own kind."""
    path = tmp_path / "bodies.json"
    content = files.header("bodies", "balls", 1, "a busy machine")
    row = {"scene": "2 balls", "dtype": "float64", "batch": 1, "rate": 1.5e6}
    ratios = dict(zip(Quantiles.keys("ratio"), (0.5, 0.4, 0.6), strict=True))
    content["rows"] = [
        {**row, "contender": bodies.OURS, **ratios, "loses_to": peers.REFERENCE},
        {**row, "contender": peers.REFERENCE, **ratios},
    ]
    files.write(path, content)
    text = page.page([path])
    assert text.count("**0.5 (0.4 .. 0.6)**") == 1
    assert text.count("| 0.5 (0.4 .. 0.6) |") == 1
    assert "a busy machine" in text and "impacts a world" not in text


@pytest.mark.parametrize("option", ["--batches=0", "--batches=1,x", "--rounds=0"])
def test_refuses_impossible_sizes(option, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["bench", "gradient", option])
    assert stop.value.code == 2
    assert "positive whole numbers" in capsys.readouterr().err


def test_contenders_take_turns():
    calls = []
    contenders = {name: (lambda name=name: calls.append(name)) for name in "ab"}
    seconds = round_robin(contenders, 3)
    assert all(taken.shape == (3,) and np.all(taken > 0) for taken in seconds.values())
    changes = [name for name, before in zip(calls[1:], calls, strict=False) if name != before]
    assert changes[-5:] == list("babab")


def test_spread():
    assert str(Quantiles.of(np.array([3.0, 1.0, 2.0]))) == "2 (1 .. 3)"


def test_the_fastest_peer():
    """By the median of the ratios in each round, not of the rates."""
    rate = np.array([1.0, 10.0, 100.0])
    slow, fast, faster = rate * 0.5, rate * 1.5, rate * np.array([0.1, 2.0, 3.0])
    assert fastest_of({"slow": slow}, rate) is None and fastest_of({}, rate) is None
    assert fastest_of({"slow": slow, "fast": fast, "faster": faster}, rate) == "faster"
