"""Moments of solids from integrals over their boundary, with derivatives."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ..._validate import known
from ...math import dot, zeros_like
from ...math.autodiff import keep_rule, sparse_jvp
from ..base import AbstractSolid, Moments
from .assembly import Assembly, assemble
from .boundary import Boundary
from .cubature import (
    FINE,
    FINE_IN_U,
    N_MOMENTS,
    Cubature,
    Panels,
    integrate,
    monomials,
    piece_nodes,
)

_BATCH = 16  # panels that are differentiated together


def quadrature_moments(solid: AbstractSolid) -> Moments:
    """The moments of a solid, by adaptive cubature over its boundary.

    The volume has a relative error of at most 1e-9 in double and 1e-4 in single precision (as
    far as the integrator can tell), and so have the others relative to the size of the solid.

    Derivatives are integrals over the boundary (Reynolds' transport theorem).

    Returns:
        NaN where the tolerance is not reached, or the solid is empty, if its numbers are traced.

    Raises:
        ValueError: then, if they are known.
    """
    moments, volume, error = _moments(solid)
    if known(moments.volume) is not None and np.isnan(moments.volume):
        name = type(solid).__name__
        if error <= _tolerance(error.dtype):
            raise ValueError(f"{name} is empty: no point lies in all that it is made from.")
        raise ValueError(
            f"The mass properties of {name} were not found: their relative error would be about "
            f"{error / max(abs(volume), 1e-300):.0e}, {_tolerance(error.dtype):.0e} is wanted. "
            "Make its surface smoother, or give RigidBody(inertia=...)."
        )
    return moments


def _tolerance(dtype) -> float:
    return float(jnp.finfo(dtype).eps) ** 0.575


class _Integrals(NamedTuple):
    """Integrals in units of the radius of a ball that holds the solid."""

    moments: Float[Array, " n_moments"]
    error: Float[Array, ""]
    unit: Float[Array, ""]  # that radius [m]
    record: Cubature


@eqx.filter_jit
def _moments(solid: AbstractSolid) -> tuple[Moments, Array, Array]:
    """The moments, NaN where they are not accurate; the volume and its error in any case."""
    numbers, rest = eqx.partition(solid, eqx.is_array)

    @jax.custom_jvp
    def integrals(numbers):
        solid = eqx.combine(numbers, rest)
        unit = lax.stop_gradient(solid.bounding_radius())
        found = integrate(Boundary.of(assemble(solid, unit)), _tolerance(unit.dtype) / 4)
        s = found.sums
        volumes = jnp.stack([s[0], s[N_MOMENTS], s[N_MOMENTS + 1]])
        # The volume along any axis, and the sum of the vector area, tell whether it is closed.
        spread = jnp.ptp(volumes) + jnp.max(jnp.abs(s[N_MOMENTS + 2 : N_MOMENTS + 5]))
        return _Integrals(s[:N_MOMENTS], found.error + spread, unit, found)

    @partial(integrals.defjvp, symbolic_zeros=True)
    def _(primals, tangents):
        found = keep_rule(integrals)(*primals)

        def assembly(numbers):
            return assemble(eqx.combine(numbers, rest), found.unit)

        here = assembly(*primals)
        _, rate = sparse_jvp(lambda n: _swept(found.record, here, assembly(n)), primals, tangents)
        still = zeros_like(found)
        return found, still._replace(moments=rate)

    found = integrals(numbers)
    m, unit = found.moments, found.unit
    enough = jnp.maximum(_tolerance(m.dtype) * m[0], 0.0)
    some = m[0] > 64 * jnp.finfo(m.dtype).eps
    volume = jnp.where(some & (found.error <= enough), m[0], jnp.nan)
    center = m[1:4] / volume
    yz, xz, xy = m[7:10]
    second = jnp.stack([m[4], xy, xz, xy, m[5], yz, xz, yz, m[6]]).reshape(3, 3)
    second = second - volume * center[:, None] * center[None, :]
    moments = Moments(volume * unit**3, center * unit, second * unit**5)
    return moments, m[0], found.error


def _swept(record: Cubature, here: Assembly, there: Assembly) -> Float[Array, " n_moments"]:
    """Something whose derivative by `there`, at `here`, is that of the moments.

    That is the integral of the monomials over what the boundary sweeps (Reynolds' transport
    theorem): all but the motion of the boundary is kept fixed.
    """
    old, new = Boundary.of(here), Boundary.of(there)

    @jax.checkpoint
    def of_batch(rows, pieces):
        panels = Panels.of(rows)
        patch, u, *_ = panels.lines()
        before, after = old.at(patch), new.at(patch)
        start, end, at_root = jnp.moveaxis(pieces.reshape(len(u), 3, -1), 1, 0)
        if len(here.leaves) > 1:
            start, end = (
                _polished(before, u, v, at_root == side) for v, side in ((start, -1), (end, 1))
            )
        v, widths = piece_nodes(start, end)
        x, area = before.surface(u, v)
        _, du = panels.nodes()
        by_v = jnp.asarray(np.tile(FINE, start.shape[1]), du.dtype)[None]
        by_u = (du * jnp.asarray(FINE_IN_U, du.dtype)[None]).reshape(-1, 1)
        moved = after.points(after.curves(u), v)
        swept = dot(area, moved) * widths * by_u * by_v
        return jnp.stack([jnp.sum(m * swept) for m in monomials(x)])

    def add(total, batch):
        index, rows, pieces = batch
        used = index * _BATCH < record.n_panels
        return total + lax.cond(
            used, of_batch, lambda *_: jnp.zeros_like(total), rows, pieces
        ), None

    n = len(record.table) // _BATCH
    rows, pieces = (a.reshape(n, _BATCH, *a.shape[1:]) for a in (record.table, record.pieces))
    index = jnp.arange(n, dtype=record.n_panels.dtype)
    total, _ = lax.scan(add, jnp.zeros(N_MOMENTS, rows.dtype), (index, rows, pieces))
    return total


def _polished(rows: Boundary, u: Array, v: Array, at_root: Array) -> Array:
    """Ends of pieces with the derivatives that they have as roots, up to the second."""
    clearance = lambda v: rows.clearance(rows.curves(u), v)[0]  # noqa: E731
    for _ in range(2):
        value, slope = jax.jvp(clearance, (v,), (jnp.ones_like(v),))
        v = v - jnp.where(at_root, value, 0.0) / jnp.where(at_root, slope, 1.0)
    return v
