"""The loop of damped Gauss-Newton steps, many starts at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

# The damping at first, the factors by which it falls and rises, and where it ends a start.
DAMPING = 1e-3
EASIER, HARDER = 0.2, 5.0
LARGEST, LEAST = 1e8, 1e-12
# Above this the damping decides how long a step is.
FREE = 1.0


class Minimised(NamedTuple):
    """Where each start ended; leading axis over the starts.

    Attributes:
        point: the unknowns.
        evaluated: what was found there.
        merit: what was lessened.
        iterations: evaluations that this start took part in, the first not counted.
        converged: whether no step lessens the merit by more than the tolerance any more.
        history: merit after each iteration, shape (n_iterations + 1, n_starts).
    """

    point: Any
    evaluated: Any
    merit: np.ndarray
    iterations: np.ndarray
    converged: np.ndarray
    history: np.ndarray


def minimise(
    point: Any,
    evaluate: Callable[[Any], Any],
    improve: Callable[[Any, Any, np.ndarray], tuple[Any, Any]],
    merit: Callable[[Any, np.ndarray], np.ndarray],
    *,
    max_iterations: int,
    tolerance: float,
    evaluated: Any = None,
    report: Callable[[int, np.ndarray], object] | None = None,
) -> Minimised:
    """Steps from every start until none gains anything.

    A step that does not lessen the merit, or leads to where it is infinite, is refused, and the
    next is held closer. Starts that are done are not evaluated any more.

    Args:
        point: the unknowns, a tree of NumPy arrays with leading axis over the starts.
        evaluate: residuals and derivatives of such a tree, in a tree with the same leading axis.
        improve: the next point, given a point, what was evaluated there and the damping; and the
            price per start of what constraints are missed by.
        merit: of what was evaluated, at a price, shape (n_starts,); infinite where the point is
            impossible. The price is the highest so far, with half as much more.
        max_iterations: of each start.
        tolerance: relative decrease of the merit below which a start is done.
        evaluated: at the point, if that is known.
        report: called after each iteration with its number and the merits.
    """
    here = as_numpy(evaluate(point)) if evaluated is None else evaluated
    n_starts = len(jax.tree.leaves(point)[0])
    price = np.zeros(n_starts)
    value = np.asarray(merit(here, price))
    damping = np.full(n_starts, DAMPING)
    iterations = np.zeros(n_starts, int)
    converged = np.zeros(n_starts, bool)
    active = np.isfinite(value)
    history = [value]
    for number in range(max_iterations):
        if not active.any():
            break
        chosen = np.flatnonzero(active)
        trial, asked = as_numpy(improve(point, here, damping))
        price = np.where(active, np.maximum(price, 1.5 * asked), price)
        value = np.array(merit(here, price))
        tried = as_numpy(evaluate(take(trial, chosen)))
        found = np.asarray(merit(tried, price[chosen]))
        better = found < value[chosen]
        change = np.abs(
            np.where(np.isfinite(found), found, np.finfo(found.dtype).max) - value[chosen]
        )
        # A step that is short because it is held says nothing.
        converged[chosen] = (change <= tolerance * value[chosen]) & (damping[chosen] <= FREE)
        iterations[chosen] += 1
        accepted = chosen[better]
        point = put(point, accepted, take(trial, accepted))
        here = put(here, accepted, take(tried, np.flatnonzero(better)))
        value[accepted] = found[better]
        damping[accepted] = np.maximum(damping[accepted] * EASIER, LEAST)
        damping[chosen[~better]] *= HARDER
        active &= ~converged & (damping < LARGEST)
        history.append(value.copy())
        if report is not None:
            report(number + 1, value)
    return Minimised(point, here, value, iterations, converged, np.stack(history))


def as_numpy(tree: Any) -> Any:
    """The tree with its arrays on the host, where starts can be picked out without compiling."""
    return jax.tree.map(np.asarray, tree)


def take(tree: Any, chosen: np.ndarray) -> Any:
    """Some starts of all."""
    return jax.tree.map(lambda leaf: leaf[chosen], tree)


def put(tree: Any, chosen: np.ndarray, new: Any) -> Any:
    """The tree with some starts replaced."""

    def replaced(leaf, part):
        leaf = leaf.copy()
        leaf[chosen] = part
        return leaf

    return jax.tree.map(replaced, tree, new)
