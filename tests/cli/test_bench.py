"""The benchmarks, at tiny sizes: they run, and report positive numbers."""

import re
import sys

import numpy as np
import pytest
from helpers import before_releases

from jaxrb import bench
from jaxrb.__main__ import main
from jaxrb.bench import bodies, compilation, contact, flights, flows, gradient, impact
from jaxrb.bench.timing import Quantiles, round_robin

NUMBER = r"[\d.e+-]+"
SPREAD = rf"({NUMBER}) \(({NUMBER}) \.\. ({NUMBER})\)"
TINY = ["--batches", "2", "--rounds", "1", "--dtype", "float64"]


def rows(text, name, pattern):
    """The numbers in the line that begins with a batch size and a name."""
    line = next(line for line in text.splitlines() if re.match(rf" *\d+  {re.escape(name)}", line))
    return [float(word) for word in re.search(pattern + "$", line).groups()]


def test_lists_the_benchmarks(capsys):
    assert main(["bench"]) == 0
    text = capsys.readouterr().out
    for name in bench.BENCHMARKS:
        assert name in text


@pytest.mark.slow
def test_throughput(capsys):
    assert main(["bench", "throughput", *TINY]) == 0
    text = capsys.readouterr().out
    for name in ("jit(vmap(simulate))", "simulate_batch", "MuJoCo C", "mujoco.rollout"):
        assert min(rows(text, name, rf"({NUMBER})   {SPREAD}")) > 0
    impacts, turns = re.search(
        rf"impacts per world ({NUMBER}), loop turns per step ({NUMBER})", text
    ).groups()
    assert 4 <= float(impacts) <= 8
    assert 1 < float(turns) < 1.2
    assert "soft contact" in text


def test_throughput_without_other_engines(capsys, monkeypatch):
    monkeypatch.setattr("jaxrb.bench.peers._installed", lambda module: False)
    assert main(["bench", "throughput", *TINY]) == 0
    text = capsys.readouterr().out
    assert rows(text, "simulate_batch", rf"({NUMBER})   -")[0] > 0
    assert "mujoco is not installed" in text


@pytest.mark.slow
@pytest.mark.parametrize("law", ["without friction", *before_releases("friction 0.3")])
def test_gradient(law, capsys, monkeypatch):
    monkeypatch.setattr(gradient, "LAWS", {law: gradient.LAWS[law]})
    assert main(["bench", "gradient", *TINY, "--rounds", "3"]) == 0
    text = capsys.readouterr().out
    cost = {}
    for name in ("forward run", "reverse mode, grad", "forward mode, jvp"):
        numbers = rows(text, name, rf"({NUMBER})   {SPREAD}")
        assert min(numbers) > 0
        cost[name] = numbers[2]  # the least ratio of the rounds, which other programs disturb
    # About 7 and 4 forward runs, with friction or without.
    assert cost["reverse mode, grad"] < 20
    assert cost["forward mode, jvp"] < 12


def test_bodies(capsys, monkeypatch):
    monkeypatch.setattr(bodies, "BODIES", (2,))
    monkeypatch.setattr(bodies, "FRICTION", (0.0,))
    monkeypatch.setattr(bodies, "N_STEPS", 50)
    assert main(["bench", "bodies", *TINY]) == 0
    text = capsys.readouterr().out
    (ours,) = re.findall(rf"2 +2  jaxrb, jit\(vmap\) +({NUMBER})   {SPREAD}", text)
    (other,) = re.findall(rf"2 +1  MuJoCo +({NUMBER})   {SPREAD}", text)
    assert min(map(float, ours + other)) > 0
    assert re.search(r"\d+ impacts a world", text)


def contact_rows(text):
    """Rate, ratio and penetration of each contender, and which worlds failed."""
    pattern = rf"^ +\d+  (\S.*?)  +({NUMBER})   ({NUMBER}) \(.*?\) +({NUMBER}) +(.*)$"
    found = re.findall(pattern, text, re.MULTILINE)
    return {name: (*map(float, numbers), failed) for name, *numbers, failed in found}


@pytest.mark.long
def test_contact(capsys, monkeypatch):
    """At rest ours do not sink; MuJoCo's do."""
    scene = contact.SCENES["a box at rest"]._replace(steps=20, every=10)
    monkeypatch.setattr(contact, "SCENES", {"a box at rest": scene})
    assert main(["bench", "contact", *TINY]) == 0
    found = contact_rows(capsys.readouterr().out)
    assert set(found) == {*contact.METHODS, contact.REFERENCE}
    for name, (rate, ratio, depth, failed) in found.items():
        assert rate > 0 and ratio > 0
        ours = name in contact.METHODS
        assert (failed, depth < 1e-12) == (("0", True) if ours else ("-", False))


@pytest.mark.slow
def test_contact_without_mujoco_tells_of_worlds_that_fail(capsys, monkeypatch):
    """A box at 1000 m/s ends an interval deeper in the floor than one may begin."""
    scene = contact.Scene(1, 1e3, 10, 20, 2, ("MoreauJean, stepped",))
    monkeypatch.setattr(contact, "SCENES", {"thrown": scene})
    monkeypatch.setitem(sys.modules, "mujoco", None)
    assert main(["bench", "contact", *TINY]) == 0
    text = capsys.readouterr().out
    assert "mujoco is not installed" in text
    assert re.search(r"MoreauJean, stepped.* [12] of 2 \(.*initial_penetration", text)


@pytest.mark.long
def test_flights(capsys, monkeypatch):
    monkeypatch.setattr(flights, "DURATION", 3.0)
    assert main(["bench", "flights", *TINY]) == 0
    text = capsys.readouterr().out
    for name in flights.METHODS:
        pattern = rf"({NUMBER}) +({NUMBER})   {SPREAD} +({NUMBER}), (\d+)"
        assert min(rows(text, name, pattern)) > 0


@pytest.mark.slow
def test_impact(capsys, monkeypatch):
    monkeypatch.setattr(impact, "LANES", 2)
    assert main(["bench", "impact", *TINY]) == 0
    text = capsys.readouterr().out
    assert float(re.search(rf"{SPREAD} times frictionless", text)[1]) > 0
    coarse, fine = (
        rows(text, f"Euler, {n} steps", rf"({NUMBER})   {SPREAD} +({NUMBER})") for n in (100, 1000)
    )
    assert min(rows(text, "jit(vmap(solve_impact))", rf"({NUMBER})   {SPREAD} +-")) > 0
    batch = rows(text, "solve_impact_batch", rf"({NUMBER})   {SPREAD} +({NUMBER})")
    assert min(batch[:-1]) > 0
    assert batch[-1] < 1e-12
    # Of first order: ten times the steps, about a tenth of the error.
    assert 0.02 < fine[-1] / coarse[-1] < 0.5
    assert coarse[-1] < 0.1


def test_flows(capsys, monkeypatch):
    monkeypatch.setattr(flows, "FLOWS", flows.FLOWS[:2])
    assert main(["bench", "flows", *TINY]) == 0
    text = capsys.readouterr().out
    for name in ("LieVariational", "ExactFlight"):
        assert min(rows(text, name, rf"({NUMBER})   {SPREAD}")) > 0


@pytest.mark.slow
def test_compile(capsys, monkeypatch):
    monkeypatch.setattr(compilation, "PROGRAMS", ("forward run",))
    assert main(["bench", "compile", *TINY]) == 0
    text = capsys.readouterr().out
    cold = rows(text, "forward run          cold", rf"{SPREAD} +{SPREAD}")
    warm = rows(text, "forward run          warm", rf"{SPREAD} +{SPREAD}")
    assert min(cold + warm) > 0
    assert warm[3] < cold[3]


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
