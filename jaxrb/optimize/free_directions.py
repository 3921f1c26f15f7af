"""The directions in which joints let a state move.

The derivative of a flight along them is all that plans need of jointed worlds: from a state whose
joints hold, no control leads elsewhere. A leg of two bodies on a rail has 4 of them, of 24.
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
    rows = np.asarray(_rows(world, states))
    _, sizes, directions = np.linalg.svd(rows)
    least = np.finfo(rows.dtype).eps ** _REPEATED * sizes.max(axis=-1, keepdims=True)
    # At a state where more rows than elsewhere repeat others, more directions are free.
    held = int((sizes > least).sum(axis=-1).min())
    return np.swapaxes(directions[:, held:], -1, -2)


@jax.jit
def _rows(world: World, states: State) -> Float[Array, "N n_rows n_x"]:
    """How errors of joints and their rates change with a state."""
    dtype = states.position.dtype
    inertial = Inertial.of(world.bodies, dtype)
    joints = JointRows.of(world.joints, inertial)

    def errors(step, state):
        phase = to_phase(state.retract(step.reshape(-1, 12)), inertial)
        return jnp.concatenate([joints.violation(phase), joints.rate(phase, inertial)])

    here = jnp.zeros(12 * len(world.bodies), dtype)
    return jax.vmap(lambda state: jax.jacfwd(errors)(here, state))(states)
