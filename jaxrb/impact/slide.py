"""Where a frictional impact is, and the numbers that govern it.

Units: the inverse inertia is divided by W_zz, velocities by the speed of approach; impulses
are then in units of speed of approach over W_zz. Numbers of one impact are a lane; arrays have
shape (lanes,), on a panel (n_points, lanes).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .hypotheses import AbstractHypothesis, Restitution

Lane = Float[Array, "*points lanes"]


class Contact(NamedTuple):
    """The numbers that govern an impact, without units."""

    b11: Lane  # B
    b12: Lane
    b22: Lane
    d1: Lane
    d2: Lane
    slip1: Lane  # gamma before the impact
    slip2: Lane
    friction: Lane  # mu
    restitution: Lane  # e

    def solve(self, x: Lane, y: Lane) -> tuple[Lane, Lane]:
        """B^{-1} (x, y)."""
        determinant = self.b11 * self.b22 - self.b12 * self.b12
        return (
            (self.b22 * x - self.b12 * y) / determinant,
            (self.b11 * y - self.b12 * x) / determinant,
        )

    def rates(self, c: Lane, s: Lane) -> tuple[Lane, Lane]:
        """lambda and f in the direction (c, s)."""
        mu = self.friction
        x = self.d1 - mu * (self.b11 * c + self.b12 * s)
        y = self.d2 - mu * (self.b12 * c + self.b22 * s)
        return c * x + s * y, c * y - s * x

    def fastest(self) -> Lane:
        """A bound of |lambda| and |f|."""
        half = (self.b11 - self.b22) / 2
        spread = jnp.sqrt(half * half + self.b12 * self.b12)
        return self.friction * ((self.b11 + self.b22) / 2 + spread) + jnp.sqrt(
            self.d1 * self.d1 + self.d2 * self.d2
        )

    def on_ray(self, turning: Lane) -> Bool[Array, "*points lanes"]:
        """Whether a direction with f = `turning` is invariant to round-off."""
        return jnp.abs(turning) <= 4 * jnp.finfo(turning.dtype).eps * self.fastest()

    def turning_slope(self, c: Lane, s: Lane) -> Lane:
        """df/dtheta in the direction (c, s): negative where directions come together."""
        half, mu = (self.b11 - self.b22) / 2, self.friction
        odd = half * (c * c - s * s) + self.b12 * 2 * s * c
        return 2 * mu * odd - self.d1 * c - self.d2 * s

    def growth_slope(self, c: Lane, s: Lane) -> Lane:
        """dlambda/dtheta in the direction (c, s)."""
        half, mu = (self.b11 - self.b22) / 2, self.friction
        even = half * 2 * s * c - self.b12 * (c * c - s * s)
        return 2 * mu * even + self.d2 * c - self.d1 * s

    def acceleration(self, c: Lane, s: Lane) -> Lane:
        """v_z' while it slides in the direction (c, s) (eqs. 16, 28)."""
        return 1 - self.friction * (self.d1 * c + self.d2 * s)

    def lift(self, impulse: Lane, pull1: Lane, pull2: Lane) -> Lane:
        """The change of v_z (10)."""
        return impulse - self.friction * (self.d1 * pull1 + self.d2 * pull2)

    def sticking(self, impulse: Lane) -> tuple[Lane, Lane]:
        """The tangential impulse after which the sliding velocity is 0 (25)."""
        return self.solve(-self.slip1 - impulse * self.d1, -self.slip2 - impulse * self.d2)


class Stage:
    """The stages of an impact, as the integers that a state carries."""

    COMPRESSION = 0
    RESTITUTION = 1
    OVER = 2


class Motion(NamedTuple):
    """The quantities that are integrated while the contact slides."""

    cos: Lane  # direction of the sliding velocity
    sin: Lane
    speed: Lane  # r
    impulse: Lane  # I_z
    pull1: Lane  # -I_x / mu: the integral of the direction over I_z
    pull2: Lane  # -I_y / mu
    normal: Lane  # v_z; kept, as at the end of compression it is 0 without round-off
    energy: Lane  # E in compression (11); what has been released of it in restitution


class Compressed(NamedTuple):
    """The end of compression."""

    impulse: Lane  # I_z there
    energy: Lane  # E there


class SlidingState(NamedTuple):
    """The state of an impact while the contact slides."""

    motion: Motion
    compressed: Compressed
    stage: Int[Array, " lanes"]
    collinear_at: Lane  # I_z where gamma and gamma' became collinear; infinite before
    stretch: Lane  # of the next panel, in units of a length that usually fits
    settled: Lane  # log of what is left of a turn off the invariant ray it is on
    turns: Int[Array, " lanes"]
    straight: Bool[Array, " lanes"]  # the rest has a closed form


class HodographOptions(NamedTuple):
    """How a hodograph is followed. Static."""

    hypothesis: AbstractHypothesis
    collinearity: float | None  # sine of the angle between gamma and gamma' that counts as 0
    # Whether it is followed as it is differentiated. What starts near an invariant ray has
    # another derivative than the straight line, until what it was off the ray has decayed; and
    # a panel has one end.
    derived: bool

    def stage_excess(
        self,
        motion: Motion,
        contact: Contact,
        compressed: Compressed,
        restoring: Bool[Array, "..."],
    ) -> Lane:
        """A function that becomes positive where the stage ends."""
        ends = self.hypothesis.excess(contact.restitution, restitution(contact, motion, compressed))
        return jnp.where(restoring, ends, motion.normal)

    def straightness(
        self,
        motion: Motion,
        contact: Contact,
        compressed: Compressed,
        restoring: Bool[Array, "..."],
    ) -> Lane:
        """A function that becomes positive where gamma and gamma' become collinear."""
        assert self.collinearity is not None
        growth, turning = contact.rates(motion.cos, motion.sin)
        return self.collinearity**2 * (turning**2 + growth**2) - turning**2


def restitution(contact: Contact, motion: Motion, compressed: Compressed) -> Restitution:
    """The progress of restitution, if that is the stage."""
    acceleration = contact.acceleration(motion.cos, motion.sin)
    return Restitution(motion.impulse, motion.normal, motion.energy, *compressed, acceleration)


def rows(*trees):
    """Along a panel every number of a lane is a row."""
    return jax.tree.map(lambda leaf: leaf[None], trees)


def choose(where: Bool[Array, " lanes"], new, old):
    """Lane by lane one of two trees."""
    return jax.tree.map(lambda a, b: jnp.where(where, a, b), new, old)
