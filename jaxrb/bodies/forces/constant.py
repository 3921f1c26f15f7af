"""Forces that do not change."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ..._validate import body_index, real_array, require
from ...math import Vec3, dot
from ..inertial import Inertial
from ..phase import Phase
from .base import AbstractBodyLoad, Time, Wrench, cast, of_body, on_one


class ConstantForce(AbstractBodyLoad):
    """A constant force through the centre of mass: buoyancy, thrust, a uniform field.

    Its potential is -F.x, so that a flow conserves the energy as it does under gravity.

    Attributes:
        body: index in `World.bodies`.
        force: world frame [N], shape (3,).

    Raises:
        ValueError: naming the argument that is not understood.
    """

    body: int = eqx.field(static=True)
    force: Float[Array, "3"]

    def __init__(self, body: int, force):
        self.body = body_index(body, "ConstantForce.body")
        self.force = real_array(force, "ConstantForce.force", (3,))
        require(self.force, "ConstantForce.force", np.isfinite, "finite")

    @property
    def conservative(self) -> bool:
        return True

    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        return on_one(phase, self.body, Vec3.of(cast(self.force, phase)))

    def potential(self, phase: Phase) -> Float[Array, ""]:
        return -dot(Vec3.of(cast(self.force, phase)), of_body(phase.position, self.body))
