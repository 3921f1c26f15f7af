"""Half-spaces, the obstacles bodies bounce on."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._validate import real_array, require
from ..math import Vec3, dot
from .base import AbstractShape
from .csg.normal_form import Region, Surfaces, planes


class HalfSpace(AbstractShape):
    """The solid {z : normal . z <= offset}, bounded by a plane. The signed distance is exact.

    Attributes:
        normal: out of the solid, of any length but zero, shape (3,).
        offset: in units of |normal| metres: the plane is normal . z = offset.
    """

    normal: Float[Array, "3"]
    offset: Float[Array, ""]

    def __init__(self, normal=(0.0, 0.0, 1.0), offset: float | Float[Array, ""] = 0.0):
        self.normal = real_array(normal, "HalfSpace.normal", (3,))
        self.offset = real_array(offset, "HalfSpace.offset", ())
        nonzero = lambda n: np.all(np.isfinite(n)) and np.any(n != 0)  # noqa: E731
        require(self.normal, "HalfSpace.normal", nonzero, "finite and not zero")
        require(self.offset, "HalfSpace.offset", np.isfinite, "finite")

    def unit_normal_and_offset(self) -> tuple[Float[Array, "3"], Float[Array, ""]]:
        """The plane as n . z = d with |n| = 1; d in metres."""
        length = jnp.sqrt(jnp.sum(self.normal**2))
        return self.normal / length, self.offset / length

    def lengths(self):
        return []

    def surfaces(self):
        normal, offset = self.unit_normal_and_offset()
        return Surfaces(planes(normal[None], offset[None]), (True,))

    def region(self, inside: bool = True):
        return Region.of_quadrics(self.surfaces(), inside)

    def distance_map(self, point: Vec3):
        normal = Vec3.of(self.normal)
        length = jnp.sqrt(dot(normal, normal))
        return (dot(point, normal) - self.offset) / length
