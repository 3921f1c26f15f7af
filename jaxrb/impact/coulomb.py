"""Frictional impacts in lanes: from the numbers of an impact to its impulse."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..exec.work_queue import (
    Columns,
    Lanewise,
    Task,
    along_numbers,
    of_lanes,
    run_queue,
    unit_directions,
    where_needed,
)
from ..math import Vec3
from . import hodograph
from .hypotheses import AbstractHypothesis
from .slide import Contact, HodographOptions, SlidingState
from .terminal import finish_impact

# The numbers of a contact that does not approach, as `columns` has them.
_RECEDING = (1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


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
    """The result of a solver by name; arrays of shape (lanes,)."""

    impulse: Vec3  # [N s]
    compressed_at: Array  # the normal impulse at which compression ends, [N s]; infinite if not
    stuck_at: Array  # at which the sliding velocity vanishes
    collinear_at: Array  # at which the hodograph becomes straight
    sticks: Bool[Array, " lanes"]
    ended: Bool[Array, " lanes"]

    @staticmethod
    def of(rows: Float[Array, "8 lanes"]) -> Resolved:
        """Names the rows of a solver."""
        impulse, sticks, ended = Vec3(*rows[:3]), rows[6] > 0.5, rows[7] < 0.5
        return Resolved(impulse, rows[3], rows[4], rows[5], sticks, ended)


@lru_cache
def solver(hypothesis: AbstractHypothesis, collinearity: float | None = None) -> Lanewise:
    """A function from `columns` of shape (11, lanes) to the results, of shape (8, lanes).

    `Resolved.of` gives its rows their names. Where the contact does not approach all impulses
    are 0. Derivatives exist in both modes; see `of_lanes`.
    """
    plain, derived = (
        HodographOptions(hypothesis, collinearity, derived) for derived in (False, True)
    )

    def results(problems: Columns) -> Columns:
        return _scaled(problems, run_queue(_work(plain, 8), _without_units(problems)))

    return of_lanes(results, where_needed(partial(_jacobian, derived, 8), _approach, _RECEDING))


@lru_cache
def known_impulse(hypothesis: AbstractHypothesis) -> Lanewise:
    """A function of `columns` and of the impulse, (3, lanes), that `solver` has found for them.

    It is that impulse, with its derivatives, and costs nothing but them; and not those of first
    order either, if it is given what `sensitivity` has found for the columns as a third
    argument.
    """

    def impulse(problems: Columns) -> Columns:
        return solver(hypothesis)(problems)[:3]

    derived = HodographOptions(hypothesis, None, derived=True)
    return of_lanes(impulse, where_needed(partial(_jacobian, derived, 3), _approach, _RECEDING))


def sensitivity(hypothesis: AbstractHypothesis) -> Lanewise:
    """A function from `columns` to the derivatives of the impulse by them, (3, 11, lanes).

    All lanes are one queue, under any `vmap`; those that do not approach have zeros and cost
    nothing.
    """
    return known_impulse(hypothesis).slopes


def _jacobian(options: HodographOptions, n_results: int, problems: Columns) -> Array:
    """The Jacobian of the first results, (n_results, 11, lanes).

    Panels are followed along the numbers without units, of which there are fewer.
    """
    bare = _without_units(problems)
    found = run_queue(_work(options, n_results, derivatives=True), bare)
    total, by_bare = found[:n_results], found[n_results:]
    by_bare = by_bare.reshape(n_results, len(Contact._fields), -1)

    def along(direction: Columns) -> Columns:
        _, change = jax.jvp(_without_units, (problems,), (direction,))
        change = jnp.sum(by_bare * change[None, :-1], axis=1)
        return jax.jvp(_scaled, (problems, total), (direction, change))[1]

    return jax.vmap(along, out_axes=1)(unit_directions(problems))


def _approach(problems: Columns) -> Bool[Array, " lanes"]:
    """Which contacts close; others have no impulse."""
    return problems[8] < 0


@lru_cache
def _work(options: HodographOptions, n_results: int, derivatives: bool = False) -> Task:
    """Contacts without units, and whether they approach; the first of `solver`'s results.

    Its functions are jitted, so that a program that uses them several times traces them once.
    """

    def contact(problems: Columns) -> Contact:
        return Contact(*problems[:-1])

    def finish(slide: SlidingState, problems: Columns) -> Columns:
        total = finish_impact(options, slide, contact(problems))
        rows = (
            *(total.tangential1, total.tangential2, total.normal),
            *(total.compressed_at, total.stuck_at, total.collinear_at),
            *(total.sticks, ~total.solved),
        )
        return jnp.stack([row.astype(problems.dtype) for row in rows[:n_results]])

    work = Task(
        needed=lambda problems: problems[-1] > 0,
        start=lambda problems: hodograph.start(options, contact(problems)),
        turn=lambda slide, problems: hodograph.advance_panel(options, slide, contact(problems)),
        ended=hodograph.ended,
        finish=finish,
    )
    if derivatives:
        work = along_numbers(work, len(Contact._fields))
    return work._replace(
        start=jax.jit(work.start), turn=jax.jit(work.turn), finish=jax.jit(work.finish)
    )


def _without_units(problems: Columns) -> Columns:
    """Rows of a `Contact`, and whether it approaches; if not, it becomes some harmless one."""
    approaches = _approach(problems)
    w11, w12, w13, w22, w23, w33, v1, v2, v3, mu, e = problems
    speed = jnp.where(approaches, -v3, 1.0)
    slip1, slip2 = (jnp.where(approaches, v / speed, 0.0) for v in (v1, v2))
    contact = Contact(w11 / w33, w12 / w33, w22 / w33, w13 / w33, w23 / w33, slip1, slip2, mu, e)
    return jnp.stack([*contact, approaches.astype(problems.dtype)])


def _scaled(problems: Columns, total: Columns) -> Columns:
    """Results with their units."""
    unit = jnp.where(_approach(problems), -problems[8], 0.0) / problems[5]
    happens = jnp.isfinite(total[:6])
    moments = jnp.where(happens, jnp.where(happens, total[:6], 0.0) * unit[None], jnp.inf)
    return jnp.concatenate([moments, total[6:]])
