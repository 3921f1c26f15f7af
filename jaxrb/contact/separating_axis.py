"""The separation of polyhedra and segments, rounded or not.

The greatest separation is along the normal of a face, along the common normal of two edges, or
from one vertex to another or to an edge. Those are all tried; each separates no more than the
greatest, so that one which is wrong does no harm (Boyd and Vandenberghe, section 8.2, for the
separation; Gregorius, "The separating axis test between convex polyhedra", 2013, for the edges
whose common normal bounds the Minkowski difference).
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..math import Vec3, cross, direction, dot, norm, tree_where
from ..math.materialize import compute_once
from ..math.rarely import if_any
from ..math.safe import safe_divide
from .colliders import PolytopeCollider, Separation

Tree = TypeVar("Tree")

# The sine of the angle between edges below which their common normal loses digits.
_NEARLY = 0.1


class Heights(NamedTuple):
    """Of the corners of two polytopes over the planes of each other's faces; faces lead."""

    over_a: Float[Array, "n_faces_a n_vertices_b"]  # [m]
    over_b: Float[Array, "n_faces_b n_vertices_a"]

    @staticmethod
    def of(a: PolytopeCollider, b: PolytopeCollider) -> Heights:
        """Of two polytopes in one frame."""
        return Heights(_heights(a, b.vertices), _heights(b, a.vertices))

    def axes(self, a: PolytopeCollider, b: PolytopeCollider) -> tuple[Vec3, Float[Array, " n"]]:
        """The normals of all faces, those of the first turned into it, and the separations."""
        least = jnp.concatenate([jnp.min(over, axis=1) for over in self])
        return _join([-a.normal, b.normal]), jax.lax.stop_gradient(least)


def between_polytopes(a: PolytopeCollider, b: PolytopeCollider) -> Separation:
    """The separation of two polytopes in one frame.

    Where the closest points are many, the middle of the corners of the set of them is taken.
    """
    return separate(a, b, Heights.of(a, b))


def separate(a: PolytopeCollider, b: PolytopeCollider, heights: Heights) -> Separation:
    """The separation of two polytopes whose heights over each other are known.

    Most of the work is that of the edges, all of each with all of the other. Where a corner of one
    is on a face of the other, or as far before it as that face separates both, nothing can separate
    them more: then, if that holds in all of a batch, no edges are looked at. Of solids that
    penetrate each other edges may say that they do so by less, but not where a corner is well
    within the other (see `is_well_within`).
    """
    normals, separations = heights.axes(a, b)
    if not len(separations):
        return _by_edges(a, b, heights)
    best = jnp.argmax(separations)
    along, touching = _along(a, b, heights, pick(normals, best))
    near, deepest = _near(a, b), pick(separations, best)
    known = jnp.any(touching) & (deepest >= -near)
    known |= (deepest < 0) & is_well_within(heights, best, deepest, near)

    def by_edges(a, b, heights, along):
        return tree_where(known, along, _by_edges(a, b, heights))

    return if_any(~known, by_edges, lambda a, b, heights, along: along, a, b, heights, along)


def is_well_within(
    heights: Heights, best: Int[Array, ""], deepest: Float[Array, ""], near: Float[Array, ""]
) -> Bool[Array, ""]:
    """Whether a corner of one solid, a depth d below the face of the other that separates them the
    most, is further than 4 d from all its other faces.

    Then no direction n separates them more. With f the normal of the face, outward, and
    n = f cos + t sin, where t is along the face, the separation is at most n.(a - b) for any a of
    one solid and b of the other. Let a be the corner, and b either 3 d beside the foot of the
    corner on the face, along t, or 4 d below the corner, which both are within the other:

        n.(a - b) = -d cos - 3 d sin   or   4 d cos.

    The first is at most -d for tan(angle/2) <= 3, that is cos >= -0.8, the second for
    cos <= -1/4.
    """
    start, found = 0, []
    for over in jax.lax.stop_gradient(heights):
        rows = jnp.arange(len(over), dtype=best.dtype) + start
        own, start = (rows == best)[:, None], start + len(over)
        lowest = jnp.any(own & (over <= deepest + near), axis=0)
        others = jnp.max(jnp.where(own, -jnp.inf, over), axis=0, initial=-jnp.inf)
        found.append(jnp.any(lowest & (others < 4 * deepest - near)))
    return found[0] | found[1]


def _by_edges(a: PolytopeCollider, b: PolytopeCollider, heights: Heights) -> Separation:
    """Along the best of all axes: the normals of faces, the common normals of all pairs of edges,
    and the direction from one to the other of their closest points."""
    edges = _edges(a, b)
    across = edges.closest()
    extent = jnp.min(dot(across, a.vertices)) - jnp.max(dot(across, b.vertices))
    of_faces, separations = heights.axes(a, b)
    normals = _join([of_faces, edges.normal, _with_axis(across)])
    others = jax.lax.stop_gradient((edges.separation, extent[None]))
    best = jnp.argmax(jnp.concatenate([separations, *others]))
    return _along(a, b, heights, pick(normals, best), edges)[0]


def _along(
    a: PolytopeCollider,
    b: PolytopeCollider,
    heights: Heights,
    normal: Vec3,
    edges: Edges | None = None,
) -> tuple[Separation, Bool[Array, " n_corners"]]:
    """The separation along a normal, and which corners of both, those of the second first, are
    closest to the other solid: with edges, so may be the points where these cross."""
    top, bottom = dot(normal, a.vertices), dot(normal, b.vertices)
    lowest = pick(a.vertices, jnp.argmin(top))
    highest = pick(b.vertices, jnp.argmax(bottom))
    depth = dot(normal, lowest - highest)

    level, near = jax.lax.stop_gradient(depth), _near(a, b)
    # Corners that, moved along the normal, belong to the other.
    inner_a = heights.over_a + level * dot(a.normal, normal)[:, None]
    inner_b = heights.over_b - level * dot(b.normal, normal)[:, None]
    touches_a = (bottom >= jnp.max(bottom) - near) & (_greatest(inner_a) <= near)
    touches_b = (top <= jnp.min(top) + near) & (_greatest(inner_b) <= near)
    points, touching = [b.vertices, a.vertices - normal * depth], [touches_a, touches_b]
    if edges is not None:
        points.append(edges.on_b)
        touching.append(edges.distance <= jnp.abs(level) + near)
    active = jnp.concatenate(touching).astype(depth.dtype)
    number = jnp.sum(active)
    middle = jax.tree.map(lambda p: jnp.sum(active * p) / jnp.maximum(number, 1.0), _join(points))
    point = jax.tree.map(lambda m, h: jnp.where(number > 0, m, h), middle, highest)
    found = Separation(depth - a.radius - b.radius, normal, point + normal * b.radius)
    return found, jnp.concatenate([touches_a, touches_b])


def _near(a: PolytopeCollider, b: PolytopeCollider) -> Float[Array, ""]:
    """The round-off of heights [m]."""
    size = jax.lax.stop_gradient(size_of(a, b))
    return 32 * jnp.finfo(size.dtype).eps * size


class Edges(NamedTuple):
    """All pairs of an edge of one and an edge of the other, (n_pairs,)."""

    normal: Vec3  # common, unit, into the first
    separation: Float[Array, " n_pairs"]  # along it [m]; -inf where it does not bound
    on_a: Vec3  # the points of the two edges that are closest to each other [m]
    on_b: Vec3
    distance: Float[Array, " n_pairs"]  # of these [m]

    def closest(self) -> Vec3:
        """The direction from one to the other of the closest points of all; any where they
        are one."""
        # Once: what is divided by its length may not round to none where the length is some.
        apart = compute_once(pick(self.on_a - self.on_b, jnp.argmin(self.distance)))
        return direction(apart)[0]


def _edges(a: PolytopeCollider, b: PolytopeCollider) -> Edges:
    """Broadcasts the edges of `a` along columns, those of `b` along rows."""
    columns, rows = (lambda v: _indexed(v, (slice(None), None))), (lambda v: _indexed(v, (None,)))
    p, d = columns(a.start), columns(a.along)
    q, e = rows(b.start), rows(b.along)
    normal = cross(d, e)
    length = norm(normal)
    bounds = length > 0
    if a.has_faces:
        left, right = columns(a.left), columns(a.right)
        # The normals of b at its edge are on both sides of the plane normal to the edge of a.
        bounds &= dot(e, left) * dot(e, right) < 0
        normal = _towards(normal, -(left + right))
    if b.has_faces:
        left, right = rows(b.left), rows(b.right)
        bounds &= dot(d, left) * dot(d, right) < 0
        if a.has_faces:
            bounds &= dot(normal, left + right) > 0
        normal = _towards(normal, left + right)
    if not (a.has_faces or b.has_faces):
        bounds = jnp.zeros_like(bounds)  # segments without thickness do not penetrate
    normal = compute_once(normal / jnp.where(length > 0, length, 1.0))
    # The common normal of edges that are nearly parallel has few digits or none: what round-off
    # may have added to their separation must not make it the greatest.
    parallel, apart = _NEARLY * norm(d) * norm(e), jax.lax.stop_gradient(norm(p - q))
    part = parallel / jnp.where(length > 0, length, 1.0)
    doubt = 8 / _NEARLY * jnp.finfo(length.dtype).eps * apart * part
    separation = dot(normal, p - q) - jnp.where(part > 1, jax.lax.stop_gradient(doubt), 0.0)
    separation = compute_once(jnp.where(bounds, separation, -jnp.inf))
    on_a, on_b = closest_points(p, d, q, e)
    apart = on_a - on_b
    distance = jax.lax.stop_gradient(norm(apart))
    edges = Edges(normal, separation, on_a, on_b, distance)
    return jax.tree.map(lambda leaf: leaf.reshape(-1), edges)


def closest_points(p: Vec3, d: Vec3, q: Vec3, e: Vec3) -> tuple[Vec3, Vec3]:
    """The closest points of the segments p + s d and q + t e with s, t in [0, 1].

    Of parallel segments that lie beside each other, the middle of where they do.
    """
    apart = p - q
    a, b, c = dot(d, d), dot(d, e), dot(e, e)
    f, g = dot(d, apart), dot(e, apart)
    # Where the ends of the other are beside the first.
    begin, end = safe_divide(-f, a), safe_divide(b - f, a)
    low = jnp.clip(jnp.minimum(begin, end), 0.0, 1.0)
    high = jnp.clip(jnp.maximum(begin, end), 0.0, 1.0)
    determinant = a * c - b * b
    # Of nearly parallel ones it has no digits, but the square of their product has.
    nearly = determinant <= _NEARLY**4 * a * c
    across = cross(d, e)
    square = dot(across, across)
    parallel = square <= (64 * jnp.finfo(a.dtype).eps) ** 2 * a * c
    crossing = -dot(across, cross(apart, e)) / jnp.where(parallel, 1.0, square)
    s = jnp.where(
        nearly,
        jnp.where(parallel, (low + high) / 2, crossing),
        (b * g - c * f) / jnp.where(nearly, 1.0, determinant),
    )
    s = jnp.clip(s, 0.0, 1.0)
    t = safe_divide(b * s + g, c)
    # Beyond an end of the second the closest point is that of its end.
    s = jnp.where(t < 0, jnp.clip(begin, 0.0, 1.0), jnp.where(t > 1, jnp.clip(end, 0.0, 1.0), s))
    s, t = compute_once((s, jnp.clip(t, 0.0, 1.0)))
    return p + d * s, q + e * t


def _heights(polytope: PolytopeCollider, points: Vec3) -> Float[Array, "n_faces n_points"]:
    """The heights of points over the planes of the faces [m]; -inf over unused ones."""
    normal = _indexed(polytope.normal, (slice(None), None))
    return dot(normal, _indexed(points, (None,))) - polytope.offset[:, None]


def _greatest(heights: Float[Array, "n_faces n_points"]) -> Float[Array, " n_points"]:
    """Over all planes; no point is within a segment."""
    if len(heights) == 0:
        return jnp.full_like(heights, jnp.inf, shape=heights.shape[1:])
    return jnp.max(heights, axis=0)


def _towards(vector: Vec3, direction: Vec3) -> Vec3:
    """A vector turned around where it points against a direction."""
    return vector * jnp.where(dot(vector, direction) < 0, -1.0, 1.0)


def size_of(a: PolytopeCollider, b: PolytopeCollider) -> Float[Array, ""]:
    """How far the corners of two polytopes are from the origin of their frame, together [m]."""
    return jnp.max(norm(a.vertices)) + jnp.max(norm(b.vertices))


def pick(many: Tree, index: Int[Array, ""]) -> Tree:
    """One of many, along the first axis, chosen by comparison: a gather would leave fused
    kernels."""
    chosen = jnp.arange(jax.tree.leaves(many)[0].shape[0], dtype=index.dtype) == index

    def only(leaf):
        own = chosen.reshape(-1, *(1,) * (leaf.ndim - 1))
        return jnp.sum(jnp.where(own, leaf, 0.0), axis=0)

    return jax.tree.map(only, many)


def pick_each(many: Tree, indices: Int[Array, " n"]) -> Tree:
    """Some of many, likewise."""
    return jax.vmap(pick, (None, 0))(many, indices)


def _join(vectors: list[Vec3]) -> Vec3:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *vectors)


def _indexed(vector: Vec3, index: tuple) -> Vec3:
    return jax.tree.map(lambda leaf: leaf[index], vector)


def _with_axis(vector: Vec3) -> Vec3:
    return _indexed(vector, (None,))
