"""How the controls of a stage act on a world."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._validate import body_index, one_of, positive_count
from ..bodies import ConstantForce, Force, State, Torque
from ..control import AbstractInput
from ..simulate import World
from .user_function import UserFunction

INTERPOLATIONS = ("held", "linear")


class AbstractControl(eqx.Module):
    """What the controls of a stage, an array of shape (size,), do."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many numbers the controls of a stage are."""

    @property
    def linear(self) -> bool:
        """Whether controls go linearly through a stage, from those at its start to those at its
        end, which are those at the start of the next one; else they are held."""
        return False

    @abc.abstractmethod
    def apply(self, world: World, state: State, args: Any, u: Any) -> tuple[World, State, Any]:
        """World, state and args from which the stage is simulated.

        Args:
            world, args: of the plan.
            state: at the start of the stage.
            u: the controls, shape (size,); of linear ones an input that gives them as a function
                of time, such as `PiecewiseLinear`.
        """

    def check(self, world: World, args: Any) -> None:
        """Raises `ValueError` if it does not fit to a world or the args of a plan."""

    @contextlib.contextmanager
    def helping(self):
        """Errors in a simulation of a stage say what may be wrong with the controls."""
        yield


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
        ValueError: if the body is no index.
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
    """A force and a torque on one body that are held over each stage, or go linearly through it.

    The controls are the force at the centre of mass, world frame [N], and the torque, body frame
    [N m]: six numbers, or the three of one of them. They add to the forces of the world.

    Attributes:
        body: index in `World.bodies`.
        force, torque: whether there is one.
        interpolation: "held": the controls jump at the starts of stages. "linear": they are knots
            there and at the end, joined by straight lines, also known as a first-order hold.

    Raises:
        ValueError: if the body is no index, there is neither force nor torque, or the
            interpolation is another one.
    """

    body: int = eqx.field(static=True)
    force: bool = eqx.field(static=True)
    torque: bool = eqx.field(static=True)
    interpolation: Literal["held", "linear"] = eqx.field(static=True)

    def __init__(
        self,
        body: int,
        *,
        force: bool = True,
        torque: bool = True,
        interpolation: Literal["held", "linear"] = "held",
    ):
        self.body = body_index(body, "Wrench.body")
        self.force, self.torque = bool(force), bool(torque)
        if not (self.force or self.torque):
            raise ValueError("Wrench: there must be a force or a torque.")
        self.interpolation = one_of(interpolation, INTERPOLATIONS, "Wrench.interpolation")

    @property
    def size(self) -> int:
        return 3 * (self.force + self.torque)

    @property
    def linear(self) -> bool:
        return self.interpolation == "linear"

    def apply(self, world, state, args, u):
        if isinstance(u, AbstractInput):
            pushed = Force(_Pushed(self, u), velocity_dependent=False)
            return dataclasses.replace(world, forces=(*world.forces, pushed)), state, args
        loads = (ConstantForce(self.body, u[:3]),) if self.force else ()
        loads += (Torque(self.body, u[-3:]),) if self.torque else ()
        return dataclasses.replace(world, forces=world.forces + loads), state, args


class Inputs(AbstractControl):
    """Any controls, which the forces of the world and the motions of obstacles get as args.

    So motors, thrusters and forces of one's own are controlled: whatever reads the args of
    `simulate`. Held controls are args that stay the same over a stage. Of linear ones the args are
    a function of the time [s]: a force reads args(t) where it would read args.

    Attributes:
        n_inputs: how many controls there are.
        function: of an array of them, shape (size,), to the args, or to their value at a time;
            written in JAX. An `equinox.Module` may hold arrays.
        interpolation: "held" or "linear", as of `Wrench`.

    Args:
        size: how many controls there are.
        to_args: the function; the controls themselves are the args by default.
        interpolation: as above.

    Raises:
        ValueError: if the size is no positive number, the function none, or the interpolation
            another one.
    """

    n_inputs: int = eqx.field(static=True)
    function: UserFunction
    interpolation: Literal["held", "linear"] = eqx.field(static=True)

    def __init__(
        self,
        size: int,
        to_args: Callable[[Array], Any] | None = None,
        *,
        interpolation: Literal["held", "linear"] = "held",
    ):
        self.n_inputs = positive_count(size, "Inputs.size")
        self.interpolation = one_of(interpolation, INTERPOLATIONS, "Inputs.interpolation")
        if to_args is not None and not callable(to_args):
            raise ValueError(f"Inputs.to_args must be a function of the controls; got {to_args!r}.")
        self.function = UserFunction(_as_they_are if to_args is None else to_args)

    @property
    def size(self) -> int:
        return self.n_inputs

    @property
    def linear(self) -> bool:
        return self.interpolation == "linear"

    def check(self, world: World, args: Any) -> None:
        if args is not None:
            raise ValueError("Inputs: args of the plan must be None, since the controls are args.")
        if not world.takes_args:
            raise ValueError("Inputs: no force and no motion in this world takes args.")

    def apply(self, world, state, args, u):
        if not isinstance(u, AbstractInput):
            return world, state, self.function(u)
        return world, state, _Args(self.function, u)

    @contextlib.contextmanager
    def helping(self):
        try:
            yield
        except (TypeError, AttributeError) as error:
            if self.linear:
                error.add_note(
                    "Inputs with interpolation='linear' make args a function of time: forces and "
                    "motions read args(t) in place of args."
                )
            raise


class _Args(eqx.Module):
    """Args as a function of time, in place of an input whose values they are made of."""

    function: UserFunction
    input: AbstractInput

    def __call__(self, t):
        return self.function(self.input(t))


class _Pushed(eqx.Module):
    """The forces and torques on all bodies, of a wrench that is given as a function of time."""

    wrench: Wrench
    input: AbstractInput

    def __call__(self, t, state, args):
        del args
        u, none = self.input(t), jnp.zeros_like(state.position)
        force = none.at[self.wrench.body].set(u[:3]) if self.wrench.force else none
        return force, none.at[self.wrench.body].set(u[-3:]) if self.wrench.torque else none


def _as_they_are(u: Float[np.ndarray, " size"]):
    return u
