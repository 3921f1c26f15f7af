"""The exact flight of free rigid bodies under gravity."""

import equinox as eqx
import jax.numpy as jnp

from ..bodies import Phase
from ..math import Quat, rotate_inverse
from ..math.principal import PrincipalAxes
from .base import AbstractFlow
from .free_rotation import free_rotation
from .rigid_rotation import ballistic, following_orientation


class ExactFlight(AbstractFlow):
    """The exact flow of free bodies under gravity: a parabola, and Euler's free rotation in closed
    form (see `free_rotation`), of whatever inertia and spin and for durations of either sign.

    Energy, linear and angular momentum are those of the start to round-off; two flights are one.
    With loads it is the middle of a symmetric splitting of order 2 (see `AbstractFlow.step`), or of
    order 4: `FourthOrder(ExactFlight())`.
    Pinned bodies are refused.

    A flight costs about three steps of `LieVariational`, and may be hundreds of times as long.
    Derivatives are those of the closed form. By an inertia tensor that is not diagonal and has two
    equal moments, whose axes are any, they are NaN.

    Attributes:
        doublings: how often a short rotation is doubled. With 4, flights are exact to round-off
            up to about 12 rad; each more doubles that. Longer flights are taken in parts.
    """

    has_pins = False
    has_principal_axes = True
    doublings: int = eqx.field(default=4, static=True)

    def drift(self, duration, phase, inertial, gravity):
        principal, momentum = inertial.principal, phase.angular_momentum
        if principal is None:  # found at every flight, then
            principal = PrincipalAxes.of(inertial.inertia)
        found = free_rotation(
            jnp.asarray(duration, momentum.x.dtype),
            principal.to_principal(momentum),
            principal.moments,
            self.doublings,
        )
        turn = Quat(found.turn.w, principal.to_body(found.turn.v))
        position, linear_momentum = ballistic(duration, phase, inertial, gravity)
        following = Phase(
            position=position,
            orientation=following_orientation(phase.orientation, turn),
            linear_momentum=linear_momentum,
            angular_momentum=rotate_inverse(turn, momentum),
        )
        return following, jnp.max(found.error)
