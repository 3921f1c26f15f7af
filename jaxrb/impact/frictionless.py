"""Impact without friction."""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from .._validate import real_array, require


class AbstractContactLaw(eqx.Module):
    """What happens at a contact that closes."""

    @abc.abstractmethod
    def normal_impulse(
        self, normal_velocity: Float[Array, "..."], inverse_mass: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """The impulse along the normal [N s] for a closing velocity [m/s] and W [1/kg]."""


class Frictionless(AbstractContactLaw):
    """Newton's law: the gap opens at `restitution` times the speed at which it closed.

    With restitution 1 the impulse is the non-zero root of the energy balance (Tran and
    Leok, eq. 61c), so the energy is kept to round-off wherever the contact is.

    Attributes:
        restitution: e, from 0 (plastic) to 1 (elastic).
    """

    restitution: Float[Array, ""]

    def __init__(self, restitution=1.0):
        self.restitution = real_array(restitution, "Frictionless.restitution", ())
        require(
            self.restitution,
            "Frictionless.restitution",
            lambda e: (e >= 0) & (e <= 1),
            "in the interval [0, 1]",
        )

    def normal_impulse(self, normal_velocity, inverse_mass):
        """lambda = -(1 + e) v_n / W."""
        return -(1 + self.restitution) * normal_velocity / inverse_mass
