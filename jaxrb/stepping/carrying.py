"""How obstacles that move carry what touches them through a step.

The law of contact holds for velocities relative to the obstacle. Of one that accelerates these are
measured against its velocity at the start of the step before the impulses, and against that at its
end after them: with one velocity for both, what rests on a table that accelerates downwards would
recede from it in the next step, be found open, and fall.

So the velocity of what rests is that of the table at the end of each step, and the gap is what the
rule by which places follow leaves of the displacement: with w the table's velocity and theta = 1/2,

    h (w_k + w_{k+1})/2 - (way of the table) = h^3 w''/12 + ...,

whose sum is h^2/12 times the change of the acceleration, and no more. Where that opens the gap, it
is closed in the next step (see `Surroundings.closed`), which takes h^2 w''/12 of the velocity. A
rule with another theta has the velocities (theta - 1/2) h earlier, for both; so its gap, too, is of
order 2, while with those at the ends of the step what theta = 1 leaves would be of order 1.

Velocities that make the way of the table exact are those of its chords between the middles of
steps; then places at the ends of steps are off by h^2/8 times its acceleration, and all depends on
steps being alike: the first one, a shorter one, and one after a projection would not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..contact.base import AcrossStep
from ..contact.points import ContactPoints
from ..math import Vec3

# Gaps stay closed up to this multiple of the way by which an obstacle departs from either velocity:
# what a step opens of a gap is at most half of that way, and what the steps before it have left,
# or such that were longer, comes besides.
_OPEN = 2.0


class Carrying(eqx.Module):
    """How surfaces of obstacles move along the rows of contacts in a step.

    Attributes:
        before, after: velocities at its start and at its end [m/s].
        ahead: along the normal, how much further they are, when contacts are found, than with the
            velocity at the start [m].
        departs: the way along the normal by which obstacles depart from either velocity [m].
    """

    before: Float[Array, "3 n_contacts"]
    after: Float[Array, "3 n_contacts"]
    ahead: Float[Array, " n_contacts"]
    departs: Float[Array, " n_contacts"]

    @property
    def open(self) -> Float[Array, " n_contacts"]:
        """By how much gaps may be open that are closed, as the obstacle leaves them so [m]."""
        return _OPEN * self.departs

    @staticmethod
    def of(
        points: Sequence[Any],
        direction: Float[Array, "3 3 n_contacts"],
        sources: tuple[int, ...],
    ) -> Carrying | None:
        """Of all contacts; None where no obstacle moves, or no step asks how.

        Args:
            points: the contacts, and stops of joints.
            direction: the rows.
            sources: the contacts of what resists turning, which comes after all contacts; its
                normal row has what theirs have.
        """
        known = [
            x.surface.across if isinstance(x, ContactPoints) and x.surface else None for x in points
        ]
        first = next((across for across in known if across is not None), None)
        if first is None:
            return None
        none, found = jax.tree.map(lambda leaf: jnp.zeros(0, leaf.dtype), first), []
        for row, across in zip(points, known, strict=True):
            still = jax.tree.map(lambda leaf, n=row.gap.size: jnp.zeros(n, leaf.dtype), none)
            found.append(still if across is None else across)
        rest = direction.shape[-1] - sum(row.gap.size for row in points) - len(sources)

        def joined(*leaves):
            row = jnp.concatenate(leaves)
            return jnp.concatenate([row, row[np.array(sources, int)], jnp.zeros(rest, row.dtype)])

        return Carrying._along(jax.tree.map(joined, *found), direction)

    @staticmethod
    def _along(across: AcrossStep, direction: Float[Array, "3 3 n_contacts"]) -> Carrying:
        def along(vector: Vec3) -> Float[Array, "k n_contacts"]:
            x, y, z = (direction[:, k] for k in range(3))
            return x * vector.x[None] + y * vector.y[None] + z * vector.z[None]

        early, late = (jnp.abs(along(bend)[0]) for bend in across.bends)
        departs = jax.lax.stop_gradient(early + late)
        return Carrying(along(across.before), along(across.after), along(across.ahead)[0], departs)
