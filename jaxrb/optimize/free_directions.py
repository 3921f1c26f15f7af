"""The states in which joints hold, and the directions in which they let a state move.

The derivative of a flight along them is all that plans need of jointed worlds: from a state whose
joints hold, no control leads elsewhere. A leg of two bodies on a rail has 4 of them, of 24. A step
along them leaves the joints by the square of its length, and is led back.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import Inertial, State
from ..bodies.joints.rows import JointRows
from ..bodies.state import to_phase
from ..simulate import World

# Singular values of the rows of joints that are less than this power of the round-off, relative to
# the largest, are of rows that repeat others.
_REPEATED = 0.4
# Newton's method for states whose joints hold ends after so many steps, or once errors are below
# this multiple of the round-off.
STEPS, HOLDS = 20, 100.0


def free_directions(world: World, states: State) -> Float[np.ndarray, "N n_x n_free"] | None:
    """An orthonormal basis, in the chart of `State.retract`, of the directions in which joints and
    their rates hold; of each of several states as many. None for a world without joints, whose
    states move in all directions.

    Args:
        world: with its joints.
        states: of its bodies, leading axis N.
    """
    if not world.joints:
        return None
    rows = np.asarray(_errors(world, states)[1])
    # A trial that is not finite must not end the others: any directions do for it.
    fine = np.asarray(np.isfinite(rows).all((1, 2)))
    rows = np.where(fine[:, None, None], rows, rows[np.argmax(fine)])
    if not fine.any():
        rows = np.zeros_like(rows)
    _, sizes, directions = np.linalg.svd(rows)
    least = repeated(rows) * sizes.max(axis=-1, keepdims=True)
    # At a state where more rows than elsewhere repeat others, more directions are free.
    held = int((sizes > least).sum(axis=-1).min())
    return np.swapaxes(directions[:, held:], -1, -2)


def onto_joints(world: World, states: State) -> State:
    """States near given ones in which joints and their rates hold, each by the least steps of
    Newton's method in the chart of `State.retract`. Where none is found, errors are left, which a
    simulation refuses.

    Args:
        world: with its joints; without any the states are as they were.
        states: of its bodies, leading axis N.
    """
    if not world.joints:
        return states
    for _ in range(STEPS):
        errors, rows = (np.asarray(leaf) for leaf in _errors(world, states))
        # One state that is not finite must not end the others.
        fine = np.asarray(np.isfinite(rows).all((1, 2)))[:, None]
        rows, errors = np.where(fine[..., None], rows, 0.0), np.where(fine, errors, 0.0)
        if np.abs(errors).max() <= HOLDS * np.finfo(errors.dtype).eps:
            break
        inverse = np.linalg.pinv(rows, rcond=repeated(rows))
        steps = -(inverse @ errors[..., None])[..., 0]
        states = _moved(states, steps.astype(errors.dtype))
    return states


def repeated(rows: np.ndarray) -> float:
    """Singular values of rows that are less, relative to the largest, are of repetitions."""
    return float(np.finfo(rows.dtype).eps) ** _REPEATED


def joint_errors(world: World, state: State) -> Float[Array, " n_rows"]:
    """By how much a state breaks each condition of the joints [m], and their rates [m/s]."""
    inertial = Inertial.of(world.bodies, state.position.dtype)
    joints, phase = JointRows.of(world.joints, inertial), to_phase(state, inertial)
    return jnp.concatenate([joints.violation(phase), joints.rate(phase, inertial)])


@jax.jit
def _moved(states: State, steps: Float[np.ndarray, "N n_x"]) -> State:
    return jax.vmap(lambda state, step: state.retract(step.reshape(-1, 12)))(states, steps)


@jax.jit
def _errors(
    world: World, states: State
) -> tuple[Float[Array, "N n_rows"], Float[Array, "N n_rows n_x"]]:
    """Errors of joints and their rates, and how they change with a state."""

    def errors(step, state):
        found = joint_errors(world, state.retract(step.reshape(-1, 12)))
        return found, found

    here = jnp.zeros(12 * len(world.bodies), states.position.dtype)

    def one(state):
        rows, found = jax.jacfwd(errors, has_aux=True)(here, state)
        return found, rows

    return jax.vmap(one)(states)
