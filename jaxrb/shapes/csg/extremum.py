"""Points of solids that have no closed form: furthest along a direction (Tran and Leok,
eqs. 88-89), or closest to a point outside.

With the height of `objective.py` the highest point of a solid is one of

- that of one of the convex solids it is made of, known in closed form;
- a corner, where three surfaces meet, found once for all aims;
- a point of an edge, where two surfaces meet, or of a surface that is not of a known solid.
  These are searched for each objective, by climbs from the best of many seeds that are spread over
  edges and surfaces once for all aims.

Every candidate is checked to lie in the solid, so none is too high. The highest one is
refused, and the height NaN, if a seed or an unfinished climb lies higher. What no seed has
seen is missed: an edge or a bump much smaller than the spacing of the seeds on its surface.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...math import Vec3, tree_where
from ..base import AbstractSolid
from .ascent import EDGE, FACE, OUTSIDE, SearchDomain, length, root
from .normal_form import Region
from .objective import AbstractObjective, Along, Near

# In units of its round-off: the sine of the angle by which the gradient of the height may miss
# the span of the normals at the highest point. The height is of second order in it.
_ANGLE = 1024
_STARTS = 4  # climbs at a time


class Seeds(eqx.Module):
    """Points of a solid, spread over some of its edges or faces."""

    points: Float[Array, "n 3"]  # [m]
    exist: Bool[Array, "n 1"]  # others are placeholders
    neighbors: Float[Array, "n n_neighbors 3"]  # the nearest seeds on the same edge or face [m]
    reach: Float[Array, "n 1"]  # distance of the second of them [m]
    surfaces: tuple[tuple[int, ...], ...] = eqx.field(static=True)  # two for an edge, or one

    def heights(self, objective: AbstractObjective) -> Float[Array, " n"]:
        """-inf for placeholders."""
        return jnp.where(self.exist[:, 0], objective.height(Vec3.of(self.points)), -jnp.inf)


class Searched(AbstractSolid):
    """A solid prepared for the search of its support or of its closest points; see `prepare`.

    Array leaves have two axes or more, so that `components` leaves them alone; in a stack of
    solids `size` tells how many more.
    """

    boundary: Region
    corners: Float[Array, "n_corners 3"]  # [m]
    is_corner: Bool[Array, "n_corners 1"]  # others are placeholders
    seeds: tuple[Seeds, ...]  # to start from, on edges and on faces
    witnesses: Float[Array, "n_witnesses 3"]  # points that show how far the solid extends [m]
    is_witness: Bool[Array, "n_witnesses 1"]
    size: Float[Array, ""]  # radius of a ball about the origin [m]; NaN where nothing was found

    def bounding_radius(self):
        return self.size

    def distance_map(self, point: Vec3):
        return self.boundary.distance(point)

    def support_map(self, direction: Vec3):
        """The furthest point, to round-off; NaN where the search fails.

        Of several corners that are furthest to round-off the middle is taken, of several other
        points any.
        """
        if direction.x.ndim == 0:
            return _highest(self, Along(direction))
        solid, axis = self, 0 if self.size.ndim else None
        if axis == 0 and self.size.shape[0] < direction.x.shape[0]:  # an axis of length 1
            solid, axis = jax.tree.map(lambda leaf: leaf[0], self), None
        return jax.vmap(Searched.support_map, in_axes=(axis, 0))(solid, direction)

    def closest_map(self, point: Vec3) -> tuple[Float[Array, ""], Vec3]:
        """The distance of one point outside, and the closest point; NaN where the search fails.

        Of several that are closest to round-off any is taken.
        """
        height, closest = _highest(self, Near(point))
        return -height, closest


@jax.jit
def _highest(solid: Searched, objective: AbstractObjective) -> tuple[Float[Array, ""], Vec3]:
    """The greatest height, and where.

    The candidates are compared without derivatives; the chosen one has those of its formula,
    or of the equations that it solves.
    """
    frozen, view = jax.lax.stop_gradient((solid, objective))
    domain = SearchDomain(frozen.boundary, frozen.size)
    witnesses = view.height(Vec3.of(frozen.witnesses))
    pending = jnp.max(jnp.where(frozen.is_witness[:, 0], witnesses, -jnp.inf), initial=-jnp.inf)

    candidates = []
    if solid.boundary.solids:
        points = [objective.best_of(shape) for shape in solid.boundary.solids]
        at = Vec3.of(jnp.stack([jax.lax.stop_gradient(point).array() for point in points]))
        outward = at - Vec3.of(frozen.boundary.middles)
        inside = jax.vmap(domain.contains)(at, outward / length(outward))
        candidates += zip(jnp.where(inside, view.height(at), -jnp.inf), points, strict=True)
    if len(solid.corners):
        candidates.append(_highest_corner(solid, view, domain))
    for seeds in frozen.seeds:
        found, start, surfaces, above = _search(domain, seeds, view)
        pending = jnp.maximum(pending, above)
        used = jnp.all(jnp.stack([found > -jnp.inf, *(found > h for h, _ in candidates)]))
        equations = EDGE if surfaces.size == 2 else FACE
        point = root(equations, start, used, (surfaces, objective, solid.boundary))
        candidates.append((found, point))

    best, point = candidates[0]
    for height, other in candidates[1:]:
        best, point = tree_where(height > best, (height, other), (best, point))
    round_off = jnp.maximum(domain.unit, jnp.finfo(best.dtype).eps * jnp.abs(best))
    good = (best > -jnp.inf) & (best >= pending - 4 * OUTSIDE * round_off)
    found = objective.height(point), point
    return tree_where(good, found, jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), found))


def _highest_corner(
    solid: Searched, objective: AbstractObjective, domain: SearchDomain
) -> tuple[Float[Array, ""], Vec3]:
    """Its height, -inf without corners; the middle of all that are as high to round-off, if they
    are on one plane."""
    corners = Vec3.of(solid.corners)
    heights = objective.height(jax.lax.stop_gradient(corners))
    heights = jnp.where(solid.is_corner[:, 0], heights, -jnp.inf)
    best = jnp.max(heights)
    if objective.flat:
        weight = (heights >= best - 8 * domain.unit).astype(best.dtype)
        weight = weight / jnp.sum(weight)
    else:
        order = jnp.arange(len(heights), dtype=jnp.int32)
        weight = (order == jnp.argmax(heights).astype(jnp.int32)).astype(best.dtype)
    return best, jax.tree.map(lambda c: jnp.sum(weight * c), corners)


def _search(domain: SearchDomain, seeds: Seeds, objective: AbstractObjective) -> tuple:
    """Climbs from the best seeds, among those that are higher than their neighbours.

    Returns:
        The height of the highest point that was found, -inf if none was; the point; its
        surfaces; how high a seed lies or an unfinished climb may lead.
    """
    heights = seeds.heights(objective)
    n = len(heights)
    around = objective.height(Vec3.of(seeds.neighbors))
    score = jnp.where(heights >= jnp.max(around, axis=1), heights, -jnp.inf)
    order = jnp.arange(n, dtype=jnp.int32)
    # How far a top between a seed and its neighbours may lie above it: an eighth of the second
    # difference for evenly spaced seeds on a parabola, of which this is twice to four times.
    rise = (heights - jnp.min(around, axis=1))[:, None] / 2
    table = seeds.points, seeds.reach, rise, jnp.asarray(seeds.surfaces, jnp.int32)

    def start(carry, _):
        score, best, highest = carry
        seed_height = jnp.max(score)
        here = order == jnp.min(jnp.where(score == seed_height, order, n))
        seed, reach, rise, surfaces = _pick(here, *table)
        top = domain.climb(objective, domain.region.pick(surfaces), Vec3.of(seed), reach[0])
        height, exists = objective.height(top.point), seed_height > -jnp.inf
        angle = _ANGLE * domain.angle(objective, top.point)
        settled = (length(top.projection_step) <= OUTSIDE * domain.unit) & (top.slope <= angle)
        found = settled & (top.multiplier >= -angle)
        found &= exists & domain.contains(top.point, top.outward)
        near = (
            domain.region.distance(top.point) <= length(top.projection_step) + OUTSIDE * domain.unit
        )
        above = jnp.minimum(seed_height + rise[0], height + top.slope * top.radius)
        above = jnp.where(exists & near & ~settled, above, -jnp.inf)
        best = tree_where(found & (height > best[0]), (height, top.point, surfaces), best)
        return (jnp.where(here, -jnp.inf, score), best, jnp.maximum(highest, above)), None

    lowest = jnp.full_like(domain.size, -jnp.inf)
    zero = jnp.zeros_like(lowest)
    none = lowest, Vec3(zero, zero, zero), table[3][0]
    carry = score, none, jnp.maximum(lowest, jnp.max(heights))
    (_, best, highest), _ = jax.lax.scan(start, carry, None, length=min(_STARTS, n))
    return *best, highest


def _pick(here: Bool[Array, " n"], *arrays: Array) -> tuple[Array, ...]:
    """One row of each array, chosen by comparison: a gather would leave the fused kernels."""
    return tuple(
        jnp.sum(jnp.where(here[:, None], array, jnp.zeros_like(array)), axis=0, dtype=array.dtype)
        for array in arrays
    )
