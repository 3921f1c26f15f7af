"""The interface of control inputs, for the forces that take one."""

from __future__ import annotations

import abc

import equinox as eqx
from jaxtyping import Array, Float

Time = Float[Array, ""] | float


class AbstractInput(eqx.Module):
    """An array that is prescribed as a function of time."""

    @abc.abstractmethod
    def __call__(self, t: Time) -> Float[Array, "..."]:
        """The array at a time [s]."""
