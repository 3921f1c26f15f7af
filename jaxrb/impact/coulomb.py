"""Frictional impacts in lanes: from the numbers of an impact to its impulse."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..math import Vec3
from ..math.lanes import Columns, Work, of_lanes, work_off
from . import hodograph
from .closing import close
from .hodograph import Contact, Course, Slide


def columns(inverse_inertia, velocity, friction, restitution) -> Float[Array, "11 ..."]:
    """Numbers of impacts, stacked: W by its parts, the contact velocity before, mu and e.

    Args:
        inverse_inertia: W in the contact frame, as `Sym3`, components of shape (...).
        velocity: before the impact, as `Vec3`.
        friction, restitution: mu and e.
    """
    d, o, v = inverse_inertia.diagonal, inverse_inertia.off, velocity
    rows = (d.x, o.z, o.y, d.y, o.x, d.z, v.x, v.y, v.z, friction, restitution)
    return jnp.stack(jnp.broadcast_arrays(*rows))


class Resolved(NamedTuple):
    """What a solver finds, by name; arrays of shape (lanes,)."""

    impulse: Vec3  # [N s]
    compressed_at: Array  # the normal impulse at which compression ends, [N s]; infinite if not
    stuck_at: Array  # at which the sliding velocity vanishes
    collinear_at: Array  # at which the hodograph becomes straight
    sticks: Bool[Array, " lanes"]
    ended: Bool[Array, " lanes"]

    @staticmethod
    def of(rows: Float[Array, "8 lanes"]) -> Resolved:
        """From the rows of a solver."""
        impulse, sticks, ended = Vec3(*rows[:3]), rows[6] > 0.5, rows[7] < 0.5
        return Resolved(impulse, rows[3], rows[4], rows[5], sticks, ended)


@lru_cache
def solver(hypothesis: str, collinearity: float | None = None) -> Callable[..., Array]:
    """A function from `columns` of shape (11, lanes) to the results, of shape (8, lanes).

    `Resolved.of` gives its rows their names. Where the contact does not approach all impulses
    are 0. Derivatives exist in both modes; see `of_lanes`.
    """
    courses = (Course(hypothesis, collinearity, shortcut) for shortcut in (True, False))
    return of_lanes(*map(_follow, courses))


@lru_cache
def known_impulse(hypothesis: str) -> Callable[..., Array]:
    """A function of `columns` and of the impulse, (3, lanes), that `solver` has found for them.

    It is that impulse, with its derivatives, and costs nothing but them.
    """
    follow = _follow(Course(hypothesis, None, shortcut=False))
    return of_lanes(lambda problems: follow(problems)[:3])


def _follow(course: Course) -> Callable[[Columns], Array]:
    """The rows of `solver`, along a course."""

    def finish(slide: Slide, problems: Columns) -> Columns:
        total = close(course, slide, _contact(problems))
        unit = jnp.where(_approaches(problems), -problems[8], 0.0) / problems[5]
        events = (total.compressed_at, total.stuck_at, total.collinear_at)
        rows = (
            total.tangential1 * unit,
            total.tangential2 * unit,
            total.normal * unit,
            *(_scaled(at, unit) for at in events),
            total.sticks,
            ~total.solved,
        )
        return jnp.stack([row.astype(problems.dtype) for row in rows])

    work = Work(
        needed=_approaches,
        start=lambda problems: hodograph.start(course, _contact(problems)),
        turn=lambda slide, problems: hodograph.follow(course, slide, _contact(problems)),
        ended=hodograph.ended,
        finish=finish,
    )
    return partial(work_off, work)


def _approaches(problems: Columns) -> Array:
    return problems[8] < 0


def _scaled(at: Array, unit: Array) -> Array:
    happens = jnp.isfinite(at)
    return jnp.where(happens, jnp.where(happens, at, 0.0) * unit, jnp.inf)


def _contact(problems: Columns) -> Contact:
    """Without units; those that do not approach become some harmless impact."""
    approaches = _approaches(problems)
    w11, w12, w13, w22, w23, w33, v1, v2, v3, mu, e = problems
    speed = jnp.where(approaches, -v3, 1.0)
    slip1, slip2 = (jnp.where(approaches, v / speed, 0.0) for v in (v1, v2))
    return Contact(w11 / w33, w12 / w33, w22 / w33, w13 / w33, w23 / w33, slip1, slip2, mu, e)
