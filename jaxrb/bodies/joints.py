"""Joints: what ties bodies to the world."""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from .._validate import body_index, real_array, require


class Pin(eqx.Module):
    """Ties one point of a body to a point of the world, about which the body turns freely.

    Attributes:
        body: index in `World.bodies`.
        anchor: the point of the body, body frame, from the centre of mass [m], shape (3,).
        point: where it is held, world frame [m], shape (3,).

    Raises:
        ValueError: naming the argument that is not understood.
    """

    body: int = eqx.field(static=True)
    anchor: Float[Array, "3"]
    point: Float[Array, "3"]

    def __init__(self, body: int, anchor, point=(0.0, 0.0, 0.0)):
        self.body = body_index(body, "Pin.body")
        self.anchor = real_array(anchor, "Pin.anchor", (3,))
        self.point = real_array(point, "Pin.point", (3,))
        require(self.anchor, "Pin.anchor", np.isfinite, "finite")
        require(self.point, "Pin.point", np.isfinite, "finite")
