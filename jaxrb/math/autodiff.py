"""Helpers for derivative rules."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array


def sparse_jvp(function: Callable, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    """`jax.jvp` for the tangents that a rule with `symbolic_zeros=True` receives.

    Leaves whose tangent is known to be zero are held constant, so that parameters that are
    not differentiated cost nothing, in reverse mode neither.
    """
    of_moving, values, directions = _only_moving(function, primals, tangents)
    if not directions:
        out = function(*primals)
        return out, jax.tree.map(jnp.zeros_like, out)
    return jax.jvp(of_moving, values, directions)


def _only_moving(
    function: Callable, primals: tuple, tangents: tuple
) -> tuple[Callable, list[Array], list[Array]]:
    """A function of those leaves of its arguments whose tangents are not known to be zero, these
    leaves and their tangents."""
    leaves, structure = jax.tree.flatten(primals)
    directions = jax.tree.leaves(tangents, is_leaf=_is_zero)
    moving = [i for i, d in enumerate(directions) if not _is_zero(d)]

    def of_moving(*values):
        full = list(leaves)
        for i, value in zip(moving, values, strict=True):
            full[i] = value
        return function(*jax.tree.unflatten(structure, full))

    return of_moving, [leaves[i] for i in moving], [directions[i] for i in moving]


class Differential:
    """The derivative of a function at a point, in both modes, for rules that need it in loops.

    Directions are lists of the tangents that are not known to be zero; changes are lists of those
    of the leaves of its value that are numbers, not counts or choices.
    """

    def __init__(self, function: Callable, primals: tuple, tangents: tuple):
        """Of function(*primals), along tangents as a rule with `symbolic_zeros=True` receives."""
        self._function, self._values, self.directions = _only_moving(function, primals, tangents)
        self._like, self._structure = jax.tree.flatten(
            jax.eval_shape(self._function, *self._values)
        )
        self._smooth = [i for i, leaf in enumerate(self._like) if _is_smooth(leaf)]

    def push(self, directions: list[Array | None]) -> list[Array]:
        """The changes along directions, of which those that are known to be zero are None."""
        return self.value_and_push(directions)[1]

    def value_and_push(self, directions: list[Array | None]) -> tuple[Any, list[Array]]:
        """The value too, which one jvp gives: XLA does not know that two loops are the same."""
        moving = [i for i, direction in enumerate(directions) if direction is not None]

        def of_moving(*values):
            full = list(self._values)
            for i, value in zip(moving, values, strict=True):
                full[i] = value
            return self._function(*full)

        values, moved = ([each[i] for i in moving] for each in (self._values, directions))
        value, change = jax.jvp(of_moving, values, moved)
        leaves = jax.tree.leaves(change)
        return value, [leaves[i] for i in self._smooth]

    def pull(self, changes: list[Array]) -> list[Array]:
        """The transpose of `push`."""
        return list(jax.linear_transpose(lambda *d: self.push(list(d)), *self._values)(changes))

    def no_change(self) -> list[Array]:
        """Changes that are none."""
        like = (self._like[i] for i in self._smooth)
        return [jnp.zeros(leaf.shape, leaf.dtype) for leaf in like]

    def tree(self, changes: list[Array]) -> Any:
        """The tangent of the value that consists of these changes."""
        full: list = [np.zeros(leaf.shape, jax.dtypes.float0) for leaf in self._like]
        for i, change in zip(self._smooth, changes, strict=True):
            full[i] = change
        return jax.tree.unflatten(self._structure, full)


def linear_solve(equations: Callable, right: Any, solve: Callable, transposed: Callable) -> Any:
    """`jax.lax.custom_linear_solve` for a right side of which some leaves may be no tangents.

    JAX transposes it only where all leaves are (0.10.1: an assertion); here each is a sum with
    nothing of all others.
    """
    leaves, structure = jax.tree.flatten(right)
    first = [jnp.reshape(leaf, -1)[0] for leaf in leaves if leaf.size]
    never = jnp.zeros((), bool)
    nothing = jnp.zeros_like(first[0])
    for number in first:
        nothing = nothing + jnp.where(never, number.astype(nothing.dtype), 0.0)
    leaves = [leaf + nothing.astype(leaf.dtype) for leaf in leaves]
    right = jax.tree.unflatten(structure, leaves)
    return jax.lax.custom_linear_solve(equations, right, solve, transposed)


def as_moving(primals: Any, tangents: Any) -> Any:
    """Tangents of which none is known to be zero.

    What a loop changes in the end moves. If it is said to from the start, JAX need not
    differentiate the loop again and again to find out.
    """

    def of(leaf, tangent):
        return jnp.zeros_like(leaf) if _is_zero(tangent) and _is_smooth(leaf) else tangent

    return jax.tree.map(of, primals, tangents)


def no_tangents(tree: Any) -> Any:
    """Tangents of what does not change."""

    def of(leaf: Array) -> Array | np.ndarray:
        if _is_smooth(leaf):
            return jnp.zeros_like(leaf)
        return np.zeros(leaf.shape, jax.dtypes.float0)

    return jax.tree.map(of, tree)


def at_values(values: Any, computed: Any) -> Any:
    """Numbers that were computed again, with their derivatives, at the values that they had."""

    def of(value, again):
        value, here = jax.lax.stop_gradient((value, again))
        return again + (value - here)

    return jax.tree.map(of, values, computed)


def is_moving(tangents: Any) -> bool:
    """Whether a rule with `symbolic_zeros=True` receives a tangent that is not known to be zero."""
    leaves = jax.tree.leaves(tangents, is_leaf=_is_zero)
    return not all(_is_zero(leaf) for leaf in leaves)


def keep_rule(function: Callable) -> Callable:
    """Calls a `custom_jvp` function from within its own rule, so that the rule survives.

    Up to version 0.10, JAX evaluates the known part of a differentiated scan with a trace that
    replaces `custom_jvp` calls by their plain primal. First derivatives do not notice; higher
    ones lose the rule, without a word. It leaves calls inside `jax.checkpoint` alone.
    """
    return partial(jax.checkpoint, prevent_cse=False)(function)


def _is_zero(tangent: Any) -> bool:
    no_number = getattr(tangent, "dtype", None) == jax.dtypes.float0
    return no_number or isinstance(tangent, SymbolicZero)


def _is_smooth(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)
