"""First states and parameters for which a motion ends where it should."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._validate import finite_number, positive_count
from ..bodies import State
from ..simulate import RESULTS as WORLD_RESULTS, StopAfter, StopWhen, World
from ..simulate.method import AbstractMethod
from ..simulate.progress import progress_bar
from ..simulate.time_grid import rounded_up
from . import gauss_newton
from .describe import describe_shots
from .levenberg_marquardt import minimise, take
from .parameters import Parameters
from .results import RESULTS, code_of, items
from .segments import parted
from .shots import (
    N_SCAN,
    NOT_STOPPED,
    Aim,
    Given,
    Landed,
    Limits,
    Shot,
    scan,
    shoot_all,
    unknowns,
)

# Of each part of a state, its coordinates in the chart of `State.retract`.
PARTS = {"position": 0, "attitude": 3, "velocity": 6, "angular_velocity": 9}
# Standard deviations of the starts that are drawn, in m, rad, m/s, rad/s; of the logarithm of the
# duration; and of the coordinates of parameters.
SPREAD = {
    "position": 0.1,
    "attitude": 0.3,
    "velocity": 1.0,
    "angular_velocity": 3.0,
    "t1": 0.1,
    "parameters": 0.3,
}
# A round after the first begins with so many of the best, each moved by some part of the spread
# between these powers of ten.
BEST = 16
NEAR, FAR = -4.0, -0.75
# So many of the starts of such a round are drawn anew instead, as those of the first were.
ANEW = 0.5
# A free end may come so many times later than it was given.
LATEST = 2.0


@dataclasses.dataclass(frozen=True)
class Shots:
    """Where shooting ended; the best start, or with a leading axis all of them.

    Attributes:
        state: at t0.
        world: with the parameters that were found.
        time: when the residual was taken [s]: t1, or when the event came.
        end: the state there.
        residual: there, shape (m,).
        cost: the sum of its squares; infinite where the simulation failed or it is not finite.
        impacts: how many there are until t1.
        iterations: that it took, in its last round.
        rounds: after how many rounds it was found; one for all starts themselves.
        result: `optimize.RESULTS`.
        world_result: the code of the simulation.
        all: the same of all starts; None in itself.
    """

    state: State
    world: World
    time: Float[np.ndarray, "*starts"]
    end: State
    residual: Float[np.ndarray, "*starts m"]
    cost: Float[np.ndarray, "*starts"]
    impacts: np.ndarray
    iterations: np.ndarray
    rounds: int
    result: RESULTS
    world_result: WORLD_RESULTS
    all: Shots | None

    def __repr__(self) -> str:
        return describe_shots(self)


def shoot(
    world: World,
    state: State,
    method: AbstractMethod,
    t1: float,
    t0: float = 0.0,
    *,
    residual: Callable[[State], Float[Array, " m"]],
    free: Sequence[str] | np.ndarray = ("velocity", "angular_velocity"),
    parameters: Parameters | None = None,
    stop: StopAfter | StopWhen | None = None,
    impacts: Sequence[int] | None = None,
    starts: int | State = 128,
    key: Array | None = None,
    spread: Mapping[str, float] | None = None,
    tolerance: float = 1e-8,
    max_iterations: int = 40,
    rounds: int = 30,
    args: Any = None,
    progress: bool | Callable = False,
) -> Shots:
    """Finds first states, parameters and an end for which a residual of the end is zero.

    Many starts are improved at once by Levenberg and Marquardt's method, with exact derivatives
    through every impact. Each keeps to the order of impacts it begins with, more or less, and where
    there are several the valleys are narrow: few of many succeed. While none does, the best of them
    are moved a little, by a thousandth or by a tenth, and improved again, as in basin hopping
    (Wales and Doye, J. Phys. Chem. A 101 (1997)), beside as many that are drawn anew.

    Args:
        world: with the parameters at first.
        state: about which starts are drawn.
        method: how to simulate.
        t1: end [s], known.
        t0: start [s].
        residual: of the last state; written in JAX. If it is an `equinox.Module`, such as
            `eqx.Partial(pose_error, position=p)`, other numbers in it compile nothing anew.
        free: which parts of the first state are free, of "position", "attitude", "velocity" and
            "angular_velocity" of all bodies, and "t1", by a factor of up to 2; or a mask of the
            coordinates of `State.retract`, shape (n_bodies, 12).
        parameters: of the world that are free as well.
        stop: take the residual at an event before t1: `StopAfter(impacts=3)`, just after the third
            impact, or `StopWhen(function)`, where it first changes its sign. The time of the event
            is part of the derivatives.
        impacts: how many there may be until t1, as (2, 3); any number by default. A step that
            leads to another number is refused.
        starts: how many, the given state first; or states with a leading axis.
        key: of the starts that are drawn.
        spread: standard deviations of these, in place of some of "position" 0.1 m, "attitude" 0.3,
            "velocity" 1 m/s, "angular_velocity" 3 rad/s, "t1" 0.1 of its logarithm, "parameters"
            0.3 of their coordinates.
        tolerance: the largest norm of a residual that counts as zero.
        max_iterations: of each start in a round.
        rounds: the most of them; one with a single start.
        args: as in `simulate`.
        progress: show a bar of the iterations, as in `simulate`.

    Returns:
        The start with the least residual, and all of them.

    Raises:
        ValueError: if the arguments do not fit together, naming the argument.
    """
    t0, t1 = finite_number(t0, "t0"), finite_number(t1, "t1")
    if t1 <= t0:
        raise ValueError(f"t1 must lie after t0; got t0 = {t0}, t1 = {t1}.")
    if not isinstance(state, State):
        raise ValueError(f"state must be a State; got {type(state).__name__}.")
    positive_count(rounds, "rounds")
    limits = Limits.of(tolerance, max_iterations, impacts, stop)
    condition = stop if isinstance(stop, StopWhen) else None
    given, static = parted((residual, condition, args))
    shared = Given(world, np.asarray(t0, state.position.dtype), *given)
    aim = _aim(world, method, t1 - t0, free, parameters, stop, static)
    shots = _starts(state, t1, starts, key, spread, aim)
    with progress_bar(progress, max_iterations * rounds, "iteration") as bar:

        def once(shots):
            return _round(shared, shots, aim, t1, limits, bar)

        first = best = once(shots)
        deviations = _deviations(aim, spread)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)) if key is not None else 0)
        number = 1
        while number < rounds and len(shots.step) > 1 and not _solved(best.cost, tolerance).any():
            number += 1
            best = _best_of(best, once(_moved(best, shots, deviations, rng)))
    everything = _shots(shared, aim, first, limits)
    chosen = _shots(shared, aim, best, limits)
    order = np.lexsort((_finite(best.cost), ~_solved(best.cost, tolerance)))
    return dataclasses.replace(_one(chosen, int(order[0])), rounds=number, all=everything)


class Round(NamedTuple):
    """What came of many lanes; leading axis over them.

    Attributes:
        shots: from which the steps are counted.
        step: of the unknowns.
        landed: there.
        code: of the simulation, or `NOT_STOPPED`.
        cost: as of `Limits.costs`.
        iterations: that it took.
    """

    shots: Shot
    step: np.ndarray
    landed: Landed
    code: np.ndarray
    cost: np.ndarray
    iterations: np.ndarray


def _round(shared: Given, shots: Shot, aim: Aim, t1: float, limits: Limits, bar):
    """All lanes, improved as far as they can be."""
    came = np.ones(len(shots.step), bool)
    if shared.condition is not None:
        shots = _till_end(shots, np.asarray(shots.step), t1)
        times, came = scan(shared, shots, aim)
        shots = shots._replace(t1=times)
    found = _improved(shared, shots, aim, limits, bar)
    code = found.evaluated.code
    if shared.condition is not None:
        # It has to be the first crossing, and one that was found.
        earliest, again = scan(shared, _till_end(shots, found.point, t1), aim)
        apart = np.abs(earliest - found.evaluated.time)
        is_first = came & again & (apart <= 2 * (t1 - float(shared.t0)) / N_SCAN)
        code = np.where(is_first | (code > 0), code, NOT_STOPPED)
    cost = limits.costs(found.evaluated, code)
    return Round(shots, found.point, found.evaluated, code, cost, found.iterations)


def _moved(best: Round, shots: Shot, deviations: np.ndarray, rng) -> Shot:
    """As many lanes as there were, some about the best ones, the others anew."""
    few = np.argsort(best.cost, kind="stable")[:BEST]
    n = len(shots.step)
    parents = few[rng.integers(0, len(few), n)]
    parts = 10 ** rng.uniform(NEAR, FAR, (n, 1))
    normal = rng.normal(size=(n, len(deviations)))
    near = jax.tree.map(lambda leaf: np.asarray(leaf)[parents], best.shots)
    near = near._replace(step=best.step[parents] + parts * deviations * normal)
    far = shots._replace(step=deviations * normal)
    # The best may all lie in valleys that lead nowhere.
    anew = rng.random(n) < ANEW
    lanes = jax.tree.map(lambda one, other: _either(anew, one, other), far, near)
    return lanes._replace(step=lanes.step.astype(best.step.dtype))


def _either(chosen: np.ndarray, one: Any, other: Any) -> np.ndarray:
    """Of each lane the one where it is chosen, and else the other."""
    return np.where(chosen.reshape(-1, *[1] * (np.ndim(one) - 1)), one, other)


def _best_of(old: Round, new: Round) -> Round:
    """The best of two rounds, as many as in one, of lanes that ended at one place only one."""
    both = jax.tree.map(lambda *leaves: np.concatenate(leaves), old, new)
    order = np.argsort(both.cost, kind="stable")
    _, unlike = np.unique(np.round(_finite(both.cost[order]), 12), return_index=True)
    rest = np.setdiff1d(np.arange(len(order)), unlike)
    return take(both, order[np.concatenate([unlike, rest])[: len(old.cost)]])


def _solved(cost: np.ndarray, tolerance: float) -> np.ndarray:
    return np.sqrt(cost) <= tolerance


def _finite(cost: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(cost), cost, np.sqrt(np.finfo(cost.dtype).max))


def _aim(world: World, method: AbstractMethod, duration: float, free, parameters, stop, static):
    """What is static in the program, from the arguments of `shoot`."""
    coordinates, free_time = _free(free, len(world.bodies))
    if world.joints and coordinates:
        raise ValueError(
            "shoot: states of bodies in joints cannot be moved freely: free=() with parameters."
        )
    crosses = isinstance(stop, StopWhen)
    if crosses and free_time:
        raise ValueError('shoot: with StopWhen the end is that of the event: leave out "t1".')
    # The time of a crossing is an unknown as well, and the crossing an equation.
    free_time |= crosses
    return Aim(
        method.chosen(world),
        parameters,
        coordinates,
        free_time,
        None if crosses else stop,
        _capacity(method, duration, LATEST if free_time else 1.0),
        static,
    )


def _free(free, n_bodies: int) -> tuple[tuple[int, ...], bool]:
    if isinstance(free, str):
        raise ValueError(f"shoot: free must be a sequence of names; put brackets around {free!r}.")
    if isinstance(free, np.ndarray | jax.Array):
        mask = np.asarray(free)
        if mask.shape != (n_bodies, 12) or mask.dtype != bool:
            raise ValueError(
                f"shoot: free must be a mask of shape ({n_bodies}, 12); got {mask.dtype} of shape "
                f"{mask.shape}."
            )
        return tuple(np.flatnonzero(mask).tolist()), False
    unknown = [name for name in free if name not in {*PARTS, "t1"}]
    if unknown:
        raise ValueError(f"shoot: free must name some of {[*PARTS, 't1']}; got {unknown}.")
    chosen = [
        12 * body + PARTS[name] + axis
        for body in range(n_bodies)
        for name in PARTS
        if name in free
        for axis in range(3)
    ]
    return tuple(chosen), "t1" in free


def _capacity(method: AbstractMethod, duration: float, longer: float) -> int:
    if method.dt is None:
        return 1
    return rounded_up(int(np.ceil(duration * longer / float(method.dt) - 1e-6)) + 1)


def _starts(state: State, t1: float, starts, key, spread, aim: Aim) -> Shot:
    dtype = state.position.dtype
    n_parameters = 0 if aim.free is None else aim.free.size
    n = len(aim.coordinates) + n_parameters + aim.free_time
    if n == 0:
        raise ValueError("shoot: nothing is free.")
    deviations = _deviations(aim, spread)
    if isinstance(starts, State):
        if starts.position.ndim != 3 or starts.position.shape[1:] != state.position.shape:
            raise ValueError(
                "shoot: starts must be a number or a State with a leading axis, of as many bodies."
            )
        n_starts = starts.position.shape[0]
        states = jax.tree.map(np.asarray, starts)
        steps = np.zeros((n_starts, n), dtype)
    else:
        n_starts = positive_count(starts, "starts")
        drawn = jax.random.normal(jax.random.key(0) if key is None else key, (n_starts, n), dtype)
        steps = np.asarray(drawn) * deviations.astype(dtype)
        steps[0] = 0.0
        states = jax.tree.map(
            lambda leaf: np.broadcast_to(np.asarray(leaf), (n_starts, *leaf.shape)), state
        )
    return Shot(states, np.full(n_starts, t1, dtype), steps)


def _deviations(aim: Aim, spread: Mapping[str, float] | None) -> np.ndarray:
    """Standard deviations of the unknowns of starts that are drawn."""
    scale = {**SPREAD, **(spread or {})}
    if set(scale) != set(SPREAD):
        raise ValueError(f"shoot: spread must name some of {[*SPREAD]}; got {[*(spread or {})]}.")
    names = {first: name for name, first in PARTS.items()}
    sds = [scale[names[index % 12 // 3 * 3]] for index in aim.coordinates]
    sds += [scale["parameters"]] * (0 if aim.free is None else aim.free.size)
    return np.asarray(sds + [scale["t1"]] * aim.free_time)


def _improved(shared: Given, shots: Shot, aim: Aim, limits: Limits, bar):
    n = shots.step.shape[1]
    largest = np.full(n, np.inf)
    if aim.free is not None:
        first = len(aim.coordinates)
        largest[first : first + aim.free.size] = aim.free.largest_steps
    if aim.free_time:
        largest[-1] = 0.2

    def evaluate(point):
        chosen, steps = point
        lanes = jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], shots)
        return shoot_all(shared, lanes._replace(step=steps), aim)

    def improve(point, landed, damping):
        chosen, steps = point
        rows = np.concatenate([landed.residual_by, landed.residual[..., None]], axis=-1)
        # Rows of a failed simulation are not looked at.
        rows = np.where(np.isfinite(rows).all((1, 2), keepdims=True), rows, 0.0)
        move, _ = gauss_newton.least_squares(rows, damping)
        part = 1 / np.maximum((np.abs(move) / largest).max(axis=1), 1.0)
        return (chosen, steps + move * part[:, None]), np.zeros(len(steps))

    def merit(landed, price):
        del price
        cost = limits.costs(landed, landed.code)
        cost = np.where(landed.steep() & ~_solved(cost, limits.tolerance), np.inf, cost)
        # What is zero to round-off is not improved further.
        return np.where(cost <= (1e-3 * limits.tolerance) ** 2, 0.0, cost)

    def report(number, merit):
        del number, merit
        if bar is not None:
            bar.update(1)

    found = minimise(
        (np.arange(len(shots.step)), shots.step),
        evaluate,
        improve,
        merit,
        max_iterations=limits.max_iterations,
        tolerance=1e-6,
        report=report,
    )
    return found._replace(point=found.point[1])


def _till_end(shots: Shot, steps: np.ndarray, t1: float) -> Shot:
    """Lanes moved by steps, till t1, whatever the steps say of their ends."""
    steps = steps.copy()
    steps[:, -1] = 0.0
    return shots._replace(t1=np.full_like(shots.t1, t1), step=steps)


def _shots(shared: Given, aim: Aim, found: Round, limits: Limits) -> Shots:
    """All lanes of a round."""
    landed, code = found.landed, found.code
    codes = np.full(code.shape, code_of(RESULTS.successful), np.int32)
    unsolved = ~_solved(found.cost, limits.tolerance)
    conditions = (
        (unsolved, RESULTS.stalled),
        (unsolved & (found.iterations >= limits.max_iterations), RESULTS.max_iterations_reached),
        (unsolved & landed.steep(), RESULTS.derivative_not_finite),
        (~np.isfinite(found.cost), RESULTS.residual_not_finite),
        (~limits.allow(landed), RESULTS.other_impacts),
        (code == NOT_STOPPED, RESULTS.event_missed),
        (code > 0, RESULTS.simulation_failed),
    )
    for holds, which in conditions:  # the last that holds stays
        codes = np.where(holds, code_of(which), codes)
    worlds = jax.vmap(lambda shot, step: unknowns(shared, shot, step, aim)[0])
    return Shots(
        state=landed.start,
        world=worlds(found.shots, jnp.asarray(found.step)),
        time=np.asarray(landed.time),
        end=landed.end,
        residual=np.asarray(landed.residual),
        cost=found.cost,
        impacts=np.asarray(landed.impacts),
        iterations=found.iterations,
        rounds=1,
        result=items(RESULTS, codes),
        world_result=items(WORLD_RESULTS, np.maximum(code, 0)),
        all=None,
    )


def _one(shots: Shots, which: int) -> Shots:
    """One of many."""
    names = {field.name for field in dataclasses.fields(shots)} - {"rounds", "all"}
    parts = {name: getattr(shots, name) for name in names}
    return dataclasses.replace(shots, **jax.tree.map(lambda leaf: leaf[which], parts))
