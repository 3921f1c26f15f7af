"""The Gauss-Newton step of all controls, with an end that is prescribed.

The conditions at the end enter the recursion as heavy rows, and their multipliers as shifts of
these, found by solving again (the method of multipliers, on a problem that is quadratic: Nocedal
and Wright, Numerical Optimization (2006), section 17.3). Two or three turns meet them to round-off,
where they can be met.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from . import gauss_newton
from .gauss_newton import Feedback, Remainder, apply
from .optimal_control import OptimalControl
from .stages import Linearised

# How heavy conditions at the end are against the cost.
HEAVY = 1e4
# Turns that look for their multipliers, and the part of a condition that ends them.
TURNS, MET = 6, 1e-13
# How much dearer a gap is than the controls that bridge it.
DEAR = 30.0


class Coordinates(NamedTuple):
    """How many coordinates are of what; see `stages`.

    Attributes:
        n_stages: N.
        n_u: of the input of a stage.
        n_x: of the state of a node.
        n_knot: of linear controls at a node, n_u; 0 of held ones.
        free: whether linear controls are chosen at the first node, too.
    """

    n_stages: int
    n_u: int
    n_x: int
    n_knot: int
    free: bool

    @staticmethod
    def of(plan: OptimalControl) -> Coordinates:
        """Those of a plan."""
        n_u, linear = plan.control.size, plan.control.linear
        n_x = 12 * plan.state.position.shape[0]
        free = linear and plan.initial_control is None
        return Coordinates(plan.stages, n_u, n_x, n_u if linear else 0, free)

    @property
    def gains(self) -> tuple[int, int, int]:
        """The shape of the gains of all stages."""
        return self.n_stages, self.n_u, self.n_x + self.n_knot

    def controls(self, inputs: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Of all controls, from those of inputs and nodes."""
        return nodes[:, self.n_x :] if self.n_knot else inputs


class Step(NamedTuple):
    """One step.

    Attributes:
        controls: of all controls, shape `OptimalControl.control_shape`.
        nodes: of the states of the nodes, in their charts, shape (N + 1, n_x).
        offsets: of the controls, where no node deviates.
        feedbacks: of the inputs from the nodes.
        price: above which a constraint is worth its cost: twice the largest multiplier.
        cost_slope: change of the cost along the step, to first order.
        curvature: the part of second order: the sum of the squares of the changes.
        left: what is missed of the conditions at the end after it, to first order, shape (p,).
    """

    controls: Float[np.ndarray, "n n_u"]
    nodes: Float[np.ndarray, "N+1 n_x"]
    offsets: Float[np.ndarray, "n n_u"]
    feedbacks: list[Feedback]
    price: float
    cost_slope: float
    curvature: float
    left: Float[np.ndarray, " p"]

    @property
    def gains(self) -> Float[np.ndarray, "N n_u n_z"]:
        """How inputs follow deviations from the nodes."""
        return np.stack([back.by_state for back in self.feedbacks])


class Penalty(NamedTuple):
    """What it costs to miss something, instead of conditions.

    Attributes:
        gaps: of what a stage misses the next node by, per coordinate, shape (n_x,).
        misses: of the conditions at the end.
        controls: what the cost says of the controls, shape (n_u,).
    """

    gaps: Float[np.ndarray, " n_x"]
    misses: float
    controls: Float[np.ndarray, " n_u"]

    @staticmethod
    def of(flown: Linearised, parts: Coordinates, sizes: Float[np.ndarray, " n_x"]) -> Penalty:
        """Bridging a gap by controls costs far less than to leave it.

        Args:
            flown: where it is to hold.
            parts: how many coordinates are of what.
            sizes: what is far for each coordinate of a state.
        """
        scale = _scale(flown, parts.n_u)
        B = flown.defect_by[..., : parts.n_x, : parts.n_u]
        moved = np.sqrt(np.mean((B / sizes[:, None]) ** 2))
        bridge = scale.max() / moved if moved > 0 else 1.0
        reach = np.abs(flown.terminal_by[-1, :, : parts.n_x] * sizes).max(initial=0.0)
        return Penalty(
            DEAR * bridge / sizes, DEAR * bridge / reach if reach > 0 else DEAR * bridge, scale
        )


def step_of(flown: Linearised, parts: Coordinates) -> Step:
    """The step that closes all gaps and meets all conditions, to first order.

    Args:
        flown: leading axis N over the stages.
        parts: how many coordinates are of what.
    """
    n_u, n_x = parts.n_u, parts.n_x
    G, g = flown.terminal_by[-1], flown.terminal[-1]
    scale, reach = _scale(flown, n_u).max(), np.abs(G @ flown.defect_by[-1, :, :n_u])
    weight = HEAVY * scale / (reach.max(initial=0.0) or 1.0)
    stages = _stages(flown, parts)
    shift, before, turns = np.zeros_like(g), np.inf, 0
    while True:
        left, feedbacks = _eliminated(stages, flown, weight, g + shift, n_u)
        inputs, nodes = _forward(left[0], feedbacks, stages, parts)
        missed = g + G @ nodes[-1]
        shift = shift + missed
        size, turns = np.abs(missed).max(initial=0.0), turns + 1
        met = size <= MET * np.abs(g).max(initial=0.0)
        if met or size > before / 2 or turns == TURNS:
            break
        before = size
    # Linear controls never miss each other, so that this has no price.
    found = gauss_newton.multipliers(left, nodes, np.zeros(0, g.dtype))[:, :n_x]
    price = 2 * max(np.abs(found).max(), np.abs(weight**2 * shift).max(initial=0.0))
    H, h = flown.terminal_cost_by[-1], flown.terminal_cost[-1]
    change = apply(flown.residual_by, np.concatenate([inputs, nodes[:-1]], axis=-1))
    slope = 2 * (np.sum(flown.residual * change) + np.sum(h * (H @ nodes[-1])))
    curvature = np.sum(change**2) + np.sum((H @ nodes[-1]) ** 2)
    offsets = np.stack([back.offset for back in feedbacks])
    if parts.n_knot:
        offsets = np.concatenate([nodes[:1, n_x:], offsets])
    controls, moves = parts.controls(inputs, nodes), nodes[:, :n_x]
    worth = float(price), float(slope), float(curvature)
    return Step(controls, moves, offsets, feedbacks, *worth, missed)


def soft_step(
    flown: Linearised, parts: Coordinates, damping: float, penalty: Penalty
) -> tuple[np.ndarray, np.ndarray]:
    """The step of controls and states, of Levenberg and Marquardt, at a penalty.

    With much damping it is as short as needed, which no step is that must close gaps.
    """
    stages = _stages(flown, parts, penalty, damping)
    width = stages.next_by_input.shape[-1]
    left, feedbacks = _eliminated(stages, flown, penalty.misses, flown.terminal[-1], width)
    inputs, nodes = _forward(left[0], feedbacks, stages, parts)
    return parts.controls(inputs[..., : parts.n_u], nodes), nodes[:, : parts.n_x]


def _eliminated(stages, flown: Linearised, weight: float, missed: np.ndarray, n_v: int):
    """The recursion, with heavy rows for conditions at the end that are missed so far."""
    rows = np.concatenate([weight * flown.terminal_by[-1], flown.terminal_cost_by[-1]])
    constant = np.concatenate([weight * missed, flown.terminal_cost[-1]])
    end = Remainder(rows, np.zeros((len(rows), 0), rows.dtype), constant)
    none = np.zeros((), rows.dtype)
    return gauss_newton.eliminate(stages, end, none, np.zeros(n_v, rows.dtype))


def _forward(left: Remainder, feedbacks, stages: gauss_newton.Stages, parts: Coordinates):
    """Inputs and nodes from the first node, where at most controls are free, and something is
    left to be lessened by them."""
    first = np.zeros(stages.defect.shape[-1], stages.defect.dtype)
    if parts.free:
        rows = np.concatenate([left.by_state[:, parts.n_x :], left.constant[:, None]], axis=-1)
        first[parts.n_x :], _ = gauss_newton.least_squares(rows, np.zeros((), rows.dtype))
    return gauss_newton.forward(feedbacks, stages, first, first[:0])


def _scale(flown: Linearised, n_u: int) -> Float[np.ndarray, " n_u"]:
    """What the cost says of each control, by itself and by the next state, as a root mean square
    over the stages."""
    by_u, by_x = flown.residual_by[..., :n_u], flown.residual_by[..., n_u:]
    B = flown.defect_by[..., :n_u]
    parts = (by_u, by_x[1:] @ B[:-1], (flown.terminal_cost_by[-1] @ B[-1])[None])
    scale = np.sqrt(sum(np.sum(part**2, axis=(0, 1)) for part in parts) / len(by_u))
    most = scale.max()
    return np.where(scale > 0, scale, 1e-3 * most if most > 0 else 1.0)


def _stages(
    flown: Linearised, parts: Coordinates, penalty: Penalty | None = None, damping: float = 0.0
) -> gauss_newton.Stages:
    """The stages for the recursion. With a penalty the gaps that are left are inputs as well, in
    units of what they cost, and rows of the damping hold inputs and nodes."""
    n_u, n_x = parts.n_u, parts.n_x
    residual, by_u, by_x = flown.residual, *np.split(flown.residual_by, [n_u], axis=-1)
    B, A = np.split(flown.defect_by, [n_u], axis=-1)
    n, n_z, _ = A.shape
    if penalty is not None:
        gap = np.zeros((n, n_z, n_x), B.dtype)
        gap[:, range(n_x), range(n_x)] = 1 / penalty.gaps
        B = np.concatenate([B, gap], axis=-1)
        of_node = (penalty.gaps / DEAR, penalty.controls[: parts.n_knot])
        held = np.sqrt(damping) * np.concatenate([penalty.controls, *of_node])
        size = n_u + n_x
        rows = np.zeros((size + n_z, size + n_z), residual.dtype)
        # The columns are the input, the gaps and the node.
        rows[range(n_u), range(n_u)] = held[:n_u]
        rows[range(n_u, size), range(n_u, size)] = 1.0
        rows[range(size, size + n_z), range(size, size + n_z)] = held[n_u:]
        rows = np.broadcast_to(rows, (n, *rows.shape))
        m = residual.shape[-1]
        by_u = np.concatenate([by_u, np.zeros((n, m, n_x), by_u.dtype)], axis=-1)
        by_u = np.concatenate([by_u, rows[..., :size]], axis=-2)
        by_x = np.concatenate([by_x, rows[..., size:]], axis=-2)
        residual = np.concatenate([residual, np.zeros((n, size + n_z), by_u.dtype)], axis=-1)
    none = np.zeros((n, residual.shape[-1], 0), residual.dtype)
    return gauss_newton.Stages(
        residual, by_u, by_x, none, flown.defect, B, A, none[:, :1].repeat(n_z, axis=1)
    )
