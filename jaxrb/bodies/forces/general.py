"""Forces that are given by a function of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from ..._validate import real_array
from ...math import Vec3
from ..inertial import Inertial
from ..phase import Phase
from ..state import State, from_phase
from .base import AbstractLoad, Time, Wrench, cast
from .function import Function, kind
from .source import still


class Force(AbstractLoad):
    """Any forces and torques on the bodies, as a function of time, state and arguments.

    A force that has a potential, or is declared not to depend on velocities, gets a state whose
    velocities are not a number: if it uses them after all, the simulation fails instead of
    being wrong.

    Attributes:
        function: of the time [s], the `State` and the args of `simulate` to a pair: forces at
            the centres of mass, world frame [N], and torques about them, body frames [N m],
            both of shape (n_bodies, 3); written in JAX. If it is an `equinox.Module`, the
            arrays it holds can be differentiated; those over which a plain function closes are
            constants.
        potential_energy: of the `State` to a scalar [J]; None of other forces.
        uses_velocities: whether the function depends on velocities.

    Args:
        function: as above.
        potential: whose negative gradient the forces and torques are; then energy is conserved.
            They must not depend on time, velocities or arguments.
        velocity_dependent: whether the function depends on velocities; steps cost less where it
            does not. Of a force with a potential this says nothing.

    Raises:
        ValueError: if these are no functions, or the function returns anything else.
    """

    function: Function
    potential_energy: Function | None
    uses_velocities: bool = eqx.field(static=True)

    def __init__(
        self,
        function: Callable[[Time, State, Any], tuple[Array, Array]],
        potential: Callable[[State], Float[Array, ""]] | None = None,
        velocity_dependent: bool = True,
    ):
        for name, given in (("function", function), ("potential", potential)):
            if not callable(given) and (given is not None or name == "function"):
                raise ValueError(f"Force.{name} must be a function; got {given!r}.")
        if not isinstance(velocity_dependent, bool):
            raise ValueError(
                f"Force.velocity_dependent must be True or False; got {velocity_dependent!r}."
            )
        self.function = Function(function)
        self.potential_energy = None if potential is None else Function(potential)
        self.uses_velocities = velocity_dependent and potential is None

    @property
    def bodies(self) -> tuple[int, ...]:
        return ()

    @property
    def velocity_dependent(self) -> bool:
        return self.uses_velocities

    @property
    def conservative(self) -> bool:
        return self.potential_energy is not None

    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        state = from_phase(phase, inertial) if self.uses_velocities else still(phase)
        found = self.function(t, state, args)
        shape = state.position.shape
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise ValueError(
                "Force.function must return a pair (forces, torques), both of shape "
                f"{shape}; got {kind(found)}."
            )
        force, torque = (
            Vec3.of(
                cast(real_array(array, f"The {name} that Force.function returns", shape), phase)
            )
            for name, array in zip(("forces", "torques"), found, strict=True)
        )
        return Wrench(force, torque)

    def potential(self, phase: Phase) -> Float[Array, ""]:
        if self.potential_energy is None:
            return AbstractLoad.potential(self, phase)
        energy = self.potential_energy(still(phase))
        return cast(real_array(energy, "What Force.potential returns", ()), phase)
