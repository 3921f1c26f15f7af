"""One step of Gauss-Newton shooting: the least squares of a chain of stages, solved by recursion.

Stages follow one another as delta_x[k+1] = A delta_x[k] + B v + D delta_theta + d, with the
residuals C delta_x + E v + F delta_theta + r of each; theta is what all of them share. From the
last stage to the first, the v of a stage is eliminated by a QR decomposition, as in a square-root
information filter (Bierman, Factorization Methods for Discrete Sequential Estimation (1977),
chapter V), so that nothing is squared. The work grows with the number of stages, not with its
cube (Giftthaler et al., A family of iterative Gauss-Newton shooting methods for nonlinear optimal
control, IROS 2018).

The matrices are small, and made between two evaluations of many simulations; so this is NumPy on
the host, which compiles nothing. Leading axes are those of a batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

# This power of the round-off is left of a column which the others determine, at most, beside its
# length: derivatives of a motion through impacts have some digits less than numbers have. What is
# known at all is known by more: a start by 1e-8 of the most after ten impacts.
LOST = 0.75


class Stages(NamedTuple):
    """The linearised stages of chains; leading axes (..., N).

    Attributes:
        residual: r, shape (..., N, m).
        residual_by_input: E, shape (..., N, m, n_v).
        residual_by_state: C, shape (..., N, m, n_x).
        residual_by_parameter: F, shape (..., N, m, n_p).
        defect: d, by which the end of a stage is ahead of the next node, shape (..., N, n_x).
        next_by_input: B, shape (..., N, n_x, n_v).
        next_by_state: A, shape (..., N, n_x, n_x).
        next_by_parameter: D, shape (..., N, n_x, n_p).
    """

    residual: Float[np.ndarray, "*batch N m"]
    residual_by_input: Float[np.ndarray, "*batch N m n_v"]
    residual_by_state: Float[np.ndarray, "*batch N m n_x"]
    residual_by_parameter: Float[np.ndarray, "*batch N m n_p"]
    defect: Float[np.ndarray, "*batch N n_x"]
    next_by_input: Float[np.ndarray, "*batch N n_x n_v"]
    next_by_state: Float[np.ndarray, "*batch N n_x n_x"]
    next_by_parameter: Float[np.ndarray, "*batch N n_x n_p"]


class Remainder(NamedTuple):
    """Least squares |X delta_x + P delta_theta + c|^2 of what follows a node.

    Attributes:
        by_state: X, shape (..., n_x + n_p, n_x).
        by_parameter: P, shape (..., n_x + n_p, n_p).
        constant: c, shape (..., n_x + n_p).
    """

    by_state: Float[np.ndarray, "*batch rows n_x"]
    by_parameter: Float[np.ndarray, "*batch rows n_p"]
    constant: Float[np.ndarray, "*batch rows"]


class Feedback(NamedTuple):
    """The inputs of a stage: v = offset + by_state delta_x + by_parameter delta_theta."""

    offset: Float[np.ndarray, "*batch n_v"]
    by_state: Float[np.ndarray, "*batch n_v n_x"]
    by_parameter: Float[np.ndarray, "*batch n_v n_p"]


def eliminate(
    stages: Stages,
    terminal: Remainder | None,
    damping: Float[np.ndarray, "*batch"],
    input_damping: Float[np.ndarray, "*batch n_v"],
) -> tuple[list[Remainder], list[Feedback]]:
    """What is left at each node, and how the inputs follow from what comes before them.

    Args:
        stages: of the chains.
        terminal: least squares of the last node; none by default.
        damping: lambda of Levenberg and Marquardt: each coordinate of a node is held by lambda
            times what is left there says of it.
        input_damping: the same of each input.

    Returns:
        The remainders at the N + 1 nodes, and the feedbacks of the N stages.
    """
    n_stages, n_x = stages.defect.shape[-2:]
    n_p = stages.next_by_parameter.shape[-1]
    n_v = stages.next_by_input.shape[-1]
    if terminal is None:
        lead, rows = stages.defect.shape[:-2], n_x + n_p
        dtype = stages.defect.dtype
        terminal = Remainder(
            np.zeros((*lead, rows, n_x), dtype),
            np.zeros((*lead, rows, n_p), dtype),
            np.zeros((*lead, rows), dtype),
        )
    left, feedbacks = [terminal], []
    for k in reversed(range(n_stages)):
        after = left[-1]
        now = _at(stages, k)
        constant = after.constant + apply(after.by_state, now.defect)
        columns = [
            (after.by_state @ now.next_by_input, now.residual_by_input),
            (after.by_state @ now.next_by_state, now.residual_by_state),
            (
                after.by_state @ now.next_by_parameter + after.by_parameter,
                now.residual_by_parameter,
            ),
            (constant[..., None], now.residual[..., None]),
        ]
        rows = np.concatenate([np.concatenate(pair, axis=-2) for pair in columns], axis=-1)
        held, rest = _solved_first(rows, n_v, input_damping)
        rest = _damped(rest, n_x, damping[..., None])
        # The last row is what no unknown can lessen.
        left.append(Remainder(rest[..., :-1, :n_x], rest[..., :-1, n_x:-1], rest[..., :-1, -1]))
        feedbacks.append(Feedback(-held[..., -1], -held[..., :n_x], -held[..., n_x:-1]))
    return left[::-1], feedbacks[::-1]


def _at(stages: Stages, k: int) -> Stages:
    """One stage."""
    vectors = ("residual", "defect")
    return Stages(
        **{
            name: array[..., k, :] if name in vectors else array[..., k, :, :]
            for name, array in stages._asdict().items()
        }
    )


def join(
    chains: Remainder,
    damping: Float[np.ndarray, "*batch"],
    largest: Float[np.ndarray, " n_p"] | float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The step of the parameters that several chains share, and those of their first nodes.

    Args:
        chains: what is left of each; the last leading axis is over the chains.
        damping: of the parameters, without that axis.
        largest: how far each parameter may go.

    Returns:
        The step of the parameters, shape (..., n_p); those of the first nodes, shape (...,
        n_chains, n_x); and the upper triangular root of the information of the parameters, shape
        (..., n_p, n_p), without damping.
    """
    n_x = chains.by_state.shape[-1]
    rows = np.concatenate(
        [chains.by_state, chains.by_parameter, chains.constant[..., None]], axis=-1
    )
    held, rest = _solved_first(rows, n_x, np.zeros(n_x, rows.dtype))
    step, root = least_squares(rest.reshape(*rest.shape[:-3], -1, rest.shape[-1]), damping)
    # One by one: a parameter of which little is known would hold up all others.
    step = np.clip(step, -largest, largest)
    first = -held[..., -1] - apply(held[..., :-1], step[..., None, :])
    return step, first, root


def least_squares(
    rows: Float[np.ndarray, "*batch rows n+1"], damping: Float[np.ndarray, "*batch"]
) -> tuple[np.ndarray, np.ndarray]:
    """The minimiser of |M step + c|^2 + damping |diag(M) step|^2 for rows (M, c).

    Returns:
        The step, shape (..., n), and the upper triangular root of M^T M.
    """
    n = rows.shape[-1] - 1
    rows = _triangular(rows)
    damped = _determined(_damped(rows, n, damping[..., None]), n)
    step = -_solve(damped[..., :n, :n], damped[..., :n, n:])[..., 0]
    return step, rows[..., :n, :n]


def forward(
    feedbacks: list[Feedback], stages: Stages, first: np.ndarray, parameters: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The inputs, shape (..., N, n_v), and the steps of all nodes, shape (..., N + 1, n_x), from
    those of the first node and the parameters."""
    states, inputs = [first], []
    for k, back in enumerate(feedbacks):
        now, state = _at(stages, k), states[-1]
        chosen = back.offset + apply(back.by_state, state) + apply(back.by_parameter, parameters)
        after = now.defect + apply(now.next_by_state, state) + apply(now.next_by_input, chosen)
        states.append(after + apply(now.next_by_parameter, parameters))
        inputs.append(chosen)
    return np.stack(inputs, axis=-2), np.stack(states, axis=-2)


def multipliers(
    left: list[Remainder], states: np.ndarray, parameters: np.ndarray
) -> Float[np.ndarray, "*batch N n_x"]:
    """Half the gradient of what is left at each node but the first, by the node: the multipliers
    of the continuity of the chain."""
    found = []
    for k, after in enumerate(left[1:]):
        rest = apply(after.by_state, states[..., k + 1, :])
        rest = rest + apply(after.by_parameter, parameters) + after.constant
        found.append(apply(np.swapaxes(after.by_state, -1, -2), rest))
    return np.stack(found, axis=-2)


def apply(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """The product of matrices and vectors."""
    return (matrix @ vector[..., None])[..., 0]


def _solved_first(rows: np.ndarray, n: int, damping: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first n unknowns of least squares, solved for the others, first = -held (others, 1),
    and the triangular rows without them."""
    rows = _determined(_damped(_triangular(rows), n, damping), n)
    return _solve(rows[..., :n, :n], rows[..., :n, n:]), rows[..., n:, n:]


def _triangular(rows: np.ndarray) -> np.ndarray:
    """Upper triangular rows with the same squares; as many as there are columns."""
    n = rows.shape[-1]
    missing = max(n - rows.shape[-2], 0)
    if missing:
        none = np.zeros((*rows.shape[:-2], missing, n), rows.dtype)
        rows = np.concatenate([rows, none], axis=-2)
    return np.asarray(np.linalg.qr(rows, mode="r"))


def _damped(rows: np.ndarray, n: int, damping: np.ndarray) -> np.ndarray:
    """Triangular rows with those of the damping of the first n unknowns."""
    if n == 0 or not np.any(damping):
        return rows
    scale = np.sqrt(damping) * np.linalg.norm(rows[..., :n], axis=-2)
    more = np.zeros((*rows.shape[:-2], n, rows.shape[-1]), rows.dtype)
    more[..., range(n), range(n)] = scale
    return _triangular(np.concatenate([rows, more], axis=-2))


def _determined(rows: np.ndarray, n: int) -> np.ndarray:
    """Triangular rows in which each of the first n unknowns of which nothing is known, or no more
    than what those before it say, is held where it is.

    Such a column has nothing on the diagonal; what its row says of later unknowns must not be lost
    with it, so that the rows are made triangular again, with one that says that it is zero.
    """
    eps = np.finfo(rows.dtype).eps
    while n:
        length = np.linalg.norm(rows[..., :n], axis=-2)
        longest = length.max(axis=-1, keepdims=True)
        # Derivatives that are zero but for round-off are of this size.
        blind = length <= eps**0.625 * longest
        left = np.abs(np.diagonal(rows, axis1=-2, axis2=-1)[..., :n])
        unknown = blind | (left <= eps**LOST * length)
        if not unknown.any():
            break
        # Only the first of each: with its row, the next ones may well be known.
        first = unknown & (np.cumsum(unknown, axis=-1) == 1)
        held = np.zeros((*rows.shape[:-2], n, rows.shape[-1]), rows.dtype)
        held[..., range(n), range(n)] = first * np.where(
            blind, np.where(longest > 0, longest, 1.0), length
        )
        rows = _triangular(np.concatenate([rows, held], axis=-2))
    return rows


def _solve(upper: np.ndarray, right: np.ndarray) -> np.ndarray:
    """upper^-1 right, of triangular matrices; NaN where there is a zero on the diagonal, as of a
    start whose derivatives are NaN, which must not end the others."""
    if upper.shape[-1] == 0:
        return right
    upper = np.where((upper == 0) & np.eye(upper.shape[-1], dtype=bool), np.nan, upper)
    # Of triangular matrices a decomposition with pivots is the matrix itself.
    return np.asarray(np.linalg.solve(upper, right))
