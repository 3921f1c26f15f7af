"""Solids given by a function of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..._validate import known
from ...math import Vec3
from ..base import AbstractSolid, arrays, length_parameter
from ..lattice import fibonacci_lattice
from .normal_form import Region
from .seeds import prepare, searched_support

# The band for |grad f| on the surface in which f is taken for about a distance.
_LEAST_SLOPE, _GREATEST_SLOPE = 0.5, 2.0


class Implicit(AbstractSolid):
    """The solid {z : f(z) <= 0} within a ball. The signed distance is as good as f.

    The surface must be smooth where it can touch a plane, and |grad f| between 0.5 and 2 there;
    Newton's method and all tolerances take f for about a distance. Bumps much narrower than
    a tenth of the solid may be missed when the point closest to a plane is sought.

    Attributes:
        numbers, rest: the function, its arrays apart. If it is an `equinox.Module`, the arrays
            it holds are parameters of the shape and can be differentiated; those over which a
            plain function closes are constants.
        radius: of the ball [m].

    Args:
        function: f, of a point [m] of shape (3,) to a scalar [m], negative inside; written in
            JAX, twice differentiable.
        bounding_radius: of a ball about the origin that holds the solid [m], positive.

    Raises:
        ValueError: if f is no such function, has no surface within the ball, is negative on
            the sphere around it, or is not about a distance (as far as samples tell; numbers
            that are traced are not checked).
    """

    numbers: PyTree[Array]
    rest: Any = eqx.field(static=True)
    radius: Float[Array, ""]

    def __init__(self, function: Callable, bounding_radius):
        if not callable(function):
            raise ValueError(f"Implicit.function must be a function; got {function!r}.")
        self.radius = length_parameter(bounding_radius, "Implicit.bounding_radius", ())
        convert = lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf  # noqa: E731
        self.numbers, self.rest = eqx.partition(jax.tree.map(convert, function), eqx.is_array)
        point = jax.ShapeDtypeStruct((3,), self.radius.dtype)
        out = jax.eval_shape(self._function(), point)
        if getattr(out, "shape", None) != () or not jnp.issubdtype(out.dtype, jnp.floating):
            raise ValueError(
                "Implicit.function must map a point of shape (3,) to a real scalar; it returns "
                f"{out}."
            )
        if all(known(leaf) is not None for leaf in jax.tree.leaves((self.numbers, self.radius))):
            with jax.ensure_compile_time_eval():
                self._check(*map(np.asarray, _sample(self)))

    def _function(self) -> Callable:
        return eqx.combine(arrays(self.numbers), self.rest)

    def _check(self, around: np.ndarray, least: np.ndarray, slopes: np.ndarray) -> None:
        radius, slopes = float(self.radius), slopes[np.isfinite(slopes)]
        if not least < 0:
            raise ValueError(
                "Implicit.function has no negative value within Implicit.bounding_radius = "
                f"{radius:g} (least found: {float(least):g}): the solid is empty, lies outside of "
                "the ball, or its sign is turned around."
            )
        if around < 0:
            raise ValueError(
                f"Implicit.function is negative at distance {radius:g} from the origin: raise "
                "Implicit.bounding_radius until the ball holds the solid."
            )
        if not slopes.size or slopes.min() < _LEAST_SLOPE or slopes.max() > _GREATEST_SLOPE:
            found = f"{slopes.min():g} to {slopes.max():g}" if slopes.size else "no surface"
            raise ValueError(
                "Implicit.function must be about a distance: its gradient on the surface must "
                f"have a length between {_LEAST_SLOPE} and {_GREATEST_SLOPE}; found {found}. "
                "Divide it by the length of its gradient, or by a typical one."
            )

    def distance_map(self, point: Vec3):
        function = self._function()
        at = point.array()
        found = jnp.vectorize(function, signature="(n)->()")(at)
        return found.astype(at.dtype)

    def support_map(self, direction: Vec3):
        return searched_support(self, direction)

    def parts(self):
        return (prepare(self),)

    def region(self, inside: bool = True):
        return Region.of_distance(self, inside, seeded=True)

    def lengths(self):
        return [self.radius]

    def bounding_radius(self):
        return self.radius


@eqx.filter_jit
def _sample(solid: Implicit) -> tuple[Array, Array, Array]:
    """The least value around the solid and the least within, and the slopes on the surface; NaN
    where a sample has not reached it."""
    radius = solid.radius
    field = jax.vmap(jax.value_and_grad(lambda z: solid.distance_map(Vec3.of(z))))
    around = jnp.asarray(fibonacci_lattice(256), radius.dtype) * radius

    def descend(z, depth):
        """A step towards the place where f is as deep as wanted."""
        value, gradient = field(z)
        # The function may have no gradient inside, as in the centre of a ball.
        gradient = jnp.where(jnp.isfinite(gradient), gradient, 0.0)
        squared = jnp.maximum(jnp.sum(gradient**2, axis=-1), _LEAST_SLOPE**2)
        step = jnp.clip((value - depth) / squared, -radius / 4, radius / 4)
        return z - step[:, None] * gradient, value

    surface, _ = jax.lax.scan(descend, around, jnp.zeros(40, radius.dtype))
    value, gradient = field(surface)
    slope = jnp.sqrt(jnp.sum(gradient**2, axis=-1))
    slope = jnp.where(jnp.abs(value) <= 1e-3 * radius, slope, jnp.nan)
    _, values = jax.lax.scan(descend, surface, jnp.linspace(0, -radius, 40, dtype=radius.dtype))
    return jnp.min(field(around)[0]), jnp.min(values), slope
