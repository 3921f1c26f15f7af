"""Part files of several devices and processes, of which some are killed."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from bouncing import METHOD, T1, WORLD, drops, heights
from helpers import contents, on_devices, on_hosts

from jaxrb.io import simulate_parts

N, PART = 10, 4


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Of one process with one device."""
    directory = tmp_path_factory.mktemp("parts") / "run"
    return simulate_parts(WORLD, drops(heights(N)), METHOD, T1, directory, part=PART)


@pytest.mark.slow
def test_devices_do_not_change_a_bit(tmp_path, run):
    """One, two or four of them, nor that they are made of one CPU."""
    program = f"""
        from bouncing import METHOD, T1, WORLD, drops, heights
        from jaxrb.io import simulate_parts
        assert len(jax.devices()) == 4
        for n in (1, 2, 4):
            directory = {str(tmp_path)!r} + f"/{{n}}"
            states = drops(heights({N}))
            used = None if n == 4 else jax.devices()[:n]
            simulate_parts(WORLD, states, METHOD, T1, directory, part={PART}, devices=used)
    """
    on_devices(4, program)
    for n in (1, 2, 4):
        assert contents(tmp_path / str(n)) == contents(run.directory)


@pytest.mark.slow
def test_two_processes_of_one_run(tmp_path, run):
    """By `jax.distributed` each knows its share; the files are those of one process."""
    program = f"""
        from bouncing import METHOD, T1, WORLD, drops, heights
        from jaxrb.io import simulate_parts
        states = drops(heights({N}))
        found = simulate_parts(WORLD, states, METHOD, T1, {str(tmp_path)!r}, part={PART})
        mine = range(rank, 3, 2)
        print([k for k in mine if found.path(k).exists()])
    """
    assert on_hosts(2, program) == [["[0, 2]"], ["[1]"]]
    assert contents(tmp_path) == contents(run.directory)


# Writes down which parts it computes, by the worlds whose states it is asked for.
WORKER = """
import os, sys
sys.path.insert(0, "tests")
import jax
jax.config.update("jax_enable_x64", True)
from bouncing import METHOD, T1, WORLD, drops, heights
from jaxrb.io import simulate_parts
directory, n_parts = sys.argv[1], int(sys.argv[3])
log = os.open(sys.argv[2], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
def states(worlds):
    if len(worlds) == 2:
        os.write(log, b"%d\\n" % (worlds[0] // 2))
    return drops(heights(2 * n_parts)[worlds])
simulate_parts(WORLD, states, METHOD, T1, directory, n_worlds=2 * n_parts, part=2)
"""


def worker(tmp_path, directory, n_parts):
    """A process at work, with programs that it need not compile again."""
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PLATFORMS": "cpu",
    }
    arguments = [str(tmp_path / directory), str(tmp_path / f"{directory}.log"), str(n_parts)]
    command = [sys.executable, "-c", WORKER, *arguments]
    # Into a file: XLA writes more about its cache than a pipe that nobody reads can hold.
    with (tmp_path / "errors").open("a") as errors:
        return subprocess.Popen(command, env={**os.environ, **cache}, stderr=errors)


def ends(process, tmp_path):
    process.wait(timeout=300)
    assert process.returncode == 0, (tmp_path / "errors").read_text()[-2000:]


def n_written(directory):
    return len(list(directory.glob("part-*.jaxrb"))) if directory.exists() else 0


@pytest.mark.slow
def test_killed_ten_times(tmp_path):
    """At random moments of its work: after the last restart all is there, as if nothing had been,
    and no more than the part in flight was computed again."""
    n_parts, n_kills, random = 500, 10, np.random.default_rng(0)
    directory = tmp_path / "killed"
    for _ in range(n_kills):
        process, before = worker(tmp_path, "killed", n_parts), n_written(directory)
        while n_written(directory) == before and process.poll() is None:
            time.sleep(0.005)
        time.sleep(random.uniform(0, 0.1))
        process.kill()
        process.wait()
        assert process.returncode == -signal.SIGKILL  # it was not done yet
    assert n_kills <= n_written(directory) < n_parts
    ends(worker(tmp_path, "killed", n_parts), tmp_path)
    ends(worker(tmp_path, "whole", n_parts), tmp_path)
    assert contents(directory) == contents(tmp_path / "whole")
    assert len(contents(directory)) == n_parts + 1
    counts = np.bincount([int(line) for line in (tmp_path / "killed.log").read_text().split()])
    assert len(counts) == n_parts and counts.min() == 1
    assert counts.sum() <= n_parts + n_kills


@pytest.mark.long
def test_two_processes_at_the_same_share(tmp_path):
    """Without knowing of each other. They may do some work twice, but spoil nothing."""
    n_parts = 60
    both = [worker(tmp_path, "both", n_parts) for _ in range(2)]
    for process in both:
        ends(process, tmp_path)
    ends(worker(tmp_path, "alone", n_parts), tmp_path)
    assert contents(tmp_path / "both") == contents(tmp_path / "alone")
    assert re.fullmatch(r"(\d+\n)+", (tmp_path / "both.log").read_text())
