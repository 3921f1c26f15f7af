"""Forces that act on bodies besides gravity."""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from .._validate import body_index, real_array, require


class ConstantForce(eqx.Module):
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
