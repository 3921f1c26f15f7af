"""How the controls of a stage act on a world."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from .._validate import body_index, positive_count
from ..bodies import ConstantForce, State, Torque
from ..simulate import World
from .user_function import UserFunction


class AbstractControl(eqx.Module):
    """What the controls of a stage, an array of shape (size,), do."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many numbers the controls of a stage are."""

    @abc.abstractmethod
    def apply(
        self, world: World, state: State, args: Any, u: Float[Array, " size"]
    ) -> tuple[World, State, Any]:
        """World, state and args from which the stage is simulated.

        Args:
            world, args: of the plan.
            state: at the start of the stage.
            u: the controls.
        """

    def check(self, world: World, args: Any) -> None:
        """Raises `ValueError` if it does not fit to a world or the args of a plan."""


class _OfBody(AbstractControl):
    body: eqx.AbstractVar[int]

    def check(self, world: World, args: Any) -> None:
        del args
        if self.body >= len(world.bodies):
            raise ValueError(
                f"{type(self).__name__}: there is no body {self.body}; the world has "
                f"{len(world.bodies)}."
            )


class Kick(_OfBody):
    """A sudden change of the motion of one body at the start of each stage.

    The six controls are added to the velocity of the centre of mass, world frame [m/s], and to
    the angular velocity, body frame [rad/s].

    Attributes:
        body: index in `World.bodies`.

    Raises:
        ValueError: if that is no index.
    """

    body: int = eqx.field(static=True)

    def __init__(self, body: int):
        self.body = body_index(body, "Kick.body")

    @property
    def size(self) -> int:
        return 6

    def apply(self, world, state, args, u):
        velocity = state.velocity.at[self.body].add(u[:3])
        spin = state.angular_velocity.at[self.body].add(u[3:])
        return world, State(state.position, state.quaternion, velocity, spin, state.stretch), args


class Wrench(_OfBody):
    """A force and a torque on one body that are held over each stage.

    The controls are the force at the centre of mass, world frame [N], and the torque, body frame
    [N m]: six numbers, or the three of one of them. They add to the forces of the world.

    Attributes:
        body: index in `World.bodies`.
        force, torque: whether there is one.

    Raises:
        ValueError: if that is no index, or there is neither force nor torque.
    """

    body: int = eqx.field(static=True)
    force: bool = eqx.field(static=True)
    torque: bool = eqx.field(static=True)

    def __init__(self, body: int, *, force: bool = True, torque: bool = True):
        self.body = body_index(body, "Wrench.body")
        self.force, self.torque = bool(force), bool(torque)
        if not (self.force or self.torque):
            raise ValueError("Wrench: there must be a force or a torque.")

    @property
    def size(self) -> int:
        return 3 * (self.force + self.torque)

    def apply(self, world, state, args, u):
        loads = (ConstantForce(self.body, u[:3]),) if self.force else ()
        loads += (Torque(self.body, u[-3:]),) if self.torque else ()
        return dataclasses.replace(world, forces=world.forces + loads), state, args


class Inputs(AbstractControl):
    """Any controls, which the forces of the world and the motions of obstacles get as args.

    So motors, thrusters and forces of one's own are controlled: whatever reads the args of
    `simulate`. They are held over each stage.

    Attributes:
        n_inputs: how many controls there are.
        function: of an array of them, shape (size,), to the args; written in JAX. An
            `equinox.Module` may hold arrays.

    Args:
        size: how many controls there are.
        to_args: the function; the controls themselves are the args by default.

    Raises:
        ValueError: if the size is no positive number, or the function none.
    """

    n_inputs: int = eqx.field(static=True)
    function: UserFunction

    def __init__(self, size: int, to_args: Callable[[Array], Any] | None = None):
        self.n_inputs = positive_count(size, "Inputs.size")
        if to_args is not None and not callable(to_args):
            raise ValueError(f"Inputs.to_args must be a function of the controls; got {to_args!r}.")
        self.function = UserFunction(_as_they_are if to_args is None else to_args)

    @property
    def size(self) -> int:
        return self.n_inputs

    def check(self, world: World, args: Any) -> None:
        if args is not None:
            raise ValueError("Inputs: args of the plan must be None, since the controls are args.")
        if not world.takes_args:
            raise ValueError("Inputs: no force and no motion in this world takes args.")

    def apply(self, world, state, args, u):
        return world, state, self.function(u)


def _as_they_are(u: Float[np.ndarray, " size"]):
    return u
