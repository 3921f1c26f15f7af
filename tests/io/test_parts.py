"""Batches in part files: whole, of one run, resumed by what is there, the same whoever computes."""

import errno
import os
import shutil
import subprocess
import sys

import equinox as eqx
import jax
import numpy as np
import pytest
from bouncing import METHOD, T1, WORLD, check_heights, drops, heights
from helpers import contents

import jaxrb as rb
from jaxrb.io import open_parts, paths, simulate_parts
from jaxrb.io.fingerprint import fingerprint
from jaxrb.io.share import share_of

N, PART = 10, 4  # the last of three parts is shorter


def same_bits(a, b):
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(x, y, equal_nan=True) for x, y in leaves)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("parts") / "run"
    return simulate_parts(WORLD, drops(heights(N)), METHOD, T1, directory, part=PART)


@pytest.fixture
def copy(run, tmp_path):
    """Of the directory, to spoil."""
    return shutil.copytree(run.directory, tmp_path / "run")


@pytest.fixture
def computed(monkeypatch):
    """The numbers of worlds of the batches that are computed."""
    sizes = []

    def watched(world, states, *arguments, **options):
        sizes.append(states.position.shape[0])
        return rb.simulate_batch(world, states, *arguments, **options)

    monkeypatch.setattr("jaxrb.io.parts.simulate_batch", watched)
    return sizes


@pytest.mark.slow
def test_parts_are_worlds_of_one_batch(run):
    whole = run.load()
    check_heights(whole.final.position, heights(N))
    batch = rb.simulate_batch(WORLD, drops(heights(N)), METHOD, T1)
    assert jax.tree.structure(whole) == jax.tree.structure(batch)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(batch), strict=True):
        assert isinstance(a, jax.Array) and a.shape == b.shape and a.dtype == b.dtype
        # The programs of 4 and of 10 lanes round differently.
        np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-14)
    # The last part was filled up by its last world.
    last = rb.simulate_batch(WORLD, drops(heights(N)[[8, 9, 9, 9]]), METHOD, T1)
    assert same_bits(run[8:], jax.tree.map(lambda leaf: leaf[:2], last))
    assert sorted(contents(run.directory)) == [
        *(f"part-0000000{k}.jaxrb" for k in range(3)),
        "run.jaxrb",
    ]


def test_worlds_are_found_by_number_and_slice(run):
    found = open_parts(run.directory)
    whole = jax.tree.map(np.asarray, found.load())
    assert found.n_worlds == N and found.missing == ()
    assert found.ranges == (range(0, 4), range(4, 8), range(8, 10))
    for key in (0, 3, 4, 9, -1, -10, np.int64(5)):
        assert same_bits(found[key], jax.tree.map(lambda leaf, key=key: leaf[key], whole))
    for key in (
        slice(2, 9),
        slice(1, None, 3),
        slice(None, None, -1),
        slice(8, 1, -3),
        slice(5, 6),
        slice(0, 10, 9),
    ):
        assert same_bits(found[key], jax.tree.map(lambda leaf, key=key: leaf[key], whole))
    parts = list(found)
    assert [part.final.position.shape[0] for part in parts] == [4, 4, 2]
    assert same_bits(jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts), whole)
    for key in (10, -11, slice(3, 3)):
        with pytest.raises(IndexError, match=r"10 worlds|world -?1[01] of 10"):
            found[key]
    with pytest.raises(TypeError, match="a number or a slice"):
        found[1.0]
    assert "10 worlds in 3 parts, 3 of them there" in repr(found)
    assert open_parts(run.directory, dtype="float32")[0].final.position.dtype == "float32"
    with pytest.raises(ValueError, match="dtype must be"):
        open_parts(run.directory, dtype="int8")


def test_nothing_is_computed_twice(run, copy, computed):
    whole = contents(copy)
    (copy / "part-00000001.jaxrb").unlink()
    found = open_parts(copy)
    assert found.missing == (range(4, 8),)
    message = r"1 of the 3 parts asked for are not in .* worlds 4 to 7: call simulate_parts again"
    for read in (found.load, lambda: found[0:10:5]):
        with pytest.raises(FileNotFoundError, match=message.replace("3 parts", r"\d parts")):
            read()
    assert float(found[9].stats.time) == T1  # what is there can be read
    states = drops(heights(N))
    again = simulate_parts(WORLD, states, METHOD, T1, copy, part=PART)
    assert computed == [PART] and contents(copy) == whole and again.missing == ()
    # Shares of three processes; the second finds all done.
    for path in copy.glob("part-*"):
        path.unlink()
    lacking = [(range(4, 10),), (range(4, 8),), ()]
    for k, expected in zip((0, 2, 1), lacking, strict=True):
        found = simulate_parts(WORLD, states, METHOD, T1, copy, part=PART, share=(k, 3))
        assert found.missing == expected
    assert contents(copy) == whole and computed == [PART] * 4


def test_states_by_a_function(run, copy, computed):
    """With so few worlds all are compared, so that the run is the one of the states themselves."""
    asked = []

    def states(worlds):
        asked.append(worlds.tolist())
        return drops(heights(N)[worlds])

    whole = contents(copy)
    simulate_parts(WORLD, states, METHOD, T1, copy, n_worlds=N, part=PART)
    assert computed == [] and asked == [list(range(N))]
    (copy / "part-00000002.jaxrb").unlink()
    simulate_parts(WORLD, states, METHOD, T1, copy, n_worlds=N, part=PART)
    assert computed == [PART] and asked[-1] == [8, 9] and contents(copy) == whole


def test_a_directory_is_no_file(tmp_path):
    (tmp_path / "run").write_text("notes")
    with pytest.raises(ValueError, match=r"directory .*run is a file"):
        simulate_parts(WORLD, drops(heights(N)), METHOD, T1, tmp_path / "run", part=PART)
    assert (tmp_path / "run").read_text() == "notes"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"t1": 0.5}, "t1"),
        ({"t0": 0.1}, "t0"),
        ({"method": rb.LGVCI(0.02, on_zeno="stop")}, "method"),
        ({"world": eqx.tree_at(lambda w: w.gravity, WORLD, WORLD.gravity * 2)}, "world"),
        ({"states": drops(heights(N) + 1e-15)}, "states"),
        ({"states": drops(heights(N - 1))}, "n_worlds and states|states and n_worlds"),
        ({"save": rb.SaveAt(every=5)}, "save"),
        ({"part": 5}, "part"),
        ({"failed": "nan"}, "failed"),
        ({"backend": "kernel"}, "backend"),
        ({"max_steps": 500}, "max_steps"),
    ],
)
def test_a_directory_is_of_one_run(run, computed, change, named):
    before = contents(run.directory)
    given = {"world": WORLD, "states": drops(heights(N)), "method": METHOD, "t1": T1, "part": PART}
    with pytest.raises(ValueError, match=f"holds another run, with another ({named}):"):
        simulate_parts(directory=run.directory, **given | change)
    assert contents(run.directory) == before and computed == []


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch, run):
    """Half of the third file gets written."""
    write, written = paths._write, []

    def full(path, chunks):
        written.append(path)
        if len(written) == 3:
            content = b"".join(chunks)
            path.write_bytes(content[: len(content) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, chunks)

    monkeypatch.setattr(paths, "_write", full)
    directory, states = tmp_path / "run", drops(heights(N))
    with pytest.raises(OSError, match="No space left") as error:
        simulate_parts(WORLD, states, METHOD, T1, directory, part=PART)
    assert "part-00000001.jaxrb was not written" in error.value.__notes__[0]
    whole = contents(run.directory)
    assert contents(directory) == {k: whole[k] for k in ("run.jaxrb", "part-00000000.jaxrb")}
    simulate_parts(WORLD, states, METHOD, T1, directory, part=PART)
    assert contents(directory) == whole


def test_leftovers_of_killed_processes_go(run, copy):
    """Those of parts that are there; one that is not there may be another's work."""
    (copy / ".part-00000001.jaxrb.0123.tmp").write_bytes(b"half")
    (copy / ".run.jaxrb.0123.tmp").write_bytes(b"half")
    kept = copy / ".part-00000002.jaxrb.0123.tmp"
    kept.write_bytes(b"half")
    (copy / "part-00000002.jaxrb").unlink()
    states = drops(heights(N))
    simulate_parts(WORLD, states, METHOD, T1, copy, part=PART, share=(0, 3))
    assert [path.name for path in copy.glob(".*")] == [kept.name]
    simulate_parts(WORLD, states, METHOD, T1, copy, part=PART)
    assert contents(copy) == contents(run.directory)


def test_who_comes_second_overwrites_nothing(tmp_path, monkeypatch):
    path = tmp_path / "file"
    assert paths.write_once(path, [b"first"]) and not paths.write_once(path, [b"second"])
    assert contents(tmp_path) == {"file": b"first"}

    def unsupported(*_):
        raise PermissionError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", unsupported)
    assert not paths.write_once(path, [b"third"])
    assert paths.write_once(tmp_path / "other", [b"fourth"])
    assert contents(tmp_path) == {"file": b"first", "other": b"fourth"}


def test_failures_are_raised_when_all_is_written(tmp_path):
    sunk = heights(N)
    sunk[[6, 9]] = 0.4
    for _ in range(2):  # the second time nothing is computed
        with pytest.raises(RuntimeError, match=r"2 of 10 worlds .* world 6: initial_penetration"):
            simulate_parts(WORLD, drops(sunk), METHOD, T1, tmp_path, part=PART)
    found = simulate_parts(WORLD, drops(sunk), METHOD, T1, tmp_path, part=PART, throw=False)
    assert np.flatnonzero(~np.asarray(found.load().successful)).tolist() == [6, 9]
    with pytest.warns(UserWarning, match="1 of 4 worlds ended early"):
        _ = found[4:8].final
    with pytest.raises(RuntimeError, match="1 of 4 worlds of this share"):
        simulate_parts(WORLD, drops(sunk), METHOD, T1, tmp_path, part=PART, share=(1, 3))


def test_files_that_are_not_what_they_should_be(run, copy, tmp_path):
    path = copy / "part-00000001.jaxrb"
    whole = path.read_bytes()
    spoiled = bytearray(whole)
    spoiled[-100] ^= 1
    other = (copy / "part-00000000.jaxrb").read_bytes()
    for content, message in (
        (bytes(spoiled), "is damaged: its checksum does not fit"),
        (whole[:-50], "is truncated"),
        (b"", "is no file of jaxrb"),
        (other, "is of another run, or another part, than its name says"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message) as error:
            open_parts(copy).load()
        assert str(path) in str(error.value)
    with pytest.raises(FileNotFoundError, match="There is no run of simulate_parts in"):
        open_parts(tmp_path)
    (copy / "run.jaxrb").unlink()
    with pytest.raises(ValueError, match=r"holds parts, but no run\.jaxrb"):
        simulate_parts(WORLD, drops(heights(N)), METHOD, T1, copy, part=PART)
    rb.io.save(copy / "run.jaxrb", {"file": "another"})
    with pytest.raises(ValueError, match="was not written by simulate_parts"):
        open_parts(copy)


def test_arguments_that_do_not_fit(tmp_path):
    states = drops(heights(N))
    for change, message in (
        ({"states": jax.tree.map(lambda leaf: leaf[0], states)}, "states must be a State with"),
        ({"states": 3}, "or a function of the numbers of worlds; got int"),
        ({"states": lambda worlds: states}, "n_worlds must be given"),
        ({"states": lambda worlds: states, "n_worlds": 4}, r"4 worlds .*returned \(10, 1, 3\)"),
        ({"states": lambda worlds: 3, "n_worlds": 4}, "returned int"),
        ({"n_worlds": 9}, "n_worlds must be left out, or 10"),
        ({"part": 0}, "part must be a positive whole number"),
        ({"share": (3, 3)}, "share must be"),
        ({"failed": "drop"}, "failed must be one of"),
        ({"backend": "cuda"}, "backend must be one of"),
        ({"t1": float("nan")}, "t1 must be finite"),
        ({"devices": []}, "devices must hold at least one"),
    ):
        given = {"world": WORLD, "states": states, "method": METHOD, "t1": T1, **change}
        with pytest.raises(ValueError, match=message):
            simulate_parts(directory=tmp_path / "run", **given)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (0, 1)),
        ({"TASK_ID": "7", "TASK_MIN": "5", "TASK_COUNT": "4"}, (2, 4)),
        ({"TASK_ID": "9", "TASK_MIN": "1", "TASK_COUNT": "6", "TASK_STEP": "4"}, (2, 6)),
        ({"TASK_ID": "7", "TASK_MIN": "3", "TASK_COUNT": "2"}, None),  # --array=3,7
        ({"TASK_ID": "4", "TASK_MIN": "1", "TASK_COUNT": "6", "TASK_STEP": "4"}, None),
        ({"TASK_ID": "4"}, None),
    ],
)
def test_shares_of_job_arrays(monkeypatch, variables, expected):
    for name in ("TASK_ID", "TASK_MIN", "TASK_COUNT", "TASK_STEP"):
        monkeypatch.delenv(f"SLURM_ARRAY_{name}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(f"SLURM_ARRAY_{name}", value)
    if expected is None:
        with pytest.raises(ValueError, match=r"share cannot be told .* give share=\(k, n\)"):
            share_of(None)
    else:
        assert share_of(None) == expected
    assert share_of((3, 7)) == (3, 7)  # what is given counts
    for bad in ((7, 7), (-1, 2), [0, 1], (0.0, 1), (True, 2), 3, (0, 1, 2)):
        with pytest.raises(ValueError, match="share must be"):
            share_of(bad)


FUNCTIONS = """
def pull(strength):
    names = {"left", "right", "up"}
    def force(t, state, args):
        return (strength * state.position, 0 * state.position) if "up" in names else None
    return force
"""


def test_fingerprints_of_functions():
    """Of worlds that no file holds: the same in every process, and of other code or numbers not."""
    made = {}
    exec(FUNCTIONS, made)

    def world(strength, function=made["pull"]):
        force = rb.Force(function(strength), velocity_dependent=False)
        return rb.World(WORLD.bodies, WORLD.obstacles, forces=[force])

    def other(strength):
        return lambda t, state, args: (strength * state.position, 1 * state.position)

    known = fingerprint(world(2.0), "world")
    assert known == fingerprint(world(2.0), "world")
    assert known != fingerprint(world(2.5), "world")
    assert known != fingerprint(world(2.0, other), "world")
    program = (
        FUNCTIONS
        + """
import jax
jax.config.update("jax_enable_x64", True)
import jaxrb as rb
from jaxrb.io.fingerprint import fingerprint
from bouncing import WORLD
force = rb.Force(pull(2.0), velocity_dependent=False)
print(fingerprint(rb.World(WORLD.bodies, WORLD.obstacles, forces=[force]), "world"))
"""
    )
    command = [sys.executable, "-c", "import sys; sys.path.insert(0, 'tests')\n" + program]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == known
