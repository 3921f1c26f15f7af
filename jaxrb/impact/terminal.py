"""The end of an impact in closed form (Jia and Wang, sections 6.2 and 6.3).

Once the hodograph is a straight line, or the contact sticks, the impulse grows in a constant
direction, v_z linearly and E quadratically with the normal impulse.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ..math.materialize import compute_once
from .hypotheses import Restitution
from .slide import Compressed, Contact, HodographOptions, Lane, SlidingState, Stage, choose


class ImpactTotals(NamedTuple):
    """An impact after its end, without units."""

    tangential1: Lane
    tangential2: Lane
    normal: Lane
    compressed_at: Lane  # normal impulse at the end of compression
    stuck_at: Lane  # where the sliding velocity first vanishes; infinite if it does not
    collinear_at: Lane
    sticks: Bool[Array, " lanes"]  # whether it sticks there; else it slides on
    solved: Bool[Array, " lanes"]


class _Line(NamedTuple):
    """A course of constant direction."""

    impulse: Lane  # I_z
    normal: Lane  # v_z
    energy: Lane  # as in Motion
    stage: Int[Array, " lanes"]
    compressed: Compressed


def finish_impact(options: HodographOptions, slide: SlidingState, contact: Contact) -> ImpactTotals:
    """Follows the impact from the end of the panels to its own end."""
    moved = slide.motion
    eps = jnp.finfo(moved.speed.dtype).eps
    mu = contact.friction
    line = _Line(moved.impulse, moved.normal, moved.energy, slide.stage, slide.compressed)
    # It slides on in its direction, to the origin if it approaches it.
    growth, turning = contact.rates(moved.cos, moved.sin)
    approaches = growth < 0
    decay = jnp.where(approaches, -growth, 1.0)
    # Of the turn that is left only derivatives know, to which it matters; to first order.
    decay_turned = decay - contact.turning_slope(moved.cos, moved.sin)
    bent = contact.growth_slope(moved.cos, moved.sin) * turning
    bent = bent / (decay * jnp.where(decay_turned > 0, decay_turned, 1.0))
    left = moved.speed / decay * jnp.where(approaches & (decay_turned > 0), 1 + bent, 1.0)
    left = jnp.where(approaches, left, jnp.inf)
    left = jnp.where(moved.speed <= eps, 0.0, left)
    along = contact.acceleration(moved.cos, moved.sin)
    slid = _run(options, contact, line, along, slide.straight, left)
    step = slid.impulse - moved.impulse
    first = -mu * (moved.pull1 + moved.cos * step)
    second = -mu * (moved.pull2 + moved.sin * step)

    # At the origin it sticks, or slides on in the centrifugal direction (38).
    stops = slide.straight & (slid.stage != Stage.OVER) & jnp.isfinite(left)
    origin = contact.sticking(slid.impulse)
    first, second = (jnp.where(stops, a, b) for a, b in zip(origin, (first, second), strict=True))
    # From the same impulse, so that the derivative with respect to an initial slip of zero is
    # defined.
    normal = slid.impulse - 1 + contact.d1 * origin[0] + contact.d2 * origin[1]
    slid = slid._replace(normal=jnp.where(stops, normal, slid.normal))
    resist1, resist2 = contact.solve(contact.d1, contact.d2)
    sticks = resist1 * resist1 + resist2 * resist2 <= mu * mu
    away1, away2 = centrifugal(contact, ~sticks)
    push1 = jnp.where(sticks, -resist1, -mu * away1)
    push2 = jnp.where(sticks, -resist2, -mu * away2)
    along = 1 + contact.d1 * push1 + contact.d2 * push2
    final = _run(options, contact, slid, along, stops, jnp.full_like(left, jnp.inf))
    step = final.impulse - slid.impulse
    return ImpactTotals(
        first + push1 * step,
        second + push2 * step,
        final.impulse,
        final.compressed.impulse,
        jnp.where(stops, slid.impulse, jnp.inf),
        slide.collinear_at,
        stops & sticks,
        final.stage == Stage.OVER,
    )


def centrifugal(contact: Contact, where: Bool[Array, " lanes"]) -> tuple[Lane, Lane]:
    """The only direction u in which sliding can resume: d - mu B u = lambda u, lambda > 0.

    It exists where |B^{-1} d| > mu (Corollary 6); elsewhere the result is B^{-1} d / mu.
    """
    mu = jnp.where(where, contact.friction, 1.0)
    d1, d2 = jnp.where(where, contact.d1, 1.0), jnp.where(where, contact.d2, 0.0)
    m11, m22 = (mu * jnp.where(where, b, 1.0) for b in (contact.b11, contact.b22))
    m12 = mu * jnp.where(where, contact.b12, 0.0)
    push = _Push(m11, m12, m22, d1, d2)
    return push.balance(_growth(push))


class _Push(NamedTuple):
    """The coefficients mu B and d of the drive of a sliding contact."""

    m11: Lane
    m12: Lane
    m22: Lane
    d1: Lane
    d2: Lane

    def solve(self, growth: Lane, x: Lane, y: Lane) -> tuple[Lane, Lane]:
        """(lambda + mu B)^{-1} (x, y)."""
        m11, m12, m22 = growth + self.m11, self.m12, growth + self.m22
        scale = 1 / (m11 * m22 - m12 * m12)
        return (m22 * x - m12 * y) * scale, (m11 * y - m12 * x) * scale

    def balance(self, growth: Lane) -> tuple[Lane, Lane]:
        """(lambda + mu B)^{-1} d, of length 1 for the lambda that is looked for."""
        return self.solve(growth, self.d1, self.d2)

    def slope(self, growth: Lane, x: Lane, y: Lane) -> Lane:
        """The rate at which half the square of the length of (x, y) falls with lambda."""
        along1, along2 = self.solve(growth, x, y)
        return x * along1 + y * along2


@jax.custom_jvp
def _growth(push: _Push) -> Lane:
    """The lambda for which |(lambda + mu B)^{-1} d| = 1.

    The reciprocal of the left-hand side is almost linear in lambda, and Newton's rule for it
    converges from a lower bound, |d| less mu times the largest eigenvalue of B.
    """
    half, mean = (push.m11 - push.m22) / 2, (push.m11 + push.m22) / 2
    largest = mean + jnp.sqrt(half * half + push.m12 * push.m12)
    growth = jnp.maximum(jnp.sqrt(push.d1 * push.d1 + push.d2 * push.d2) - largest, 0.0)

    def improve(_, growth):
        x, y = push.balance(growth)
        size = jnp.sqrt(x * x + y * y)
        return growth + (size - 1) * size * size / push.slope(growth, x, y)

    return jax.lax.fori_loop(0, 12, improve, growth)


@_growth.defjvp
def _(primals, tangents):
    """The implicit function theorem."""
    (push,), (change,) = primals, tangents
    growth = _growth(push)
    (x, y), (dx, dy) = jax.jvp(lambda push: push.balance(growth), (push,), (change,))
    return growth, (x * dx + y * dy) / push.slope(growth, x, y)


def _run(
    options: HodographOptions,
    contact: Contact,
    line: _Line,
    acceleration: Lane,
    active: Bool[Array, " lanes"],
    limit: Lane,
) -> _Line:
    """Along a line until the impact is over, or for a limited normal impulse."""
    line, acceleration, limit = compute_once((line, acceleration, limit))
    rises = acceleration > 0
    slope = jnp.where(rises, acceleration, 1.0)
    # End of compression: v_z = 0.
    ahead = jnp.where(rises, -line.normal / slope, jnp.inf)
    compresses = active & (line.stage == Stage.COMPRESSION) & (ahead < limit)
    step = jnp.where(compresses, ahead, 0.0)
    stored = line.energy - (line.normal + acceleration * step / 2) * step
    compressed = Compressed(line.impulse + step, stored)
    line = _Line(
        line.impulse + step,
        jnp.where(compresses, 0.0, line.normal),
        jnp.where(compresses, 0.0, line.energy),
        line.stage + compresses.astype(jnp.int32),
        choose(compresses, compressed, line.compressed),
    )
    limit = jnp.where(jnp.isfinite(limit), limit - step, jnp.inf)

    # End of restitution.
    now = Restitution(line.impulse, line.normal, line.energy, *line.compressed, slope)
    ahead = options.hypothesis.left(contact.restitution, now)
    # At 0, where e = 0, a maximum would have half of the derivative.
    ahead = jnp.where(rises, jnp.where(ahead < 0, 0.0, ahead), jnp.inf)
    restoring = active & (line.stage == Stage.RESTITUTION)
    ends = restoring & (ahead <= limit)
    # Without an event the line is followed as far as it goes.
    stops = active & (line.stage != Stage.OVER) & ~ends & jnp.isfinite(limit)
    step = jnp.where(ends, ahead, jnp.where(stops, limit, 0.0))
    work = (line.normal + acceleration * step / 2) * step
    return _Line(
        line.impulse + step,
        line.normal + acceleration * step,
        line.energy + jnp.where(restoring, work, -work),
        line.stage + ends.astype(jnp.int32),
        line.compressed,
    )
