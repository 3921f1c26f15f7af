"""The nodes of fits of worlds with joints: how they move while joints hold.

A node, brought onto the joints of the world with the parameters of its start, has as many
coordinates as joints leave it freedoms and their rates. They are orthonormal in standard
deviations of what was measured, so that a node from noisy poses is led to joints by what noise
makes most probable. Where parameters move the joints themselves, such as an anchor, the node goes
with them, by the least that joints ask for: at right angles to its free coordinates.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import State
from ..simulate import World
from .free_directions import HOLDS, STEPS, joint_errors, repeated
from .lanes import in_lanes
from .parameters import Parameters

# Nodes that a core takes at once.
LANES = 32
# Joints that no small motion of the bodies mends, but for this part, cannot hold any more.
MENDED = 1e-2


def held(
    world: World, free: Parameters, parameters: np.ndarray, nodes: State, noise: np.ndarray
) -> State:
    """Nodes near given ones in which the joints of their worlds hold, in NumPy arrays.

    Where Newton's method finds none, errors are left, which a simulation refuses.

    Args:
        world, free: the given world, and what is fitted of it.
        parameters: steps from it, shape (L, n_p).
        nodes: leading axes (L, J, N).
        noise: scales of their coordinates, shape (J, n_x).
    """
    for _ in range(STEPS):
        errors, rows = _linearised(world, free, parameters, nodes)
        # One that is not finite must not end the others.
        fine = np.asarray(np.isfinite(rows).all((-1, -2)) & np.isfinite(errors).all(-1))
        errors = np.where(fine[..., None], errors, 0.0)
        if np.abs(errors).max() <= HOLDS * np.finfo(errors.dtype).eps:
            break
        inverse, _ = _solved(rows[..., free.size :], noise)
        steps = -(inverse @ errors[..., None])[..., 0]
        nodes = moved(nodes, steps.astype(errors.dtype))
    return jax.tree.map(np.asarray, nodes)


def directions(
    world: World,
    free: Parameters,
    parameters: np.ndarray,
    nodes: State,
    noise: np.ndarray,
    n_free: int,
) -> Float[np.ndarray, "L J N n_x n_p+n_free"]:
    """How a node moves, in the chart of `State.retract`, with each parameter and with each of its
    free coordinates.

    Args:
        world, free, parameters, nodes, noise: as in `held`.
        n_free: how many coordinates of a node are free.
    """
    _, rows = _linearised(world, free, parameters, nodes)
    n_p, dtype = free.size, rows.dtype
    inverse, basis = _solved(rows[..., n_p:], noise, n_free)
    shift = -inverse @ np.where(np.isfinite(rows[..., :n_p]), rows[..., :n_p], 0.0)
    return np.concatenate([shift, basis], axis=-1).astype(dtype)


def count_free(world: World, free: Parameters, nodes: State, noise: np.ndarray) -> int:
    """How many coordinates of a node are free: twice the freedoms that joints leave.

    Args:
        world, free: as in `held`.
        nodes: on the joints of the world, leading axes (1, J, N).
        noise: as in `held`.

    Raises:
        ValueError: if joints could not hold with other parameters, or leave nothing free.
    """
    n_p = free.size
    _, rows = _linearised(world, free, np.zeros((1, n_p), free.dtype), nodes)
    by_state = rows[..., n_p:]
    sizes = np.linalg.svd(_alike(by_state)[0], compute_uv=False)
    # At a single node more rows than elsewhere may repeat others.
    n_held = int((sizes > repeated(rows) * sizes.max(-1, keepdims=True)).sum(-1).max())
    n_free = by_state.shape[-1] - n_held
    if n_free == 0:
        raise ValueError("fit: the joints of the world leave nothing free to move.")
    inverse, _ = _solved(by_state, noise)
    asked = rows[..., :n_p]
    left = asked - by_state @ (inverse @ asked)
    stuck = np.linalg.norm(left, axis=-2) > MENDED * np.linalg.norm(asked, axis=-2)
    # What the joints do not depend on is zero, or round-off.
    asks = np.linalg.norm(asked, axis=-2) > HOLDS * float(np.finfo(rows.dtype).eps)
    lost = np.flatnonzero((stuck & asks).any((0, 1, 2)))
    if lost.size:
        names = ", ".join(free.coordinate_names[k] for k in lost)
        raise ValueError(
            f"fit: joints that hold now could not hold with another {names}: of joints in a loop "
            "some repeat what others hold, and agree with them for these numbers alone. Choose "
            "other parameters, or joints that hold less."
        )
    return n_free


def to_free(
    along: Float[np.ndarray, "*batch n_x n_p+n_free"], noise: np.ndarray, n_p: int
) -> Float[np.ndarray, "*batch n_free n_x"]:
    """What makes free coordinates of a small step of a node, from `directions` and scales of the
    coordinates of a node, shape (J, n_x)."""
    basis = along[..., n_p:] / _of_nodes(noise)[..., None] ** 2
    return np.swapaxes(basis, -1, -2)


def moved(nodes: State, steps: np.ndarray) -> State:
    """Nodes moved by steps in their charts, leading axes (L, J, N)."""
    return _moved(nodes, steps.reshape(*steps.shape[:-1], -1, 12))


@jax.jit
def _moved(nodes: State, steps: Float[Array, "L J N n_bodies 12"]) -> State:
    return jax.vmap(jax.vmap(jax.vmap(State.retract)))(nodes, steps)


def _of_nodes(noise: np.ndarray) -> np.ndarray:
    """Scales of the coordinates, with axes for nodes."""
    return np.asarray(noise, np.float64)[:, None]


def _alike(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows, each of length 1, as places and speeds have other units, and their lengths. Rows that
    are not finite, of a node that has failed, are zero."""
    fine = np.isfinite(rows).all((-1, -2), keepdims=True)
    rows = np.where(fine, rows, 0.0).astype(np.float64)
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    length = np.where(length > 0, length, 1.0)
    return rows / length, length


def _solved(
    rows: np.ndarray, noise: np.ndarray, n_free: int = 0
) -> tuple[np.ndarray, Float[np.ndarray, "*batch n_x n_free"]]:
    """The pseudoinverse of rows, whose steps are the least in standard deviations, and the
    directions that no row speaks of.

    Which rows repeat others is found in meters and radians: in standard deviations, of which some
    are much larger than others, those of single precision hardly differ.
    """
    alike, length = _alike(rows)
    left, sizes, right = np.linalg.svd(alike, full_matrices=False)
    known = sizes > repeated(rows) * sizes.max(-1, keepdims=True)
    right = np.where(known[..., None], right, 0.0) * _of_nodes(noise)[..., None, :]
    outer, own, inner = np.linalg.svd(right)
    back = np.swapaxes(inner, -1, -2) * _of_nodes(noise)[..., None]
    upright = np.swapaxes(left * _inverse(sizes, known)[..., None, :] / length, -1, -2)
    sure = own > np.finfo(own.dtype).eps ** 0.75 * own.max(-1, keepdims=True)
    inverse = back[..., : own.shape[-1]] * _inverse(own, sure)[..., None, :]
    inverse = inverse @ (np.swapaxes(outer, -1, -2) @ upright)
    return inverse, back[..., back.shape[-1] - n_free :]


def _inverse(sizes: np.ndarray, known: np.ndarray) -> np.ndarray:
    """One over each size that is known, 0 in place of others."""
    return np.where(known, 1 / np.where(known, sizes, 1.0), 0.0)


def _linearised(world, free, parameters, nodes: State) -> tuple[np.ndarray, np.ndarray]:
    """Errors of joints, shape (L, J, N, n_rows), and how they change with the parameters and a
    node, shape (L, J, N, n_rows, n_p + n_x)."""
    lead = nodes.position.shape[:3]
    each = np.broadcast_to(np.asarray(parameters)[:, None, None], (*lead, np.shape(parameters)[-1]))
    flat = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, *leaf.shape[3:]), (each, nodes))
    found = in_lanes(_errors, world, flat, size=LANES, free=free)
    return jax.tree.map(lambda leaf: leaf.reshape(*lead, *leaf.shape[1:]), found)


@partial(jax.jit, static_argnames="free")
def _errors(
    world: World, lanes: tuple[Array, State], *, free: Parameters
) -> tuple[Float[Array, "N n_rows"], Float[Array, "N n_rows n"]]:
    def one(parameters, node):
        def errors(step):
            own = free.apply(world, parameters + step[: free.size])
            found = joint_errors(own, node.retract(step[free.size :].reshape(-1, 12)))
            return found, found

        n_x = 12 * node.position.shape[-2]
        here = jnp.zeros(free.size + n_x, parameters.dtype)
        rows, found = jax.jacfwd(errors, has_aux=True)(here)
        return found, rows

    return jax.vmap(one)(*lanes)
