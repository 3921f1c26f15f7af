"""A flow of order 4, composed of steps of one of order 2."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..bodies import Phase
from .base import AbstractFlow, Duration, Step

_OUTER = 1 / (4 - 4 ** (1 / 3))
_FRACTIONS = (_OUTER, _OUTER, 1 - 4 * _OUTER, _OUTER, _OUTER)


class FourthOrder(AbstractFlow):
    """Five steps of a symmetric flow of order 2 that make one of order 4: Suzuki's composition.

    Their durations are c h, c h, (1 - 4 c) h, c h, c h, where c = 1/(4 - 4^(1/3)) makes
    4 c^3 + (1 - 4 c)^3 = 0, so that the errors of order 2 cancel; those of odd orders vanish by
    symmetry (Hairer, Lubich and Wanner, *Geometric numerical integration*, 2nd ed., Example
    II.4.3). It is symmetric, and keeps what the flow keeps: energy and momenta, or the symplectic
    form. The third step goes back in time, by 0.66 h.

    With `ExactFlight` it is a splitting of order 4 for bodies under loads. Loads must be smooth
    within a step, in time as well: where an input jumps within one, the order is lost. While
    contacts last it is of order 2.

    Attributes:
        flow: of order 2 and symmetric, as all are that jaxrb has. A step costs five of its own.

    Raises:
        ValueError: if `flow` is no flow, or composed already.
    """

    flow: AbstractFlow = eqx.field(static=True)

    def __check_init__(self):
        if not isinstance(self.flow, AbstractFlow) or isinstance(self.flow, FourthOrder):
            raise ValueError(
                "FourthOrder.flow must be a flow of order 2, such as ExactFlight(); "
                f"got {self.flow!r}."
            )

    # What the flow has; constants of their classes elsewhere.
    @property
    def has_stretch(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.flow.has_stretch

    @property
    def has_pins(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.flow.has_pins

    @property
    def has_principal_axes(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.flow.has_principal_axes

    def bend_growth(self, angle):
        """That of the flow cancels, up to order 4."""
        self.flow.bend_growth(angle)
        return 1 + angle**4 / 32

    def drift(self, duration, phase, inertial, gravity):
        def part(t, own, phase):
            return Step(*self.flow.drift(own, phase, inertial, gravity), None)

        end = _composed(part, 0.0, duration, phase)
        return end.phase, end.error

    def step(self, t, duration, phase, dynamics):
        def part(t, own, phase):
            return self.flow.step(t, own, phase, dynamics)

        return _composed(part, t, duration, phase)


def _composed(
    part: Callable[[Duration, Duration, Phase], Step], t: Duration, duration: Duration, phase: Phase
) -> Step:
    """The parts of a step one after another, in a loop: the program stays as short as one."""
    like = phase.position.x
    t, duration = jnp.asarray(t, like.dtype), jnp.asarray(duration, like.dtype)

    def one(carry, fraction):
        t, phase = carry
        own = fraction * duration
        step = part(t, own, phase)
        return (t + own, step.phase), (step.error, step.work)

    fractions = np.array(_FRACTIONS, like.dtype)
    (_, end), (errors, works) = jax.lax.scan(one, (t, phase), fractions)
    return Step(end, jnp.max(errors), None if works is None else jnp.sum(works))
