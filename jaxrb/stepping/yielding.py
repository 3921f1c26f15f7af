"""Rows of joints that yield: their reaction follows from their velocity."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class Yielding(eqx.Module):
    """The law Q = P - d w of the reactions of rows by their velocities w, within bounds.

    Attributes:
        resistance: d, at least 0 [kg].
        push: P [N s].
        bounds: the least and the greatest Q [N s], shape (2, n); None without any.
    """

    resistance: Float[Array, " n"]
    push: Float[Array, " n"]
    bounds: Float[Array, "2 n"] | None

    def sought(
        self, reaction: Float[Array, " n"], w: Float[Array, " n"], mass: Float[Array, " n"]
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Q at velocities [m/s] and minus its derivative there, on the side of the bounds on which
        the solution is near reactions [N s].

        P - d w alone does not tell it: at one bound velocities may ask for the other one, and there
        for the first. The reaction does at which a free mass would have what the law gives for its
        velocity.
        """
        asked = self.push - self.resistance * w
        if self.bounds is None:
            return asked, self.resistance
        settled = reaction + (asked - reaction) / (1 + self.resistance / mass)
        least, greatest = self.bounds
        free = (settled >= least) & (settled <= greatest)
        return self._bounded(asked, settled), jnp.where(free, self.resistance, 0.0)

    def within(self, reaction: Float[Array, " n"]) -> Float[Array, " n"]:
        """Reactions within the bounds."""
        return self._bounded(reaction, reaction)

    def _bounded(self, reaction: Float[Array, " n"], by: Float[Array, " n"]) -> Float[Array, " n"]:
        """Reactions, or the bounds that other ones pass."""
        if self.bounds is None:
            return reaction
        # No `clip`, whose derivative at a bound is neither that within nor that beyond.
        least, greatest = self.bounds
        return jnp.where(by < least, least, jnp.where(by > greatest, greatest, reaction))


def endless(like: Float[Array, " n"]) -> Float[Array, "2 n"]:
    """Bounds that are none."""
    return jnp.stack([jnp.full_like(like, -jnp.inf), jnp.full_like(like, jnp.inf)])
