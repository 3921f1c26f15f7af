"""Many impacts at once."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..exec.parallel import chosen_devices, in_parallel, n_cores, traced
from .laws import AbstractContactLaw
from .solve import ImpactSolution, checked, raise_failure, solve

# Fewer impacts a thread take no less time than all of them on one: threads start late, and a
# short queue keeps fewer workers busy.
SMALLEST_CHUNK = 4096


def solve_impact_batch(
    inverse_inertia: Float[Array, "n 3 3"],
    velocity: Float[Array, "n 3"],
    law: AbstractContactLaw,
    *,
    batch_law: bool = False,
    collinearity: float | None = None,
    throw: bool = True,
    devices=None,
) -> ImpactSolution:
    """`jax.vmap` of `solve_impact` over a leading axis, spread over cores or devices.

    On several devices the impacts are sharded over them; on one CPU a large batch is cut into
    one chunk for each core. The numbers are those of `jax.vmap`, to round-off. Under a
    transformation (jit, grad, ...) it is `jax.vmap` on one device, or with `throw=False` on all.

    Args:
        inverse_inertia: W of each impact [1/kg], contact frame, z along the normal.
        velocity: of the first body relative to the second at each contact [m/s].
        law: as of `solve_impact`, one for all, or with `batch_law` one per impact, as
            `jax.vmap(Coulomb)(friction, restitution)` makes them.
        batch_law: whether every leaf of `law` has a leading axis over the batch.
        collinearity: as in `solve_impact`.
        throw: raise if an impact has no result; with False, `result` has the code of each.
        devices: to use; as in `simulate_batch`.

    Returns:
        A solution whose leaves have a leading axis over the batch.

    Raises:
        ValueError: naming an argument that is not understood.
        RuntimeError: if `throw` and impacts could not be resolved; it names the first.
    """
    shape = jnp.shape(inverse_inertia)
    if len(shape) != 3:
        raise ValueError(f"inverse_inertia must have shape (n, 3, 3); got {shape}.")
    n = shape[0]
    if n == 0:
        raise ValueError("inverse_inertia must hold at least one impact.")
    w, v, collinearity = checked(inverse_inertia, velocity, law, collinearity, (n,))
    leaves = jax.tree.leaves(law)
    if batch_law and any(jnp.shape(leaf) != (n,) for leaf in leaves):
        raise ValueError(f"batch_law needs {n} numbers in every leaf of law; got {law!r}.")
    if not batch_law and any(jnp.shape(leaf) != () for leaf in leaves):
        raise ValueError(f"law must hold single numbers without batch_law; got {law!r}.")
    shared, batched = ((), (w, v, law)) if batch_law else ((law,), (w, v))
    devices = chosen_devices(devices, (shared, batched))
    if throw and traced((shared, batched)):
        devices = devices[:1]  # one that raised a failure would leave the others waiting for it
    solution = in_parallel(
        _lanes,
        shared,
        batched,
        options={"collinearity": collinearity},
        devices=devices,
        chunk=-(-n // max(1, min(n_cores(), n // SMALLEST_CHUNK))),
    )
    return raise_failure(solution) if throw else solution


@partial(jax.jit, static_argnames="collinearity")
def _lanes(shared, batched, *, collinearity) -> ImpactSolution:
    def one(shared, batched):
        w, v, law = *batched, *shared
        return solve(w, v, law, collinearity)

    return jax.vmap(one, in_axes=(None, 0))(shared, batched)
