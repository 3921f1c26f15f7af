"""Whether everything in a world rests, so that its velocities are zero to the last digit.

Two bodies are held together by contacts that stick at three points that are not in one line; or at
two, if they touch on a face, which other contacts press on it beside the line of these. Where all
bodies are so held, by obstacles that stay where they are or by bodies that are held, the law of
contact allows no velocity but zero. The impulses are known as exactly as they are solved for; what
is left of them would give small velocities to bodies, which add up from step to step, until other
impulses have to be sought.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..math.rarely import if_any
from .contact_rows import ContactRows, stacked
from .rows import take, total

# Points are in one line if the smaller moment of their places is below this part of the larger, and
# on one face if the square of the mean of their normals is short of one by less than this.
_IN_LINE = 1e-6
_TILTED = 1e-6


def at_rest(
    motionless: Bool[Array, ""],
    rows: ContactRows,
    friction: Float[Array, " n_contacts"],
    active: Bool[Array, " n_contacts"],
    impulse: Float[Array, "3 n_contacts"],
) -> Bool[Array, ""]:
    """Whether all bodies rest.

    Args:
        motionless: whether no contact that takes part moves, before impulses and after them.
        rows: of contacts with obstacles that do not move.
        friction: of each contact.
        active: which contacts take part.
        impulse: with which they obey their laws [N s].
    """
    no = jnp.zeros((), bool)
    # What turns against resistance has other items beside its contacts.
    if rows.rows.links.of_pairs is None or rows.turning is not None:
        return no
    bears = active & (impulse[0] > 0)
    # One that has all the friction it can may be about to slide.
    sure = 1 - float(jnp.finfo(impulse.dtype).eps) ** 0.5
    sticks = bears & (jnp.hypot(impulse[1], impulse[2]) < sure * friction * impulse[0])
    carried = jnp.any(rows.drift != 0, axis=0)
    possible = motionless & ~jnp.any(active & carried) & jnp.any(sticks)
    held = lambda *given: possible & _all_held(*given)  # noqa: E731
    return if_any(possible, held, lambda *_: no, rows, bears, sticks)


def _all_held(
    rows: ContactRows, bears: Bool[Array, " n_contacts"], sticks: Bool[Array, " n_contacts"]
) -> Bool[Array, ""]:
    """Whether all bodies are held by contacts that bear and that stick."""
    links = rows.rows.links
    assert links.of_pairs is not None
    length, area = _spread(rows, sticks)
    length_borne, area_borne = _spread(rows, bears)
    own = jnp.where(bears, 1.0, 0.0).astype(rows.gap.dtype)[None]
    *normal, count = total(
        jnp.concatenate([own * rows.rows.direction[0], own]), links.of_pairs[0], 1
    )
    flat = sum(x**2 for x in normal) > (1 - _TILTED) * count**2
    on_face = flat & (area_borne > _IN_LINE * length_borne**2) & (length > _IN_LINE * length_borne)
    fixed = on_face | (area > _IN_LINE * length**2)

    between = links.between_pairs
    sides = between.of_bodies

    def unfinished(carry):
        return carry[1]

    def further(carry):
        held, _ = carry
        known = jnp.append(held, True)  # the world is
        either = jnp.any(known[between.columns], axis=0)
        holds = jnp.where(fixed & either, 1.0, 0.0).astype(own.dtype)
        following = held | (sum(total(holds, side, 0) for side in sides) > 0)
        return following, jnp.any(following != held)

    none = jnp.zeros(links.n_bodies, bool)
    held, _ = jax.lax.while_loop(unfinished, further, (none, jnp.ones((), bool)))
    return jnp.all(held)


def _spread(rows: ContactRows, those: Bool[Array, " n_contacts"]):
    """How far some contacts of each pair of bodies are from one point, and from one line: the sum
    and the sum of the products of the moments of their places."""
    assert rows.rows.links.of_pairs is not None
    table, owner = rows.rows.links.of_pairs
    own, place = jnp.where(those, 1.0, 0.0).astype(rows.gap.dtype)[None], stacked(rows.arms[0])
    count, *middle = total(jnp.concatenate([own, own * place]), table, 1)
    middle = jnp.stack(middle) / jnp.maximum(count, 1.0)[None]
    x, y, z = place - take(middle, owner, 1)
    squares = jnp.stack([x * x, y * y, z * z, x * y, y * z, z * x])
    xx, yy, zz, xy, yz, zx = total(own * squares, table, 1)
    return xx + yy + zz, xx * yy - xy**2 + yy * zz - yz**2 + zz * xx - zx**2
