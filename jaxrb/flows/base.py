"""The interface of a flow."""

from __future__ import annotations

import abc
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bodies import Dynamics, Inertial, Phase
from ..math import Vec3

Duration = Float[Array, ""] | float


class Step(NamedTuple):
    """The result of a step."""

    phase: Phase
    error: Float[Array, ""]  # of its implicit equations, relative to the one allowed
    work: Float[Array, ""] | None  # of loads without a potential [J]; None where all have one


# A growth that cannot be used, beyond the durations for which a flow has solutions.
_HUGE = 1e6


def steep_growth(angle: Float[Array, "..."], least: float) -> Float[Array, "..."]:
    """Of a flow that turns a body in steady spin by sin(phi) = angle, or 2 sin(phi/2): its paths
    bend by (1 - angle^2)^(-3/2), or (1 - angle^2/4)^(-3/2); and a little for those that tumble.

    Args:
        angle: of the exact flight [rad].
        least: the angle beyond which there is no solution [rad].
    """
    part = (angle / least) ** 2
    left = jnp.maximum(1 - part, _HUGE ** (-2 / 3))
    return (1 + part / 8) / (left * jnp.sqrt(left))


class AbstractFlow(eqx.Module):
    """A one-step map of the motion between events. Its fields are static: it is part of the
    program.

    Attributes:
        has_stretch: whether it advances `Phase.stretch`, which is None otherwise.
        has_pins: whether it knows pinned bodies.
        has_principal_axes: whether it needs `Inertial.principal`, which is None otherwise.
    """

    has_stretch: ClassVar[bool] = False
    has_pins: ClassVar[bool] = True
    has_principal_axes: ClassVar[bool] = False

    @abc.abstractmethod
    def drift(
        self, duration: Duration, phase: Phase, inertial: Inertial, gravity: Vec3
    ) -> tuple[Phase, Float[Array, ""]]:
        """The phase after one step under gravity alone, and the error of its implicit equations.

        The error is relative to the one allowed: a step with an error above 1 has failed.

        Defined for every duration from 0 (the identity) to the step size, so that the
        duration up to an impact can be searched for and differentiated.

        Args:
            duration: [s].
            phase: positions and momenta, components of shape (n_bodies,).
            inertial: masses and inertia tensors, likewise.
            gravity: acceleration, world frame [m/s^2].
        """

    def bend_growth(self, angle: Float[Array, "..."]) -> Float[Array, "..."]:
        """How much larger the second derivative of the path of a body's point, by the duration of
        the step, can be than in exact flight.

        By its bounds, flights are proved free of impacts. Free bodies, without loads.

        Args:
            angle: the duration times a bound of the angular velocity of the exact flight [rad].

        Raises:
            ValueError: if there is no such bound.
        """
        raise ValueError(
            f"{type(self).__name__} has no bound of the curvature of its paths, by which flights "
            'are proved free of impacts: use detect="end" or "interior", or another flow.'
        )

    def longest(self, phase: Phase, inertial: Inertial) -> Float[Array, ""]:
        """The longest duration that it can take at once from a phase, if that is known [s]."""
        return jnp.full_like(phase.position.x[0], jnp.inf)

    def shorter(self, duration: Float[Array, ""], error: Float[Array, ""]) -> Float[Array, ""]:
        """The duration to try when one ended with an error above 1 [s]."""
        return 0.5 * duration

    def step(self, t: Duration, duration: Duration, phase: Phase, dynamics: Dynamics) -> Step:
        """The phase after one step under gravity and all loads.

        The discrete forced equations of Lagrange and d'Alembert (Marsden and West, *Discrete
        mechanics and variational integrators*, 2001, section 3) with half of the impulse of the
        loads at each end: two kicks around the step that gravity alone gives. It is symmetric
        and of order 2 with every scheme that is, and symplectic if that is and the loads have
        potentials. Time in the loads is that of the middle of the step, so that a control input
        that jumps from one step to the next acts as it should.

        Args:
            t: time at the start [s].
            duration: [s].
            phase: at the start.
            dynamics: masses, gravity and loads.
        """
        if not dynamics.loads:
            return Step(*self.drift(duration, phase, dynamics.inertial, dynamics.gravity), None)
        half, middle = 0.5 * duration, t + 0.5 * duration
        first = dynamics.kick(middle, phase, half)
        end, error = self.drift(duration, first.phase, dynamics.inertial, dynamics.gravity)
        second = dynamics.kick(middle, end, half)
        error = jnp.maximum(error, jnp.maximum(first.error, second.error))
        work = None if dynamics.conservative else first.work + second.work
        return Step(second.phase, error, work)
