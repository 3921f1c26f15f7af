"""Parameters of a world from measured motions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._validate import positive_count, positive_number
from ..bodies import State
from ..simulate import RESULTS as WORLD_RESULTS, World
from ..simulate.method import AbstractMethod
from ..simulate.progress import progress_bar
from . import estimates, multiple_shooting as shooting
from .chains import Chains, cut
from .data import AbstractData
from .describe import describe_fit
from .estimates import Estimate
from .free_directions import onto_joints
from .jointed_nodes import count_free, held
from .levenberg_marquardt import Minimised, as_numpy, put, take
from .multiple_shooting import Point, Problem
from .parameters import Parameters
from .results import RESULTS, code_of, items
from .segments import Settings, capacity, parted
from .unmeasured import PoseArrays, completed

# Chi-square above what noise exceeds with this probability is a poor fit.
POOR = 1e-3
# Nodes may penetrate by at least so many standard deviations of a position.
PENETRATION = 10.0
# Segments that miss each other by more standard deviations than this do not meet; or by more than
# so many round-offs, in single precision.
MEETING, ROUND_OFFS = 1e-4, 3e5
# A start that ends with a poor fit, or none, is tried again from so far away along each parameter.
AGAIN = 0.5
# At most so many such trials together.
MOST_TRIALS = 400


class Starts(eqx.Module):
    """Where each start of a fit ended; leading axis over the starts.

    Attributes:
        initial: the steps from the given world at which it started, shape (n_starts, n_p).
        parameters: the steps at which it ended.
        chi_square: sum of squares of what is measured less simulated, over the noise; infinite
            where a simulation failed.
        iterations: that it took.
        result: `optimize.RESULTS`, one per start.
        worlds: at the ends, every number with a leading axis.
    """

    initial: Float[np.ndarray, "L n_p"]
    parameters: Float[np.ndarray, "L n_p"]
    chi_square: Float[np.ndarray, " L"]
    iterations: np.ndarray
    result: RESULTS
    worlds: World


@dataclasses.dataclass(frozen=True)
class Fit:
    """A fit: the best of all starts, and what the data say of it. `print(fit)` is a table.

    Attributes:
        world: with the estimated parameters.
        states: of each throw, when it begins.
        estimates: of each free array by its path: value and bounds of the 95 % interval, infinite
            where the data do not tell.
        covariance: of a step of all parameters from `world`, in the coordinates of their charts,
            shape (n_p, n_p); infinite where the data do not tell.
        unidentifiable: combinations of parameters that the data do not tell: names of coordinates
            with their parts of a unit vector.
        chi_square: sum of squares of measured less simulated, over the noise.
        dof: degrees of freedom: how many numbers were measured, less those that were fitted.
        runs: how probable so few or so many changes of sign of the residuals are in noise; NaN
            where a simulation failed.
        residuals: of each throw, measured less simulated over the noise, shape (T, n); NaN where
            nothing was measured.
        impacts: how many there are in all throws.
        result: `optimize.RESULTS`.
        world_result: the code of the simulation that failed, or successful.
        starts: where each start ended.
        history: chi-square, with what gaps cost, after each iteration of the last phase, shape
            (n, n_starts).
        free: the parameters.
    """

    world: World
    states: tuple[State, ...]
    estimates: dict[str, Estimate]
    covariance: Float[np.ndarray, "n_p n_p"]
    unidentifiable: tuple[dict[str, float], ...]
    chi_square: float
    dof: int
    runs: float
    residuals: tuple[np.ndarray, ...]
    impacts: int
    result: RESULTS
    world_result: WORLD_RESULTS
    starts: Starts
    history: np.ndarray
    free: Parameters

    def __repr__(self) -> str:
        return describe_fit(self)


def fit(
    world: World,
    data: AbstractData | Sequence[AbstractData],
    free: Parameters,
    method: AbstractMethod,
    segments: int | Literal["auto"] = "auto",
    starts: int | Float[Array, "n_starts n_p"] = 1,
    key: Array | None = None,
    *,
    states: State | Sequence[State] | None = None,
    args: Any = None,
    spread: float = 0.3,
    max_iterations: int = 100,
    progress: bool | Callable = False,
) -> Fit:
    """Fits parameters of a world, and the first states, to measured motions.

    The motions are cut at nodes in free flight, whose states are unknowns as well (multiple
    shooting); at the end they meet, so that the result is one simulation of each throw. Nothing
    need be known of the first states, and the parameters only roughly.

    Of bodies in joints nodes move as these let them: poses are led onto joints as noise makes it
    most probable, and nodes go with joints that parameters move, such as an anchor. Degrees of
    freedom and intervals count what joints leave free.

    A start that ends with a poor fit, or does not end at one, is tried again from parameters half
    an e-fold away, one by one: of what has no influence for a while, such as friction where every
    impact sticks, the derivative is zero and says nothing.

    Args:
        world: with the parameters at first.
        data: `Poses` or `Points` of one throw or of several, all of one kind.
        free: what to fit.
        method: with a step size. Measured states may penetrate obstacles by some of the noise.
        segments: of each throw; "auto" cuts twice between impacts that can be seen in the data,
            where there is room.
        starts: how many, the given world first and others about it; or steps of the parameters
            from the given world, one row per start.
        key: of the starts that are drawn.
        states: of each throw at its first time, as nearly as is known: where bodies were of which
            fewer than two positions, or attitudes, were measured, simulated from there; it is
            led onto joints. Without it, there must be measurements to start from.
        args: as in `simulate`.
        spread: standard deviation of the coordinates of the starts that are drawn.
        max_iterations: of each start in each of three phases.
        progress: show a bar of the iterations, as in `simulate`.

    Returns:
        The fit with the least chi-square.

    Raises:
        ValueError: if the arguments do not fit together, naming the argument.
    """
    throws = (data,) if isinstance(data, AbstractData) else tuple(data)
    _check(world, throws, free, method, segments)
    positive_count(max_iterations, "max_iterations")
    initial = _starts(free, starts, key, spread)
    method = _with_penetration(method, throws)
    dt = float(method.dt)  # type: ignore[arg-type]
    poses = _poses(world, throws, states, method, args, free.dtype)
    chains, nodes = cut(world, throws, poses, dt, segments, free.dtype)
    longest = float(np.max(chains.t1 - chains.t0))
    given, static = parted(args)
    settings = Settings(method, free, capacity(int(np.ceil(longest / dt - 1e-6)) + 1), static)
    problem, nodes = _problem(world, given, chains, settings, nodes)
    with progress_bar(progress, 3 * max_iterations, "iteration") as bar:
        found = _solved(problem, initial, nodes, max_iterations, bar)
    return _fitted(problem, throws, initial, found, max_iterations)


def _problem(world: World, args, chains: Chains, settings: Settings, nodes: State):
    """What is fitted, and nodes, in which joints hold."""
    problem, free = Problem(world, args, chains, settings), settings.free
    if world.joints:
        own = world, free, np.zeros((1, free.size), free.dtype)
        nodes = jax.tree.map(lambda leaf: np.asarray(leaf)[None], nodes)
        nodes = held(*own, nodes, chains.noise)
        problem = problem._replace(n_free=count_free(world, free, nodes, chains.noise))
        nodes = jax.tree.map(lambda leaf: leaf[0], nodes)
    if _dof(problem) < 0:
        raise ValueError(
            f"fit: {int(chains.measured.sum())} numbers were measured, fewer than are unknown: "
            f"{free.size} of parameters, {problem.unknowns} of the first state of each throw."
        )
    return problem, nodes


def _check(world, throws, free, method, segments) -> None:
    if not throws or not all(isinstance(one, AbstractData) for one in throws):
        raise ValueError("fit: data must be Poses or Points, or a sequence of them.")
    if (
        len({type(one) for one in throws}) > 1
        or len({one.measured().shape[1] for one in throws}) > 1
    ):
        raise ValueError("fit: all throws must be measured in the same way: one kind of data.")
    for one in throws:
        one.check_bodies(len(world.bodies))
    if free.size == 0:
        raise ValueError("fit: no parameter is free.")
    free.values(world)  # of this world
    if method.dt is None:
        raise ValueError("fit: the method must have a dt; EventDriven(ExactFlight(), dt) has one.")
    if segments != "auto":
        positive_count(segments, "segments")


def _with_penetration(method: AbstractMethod, throws) -> AbstractMethod:
    """The method with room for measured states that penetrate by some of the noise."""
    noise = max(one.noise[0] for one in throws)
    # Of two to a power of ten, as it is part of the program, which need not be another for data
    # that are a little noisier.
    depth = max(method.penetration, 10.0 ** float(np.ceil(2 * np.log10(PENETRATION * noise)) / 2))
    return dataclasses.replace(method, penetration=depth)


def _poses(world: World, throws, states, method, args, dtype) -> list[PoseArrays]:
    """Those of each throw, completed from its state."""
    given = [None] * len(throws) if states is None else _guesses(world, throws, states, dtype)
    return [
        completed(world, data, state, method, args)
        for data, state in zip(throws, given, strict=True)
    ]


def _guesses(world: World, throws, states, dtype) -> list[State]:
    given = [states] if isinstance(states, State) else list(states)
    if len(given) != len(throws) or not all(isinstance(state, State) for state in given):
        raise ValueError(
            f"fit: states must be a State of each throw; there are {len(throws)} throws."
        )
    shape = (len(world.bodies), 3)
    for state in given:
        if state.position.shape != shape:
            raise ValueError(
                f"fit: states must be of {shape[0]} bodies, without leading axes; got positions "
                f"of shape {state.position.shape}."
            )
    given = [jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), state) for state in given]
    if not world.joints:
        return given
    # In what is known only nearly, joints hardly ever hold.
    each = (jax.tree.map(lambda leaf: leaf[None], state) for state in given)
    return [jax.tree.map(lambda leaf: leaf[0], onto_joints(world, state)) for state in each]


def _starts(free: Parameters, starts, key, spread: float) -> np.ndarray:
    if not isinstance(starts, int | np.integer):
        steps = np.asarray(starts, free.dtype)
        if steps.ndim != 2 or steps.shape[1] != free.size or not len(steps):
            raise ValueError(
                f"fit: starts must be a number or steps of shape (n_starts, {free.size}); got "
                f"shape {steps.shape}."
            )
        return steps
    n = positive_count(starts, "starts")
    positive_number(spread, "spread")
    key = jax.random.key(0) if key is None else key
    drawn = spread * jax.random.normal(key, (n, free.size), free.dtype)
    return np.asarray(drawn.at[0].set(0.0))


def _solved(problem: Problem, initial, nodes: State, max_iterations, bar) -> Minimised:
    """From all starts, those with a poor fit, or none, from others again."""

    def report(number, merit):
        del number, merit
        if bar is not None:
            bar.update(1)

    def solve(parameters):
        each = jax.tree.map(
            lambda leaf: np.broadcast_to(leaf, (len(parameters), *leaf.shape)).copy(), nodes
        )
        eps = float(np.finfo(parameters.dtype).eps)
        return shooting.solve(
            problem,
            Point(parameters, each),
            max_iterations=max_iterations,
            tolerance=eps**0.625,
            report=report,
        )

    def ranked(found):
        """Of what is no single simulation chi-square says nothing."""
        values = _chi_squares(problem, found)
        return np.where(_unfinished(problem, found), np.inf, values)

    found = solve(initial)
    n_p = initial.shape[1]
    values = ranked(found)
    poor = np.flatnonzero(values > _bound(_dof(problem)))
    poor = poor[: max(MOST_TRIALS // (2 * n_p), 1)]
    if not poor.size:
        return found
    away = AGAIN * np.concatenate([np.eye(n_p), -np.eye(n_p)])[:MOST_TRIALS]
    trials = (initial[poor, None] + away.astype(initial.dtype)).reshape(-1, n_p)
    again = solve(trials)
    others = ranked(again).reshape(poor.size, -1)
    best = np.argmin(others, axis=1)
    better = others[np.arange(poor.size), best] < values[poor]
    chosen = (np.arange(poor.size) * len(away) + best)[better]
    parts = ("point", "evaluated", "merit", "converged")
    new = {
        name: put(getattr(found, name), poor[better], take(getattr(again, name), chosen))
        for name in parts
    }
    iterations = found.iterations.copy()
    iterations[poor] += again.iterations.reshape(poor.size, -1).max(axis=1)
    return found._replace(**new, iterations=iterations)


def _chi_squares(problem: Problem, found: Minimised) -> np.ndarray:
    squares = shooting.squares(found.evaluated, problem.chains)
    return np.where(np.isfinite(found.merit), squares, np.inf)


def _unfinished(problem: Problem, found: Minimised) -> np.ndarray:
    """Which starts have not ended at a minimum, with segments that meet."""
    off = np.abs(shooting.gaps(found.evaluated, problem.chains)).max((1, 2, 3))
    eps = float(np.finfo(found.point.parameters.dtype).eps)
    return ~found.converged | (off > max(MEETING, ROUND_OFFS * eps))


def _dof(problem: Problem) -> int:
    chains, n_p = problem.chains, problem.settings.free.size
    return int(chains.measured.sum()) - n_p - problem.unknowns * len(chains.noise)


def _bound(dof: int) -> float:
    from scipy.stats import chi2  # noqa: PLC0415 (slow to import)

    return float(chi2.isf(POOR, max(dof, 1)))


def _fitted(problem, throws, initial, found: Minimised, max_iterations: int) -> Fit:
    world, chains, free = problem.world, problem.chains, problem.settings.free
    values = _chi_squares(problem, found)
    dof = _dof(problem)
    codes = _codes(problem, found, values, dof, max_iterations)
    # Of what is no single simulation chi-square says nothing.
    whole = np.isin(codes, [code_of(RESULTS.successful), code_of(RESULTS.poor_fit)])
    best = int(np.lexsort((np.where(np.isfinite(values), values, np.finfo(float).max), ~whole))[0])
    point = take(found.point, np.array([best]))
    fitted = free.apply(world, jnp.asarray(point.parameters[0]))
    # In coordinates about the fitted world, which are not always those about the given one.
    point = point._replace(parameters=np.zeros_like(point.parameters))
    problem = problem._replace(world=fitted)
    flown = as_numpy(problem.evaluate(point))
    failed = not np.isfinite(values[best])
    if failed:  # no derivative says anything
        covariance, unknown = np.diag(np.full(free.size, np.inf)), np.zeros((0, free.size))
    else:
        *_, root = shooting.step(problem, point, flown, np.zeros(1), 0.0)
        covariance, unknown = estimates.covariance(np.asarray(root)[0])
    impacts = int(np.where(chains.real, flown.impacts[0], 0).sum())
    if codes[best] == code_of(RESULTS.successful) and len(unknown):
        lost = RESULTS.not_identifiable if impacts else RESULTS.no_impact
        codes[best] = code_of(lost)
    residuals, runs = _residuals(throws, chains, flown)
    runs = float("nan") if failed else runs
    ended = flown.code[0][chains.real]
    return Fit(
        world=fitted,
        states=tuple(
            State(*(jnp.asarray(leaf[0, throw, 0]) for leaf in jax.tree.leaves(point.nodes)))
            for throw in range(len(throws))
        ),
        estimates=estimates.estimates(free, fitted, covariance),
        covariance=covariance,
        unidentifiable=tuple(estimates.named(one, free.coordinate_names) for one in unknown),
        chi_square=float(values[best]),
        dof=dof,
        runs=runs,
        residuals=residuals,
        impacts=impacts,
        result=items(RESULTS, codes[best]),
        world_result=items(WORLD_RESULTS, int(ended[np.argmax(ended != 0)])),
        starts=Starts(
            initial=initial,
            parameters=found.point.parameters,
            chi_square=values,
            iterations=found.iterations,
            result=items(RESULTS, codes),
            worlds=jax.vmap(lambda step: free.apply(world, step))(
                jnp.asarray(found.point.parameters)
            ),
        ),
        history=found.history,
        free=free,
    )


def _codes(problem, found: Minimised, values, dof: int, max_iterations: int) -> np.ndarray:
    """Of each start."""
    codes = np.full(values.shape, code_of(RESULTS.successful), np.int32)
    unfinished = _unfinished(problem, found)
    ended = shooting.failed(found.evaluated, problem.chains).any((1, 2))
    conditions = (
        (values > _bound(dof), RESULTS.poor_fit),
        (unfinished, RESULTS.stalled),
        (unfinished & (found.iterations >= max_iterations), RESULTS.max_iterations_reached),
        (~np.isfinite(values), RESULTS.derivative_not_finite),
        (~np.isfinite(values) & ended, RESULTS.simulation_failed),
    )
    for holds, code in conditions:  # the last that holds stays
        codes = np.where(holds, code_of(code), codes)
    return codes


def _residuals(throws, chains: Chains, flown) -> tuple[tuple[np.ndarray, ...], float]:
    """Of each throw in the order of time, and the least probability of their runs."""
    found, runs = [], 1.0
    for throw, data in enumerate(throws):
        measured = data.measured()
        n_channels = measured.shape[1]
        there = chains.ts.shape[-1]
        rows = flown.residual[0, throw].reshape(-1, there, n_channels)
        seen = chains.measured[throw].reshape(-1, there, n_channels)
        residual = np.full(measured.shape, np.nan)
        # Samples of which anything was measured are in the same order in both.
        residual[measured.any(-1)] = np.where(seen, rows, np.nan)[seen.any(-1)]
        runs = min(runs, estimates.runs_test(residual, measured))
        found.append(residual)
    return tuple(found), runs
