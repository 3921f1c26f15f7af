"""The gap between two solids: their closest points and the normal there.

In the frame of the first body. The gap is the greatest separation along any unit vector n,

    s(n) = min {n . z : z in the first} - max {n . z : z in the second},

which is the distance of convex solids that are apart, and minus the depth where they penetrate
each other. The normal points into the first.
"""

from __future__ import annotations

from collections.abc import Callable

import jax

from ..math import Quat, Vec3, direction, rotate, rotate_inverse
from ..shapes import AbstractSolid
from ..shapes.base import components
from .forms import AbstractForm, Ball, Distance, Polytope, Separation, Smooth, form
from .polytopes import between_polytopes
from .smooth import between_smooth, smooth_and_polytope


def prepare(first: AbstractSolid, second: AbstractSolid) -> tuple[AbstractForm, AbstractForm]:
    """The forms in which two solids, none of them a union, are compared.

    Raises:
        ValueError: if the closest points of such a pair are not known.
    """
    a, b = form(first), form(second)
    if isinstance(a, Ball) and not isinstance(b, Ball):
        b = Distance(components(second))
    if isinstance(b, Ball) and not isinstance(a, Ball):
        a = Distance(components(first))
    if _rule(a, b) is None and _rule(b, a) is None:
        names = " and a ".join(type(solid).__name__ for solid in (first, second))
        raise ValueError(
            f"World.pairs: the closest points of a {names} are not known. Spheres can touch every "
            "solid; ellipsoids, boxes, polyhedra and capsules can touch each other, but rounded "
            "ellipsoids no solids with faces, and ellipsoids no rounded ones."
        )
    return a, b


def separation(first: AbstractForm, second: AbstractForm, shift: Vec3, turn: Quat) -> Separation:
    """Of two solids, the second turned and then shifted."""
    rule = _rule(first, second)
    if rule is not None:
        return rule(first, second.moved(shift, turn))
    rule = _rule(second, first)
    assert rule is not None
    other = rule(second, first.moved(-rotate_inverse(turn, shift), turn.conjugate()))
    normal = -rotate(turn, other.normal)
    return Separation(other.gap, normal, rotate(turn, other.point) + shift - normal * other.gap)


def _rule(first: AbstractForm, second: AbstractForm) -> Callable[..., Separation] | None:
    """A function of two forms in one frame."""
    match first, second:
        case Ball(), Ball():
            return _between_balls
        case Distance(), Ball():
            return _solid_and_ball
        case Polytope(), Polytope():
            return between_polytopes
        case Smooth(), Smooth():
            return between_smooth
        case Smooth(rounded=False), Polytope(rounded=False):
            return smooth_and_polytope
    return None


def _between_balls(first: Ball, second: Ball) -> Separation:
    # Balls with one centre are as deep in each other along any normal.
    normal, distance = direction(first.center - second.center)
    gap = distance - first.radius - second.radius
    return Separation(gap, normal, second.center + normal * second.radius)


def _solid_and_ball(first: Distance, second: Ball) -> Separation:
    distance, outward = jax.value_and_grad(first.solid.distance_map)(second.center)
    gap = distance - second.radius
    return Separation(gap, -outward, second.center - outward * second.radius)
