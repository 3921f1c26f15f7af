"""The exact flight of free rigid bodies under gravity."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from .._validate import positive_count
from ..bodies import Inertial, Phase
from ..math import Diag3, rotate_inverse
from ..math.principal import PrincipalAxes
from .base import AbstractFlow
from .free_rotation import free_rotation, longest_rotation
from .rigid_rotation import ballistic, following_orientation
from .tensor_rotation import free_rotation_of_tensor

# Doublings by default, where durations are steps, where they are flights from impact to impact, and
# where nothing is ever touched.
_FOR_STEPS, _FOR_FLIGHTS, _ALONE = 4, 6, 16
# Flights of 50 000 rad, of which float32 tells angles to 0.01 rad.
_MOST = 16


class ExactFlight(AbstractFlow):
    """The exact flow of free bodies under gravity: a parabola, and Euler's free rotation in closed
    form (see `free_rotation`), of whatever inertia and spin and for durations of either sign.

    Energy, linear and angular momentum are those of the start to round-off; two flights are one.
    With loads it is the middle of a symmetric splitting of order 2 (see `AbstractFlow.step`), or of
    order 4: `FourthOrder(ExactFlight())`.
    Pinned bodies are refused.

    A flight costs about three steps of `LieVariational`, and may be hundreds of times as long.
    Rods that spin about their axes lose digits where they turn about it by odd multiples of half a
    turn: by |k|/k_3, some three (angular momenta k, and that along the axis) for a rod of 1:100.
    Derivatives are those of the closed form, where two moments are equal, too. Second derivatives
    by an inertia tensor that is not diagonal are not, if two moments are: they are NaN.

    Attributes:
        doublings: how often a short rotation is doubled. With 4, the default for steps, flights
            are exact to round-off up to about 12 rad, of bodies with very different moments 4; each
            more doubles that, and costs some 5 %, of short flights too, but no digit. In continuous
            time it is 6 by default, 16, the most, where bodies are alone. Longer flights are taken
            in parts.

    Raises:
        ValueError: unless `doublings` is a whole number from 1 to 16.
    """

    has_pins = False
    has_principal_axes = True
    doublings: int | None = eqx.field(default=None, static=True)

    def __check_init__(self):
        if self.doublings is None:
            return
        positive_count(self.doublings, "ExactFlight.doublings")
        if self.doublings > _MOST:
            raise ValueError(
                f"ExactFlight.doublings must be at most {_MOST}; got {self.doublings}. Longer "
                "flights are taken in parts."
            )

    @property
    def _doublings(self) -> int:
        return _FOR_STEPS if self.doublings is None else self.doublings

    def for_long_flights(self, *, alone: bool) -> ExactFlight:
        """The flow with what its user has left open chosen for whole flights, of bodies that are
        alone or not."""
        if self.doublings is not None:
            return self
        return ExactFlight(_ALONE if alone else _FOR_FLIGHTS)

    @staticmethod
    def _axes(inertial: Inertial) -> PrincipalAxes:
        if inertial.principal is None:  # found at every flight, then
            return PrincipalAxes.of(inertial.inertia)
        return inertial.principal

    def bend_growth(self, angle):
        return jnp.ones_like(angle)

    def longest(self, phase, inertial):
        momentum, principal = phase.angular_momentum, self._axes(inertial)
        longest = longest_rotation(
            principal.to_principal(momentum), principal.moments, self._doublings
        )
        return jnp.min(longest)

    def shorter(self, duration, error):
        """The error grows with the square of the duration."""
        return 0.95 * duration / jnp.sqrt(jnp.maximum(error, 1.0))

    def drift(self, duration, phase, inertial, gravity):
        momentum, inertia = phase.angular_momentum, inertial.inertia
        time = jnp.asarray(duration, momentum.x.dtype)
        if isinstance(inertia, Diag3):
            found = free_rotation(time, momentum, inertia.diagonal, self._doublings)
        else:
            axes = self._axes(inertial)
            found = free_rotation_of_tensor(time, momentum, inertia, axes, self._doublings)
        position, linear_momentum = ballistic(duration, phase, inertial, gravity)
        following = Phase(
            position=position,
            orientation=following_orientation(phase.orientation, found.turn),
            linear_momentum=linear_momentum,
            angular_momentum=rotate_inverse(found.turn, momentum),
        )
        return following, jnp.max(found.error)
