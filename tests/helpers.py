"""Shared by the tests: compilation, devices, the paper's scene, differences, orders."""

import os
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxrb as rb

GRAVITY = 9.80665


def before_releases(*cases):
    """Cases of a parametrized test that are left out in CI: each compiles for long and shows little
    that others do not. Of several arguments a tuple."""
    every = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=pytest.mark.long) for case in every]


def some_slow(cases, *slow):
    """Cases of a parametrized test of which some are slow."""
    assert set(slow) <= set(cases)
    return [pytest.param(case, marks=pytest.mark.slow) if case in slow else case for case in cases]


def quick_jit(function):
    """`jax.jit` without XLA's fusion, and thus without its large kernels, and without LLVM's
    optimisation: half of the time that derivatives take to compile, for programs whose values, not
    speed, are tested. Some tests compile derivatives as users do."""
    options = {
        "xla_disable_hlo_passes": "fusion",
        "xla_backend_optimization_level": 0,
        "xla_cpu_parallel_codegen_split_count": 1,
    }
    return jax.jit(function, compiler_options=options)


def on_devices(n, program, *options):
    """What a program prints in a process of its own that has n devices made of one CPU, and further
    options of XLA."""
    setup = """
        import sys
        import jax
        sys.path[:0] = ["tests", "tests/impact", "tests/simulate"]
        jax.config.update("jax_enable_x64", True)
    """
    flags = " ".join([f"--xla_force_host_platform_device_count={n}", *options])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(setup) + textwrap.dedent(program)],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def on_hosts(n, program, n_devices=2, timeout=300):
    """The lines that each of n processes prints which run a program together, on the loopback
    address, with so many devices each made of one CPU; in it `rank` is the number of the process.
    """
    # Gloo writes to the standard output, too, sometimes into the middle of a line.
    with tempfile.TemporaryDirectory() as folder:
        printed = [Path(folder, str(rank)) for rank in range(n)]
        _run_together(printed, program, n_devices, timeout)
        return [path.read_text().splitlines() for path in printed]


def _run_together(printed, program, n_devices, timeout):
    """A process for each of the files, into which it prints."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    setup = f"""
        import sys
        import jax
        sys.path[:0] = ["tests", "tests/simulate"]
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        rank = int(sys.argv[1])
        sys.stdout = open(sys.argv[2], "w")
        jax.distributed.initialize("localhost:{port}", {len(printed)}, rank)
    """
    flags = f"--xla_force_host_platform_device_count={n_devices}"
    text = textwrap.dedent(setup) + textwrap.dedent(program)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", text, str(rank), str(path)],
            env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, path in enumerate(printed)
    ]
    try:
        done = [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:  # one that failed leaves the others waiting
            process.kill()
    for process, (_, errors) in zip(processes, done, strict=True):
        assert process.returncode == 0, errors


def contents(directory):
    """The bytes of all files of a directory, hidden ones included."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def differences(function, x, step=1e-3):
    """The Jacobian of `function` at the array `x` by central differences of order 4.

    With step 1e-3 and derivatives of order one, truncation (h^4/30 times the fifth
    derivative) and round-off (eps/h) are both near 1e-13.
    """
    x = np.asarray(x, float)
    columns = []
    for index in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[index] = step
        f = [np.asarray(function(x + k * e)) for k in (-2, -1, 1, 2)]
        columns.append((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step))
    stacked = np.stack(columns, axis=-1)
    return stacked.reshape(*stacked.shape[:-1], *x.shape)


def slope(sizes, errors):
    """The order p of errors ~ sizes^p, by least squares in logarithms."""
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


def unsign(q, like):
    """`q` or -q, which are one rotation, whichever is closer to `like`."""
    q, like = np.asarray(q), np.asarray(like)
    return np.where(np.sum(q * like, axis=-1, keepdims=True) < 0, -q, q)


def paper_scene(shape, inertia, normal=(0.0, 0.0, 1.0), mass=1.0):
    """A body thrown over a plane, as in all experiments of Tran and Leok, Section 7."""
    body = rb.RigidBody(shape, mass=mass, inertia=inertia)
    world = rb.World([body], [rb.HalfSpace(normal)], gravity=(0.0, 0.0, -GRAVITY))
    state = rb.State.from_momenta(
        world,
        position=[[0.0, 0.0, 10.0]],
        linear_momentum=[[2.0, 2.0, 10.0]],
        angular_momentum=[[4.0, -4.0, 4.0]],
    )
    return world, state


def control_gradient(flown, linear=False):
    """Of the sum of squares by all controls, from linearised stages, from the last one on; its
    shape is (stages, n_u), and (stages + 1, n_u) of linear controls."""
    n_u = flown.defect_by.shape[-1] - flown.defect.shape[-1]
    costate = 2 * flown.terminal_cost_by[-1].T @ flown.terminal_cost[-1]
    gradient = []
    for k in reversed(range(len(flown.defect))):
        both = 2 * flown.residual_by[k].T @ flown.residual[k] + flown.defect_by[k].T @ costate
        gradient.append(both[:n_u])
        costate = both[n_u:]
    if linear:
        gradient.append(costate[-n_u:])
    return np.array(gradient[::-1])
