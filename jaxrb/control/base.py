"""The interface of control inputs, for the forces that take one."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Time = Float[Array, ""] | float


class AbstractInput(eqx.Module):
    """An array that is prescribed as a function of time."""

    @abc.abstractmethod
    def __call__(self, t: Time) -> Float[Array, "..."]:
        """The array at a time [s]."""

    def in_order(self) -> Bool[Array, ""]:
        """Whether its knots ascend, which may have been traced when it was made, or changed since;
        of an input without any it is true."""
        return jnp.ones((), bool)


def all_in_order(tree: Any) -> Bool[Array, ""]:
    """Whether the knots of all control inputs in a tree ascend."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, AbstractInput))
    found = [leaf.in_order() for leaf in leaves if isinstance(leaf, AbstractInput)]
    return jnp.all(jnp.stack(found)) if found else jnp.ones((), bool)
