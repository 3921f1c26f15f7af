"""Which of many pressures: where a face slides, the linear one.

Contacts that share a face share its load in many ways. While they stick that changes no velocity.
But where a face slides and spins, the friction of each contact has its own direction, so that the
way the load is shared changes the motion, of which Coulomb's law then says nothing. A choice must
be made that depends neither on the past nor on how the solution was found: the pressure between two
bodies is a linear function of the place, P_n = G_n y, or nothing where that is negative, as under a
rigid face on a bed of equal springs, however stiff. Semismooth turns change impulses by such
functions alone, so that it is enough to begin with one.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..math.materialize import compute_once
from ..math.rarely import if_any
from .block_matrix import inverse6
from .cone import ConeProblem
from .rows import Links, Rows, added, contracted, over_needed, take, total

# What is no impulse and no velocity; and what is added, of the trace, to normal equations that have
# no unique solution: a power of the precision.
_NONE = 0.6
# How often their solution is refined: to round-off, and so that what is added leaves no trace.
_REFINED = 2
# So many faces are looked at together, or fewer of many lanes: what is computed stays in the cache.
_FACES, _NUMBERS = 8, 64


def _sliding(problem: ConeProblem, p, u, pairs):
    """Of each contact, whether its face slides on more contacts than are independent; and whether
    it bears a part of the load, and whether it touches."""
    table, owner = pairs
    none = _none(p)
    bears = problem.active & (p[0] > none)
    touches = bears | (problem.active & (jnp.abs(u[0]) <= none))
    slips = bears & (jnp.hypot(u[1], u[2]) > none) & (problem.friction > 0)
    count = jnp.where(jnp.stack([touches, slips]), 1.0, 0.0).astype(p.dtype)
    touching, slipping = total(count, table, 1)
    slides = take((touching > 3.5) & (slipping > 0.5), owner, 0) & touches
    return slides, bears, touches


def _linear(problem: ConeProblem, p, slides, bears, touches, pairs):
    """The linear functions closest to given normal impulses, at each contact of a pair that
    slides; nothing where they are negative.

    Whatever three corners of four bear, there is a linear function of that; but they bear all only
    if it is negative at the fourth, and a fourth at which it is negative bears nothing.
    """
    (table, owner), faces = pairs, problem.contacts.links.of_faces
    n = len(owner)
    all_rows, normal = basis(problem), jnp.where(problem.active, p[0], 0.0)

    def fit(these, found):
        known = isinstance(these, np.ndarray)
        items = (faces if known else jnp.asarray(faces, jnp.int32))[these].T
        there = (items < n).reshape(*items.shape, *(1,) * lanes)

        def some(leaf):
            axis = leaf.ndim - 1 - lanes
            flat = take(leaf, items.reshape(-1), axis)
            return flat.reshape(*leaf.shape[:axis], *items.shape, *leaf.shape[axis + 1 :])

        load = jnp.where(there, some(normal), 0.0)
        rows = some(all_rows)
        rows = _Frame.of(rows, there).rows(rows, there)
        own = compute_once(_fitted(rows, load, some(bears) & there))
        own = _fitted(rows, load, some(touches) & there & (own > _none(p)))
        own = jnp.maximum(jnp.moveaxis(own, 1, 0), 0.0)
        return own if known and len(these) == len(faces) else found.at[these].set(own)

    lanes = normal.ndim - 1
    found = jnp.zeros((len(faces), table.shape[1], *normal.shape[1:]), normal.dtype)
    at_once = min(_FACES, max(1, _NUMBERS // math.prod(normal.shape[1:])))
    own = jnp.append(jnp.any(slides, axis=tuple(range(1, slides.ndim))), False)
    found = over_needed(fit, jnp.any(own[faces], axis=1), found, at_once)
    places = np.zeros(n + 1, int)
    places[faces] = np.arange(found.shape[0] * found.shape[1]).reshape(found.shape[:2])
    return take(found.reshape(-1, *normal.shape[1:]), places[:n], 0)


def _none(p: Float[Array, "..."]) -> float:
    """What is no impulse and no velocity."""
    return float(jnp.finfo(p.dtype).eps) ** _NONE


def _fitted(rows, n, pressed):
    """G_n y of each contact of a pair, for the y with which those that are pressed push the bodies
    as given normal impulses of any do."""
    g = jnp.where(pressed[None], rows, 0.0)
    normal = _summed(g[:, None] * g[None], 2)
    inverse, right = _inverted(normal), _summed(rows * n[None], 1)
    y = contracted(inverse, right[None], 1)
    for _ in range(_REFINED):
        y = y + contracted(inverse, (right - contracted(normal, y[None], 1))[None], 1)
    return contracted(rows, y[:, None], 0)


class _Frame(eqx.Module):
    """From where rows of a face have their levers, and the unit of these: other parameters of the
    same functions. As they are, those of a small face would count less than the ridge."""

    normal: Float[Array, "3 ..."]  # the mean
    middle: Float[Array, "3 ..."]
    size: Float[Array, "..."]

    @staticmethod
    def of(rows, there) -> _Frame:
        """In which levers are from their middle and of size one."""
        rows = jnp.where(there[None], rows, 0.0)
        count = jnp.sum(jnp.where(there, 1.0, 0.0).astype(rows.dtype), axis=0)
        normal, middle = jnp.split(_summed(rows, 1) / count[None], 2)
        frame = _Frame(normal, middle, jnp.ones_like(count))
        levers = frame.rows(rows, there)[3:]
        square = _summed(jnp.where(there, contracted(levers, levers, 0), 0.0), 0) / count
        # Of places that are one to round-off they stay small.
        square = square + jnp.finfo(rows.dtype).eps * jnp.sum(middle**2, axis=0)
        return _Frame(normal, middle, jnp.sqrt(jnp.where(square > 0, square, 1.0)))

    def rows(self, rows, there):
        """Of a face, in this frame."""
        rows = jnp.where(there[None], rows, 0.0)
        along = contracted(rows[:3], self.normal[:, None], 0)
        levers = rows[3:] - self.middle[:, None] * along[None]
        return jnp.concatenate([rows[:3], levers / self.size[None, None]])


def _inverted(normal: Float[Array, "6 6 ..."]) -> Float[Array, "6 6 ..."]:
    """Of normal equations, which need not have a unique solution: nearly their inverse."""
    trace = added(normal[k, k] for k in range(6))
    ridge = jnp.where(trace > 0, _none(normal) * trace, 1.0)
    unit = jnp.eye(6).astype(normal.dtype).reshape(6, 6, *(1,) * trace.ndim)
    return inverse6(normal + ridge[None, None] * unit)


def _summed(array, axis: int):
    """Over the contacts of a pair."""
    places = range(array.shape[axis])
    return added(jax.lax.index_in_dim(array, k, axis, keepdims=False) for k in places)


class Shared(eqx.Module):
    """Loads of faces that slide, which linear pressures share out, at a solution."""

    those: Bool[Array, " n_contacts"]  # which contacts bear a part of one
    frame: _Frame
    inverse: Float[Array, "6 6 n_faces"]  # of the normal equations
    links: Links = eqx.field(static=True)

    @staticmethod
    def of(problem: ConeProblem, p, u) -> Shared | None:
        """Of impulses and velocities without units; None where no face has contacts enough."""
        links = problem.contacts.links
        if links.of_pairs is None:
            return None
        slides, bears, _ = _sliding(problem, p, u, links.of_pairs)
        items = links.of_faces.T
        there, rows = items < len(links), _of_faces(basis(problem), items)
        frame = _Frame.of(rows, there)
        own = _of_faces(slides & bears, items) & there
        g = jnp.where(own[None], frame.rows(rows, there), 0.0)
        inverse = _inverted(_summed(g[:, None] * g[None], 2))
        return Shared(slides & bears, frame, inverse, links)

    def beyond_linear(self, rates: Rows, normal: Float[Array, " n_contacts"], turns: int = 4):
        """What their normal impulses have beyond a linear function of the place, shape
        (n_contacts,). The function itself takes one turn, each derivative by places another, and
        round-off one more."""
        items = self.links.of_faces.T
        there = items < len(self.links)
        own = (_of_faces(self.those, items) & there)[None]
        rows = _of_faces(normals(rates), items)
        rows = jnp.where(own, self.frame.rows(rows, there), 0.0)
        rest = load = jnp.where(own[0], _of_faces(normal, items), 0.0)
        y = jnp.zeros_like(rows[:, 0])
        for _ in range(turns):
            right = _summed(rows * rest[None], 1)
            y = y + contracted(self.inverse, right[None], 1)
            rest = load - contracted(rows, y[:, None], 0)
        places = np.zeros(len(self.links), int)
        places[items[there]] = np.arange(there.size).reshape(there.shape)[there]
        return jnp.where(self.those, jnp.take(rest.reshape(-1), places), 0.0)


def _of_faces(leaf: Array, items: np.ndarray) -> Array:
    """Numbers of contacts by faces."""
    return jnp.take(leaf, np.minimum(items, leaf.shape[-1] - 1), axis=-1)


def basis(problem: ConeProblem) -> Float[Array, "6 n_contacts"]:
    """The normal's row of each contact for its first body, G_n, by which semismooth turns change
    pressures."""
    return normals(problem.contact_rates)


def normals(rates: Rows) -> Float[Array, "6 n_contacts"]:
    """The normal's row of each contact for its first body, G_n."""
    return jnp.concatenate([rates.direction[0], rates.levers[0][0]])


def level(problem: ConeProblem, p, u):
    """Impulses whose pressures are linear where faces slide, of impulses and velocities; all are
    without units."""
    pairs = problem.contacts.links.of_pairs
    if pairs is None:
        return p  # no pair has contacts enough
    p, u = compute_once((p, u))
    slides, bears, touches = _sliding(problem, p, u, pairs)

    def levelled(p):
        n = jnp.where(slides, _linear(problem, p, slides, bears, touches, pairs), p[0])
        n = problem.follow(n)
        # Friction goes with the pressure.
        scaled = problem.follow(slides) & (p[0] > 0)
        ratio = jnp.where(scaled, n / jnp.where(scaled, p[0], 1.0), 1.0)
        return jnp.concatenate([n[None], p[1:] * ratio[None]])

    return if_any(jnp.any(slides), levelled, lambda p: p, p)
