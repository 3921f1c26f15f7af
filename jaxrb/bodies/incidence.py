"""Which bodies the rows of contacts and joints belong to."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int


class AbstractIncidence(eqx.Module):
    """Of each of a row of contacts, or of rows of joints, the body on one side."""

    bodies: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def gather(self, tree) -> Any:
        """What leaves with one entry a body hold, with one entry a contact."""

    @abc.abstractmethod
    def scatter(self, tree, n_bodies: int) -> Any:
        """The sums over the contacts of each body."""

    def chosen(self, which: Bool[Array, " n_contacts"], n_bodies: int) -> Bool[Array, " n_bodies"]:
        """Which body is at the one contact for which `which` holds, if any."""
        own = jnp.sum(jnp.where(which, jnp.asarray(self.bodies, jnp.int32), 0), dtype=jnp.int32)
        return (jnp.arange(n_bodies, dtype=jnp.int32) == own) & jnp.any(which)


class Incidence(AbstractIncidence):
    """The incidence of rows that stay.

    Attributes:
        bodies: in the order of the phase; -1 is the world, which is no body.
    """

    bodies: tuple[int, ...] = eqx.field(static=True)

    def gather(self, tree):
        """What leaves with one entry a body hold, with one entry a contact.

        For the world these are the entries of some body, to be multiplied by zero.
        """
        indices = np.maximum(self.bodies, 0)
        if len(indices) == 1:
            return jax.tree.map(lambda leaf: leaf[indices[0] : indices[0] + 1], tree)
        return jax.tree.map(lambda leaf: leaf.at[indices].get(mode="promise_in_bounds"), tree)

    def scatter(self, tree, n_bodies: int):
        """The sums over the contacts of each body, as a gather: a scatter would leave fused
        kernels."""
        if len(self.bodies) == 1:
            here = np.arange(n_bodies) == self.bodies[0]
            return jax.tree.map(lambda leaf: jnp.where(here, leaf, 0.0), tree)
        table = self._table(n_bodies)

        def total(leaf):
            padded = jnp.concatenate([leaf, jnp.zeros_like(leaf[:1])])
            return jnp.sum(padded.at[table].get(mode="promise_in_bounds"), axis=1)

        return jax.tree.map(total, tree)

    def among(self, others: Incidence) -> Incidence:
        """Of each row the body that others have in the place of its own."""
        return Incidence(tuple(others.bodies[body] for body in self.bodies))

    def _table(self, n_bodies: int) -> np.ndarray:
        """The contacts of each body in a row, filled up with the number of contacts."""
        rows = np.flatnonzero(np.array(self.bodies) >= 0)
        bodies = np.array(self.bodies)[rows]
        order, count = np.argsort(bodies, kind="stable"), np.bincount(bodies, minlength=n_bodies)
        place = np.arange(len(bodies)) - np.repeat(np.cumsum(count) - count, count)
        table = np.full((n_bodies, count.max()), len(self.bodies))
        table[bodies[order], place] = rows[order]
        return table


class VaryingIncidence(AbstractIncidence):
    """The incidence of rows that are chosen while a program runs.

    Attributes:
        bodies: in the order of the phase, none of them the world.
    """

    bodies: Int[Array, " n_contacts"]

    def gather(self, tree):
        return jax.tree.map(lambda leaf: leaf.at[self.bodies].get(mode="promise_in_bounds"), tree)

    def scatter(self, tree, n_bodies: int):
        """By comparison: of few rows."""
        here = jnp.arange(n_bodies, dtype=jnp.int32)[:, None] == self.bodies[None]
        return jax.tree.map(lambda leaf: jnp.sum(jnp.where(here, leaf[None], 0.0), axis=1), tree)
