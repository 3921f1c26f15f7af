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
from .stages import Linearised

# How heavy conditions at the end are against the cost.
HEAVY = 1e4
# Turns that look for their multipliers, and the part of a condition that ends them.
TURNS, MET = 6, 1e-13
# How much dearer a gap is than the controls that bridge it.
DEAR = 30.0


class Step(NamedTuple):
    """One step.

    Attributes:
        controls: of the controls, shape (N, n_u).
        nodes: of the nodes, in their charts, shape (N + 1, n_x).
        feedbacks: of the controls from the nodes.
        price: above which a constraint is worth its cost: twice the largest multiplier.
        cost_slope: change of the cost along the step, to first order.
        curvature: the part of second order: the sum of the squares of the changes.
        left: what is missed of the conditions at the end after it, to first order, shape (p,).
    """

    controls: Float[np.ndarray, "N n_u"]
    nodes: Float[np.ndarray, "N+1 n_x"]
    feedbacks: list[Feedback]
    price: float
    cost_slope: float
    curvature: float
    left: Float[np.ndarray, " p"]

    @property
    def gains(self) -> Float[np.ndarray, "N n_u n_x"]:
        """How controls follow deviations from the nodes."""
        return np.stack([back.by_state for back in self.feedbacks])

    @property
    def offsets(self) -> Float[np.ndarray, "N n_u"]:
        """The step of the controls where nothing deviates."""
        return np.stack([back.offset for back in self.feedbacks])


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
    def of(flown: Linearised, n_u: int, sizes: Float[np.ndarray, " n_x"]) -> Penalty:
        """Bridging a gap by controls costs far less than to leave it.

        Args:
            flown: where it is to hold.
            n_u: number of controls of a stage.
            sizes: what is far for each coordinate of a node.
        """
        scale = _scale(flown, n_u)
        B = flown.defect_by[..., :n_u]
        moved = np.sqrt(np.mean((B / sizes[:, None]) ** 2))
        bridge = scale.max() / moved if moved > 0 else 1.0
        reach = np.abs(flown.terminal_by[-1] * sizes).max(initial=0.0)
        return Penalty(
            DEAR * bridge / sizes, DEAR * bridge / reach if reach > 0 else DEAR * bridge, scale
        )


def step_of(flown: Linearised, n_u: int) -> Step:
    """The step that closes all gaps and meets all conditions, to first order.

    Args:
        flown: leading axis N over the stages.
        n_u: number of controls of a stage.
    """
    G, g = flown.terminal_by[-1], flown.terminal[-1]
    scale, reach = _scale(flown, n_u).max(), np.abs(G @ flown.defect_by[-1, :, :n_u])
    weight = HEAVY * scale / (reach.max(initial=0.0) or 1.0)
    stages = _stages(flown, n_u)
    shift, before, turns = np.zeros_like(g), np.inf, 0
    while True:
        left, feedbacks = _eliminated(stages, flown, weight, g + shift, n_u)
        controls, nodes = _forward(feedbacks, stages)
        missed = g + G @ nodes[-1]
        shift = shift + missed
        size, turns = np.abs(missed).max(initial=0.0), turns + 1
        met = size <= MET * np.abs(g).max(initial=0.0)
        if met or size > before / 2 or turns == TURNS:
            break
        before = size
    found = gauss_newton.multipliers(left, nodes, np.zeros(0, g.dtype))
    price = 2 * max(np.abs(found).max(), np.abs(weight**2 * shift).max(initial=0.0))
    H, h = flown.terminal_cost_by[-1], flown.terminal_cost[-1]
    change = apply(flown.residual_by, np.concatenate([controls, nodes[:-1]], axis=-1))
    slope = 2 * (np.sum(flown.residual * change) + np.sum(h * (H @ nodes[-1])))
    curvature = np.sum(change**2) + np.sum((H @ nodes[-1]) ** 2)
    return Step(controls, nodes, feedbacks, float(price), float(slope), float(curvature), missed)


def soft_step(
    flown: Linearised, n_u: int, damping: float, penalty: Penalty
) -> tuple[np.ndarray, np.ndarray]:
    """The step of controls and nodes, of Levenberg and Marquardt, at a penalty.

    With much damping it is as short as needed, which no step is that must close gaps.
    """
    stages = _stages(flown, n_u, penalty, damping)
    *_, n_x, width = stages.next_by_input.shape
    _, feedbacks = _eliminated(stages, flown, penalty.misses, flown.terminal[-1], width)
    inputs, nodes = _forward(feedbacks, stages)
    return inputs[..., : width - n_x], nodes


def _eliminated(stages, flown: Linearised, weight: float, missed: np.ndarray, n_v: int):
    """The recursion, with heavy rows for conditions at the end that are missed so far."""
    rows = np.concatenate([weight * flown.terminal_by[-1], flown.terminal_cost_by[-1]])
    constant = np.concatenate([weight * missed, flown.terminal_cost[-1]])
    end = Remainder(rows, np.zeros((len(rows), 0), rows.dtype), constant)
    none = np.zeros((), rows.dtype)
    return gauss_newton.eliminate(stages, end, none, np.zeros(n_v, rows.dtype))


def _forward(feedbacks, stages: gauss_newton.Stages):
    first = np.zeros(stages.defect.shape[-1], stages.defect.dtype)
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
    flown: Linearised, n_u: int, penalty: Penalty | None = None, damping: float = 0.0
) -> gauss_newton.Stages:
    """The stages for the recursion. With a penalty the gaps that are left are inputs as well, in
    units of what they cost, and rows of the damping hold controls and nodes."""
    residual, by_u, by_x = flown.residual, *np.split(flown.residual_by, [n_u], axis=-1)
    B, A = np.split(flown.defect_by, [n_u], axis=-1)
    n, n_x, _ = A.shape
    if penalty is not None:
        gap = np.broadcast_to(np.diag(1 / penalty.gaps), (n, n_x, n_x))
        B = np.concatenate([B, gap], axis=-1)
        held = np.sqrt(damping) * np.concatenate([penalty.controls, penalty.gaps / DEAR])
        size = n_u + n_x
        rows = np.zeros((size + n_x, n_u + 2 * n_x), residual.dtype)
        # The columns are the controls, the gaps and the node.
        rows[range(n_u), range(n_u)] = held[:n_u]
        rows[range(n_u, size), range(n_u, size)] = 1.0
        rows[range(size, size + n_x), range(size, size + n_x)] = held[n_u:]
        rows = np.broadcast_to(rows, (n, *rows.shape))
        m = residual.shape[-1]
        by_u = np.concatenate([by_u, np.zeros((n, m, n_x), by_u.dtype)], axis=-1)
        by_u = np.concatenate([by_u, rows[..., :size]], axis=-2)
        by_x = np.concatenate([by_x, rows[..., size:]], axis=-2)
        residual = np.concatenate([residual, np.zeros((n, size + n_x), by_u.dtype)], axis=-1)
    none = np.zeros((n, residual.shape[-1], 0), residual.dtype)
    return gauss_newton.Stages(
        residual, by_u, by_x, none, flown.defect, B, A, none[:, :1].repeat(n_x, axis=1)
    )
