"""Where trials of controls, and of the states between stages, lead."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..bodies import State
from ..simulate import RESULTS as WORLD_RESULTS, World
from .control_solution import ControlSolution
from .control_step import Coordinates, Penalty, Step, soft_step, step_of
from .free_directions import onto_joints
from .levenberg_marquardt import as_numpy, put
from .optimal_control import OptimalControl
from .results import items
from .stages import Linearised, Policy, Programs

# Where no part gains enough, damped steps are tried, each eight together.
DAMPINGS = 10.0 ** np.arange(-2, 14).reshape(2, 8)
# Parts of a step that are tried, the second lot together where the whole gains too little.
LENGTHS = np.ones(1), 0.5 ** np.arange(1, 8)
# The part of the slope that a trial must gain.
ARMIJO = 1e-4
# Stages that miss each other by less, in units of the round-off, meet; conditions likewise.
MEETING = 5e4
# Conditions at the end that are missed by more than this are not met.
VIOLATION = 1e-9


class Found(NamedTuple):
    """Trials, or where an iteration stands; leading axis over the trials.

    Attributes:
        controls, nodes: of trials.
        flown: what was found there; None if it is not known yet.
        cost: infinite where a simulation failed.
        gaps, misses: sums of the sizes of all defects, and of the conditions at the end.
    """

    controls: np.ndarray
    nodes: State
    flown: Linearised | None
    cost: np.ndarray
    gaps: np.ndarray
    misses: np.ndarray

    @property
    def known(self) -> Linearised:
        """What was found, where it is known."""
        assert self.flown is not None
        return self.flown

    def merit(self, price: float) -> np.ndarray:
        """The cost and what the constraints are missed by: exact, above the right price."""
        with np.errstate(invalid="ignore"):
            total = self.cost + price * (self.gaps + self.misses)
        return np.where(np.isfinite(total), total, np.inf)


class Search:
    """Where trials of a plan lead."""

    def __init__(self, plan: OptimalControl, programs: Programs, free_nodes: bool):
        self.plan, self.programs, self.free_nodes = plan, programs, free_nodes
        self.coordinates = Coordinates.of(plan)
        self.sizes = _sizes(plan)

    def begin(self, guess: tuple | None) -> Found:
        """Where a guess stands."""
        plan = self.plan
        zero = np.zeros(plan.control_shape, plan.dtype)
        controls, nodes = (zero, None) if guess is None else guess
        if plan.initial_control is not None:
            controls = np.concatenate([plan.initial_control[None], controls[1:]])
        if nodes is not None and self.free_nodes:
            first = as_numpy(plan.state)
            nodes = as_numpy(onto_joints(plan.world, nodes))
            nodes = put(nodes, np.array([0]), jax.tree.map(lambda leaf: leaf[None], first))
            return self._known(controls, nodes)
        gains = np.zeros((1, *self.coordinates.gains), controls.dtype)
        still = jax.tree.map(
            lambda leaf: np.broadcast_to(leaf, (plan.stages + 1, *leaf.shape)),
            as_numpy(plan.state),
        )
        found = self._rolled_out(Policy(controls[None], gains), still, controls)
        return self._picked(found, 0)

    def improved(self, here: Found, step: Step, price: float) -> Found | None:
        """The best of the trials that gain enough, None if none does."""
        value, slope = float(here.merit(price)), slope_of(here, step, price)
        round_off = 10 * float(np.finfo(here.controls.dtype).eps) * value
        # All parts of a step cost a rollout hardly more than one.
        for lengths in LENGTHS if self.free_nodes else (np.concatenate(LENGTHS),):
            trials = self._parts(here, step, lengths)
            wanted = value + ARMIJO * lengths * slope + round_off
            found = self._best(trials, trials.merit(price), wanted)
            if found is not None:
                return found
        return self._bridged(here) if self.free_nodes else None

    def _parts(self, here: Found, step: Step, lengths: np.ndarray) -> Found:
        if self.free_nodes:
            return self._moved(
                here, [(part * step.controls, part * step.nodes) for part in lengths]
            )
        controls = here.controls + lengths[:, None, None] * step.offsets
        gains = np.broadcast_to(step.gains, (len(lengths), *step.gains.shape))
        dtype = self.plan.dtype
        policies = Policy(controls.astype(dtype), gains.astype(dtype))
        return self._rolled_out(policies, here.nodes, here.controls)

    def _bridged(self, here: Found) -> Found | None:
        """The best of damped steps with penalties in place of conditions."""
        penalty = Penalty.of(here.known, self.coordinates, self.sizes)
        value = _penalised(here, penalty)
        for dampings in DAMPINGS:
            steps = [
                soft_step(here.known, self.coordinates, damping, penalty) for damping in dampings
            ]
            trials = self._moved(here, steps)
            found = self._best(trials, _penalised(trials, penalty), (1 - ARMIJO) * value)
            if found is not None:
                return found
        return None

    def _best(self, trials: Found, merits: np.ndarray, wanted: Any) -> Found | None:
        enough = np.flatnonzero(merits <= wanted)
        return self._picked(trials, int(enough[np.argmin(merits[enough])])) if enough.size else None

    def _moved(self, here: Found, steps: list[tuple[np.ndarray, np.ndarray]]) -> Found:
        # The algebra may be in a higher precision.
        controls = np.stack([here.controls + step for step, _ in steps]).astype(self.plan.dtype)
        moves = np.stack([move for _, move in steps]).astype(self.plan.dtype)
        steps_of_bodies = moves.reshape(*moves.shape[:2], -1, 12)
        nodes = moved_nodes(self.plan.world, here.nodes, steps_of_bodies)
        return _found(controls, nodes, self.programs.linearise(controls, nodes))

    def _rolled_out(self, policies: Policy, nodes: State, knots: np.ndarray) -> Found:
        """Rollouts, which miss nothing on the way."""
        found = self.programs.rollouts(self.plan.state, policies, nodes, knots)
        return Found(
            found.controls,
            found.nodes,
            None,
            np.where(found.code == 0, found.cost, np.inf),
            np.zeros_like(found.cost),
            np.sum(np.abs(found.terminal), axis=-1),
        )

    def _picked(self, trials: Found, which: int) -> Found:
        """One of several, with its derivatives."""
        if trials.flown is None:
            controls, nodes = (
                trials.controls[which],
                jax.tree.map(lambda leaf: leaf[which], trials.nodes),
            )
            return self._known(controls, nodes)
        return Found(*jax.tree.map(lambda leaf: leaf[which], tuple(trials)))

    def _known(self, controls: np.ndarray, nodes: State) -> Found:
        return _found(controls, nodes, self.programs.linearise(controls, nodes))

    def feasible(self, here: Found) -> bool:
        """Whether the stages meet, and the conditions at the end are met."""
        flown = here.known
        wide = max(VIOLATION, MEETING * float(np.finfo(here.controls.dtype).eps))
        missed = max(np.abs(flown.terminal[-1]).max(initial=0.0), np.abs(flown.defect).max())
        return bool(missed <= wide)

    def solution(self, here: Found, result, history: list[float]) -> ControlSolution:
        """What is returned."""
        flown = here.known
        known = bool(np.isfinite(here.cost))
        failed = flown.code[flown.code != 0]
        return ControlSolution(
            here.controls,
            here.nodes,
            step_of(flown, self.coordinates).gains.astype(self.plan.dtype) if known else None,
            float(here.cost),
            float(np.abs(flown.terminal[-1]).max(initial=0.0)),
            float(np.abs(flown.defect).max()),
            len(history) - 1,
            result,
            items(WORLD_RESULTS, int(failed[0]) if failed.size else 0),
            np.asarray(history),
            self.plan.starting_from(here.controls, here.nodes),
        )


def _sizes(plan: OptimalControl) -> Float[np.ndarray, " n_x"]:
    """What is far for the coordinates of a node: a radian; for a position, the radius of gyration;
    for velocities, these in one stage."""
    duration = (plan.t1 - plan.t0) / plan.stages
    sizes = []
    for body in plan.world.bodies:
        tensor = np.asarray(body.inertia_matrix(), np.float64)
        radius = float(np.sqrt(np.trace(tensor) / 3 / np.asarray(body.mass)))
        sizes.append(np.repeat([radius, 1.0, radius / duration, 1.0 / duration], 3))
    return np.concatenate(sizes).astype(plan.dtype)


def moved_nodes(world: World, nodes: State, moves: Float[np.ndarray, "n N n_bodies 12"]) -> State:
    """Several sets of nodes, from one by several steps in their charts; joints hold in them."""
    moved = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), _moved(nodes, moves))
    held = as_numpy(onto_joints(world, moved))
    return jax.tree.map(lambda leaf: leaf.reshape(*moves.shape[:2], *leaf.shape[1:]), held)


@jax.jit
def _moved(nodes: State, moves: Float[np.ndarray, "n N n_bodies 12"]) -> State:
    return jax.vmap(lambda own: jax.vmap(State.retract)(nodes, own))(moves)


def _found(controls: np.ndarray, nodes: State, flown: Linearised) -> Found:
    """What linearised stages say; leading axes before that of the stages, or none."""
    squares = np.sum(flown.residual**2, axis=(-1, -2))
    squares = squares + np.sum(flown.terminal_cost[..., -1, :] ** 2, axis=-1)
    # Where impacts pile up a derivative may overflow, and a norm has none at zero: no step can be
    # made from there.
    steep = steep_parts(flown).any(axis=0)
    failed = (flown.code != 0).any(axis=-1) | steep
    return Found(
        controls,
        nodes,
        flown,
        np.where(failed | ~np.isfinite(squares), np.inf, squares),
        np.sum(np.abs(flown.defect), axis=(-1, -2)),
        np.sum(np.abs(flown.terminal[..., -1, :]), axis=-1),
    )


def steep_parts(flown: Linearised) -> np.ndarray:
    """Which derivatives are not finite: that of the motion, of the cost, of the condition at the
    end and of the cost there; that leads, before the axes before that of the stages."""
    parts = (
        flown.defect_by,
        flown.residual_by,
        flown.terminal_by[..., -1:, :, :],
        flown.terminal_cost_by[..., -1:, :, :],
    )
    return np.stack([~np.isfinite(part).all((-1, -2, -3)) for part in parts])


def closing(here: Found, step: Step) -> float:
    """What a step closes of all that is missed, to first order."""
    return float(here.gaps + here.misses) - float(np.sum(np.abs(step.left)))


def slope_of(here: Found, step: Step, price: float) -> float:
    """Of the merit along a step."""
    return step.cost_slope - price * closing(here, step)


def _penalised(found: Found, penalty: Penalty) -> np.ndarray:
    """The cost with penalties for what is missed."""
    flown = found.known
    missed = flown.defect[..., : penalty.gaps.size]
    gaps = np.sum((penalty.gaps * missed) ** 2, axis=(-1, -2))
    misses = np.sum((penalty.misses * flown.terminal[..., -1, :]) ** 2, axis=-1)
    return found.cost + gaps + misses
