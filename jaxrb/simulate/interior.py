"""Contacts that open again within a step.

A step whose end is free of penetration may have dipped through an obstacle on the way. A gap
that falls at the start and rises at the end has a minimum inside; it is estimated from the
gaps and their rates, and where it may be negative the flow is probed there. The first probe
that penetrates brackets the impact.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from .sustained import Held
from .system import System

_UNSEEN, _PROBING, _CLEARED = 0, 1, 2
# The cubic through gaps and rates misses a minimum by O(dt^4); dips that it puts this
# fraction of their depth above zero are probed too.
_MARGIN = 0.02
_MAX_PROBES = 4


class Dip(eqx.Module):
    """The search for a dip within the present segment."""

    stage: Int[Array, ""]
    trial: Float[Array, ""]  # duration to try next [s]
    curvature: Float[Array, ""]  # mean second derivative of the gap that dips [m/s^2]
    probes: Int[Array, ""]

    @staticmethod
    def none(like: Float[Array, ""]) -> Dip:
        zero, none = jnp.zeros_like(like), jnp.zeros((), jnp.int32)
        return Dip(none, zero, zero, none)


def find_dip(
    dip: Dip,
    start: Phase,
    end: Phase,
    trial: Float[Array, ""],
    remaining: Float[Array, ""],
    held: Held | None,
    system: System,
) -> tuple[Dip, Bool[Array, ""]]:
    """The search after a trial that ended without penetration.

    Returns:
        The next state of the search, and whether the trial must not be accepted yet.
    """
    if system.contacts is None:
        return dip, jnp.zeros((), bool)
    before, after = system.contacts.find(start), system.contacts.find(end)
    rate_before = before.kinematics(start, system.inertial).normal_velocity
    rate_after = after.kinematics(end, system.inertial).normal_velocity

    # Cubic Hermite interpolation in u = t/trial: g0 + a u + b u^2 + c u^3.
    g0, rise = before.gap, after.gap - before.gap
    a, end_slope = rate_before * trial, rate_after * trial
    turning = (a < 0) & (end_slope > 0)
    if held is not None:
        turning &= ~held
    a, end_slope = jnp.where(turning, a, -1.0), jnp.where(turning, end_slope, 1.0)
    b, c = 3 * rise - 2 * a - end_slope, a + end_slope - 2 * rise
    root = jnp.sqrt(jnp.maximum(b * b - 3 * a * c, 0.0))
    u = jnp.clip(-a / jnp.where(b + root > 0, b + root, -a), 0.0, 1.0)
    lowest = g0 + u * (a + u * (b + u * c))
    suspect = turning & (lowest < _MARGIN * (end_slope - a))
    worst = jnp.min(jnp.where(suspect, lowest, jnp.inf))
    chosen = suspect & (lowest == worst)
    first = lambda value: jnp.max(jnp.where(chosen, value, -jnp.inf))  # noqa: E731
    found = (dip.stage == _UNSEEN) & jnp.any(suspect)

    # At a probe: would Newton's rule for a zero of the rate still reach below zero?
    probing = dip.stage == _PROBING
    gap = jnp.min(after.gap)
    rate = jnp.max(jnp.where(after.gap == gap, rate_after, -jnp.inf))
    shift = -rate / jnp.where(probing, dip.curvature, 1.0)
    better = jnp.clip(trial + shift, 0.0, remaining)
    again = probing & (gap + 0.5 * rate * shift < 0) & (dip.probes < _MAX_PROBES)

    stage = jnp.where(found | again, _PROBING, jnp.where(probing, _CLEARED, dip.stage))
    following = jnp.where(again, better, remaining)
    slope = jnp.where(chosen, end_slope - a, 1.0) / jnp.where(trial > 0, trial, 1.0) ** 2
    return Dip(
        stage=stage.astype(jnp.int32),
        trial=jnp.where(found, first(u) * trial, following),
        curvature=jnp.where(found, first(slope), dip.curvature),
        probes=dip.probes + probing.astype(jnp.int32),
    ), found | probing
