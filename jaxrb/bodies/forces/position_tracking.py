"""What controllers of position have in common: the force that the errors ask for."""

from __future__ import annotations

from typing import Self

import equinox as eqx
from jaxtyping import Array, Float

from ...math import Vec3
from ..inertial import Inertial
from ..phase import Phase
from .base import cast, of_body, velocity
from .tracking import AbstractTracking


class AbstractPositionTracking(AbstractTracking):
    """A controller of position and attitude.

    Attributes:
        position_gain: k_x [N/m].
        velocity_gain: k_v [N s/m].
        gravity: of the world, world frame [m/s^2], shape (3,); None until it is told.
    """

    position_gain: eqx.AbstractVar[Float[Array, ""]]
    velocity_gain: eqx.AbstractVar[Float[Array, ""]]
    gravity: eqx.AbstractVar[Float[Array, "3"] | None]

    def under_gravity(self, gravity: Float[Array, "3"]) -> Self:
        return eqx.tree_at(lambda load: load.gravity, self, gravity, is_leaf=lambda x: x is None)

    def weight_acceleration(self, phase: Phase) -> Vec3:
        """g [m/s^2], world frame."""
        if self.gravity is None:
            raise NotImplementedError(
                f"A {type(self).__name__} has to know the gravity of its world: see "
                "`under_gravity`."
            )
        return Vec3.of(cast(self.gravity, phase))

    def position_errors(
        self, phase: Phase, inertial: Inertial, x_d: Vec3, v_d: Vec3
    ) -> tuple[Vec3, Vec3]:
        """e_x [m] and e_v [m/s], world frame."""
        return (
            of_body(phase.position, self.body) - x_d,
            velocity(phase, inertial, self.body) - v_d,
        )

    def restoring(self, phase: Phase, e_x: Vec3, e_v: Vec3) -> Vec3:
        """k_x e_x + k_v e_v [N]; its derivatives by the time if those of the errors are given."""
        return e_x * cast(self.position_gain, phase) + e_v * cast(self.velocity_gain, phase)

    def force_for(
        self, phase: Phase, inertial: Inertial, errors: tuple[Vec3, Vec3], a_d: Vec3
    ) -> Vec3:
        """-k_x e_x - k_v e_v + m (a_d - g), world frame [N]."""
        needed = a_d - self.weight_acceleration(phase)
        return needed * inertial.mass[self.body] - self.restoring(phase, *errors)
