"""Double precision, and every sloppiness an error."""

import zlib
from pathlib import Path

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_addoption(parser):
    parser.addoption(
        "--share",
        default="1/1",
        help="of the tests, dealt into n shares by their names, the k-th: k/n",
    )


def pytest_collection_modifyitems(config, items):
    """All parameters of a test are in one share: they use the same programs."""
    share, number = map(int, config.getoption("--share").split("/"))
    if not 1 <= share <= number:
        raise pytest.UsageError(f"--share {share}/{number}: the first number goes from 1 to n.")
    own = lambda item: zlib.crc32(item.nodeid.split("[")[0].encode()) % number == share - 1  # noqa: E731
    others = [item for item in items if not own(item)]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if own(item)]


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
