"""A function of one lane, run for many as one kernel."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import batching, mlir
from jaxtyping import Array, Bool

from . import cuda, host
from .build import STORED, lane_program, stored_as
from .operations import NotScalarError


def as_kernel(function: Callable, *arguments: Any, on_cpu: bool) -> tuple[Any, Bool[Array, ""]]:
    """function(*arguments), under any number of `vmap`s as one kernel over all lanes.

    On an NVIDIA GPU it is compiled by NVRTC, on a CPU by the system's C compiler. Elsewhere, and
    where it cannot be written as a kernel, it is compiled by XLA as it stands. It cannot be
    differentiated.

    Args:
        function: of trees of arrays; pure. It is traced for one lane.
        arguments: of one lane, or traced by `vmap`.
        on_cpu: whether it is a kernel on a CPU too, and a warning says why if it is none.

    Returns:
        What the function returns, and whether that came from a kernel.
    """
    leaves, structure = jax.tree.flatten(arguments)
    leaves = [jnp.asarray(leaf) for leaf in leaves]

    def of_leaves(*leaves):
        return function(*jax.tree.unflatten(structure, leaves))

    avals = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
    traced, results = jax.make_jaxpr(of_leaves, return_shape=True)(*avals)
    mask = (False,) * len(leaves)
    *found, is_kernel = _lanes.bind(*leaves, traced=traced, mask=mask, on_cpu=on_cpu)
    return jax.tree.unflatten(jax.tree.structure(results), found), is_kernel


# A primitive, as only then JAX says at last for which platform and how many lanes it compiles. Its
# arguments have a leading axis over lanes where the mask says so.
_lanes = Primitive("lanes")
_lanes.multiple_results = True


def _n_lanes(shapes, mask) -> int | None:
    """The number of lanes; None if there is no axis over them."""
    return next((shape[0] for shape, lanes in zip(shapes, mask, strict=True) if lanes), None)


@_lanes.def_abstract_eval
def _(*avals, traced: ClosedJaxpr, mask, on_cpu):
    n = _n_lanes([aval.shape for aval in avals], mask)
    lead = () if n is None else (n,)
    results = [ShapedArray((*lead, *aval.shape), aval.dtype) for aval in traced.out_avals]
    return [*results, ShapedArray(lead, np.dtype(bool))]


@_lanes.def_impl
def _(*leaves, **params):
    return jax.jit(lambda *leaves: _lanes.bind(*leaves, **params))(*leaves)


def _batch(leaves, axes, *, traced, mask, on_cpu):
    """All lanes of all `vmap`s on one axis."""
    batched = [axis is not None for axis in axes]
    size = next(leaf.shape[a] for leaf, a, b in zip(leaves, axes, batched, strict=True) if b)
    leaves = [
        jnp.moveaxis(leaf, axis, 0) if moved else leaf
        for leaf, axis, moved in zip(leaves, axes, batched, strict=True)
    ]
    own = [
        leaf.shape[1:] if moved else leaf.shape for leaf, moved in zip(leaves, batched, strict=True)
    ]
    n = _n_lanes(own, mask)
    if n is not None:
        leaves = [
            _merged(leaf, moved, lanes, size, n)
            for leaf, moved, lanes in zip(leaves, batched, mask, strict=True)
        ]
    both = tuple(moved or lanes for moved, lanes in zip(batched, mask, strict=True))
    found = _lanes.bind(*leaves, traced=traced, mask=both, on_cpu=on_cpu)
    if n is not None:
        found = [leaf.reshape(size, n, *leaf.shape[1:]) for leaf in found]
    return found, [0] * len(found)


batching.primitive_batchers[_lanes] = _batch


def _merged(leaf, moved: bool, lanes: bool, size: int, n: int):
    """An array with one leading axis over all lanes, or none if they share it."""
    if not moved and not lanes:
        return leaf
    if not lanes:
        leaf = jnp.broadcast_to(leaf[:, None], (size, n, *leaf.shape[1:]))
    elif not moved:
        leaf = jnp.broadcast_to(leaf[None], (size, *leaf.shape))
    return leaf.reshape(size * n, *leaf.shape[2:])


def _lowering(language):
    """How a platform compiles it: by a module for its language, if there is one."""

    def lower(ctx, *values, traced, mask, on_cpu):
        wanted = language is cuda or (on_cpu and language is host)
        compiled = None
        if wanted:
            try:
                compiled = _as_kernel(language, traced, mask, ctx.avals_in)
            except NotScalarError as reason:
                if on_cpu:
                    warnings.warn(f"compiled by XLA and not as a kernel: {reason}", stacklevel=2)
        function = _by_xla(traced, mask) if compiled is None else compiled
        return mlir.lower_fun(function, multiple_results=True)(ctx, *values)

    return lower


mlir.register_lowering(_lanes, _lowering(None))
mlir.register_lowering(_lanes, _lowering(host), platform="cpu")
mlir.register_lowering(_lanes, _lowering(cuda), platform="cuda")


def _by_xla(traced: ClosedJaxpr, mask) -> Callable:
    function = jaxpr_as_fun(traced)
    if any(mask):
        function = jax.vmap(function, in_axes=[0 if lanes else None for lanes in mask])

    def run(*leaves):
        n = _n_lanes([leaf.shape for leaf in leaves], mask)
        return [*function(*leaves), jnp.zeros(() if n is None else (n,), bool)]

    return run


def _as_kernel(language, traced: ClosedJaxpr, mask, avals) -> Callable:
    """The function of all lanes, as a call of a kernel that is compiled here and now."""
    program = lane_program(traced, [not lanes for lanes in mask])
    compiled = language.compile(program)
    n_lanes = _n_lanes([aval.shape for aval in avals], mask)

    def run(*leaves):
        n = 1 if n_lanes is None else n_lanes
        outputs = language.call(program, compiled, _packed(leaves, mask, n), n)
        stored = [name for name, size in zip(STORED, program.outputs, strict=True) if size]
        found = _unpacked(dict(zip(stored, outputs, strict=True)), traced.out_avals, n)
        found.append(jnp.ones(n, bool))
        return found if n_lanes is not None else [leaf[0] for leaf in found]

    return run


def _packed(leaves, mask, n_lanes: int) -> list:
    """The arrays that a program takes, in its order."""
    parts: dict[tuple[bool, str], list] = {
        (shared, stored): [] for shared in (True, False) for stored in STORED
    }
    for leaf, lanes in zip(leaves, mask, strict=True):
        stored = stored_as(leaf.dtype)
        if lanes:
            parts[False, stored].append(leaf.reshape(n_lanes, -1).T.astype(stored))
        else:
            parts[True, stored].append(leaf.reshape(-1).astype(stored))
    arrays = (jnp.concatenate(part) for part in parts.values() if part)
    return [array for array in arrays if array.size]


def _unpacked(outputs, avals, n_lanes: int) -> list:
    """The results, with a leading axis over the lanes."""
    at, found = dict.fromkeys(STORED, 0), []
    for aval in avals:
        stored, size = stored_as(aval.dtype), int(np.prod(aval.shape))
        rows = jnp.zeros((0, n_lanes))
        if size:
            rows = outputs[stored][at[stored] : at[stored] + size]
            at[stored] += size
        found.append(rows.T.reshape(n_lanes, *aval.shape).astype(aval.dtype))
    return found
