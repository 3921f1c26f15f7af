"""Projection onto the edges and faces of a solid, and Newton ascent along them.

An edge is where two smooth surfaces meet, a face a part of one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...math import Mat3, Vec3, cross, dot, solve3, tree_where, zeros_like
from ...math.autodiff import keep_rule, sparse_jvp
from .normal_form import ActiveSurfaces, Region
from .objective import AbstractObjective

# In units of the round-off of coordinates, eps times the bounding radius: how far outside a
# point of the solid may lie, and how deep below it the solid is probed.
OUTSIDE, _PROBE = 16, 128
_CLIMBS = 20  # turns of a climb


class _OnEdge(NamedTuple):
    """The edge of two surfaces near a point."""

    values: Float[Array, "2"]  # g [m]
    tangent: Vec3  # a x b for the gradients a, b
    first: Vec3  # the dual basis: 1 along a, 0 along b and the tangent
    second: Vec3
    outward: Vec3  # unit, between the normals

    @staticmethod
    def at(patch: ActiveSurfaces, point: Vec3) -> _OnEdge:
        values, gradients = patch.jets(point)
        a, b = unstack(gradients)
        n = cross(a, b)
        inverse = 1 / dot(n, n)
        outward = a / length(a) + b / length(b)
        duals = cross(b, n) * inverse, cross(n, a) * inverse
        return _OnEdge(values, n, *duals, outward / length(outward))

    def projection_step(self, second_order=(0.0, 0.0)) -> Vec3:
        """The shortest step to the edge, from where g is larger by `second_order` [m]."""
        g = self.values
        return self.first * (-g[0] - second_order[0]) + self.second * (-g[1] - second_order[1])

    def slope(self, d: Vec3) -> Float[Array, ""]:
        """The slope along the edge of a height with the gradient d."""
        return jnp.abs(dot(d, self.tangent)) / length(self.tangent)

    def multipliers(self, d: Vec3) -> Float[Array, "2"]:
        """The coefficients of the two surface gradients in d."""
        return jnp.stack([dot(d, self.first), dot(d, self.second)])

    def ascent_step(
        self, d: Vec3, level_curvature, bends: Callable, least
    ) -> tuple[Vec3, Float[Array, "2"]]:
        """Newton's step for the height along the edge, whose second derivative is given the sign
        that leads up and at least the size `least`; the second derivatives of both surfaces
        along the step."""
        n = self.tangent
        curvature = dot(n, bends(n))
        bend = jnp.abs(jnp.sum(self.multipliers(d) * curvature) + level_curvature * dot(n, n))
        step = dot(d, n) / jnp.maximum(bend, least * dot(n, n))
        return n * step, curvature * step**2


class _OnFace(NamedTuple):
    """A surface near a point."""

    values: Float[Array, "1"]  # g [m]
    gradient: Vec3
    outward: Vec3  # unit

    @staticmethod
    def at(patch: ActiveSurfaces, point: Vec3) -> _OnFace:
        values, gradients = patch.jets(point)
        (a,) = unstack(gradients)
        return _OnFace(values, a, a / length(a))

    def projection_step(self, second_order=(0.0,)) -> Vec3:
        """The shortest step to the surface, from where g is larger by `second_order` [m]."""
        return self.gradient * (
            (-self.values[0] - second_order[0]) / dot(self.gradient, self.gradient)
        )

    def slope(self, d: Vec3) -> Float[Array, ""]:
        """The slope along the surface of a height with the gradient d."""
        return length(self._up(d))

    def multipliers(self, d: Vec3) -> Float[Array, "1"]:
        """The coefficient of the surface gradient in d."""
        return (dot(d, self.outward) / length(self.gradient))[None]

    def _up(self, d: Vec3) -> Vec3:
        return d - self.outward * dot(d, self.outward)

    def ascent_step(
        self, d: Vec3, level_curvature, bends: Callable, least
    ) -> tuple[Vec3, Float[Array, "1"]]:
        """The same on the surface, where the eigenvalues of the second derivative are changed."""
        along = self._up(d)
        across = cross(self.outward, along)
        along_bent, across_bent = bends(along), bends(across)
        aa, ab = dot(along, along_bent)[0], dot(across, along_bent)[0]
        bb = dot(across, across_bent)[0]
        multiplier, steepness = self.multipliers(d)[0], dot(along, along)
        mean, half = (
            multiplier * (aa + bb) / 2 + level_curvature * steepness,
            multiplier * (aa - bb) / 2,
        )
        off = multiplier * ab
        spread = jnp.sqrt(half * half + off * off)
        apart = jnp.where(spread > 0, spread, 1.0)
        least = jnp.maximum(least * steepness, jnp.finfo(mean.dtype).tiny)
        larger = steepness / jnp.maximum(jnp.abs(mean + spread), least)
        smaller = steepness / jnp.maximum(jnp.abs(mean - spread), least)
        odd = (larger - smaller) / 2
        s, t = (larger + smaller) / 2 + odd * half / apart, odd * off / apart
        bend = (aa * s + 2 * ab * t) * s + bb * t * t
        return along * s + across * t, bend[None]


class LocalMaximum(NamedTuple):
    """The end of a climb."""

    point: Vec3  # [m]
    projection_step: Vec3  # the step from there to the edge or face [m]
    slope: Float[Array, ""]  # of the height along the edge or face
    multiplier: Float[Array, ""]  # of the gradients in that of the height, the least
    radius: Float[Array, ""]  # within which the next step would have been [m]
    outward: Vec3  # unit


class SearchDomain(eqx.Module):
    """A solid within a ball about the origin."""

    region: Region
    size: Float[Array, ""]  # radius of the ball [m]

    @property
    def unit(self) -> Float[Array, ""]:
        """Round-off of coordinates [m]."""
        return jnp.finfo(self.size.dtype).eps * self.size

    def contains(self, point: Vec3, outward: Vec3) -> Bool[Array, ""]:
        """Whether a point of the surface belongs to the solid, which goes on below it.

        A surface shared by a solid and what is cut from it leaves points that satisfy all
        inequalities but have no inside.
        """
        below = point - outward * (_PROBE * self.unit)
        at, under = self.region.distance(point), self.region.distance(below)
        return (at <= OUTSIDE * self.unit) & (under < 0)

    def within_reach(self, step: Vec3) -> Vec3:
        """A step not longer than the solid is large; none where it is not finite."""
        far = length(step)
        shortened = step * (self.size / jnp.maximum(far, self.size))
        return tree_where(jnp.isfinite(far), shortened, zeros_like(step))

    def project(
        self, patch: ActiveSurfaces, start: Vec3, turns: int
    ) -> tuple[Vec3, Bool[Array, ""]]:
        """A point on an edge or face by Newton's method, and whether the solid has it."""
        view = _view(patch)

        def turn(_, point):
            return point + self.within_reach(view(point).projection_step())

        point = jax.lax.fori_loop(0, turns, turn, start)
        end = view(point)
        on_it = length(end.projection_step()) <= OUTSIDE * self.unit
        return point, on_it & self.contains(point, end.outward)

    def climb(
        self,
        objective: AbstractObjective,
        patch: ActiveSurfaces,
        start: Vec3,
        radius: Float[Array, ""],
    ) -> LocalMaximum:
        """The highest point of an edge or face near a start, by Newton's method.

        The height is expanded to second order along the edge or face, whose curvature comes
        from the Lagrangian. Steps always lead up; they are bounded by a radius that is halved
        where they turn back without becoming shorter.
        """
        eps = jnp.finfo(radius.dtype).eps
        view = _view(patch)

        def turn(_, carry):
            point, before, radius = carry

            def bends(tangent: Vec3) -> Vec3:
                return jax.jvp(lambda z: patch.jets(z)[1], (point,), (tangent,))[1]

            here, d = view(point), objective.gradient(point)
            step, bend = here.ascent_step(
                d, objective.level_curvature(point), bends, eps / self.size
            )
            back_and_forth = dot(step, before) < -dot(before, before) / 4
            radius = jnp.where(back_and_forth, radius / 2, radius)
            # At the top, where the slope is round-off, the step would be noise.
            climbing = here.slope(d) > 8 * self.angle(objective, point)
            part = jnp.where(climbing, radius / jnp.maximum(length(step), radius), 0.0)
            # Surfaces bend away from the step by half their second derivative along it.
            back = self.within_reach(here.projection_step(bend * (part * part / 2)))
            return point + step * part + back, step * part, radius

        zero = jnp.zeros_like(radius)
        carry = start, Vec3(zero, zero, zero), radius
        point, _, radius = jax.lax.fori_loop(0, _CLIMBS, turn, carry)
        end, d = view(point), objective.gradient(point)
        multiplier = jnp.min(end.multipliers(d))
        return LocalMaximum(
            point, end.projection_step(), end.slope(d), multiplier, radius, end.outward
        )

    def angle(self, objective: AbstractObjective, point: Vec3) -> Float[Array, ""]:
        """Round-off of the angle of the gradient of a height."""
        return jnp.finfo(self.size.dtype).eps * (1 + self.size * objective.level_curvature(point))


def _view(patch: ActiveSurfaces) -> Callable[[Vec3], _OnEdge | _OnFace]:
    return partial((_OnEdge if len(patch.surfaces) == 2 else _OnFace).at, patch)


class Equations(NamedTuple):
    """Three equations for a point, and the step to the surfaces that are among them."""

    values: Callable[..., Vec3]
    projection_step: Callable[..., Vec3]


def _edge_values(point: Vec3, surfaces, objective: AbstractObjective, region: Region) -> Vec3:
    (g_1, g_2), gradients = region.pick(surfaces).jets(point)
    return Vec3(g_1, g_2, dot(objective.gradient(point), cross(*unstack(gradients))))


def _face_values(point: Vec3, surfaces, objective: AbstractObjective, region: Region) -> Vec3:
    (g,), gradients = region.pick(surfaces).jets(point)
    (a,) = unstack(gradients)
    # Two vectors across the direction (Duff et al. 2017).
    d = objective.gradient(point)
    sign = jnp.where(d.z < 0, -1.0, 1.0).astype(d.z.dtype)
    scale = sign * d.x / (sign + d.z)
    across = Vec3(1 - scale * d.x, -scale * d.y, -sign * d.x)
    return Vec3(g, dot(across, a), dot(cross(d, across), a))


def _corner_values(point: Vec3, surfaces, region: Region) -> Vec3:
    return Vec3(*region.pick(surfaces).jets(point)[0])


def _onto_patch(point: Vec3, surfaces, _, region: Region) -> Vec3:
    return _view(region.pick(surfaces))(point).projection_step()


def _onto_corner(point: Vec3, surfaces, region: Region) -> Vec3:
    values, gradients = region.pick(surfaces).jets(point)
    return -solve3(Mat3(*unstack(gradients)), Vec3(*values))


# Zero at the highest point of the edge of two surfaces, at that of a surface, where its
# gradient is along that of the height, and where three surfaces meet.
EDGE = Equations(_edge_values, _onto_patch)
FACE = Equations(_face_values, _onto_patch)
CORNER = Equations(_corner_values, _onto_corner)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def root(equations: Equations, start: Vec3, used: Bool[Array, ""], args: tuple) -> Vec3:
    """The root of some equations, which is `start` to round-off; see `Equations`.

    It has no derivatives where it is not `used`, and no finite ones where the equations are
    singular: where all of an edge or face has the greatest height.
    """
    step = equations.projection_step(start, *args)
    return start + tree_where(used, step, zeros_like(step))


@partial(root.defjvp, symbolic_zeros=True)
def _(equations, primals, tangents):
    """The implicit function theorem."""
    _, used, args = primals
    point = keep_rule(partial(root, equations))(*primals)

    def at_point(args):
        return equations.values(point, *args)

    _, change = sparse_jvp(at_point, (args,), tangents[2:])
    change = tree_where(used, change, zeros_like(change))
    return point, -solve3(_rows(equations.values, point, used, args), change)


def _rows(equations: Callable, point: Vec3, used: Bool[Array, ""], args: tuple) -> Mat3:
    """The derivative of the equations by the point; the identity where it is not used."""
    one, zero = jnp.ones_like(point.x), jnp.zeros_like(point.x)
    axes = Vec3(one, zero, zero), Vec3(zero, one, zero), Vec3(zero, zero, one)
    x, y, z = (
        tree_where(used, jax.jvp(lambda p: equations(p, *args), (point,), (axis,))[1], axis)
        for axis in axes
    )
    return Mat3(Vec3(x.x, y.x, z.x), Vec3(x.y, y.y, z.y), Vec3(x.z, y.z, z.z))


def length(v: Vec3) -> Float[Array, "..."]:
    """The length of a vector, NaN if it is none, unlike `norm`; for what is not differentiated."""
    return jnp.sqrt(dot(v, v))


def unstack(vectors: Vec3) -> list[Vec3]:
    """The vectors that a `Vec3` with components of shape (k,) holds."""
    return [Vec3(*parts) for parts in zip(vectors.x, vectors.y, vectors.z, strict=True)]
