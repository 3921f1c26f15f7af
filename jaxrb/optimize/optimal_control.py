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
from ..control import AbstractInput, PiecewiseConstant, PiecewiseLinear
from ..simulate import SaveAt, Solution, World, simulate
from ..simulate.method import AbstractMethod
from .control_inputs import AbstractControl, Kick
from .user_function import UserFunction

# Of a step: durations of stages that are so near to whole steps are.
_WHOLE = 1e-6


@dataclasses.dataclass(frozen=True, repr=False)
class OptimalControl:
    """What to choose controls for: a world from a state, in stages of equal durations.

    The controls are those that lessen the sum of the squares of all residuals the most, among
    those that lead to an end where `terminal` is zero. They are one set of n_u numbers for each
    stage; if the control is linear, for each start of a stage and for the end.

    Attributes:
        world, state, method, args: as in `simulate`; the state is at t0, and fixed.
        t1: end [s].
        stages: how many; each is a whole number of steps of the method, if it has steps.
        control: how controls act: `Kick`, `Wrench` or `Inputs`.
        cost: of the `State` at the start of a stage, before a kick, and the controls of the
            stage, shape (n_u,), to residuals of shape (m,); written in JAX. Of linear controls it
            gets those at the start of the stage. The arrays of an `equinox.Module` or a
            `jax.tree_util.Partial` are numbers of the program: new ones compile nothing anew.
        terminal: of the state at the end, to an array of shape (p,) that must become zero.
        terminal_cost: of the state at the end, to residuals of shape (q,).
        t0: start [s].
        guess: where `solve` starts unless it is told otherwise: controls, shape (stages, n_u) or,
            of linear ones, (stages + 1, n_u), and the states at the starts of the stages and at
            the end, leading axis stages + 1, or None in place of the states.
        initial_control: of linear controls, what they are at t0, shape (n_u,), whatever a guess
            says; they are chosen there, too, by default.
        cost_at_end: of linear controls, whether `cost` counts at the end as well. Otherwise it
            says nothing of the last controls, which may be large then.

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
    initial_control: Any = dataclasses.field(kw_only=True, default=None)
    cost_at_end: bool = dataclasses.field(kw_only=True, default=False)

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
        _check_linear(self)
        u = jax.ShapeDtypeStruct((self.control.size,), self.dtype)
        _check_residuals(self.cost, "cost(x, u)", self.state, u)
        _check_residuals(self.terminal, "terminal(x)", self.state)
        _check_residuals(self.terminal_cost, "terminal_cost(x)", self.state)
        if self.guess is not None:
            object.__setattr__(self, "guess", checked_guess(self, self.guess))

    def __repr__(self) -> str:
        kind = type(self.control).__name__
        linear = "linear " if self.control.linear else ""
        return (
            f"OptimalControl({self.stages} stages from {self.t0:g} s to {self.t1:g} s, "
            f"{self.control.size} {linear}controls by {kind})"
        )

    @property
    def dtype(self) -> Any:
        """Of all numbers."""
        return self.state.position.dtype

    @property
    def ts(self) -> Float[np.ndarray, " stages+1"]:
        """The starts of the stages, and the end [s]."""
        return self.t0 + (self.t1 - self.t0) * np.arange(self.stages + 1) / self.stages

    @property
    def control_shape(self) -> tuple[int, int]:
        """Of all controls: (stages, n_u), and (stages + 1, n_u) of linear ones."""
        return self.stages + self.control.linear, self.control.size

    def input(self, controls: Float[Array | np.ndarray, "n n_u"]) -> AbstractInput:
        """Controls as a function of the time [s], for one simulation of all stages:

            world, state, args = plan.control.apply(plan.world, plan.state, plan.args, input)
            simulate(world, state, plan.method, plan.t1, plan.t0, args=args)

        Held `Inputs` are args that do not change in a simulation; for such a one the forces have
        to read args(t), as they do of linear controls.

        Args:
            controls: as of a solution, shape `control_shape`.

        Returns:
            A `PiecewiseLinear`, or of held controls a `PiecewiseConstant`.

        Raises:
            ValueError: if the controls have another shape, or are kicks.
        """
        controls = real_array(controls, "controls", self.control_shape)
        if isinstance(self.control, Kick):
            raise ValueError("input: kicks act at once, and are no function of the time.")
        ts = self.ts.astype(self.dtype)
        if self.control.linear:
            return PiecewiseLinear(ts, controls)
        return PiecewiseConstant(ts[:-1], controls)

    def starting_from(self, controls: Any, states: State | None = None) -> OptimalControl:
        """The same problem with another guess.

        Raises:
            ValueError: if the guess does not fit.
        """
        return dataclasses.replace(self, guess=(controls, states))

    def rollout(
        self,
        controls: Float[Array | np.ndarray, "n n_u"],
        save: SaveAt | None = None,
        throw: bool = True,
    ) -> list[Solution]:
        """The simulations of all stages, one after another from the plan's state.

        Args:
            controls: of the stages, shape `control_shape`.
            save: what each returns besides its final state, as in `simulate`.
            throw: raise if one ended early; otherwise what follows starts where it ended.

        Raises:
            ValueError: if the controls have another shape.
            RuntimeError: as `simulate`.
        """
        controls = real_array(controls, "controls", self.control_shape)
        found, state, ts = [], self.state, self.ts
        for k in range(self.stages):
            u = self.of_stage(controls, k)
            world, start, args = self.control.apply(self.world, state, self.args, u)
            t0, t1 = float(ts[k]), float(ts[k + 1])
            with self.control.helping():
                sol = simulate(world, start, self.method, t1, t0, save, args, throw)
            found.append(sol)
            state = sol.final
        return found

    def of_stage(
        self, controls: Float[Array | np.ndarray, "n n_u"], stage: int
    ) -> Array | PiecewiseLinear:
        """The controls of one stage for `control.apply`: an array of shape (n_u,), or of linear
        ones the line between those at its start and its end.

        Args:
            controls: of all stages, shape `control_shape`.
            stage: which.
        """
        if not self.control.linear:
            return jnp.asarray(controls[stage])
        ts = self.ts.astype(self.dtype)
        return PiecewiseLinear(ts[stage : stage + 2], controls[stage : stage + 2])


def checked_guess(plan: OptimalControl, guess: Any) -> tuple[np.ndarray, State | None]:
    """Controls and states of a guess, on the host.

    Raises:
        ValueError: if they do not fit to the plan.
    """
    if not isinstance(guess, tuple | list) or len(guess) != 2:
        raise ValueError("guess must be a pair of controls and states; the states may be None.")
    controls, states = guess
    controls = real_array(controls, "guess: the controls", plan.control_shape)
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


def _check_linear(plan: OptimalControl) -> None:
    """Options that only linear controls have."""
    first = plan.initial_control
    given = {"initial_control": first is not None, "cost_at_end": bool(plan.cost_at_end)}
    for name, is_given in given.items():
        if is_given and not plan.control.linear:
            raise ValueError(f"{name} is of controls with interpolation='linear'; these are held.")
    if first is not None:
        first = real_array(first, "initial_control", (plan.control.size,))
        require(first, "initial_control", np.isfinite, "finite")
        object.__setattr__(plan, "initial_control", np.asarray(first, plan.dtype))


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
