"""A net of quadrilaterals next to a smooth closed surface that is given by a function.

It is one of Gibson's surface nets (1998, doi:10.1007/BFb0056277): a vertex in each cell of a
lattice that the surface crosses, a quadrilateral around each edge that crosses it.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ...math import Vec3, dot, norm

_COARSE, _FINE = 16, 16  # cells along each axis: to find the solid, and for the net
_CAPACITY = 6 * _FINE**2  # quadrilaterals
# |grad f| may be as large as this.
_STEEPEST = 2.0
# Unlike on both sides, so that the errors of a symmetric solid differ between the axes.
_MARGINS = (1.03, 1.17)  # around the solid, in cells
_AROUND = np.array([(0, 0), (1, 0), (1, 1), (0, 1)])  # cells around an edge

Level = Callable[[Vec3], Array]  # the function, elementwise in its components


def surface_net(level: Level, radius: Float[Array, ""]) -> Float[Array, "2 4 n 3"]:
    """The net of {x : level(x) = 0}, a closed surface in a ball about the origin.

    Returns:
        The four corners of the quadrilaterals, counter-clockwise seen from outside, and the
        unit normals there; zero where they are not needed, NaN where they do not suffice.
    """
    dtype = radius.dtype
    lower, upper = _box(level, radius)
    cell = (upper - lower) / _FINE
    lattice = lower[:, None] + cell[:, None] * jnp.arange(_FINE + 1, dtype=dtype)[None]
    value = level(Vec3(*jnp.meshgrid(*lattice, indexing="ij")))
    crossed, n_crossed = [], 0
    for k in range(3):
        # Axis k in front of the others in their cyclic order.
        along = jnp.transpose(value, tuple((k + j) % 3 for j in range(3)))
        inside = (along < 0).astype(jnp.int32)
        sign = inside[:-1] - inside[1:]
        n_crossed = n_crossed + jnp.sum(sign != 0)
        crossed.append(sign[:, 1:-1, 1:-1].reshape(-1))

    # The middles of all cells approach the surface; only those that it crosses are used.
    middles = lattice[:, :-1] + cell[:, None] / 2
    vertex = jax.tree.map(jnp.ravel, Vec3(*jnp.meshgrid(*middles, indexing="ij")))
    gradient = jax.grad(lambda x: jnp.sum(level(x)))

    def approach(_, x):
        g = gradient(x)
        step = level(x) / jnp.maximum(dot(g, g), 1 / _STEEPEST**2)
        limit = jnp.max(cell)
        return x - g * jnp.clip(step, -limit, limit)

    vertex = lax.fori_loop(0, 3, approach, vertex)
    normal = gradient(vertex)
    normal = normal / norm(normal)

    signs = jnp.concatenate(crossed)
    n_found = jnp.sum(signs != 0)
    (edge,) = jnp.nonzero(signs, size=_CAPACITY, fill_value=0)
    used = jnp.arange(_CAPACITY) < n_found
    axis, rest = edge // len(crossed[0]), edge % len(crossed[0])
    across = _FINE - 1
    first = jnp.stack([rest // across**2, rest // across % across, rest % across], axis=1)
    strides = np.array([[_FINE ** (2 - (k + j) % 3) for j in range(3)] for k in range(3)])
    stride = jnp.asarray(strides, edge.dtype)[axis]
    around = jnp.asarray(np.insert(_AROUND, 0, 0, axis=1), edge.dtype)
    cells = jnp.sum((first[:, None] + around[None]) * stride[:, None], axis=-1)
    # Where the solid lies behind, the other way around.
    turned = jnp.where(signs[edge, None] > 0, cells, cells[:, ::-1])
    whole = (n_found == n_crossed) & (n_found > 0) & (n_found <= _CAPACITY)
    corners = jnp.stack([vertex.array()[turned.T], normal.array()[turned.T]])
    corners = jnp.where(used[None, None, :, None], corners, 0.0)
    return jnp.where(whole, corners, jnp.nan)


def _box(level: Level, radius: Array) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
    """A box around the solid, with a margin: its lower and upper corner."""
    side = 2 * radius / _COARSE
    middles = side * (jnp.arange(_COARSE, dtype=radius.dtype) + 0.5) - radius
    value = level(Vec3(*jnp.meshgrid(middles, middles, middles, indexing="ij")))
    near = value < _STEEPEST * np.sqrt(3) / 2 * side

    def reach(axis):
        there = jnp.any(near, axis=tuple({0, 1, 2} - {axis}))
        low = jnp.min(jnp.where(there, middles, jnp.inf))
        return low - side / 2, jnp.max(jnp.where(there, middles, -jnp.inf)) + side / 2

    lower, upper = (jnp.stack(ends) for ends in zip(*map(reach, range(3)), strict=True))
    cell = (upper - lower) / (_FINE - sum(_MARGINS))
    return lower - _MARGINS[0] * cell, upper + _MARGINS[1] * cell
