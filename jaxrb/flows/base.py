"""What a flow is."""

import abc
from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from ..bodies import Inertial, Phase
from ..math import Vec3


class AbstractFlow(eqx.Module):
    """A one-step map of the motion between events. Its fields are static: it is part of the
    program.

    Attributes:
        has_stretch: whether it advances `Phase.stretch`, which is None otherwise.
        has_pins: whether it knows pinned bodies.
    """

    has_stretch: ClassVar[bool] = False
    has_pins: ClassVar[bool] = True

    @abc.abstractmethod
    def step(
        self,
        duration: Float[Array, ""] | float,
        phase: Phase,
        inertial: Inertial,
        gravity: Vec3,
    ) -> tuple[Phase, Float[Array, ""]]:
        """The phase after one step, and the error of its implicit equations.

        The error is relative to the one allowed: a step with an error above 1 has failed.

        Defined for every duration from 0 (the identity) to the step size, so that the
        duration up to an impact can be searched for and differentiated.

        Args:
            duration: [s].
            phase: positions and momenta, components of shape (n_bodies,).
            inertial: masses and inertia tensors, likewise.
            gravity: acceleration, world frame [m/s^2].
        """
