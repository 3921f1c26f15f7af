"""Matrices of 6 x 6 blocks, one for each pair of bodies that act on each other, and their solution.

Which blocks there may be is known beforehand, so the elimination is planned in Python: an order of
the bodies that fills in few blocks, and a list of products. They are carried out in loops, so that
the program is as large for a hundred bodies as for three, and those of blocks that are zero in all
lanes are left out. No pivots are exchanged; the inverse of each diagonal block is formed, which is
cheap, and what it lacks in digits one refinement gives back.

Blocks have shape (n_blocks, 6, 6, ...) with axes of lanes at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..math.selection import first_that_hold
from .rows import at_place, contracted, entry, put_at

# Loops of fewer turns are written out.
_SHORT = 3


class Elimination:
    """The plan by which a matrix with given blocks is factored; hashable, a part of the program.

    Attributes:
        n_bodies: of the world.
        links: the pairs of bodies whose blocks are not zero, i < j.
    """

    def __init__(self, n_bodies: int, links: Iterable[tuple[int, int]]):
        self.n_bodies = n_bodies
        self.links = frozenset((min(p), max(p)) for p in links if p[0] != p[1])

    def __eq__(self, other):
        return (
            isinstance(other, Elimination)
            and self.n_bodies == other.n_bodies
            and self.links == other.links
        )

    def __hash__(self):
        return hash((self.n_bodies, self.links))

    @cached_property
    def _plan(self):
        """The order of elimination and, with what it fills in, the later neighbours of each body:
        the body of least degree comes next."""
        near = {k: set() for k in range(self.n_bodies)}
        for i, j in self.links:
            near[i].add(j)
            near[j].add(i)
        order, later = [], {}
        while near:
            pivot = min(near, key=lambda k: (len(near[k]), k))
            own = near.pop(pivot)
            order.append(pivot)
            later[pivot] = sorted(own)
            for k in own:
                near[k] |= own
                near[k] -= {k, pivot}
        place = {body: k for k, body in enumerate(order)}
        return order, {body: sorted(own, key=place.__getitem__) for body, own in later.items()}

    @cached_property
    def blocks(self) -> dict[tuple[int, int], int]:
        """The number of each block by its row and column: first the diagonal ones, by body."""
        numbers = {(k, k): k for k in range(self.n_bodies)}
        _, later = self._plan
        for body, own in later.items():
            for k in own:
                for pair in ((body, k), (k, body)):
                    numbers[pair] = len(numbers)
        return numbers

    @cached_property
    def _operations(self):
        """In the order of elimination: the bodies; and for each body ranges of the products
        (row below, own) and (target, below, right)."""
        order, later = self._plan
        at = self.blocks
        divide, update, ends = [], [], [(0, 0)]
        for body in order:
            for i in later[body]:
                divide.append((at[i, body], body))
                update += [(at[i, j], at[i, body], at[body, j]) for j in later[body]]
            ends.append((len(divide), len(update)))
        return (
            np.array(order),
            np.array(divide, int).reshape(-1, 2),
            np.array(update, int).reshape(-1, 3),
            np.array(ends),
        )

    @cached_property
    def _sweep(self) -> np.ndarray:
        """Of the substitution: (block, body changed, body read). Diagonal blocks, which are
        inverted, replace what they multiply, from others the product is subtracted."""
        order, later = self._plan
        at = self.blocks
        forward, backward = [], []
        for body in order:
            forward += [(at[i, body], i, body) for i in later[body]]
        for body in reversed(order):
            backward += [(at[body, j], body, j) for j in later[body]] + [(body, body, body)]
        return np.array(forward + backward, int)

    def factor(self, matrix: Float[Array, "n_blocks 6 6 ..."]) -> Float[Array, "n_blocks 6 6 ..."]:
        """The factors L (unit diagonal) and U in place of the blocks, diagonal ones inverted."""
        order, divide, update, ends = self._operations
        own = both = None
        if self.n_bodies > _SHORT:
            filled = self._filled(matrix)
            own, both = filled[divide[:, 0]], filled[update[:, 1]] & filled[update[:, 2]]
        divide, before = listed(divide, own)
        update, earlier = listed(update, both)
        columns, products = before[ends[:, 0]], earlier[ends[:, 1]]

        def eliminate(k, a):
            body = entry(order, k)
            a = put_at(a, body, inverse6(at_place(a, body)))
            a = repeat(entry(columns, k), entry(columns, k + 1), column, a)
            return repeat(entry(products, k), entry(products, k + 1), product, a)

        def column(m, a):
            block, body = (entry(column, m) for column in divide)
            return put_at(a, block, _matmul(at_place(a, block), at_place(a, body)))

        def product(m, a):
            target, left, right = (entry(column, m) for column in update)
            change = _matmul(at_place(a, left), at_place(a, right))
            return put_at(a, target, at_place(a, target) - change)

        return repeat(0, self.n_bodies, eliminate, matrix)

    def _filled(self, matrix) -> Bool[Array, " n_blocks"]:
        """Which factors of a matrix are not zero in all lanes."""
        _, _, update, ends = self._operations
        turns = np.repeat(np.arange(self.n_bodies), np.diff(ends[:, 1]))
        target, left, right = update.T

        def fill(k, filled):
            return filled.at[target].max(filled[left] & filled[right] & (turns == k))

        return jax.lax.fori_loop(0, self.n_bodies, fill, _not_zero(matrix))

    def solve(
        self,
        factors: Float[Array, "n_blocks 6 6 ..."],
        right: Float[Array, "6 n_bodies ..."],
        transposed: bool = False,
    ) -> Float[Array, "6 n_bodies ..."]:
        """The solution of the factored matrix, or of its transpose."""
        sweep, x = self._sweep, jnp.moveaxis(right, 1, 0)
        if transposed:
            sweep = sweep[::-1, [0, 2, 1]]
        needed = None if self.n_bodies <= _SHORT else _not_zero(factors)[sweep[:, 0]]
        sweep, before = listed(sweep, needed)

        def step(m, x):
            block, changed, read = (entry(column, m) for column in sweep)
            factor = at_place(factors, block)
            factor = jnp.swapaxes(factor, 0, 1) if transposed else factor
            product = _matvec(factor, at_place(x, read))
            following = jnp.where(block < self.n_bodies, product, at_place(x, changed) - product)
            return put_at(x, changed, following)

        return jnp.moveaxis(repeat(0, before[-1], step, x), 0, 1)


def _not_zero(blocks: Float[Array, "n_blocks 6 6 ..."]) -> Bool[Array, " n_blocks"]:
    """Which are not zero, in any lane: of many bodies few act on each other."""
    return jnp.any(blocks != 0, axis=tuple(range(1, blocks.ndim)))


def listed(operations: np.ndarray, needed: Bool[Array, " n_operations"] | None):
    """Of operations in a row those that are needed, all by default, by columns; and how many of
    them come before each."""
    if needed is None or not len(operations):
        return tuple(operations.T), np.arange(len(operations) + 1)
    before = jnp.cumsum(jnp.append(False, needed), dtype=jnp.int32)
    places = first_that_hold(needed, len(operations))
    return tuple(jnp.asarray(column, jnp.int32)[places] for column in operations.T), before


def repeat(start, end, function: Callable, carry):
    """`fori_loop`, written out where it is short."""
    known = isinstance(start, int | np.integer) and isinstance(end, int | np.integer)
    if known and end - start <= _SHORT:
        for k in range(int(start), int(end)):
            carry = function(k, carry)
        return carry
    return jax.lax.fori_loop(start, end, function, carry)


def _matmul(a: Array, b: Array) -> Array:
    return contracted(a[:, :, None], b[None], 1)


def _matvec(a: Array, b: Array) -> Array:
    return contracted(a, b[None], 1)


def inverse6(a: Float[Array, "6 6 ..."]) -> Float[Array, "6 6 ..."]:
    """By Gauss and Jordan, in place, without exchanging pivots.

    Its six turns are a loop: written out they are three times the program and slower by a multiple.
    """
    rows = np.arange(6).reshape(6, *(1,) * (a.ndim - 2))

    def turn(k, a):
        here = rows == k
        own = at_place(a, k)
        pivot = 1 / at_place(own, k)
        row = jnp.where(here, pivot[None], own * pivot[None])
        column = jnp.where(here, 0.0, jax.lax.dynamic_index_in_dim(a, k, 1, keepdims=False))
        others = jnp.where(here[None], 0.0, a) - column[:, None] * row[None]
        return jnp.where(here[:, None], row[None], others)

    return jax.lax.fori_loop(0, 6, turn, a)
