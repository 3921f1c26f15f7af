"""Solids as formulas over smooth surfaces: what a search for support points works on.

A solid built from others is a set of points {z : F(z) <= 0}, where F is a tree of maxima and
minima over functions g_k that change sign at a smooth surface: planes and quadrics, kept as
rows of one array, and the signed distances of all other shapes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ...math import Quat, Sym3, Vec3, dot, norm, rotate, tree_where

if TYPE_CHECKING:
    from ..base import AbstractSolid


class Quadric(eqx.Module):
    """The surface g(z) = w . A w / 2 + b . w + c = 0 with w = z - center; inside g < 0.

    It is scaled to |grad g| of about 1 on the surface, so that g is about the distance from it.
    The centre keeps g exact to round-off for small solids far from the origin.
    """

    center: Vec3  # [m]
    curvature: Sym3  # A [1/m]
    slope: Vec3  # b
    level: Float[Array, "..."]  # c [m]

    @staticmethod
    def of(rows: Float[Array, "... 13"]) -> Quadric:
        center, diagonal, off, slope = (Vec3.of(rows[..., k : k + 3]) for k in (0, 3, 6, 9))
        return Quadric(center, Sym3(diagonal, off), slope, rows[..., 12])

    def rows(self) -> Float[Array, "... 13"]:
        vectors = (self.center, self.curvature.diagonal, self.curvature.off, self.slope)
        parts = [part for v in vectors for part in (v.x, v.y, v.z)]
        return jnp.stack(jnp.broadcast_arrays(*parts, self.level), axis=-1)

    def jet(self, point: Vec3) -> tuple[Float[Array, "..."], Vec3]:
        """g and its gradient."""
        w = point - self.center
        bent = self.curvature.matvec(w)
        return dot(w, bent) / 2 + dot(self.slope, w) + self.level, bent + self.slope

    def complement(self) -> Quadric:
        negated = jax.tree.map(jnp.negative, self)
        return eqx.tree_at(lambda q: q.center, negated, self.center)

    def placed(self, position: Vec3, turn: Quat) -> Quadric:
        a = self.curvature.rows()
        # R A, then its transpose turned by R once more.
        a, b, c = (rotate(turn, row) for row in (a.row1, a.row2, a.row3))
        a, b, c = (
            rotate(turn, Vec3(*row)) for row in ((a.x, b.x, c.x), (a.y, b.y, c.y), (a.z, b.z, c.z))
        )
        curvature = Sym3(Vec3(a.x, b.y, c.z), Vec3(b.z, a.z, a.y))
        center = rotate(turn, self.center) + position
        return Quadric(center, curvature, rotate(turn, self.slope), self.level)

    def scaled(self, factor: Float[Array, ""]) -> Quadric:
        return Quadric(
            self.center * factor, self.curvature / factor, self.slope, self.level * factor
        )


def planes(normal: Float[Array, "n 3"], offset: Float[Array, " n"]) -> Float[Array, "n 13"]:
    """The planes normal . z = offset, for normals of length 1."""
    zero = jnp.zeros_like(normal, shape=(*offset.shape, 9))
    return jnp.concatenate([zero, normal, -offset[:, None]], axis=1)


def quadric(diagonal: Vec3, level: Float[Array, ""], center: Vec3 | None = None) -> Array:
    """A quadric with its axes along x, y, z, as an array of shape (1, 13)."""
    zero = jnp.zeros_like(level)
    none = Vec3(zero, zero, zero)
    row = Quadric(none if center is None else center, Sym3(diagonal, none), none, level)
    return row.rows()[None]


class Surfaces(NamedTuple):
    """The smooth surfaces that bound a convex shape."""

    quadrics: Float[Array, "n 13"]
    flat: tuple[bool, ...]  # which of them are planes
    corners: Float[Array, "m 3"] | None = None  # where three of them meet, or one has a tip


class Expression(NamedTuple):
    """A maximum (`every`) or a minimum over surfaces and other nodes."""

    every: bool
    quadrics: tuple[int, int]  # from, to
    levels: tuple[int, ...] = ()
    nodes: tuple[Expression, ...] = ()

    def shifted(self, quadrics: int, levels: int) -> Expression:
        first, end = self.quadrics
        return Expression(
            self.every,
            (first + quadrics, end + quadrics),
            tuple(level + levels for level in self.levels),
            tuple(node.shifted(quadrics, levels) for node in self.nodes),
        )

    def value(self, quadrics: Float[Array, " n"], levels: list[Array]) -> Float[Array, ""]:
        values = [levels[level] for level in self.levels]
        values += [node.value(quadrics, levels) for node in self.nodes]
        first, end = self.quadrics
        if end > first:
            own = quadrics[first:end]
            values.append(jnp.max(own) if self.every else jnp.min(own))
        return reduce(jnp.maximum if self.every else jnp.minimum, values)

    def groups(self, n_quadrics: int) -> list[list[int]]:
        """The surfaces of each child by number: first all quadrics, then all levels."""
        own = [*range(*self.quadrics), *(n_quadrics + level for level in self.levels)]
        of_nodes = [[*chain.from_iterable(node.groups(n_quadrics))] for node in self.nodes]
        return [[k] for k in own] + of_nodes

    def meeting(self, n_quadrics: int) -> Iterator[tuple[int, int]]:
        """Pairs of surfaces whose edge may bulge out: those that both must be negative.

        Where one of two suffices, the edge is a groove and no point of it is furthest.
        """
        for node in self.nodes:
            yield from node.meeting(n_quadrics)
        groups = self.groups(n_quadrics) if self.every else []
        for i, group in enumerate(groups):
            for other in groups[i + 1 :]:
                yield from ((min(a, b), max(a, b)) for a in group for b in other)


class Region(eqx.Module):
    """A solid as a formula over surfaces, with what else is known of its support.

    The furthest point of the solid is that of one of `solids`, one of `corners`, a point where
    surfaces meet, or one on a surface that is `seeded`; the point closest to another may also
    be on any surface that bounds none of `solids`. Array leaves have two axes, so that
    `components` leaves them alone.
    """

    quadrics: Float[Array, "n_quadrics 13"]
    levels: tuple[AbstractSolid, ...]  # by their signed distances
    solids: tuple[AbstractSolid, ...]  # convex, of known support and distance, not complemented
    middles: Float[Array, "n_solids 3"]  # a point inside of each [m]
    corners: Float[Array, "n_corners 3"]  # of these solids [m]
    formula: Expression = eqx.field(static=True)
    flat: tuple[bool, ...] = eqx.field(static=True)  # which quadrics are planes
    known: tuple[bool, ...] = eqx.field(static=True)  # which quadrics bound one of `solids`
    inside: tuple[bool, ...] = eqx.field(static=True)  # which levels are not complemented
    seeded: tuple[bool, ...] = eqx.field(static=True)  # which are of unknown support
    owners: tuple[int, ...] = eqx.field(static=True)  # the solid of each corner
    single: bool = eqx.field(static=True)  # one shape, not several combined

    @staticmethod
    def of_quadrics(surfaces: Surfaces, inside: bool) -> Region:
        """The region of a shape, bounded or not, whose support is not used."""
        quadrics, flat, _ = surfaces
        if not inside:
            quadrics = Quadric.of(quadrics).complement().rows()
        none = jnp.zeros_like(quadrics, shape=(0, 3))
        formula = Expression(inside, (0, len(flat)))
        known = (False,) * len(flat)
        return Region(quadrics, (), (), none, none, formula, flat, known, (), (), (), True)

    @staticmethod
    def of_distance(solid: AbstractSolid, inside: bool, seeded: bool) -> Region:
        """The region of a solid of smooth signed distance; `seeded` if its support is unknown."""
        none = jnp.zeros_like(solid.bounding_radius(), shape=(0, 3))
        formula = Expression(True, (0, 0), (0,))
        quadrics = jnp.zeros_like(none, shape=(0, 13))
        inner = Region(
            quadrics, (solid,), (), none, none, formula, (), (), (inside,), (seeded,), (), True
        )
        return inner._with_support(solid) if inside and not seeded else inner

    @staticmethod
    def of_solid(solid: AbstractSolid, surfaces: Surfaces | None, inside: bool) -> Region:
        """The region of a convex solid of known support."""
        if surfaces is None:
            return Region.of_distance(solid, inside, seeded=False)
        region = Region.of_quadrics(surfaces, inside)
        return region._with_support(solid, surfaces.corners) if inside else region

    def _with_support(self, solid: AbstractSolid, corners: Array | None = None) -> Region:
        """Adds a solid of known support; its middle is the mean of its ends along the axes."""
        dtype = self.quadrics.dtype
        ends = [
            solid.support_map(Vec3(*(jnp.asarray(sign * e, dtype) for e in axis)))[1].array()
            for axis in np.eye(3)
            for sign in (1, -1)
        ]
        middle = sum(ends[1:], ends[0])[None] / len(ends)
        corners = self.corners if corners is None else corners
        return dataclasses.replace(
            self,
            solids=(solid,),
            middles=middle,
            corners=corners,
            known=(True,) * len(self.flat),
            owners=(0,) * len(corners),
        )

    @staticmethod
    def combined(every: bool, *regions: Region) -> Region:
        """The intersection (`every`) or union of regions."""
        nodes, owners, n_quadrics, n_levels, n_solids = [], [], 0, 0, 0
        for region in regions:
            nodes.append(region.formula.shifted(n_quadrics, n_levels))
            owners += [n_solids + owner for owner in region.owners]
            n_quadrics += len(region.flat)
            n_levels += len(region.levels)
            n_solids += len(region.solids)

        def every_one(name: str) -> tuple:
            return tuple(chain.from_iterable(getattr(region, name) for region in regions))

        def join(name: str) -> Array:
            return jnp.concatenate([getattr(region, name) for region in regions])

        return Region(
            join("quadrics"),
            every_one("levels"),
            every_one("solids"),
            join("middles"),
            join("corners"),
            Expression(every, (0, 0), (), tuple(nodes)),
            every_one("flat"),
            every_one("known"),
            every_one("inside"),
            every_one("seeded"),
            tuple(owners),
            False,
        )

    def mapped(
        self,
        solid: Callable[[AbstractSolid], AbstractSolid],
        quadric: Callable[[Quadric], Quadric],
        point: Callable[[Vec3], Vec3],
    ) -> Region:
        """The region moved: its parts by the functions given."""
        levels, solids = tuple(map(solid, self.levels)), tuple(map(solid, self.solids))
        quadrics = quadric(Quadric.of(self.quadrics)).rows()
        middles, corners = (point(Vec3.of(p)).array() for p in (self.middles, self.corners))
        return dataclasses.replace(
            self,
            quadrics=quadrics,
            levels=levels,
            solids=solids,
            middles=middles,
            corners=corners,
        )

    @property
    def n_surfaces(self) -> int:
        return len(self.flat) + len(self.levels)

    def distances(self, point: Vec3) -> tuple[Float[Array, " n_quadrics"], list[Array]]:
        """About the signed distances from the quadrics, and those from the levels [m]."""
        value, gradient = Quadric.of(self.quadrics).jet(point)
        steepness = jnp.maximum(norm(gradient), jnp.finfo(value.dtype).tiny)
        distances = [level.distance_map(point) for level in self.levels]
        signed = [g if s else -g for g, s in zip(distances, self.inside, strict=True)]
        return value / steepness, signed

    def distance(self, point: Vec3) -> Float[Array, ""]:
        """F: about the signed distance near the surface, of the right sign everywhere [m]."""
        return self.formula.value(*self.distances(point))

    def pick(self, surfaces: Int[Array, " k"]) -> ActiveSurfaces:
        """The surfaces of some numbers; -1 for none."""
        order = jnp.arange(len(self.flat), dtype=jnp.int32)
        chosen = (surfaces[:, None] == order[None])[:, :, None]
        rows = jnp.sum(jnp.where(chosen, self.quadrics[None], 0.0), axis=1)
        return ActiveSurfaces(self, surfaces, Quadric.of(rows))


class ActiveSurfaces(eqx.Module):
    """Some surfaces of a region; g = 0 everywhere for none."""

    region: Region
    surfaces: Int[Array, " k"]
    quadrics: Quadric  # components of shape (k,); zero for levels

    def jets(self, point: Vec3) -> tuple[Float[Array, " k"], Vec3]:
        """g of each surface and its gradient."""
        jets = self.quadrics.jet(point)
        region = self.region
        for k, (level, inside) in enumerate(zip(region.levels, region.inside, strict=True)):
            jet = jax.value_and_grad(level.distance_map)(point)
            jet = jet if inside else jax.tree.map(jnp.negative, jet)
            jets = tree_where(self.surfaces == len(region.flat) + k, jet, jets)
        return jets
