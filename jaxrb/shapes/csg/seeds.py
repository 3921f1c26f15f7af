"""Preparation of solids for the search of their support points: corners and seeds."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ...math import Mat3, Vec3, norm, solve3
from ..base import AbstractSolid, arrays, components
from ..lattice import fibonacci_lattice
from .ascent import CORNER, OUTSIDE, SearchDomain, length, root, unstack
from .extremum import Searched, Seeds
from .normal_form import Expression, Region

_TURNS = 30  # of Newton's method
_PER_EDGE, _PER_FACE, _PER_WITNESS = 64, 512, 32  # starts
_EDGE_SEEDS, _FACE_SEEDS, _WITNESSES = 256, 128, 64  # seeds kept
_NEIGHBORS = 6  # seeds with which one is compared
_MAX_CORNER_SYSTEMS = 50_000


def searched_support(solid: AbstractSolid, direction: Vec3) -> tuple[Float[Array, ...], Vec3]:
    """`AbstractSolid.support_map` by a search that is prepared on the spot."""
    return components(prepare(arrays(solid))).support_map(direction)


@partial(jax.jit, static_argnames="near")
def prepare(solid: AbstractSolid, near: bool = False) -> Searched:
    """Finds the corners of a solid and spreads seeds over its edges and surfaces.

    Nothing is differentiated through this; corners carry the derivatives of the surfaces that
    meet there.

    Args:
        solid: of any shape.
        near: whether points closest to others are sought, in place of support points. They may
            be on the edges of planes, and on surfaces that no known solid has: on those of
            holes and of half-spaces.
    """
    region = solid.region()
    size = jax.lax.stop_gradient(solid.bounding_radius())
    domain = SearchDomain(jax.lax.stop_gradient(region), size)
    n_quadrics, n = len(region.flat), region.n_surfaces
    flat = np.array([*region.flat, *[False] * (n - n_quadrics)], bool)
    meeting = np.zeros((n, n), bool)
    for pair in region.formula.meeting(n_quadrics):
        meeting[pair] = meeting[pair[::-1]] = True

    if near:
        # Those of one known solid are found with its own closest point.
        solid_of = _solid_of(region.formula, n)
        sought = solid_of[:, None] != solid_of
        seeded = [not known for known in region.known]
        seeded += [not i or s for i, s in zip(region.inside, region.seeded, strict=True)]
    else:
        # Where planes meet only corners are furthest, and all others of one solid are its own.
        sought = ~(flat[:, None] & flat)
        seeded = [*[False] * n_quadrics, *region.seeded]
    edges = np.argwhere(np.triu(meeting) & sought)
    seeded = np.array(seeded, bool)
    faces, others = (np.flatnonzero(chosen)[:, None] for chosen in (seeded, ~seeded))
    seeds, on_edges = [], None
    if len(edges):
        on_edges = _project(domain, edges, _PER_EDGE)
        n_each = max(8, min(48, _EDGE_SEEDS // len(edges)))
        seeds.append(_seeds(edges, *on_edges, n_each, size))
    if len(faces):
        seeds.append(_seeds(faces, *_project(domain, faces, _PER_FACE), _FACE_SEEDS, size))
    witnesses, is_witness = jnp.zeros((0, 3), size.dtype), jnp.zeros(0, bool)
    if len(others):
        points, valid = _project(domain, others, _PER_WITNESS)
        witnesses, is_witness = _spread(_WITNESSES, size, points.reshape(-1, 3), valid.reshape(-1))
    corners, is_corner, complete = _corners(domain, region, edges, on_edges, flat, meeting)
    found = [is_witness, is_corner, *(group.exist[:, 0] for group in seeds)]
    whole = complete & jnp.any(jnp.concatenate(found))
    return Searched(
        region,
        corners,
        is_corner[:, None],
        tuple(seeds),
        witnesses,
        is_witness[:, None],
        jnp.where(whole, size, jnp.nan),
    )


def _seeds(patches: np.ndarray, points: Array, valid: Array, n_kept: int, size) -> Seeds:
    """The same number of seeds on each of the edges or faces, from candidates of shape
    (n_patches, n_points)."""

    def each(points, valid):
        points, exist = _spread(n_kept, size, points, valid)
        return points, exist[:, None], *_neighborhood(size, points, exist)

    rows = jax.vmap(each)(points, valid)
    surfaces = np.repeat(patches, rows[0].shape[1], axis=0)
    points, exist, neighbors, reach = (leaf.reshape(-1, *leaf.shape[2:]) for leaf in rows)
    return Seeds(points, exist, neighbors, reach, tuple(map(tuple, surfaces.tolist())))


def _project(domain: SearchDomain, patches: np.ndarray, n: int) -> tuple[Array, Array]:
    """Points on edges or faces, as an array of shape (n_patches, n, 3), and which of them the
    solid has. They are sought from a sphere around the solid: from there the nearest points are
    those that stick out."""
    starts = Vec3.of(jnp.asarray(fibonacci_lattice(n), domain.size.dtype) * (2 * domain.size))

    def project(surfaces, start):
        return domain.project(domain.region.pick(surfaces), start, _TURNS)

    each = jax.vmap(jax.vmap(project, in_axes=(None, 0)), in_axes=(0, None))
    points, valid = each(jnp.asarray(patches, jnp.int32), starts)
    return points.array(), valid


def _spread(n_kept: int, size, points: Float[Array, "n 3"], valid: Bool[Array, " n"]) -> tuple:
    """At most `n_kept` points, each the furthest from those before, and which of them are valid
    and new; zero in place of points that are not valid."""
    points = jnp.where(valid[:, None], points, 0.0)
    order, is_new, _ = _furthest_apart(n_kept, size, points, valid)
    return points[order], is_new


def _furthest_apart(n_kept: int, size, points: Array, valid: Array) -> tuple[Array, Array, Array]:
    """Like `_spread`, but returns the indices of the points, and whether more were left."""
    distinct = jnp.sqrt(jnp.finfo(size.dtype).eps) * size
    at = Vec3.of(points)

    def pick(apart, _):
        index = jnp.argmax(apart).astype(jnp.int32)
        chosen = jax.tree.map(lambda leaf: leaf[index], at)
        return jnp.minimum(apart, norm(at - chosen)), (index, apart[index] > distinct)

    apart = jnp.where(valid, jnp.inf, -jnp.inf).astype(size.dtype)
    if not len(points):
        return jnp.zeros(0, jnp.int32), valid, jnp.zeros((), bool)
    apart, (order, is_new) = jax.lax.scan(pick, apart, None, length=min(n_kept, len(points)))
    return order, is_new, jnp.any(apart > distinct)


def _neighborhood(size, points: Float[Array, "n 3"], valid: Bool[Array, " n"]) -> tuple:
    """The nearest valid points to each, itself where there are too few, and the distance of the
    second one; without it, the size."""
    apart = norm(Vec3.of(points[:, None]) - Vec3.of(points[None, :]))
    apart = jnp.where(valid[None] & ~jnp.eye(len(points), dtype=bool), apart, jnp.inf)
    nearness, order = jax.lax.top_k(-apart, min(_NEIGHBORS, len(points)))
    exists = jnp.isfinite(nearness)
    near = jnp.where(exists[..., None], points[order], points[:, None])
    return near, jnp.where(exists[:, 1:2], -nearness[:, 1:2], size)


def _corners(
    domain: SearchDomain,
    region: Region,
    edges: np.ndarray,
    on_edges: tuple[Float[Array, "n_edges n_points 3"], Array] | None,
    flat: np.ndarray,
    meeting: np.ndarray,
) -> tuple[Float[Array, "n_corners 3"], Bool[Array, " n_corners"], Bool[Array, ""]]:
    """The corners of a solid, which of them are real, and whether these are all.

    They are those of its convex solids, those of all triples of planes, and those of each edge
    with the two surfaces that are nearest to a point on it.
    """
    frozen, dtype = domain.region, domain.size.dtype
    n_own = len(region.corners)
    planes = _triples_of_planes(region.formula, flat, meeting)
    surfaces, starts = [jnp.asarray(planes, jnp.int32)], [jnp.zeros((len(planes), 3), dtype)]
    if on_edges is not None and len(flat) > 2:
        points, _ = on_edges
        surfaces.append(_triples_at_edges(frozen, edges, points, meeting))
        starts.append(jnp.repeat(points.reshape(-1, 3), 2, axis=0))
    surfaces, starts = jnp.concatenate(surfaces), jnp.concatenate(starts)
    if not n_own + len(surfaces):
        return jnp.zeros((0, 3), dtype), jnp.zeros(0, bool), jnp.ones((), bool)

    found, valid = jax.vmap(partial(_meet, domain))(surfaces, Vec3.of(starts))
    middles = frozen.middles[np.array(region.owners, int)]
    kept = jax.vmap(partial(_keeps, domain))(Vec3.of(frozen.corners), Vec3.of(middles))
    valid = jnp.concatenate([kept, valid])
    points = jnp.where(valid[:, None], jnp.concatenate([frozen.corners, found.array()]), 0.0)
    order, is_new, left = _furthest_apart(n_own + 4 * len(flat), domain.size, points, valid)
    met = (order >= n_own) & is_new
    surfaces = jnp.concatenate([jnp.zeros((n_own, 3), jnp.int32), surfaces])[order]
    corners = _polished(region, points[order], met, surfaces)
    if n_own:
        known = region.corners[jnp.minimum(order, n_own - 1)]
        corners = jnp.where(met[:, None], corners, known)
    return corners, is_new, ~left


def _triples_of_planes(formula: Expression, flat: np.ndarray, meeting: np.ndarray) -> np.ndarray:
    """All triples of planes that may meet in a corner, but for those of one solid, whose corners
    are known; shape (n, 3)."""
    solid_of = _solid_of(formula, len(flat))
    triples = [
        (i, j, k)
        for i, j in np.argwhere(np.triu(meeting) & flat[:, None] & flat)
        for k in range(j + 1, len(flat))
        if flat[k] and meeting[i, k] and meeting[j, k] and len({*solid_of[[i, j, k]]}) > 1
    ]
    if len(triples) > _MAX_CORNER_SYSTEMS:
        raise ValueError(
            f"The solid has {len(triples)} triples of planes that may meet in a corner; at most "
            f"{_MAX_CORNER_SYSTEMS} are tried. Use polyhedra with fewer faces."
        )
    return np.array(triples, int).reshape(-1, 3)


def _triples_at_edges(
    region: Region,
    edges: np.ndarray,
    points: Float[Array, "n_edges n_points 3"],
    meeting: np.ndarray,
) -> Int[Array, "n 3"]:
    """Each edge with either of the two surfaces nearest to each point on it that may meet it."""
    third = jnp.asarray(np.array([meeting[i] & meeting[j] for i, j in edges]))

    def nearest(may_meet, point):
        quadrics, levels = region.distances(Vec3.of(point))
        distance = jnp.abs(jnp.stack([*quadrics, *levels]))
        return jax.lax.top_k(jnp.where(may_meet, -distance, -jnp.inf), 2)[1]

    closest = jax.vmap(jax.vmap(nearest, in_axes=(None, 0)))(third, points)
    pair = jnp.asarray(edges, jnp.int32)[:, None, None]
    pair = jnp.broadcast_to(pair, (*closest.shape, 2))
    triples = jnp.concatenate([pair, closest.astype(jnp.int32)[..., None]], axis=-1)
    return triples.reshape(-1, 3)


def _meet(
    domain: SearchDomain, surfaces: Int[Array, "3"], start: Vec3
) -> tuple[Vec3, Bool[Array, ""]]:
    """Where three surfaces meet, by Newton's method, and whether that is a corner of the solid."""
    patch = domain.region.pick(surfaces)

    def newton(point):
        values, slopes = patch.jets(point)
        rows = Mat3(*unstack(slopes))
        # The direction in which one leaves all three at the same rate.
        outward = solve3(rows, Vec3(*norm(slopes)))
        return solve3(rows, Vec3(*values)), outward / length(outward)

    def turn(_, point):
        return point - domain.within_reach(newton(point)[0])

    point = jax.lax.fori_loop(0, _TURNS, turn, start)
    step, outward = newton(point)  # NaN where they never meet
    met = length(step) <= OUTSIDE * domain.unit
    return point, met & domain.contains(point, outward)


def _keeps(domain: SearchDomain, corner: Vec3, middle: Vec3) -> Bool[Array, ""]:
    """Whether a corner of one of its convex solids, with this middle, is one of the solid."""
    outward = corner - middle
    return domain.contains(corner, outward / length(outward))


def _polished(
    region: Region,
    points: Float[Array, "n 3"],
    met: Bool[Array, " n"],
    surfaces: Int[Array, "n 3"],
) -> Float[Array, "n 3"]:
    """The points where three surfaces met, with the derivatives of these surfaces."""

    def polish(point, used, surfaces):
        return root(CORNER, Vec3.of(point), used, (surfaces, region)).array()

    return jax.vmap(polish)(points, met, surfaces)


def _solid_of(formula: Expression, n: int) -> np.ndarray:
    """A number for each surface, the same for the quadrics of one solid."""
    numbers = -np.arange(1, n + 1)

    def visit(node: Expression) -> None:
        first, end = node.quadrics
        numbers[first:end] = first
        for child in node.nodes:
            visit(child)

    visit(formula)
    return numbers
