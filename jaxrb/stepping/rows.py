"""Rows of a velocity problem: directions in which impulses act between bodies.

Velocities of a world are arrays of shape (6, n_bodies): those of the centres of mass in the world
frame, then angular velocities in the body frames. What acts between two bodies is an *item*, a
contact of three rows or a joint's equation of one. Arrays begin with their components, then items
or bodies; axes of lanes may follow, over which everything is elementwise.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..math import Quat, Vec3, rotate
from ..math.materialize import compute_once
from ..math.rarely import any_of_batch
from ..math.selection import first_that_hold

# The body of a side that does not move.
WORLD = -1
# Sums of more terms are products with a matrix of zeros and ones.
_MANY = 8
# Beyond so many blocks of items they are not taken one by one.
_FEW_BLOCKS = 4
# So few groups are written out, whether they are needed or not.
_SHORT = 3
# Of fewer lanes all items are looked at together, needed or not.
_FEW_LANES = 8


class Links:
    """Which bodies each item acts between; hashable, a part of the program.

    Attributes:
        sides: of each item its two bodies, the second of which may be `WORLD`.
        n_bodies: of the world.
        single: how many items at the end are no points of a face.
    """

    def __init__(self, sides: Sequence[tuple[int, int]], n_bodies: int, single: int = 0):
        self.sides = tuple((int(a), int(b)) for a, b in sides)
        assert all(a != WORLD for a, _ in self.sides)
        self.n_bodies = n_bodies
        self.single = single

    def __eq__(self, other):
        return (
            isinstance(other, Links)
            and self.sides == other.sides
            and self.n_bodies == other.n_bodies
            and self.single == other.single
        )

    def __hash__(self):
        return hash((self.sides, self.n_bodies, self.single))

    def __len__(self):
        return len(self.sides)

    @cached_property
    def columns(self) -> np.ndarray:
        """The sides as an array of shape (2, n_items), the world after all bodies."""
        sides = np.array(self.sides, int).reshape(-1, 2)
        return np.where(sides == WORLD, self.n_bodies, sides).T

    @cached_property
    def of_bodies(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each side the items of every body, as a table (see `total`)."""
        first, second = (group(column, self.n_bodies) for column in self.columns)
        return first, second

    @cached_property
    def runs(self) -> Runs:
        """The items in a row that act between the same bodies."""
        columns = self.columns
        changes = np.flatnonzero((columns[:, 1:] != columns[:, :-1]).any(axis=0)) + 1
        ends = np.array([*changes, len(self)] if len(self) else [], int)
        first = np.array([0, *changes] if len(self) else [], int)
        width = int(max(ends - first, default=0))
        return Runs(np.minimum(first, len(self) - width), first, ends, columns.T[first], width)

    @cached_property
    def of_pairs(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The items of each pair of bodies as a table, and the pair of each item; None where no
        pair has more than three, which are independent. A single item counts as a pair."""
        if not self.sides:
            return None
        alone = np.maximum(np.arange(len(self)) - (len(self) - self.single), -1)
        keys = np.column_stack([self.sides, alone])
        found = np.unique(keys, axis=0, return_index=True, return_inverse=True, return_counts=True)
        _, first, owner, count = found
        # In the order of their items, of which sums then are over what is side by side.
        owner = np.argsort(np.argsort(first))[owner.reshape(-1)]
        return (group(owner, len(count)), owner) if count.max() > 3 else None

    @cached_property
    def between_pairs(self) -> Links:
        """With one item for each pair of bodies in that table."""
        assert self.of_pairs is not None
        return Links([self.sides[row[0]] for row in self.of_pairs[0]], self.n_bodies)

    @cached_property
    def of_faces(self) -> np.ndarray:
        """The rows of that table, of pairs that have more than three."""
        if self.of_pairs is None:
            return np.zeros((0, 0), int)
        table, owner = self.of_pairs
        return table[(table < len(owner)).sum(axis=1) > 3]


def group(owner: np.ndarray, n_owners: int) -> np.ndarray:
    """The items of each owner in a row, filled up with the number of items; owners beyond the
    number have none."""
    rows = [np.flatnonzero(owner == k) for k in range(n_owners)]
    width = max((len(row) for row in rows), default=0)
    table = np.full((n_owners, width), len(owner))
    for row, items in zip(table, rows, strict=True):
        row[: len(items)] = items
    return table


@dataclasses.dataclass(frozen=True)
class Runs:
    """Items in a row that act between the same bodies; all are read in slices of one width."""

    start: np.ndarray  # of each slice
    first: np.ndarray  # of its items, the first that belongs to the run
    end: np.ndarray  # after the last one
    sides: np.ndarray  # both bodies, as in `Links.columns`, shape (n_runs, 2)
    width: int

    def __len__(self):
        return len(self.start)

    def needed(self, items: Bool[Array, " n_items"]) -> Bool[Array, " n_runs"]:
        """Which have an item that is needed, of every lane."""
        own = jnp.any(items, axis=tuple(range(1, items.ndim)))
        before = jnp.cumsum(jnp.append(False, own), dtype=jnp.int32)
        return before[self.end] > before[self.first]

    def slice(self, k, leaf: Array, axis: int) -> Array:
        """Of numbers of all items those of one slice."""
        return jax.lax.dynamic_slice_in_dim(leaf, entry(self.start, k), self.width, axis)

    def own(self, k, leaf: Array, axis: int) -> Array:
        """Likewise, zero where an item of the slice does not belong to the run."""
        place = entry(self.start, k) + np.arange(self.width, dtype=np.int32)
        belongs = (place >= entry(self.first, k)) & (place < entry(self.end, k))
        shape = [1] * leaf.ndim
        shape[axis] = self.width
        return jnp.where(belongs.reshape(shape), self.slice(k, leaf, axis), 0.0)


def over_needed(
    function: Callable[[Any, Any], Any], needed: Bool[Array, " n"], carry: Any, at_once: int = 0
) -> Any:
    """A loop over those of a row of things that are needed in any lane.

    Of many bodies few are near each other: a turn costs as much as those that touch.

    Args:
        function: of a number and what is carried; gives what is carried on.
        needed: which numbers are.
        carry: at the start.
        at_once: of how many numbers the function is given an array, in which some may come twice;
            by default of one number.
    """
    size = max(at_once, 1)
    count = len(needed)
    if 0 < count <= at_once:
        return function(np.arange(count), carry)
    if count <= _SHORT:
        for k in range(count):
            carry = function(k if not at_once else np.array([k]), carry)
        return carry
    wanted = any_of_batch(needed)
    numbers = first_that_hold(wanted, -(-count // size) * size)

    def turn(k, carry):
        own = jax.lax.dynamic_slice_in_dim(numbers, k * size, size)
        return function(own if at_once else own[0], carry)

    rounds = (jnp.sum(wanted, dtype=jnp.int32) + size - 1) // size
    return jax.lax.fori_loop(0, rounds, turn, carry)


def entry(table: np.ndarray | Array, k) -> Any:
    """An entry of a table; both may be known beforehand or not."""
    if isinstance(table, np.ndarray):
        if isinstance(k, int | np.integer):
            return table[k].item()
        table = jnp.asarray(table, np.bool_ if table.dtype == np.bool_ else np.int32)
    return table[k]


def at_place(a: Array, k) -> Array:
    """An entry along the first axis, whose number may be known beforehand."""
    return a[k] if isinstance(k, int) else jax.lax.dynamic_index_in_dim(a, k, 0, keepdims=False)


def put_at(a: Array, k, value: Array) -> Array:
    """With another entry there."""
    if isinstance(k, int):
        return a.at[k].set(value)
    return jax.lax.dynamic_update_index_in_dim(a, value, k, 0)


def take(array: Float[Array, "..."], index: np.ndarray | Array, axis: int) -> Float[Array, "..."]:
    """The entries of numbers along an axis, which are best known beforehand."""
    known = isinstance(index, np.ndarray)
    if known and np.array_equal(index, np.arange(array.shape[axis])):
        return array
    if known and index.ndim == 1 and (blocks := _blocks(tuple(index.tolist()))):
        parts = []
        for _, first, count, width in blocks:
            own = jax.lax.slice_in_dim(array, first, first + count, axis=axis)
            shape = [*own.shape[: axis + 1], width, *own.shape[axis + 1 :]]
            wide = jnp.broadcast_to(jnp.expand_dims(own, axis + 1), shape)
            parts.append(jax.lax.collapse(wide, axis, axis + 2))
        return jnp.concatenate(parts, axis=axis)
    return jnp.take(array, index, axis=axis, mode="clip")


def total(array: Float[Array, "..."], table: np.ndarray, axis: int) -> Float[Array, "..."]:
    """The sums of the entries that each row of a table names; one beyond the last names none."""
    n, width = array.shape[axis], table.shape[1]
    if width == 0:
        shape = (*array.shape[:axis], len(table), *array.shape[axis + 1 :])
        return jnp.zeros(shape, array.dtype)
    if blocks := _blocks(_owners(table, n)):
        parts = []
        for first, _, count, width in blocks:
            own = jax.lax.slice_in_dim(array, first, first + count * width, axis=axis)
            parts.append(jnp.sum(_split(own, axis, count, width), axis=axis + 1))
        return jnp.concatenate(parts, axis=axis)
    if width > _MANY:
        chosen = jnp.asarray((table[:, :, None] == np.arange(n)).any(axis=1), array.dtype)
        # The factor whose terms are far apart in memory is copied before it is multiplied: the
        # numbers are the second one where lanes follow, and the first one where these are the last.
        exact = jax.lax.Precision.HIGHEST
        if axis == array.ndim - 1:
            return jnp.matmul(array, chosen.T, precision=exact)
        summed = jnp.tensordot(chosen, array, axes=(1, axis), precision=exact)
        return jnp.moveaxis(summed, 0, axis)
    if (table == n).any():
        pad = [(0, 0)] * array.ndim
        pad[axis] = (0, 1)
        array = jnp.pad(array, pad)
    return added(take(array, column, axis) for column in table.T)


class Block(NamedTuple):
    """Items next to each other, of which as many belong to each of several owners in turn."""

    first: int  # of the items
    owner: int  # the first
    owners: int  # how many
    width: int  # of items that each has


@functools.cache
def _blocks(owner: tuple[int, ...]) -> tuple[Block, ...]:
    """The items of these owners as a few blocks, of whose owners each follows the one before; none
    where that is not so, or each has one item."""
    blocks: list[Block] = []
    for number, run in itertools.groupby(range(len(owner)), owner.__getitem__):
        items = list(run)
        last = blocks[-1] if blocks else None
        if last and last.owner + last.owners == number and last.width == len(items):
            blocks[-1] = last._replace(owners=last.owners + 1)
        else:
            blocks.append(Block(items[0], number, 1, len(items)))
    few = len(blocks) <= _FEW_BLOCKS and any(block.width > 1 for block in blocks)
    return tuple(blocks) if few else ()


def _owners(table: np.ndarray, n: int) -> tuple[int, ...]:
    """Of each of n items the row of a table that names it; none if rows do not name them in turn,
    each as often as any."""
    row, column = np.nonzero(table < n)
    in_turn = np.array_equal(table[row, column], np.arange(n))
    return tuple(row.tolist()) if in_turn and len(np.unique(row)) == len(table) else ()


def _split(array: Array, axis: int, *sizes: int) -> Array:
    """With an axis as several."""
    return array.reshape(*array.shape[:axis], *sizes, *array.shape[axis + 1 :])


def added(parts: Iterable[Array]) -> Array:
    """The sum of arrays, term by term."""
    return functools.reduce(operator.add, parts)


def contracted(a: Array, b: Array, axis: int) -> Array:
    """The sum of products over one short axis. Term by term, with a slice of both for each, the
    program would be a multiple as long, and no faster. (XLA's sums over two axes are slow.)"""
    return jnp.sum(a * b, axis=axis)


def each(mask, like: Float[Array, " n ..."]):
    """What is known of every item, for arrays that may have axes of lanes."""
    return mask.reshape(-1, *(1,) * (like.ndim - 1))


def of_lane(number: Array, like: Array) -> Array:
    """A number of each lane with as many axes as an array."""
    return jnp.expand_dims(number, range(like.ndim - number.ndim))


def moved(array: Float[Array, "..."]) -> Float[Array, "..."]:
    """Of an array over bodies (its second axis) one with a body that does not move at the end."""
    return jnp.concatenate([array, jnp.zeros_like(array[:, :1])], axis=1)


class Rows(eqx.Module):
    """Items of k rows each.

    Attributes:
        direction: of each row, world frame; shape (k, 3, n_items).
        levers: of both sides, the directions' moments about the centres of mass, body frames [m],
            shape (k, 3, n_items); what acts on the second body has the opposite sign.
        links: the bodies of each item.
    """

    direction: Float[Array, "rows 3 n_items"]
    levers: tuple[Float[Array, "rows 3 n_items"], Float[Array, "rows 3 n_items"]]
    links: Links = eqx.field(static=True)

    def of_run(self, k) -> tuple[Float[Array, "rows 6 n"], Float[Array, "rows 6 n"]]:
        """The Jacobians of one slice of `Links.runs`."""
        some = lambda leaf: self.links.runs.slice(k, leaf, 2)  # noqa: E731
        return jacobians(some(self.direction), some(self.levers[0]), some(self.levers[1]))

    def velocity(self, v: Float[Array, "6 n_bodies"]) -> Float[Array, "rows n_items"]:
        """Of the first body relative to the second, along each row: G v."""
        v = moved(v)
        first, second = (take(v, column, 1) for column in self.links.columns)
        relative = first[:3] - second[:3]
        here = contracted(self.direction, relative[None], 1)
        here = here + contracted(self.levers[0], first[None, 3:], 1)
        return compute_once(here - contracted(self.levers[1], second[None, 3:], 1))

    def terms(self, v: Float[Array, "6 n_bodies"]) -> Float[Array, "rows n_items"]:
        """The sizes of the terms of which `velocity` is the sum: it is as exact as these."""
        v = jnp.abs(moved(v))
        first, second = (take(v, column, 1) for column in self.links.columns)
        direction, here, there = (jnp.abs(rows) for rows in (self.direction, *self.levers))
        linear = contracted(direction, (first[:3] + second[:3])[None], 1)
        turning = contracted(here, first[None, 3:], 1) + contracted(there, second[None, 3:], 1)
        return linear + turning

    def turned(self, turn: Quat) -> Rows:
        """With the levers of each body turned, as from one body frame into another."""
        zero = jnp.zeros_like(turn.w[:1])
        padded = Quat(
            jnp.concatenate([turn.w, zero + 1]),
            jax.tree.map(lambda leaf: jnp.concatenate([leaf, zero]), turn.v),
        )
        levers = []
        for lever, column in zip(self.levers, self.links.columns, strict=True):
            own = jax.tree.map(lambda leaf, c=column: take(leaf, c, 0)[None], padded)
            moved = rotate(own, Vec3(lever[:, 0], lever[:, 1], lever[:, 2]))
            levers.append(jnp.stack([moved.x, moved.y, moved.z], axis=1))
        return Rows(self.direction, (levers[0], levers[1]), self.links)

    def momentum(self, impulse: Float[Array, "rows n_items"]) -> Float[Array, "6 n_bodies"]:
        """What impulses along the rows add to the momenta: G^T P."""
        linear, first, second = (
            contracted(rows, impulse[:, None], 0) for rows in (self.direction, *self.levers)
        )
        links, parts = self.links, [jnp.concatenate([linear, own]) for own in (first, second)]
        if links.of_pairs is not None:
            links, parts = links.between_pairs, [total(own, links.of_pairs[0], 1) for own in parts]
        here, there = (total(own, of, 1) for own, of in zip(parts, links.of_bodies, strict=True))
        return compute_once(here - there)

    def momentum_of(
        self, impulse: Float[Array, "rows n_items"], needed: Bool[Array, " n_items"]
    ) -> Float[Array, "6 n_bodies"]:
        """As `momentum`, where only what is needed in any lane has impulses; not to be
        differentiated. One run after another takes as long for a few lanes as for one: of fewer,
        or of none, as under `vmap`, nothing is left out."""
        runs, n = self.links.runs, self.links.n_bodies
        if len(runs) <= _SHORT or math.prod(impulse.shape[2:]) < _FEW_LANES:
            return self.momentum(impulse)

        def add(k, total):
            own = runs.own(k, impulse, 1)
            for side, jacobian in enumerate(self.of_run(k)):
                body = entry(runs.sides[:, side], k)
                pushed = added(
                    contracted(jacobian[:, :, c], own[:, None, c], 0) for c in range(runs.width)
                )
                total = put_at(total, body, at_place(total, body) + pushed)
            return total

        # One more at the end, for the world.
        total = jnp.zeros((n + 1, 6, *impulse.shape[2:]), impulse.dtype)
        return jnp.moveaxis(over_needed(add, runs.needed(needed), total)[:n], 0, 1)


def jacobians(direction, first, second) -> tuple[Array, Array]:
    """Of the velocities of rows by those of both bodies, with the levers of each: shape
    (rows, 6, n_items)."""
    here = jnp.concatenate([direction, first], axis=1)
    return here, -jnp.concatenate([direction, second], axis=1)
