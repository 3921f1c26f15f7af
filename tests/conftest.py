"""Double precision, and every sloppiness an error."""

from pathlib import Path

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


# About a gigabyte of programs. Linux allows a process 65530 mappings of memory by default.
MOST_MAPPINGS = 5_000


@pytest.fixture(autouse=True, scope="module")
def forgotten_programs():
    """Each compiled program keeps some memory mapped; in one process those of all tests would
    pass the number of mappings that Linux allows, and crash the compiler."""
    yield
    mappings = Path("/proc/self/maps")
    if not mappings.exists() or mappings.read_text().count("\n") > MOST_MAPPINGS:
        jax.clear_caches()
