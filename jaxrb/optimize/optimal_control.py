"""Problems of optimal control in stages."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._validate import finite_number, positive_count, real_array, require
from ..bodies import State
from ..bodies.state import check_bodies
from ..simulate import SaveAt, Solution, World, simulate
from ..simulate.method import AbstractMethod
from .control_inputs import AbstractControl
from .user_function import UserFunction

# Of a step: durations of stages that are so near to whole steps are.
_WHOLE = 1e-6


@dataclasses.dataclass(frozen=True, repr=False)
class OptimalControl:
    """What to choose controls for: a world from a state, in stages of equal durations.

    The controls are those that lessen the sum of the squares of all residuals the most, among
    those that lead to an end where `terminal` is zero.

    Attributes:
        world, state, method, args: as in `simulate`; the state is at t0, and fixed.
        t1: end [s].
        stages: how many; each is a whole number of steps of the method, if it has steps.
        control: how controls act: `Kick`, `Wrench` or `Inputs`.
        cost: of the `State` at the start of a stage, before a kick, and the controls of the
            stage, shape (n_u,), to residuals of shape (m,); written in JAX. The arrays of an
            `equinox.Module` or a `jax.tree_util.Partial` are numbers of the program: new ones
            compile nothing anew.
        terminal: of the state at the end, to an array of shape (p,) that must become zero.
        terminal_cost: of the state at the end, to residuals of shape (q,).
        t0: start [s].
        guess: where `solve` starts unless it is told otherwise: controls, shape (stages, n_u),
            and the states at the starts of the stages and at the end, leading axis stages + 1,
            or None in place of the states.

    Raises:
        ValueError: if the arguments do not fit together, naming the argument.
    """

    world: World
    state: State
    method: AbstractMethod
    t1: float = dataclasses.field(kw_only=True)
    stages: int = dataclasses.field(kw_only=True)
    control: AbstractControl = dataclasses.field(kw_only=True)
    cost: Callable[[State, Array], Array] = dataclasses.field(kw_only=True)
    terminal: Callable[[State], Array] | None = dataclasses.field(kw_only=True, default=None)
    terminal_cost: Callable[[State], Array] | None = dataclasses.field(kw_only=True, default=None)
    args: Any = dataclasses.field(kw_only=True, default=None)
    t0: float = dataclasses.field(kw_only=True, default=0.0)
    guess: tuple | None = dataclasses.field(kw_only=True, default=None)

    def __post_init__(self):
        _check_simulated(self)
        t0, t1 = finite_number(self.t0, "t0"), finite_number(self.t1, "t1")
        if t1 <= t0:
            raise ValueError(f"t1 must lie after t0; got t0 = {t0}, t1 = {t1}.")
        positive_count(self.stages, "stages")
        dt = self.method.dt
        if dt is not None:
            steps = (t1 - t0) / self.stages / finite_number(dt, "method.dt")
            if round(steps) < 1 or abs(steps - round(steps)) > _WHOLE * steps:
                raise ValueError(
                    f"t1: a stage must last a whole number of steps of the method; {t1 - t0:g} s "
                    f"in {self.stages} stages are {steps:g} steps of {dt:g} s each."
                )
        if not isinstance(self.control, AbstractControl):
            raise ValueError(
                f"control must be a Kick, a Wrench or Inputs; got {type(self.control).__name__}."
            )
        self.control.check(self.world, self.args)
        u = jax.ShapeDtypeStruct((self.control.size,), self.dtype)
        _check_residuals(self.cost, "cost(x, u)", self.state, u)
        _check_residuals(self.terminal, "terminal(x)", self.state)
        _check_residuals(self.terminal_cost, "terminal_cost(x)", self.state)
        if self.guess is not None:
            object.__setattr__(self, "guess", checked_guess(self, self.guess))

    def __repr__(self) -> str:
        kind = type(self.control).__name__
        return (
            f"OptimalControl({self.stages} stages from {self.t0:g} s to {self.t1:g} s, "
            f"{self.control.size} controls by {kind})"
        )

    @property
    def dtype(self) -> Any:
        """Of all numbers."""
        return self.state.position.dtype

    @property
    def ts(self) -> Float[np.ndarray, " stages+1"]:
        """The starts of the stages, and the end [s]."""
        return self.t0 + (self.t1 - self.t0) * np.arange(self.stages + 1) / self.stages

    def starting_from(self, controls: Any, states: State | None = None) -> OptimalControl:
        """The same problem with another guess.

        Raises:
            ValueError: if the guess does not fit.
        """
        return dataclasses.replace(self, guess=(controls, states))

    def rollout(
        self,
        controls: Float[Array | np.ndarray, "stages n_u"],
        save: SaveAt | None = None,
        throw: bool = True,
    ) -> list[Solution]:
        """The simulations of all stages, one after another from the plan's state.

        Args:
            controls: of the stages.
            save: what each returns besides its final state, as in `simulate`.
            throw: raise if one ended early; otherwise what follows starts where it ended.

        Raises:
            ValueError: if the controls have another shape.
            RuntimeError: as `simulate`.
        """
        controls = real_array(controls, "controls", (self.stages, self.control.size))
        found, state, ts = [], self.state, self.ts
        for k in range(self.stages):
            world, start, args = self.control.apply(self.world, state, self.args, controls[k])
            t0, t1 = float(ts[k]), float(ts[k + 1])
            sol = simulate(world, start, self.method, t1, t0, save, args, throw)
            found.append(sol)
            state = sol.final
        return found


def checked_guess(plan: OptimalControl, guess: Any) -> tuple[np.ndarray, State | None]:
    """Controls and states of a guess, on the host.

    Raises:
        ValueError: if they do not fit to the plan.
    """
    if not isinstance(guess, tuple | list) or len(guess) != 2:
        raise ValueError("guess must be a pair of controls and states; the states may be None.")
    controls, states = guess
    controls = real_array(controls, "guess: the controls", (plan.stages, plan.control.size))
    require(controls, "guess: the controls", np.isfinite, "finite")
    if states is None:
        return np.asarray(controls, plan.dtype), None
    shape = (plan.stages + 1, *plan.state.position.shape)
    if not isinstance(states, State) or states.position.shape != shape:
        raise ValueError(
            f"guess: the states must be one State whose position has shape {shape}: the starts of "
            f"the {plan.stages} stages and the end."
        )
    for leaf in jax.tree.leaves(states):
        require(leaf, "guess: the states", np.isfinite, "finite")
    return np.asarray(controls, plan.dtype), jax.tree.map(np.asarray, states)


def _check_simulated(plan: OptimalControl) -> None:
    if not isinstance(plan.world, World):
        raise ValueError(f"world must be a World; got {type(plan.world).__name__}.")
    if not isinstance(plan.state, State):
        raise ValueError(f"state must be a State; got {type(plan.state).__name__}.")
    check_bodies(plan.world.bodies, plan.state)
    for leaf in jax.tree.leaves(plan.state):
        require(leaf, "state", np.isfinite, "finite")
    if not isinstance(plan.method, AbstractMethod):
        raise ValueError(f"method must be a method such as LGVCI(dt=0.01); got {plan.method!r}.")


def _check_residuals(function: Callable | None, name: str, *arguments: Any) -> None:
    if function is None:
        return
    if not callable(function):
        raise ValueError(f"{name.partition('(')[0]} must be a function; got {function!r}.")
    found = jax.eval_shape(function, *arguments)
    real = jnp.issubdtype(getattr(found, "dtype", int), jnp.floating)
    if getattr(found, "ndim", None) != 1 or not real:
        raise ValueError(
            f"{name} must return residuals, real numbers of shape (m,); got {found}. Their squares "
            "are summed; put several arrays together by jnp.concatenate."
        )


def function_of(residuals: Callable | None) -> UserFunction:
    """Residuals as part of a program; none if there are none."""
    return UserFunction(_none if residuals is None else residuals)


def _none(x: State) -> Array:
    return jnp.zeros(0, x.position.dtype)
