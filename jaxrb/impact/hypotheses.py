"""Hypotheses of restitution: when it ends, and of what its coefficient is the ratio."""

from __future__ import annotations

import abc
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..math.safe import safe_sqrt

Lane = Float[Array, "*points lanes"]


class Restitution(NamedTuple):
    """The progress of restitution, without units (see `hodograph`); arrays of one shape."""

    impulse: Lane  # I_z
    normal: Lane  # v_z
    released: Lane  # work of the normal impulse since the end of compression
    compressed_at: Lane  # I_z at the end of compression
    compressed: Lane  # what it has stored: less the work of the normal impulse until there
    acceleration: Lane  # v_z', along the line or at the start of the panel


class AbstractHypothesis(eqx.Module):
    """A condition for the end of restitution, which says of what e is the ratio.

    It is part of the structure of a program, so it holds no arrays, and is compared by its
    type and static fields.
    """

    name: ClassVar[str]

    @abc.abstractmethod
    def excess(self, e: Lane, now: Restitution) -> Lane:
        """A function that is negative until restitution ends, and then positive.

        Its root is a simple one for every e, 0 included.
        """

    @abc.abstractmethod
    def left(self, e: Lane, now: Restitution) -> Lane:
        """The normal impulse until the end, at a constant and positive acceleration."""

    def excess_from_compression(
        self, e: Float[Array, " lanes"], now: Restitution
    ) -> tuple[Lane, Bool[Array, " lanes"]]:
        """The excess, smooth on a panel on which also compression ends, and whether it serves.

        Where little is released its root is almost a double one, and not looked for there.
        """
        return self.excess(e[None], now), e > 0.1


class Stronge(AbstractHypothesis):
    """Energetic: the work of the normal impulse in restitution is e^2 of that in compression.

    The only one of the three that never gains energy (Jia and Wang, section 2.2).
    """

    name = "stronge"

    def excess(self, e, now):
        # The roots of the energies are compared: they grow like the impulse.
        since = now.impulse - now.compressed_at
        begins = since <= 0
        square = now.released / jnp.where(begins, 1.0, since * since)
        rise = safe_sqrt(jnp.maximum(jnp.where(begins, now.acceleration / 2, square), 0.0))
        stored = jnp.where(now.compressed > 0, now.compressed, 1.0)
        return since * rise - e * jnp.sqrt(stored)

    def left(self, e, now):
        # From the end of compression itself the root has a derivative for every e, 0 included.
        begins = now.normal <= 0
        ahead = e * e * now.compressed - now.released
        root = safe_sqrt(now.normal * now.normal + 2 * now.acceleration * ahead)
        from_compression = e * safe_sqrt(2 * now.compressed / now.acceleration)
        return jnp.where(begins, from_compression, (root - now.normal) / now.acceleration)

    def excess_from_compression(self, e, now):
        released = (e * e)[None] * now.compressed
        # What is released must not be small beside the energies of the panel, or their round-off
        # tells; on a panel of its own roots of energies are compared.
        energies = jnp.max(jnp.abs(now.compressed - now.released), axis=0)
        return now.released - released, released[0] > 0.05 * energies


class Poisson(AbstractHypothesis):
    """Kinetic: the normal impulse of restitution is e times that of compression."""

    name = "poisson"

    def excess(self, e, now):
        return now.impulse - now.compressed_at - e * now.compressed_at

    def left(self, e, now):
        return (1 + e) * now.compressed_at - now.impulse


class Newton(AbstractHypothesis):
    """Kinematic: the normal velocity after is -e times that before.

    With friction it can gain energy, where the slip stops or turns during the impact.
    """

    name = "newton"

    def excess(self, e, now):
        return now.normal - e

    def left(self, e, now):
        return (e - now.normal) / now.acceleration
