"""Solids taken apart into the shapes that they are made from."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...lie import quaternion as quaternions
from ...math import Quat, Vec3, dot, rotate, rotate_inverse
from ..base import AbstractShape, AbstractSolid
from ..csg.boolean import Complement, Difference, Intersection, Union
from ..csg.normal_form import Quadric
from ..placed import Placed
from ..rounded import Rounded
from ..scaled import Scaled


class Frame(NamedTuple):
    """Points x of a shape lie at scale turn x + position in the frame of the solid."""

    scale: Float[Array, ""]
    turn: Quat  # of length 1
    position: Vec3

    def own(self, point: Vec3) -> Vec3:
        """A point of the solid in the frame of the shape."""
        return rotate_inverse(self.turn, point - self.position) / self.scale

    def matrix(self) -> Float[Array, "3 3"]:
        return self.scale * quaternions.to_matrix(self.turn.array())


class Leaf(eqx.Module):
    """A shape that is not made from others, as part of a solid."""

    shape: AbstractShape
    inside: bool = eqx.field(static=True)  # False where its complement is meant
    rounding: Float[Array, ""] | None  # radius of the ball added to it, in its frame [m]
    frame: Frame

    def distance(self, point: Vec3) -> Float[Array, "..."]:
        """The signed distance of a point in the shape's frame [m]."""
        distance = self.shape.distance_map(point)
        return distance if self.rounding is None else distance - self.rounding

    def level(self, point: Vec3) -> Float[Array, "..."]:
        """The signed distance in the frame of the solid, positive in the shape."""
        return self.distance(self.frame.own(point)) * self.frame.scale

    def quadrics(self) -> Float[Array, "n 13"] | None:
        """The planes and quadrics that bound the shape in the frame of the solid, if any do."""
        surfaces = self.shape.surfaces() if self.rounding is None else None
        if surfaces is None:
            return None
        scale, turn, position = self.frame
        quadric = Quadric.of(surfaces.quadrics).scaled(scale)
        along = jax.tree.map(lambda a: a[None], (position, turn))
        return quadric.placed(*along).rows()


# The number of a leaf; or whether the least, or the greatest, of two formulas is meant.
Formula = int | tuple[bool, Any, Any]


class Assembly(eqx.Module):
    """A solid: where a formula over the levels of its leaves is negative."""

    leaves: list[Leaf]
    quadrics: Float[Array, "n 13"]  # of all leaves that have some
    n_quadrics: tuple[int, ...] = eqx.field(static=True)  # of each leaf
    formula: Formula = eqx.field(static=True)

    def levels(self, point: Vec3) -> list[tuple[Array, Array]]:
        """For each leaf a function of the sign of the signed distance, and no larger.

        Positive in a leaf where its complement is meant. And the number of the smooth surface
        that it belongs to.
        """
        rows = self.quadrics
        rows = rows.reshape(len(rows), *(1,) * point.x.ndim, rows.shape[1])
        value, slope = Quadric.of(rows).jet(jax.tree.map(lambda p: p[None], point))
        # The factor is 1 next to the surface, and keeps the level below the distance elsewhere.
        value = value * jnp.sqrt(2 / (1 + dot(slope, slope)))
        found, first = [], 0
        for leaf, n in zip(self.leaves, self.n_quadrics, strict=True):
            own = value[first : first + n] if n else leaf.level(point)[None]
            level = jnp.max(own, axis=0)
            facet = jnp.argmax(own, axis=0).astype(jnp.int32) + (first + len(found))
            found.append((level if leaf.inside else -level, facet))
            first += n
        return found


def assemble(solid: AbstractSolid, unit: Float[Array, ""]) -> Assembly:
    """The formula of a solid, with complements taken down to its leaves.

    Args:
        solid: in its own frame.
        unit: of the lengths of the result [m].

    Raises:
        ValueError: for a rounded intersection or difference, whose level is not its distance.
    """
    leaves: list[Leaf] = []

    def visit(shape: AbstractShape, inside: bool, rounding: Array | None, at: Frame) -> Formula:
        match shape:
            case Union():
                parts = (shape.a, inside), (shape.b, inside)
                least = inside
            case Intersection() | Difference() | Complement() if rounding is not None:
                raise ValueError(
                    f"Rounded {type(shape).__name__} has no mass properties: its signed "
                    "distance is only a bound where it is rounded. Round its shapes instead, "
                    "or give RigidBody(inertia=...)."
                )
            case Intersection():
                parts = (shape.a, inside), (shape.b, inside)
                least = not inside
            case Difference():
                parts = (shape.a, inside), (shape.b, not inside)
                least = not inside
            case Complement():
                return visit(shape.shape, not inside, None, at)
            case Rounded():
                more = shape.radius if rounding is None else shape.radius + rounding
                return visit(shape.shape, inside, more, at)
            case Scaled():
                own = None if rounding is None else rounding / shape.factor
                frame = at._replace(scale=at.scale * shape.factor)
                return visit(shape.shape, inside, own, frame)
            case Placed():
                turn = at.turn * Quat.of(shape.quaternion).normalized()
                position = at.position + rotate(at.turn, Vec3.of(shape.position)) * at.scale
                return visit(shape.shape, inside, rounding, Frame(at.scale, turn, position))
            case _:
                leaves.append(Leaf(shape, inside, rounding, at))
                return len(leaves) - 1
        a, b = (visit(part, sign, rounding, at) for part, sign in parts)
        return least, a, b

    one, zero = jnp.ones_like(unit), jnp.zeros_like(unit)
    none = Vec3(zero, zero, zero)
    formula = visit(solid, True, None, Frame(1 / unit, Quat(one, none), none))
    rows = [leaf.quadrics() for leaf in leaves]
    table = jnp.concatenate([jnp.zeros((0, 13), unit.dtype), *(a for a in rows if a is not None)])
    return Assembly(leaves, table, tuple(0 if a is None else len(a) for a in rows), formula)


def evaluate(formula: Formula, levels: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The level of a solid, and the number that comes with it."""
    if isinstance(formula, int):
        return levels[formula]
    least, a, b = formula
    return _greatest(evaluate(a, levels), evaluate(b, levels), -1 if least else 1)


def relevance(
    formula: Formula, leaf: int, levels: list[tuple[Array, Array]]
) -> tuple[Array, Array] | None:
    """Negative where it matters for the solid whether a point is in the leaf.

    That is outside of all that the leaf, and what is made of it, is united with, and inside of
    all that it is intersected with. With the number of the surface; None for a single leaf.
    """
    if isinstance(formula, int):
        return None
    least, a, b = formula
    own, other = (a, b) if _has(a, leaf) else (b, a)
    level, surface = evaluate(other, levels)
    condition = (-level if least else level), surface
    inner = relevance(own, leaf, levels)
    return condition if inner is None else _greatest(condition, inner, 1)


def _has(formula: Formula, leaf: int) -> bool:
    if isinstance(formula, int):
        return formula == leaf
    return any(_has(part, leaf) for part in formula[1:])


def _greatest(a: tuple[Array, Array], b: tuple[Array, Array], sign: int) -> tuple[Array, Array]:
    """The one with the greatest level, or the least if the sign is negative."""
    first = sign * a[0] > sign * b[0]
    return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])
