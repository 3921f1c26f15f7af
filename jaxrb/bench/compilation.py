"""Seconds to trace and to compile, cold and from JAX's persistent cache.

Each measurement is a fresh process. The cold one starts with an empty cache, which it fills
for the warm one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np

from .gradient import LAWS, programs
from .problem import describe, set_precision
from .timing import Quantiles

BATCHES = (1024,)
PROGRAMS = ("forward run", "reverse mode, grad")


def run(batches: tuple[int, ...], rounds: int, dtype: str) -> None:
    """Prints the table of one dtype."""
    set_precision(dtype)
    print(describe(dtype))
    print(f"{'batch':>6}  {'program':<20} {'cache':<6} {'trace [s]':<22} lower and compile [s]")
    for batch in batches:
        for law in LAWS:
            print(law)
            for name in PROGRAMS:
                _run_program(law, name, batch, rounds, dtype)
    print(f"  median of {rounds} rounds (least .. most)\n")


def _run_program(law: str, name: str, batch: int, rounds: int, dtype: str) -> None:
    taken = {"cold": [], "warm": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            for seconds in taken.values():
                seconds.append(_in_process(law, name, batch, dtype, cache))
    for kind, seconds in taken.items():
        trace, compilation = (str(Quantiles.of(column)) for column in np.transpose(seconds))
        print(f"{batch:>6}  {name:<20} {kind:<6} {trace:<22} {compilation}")


def _in_process(law: str, name: str, batch: int, dtype: str, cache: str) -> list[float]:
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": cache,
        # Store whatever was compiled, however small.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, "-m", __name__, law, name, str(batch), dtype]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    # Shown only on failure: XLA's loader warns of tuning flags that it takes for missing
    # features of the machine, pages of it.
    if done.returncode:
        raise RuntimeError(f"{name} did not compile:\n{done.stderr}")
    return json.loads(done.stdout)


def measure(law: str, name: str, batch: int) -> tuple[float, float]:
    """Seconds to trace, and to lower and compile, a program for a batch of heights."""
    program = programs(LAWS[law]())[name]
    world = program.args[0]
    example = jax.ShapeDtypeStruct((batch,), jnp.result_type(float))
    times = [time.perf_counter()]
    traced = program.func.trace(world, example)
    times.append(time.perf_counter())
    traced.lower().compile()
    times.append(time.perf_counter())
    return times[1] - times[0], times[2] - times[1]


if __name__ == "__main__":
    set_precision(sys.argv[4])
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
