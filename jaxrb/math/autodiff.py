"""Helpers for derivative rules."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax.custom_derivatives import SymbolicZero


def sparse_jvp(function: Callable, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    """`jax.jvp` for the tangents that a rule with `symbolic_zeros=True` receives.

    Leaves whose tangent is known to be zero are held constant, so that parameters that are
    not differentiated cost nothing, in reverse mode neither.
    """
    leaves, structure = jax.tree.flatten(primals)
    directions = jax.tree.leaves(tangents, is_leaf=_is_zero)
    active = [i for i, d in enumerate(directions) if not _is_zero(d)]

    def of_active(*values):
        full = list(leaves)
        for i, value in zip(active, values, strict=True):
            full[i] = value
        return function(*jax.tree.unflatten(structure, full))

    if not active:
        out = function(*primals)
        return out, jax.tree.map(jax.numpy.zeros_like, out)
    return jax.jvp(of_active, [leaves[i] for i in active], [directions[i] for i in active])


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
    return isinstance(tangent, SymbolicZero)
