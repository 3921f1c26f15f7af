"""How a trial step is searched for events.

The gaps at its end show a contact that penetrates there. A step may also have dipped through an
obstacle on the way: a gap that falls at the start and rises at the end has a minimum inside.
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from .events import AbstractEvents, Mode

State = Any  # a pytree; None where nothing is remembered between trials


class Inspection(NamedTuple):
    """Of a trial that ended without an event."""

    state: State
    doubtful: Bool[Array, ""]  # it must not be accepted yet
    elsewhere: Float[Array, ""]  # the duration to try then [s]


class AbstractDetector(eqx.Module):
    """A way to look for events within a trial."""

    @abc.abstractmethod
    def start(self, like: Float[Array, ""]) -> State:
        """Before the first trial of a flight, in the dtype of `like`."""

    @abc.abstractmethod
    def inspect(
        self,
        state: State,
        t: Float[Array, ""],
        start: Phase,
        end: Phase,
        trial: Float[Array, ""],
        remaining: Float[Array, ""],
        mode: Mode,
        events: AbstractEvents,
    ) -> Inspection:
        """What a trial shows besides the guards at its end.

        Args:
            state: of the search within this flight.
            t: time at the end of the trial [s].
            start, end: of the trial.
            trial: its duration [s].
            remaining: of the step [s].
            mode: in which it was flown.
            events: of the world.
        """


class EndOfStep(AbstractDetector):
    """Looks for penetration at the end of each trial alone, as Tran and Leok do."""

    def start(self, like):
        return None

    def inspect(self, state, t, start, end, trial, remaining, mode, events):
        return Inspection(None, jnp.zeros((), bool), trial)


_UNSEEN, _PROBING, _CLEARED = 0, 1, 2
# The cubic through gaps and rates misses a minimum by O(dt^4); dips that it puts this
# fraction of their depth above zero are probed too.
_MARGIN = 0.02
_MAX_PROBES = 4


class _Dip(eqx.Module):
    """The search for a dip within the present flight."""

    stage: Int[Array, ""]
    curvature: Float[Array, ""]  # mean second derivative of the gap that dips [m/s^2]
    probes: Int[Array, ""]


class Interior(AbstractDetector):
    """Also finds contacts that open again within the step.

    The minimum of a gap that falls at the start and rises at the end is estimated from the gaps
    and their rates, and where it may be negative the flow is probed there. The first probe that
    penetrates brackets the impact.
    """

    def start(self, like):
        return _Dip(jnp.zeros((), jnp.int32), jnp.zeros_like(like), jnp.zeros((), jnp.int32))

    def inspect(self, state: _Dip, t, start, end, trial, remaining, mode, events):
        before, after = events.contacts(t - trial, start), events.contacts(t, end)
        if before is None or after is None:
            return Inspection(state, jnp.zeros((), bool), trial)
        inertial = events.system.inertial
        rate_before = before.kinematics(start, inertial).normal_velocity
        rate_after = after.kinematics(end, inertial).normal_velocity

        # Cubic Hermite interpolation in u = t/trial: g0 + a u + b u^2 + c u^3.
        g0, rise = before.gap, after.gap - before.gap
        a, end_slope = rate_before * trial, rate_after * trial
        turning = (a < 0) & (end_slope > 0) & ~events.lasting(mode, before.gap)
        a, end_slope = jnp.where(turning, a, -1.0), jnp.where(turning, end_slope, 1.0)
        b, c = 3 * rise - 2 * a - end_slope, a + end_slope - 2 * rise
        root = jnp.sqrt(jnp.maximum(b * b - 3 * a * c, 0.0))
        u = jnp.clip(-a / jnp.where(b + root > 0, b + root, -a), 0.0, 1.0)
        lowest = g0 + u * (a + u * (b + u * c))
        suspect = turning & (lowest < _MARGIN * (end_slope - a))
        worst = jnp.min(jnp.where(suspect, lowest, jnp.inf))
        chosen = suspect & (lowest == worst)
        first = lambda value: jnp.max(jnp.where(chosen, value, -jnp.inf))  # noqa: E731
        found = (state.stage == _UNSEEN) & jnp.any(suspect)

        # At a probe: would Newton's rule for a zero of the rate still reach below zero?
        probing = state.stage == _PROBING
        gap = jnp.min(after.gap)
        rate = jnp.max(jnp.where(after.gap == gap, rate_after, -jnp.inf))
        shift = -rate / jnp.where(probing, state.curvature, 1.0)
        better = jnp.clip(trial + shift, 0.0, remaining)
        again = probing & (gap + 0.5 * rate * shift < 0) & (state.probes < _MAX_PROBES)

        stage = jnp.where(found | again, _PROBING, jnp.where(probing, _CLEARED, state.stage))
        slope = jnp.where(chosen, end_slope - a, 1.0) / jnp.where(trial > 0, trial, 1.0) ** 2
        following = _Dip(
            stage=stage.astype(jnp.int32),
            curvature=jnp.where(found, first(slope), state.curvature),
            probes=state.probes + probing.astype(jnp.int32),
        )
        elsewhere = jnp.where(found, first(u) * trial, jnp.where(again, better, remaining))
        return Inspection(following, found | probing, elsewhere)
