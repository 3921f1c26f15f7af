"""Where solids with faces, rounded or not, lie on each other: the corners of that patch.

Seen along the normal of their contact, a face of one solid covers a part of a face of the other.
The gap at each corner of that part is the separation of the two faces there, along the normal:
never less than that of the solids, and growing as one is tilted.

Each corner is where a side of one of the faces begins to be within the other face, as one goes
around the part: either at the side's own corner or where it crosses a side of the other. So each
side of both faces has a place in the row, which moves as the faces do, is open while the side is
outside, and nothing needs to be matched or sorted (Cyrus and Beck, "Generalized two- and
three-dimensional clipping", 1978, for where a line enters and leaves). All corners are needed: a
body tips about the line through the outermost ones, and about no other.

Of faces that have many sides together, those are taken that are the furthest in some directions
that turn with the first solid. So a place in the row means the same corner from step to step. Where
two that follow one another find the same corner, the second takes the corner furthest beyond the
line from the one before it to the one after it, or beyond another side. If there is none, as of a
segment, the place stays open, with a gap that is large. The directions for segments are skew to the
sides of a box, whose corners would be equally far otherwise.

None of the corners may be the deepest point: where edges cross in different planes, or one face
does not cover the other at all, there is no patch. One more place is for the closest point, as
single contacts have it; it is open where one of the others is as deep. So the least gap is that of
the solids in every pose, and a corner about which a solid tips is not lost when another one becomes
the deepest.

Of cylinders and cones six corners are taken, in six directions. The disc of one is a polygon of
points of its rim, which has the furthest ones in these directions among its corners; its side is
the line that is closest. Neither turns as the solid turns about its axis, unless it is the first,
with which the directions turn. What is beyond the polygon is touched at the closest point alone.
That runs along the rim of a disc that rolls, so its place is never open then, not even as the disc
looks away: only a line that is nearly flat does without it. As a disc that rocks on a face goes
through it, that point would run to the other side in no time; so it is drawn in there, as a rim
is on a plane (`shapes.rim`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..math import Vec3, cross, dot, norm, tree_where
from ..math.safe import safe_sqrt
from ..shapes.rim import DrawnIn
from .colliders import AbstractCollider, FrustumCollider, PolytopeCollider, Separation
from .outlines import (
    Face,
    Outline,
    Outlined,
    corners_of,
    directions,
    disc_radius,
    facing,
    length_across,
    n_sides,
    unit,
)
from .separating_axis import Heights, pick, pick_each, separate, size_of

# The slope below which a line lies on its ends.
_LOW = 0.2


def n_places(*solids: AbstractCollider) -> int:
    """The contact points of a pair of solids with outlines."""
    return (n_sides(*solids) or len(directions(*solids))) + 1


class Patch(NamedTuple):
    """The contact points of two solids, in the frame of the first; of shape (n_points,)."""

    gap: Float[Array, " n_points"]  # [m]; large where fewer points touch
    normal: Vec3  # unit, into the first
    points: tuple[Vec3, Vec3]  # of the first and of the second [m]


class _Corners(NamedTuple):
    """What may be corners of the patch; of shape (n_candidates,)."""

    x: Float[Array, " n"]  # across the normal [m]
    y: Float[Array, " n"]
    above: Float[Array, " n"]  # heights of the first and of the second, along it [m]
    below: Float[Array, " n"]


def contact_patch(a: PolytopeCollider, b: PolytopeCollider) -> Patch:
    """The contact points of two polytopes in one frame, with outlines."""
    heights, n_a, n_b = Heights.of(a, b), len(a.offset), len(b.offset)
    size = jax.lax.stop_gradient(size_of(a, b))
    normals, separations = heights.axes(a, b)
    planes = [
        (_between(normals, start, end), separations[start:end])
        for start, end in ((n_a, n_a + n_b), (0, n_a))
        if start < end
    ]
    return _patch(a, b, separate(a, b, heights), planes, size)


def round_patch(a: Outlined, b: Outlined, exact: Separation) -> Patch:
    """The contact points of two solids, one of them a frustum at least, whose separation is known,
    in one frame."""
    size = jax.lax.stop_gradient(_far(a) + _far(b))
    planes = []
    for normals in (_plane_normals(b), jax.tree.map(jnp.negative, _plane_normals(a))):
        if len(normals.x) > 0:
            fixed = jax.lax.stop_gradient((a, b, normals))
            planes.append((normals, _separations(*fixed) + fixed[0].radius + fixed[1].radius))
    return _patch(a, b, exact, planes, size)


def _plane_normals(solid: Outlined) -> Vec3:
    """Of its plane faces."""
    if isinstance(solid, PolytopeCollider):
        return solid.normal
    return jax.tree.map(lambda leaf: jnp.stack([-leaf, leaf]), solid.axis)


def _separations(a: Outlined, b: Outlined, normals: Vec3) -> Float[Array, " n"]:
    """Along directions into the first [m]; -inf along such as are only filled up."""
    found = jax.vmap(lambda n: -a.height(-n) - b.height(n))(normals)
    return jnp.where(dot(normals, normals) > 0, found, -jnp.inf)


def _far(solid: Outlined) -> Float[Array, ""]:
    """How far its core is from the origin [m]."""
    if isinstance(solid, PolytopeCollider):
        return jnp.max(norm(solid.vertices))
    return norm(solid.center) + solid.size


def _patch(
    a: Outlined,
    b: Outlined,
    exact: Separation,
    planes: list[tuple[Vec3, Array]],
    size: Float[Array, ""],
) -> Patch:
    """Of solids whose separation is known, and that of their cores along the normals of faces."""
    slack = 32 * jnp.finfo(size.dtype).eps * size
    normal = _preferred(planes, exact, a.radius + b.radius, size)
    lower, upper = facing(a, -normal, slack), facing(b, normal, slack)
    frame = _frame(lower[0].side, normal)
    # The corners are found from a place nearby, so that few digits are lost.
    origin = jax.lax.stop_gradient(exact.point)
    # Those of a disc that is the first stay on it as it tilts.
    side = unit(lower[0].side)
    across = (side, cross(-lower[0].normal, side)), frame[:2]
    own, other = (
        Outline.of(corners_of(solid, *found, axes), found[0], origin, frame)
        for solid, found, axes in zip((a, b), (lower, upper), across, strict=True)
    )
    are_faces = own.is_face is True and other.is_face is True
    found, valid = (_clipped if are_faces else _overlap)(own, other, slack)

    near, empty = jnp.sqrt(jnp.finfo(size.dtype).eps) * size, ~jnp.any(valid)
    if n_sides(a, b) is None:
        found = _furthest(found, valid, near, directions(a, b))
        valid = jnp.ones(found.x.shape, bool)
    gap = found.above - found.below - a.radius - b.radius
    point = origin + frame[0] * found.x + frame[1] * found.y + normal * (found.below + b.radius)
    normal = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, gap.shape), normal)
    unused = empty | ~valid | _repeated(found, valid, near)
    spare = ~empty & (jnp.min(jnp.where(valid, gap, jnp.inf)) <= exact.gap + slack)
    if isinstance(a, FrustumCollider) or isinstance(b, FrustumCollider):
        on_face = jnp.logical_and(own.is_face, other.is_face)
        spread = jnp.max(jnp.where(unused, -jnp.inf, gap)) - jnp.min(gap)
        drawn_in = _drawn_in(a, b, (lower[0], upper[0]), (own, other), exact, frame)
        exact = tree_where(on_face & ~empty, drawn_in, exact)
        length = jnp.where(own.is_face, length_across(other.sides)[0], length_across(own.sides)[0])
        spare &= ~on_face & (spread <= _LOW * length)
    unused = jnp.concatenate([unused, spare[None]])
    both = Separation(gap, normal, point), exact
    patch = jax.tree.map(lambda own, one: jnp.concatenate([own, one[None]]), *both)
    # What is open has numbers of a contact that there is.
    patch = tree_where(unused, jax.tree.map(lambda one: one[None], exact), patch)
    points = patch.point + patch.normal * patch.gap, patch.point
    # Positive in any pose, and changing by steps alone: where a corner is the closest point to
    # round-off, an impact may be found in a place that is open in the program of its derivative,
    # whose gap has to change as that of the solids does.
    twice = jax.lax.stop_gradient(2 * (_far(a) + _far(b)))
    far = exact.gap + jnp.exp2(jnp.ceil(jnp.log2(twice)))
    return Patch(jnp.where(unused, far, patch.gap), patch.normal, points)


def _drawn_in(
    a: Outlined,
    b: Outlined,
    faces: tuple[Face, Face],
    outlines: tuple[Outline, Outline],
    exact: Separation,
    frame: tuple[Vec3, Vec3, Vec3],
) -> Separation:
    """The separation of faces, with the closest point drawn in where they are nearly parallel."""
    lower, upper = outlines
    # How the gap grows over places: the closest point is against it.
    x, y = lower.slope[0] - upper.slope[0], lower.slope[1] - upper.slope[1]
    slope = safe_sqrt(x**2 + y**2)
    cos = 1 / jnp.sqrt(1 + slope**2)
    radius = jnp.minimum(disc_radius(a, faces[0]), disc_radius(b, faces[1]))
    change = DrawnIn.at(slope * cos)
    shift = change.slope * radius * cos / jnp.where(slope > 0, slope, 1.0)
    return Separation(
        exact.gap + change.depth * radius,
        exact.normal,
        exact.point + frame[0] * (shift * x) + frame[1] * (shift * y),
    )


def _frame(side: Vec3, normal: Vec3) -> tuple[Vec3, Vec3, Vec3]:
    """Two axes across the normal, the first along a side of an outline, and the normal."""
    first = unit(side - normal * dot(normal, side))
    return first, cross(normal, first), normal


def _preferred(
    planes: list[tuple[Vec3, Array]], exact: Separation, radii: Array, size: Array
) -> Vec3:
    """The normal of a face wherever it separates as much as any other direction, or nearly so.

    Round-off would choose among the normals of faces that lie on each other, and of their edges.
    """
    normal = exact.normal
    enough = exact.gap + radii
    for _, separation in planes:
        enough = jnp.maximum(enough, jnp.max(separation))
    enough = jax.lax.stop_gradient(enough) - jnp.sqrt(jnp.finfo(size.dtype).eps) / 16 * size
    # That of the first solid, where both have one.
    for normals, separation in planes:
        good = jnp.max(separation) >= enough
        normal = tree_where(good, pick(normals, jnp.argmax(separation)), normal)
    return normal


def _clipped(a: Outline, b: Outline, slack: Array) -> tuple[_Corners, Bool[Array, " n_sides"]]:
    """Of the sides of two faces, the first seen from below and so clockwise, where each begins to
    be within the other, going around counter-clockwise; and whether it is at all."""
    begin_a, within_a = _ends_within(a, b, 1.0, slack)
    begin_b, within_b = _begins_within(b, a, -1.0, slack)
    valid = jnp.concatenate([within_a, within_b]) & ~(a.steep | b.steep)
    of_a = _Corners(begin_a.x, begin_a.y, begin_a.z, b.height(begin_a.x, begin_a.y))
    of_b = _Corners(begin_b.x, begin_b.y, a.height(begin_b.x, begin_b.y), begin_b.z)
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), of_a, of_b), valid


def _begins_within(
    own: Outline, other: Outline, turn: float, slack: Array
) -> tuple[Vec3, Bool[Array, " n_sides"]]:
    """Where the sides of one face begin to be within another, whose corners are in the order of
    that turn, and whether they are at all."""
    p, d = (jax.tree.map(lambda v: v[:, None], v) for v in (own.starts, own.sides))
    q, e = (jax.tree.map(lambda v: v[None], v) for v in (other.starts, other.sides))
    # How far inside of each side of the other one begins, and what is gained until its end.
    inside = (e.x * (p.y - q.y) - e.y * (p.x - q.x)) * turn
    gained = (e.x * d.y - e.y * d.x) * turn
    begin, gain, length = jax.lax.stop_gradient((inside, gained, length_across(e)))
    end, least = begin + gain, -slack * length
    enters = (begin < least) & (end >= least) & (gain > 0)
    leaves = (end < least) & (begin >= least) & (gain < 0)
    part = -inside / jnp.where(enters | leaves, gained, 1.0)
    entry = jnp.max(jnp.where(enters, part, 0.0), axis=1)
    until = jnp.min(jnp.where(leaves, jax.lax.stop_gradient(part), 1.0), axis=1)
    within = ~jnp.any((begin < least) & (end < least), axis=1)
    size = length_across(own.sides)
    within &= (jax.lax.stop_gradient(entry) - until) * size <= slack
    return own.starts + own.sides * jnp.where(within, entry, 0.0), within


def _ends_within(
    own: Outline, other: Outline, turn: float, slack: Array
) -> tuple[Vec3, Bool[Array, " n_sides"]]:
    """Likewise, where they end."""
    ends, back = own.starts + own.sides, -own.sides
    return _begins_within(own._replace(corners=ends, sides=back), other, turn, slack)


def _overlap(a: Outline, b: Outline, slack: Array) -> tuple[_Corners, Bool[Array, " n_candidates"]]:
    """All that may be corners of where two outlines cover each other, and whether they are."""
    of_b, of_a = b.corners, a.corners
    candidates = [
        _Corners(of_b.x, of_b.y, a.height(of_b.x, of_b.y), of_b.z),
        _Corners(of_a.x, of_a.y, of_a.z, b.height(of_a.x, of_a.y)),
    ]
    fixed_a, fixed_b, xa, ya, xb, yb = jax.lax.stop_gradient((a, b, of_a.x, of_a.y, of_b.x, of_b.y))
    # Faces are seen from outside, the first from below.
    within_a = fixed_a.covers(xb, yb, -1.0, slack)
    within_b = fixed_b.covers(xa, ya, 1.0, slack)
    # No corner of a face is within a segment.
    within_b &= jnp.logical_not(a.is_face) | b.is_face
    within_a &= jnp.logical_not(b.is_face) | a.is_face
    crossings, cross_each_other = _crossings(a, b, slack)
    candidates.append(crossings)
    valid = jnp.concatenate([within_a, within_b, cross_each_other])
    valid &= ~(a.steep | b.steep)
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *candidates), valid


def _crossings(
    a: Outline, b: Outline, slack: Array
) -> tuple[_Corners, Bool[Array, " n_crossings"]]:
    """Where the sides of two outlines cross, seen along the normal."""
    p, d = (jax.tree.map(lambda v: v[:, None], v) for v in (a.starts, a.sides))
    q, e = (jax.tree.map(lambda v: v[None], v) for v in (b.starts, b.sides))
    determinant = d.x * e.y - d.y * e.x
    long_a, long_b = jax.lax.stop_gradient((length_across(d), length_across(e)))
    # Sides that are nearly parallel: the patch has other corners nearby.
    skew = jnp.abs(determinant) > jnp.sqrt(jnp.finfo(slack.dtype).eps) * long_a * long_b
    over = 1 / jnp.where(skew, determinant, 1.0)
    x, y = q.x - p.x, q.y - p.y
    s, t = (x * e.y - y * e.x) * over, (x * d.y - y * d.x) * over
    valid = skew & (s * long_a >= -slack) & ((s - 1) * long_a <= slack)
    valid &= (t * long_b >= -slack) & ((t - 1) * long_b <= slack)
    s, t = jnp.where(skew, s, 0.0), jnp.where(skew, t, 0.0)
    found = _Corners(p.x + s * d.x, p.y + s * d.y, p.z + s * d.z, q.z + t * e.z)
    return jax.tree.map(lambda leaf: leaf.reshape(-1), found), valid.reshape(-1)


def _furthest(
    corners: _Corners,
    valid: Bool[Array, " n_candidates"],
    near: Array,
    along: tuple[tuple[float, float], ...],
) -> _Corners:
    """The corners that are taken, in turn."""
    x, y = jax.lax.stop_gradient((corners.x, corners.y))
    n, (p, q) = len(along), jnp.asarray(along, x.dtype).T[:, :, None]
    score = p * x[None] + q * y[None]
    chosen = jnp.argmax(jnp.where(valid[None], score, -jnp.inf), axis=1)
    places = pick_each((x, y), chosen)
    before = np.roll(np.arange(n), 1)
    same = _distance(_of(places, before), places) <= near

    def beyond(starts, ends):
        """How far the corners are beyond lines from one place to another."""
        length = _distance(starts, ends)[:, None]
        (a, b), (c, d) = (_of(own, np.s_[:, None]) for own in (ends, starts))
        out = (b - d) * (x[None] - c) - (a - c) * (y[None] - d)
        return jnp.where(valid[None], out / jnp.where(length > 0, length, 1.0), -jnp.inf)

    for k in range(n):
        # All sides, and the line from the place before to the place after.
        starts, ends = np.append(before, k - 1), np.append(np.arange(n), (k + 1) % n)
        out = beyond(_of(places, starts), _of(places, ends))
        best = jnp.where(jnp.max(out[n]) > near, out[n], jnp.max(out[:n], axis=0))
        free = (np.arange(n) == k) & same[k] & (jnp.max(best) > near)
        chosen = jnp.where(free, jnp.argmax(best), chosen)
        places = pick_each((x, y), chosen)
    return pick_each(corners, chosen)


def _of(places: tuple[Array, Array], index) -> tuple[Array, Array]:
    return places[0][index], places[1][index]


def _distance(p: tuple[Array, Array], q: tuple[Array, Array]) -> Array:
    return jnp.sqrt((p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2)


def _repeated(
    corners: _Corners, valid: Bool[Array, " n_corners"], near: Array
) -> Bool[Array, " n_corners"]:
    """Whether there is the same one before, to half the digits."""
    x, y = jax.lax.stop_gradient((corners.x, corners.y))
    apart = (x[:, None] - x[None]) ** 2 + (y[:, None] - y[None]) ** 2
    return jnp.any((apart <= near**2) & valid[None] & np.tri(len(x), k=-1, dtype=bool), axis=1)


def _between(vector: Vec3, start: int, end: int) -> Vec3:
    return jax.tree.map(lambda leaf: leaf[start:end], vector)
