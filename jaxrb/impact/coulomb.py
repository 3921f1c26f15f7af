"""Frictional impacts in lanes: from the numbers of an impact to its impulse."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math.lanes import Columns, Work, of_lanes, work_off
from . import hodograph
from .closing import close
from .hodograph import Contact, Course

# The rows of an impact: W by its parts, the contact velocity before, mu and e.
NUMBERS = 11
VELOCITY = slice(6, 9)


def columns(inverse_inertia, velocity, friction, restitution) -> Float[Array, "11 ..."]:
    """Numbers of impacts, stacked.

    Args:
        inverse_inertia: W in the contact frame, as `Sym3`, components of shape (...).
        velocity: before the impact, as `Vec3`.
        friction, restitution: mu and e.
    """
    d, o, v = inverse_inertia.diagonal, inverse_inertia.off, velocity
    rows = (d.x, o.z, o.y, d.y, o.x, d.z, v.x, v.y, v.z, friction, restitution)
    return jnp.stack(jnp.broadcast_arrays(*rows))


@lru_cache
def solver(hypothesis: str, collinearity: float | None = None) -> Callable[[Columns], Array]:
    """A function from `columns` of shape (11, lanes) to the results, of shape (8, lanes).

    Its rows are the impulse (x, y, z); the normal impulses at which compression ends, the
    sliding velocity vanishes and the hodograph becomes straight, infinite if they do not;
    whether it sticks, and whether the impact ended. Where the contact does not approach all
    impulses are 0. Derivatives exist in both modes; see `of_lanes`.
    """

    def follow(shortcut: bool) -> Callable[[Columns], Array]:
        course = Course(hypothesis, collinearity, shortcut)
        work = Work(
            needed=_approaches,
            start=lambda problems: hodograph.start(course, _contact(problems)),
            turn=lambda slide, problems: hodograph.follow(course, slide, _contact(problems)),
            ended=hodograph.ended,
        )

        def solve(problems: Columns) -> Array:
            contact = _contact(problems)
            total = close(course, work_off(work, problems), contact)
            approaches = _approaches(problems)
            unit = jnp.where(approaches, -problems[8], 0.0) / problems[5]
            events = (total.compressed_at, total.stuck_at, total.collinear_at)
            rows = (
                total.tangential1 * unit,
                total.tangential2 * unit,
                total.normal * unit,
                *(_scaled(at, unit) for at in events),
                total.sticks,
                total.solved | ~approaches,
            )
            return jnp.stack([row.astype(problems.dtype) for row in rows])

        return solve

    return of_lanes(follow(True), follow(False))


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
