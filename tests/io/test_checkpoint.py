"""Simulations in segments, killed and resumed."""

import dataclasses
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.io import load, resume, save, simulate_with_checkpoints

METHOD = rb.LGVCI(0.01, on_zeno="stop")
SAVE = rb.SaveAt(every=5, impacts=6)

# Dies in the middle of writing the file after the third segment.
KILLED = """
import os, signal, sys, jax
jax.config.update("jax_enable_x64", True)
import jaxrb as rb
from jaxrb.io import load, simulate_with_checkpoints
world, state = load(sys.argv[1])
written, replace = [], os.replace
def die_at_the_fourth(*paths):
    written.append(paths)
    if len(written) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*paths)
os.replace = die_at_the_fourth
simulate_with_checkpoints(
    world, state, rb.LGVCI(0.01, on_zeno="stop"), 1.6, sys.argv[2], every=0.4,
    save=rb.SaveAt(every=5, impacts=6),
)
"""


@pytest.fixture(scope="module")
def start():
    world = rb.World(
        [rb.RigidBody(rb.Sphere(0.3), 1.0, (0.03, 0.04, 0.05))],
        [rb.HalfSpace()],
        contact_law=rb.Frictionless(0.9),
    )
    state = rb.State(
        jnp.array([[0.0, 0.0, 1.0]]),
        jnp.array([[1.0, 0.0, 0.0, 0.0]]),
        jnp.array([[1.0, 0.0, 0.1]]),
        jnp.array([[1.0, 2.0, 3.0]]),
    )
    return world, state


@pytest.mark.slow
def test_killed_and_resumed(tmp_path, start):
    world, state = start
    begun, killed, whole = (tmp_path / f"{n}.jaxrb" for n in ("begun", "killed", "whole"))
    save(begun, start)
    command = [sys.executable, "-c", KILLED, str(begun), str(killed)]
    assert subprocess.run(command, check=False, timeout=300).returncode == -signal.SIGKILL
    assert load(killed)["segments"] == 2
    resumed = resume(killed)
    expected = simulate_with_checkpoints(world, state, METHOD, 1.6, whole, every=0.4, save=SAVE)
    for a, b in zip(jax.tree.leaves(resumed), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()
    again = resume(whole)  # it is at its end
    np.testing.assert_array_equal(again.final.position, expected.final.position)
    assert {item.name for item in tmp_path.iterdir()} == {p.name for p in (begun, killed, whole)}

    # In segments it is the trajectory of one call, but for round-off.
    single = rb.simulate(world, state, METHOD, 1.6, save=SAVE)
    assert single.impacts.count >= 2 and single.impacts.count == expected.impacts.count
    assert single.stats.steps == expected.stats.steps
    one, other = (
        jax.tree.leaves((run.ts, run.states, run.final, run.impacts, run.stats.energy))
        for run in (single, expected)
    )
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)


@pytest.mark.slow
def test_the_last_segment_is_shorter(tmp_path, start):
    """In free fall."""
    world = rb.World([rb.RigidBody(rb.Sphere(0.5))])
    save_at = rb.SaveAt(every=5)
    path = tmp_path / "fall.jaxrb"
    solution = simulate_with_checkpoints(
        world, start[1], METHOD, 2.25, path, t0=2.0, every=0.1, save=save_at
    )
    np.testing.assert_allclose(solution.ts, 2 + 0.05 * np.arange(6), atol=1e-15)
    t = np.asarray(solution.ts) - 2
    height = 1 + 0.1 * t - 9.81 / 2 * t**2
    np.testing.assert_allclose(solution.states.position[:, 0, 2], height, atol=1e-14)
    assert solution.stats.steps == 25 and solution.impacts.time is None


@pytest.mark.slow
def test_an_end_before_time_is_kept(tmp_path, start):
    """With plastic impacts the body comes to rest, and the simulation ends in the first segment."""
    world = rb.World(
        [rb.RigidBody(rb.Sphere(0.5))], [rb.HalfSpace()], contact_law=rb.Frictionless(0.1)
    )
    path = tmp_path / "rest.jaxrb"
    stops = dataclasses.replace(METHOD, on_zeno="stop")
    with pytest.raises(RuntimeError, match="Zeno"):
        simulate_with_checkpoints(world, start[1], stops, 2.0, path, every=1.0, t0=0.5)
    with pytest.raises(RuntimeError, match="Zeno"):
        resume(path)
    solution = resume(path, throw=False)
    assert bool(solution.result == rb.RESULTS.zeno)
    assert 0.5 < solution.stats.time < 1.5
    assert solution.stats.time < solution.zeno_time[0] < 1.5


def test_errors(tmp_path, start):
    path = tmp_path / "run.jaxrb"

    def run(*arguments, t1=1.0, every=0.4, **options):
        world, state, method = arguments or (*start, METHOD)
        return simulate_with_checkpoints(world, state, method, t1, path, every=every, **options)

    with pytest.raises(ValueError, match="whole number of steps"):
        run(every=0.025)
    with pytest.raises(ValueError, match="every must be positive"):
        run(every=0.0)
    with pytest.raises(ValueError, match="multiple of SaveAt"):
        run(save=rb.SaveAt(every=7))
    with pytest.raises(ValueError, match=r"SaveAt\(ts=\.\.\.\) is not supported"):
        run(save=rb.SaveAt(ts=(0.1,)))
    with pytest.raises(ValueError, match="t1 must not lie before t0"):
        run(t1=-1.0)
    with pytest.raises(ValueError, match="method must be a method"):
        run(*start, "LGVCI")
    assert not path.exists()
    save(path, start)
    with pytest.raises(FileExistsError, match="go on with resume"):
        run()
    with pytest.raises(ValueError, match="not written by simulate_with_checkpoints"):
        resume(path)
    with pytest.raises(FileNotFoundError, match=r"nothing\.jaxrb"):
        resume(tmp_path / "nothing.jaxrb")
