"""The gap between two solids: their closest points and the normal there.

In the frame of the first body. The gap is the greatest separation along any unit vector n,

    s(n) = min {n . z : z in the first} - max {n . z : z in the second},

which is the distance of convex solids that are apart, and minus the depth where they penetrate
each other. The normal points into the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..math import Quat, Vec3, direction, rotate, rotate_inverse, tree_where
from ..shapes import AbstractSolid
from .collider_of import Recipe, collider, collider_type, kind, outlined
from .colliders import (
    AbstractCollider,
    DistanceCollider,
    EllipsoidCollider,
    FrustumCollider,
    PolytopeCollider,
    SearchedCollider,
    Separation,
    SphereCollider,
)
from .ellipsoids import between_smooth, smooth_and_polytope
from .frustum_and_polytope import frustum_and_polytope
from .frustum_and_round import between_frustums, frustum_and_smooth
from .outlines import Outlined
from .patches import Patch, contact_patch, round_patch
from .separating_axis import between_polytopes


def prepare(
    first: AbstractSolid,
    second: AbstractSolid,
    place: str = "World.pairs",
    *,
    standing: bool = False,
) -> tuple[Recipe, Recipe]:
    """How the colliders are made in which two solids, none of them a union, are compared.

    With `standing` those of two solids with faces have their outlines, for `patch`.

    Raises:
        ValueError: naming the place, if the closest points of such a pair are not known.
    """
    solids = first, second
    makes: list[Callable[[Any], AbstractCollider]] = [collider, collider]
    types = [collider_type(solid) for solid in solids]
    for own, other in ((1, 0), (0, 1)):
        if types[other] is SphereCollider and types[own] not in (SphereCollider, SearchedCollider):
            types[own], makes[own] = DistanceCollider, DistanceCollider.of
    if tuple(types) not in _RULES and tuple(types[::-1]) not in _RULES:
        names = " and a ".join(map(kind, solids))
        raise ValueError(
            f"{place}: the closest points of a {names} are not known. Spheres can touch "
            "every solid; ellipsoids, boxes, polyhedra, capsules, cylinders, cones, and these "
            "rounded, each other."
        )
    if standing and all(issubclass(own, Outlined) for own in types):
        makes = [outlined, outlined]
    return Recipe(first, makes[0]), Recipe(second, makes[1])


def patch(first: AbstractCollider, second: AbstractCollider, shift: Vec3, turn: Quat) -> Patch:
    """The contact points of two solids with outlines, the second turned and then shifted."""
    assert isinstance(first, Outlined)
    assert isinstance(second, Outlined)
    moved = second.moved(shift, turn)
    if isinstance(first, PolytopeCollider) and isinstance(moved, PolytopeCollider):
        return contact_patch(first, moved)
    return round_patch(first, moved, separation(first, second, shift, turn))


def may_fail(colliders: tuple[AbstractCollider, AbstractCollider]) -> bool:
    """Whether the closest points are sought and may not be found, so that the gap is NaN."""
    kinds = set(map(type, colliders))
    return SearchedCollider in kinds or kinds in (
        {FrustumCollider},
        {FrustumCollider, EllipsoidCollider},
    )


def separation(
    first: AbstractCollider, second: AbstractCollider, shift: Vec3, turn: Quat
) -> Separation:
    """The separation of two solids, the second turned and then shifted."""
    rule = _rule(first, second)
    if rule is not None:
        return rule(first, second.moved(shift, turn))
    rule = _rule(second, first)
    assert rule is not None
    other = rule(second, first.moved(-rotate_inverse(turn, shift), turn.conjugate()))
    normal = -rotate(turn, other.normal)
    return Separation(other.gap, normal, rotate(turn, other.point) + shift - normal * other.gap)


def _rule(first: AbstractCollider, second: AbstractCollider) -> Callable[..., Separation] | None:
    """A function of two colliders in one frame."""
    return _RULES.get((type(first), type(second)))


def _between_balls(first: SphereCollider, second: SphereCollider) -> Separation:
    # Balls with one centre are as deep in each other along any normal.
    normal, distance = direction(first.center - second.center)
    gap = distance - first.radius - second.radius
    return Separation(gap, normal, second.center + normal * second.radius)


def _solid_and_ball(first: DistanceCollider, second: SphereCollider) -> Separation:
    distance, outward = jax.value_and_grad(first.solid.distance_map)(second.center)
    gap = distance - second.radius
    return Separation(gap, -outward, second.center - outward * second.radius)


def _searched_and_ball(first: SearchedCollider, second: SphereCollider) -> Separation:
    """The separation of a ball and a solid. With the centre of the ball inside, only its sign is
    reliable."""
    solid, center = first.solid, second.center
    depth, way_out = jax.value_and_grad(solid.distance_map)(center)
    outside = depth > 0
    # Any point outside serves where none is sought.
    zero = jnp.zeros_like(depth)
    elsewhere = Vec3(zero, zero, zero + 2 * jax.lax.stop_gradient(solid.size))
    point = tree_where(outside, center, elsewhere)
    distance, closest = solid.closest_map(point)
    distance, outward = tree_where(
        outside, (distance, (point - closest) / distance), (depth, way_out)
    )
    gap = distance - first.radius - second.radius
    return Separation(gap, -outward, center - outward * second.radius)


_RULES: dict[tuple[type, type], Callable[..., Separation]] = {
    (SphereCollider, SphereCollider): _between_balls,
    (DistanceCollider, SphereCollider): _solid_and_ball,
    (SearchedCollider, SphereCollider): _searched_and_ball,
    (PolytopeCollider, PolytopeCollider): between_polytopes,
    (EllipsoidCollider, EllipsoidCollider): between_smooth,
    (EllipsoidCollider, PolytopeCollider): smooth_and_polytope,
    (FrustumCollider, FrustumCollider): between_frustums,
    (FrustumCollider, PolytopeCollider): frustum_and_polytope,
    (FrustumCollider, EllipsoidCollider): frustum_and_smooth,
}
