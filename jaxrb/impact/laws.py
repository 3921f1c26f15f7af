"""Impact laws: what happens at a contact that closes."""

from __future__ import annotations

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._validate import real_array, require


class AbstractContactLaw(eqx.Module):
    """What happens at a contact that closes.

    Attributes:
        restitution: e, from 0 (plastic) to 1 (elastic).
    """

    restitution: eqx.AbstractVar[Float[Array, "..."]]

    @abc.abstractmethod
    def lawful(self) -> Bool[Array, ""]:
        """Whether the numbers are possible ones."""

    @property
    @abc.abstractmethod
    def coefficient_of_friction(self) -> Float[Array, "..."]:
        """mu."""


class Frictionless(AbstractContactLaw):
    """Newton's law: the gap opens at `restitution` times the speed at which it closed.

    With restitution 1 the impulse is the non-zero root of the energy balance (Tran and
    Leok, eq. 61c), so the energy is kept to round-off wherever the contact is. Without
    friction the hypotheses of Newton, Poisson and Stronge are the same.

    Attributes:
        restitution: e, from 0 (plastic) to 1 (elastic).
    """

    restitution: Float[Array, "..."]

    def __init__(self, restitution=1.0):
        self.restitution = _restitution(restitution, "Frictionless.restitution")

    def lawful(self):
        return _in_unit_interval(self.restitution)

    @property
    def coefficient_of_friction(self):
        return jnp.zeros_like(self.restitution)

    def normal_impulse(self, normal_velocity, inverse_mass):
        """lambda = -(1 + e) v_n / W."""
        return -(1 + self.restitution) * normal_velocity / inverse_mass


class AbstractHypothesis(eqx.Module):
    """When restitution ends: what the coefficient of restitution is a ratio of."""

    name: ClassVar[str]


class Stronge(AbstractHypothesis):
    """Energetic: the work of the normal impulse in restitution is e^2 of that in compression.

    The only one of the three that never gains energy (Jia and Wang, section 2.2).
    """

    name = "stronge"


class Poisson(AbstractHypothesis):
    """Kinetic: the normal impulse of restitution is e times that of compression."""

    name = "poisson"


class Newton(AbstractHypothesis):
    """Kinematic: the normal velocity after is -e times that before.

    With friction it can gain energy, where the slip stops or turns during the impact.
    """

    name = "newton"


class Coulomb(AbstractContactLaw):
    """Dry friction during the impact, resolved in the course of the normal impulse.

    Jia and Wang, "Analysis and computation of two body impact in three dimensions": the
    sliding velocity follows its hodograph (eq. 31), sticks or slides on (section 5), and
    restitution ends by a hypothesis. See `jaxrb.solve_impact`.

    Attributes:
        friction: mu, 0 or more.
        restitution: e, from 0 (plastic) to 1 (elastic), as the hypothesis understands it.
        hypothesis: `Stronge()`, `Poisson()` or `Newton()`.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    friction: Float[Array, "..."]
    restitution: Float[Array, "..."]
    hypothesis: AbstractHypothesis

    def __init__(self, friction, restitution=1.0, hypothesis: AbstractHypothesis | None = None):
        self.friction = real_array(friction, "Coulomb.friction", ())
        require(self.friction, "Coulomb.friction", lambda mu: mu >= 0, "0 or more")
        self.restitution = _restitution(restitution, "Coulomb.restitution")
        self.hypothesis = Stronge() if hypothesis is None else hypothesis
        if not isinstance(self.hypothesis, AbstractHypothesis):
            raise ValueError(
                "Coulomb.hypothesis must be Stronge(), Poisson() or Newton(); "
                f"got {self.hypothesis!r}."
            )

    def lawful(self):
        return _in_unit_interval(self.restitution) & jnp.all(self.friction >= 0)

    @property
    def coefficient_of_friction(self):
        return self.friction


def _in_unit_interval(restitution: Array) -> Bool[Array, ""]:
    return jnp.all((restitution >= 0) & (restitution <= 1))


def _restitution(restitution, name: str) -> Float[Array, ""]:
    value = real_array(restitution, name, ())
    require(value, name, lambda e: (e >= 0) & (e <= 1), "in the interval [0, 1]")
    return value
