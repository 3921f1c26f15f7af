"""Ellipsoids and spheres."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import Vec3, dot, hadamard, norm
from ..math.autodiff import keep_rule, sparse_jvp
from .base import AbstractSolid, Moments, length_parameter
from .csg.normal_form import Surfaces, quadric


class Ellipsoid(AbstractSolid):
    """The solid {z : (x/a)^2 + (y/b)^2 + (z/c)^2 <= 1}. The signed distance is exact.

    Attributes:
        semi_axes: (a, b, c) [m], positive.
    """

    semi_axes: Float[Array, "3"]

    def __init__(self, semi_axes):
        self.semi_axes = length_parameter(semi_axes, "Ellipsoid.semi_axes", (3,))

    def support_map(self, direction: Vec3):
        """h(d) = |A d| at A^2 d/|A d|, A = diag(a, b, c) (Tran and Leok, eq. 84)."""
        axes = Vec3.of(self.semi_axes)
        stretched = hadamard(axes, direction)
        height = jnp.sqrt(dot(stretched, stretched))
        return height, hadamard(axes, stretched) / height

    def distance_map(self, point: Vec3):
        """By the foot x of the point p on the surface.

        p = x + t (x_i/a_i^2) and so x_i = a_i^2 p_i/(a_i^2 + t), for the largest root t of
        sum (a_i p_i/(a_i^2 + t))^2 = 1; the distance is t times the length of
        (p_i/(a_i^2 + t)), which has no corner at the surface.
        """
        axes = Vec3.of(self.semi_axes)
        least = jnp.minimum(axes.x, jnp.minimum(axes.y, axes.z))
        p = jax.tree.map(_off_zero, point, axes)
        excess = jax.tree.map(lambda a: (a - least) * (a + least), axes)
        u = _secular_root(hadamard(axes, p), excess)  # a_min^2 + t
        slope = jax.tree.map(lambda p, excess: p / (u + excess), p, excess)
        return (u - least * least) * norm(slope)

    def surfaces(self):
        """s ((x/a)^2 + (y/b)^2 + (z/c)^2 - 1)/2 <= 0 with the least semi-axis s."""
        least = jnp.min(self.semi_axes)
        return Surfaces(quadric(Vec3.of(least / self.semi_axes**2), -least / 2), (False,))

    def strictly_convex_parts(self):
        return (self,)

    @property
    def is_convex(self):
        return True

    @property
    def is_centered(self):
        return True

    def bounding_radius(self):
        return jnp.max(self.semi_axes)

    def uniform_moments(self):
        volume = 4 / 3 * jnp.pi * jnp.prod(self.semi_axes)
        return Moments.symmetric(volume, volume * self.semi_axes**2 / 5)


class Sphere(AbstractSolid):
    """The ball of a given radius about the origin. The signed distance is exact.

    Attributes:
        radius: [m], positive.
    """

    radius: Float[Array, ""]

    def __init__(self, radius):
        self.radius = length_parameter(radius, "Sphere.radius", ())

    def support_map(self, direction: Vec3):
        return self.radius, direction * self.radius

    def distance_map(self, point: Vec3):
        return norm(point) - self.radius

    def surfaces(self):
        """(x^2 + y^2 + z^2 - r^2)/2r <= 0."""
        r = self.radius
        return Surfaces(quadric(Vec3(1 / r, 1 / r, 1 / r), -r / 2), (False,))

    def strictly_convex_parts(self):
        return (self,)

    @property
    def is_convex(self):
        return True

    @property
    def is_centered(self):
        return True

    def bounding_radius(self):
        return self.radius

    def swing_radius(self):
        return jnp.zeros_like(self.radius)

    def uniform_moments(self):
        volume = 4 / 3 * jnp.pi * self.radius**3
        return Moments.symmetric(volume, jnp.full(3, volume * self.radius**2 / 5))

    def rounded_moments(self, radius):
        return Sphere(self.radius + radius).uniform_moments()


@jax.custom_jvp
def _secular_root(b: Vec3, excess: Vec3) -> Float[Array, ...]:
    """The largest root u of sum (b_i/(u + excess_i))^2 = 1, for b != 0 and excess >= 0.

    Newton's method for 1/|(b_i/(u + excess_i))| = 1, which is concave and nearly linear in
    u, climbs to the root from the left without passing it.
    """
    first = jax.tree.map(lambda b, excess: jnp.abs(b) - excess, b, excess)
    u = jnp.maximum(first.x, jnp.maximum(first.y, first.z))
    resolution = 4 * jnp.finfo(u.dtype).eps

    def unfinished(carry):
        u, change, turns = carry
        return jnp.any(jnp.abs(change) > resolution * u) & (turns < _MAX_TURNS)

    def turn(carry):
        u, _, turns = carry
        ratio = jax.tree.map(lambda b, excess: b / (u + excess), b, excess)
        squared = dot(ratio, ratio)
        steep = sum(r * r / (u + e) for r, e in zip(_parts(ratio), _parts(excess), strict=True))
        change = (jnp.sqrt(squared) - 1) * squared / steep
        return u + change, change, turns + 1

    u, _, _ = jax.lax.while_loop(unfinished, turn, (u, u, jnp.zeros((), jnp.int32)))
    return u


_MAX_TURNS = 60


@partial(_secular_root.defjvp, symbolic_zeros=True)
def _(primals, tangents):
    """The implicit function theorem."""
    u = keep_rule(_secular_root)(*primals)

    def equation(u, b, excess):
        ratio = jax.tree.map(lambda b, excess: b / (u + excess), b, excess)
        return dot(ratio, ratio)

    _, change = sparse_jvp(partial(equation, u), primals, tangents)
    _, slope = jax.jvp(lambda u: equation(u, *primals), (u,), (jnp.ones_like(u),))
    return u, -change / slope


def _off_zero(p: Float[Array, ...], a: Float[Array, ...]) -> Float[Array, ...]:
    """A coordinate moved away from zero by round-off, so that a^2 + t never is zero.

    Only its value: the distance keeps its derivatives in the planes of symmetry.
    """
    least = jnp.finfo(p.dtype).eps * a
    moved = jnp.where(p < 0, jnp.minimum(p, -least), jnp.maximum(p, least))
    return p + jax.lax.stop_gradient(moved - p)


def _parts(a: Vec3) -> tuple:
    return a.x, a.y, a.z
