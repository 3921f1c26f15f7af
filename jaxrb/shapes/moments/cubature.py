"""Integrals over the boundary of a solid, by adaptive cubature of trimmed patches.

Over each patch the inner integral runs along lines u = const. There the ends of the visible
pieces are roots of one function, so what is integrated is smooth. The outer integrand loses
its smoothness only at single u, where the number of pieces changes: there a corner of the
visible region lies, or its edge touches the line, and the integral changes like the square
root of the distance. The bracket of such a u is evaluated like a panel until it is narrow, and
becomes the end of panels, on which the square of a new variable takes the root away. Panels
that still are not exact are halved.

All decisions, and the ends of the panels, are kept fixed in derivatives.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ...math import Vec3, dot
from .boundary import Boundary
from .sign_changes import isolate, roots

# Gauss-Kronrod (7, 15) on [0, 1], from QUADPACK.
_ABSCISSAE = [
    0.991455371120812639206854697526329,
    0.949107912342758524526189684047851,
    0.864864423359769072789712788640926,
    0.741531185599394439863864773280788,
    0.586087235467691130294144691693525,
    0.405845151377397166906606412076961,
    0.207784955007898467600689403773245,
]
_KRONROD = [
    0.022935322010529224963732008058970,
    0.063092092629978553290700663189204,
    0.104790010322250183839876322541518,
    0.140653259715525918745189590510238,
    0.169004726639267902826583426598550,
    0.190350578064785409913256402421014,
    0.204432940075298892414161999234649,
    0.209482141084727828012999174891714,
]
_GAUSS = [
    0.0,
    0.129484966168869693270611432679082,
    0.0,
    0.279705391489276667901467771423780,
    0.0,
    0.381830050505118944950369775488975,
    0.0,
    0.417959183673469387755102040816327,
]
NODES = np.array([*(1 - np.array(_ABSCISSAE)), 1.0, *(1 + np.array(_ABSCISSAE[::-1]))]) / 2
FINE, _COARSE = (np.array([*w, *w[-2::-1]]) / 2 for w in (_KRONROD, _GAUSS))
# In u with both ends, which weigh nothing, but show what happens next to them.
_IN_U = np.array([0.0, *NODES, 1.0])
FINE_IN_U, _COARSE_IN_U = (np.array([0.0, *w, 0.0]) for w in (FINE, _COARSE))
N_LINES = len(_IN_U)

_CAPACITY = 256  # panels, more where there are many patches
_BATCH = 16  # panels evaluated in one turn, more where there are many patches
_TURNS = 250
_N_SEGMENTS = 24  # of lines on which the ends of the visible pieces are sought


# Of x, y and z in each monomial.
_EXPONENTS = (
    (0, 1, 0, 0, 2, 0, 0, 0, 1, 1),
    (0, 0, 1, 0, 0, 2, 0, 1, 0, 1),
    (0, 0, 0, 1, 0, 0, 2, 1, 1, 0),
)
N_MOMENTS = len(_EXPONENTS[0])
_N_SUMS = N_MOMENTS + 6
# The area counts so that derivatives, integrals over the surface as well, are accurate.
_WEIGHTS = np.array([1.0] * (N_MOMENTS + 5) + [1e-3])


def monomials(x: Vec3) -> list[Array]:
    """1; x, y, z; xx, yy, zz, yz, xz, xy: the moments of a solid are their integrals."""
    a, b, c = x.x, x.y, x.z
    return [jnp.ones_like(a), a, b, c, a * a, b * b, c * c, b * c, a * c, a * b]


def moment_terms(x: Vec3, area: Vec3, axis: int) -> list[Array]:
    """What an element of the boundary with a vector area adds to the moments.

    By the divergence theorem: the monomials, integrated along an axis.
    """
    along = (x.x, x.y, x.z)[axis] * (area.x, area.y, area.z)[axis]
    return [m * along / (1 + n) for m, n in zip(monomials(x), _EXPONENTS[axis], strict=True)]


def _terms(x: Vec3, area: Vec3) -> list[Array]:
    """The moments; the volume by the other two axes; the vector area, and the area."""
    volumes = [moment_terms(x, area, axis)[0] for axis in (0, 1)]
    size = jnp.sqrt(dot(area, area))
    return [*moment_terms(x, area, 2), *volumes, area.x, area.y, area.z, size]


class _Trace(NamedTuple):
    """The visible pieces of lines u = const."""

    # What is visible of each segment: from, to, and which of them is a root (-1, 1, 0: none).
    pieces: Float[Array, "n_lines 3 n_segments"]
    kind: Int[Array, " n_lines"]  # changes where the surfaces at the ends of the pieces do
    missed: Float[Array, " n_lines"]  # how close the line comes to showing, or hiding, elsewhere
    points: Float[Array, "n_lines 3 n_ends"]  # some, at equal steps of v


def _trace(rows: Boundary, u: Array, v0: Array, v1: Array) -> _Trace:
    curves = rows.curves(u)
    trimmed = len(rows.assembly.leaves) > 1
    n_segments = _N_SEGMENTS if trimmed else 1
    step = ((v1 - v0) / n_segments)[:, None]
    ends = v0[:, None] + step * jnp.arange(n_segments + 1, dtype=u.dtype)[None]
    x = rows.points(curves, ends)
    points = jnp.stack([x.x, x.y, x.z], axis=1)
    if not trimmed:
        whole = jnp.stack([ends[:, :-1], ends[:, 1:], jnp.zeros_like(ends[:, 1:])], axis=1)
        none = jnp.full_like(u, jnp.inf)
        return _Trace(whole, jnp.zeros(u.shape, jnp.int32), none, points)
    apart = jnp.sqrt(jnp.sum((points[:, :, 1:] - points[:, :, :-1]) ** 2, axis=1))
    reach = 1.1 * jnp.max(apart, axis=1)

    def clearance(v):
        return rows.clearance(curves, v)[0]

    v, value, missed = isolate(clearance, ends, reach)
    root = roots(clearance, v, value)
    seen = value < 0
    before, after = seen[:, :-1], seen[:, 1:]
    start = jnp.where(before, v[:, :-1], root)
    end = jnp.where(after, v[:, 1:], root)
    end = jnp.where(before | after, end, start)
    at_root = jnp.where(before == after, 0, jnp.where(before, 1, -1))
    _, surface = rows.clearance(curves, root)
    surfaces = jnp.sum(jnp.where(before == after, 0, surface + 1), axis=1, dtype=jnp.int32)
    kind = 2 * surfaces + seen[:, 0].astype(jnp.int32)
    pieces = jnp.stack([start, end, at_root.astype(u.dtype)], axis=1)
    return _Trace(pieces, kind, missed, points)


def _line_sums(rows: Boundary, u: Array, pieces: Array) -> tuple[Array, Array]:
    """Integrals along lines by the finer and the coarser rule, shape (n_lines, n_sums)."""
    nodes, widths = piece_nodes(pieces[:, 0], pieces[:, 1])
    terms = _terms(*rows.surface(u, nodes))
    rules = (jnp.asarray(np.tile(w, pieces.shape[2]), u.dtype)[None] for w in (FINE, _COARSE))
    return _sums(terms, [widths * rule for rule in rules])


def piece_nodes(start: Array, end: Array) -> tuple[Array, Array]:
    """Nodes in all pieces of lines, and the widths of their pieces, shape (n_lines, n)."""
    width = (end - start)[:, :, None]
    nodes = start[:, :, None] + width * jnp.asarray(NODES, start.dtype)[None, None]
    widths = jnp.broadcast_to(width, nodes.shape)
    return nodes.reshape(len(start), -1), widths.reshape(len(start), -1)


def _sums(terms: list[Array], weights: list[Array]) -> tuple[Array, Array]:
    """Sums all terms, with both weights, along the last axis in one kernel."""
    products = tuple(term * weight for weight in weights for term in terms)
    zero = jnp.zeros((), products[0].dtype)

    def add(a, b):
        return tuple(x + y for x, y in zip(a, b, strict=True))

    total = lax.reduce(products, (zero,) * len(products), add, (1,))
    return jnp.stack(total[: len(terms)], axis=1), jnp.stack(total[len(terms) :], axis=1)


def _error(fine: Array, coarse: Array, size: Array) -> Array:
    """QUADPACK's estimate of the error of the finer rule."""
    difference = jnp.abs(fine - coarse)
    size = jnp.where(size > 0, size, 1.0)
    return jnp.minimum(difference, size * (200 * difference / size) ** 1.5)


class Panels(NamedTuple):
    """Parts u[0] <= u <= u[1], v[0] <= v <= v[1] of patches, with what was found on them."""

    patch: Int[Array, " n"]
    u: Float[Array, "n 2"]
    v: Float[Array, "n 2"]
    singular: Bool[Array, "n 2"]  # ends in u at which the visible pieces change
    sums: Float[Array, "n n_sums"]
    error: Float[Array, "n 2"]  # of the outer integral, of the inner ones
    event: Float[Array, "n 2"]  # between which u the pieces change, 0 and 0 if they do not
    open: Bool[Array, " n"]  # whether this bracket is still too wide

    @staticmethod
    def of(rows: Float[Array, "n n_columns"]) -> Panels:
        """Takes the panels from rows of a table, so that one gather or scatter moves them all."""
        ends = np.cumsum([1, 2, 2, 2, _N_SUMS, 2, 2])
        patch, u, v, singular, sums, error, event, is_open = jnp.split(rows, ends, axis=1)
        patch = patch[:, 0].astype(jnp.int32)
        return Panels(patch, u, v, singular > 0, sums, error, event, is_open[:, 0] > 0)

    def rows(self) -> Float[Array, "n n_columns"]:
        columns = [a[:, None] if a.ndim == 1 else a for a in self]
        return jnp.concatenate([a.astype(self.u.dtype) for a in columns], axis=1)

    def nodes(self) -> tuple[Array, Array]:
        """Nodes in u and their du, both of shape (n, N_LINES).

        At a singular end the distance from it is the square of the variable.
        """
        t = jnp.asarray(_IN_U, self.u.dtype)[None]
        s = 1 - t
        low, high = self.singular[:, :1], self.singular[:, 1:]
        place = jnp.where(
            low, jnp.where(high, t * t * (3 - 2 * t), t * t), jnp.where(high, 1 - s * s, t)
        )
        rate = jnp.where(
            low, jnp.where(high, 6 * t * s, 2 * t), jnp.where(high, 2 * s, jnp.ones_like(t))
        )
        width = self.u[:, 1:] - self.u[:, :1]
        return self.u[:, :1] + width * place, width * rate

    def lines(self) -> tuple[Array, Array, Array, Array]:
        """Patch, u and range of v of the lines through all nodes, shape (n N_LINES,)."""
        u, _ = self.nodes()
        patch, v0, v1 = (jnp.repeat(a, N_LINES) for a in (self.patch, self.v[:, 0], self.v[:, 1]))
        return patch, u.reshape(-1), v0, v1


def _evaluated(boundary: Boundary, panels: Panels) -> tuple[Panels, Array]:
    """The panels with all sums, and the pieces of their lines."""
    patch, u, v0, v1 = panels.lines()
    rows = boundary.at(patch)
    trace = _trace(rows, u, v0, v1)
    results = (*_line_sums(rows, u, trace.pieces), *trace)
    u, du = panels.nodes()
    dtype, n = u.dtype, len(u)
    fine, coarse, pieces, kind, missed, points = (
        a.reshape(n, N_LINES, *a.shape[1:]) for a in results
    )
    with_fine, with_coarse = (jnp.asarray(w, dtype)[None] * du for w in (FINE_IN_U, _COARSE_IN_U))
    sums, rough = (jnp.sum(fine * w[:, :, None], axis=1) for w in (with_fine, with_coarse))
    weights = jnp.asarray(_WEIGHTS, dtype)
    outer = _error(sums * weights[None], rough * weights[None], sums[:, -1:])
    along = weights[None, None]
    inner = _error(fine * along, coarse * along, fine[:, :, -1:]) * with_fine[:, :, None]
    unseen = _unseen(panels, missed, points)
    error = [jnp.max(outer, axis=1) + unseen, jnp.max(jnp.sum(inner, axis=1), axis=1)]
    # At a singular end itself the line may be of either kind.
    known = [~panels.singular[:, :1], jnp.ones((n, N_LINES - 3), bool), ~panels.singular[:, 1:]]
    differ = (kind[:, 1:] != kind[:, :-1]) & jnp.concatenate(known, axis=1)
    first = differ & (jnp.cumsum(differ, axis=1) == 1)

    def around_first(values):
        return jnp.stack(
            [jnp.sum(jnp.where(first, a, 0.0), axis=1) for a in (values[:, :-1], values[:, 1:])],
            axis=1,
        )

    event = around_first(u)
    visible = around_first(jnp.sum(pieces[:, :, 1] - pieces[:, :, 0], axis=2))
    width, eps = event[:, 1] - event[:, 0], jnp.finfo(dtype).eps
    # So narrow that the visible length, were it constant on either side, would have an
    # integral exact to round-off.
    is_open = (width > 2 * eps) & (width * jnp.abs(visible[:, 1] - visible[:, 0]) > 64 * eps)
    found = panels._replace(sums=sums, error=jnp.stack(error, axis=1), event=event, open=is_open)
    return found, pieces


def _unseen(panels: Panels, missed: Array, points: Array) -> Array:
    """A bound of what a small hole or bump between the lines may add, shape (n,).

    There may be one where neighbouring lines come close to showing, or hiding, and closer
    than the lines next to them: the clearance around a hole is a parabola.
    """
    low, high = (s[:, None] for s in panels.singular.T)
    zero, far = jnp.zeros_like(missed[:, :1]), jnp.full_like(missed[:, :1], jnp.inf)
    first, last = jnp.where(low, zero, missed[:, :1]), jnp.where(high, zero, missed[:, -1:])
    missed = jnp.concatenate([first, missed[:, 1:-1], last], axis=1)
    ends = jnp.where(low, zero, far), jnp.where(high, zero, far)
    around = jnp.concatenate([ends[0], missed, ends[1]], axis=1)
    apart = jnp.sum((points[:, 1:] - points[:, :-1]) ** 2, axis=2)
    square = jnp.max(apart, axis=2)
    valley = (around[:, :-3] > missed[:, :-1]) & (around[:, 3:] > missed[:, 1:])
    near = (missed[:, :-1] + missed[:, 1:]) ** 2 < 4 * square
    return 0.1 * jnp.sum(jnp.where(valley & near, square, 0.0), axis=1)


def _split(panels: Panels) -> tuple[Panels, Bool[Array, " n"]]:
    """Both parts of each panel, first all lower ones; and for which the first is no part.

    Cut where the visible pieces of the lines change, if this was seen; else in the middle, of
    the range of u or v whose integral is the less accurate. As long as it is not known where
    the pieces change, the first is the bracket of that place.
    """
    by_v = panels.error[:, 1] > panels.error[:, 0]
    low, high = panels.event.T
    eventful = ~by_v & (high > low)
    narrow = eventful & panels.open
    u = jnp.where(eventful, low, jnp.mean(panels.u, axis=1))
    v = jnp.mean(panels.v, axis=1)

    def cut(range_, at, here):
        low = jnp.stack([range_[:, 0], jnp.where(here, at, range_[:, 1])], axis=1)
        high = jnp.stack([jnp.where(here, at, range_[:, 0]), range_[:, 1]], axis=1)
        return jnp.concatenate([low, high])

    both = Panels(*(jnp.concatenate([a, a]) for a in panels))
    bracket = jnp.concatenate([narrow, jnp.zeros_like(narrow)])[:, None]
    parts = both._replace(
        u=jnp.where(bracket, both.event, cut(panels.u, u, ~by_v)),
        v=cut(panels.v, v, by_v),
        singular=cut(panels.singular, eventful, ~by_v) & ~bracket,
    )
    return parts, narrow


class Cubature(NamedTuple):
    """Sums over a boundary, and the panels that gave them."""

    sums: Float[Array, " n_sums"]
    error: Float[Array, ""]  # estimate, of all sums
    table: Float[Array, "capacity n_columns"]  # rows of panels
    pieces: Float[Array, "capacity n_lines 3 n_segments"]
    n_panels: Float[Array, ""]


def integrate(boundary: Boundary, tolerance: float) -> Cubature:
    """Integrals over the boundary, with an error of about `tolerance` times the volume.

    Or more, if the panels do not suffice: the estimate tells.
    """
    n_patches, dtype = len(boundary.turn), boundary.turn.dtype
    batch = max(_BATCH, _BATCH * (-(-n_patches // (16 * _BATCH))))
    capacity = -(-max(_CAPACITY, 2 * n_patches) // batch) * batch
    half = batch // 2
    first_turns = -(-n_patches // batch)
    columns = Panels.of(jnp.zeros((capacity, 12 + _N_SUMS), dtype))
    whole = jnp.broadcast_to(jnp.asarray([0.0, 1.0], dtype), (capacity, 2))
    table = columns._replace(patch=jnp.arange(capacity, dtype=jnp.int32), u=whole, v=whole).rows()
    n_segments = _N_SEGMENTS if len(boundary.assembly.leaves) > 1 else 1
    pieces = jnp.zeros((capacity, N_LINES, 3, n_segments), dtype)

    def volume_and_error(table):
        panels = Panels.of(table)
        return jnp.abs(jnp.sum(panels.sums[:, 0])), jnp.sum(panels.error)

    def unfinished(carry):
        table, _, n, turn = carry
        volume, error = volume_and_error(table)
        room = (n + half <= capacity) & (turn < _TURNS)
        return (turn < first_turns) | ((error > tolerance * volume) & room)

    def advance(carry):
        """Evaluates the patches, batch after batch; then splits the worst panels."""
        table, pieces, n, turn = carry
        refine = turn >= first_turns
        volume, _ = volume_and_error(table)
        error = jnp.sum(Panels.of(table).error, axis=1)
        _, worst = lax.top_k(error.astype(jnp.float32), half)
        wanted = refine & (error[worst] > 0.25 * tolerance * volume / n.astype(dtype))
        old = Panels.of(table[worst])
        parts, narrow = _split(old)
        split = wanted & ~narrow
        base = turn * batch + jnp.arange(batch, dtype=jnp.int32)
        chosen = jnp.where(refine, parts.rows(), table[jnp.minimum(base, capacity - 1)])
        panels, new = _evaluated(boundary, Panels.of(chosen))

        added = n + jnp.cumsum(split, dtype=jnp.int32) - 1
        lower, upper = jnp.where(wanted, worst, capacity), jnp.where(split, added, capacity)
        first = jnp.where(base < n_patches, base, capacity)
        spot = jnp.where(refine, jnp.concatenate([lower.astype(jnp.int32), upper]), first)
        narrowed = old._replace(event=panels.event[:half], open=panels.open[:half])
        is_bracket = refine & jnp.concatenate([narrow, jnp.zeros_like(narrow)])
        again = jnp.concatenate([narrowed.rows(), narrowed.rows()])
        rows = jnp.where(is_bracket[:, None], again, panels.rows())
        table = table.at[spot].set(rows, mode="drop")
        pieces = pieces.at[jnp.where(is_bracket, capacity, spot)].set(new, mode="drop")
        return table, pieces, n + jnp.sum(split, dtype=jnp.int32), turn + 1

    start = (table, pieces, jnp.asarray(n_patches, jnp.int32), jnp.zeros((), jnp.int32))
    table, pieces, n, _ = lax.while_loop(unfinished, advance, start)
    _, error = volume_and_error(table)
    return Cubature(jnp.sum(Panels.of(table).sums, axis=0), error, table, pieces, n.astype(dtype))
