"""Double precision, and every sloppiness an error."""

import re
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
    wanted = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", config.getoption("--share"))
    if wanted is None or int(wanted[1]) > int(wanted[2]):
        raise pytest.UsageError("--share is k/n, with k from 1 to n")
    share, number = int(wanted[1]), int(wanted[2])
    own, others = [], []
    for item in items:
        name = item.nodeid.split("[")[0]
        (own if zlib.crc32(name.encode()) % number == share - 1 else others).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = own


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
