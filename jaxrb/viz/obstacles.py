"""What pictures show of obstacles: solids, cavities from inside, planes that move as plates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..contact import Moving
from ..shapes import AbstractSolid, Complement, HalfSpace
from ..shapes.base import AbstractShape
from .meshes import Mesh, mesh


class Drawn(NamedTuple):
    """An obstacle as a mesh in its own frame."""

    mesh: Mesh
    side: str  # of its faces that is seen, as viser calls it


def planes(obstacles: tuple[AbstractShape | Moving, ...]) -> dict[int, HalfSpace]:
    """The half-spaces at rest among obstacles, by their numbers."""
    return {k: o for k, o in enumerate(obstacles) if isinstance(o, HalfSpace)}


def drawn(obstacle: AbstractShape | Moving, size: float) -> Drawn:
    """An obstacle; where it is a half-space or its complement a plate of a size [m], at the point
    of the plane that is nearest to the origin of its frame."""
    shape = obstacle.shape if isinstance(obstacle, Moving) else obstacle
    hollow = False
    while isinstance(shape, Complement):
        shape, hollow = shape.shape, not hollow
    if isinstance(shape, AbstractSolid):
        # Of a cavity the walls that face the viewer are left out.
        return Drawn(mesh(shape), "back" if hollow else "front")
    assert isinstance(shape, HalfSpace)
    normal, offset = (np.asarray(part, float) for part in shape.unit_normal_and_offset())
    along = np.cross(np.eye(3)[np.argmin(np.abs(normal))], normal)
    along *= size / 2 / np.linalg.norm(along)
    aside = np.cross(normal, along)
    corners = offset * normal + np.array(
        [-along - aside, along - aside, along + aside, aside - along]
    )
    return Drawn(Mesh(corners, np.array([[0, 1, 2], [0, 2, 3]])), "double")


def poses(
    obstacle: Moving, times: np.ndarray, starts: Sequence[float], args_of_each: Sequence[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Positions [m], shape (n, 3), and quaternions, shape (n, 4), of an obstacle at times [s], with
    args that hold from one of the starts [s] to the next."""
    # A time at a start may be before it by round-off.
    first = np.searchsorted(times, np.asarray(starts[1:]) - 1e-9 * (times[-1] - times[0]))
    spans = zip(np.split(times, first), args_of_each, strict=True)
    found = [_poses(obstacle, span, args) for span, args in spans if span.size]
    position, turn = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return position.astype(float), turn.astype(float)


@eqx.filter_jit
def _poses(obstacle: Moving, times: np.ndarray, args: Any):
    def at(t):
        position, turn = obstacle.pose(t, args)
        return position.array(), turn.array()

    return jax.vmap(at)(jnp.asarray(times, jnp.result_type(float)))
