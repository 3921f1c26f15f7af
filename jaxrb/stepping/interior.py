"""A turn of the interior point method of the cone problem, by predictor and corrector.

After Mehrotra, "On the implementation of a primal-dual interior point method", 1992.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .turns import Complementarity, Damped, Interior, Point

_STEP_TO_BOUNDARY = 0.99


class InteriorTurn(NamedTuple):
    """What it starts from, without units; arrays end with an axis of lanes."""

    point: Point
    friction: Float[Array, " n_contacts"]
    pads: np.ndarray
    active: Bool[Array, " n_contacts"]
    off: Float[Array, "3 n_contacts"]  # the velocities less the slack
    damping: Float[Array, " lanes"]

    @property
    def _interior(self) -> Interior:
        return Interior(self.point, self.friction, self.pads)

    def _products(self, point: Point) -> Complementarity:
        return Complementarity.of(point, self.friction, self.pads)

    def predictor(self):
        """The matrices and products there, and the constant of the step to no products."""
        damped = Damped.of(self._interior.response(), self.damping[None])
        products = self._products(self.point)
        return damped, products, self._constant(damped, Complementarity(*(-x for x in products)))

    def corrector(self, damped: Damped, products: Complementarity, du, dp, first, least):
        """The constant of the step to the centre, of products no smaller than the least, and its
        aim.

        Args:
            damped, products: as of the predictor.
            du, dp: what that would change.
            first: whether it is the first start, from which the corrector is used whole.
            least: mean product.
        """
        step = self._moving(Complementarity(*(-x for x in products)), du, dp)
        size = jnp.minimum(self._room(step), 1.0)
        mean = products.mean(self.active)
        after = self._products(self.point.moved(step, size)).mean(self.active)
        centre = jnp.clip((after / jnp.where(mean > 0, mean, 1.0)) ** 3, 1e-8, 1.0)
        kappa = jnp.maximum(centre * mean, least)
        # By as much of the step as was possible.
        second_order = self._products(step)
        weight = jnp.where(first, 1.0, size**2)
        kappa = jnp.where(first, kappa, jnp.maximum(kappa, (1 - size) ** 2 * mean))
        aim = Complementarity(
            kappa[None] - products.normal - weight[None] * second_order.normal,
            kappa[None] - products.cone - weight[None] * second_order.cone,
            -products.tangents - weight[None, None] * second_order.tangents,
        )
        return self._constant(damped, aim), aim

    def step(self, aim: Complementarity, du, dp):
        """The changes of psi and of the slack, and how much of the step stays inside."""
        step = self._moving(aim, du, dp)
        return step.psi, step.s, jnp.minimum(_STEP_TO_BOUNDARY * self._room(step), 1.0)

    def _constant(self, damped: Damped, aim: Complementarity):
        return damped.change(self._interior.step(aim, None)[0], self.off)

    def _moving(self, aim: Complementarity, du, dp) -> Point:
        ds = du + self.off + self.damping[None, None] * dp
        return Point(dp, self._interior.step(aim, ds)[1], ds)

    def _room(self, step: Point):
        """The largest part of a step that all contacts have room for."""
        return jnp.min(self._interior.longest(step, self.active), axis=0, initial=jnp.inf)
