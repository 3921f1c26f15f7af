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

from .gradient import SCENES, programs
from .problem import PROBLEM, set_precision
from .record import Column, Record, Table
from .timing import Quantiles

BATCHES = (1024,)
PROGRAMS = ("forward run", "reverse mode, grad", "second derivative")
TABLE = Table(
    PROBLEM,
    "program",
    (
        Column("cache", "cache", "", 6),
        Column("trace", "trace [s]", "", 24, spread=True),
        Column("compile", "lower and compile [s]", "", 24, spread=True),
    ),
    ("median of the rounds (least .. most)",),
)


def measure(record: Record, scene: str, batches: tuple[int, ...]) -> None:
    """Adds the rows of a scene."""
    for batch in batches:
        for name in PROGRAMS:
            _run_program(record, scene, name, batch)


def _run_program(record: Record, scene: str, name: str, batch: int) -> None:
    taken = {"cold": [], "warm": []}
    for _ in range(record.rounds):
        with tempfile.TemporaryDirectory() as cache:
            for seconds in taken.values():
                seconds.append(_in_process(scene, name, batch, record.dtype, cache))
    for cache, seconds in taken.items():
        trace, compilation = (Quantiles.of(column) for column in np.transpose(seconds))
        values = {**trace.named("trace"), **compilation.named("compile")}
        record.add(batch, name, cache=cache, **values)


def _in_process(scene: str, name: str, batch: int, dtype: str, cache: str) -> list[float]:
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": cache,
        # Store whatever was compiled, however small.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, "-m", __name__, scene, name, str(batch), dtype]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    # Shown only on failure: XLA's loader warns of tuning flags that it takes for missing
    # features of the machine, pages of it.
    if done.returncode:
        raise RuntimeError(f"{name} did not compile:\n{done.stderr}")
    return json.loads(done.stdout)


def seconds_of(scene: str, name: str, batch: int) -> tuple[float, float]:
    """Seconds to trace, and to lower and compile, a program for a batch of heights."""
    program = programs(SCENES[scene])[name]
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
    print(json.dumps(seconds_of(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
