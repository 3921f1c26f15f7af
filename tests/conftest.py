"""Double precision, and every sloppiness an error."""

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True, scope="module")
def forgotten_programs():
    """Each compiled program keeps some memory mapped; in one process those of all tests would
    pass the number of mappings that Linux allows by default, and crash the compiler."""
    yield
    jax.clear_caches()
