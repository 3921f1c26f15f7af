"""Which pairs of solids can touch soon, and the contact points of these alone.

Where faces lie on each other is costly to find, and of many bodies few are close. A pair whose
solids are further apart, along the line between their centres of mass, than they can move in a
step has no contact in it, wherever exactly their closest points are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Dynamics, Phase
from ..bodies.incidence import AbstractIncidence
from ..math import norm, tree_where
from ..math.rarely import if_any
from ..math.selection import first_that_hold

Found = TypeVar("Found")

# Fewer pairs than so many are looked at together.
_FEW = 8
# Of the size of bodies, more than the round-off of gaps.
_PART = 1e-3


class Travel(eqx.Module):
    """How far bodies can move in a step, if nothing speeds them up to more than twice."""

    dynamics: Dynamics
    duration: Float[Array, ""]  # of a step [s]
    tolerance: float = eqx.field(static=True)  # the largest gap of a closed contact [m]

    def of(
        self, phase: Phase, sides: Sequence[AbstractIncidence], size: tuple[Array, Array]
    ) -> Float[Array, " n_pairs"]:
        """Gaps that are larger stay open in the step [m].

        Args:
            phase: of all bodies.
            sides: the first and the second body of each pair.
            size: of both, the radius of the ball about the centre of mass that holds it [m].
        """
        inertial = self.dynamics.inertial
        motion = inertial.velocity(phase), norm(inertial.angular_velocity(phase))
        (v, spin), (u, turn) = (side.gather(motion) for side in sides)
        speed = norm(v - u) + spin * size[0] + turn * size[1]
        fall = jnp.max(norm(self.dynamics.gravity)) * self.duration
        round_off = _PART * (size[0] + size[1])
        return 2 * (speed + fall) * self.duration + self.tolerance + round_off


def of_these(
    needed: Bool[Array, " n_pairs"],
    find: Callable[..., Found],
    given: tuple,
    otherwise: Found,
) -> Found:
    """What is found of the pairs of which it is needed, of others what it is otherwise.

    A few pairs at a time: a batch pays for as many as are needed in one of its worlds.

    Args:
        needed: of which pairs.
        find: gives it, with n_pairs leading, of what is given of some pairs.
        given: of all, with n_pairs leading.
        otherwise: of all, likewise.
    """
    number = needed.size
    at_once = max(_FEW, math.ceil(math.sqrt(2 * number)))  # as many as there are bodies, about
    if number <= at_once:
        found = if_any(
            jnp.any(needed), lambda own, _: find(*own), lambda _, other: other, given, otherwise
        )
        return _choose(needed, found, otherwise)
    rounds = -(-number // at_once)
    numbers = first_that_hold(needed, rounds * at_once)
    count = jnp.sum(needed, dtype=jnp.int32)

    def turn(_, some):
        own, first = some
        chosen = jax.tree.map(lambda leaf: leaf[own], (given, otherwise))
        return None, if_any(
            first < count, lambda own, _: find(*own), lambda _, other: other, *chosen
        )

    starts = at_once * jnp.arange(rounds, dtype=jnp.int32)
    _, found = jax.lax.scan(turn, None, (numbers.reshape(rounds, at_once), starts))
    place = jnp.where(needed, jnp.cumsum(needed, dtype=jnp.int32) - 1, 0)
    found = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[place], found)
    return _choose(needed, found, otherwise)


def _choose(needed: Bool[Array, " n_pairs"], found: Found, otherwise: Found) -> Found:
    return jax.vmap(tree_where)(needed, found, otherwise)
