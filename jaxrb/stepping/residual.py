"""What impulses leave unsolved of a cone problem, without units.

The residual is the largest component of the natural map of any contact, and of the velocity of any
joint row, in the unit of velocities (see `ConeProblem.units`). Of one that yields it is what the
velocity would change by if the reaction were what the velocity asks for.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..math import tree_where
from ..math.rarely import if_any
from .cone import ConeProblem, Units
from .pressure import level
from .rows import of_lane
from .tolerances import Tolerances
from .turns import length, natural_map


def velocities_of(problem: ConeProblem, units: Units, p, q):
    """Velocities after impulses without units, and those at contacts and of joint rows."""
    momentum = problem.momentum_of_active(units.impulse[None] * p, units.reaction * q)
    v = problem.free + problem.over_mass(momentum)
    u, w = problem.contact_velocity(v), problem.joint_velocity(v)
    return v, u / units.speed[None], w / units.speed


def residual_of(problem: ConeProblem, units: Units, p, q, u, w):
    """The largest component of the natural map and of the joint rows."""
    missed = jnp.abs(natural_map(p, u, problem.friction))
    return _largest(problem, units, missed, q, w)


def _largest(problem: ConeProblem, units: Units, missed, q, w):
    """Of what contacts that take part have missed, and of what joint rows have."""
    asked, d = problem.yielded(units, q, w)
    w = problem.where_yielding((q - asked) / (1 + d), w)
    missed = jnp.max(jnp.where(problem.active[None], missed, 0.0), axis=(0, 1), initial=0.0)
    return jnp.maximum(missed, jnp.max(jnp.abs(w), axis=0, initial=0.0))


class Errors(NamedTuple):
    """What round-off makes of the displacements of a step, per duration [m/s].

    Each gap has its own error: others of the same bodies, to which places far away belong, may have
    larger ones, and by these a contact would open.

    Attributes:
        gap, slip: of each contact.
        largest: of gaps and joints, shape (1,).
    """

    gap: Float[Array, " n_contacts"]
    slip: Float[Array, " n_contacts"]
    largest: Float[Array, "1"]

    def least(self, active: Bool[Array, " n_contacts"]) -> Float[Array, "1"]:
        """Of the gaps of some contacts, and no more than the largest."""
        gaps = jnp.where(active, self.gap, jnp.inf)
        return jnp.minimum(self.largest, jnp.min(gaps, initial=jnp.inf))


def missed_at(
    problem: ConeProblem, impulse, reaction, errors: Errors, part
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """What displacements by impulses [N s] miss, relative to the largest velocity of the problem:
    beyond a part of the errors of gaps and joints; and beyond all of them and those of slips.

    With linear pressures where faces slide, if these make it less: of an answer to no more than
    the error of the problem they may make more.
    """
    begun = Begun.of(problem, impulse, reaction)
    begun = if_any(begun.unsolved, _better_levelled, _as_it_is, problem, begun)
    units, p, q, *_ = begun
    _, u, w = velocities_of(problem, units, p, q)
    gap, slip, largest = (error / units.speed for error in errors)

    def beyond(missed, part):
        missed = missed.at[0].add(part * (largest - gap))
        return _largest(problem, units, missed, q, w) - part * largest[0]

    missed = jnp.abs(natural_map(p, u, problem.friction))
    slips = length(u[1:]) > slip
    u = u.at[1:].set(jnp.where(slips[None], u[1:], 0.0))
    least = jnp.abs(natural_map(p, u, problem.friction)).at[1:].add(-slip[None])
    least = jnp.minimum(beyond(missed, 1.0), beyond(least, 1.0))
    return jnp.maximum(beyond(missed, part), 0.0), jnp.maximum(least, 0.0)


class Begun(NamedTuple):
    """Where a search begins: given impulses without units.

    They are kept, without a turn, if they leave a residual of no more than `enough`.
    """

    units: Units
    p: Float[Array, "3 n_contacts"]
    q: Float[Array, " n_rows"]
    residual: Float[Array, ""]
    enough: Float[Array, ""]

    @staticmethod
    def of(problem: ConeProblem, impulse, reaction, exactly=False) -> Begun:
        """At impulses [N s]; see `search`."""
        units = problem.units()
        p, q = problem.press(impulse) / units.impulse[None], reaction / units.reaction
        p = jnp.where(problem.active[None], p, 0.0)
        _, u, w = velocities_of(problem, units, p, q)
        residual = residual_of(problem, units, p, q, u, w)
        tolerances = Tolerances.of(p.dtype)
        enough = jnp.where(exactly, tolerances.reached, tolerances.kept)
        return Begun(units, p, q, residual, enough.astype(p.dtype))

    @property
    def wanting(self) -> Bool[Array, ""]:
        """Whether turns are to follow."""
        return ~(self.residual <= self.enough)

    @property
    def unsolved(self) -> Bool[Array, ""]:
        """Whether these impulses do not solve the problem."""
        return ~(self.residual <= Tolerances.of(self.p.dtype).accepted)

    def levelled(self, problem: ConeProblem) -> Begun:
        """With linear pressures where faces slide; what solves the problem is left as it is."""
        units, p, q, residual, enough = self
        _, u, _ = velocities_of(problem, units, p, q)
        even = level(problem, p, u)
        _, u, w = velocities_of(problem, units, even, q)
        p = jnp.where(of_lane(self.unsolved, p), even, p)
        levelled = residual_of(problem, units, even, q, u, w)
        residual = jnp.where(self.unsolved, levelled, residual)
        return Begun(units, p, q, residual, enough)


def _as_it_is(problem: ConeProblem, begun: Begun) -> Begun:
    return begun


def _better_levelled(problem: ConeProblem, begun: Begun) -> Begun:
    levelled = begun.levelled(problem)
    return tree_where(levelled.residual < begun.residual, levelled, begun)
