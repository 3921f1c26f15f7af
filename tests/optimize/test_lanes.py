"""Programs over lanes: what compiles them anew, and what does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.optimize.lanes import in_lanes

DTYPES = [jnp.float32, jnp.float64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_of_python_share_a_program(dtype):
    """A world that was written down, and the same one with arrays of its own, as a fit returns it,
    with any number of lanes up to a multiple of the size."""
    traced = []

    @jax.jit
    def program(law, lanes):
        traced.append(law.restitution.dtype)
        return lanes * law.restitution

    written = rb.Coulomb(0.3, 0.5)
    assert written.restitution.weak_type
    own = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), written)
    for law, n_lanes in ((written, 5), (own, 5), (written, 8), (own, 3)):
        found = in_lanes(program, law, jnp.ones(n_lanes, dtype), size=8)
        np.testing.assert_array_equal(found, np.full(n_lanes, 0.5, dtype))
    assert traced == [dtype]
