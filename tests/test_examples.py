"""Each example does what its header promises."""

import sys
from pathlib import Path

import jax

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))


def test_throw_to_target():
    import throw_to_target

    # The optimiser's own code mixes dtypes: it is not ours to be strict about.
    with jax.numpy_dtype_promotion("standard"):
        first, last, impacts = throw_to_target.main()
    assert impacts == 2
    assert first > 0.5
    assert last < 1e-3
