"""Multiple shooting: parameters and nodes together, first with gaps between segments, then without.

A motion through impacts depends on its start so steeply that a simulation of all of it fits only
from very near. Cut at nodes whose states are unknowns as well, each segment has hardly more than
one impact. Segments first need to meet only to some multiple of the noise, which leaves room for
wrong parameters; at the end they meet exactly, and it is one simulation that is fitted (Bock,
Recent advances in parameter identification techniques for ODE, 1983).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..bodies import State
from ..simulate import World
from . import gauss_newton, jointed_nodes
from .chains import Chains
from .gauss_newton import Stages
from .levenberg_marquardt import Minimised, as_numpy, minimise
from .segments import Flown, Segment, Settings, fly

# By how many standard deviations segments may miss each other, in turn.
SLACKS = (10.0, 1.0)
# A phase that leaves gaps ends once an iteration gains less than this part of the merit.
ROUGH = 1e-4


class Point(NamedTuple):
    """The unknowns; leading axis over the starts.

    Attributes:
        parameters: steps from the given world, shape (L, n_p).
        nodes: states at the starts of the segments, leading axes (L, J, N).
    """

    parameters: np.ndarray
    nodes: State


class Problem(NamedTuple):
    """What is fitted.

    Attributes:
        world, args: as in `simulate`.
        chains: the measurements.
        settings: of the program.
        n_free: how many coordinates of a node joints leave free; None in a world without joints.
    """

    world: World
    args: Any
    chains: Chains
    settings: Settings
    n_free: int | None = None

    @property
    def unknowns(self) -> int:
        """Of a first state."""
        return self.chains.noise.shape[1] if self.n_free is None else self.n_free

    def held(self, point: Point) -> Point:
        """The point with nodes in which joints hold."""
        if self.n_free is None:
            return point
        free, noise = self.settings.free, self.chains.noise
        return point._replace(nodes=jointed_nodes.held(self.world, free, *point, noise))

    def evaluate(self, point: Point) -> Flown:
        """All segments with their derivatives; leading axes (L, J, N)."""
        lead = point.nodes.position.shape[:3]
        chains, along = self.chains, None
        if self.n_free is not None:
            free, noise = self.settings.free, chains.noise
            along = jointed_nodes.directions(self.world, free, *point, noise, self.n_free)

        def each(leaf):
            return np.broadcast_to(leaf, (lead[0], *leaf.shape))

        def following(leaf):
            return np.concatenate([leaf[:, :, 1:], leaf[:, :, -1:]], axis=2)

        n_p = point.parameters.shape[-1]
        segments = Segment(
            np.broadcast_to(point.parameters[:, None, None], (*lead, n_p)),
            point.nodes,
            jax.tree.map(following, point.nodes),
            *jax.tree.map(each, (chains.t0, chains.t1, chains.ts, chains.rows, chains.compare)),
        )._replace(along=along)
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:]), segments)
        flown = fly(self.world, self.args, flat, self.settings)
        flown = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(*lead, *leaf.shape[1:]), flown)
        return flown if along is None else self._along_joints(flown._replace(along=along))

    def _along_joints(self, flown: Flown) -> Flown:
        """What segments miss each other by, along what joints leave free: the rest is zero to
        second order, and round-off of what holds, or drift."""
        n_p = self.settings.free.size
        basis, inverse = _next_directions(flown, self.chains, n_p)
        missed = np.asarray(flown.defect)
        along = gauss_newton.apply(basis, gauss_newton.apply(inverse, missed))
        return flown._replace(defect=along.astype(missed.dtype))


def solve(problem: Problem, point: Point, *, max_iterations: int, tolerance: float, report=None):
    """The best point from each start, with segments that meet.

    Args:
        problem: what is fitted.
        point: starts.
        max_iterations: of each phase.
        tolerance: relative decrease of chi-square below which a start is done.
        report: as in `minimise`.
    """
    point = problem.held(point)
    here = as_numpy(problem.evaluate(point))
    total = np.zeros(len(point.parameters), int)
    for slack in SLACKS:
        found = minimise_with(problem, point, here, slack, max_iterations, ROUGH, report)
        point, here, total = found.point, found.evaluated, total + found.iterations
    found = minimise_with(problem, point, here, 0.0, max_iterations, tolerance, report)
    return found._replace(iterations=total + found.iterations)


def minimise_with(
    problem: Problem, point: Point, here: Flown, slack: float, max_iterations, tolerance, report
) -> Minimised:
    """One phase: with gaps of so many standard deviations, or, at 0, with none."""
    chains = problem.chains

    def improve(point, flown, damping):
        trial, price, _ = step(problem, point, flown, damping, slack)
        return trial, price

    def merit(flown, price):
        chi_square = squares(flown, chains)
        off = gaps(flown, chains)
        with np.errstate(over="ignore", invalid="ignore"):
            if slack > 0:
                total = chi_square + np.sum((off / slack) ** 2, (1, 2, 3))
            else:
                # Exact: with a price above that of closing a gap, the least is without gaps.
                total = chi_square + price * np.sum(np.abs(off), (1, 2, 3))
        lost = failed(flown, chains) | steep(flown, chains)
        return np.where(np.isfinite(total) & ~lost.any((1, 2)), total, np.inf)

    return minimise(
        point,
        problem.evaluate,
        improve,
        merit,
        evaluated=here,
        max_iterations=max_iterations,
        tolerance=tolerance,
        report=report,
    )


def squares(flown: Flown, chains: Chains) -> np.ndarray:
    """Chi-square of each start."""
    real = chains.real[..., None]
    return np.sum(np.where(real, np.asarray(flown.residual), 0.0) ** 2, (1, 2, 3))


def gaps(flown: Flown, chains: Chains) -> np.ndarray:
    """By how many standard deviations segments miss each other, leading axes (L, J, N)."""
    return np.where(chains.followed[..., None], flown.defect / chains.noise[:, None], 0.0)


def failed(flown: Flown, chains: Chains) -> np.ndarray:
    """Which segments ended early."""
    return (np.asarray(flown.code) != 0) & chains.real


def steep(flown: Flown, chains: Chains) -> np.ndarray:
    """Of which segments a derivative is not finite: no step can be made from there."""
    finite = np.isfinite(flown.residual_by).all((-1, -2))
    followed = np.isfinite(flown.defect_by).all((-1, -2)) | ~chains.followed
    return chains.real & ~(finite & followed)


def step(
    problem: Problem, point: Point, flown: Flown, damping: np.ndarray, slack: float
) -> tuple[Point, Float[np.ndarray, " L"], np.ndarray]:
    """One Gauss-Newton step from each start.

    Args:
        problem, point, flown: where, and what was found there.
        damping: of each start.
        slack: by how many standard deviations segments may miss each other.

    Returns:
        The next point; the largest multiplier of a gap, over its standard deviation; and the
        upper triangular root of the information of the parameters.
    """
    chains, largest = problem.chains, problem.settings.free.largest_steps
    n_p = point.parameters.shape[-1]
    noise, basis = chains.noise, None
    if flown.along is not None:
        # Along free coordinates, which are in standard deviations.
        basis, inverse = _next_directions(flown, chains, n_p)
        noise = np.ones((len(noise), basis.shape[-1]), noise.dtype)
        missed = gauss_newton.apply(inverse, np.asarray(flown.defect))
        flown = flown._replace(defect=missed, defect_by=inverse @ flown.defect_by)
    stages = _stages(flown, chains, n_p, slack * noise)
    lead, n_x = stages.defect.shape[:2], stages.defect.shape[-1]
    each = np.broadcast_to(damping[:, None], lead)
    left, feedbacks = gauss_newton.eliminate(stages, None, each, np.zeros(n_x))
    moved, first, root = gauss_newton.join(left[0], damping, largest)
    shared = np.broadcast_to(moved[:, None], (*lead, n_p))
    _, steps = gauss_newton.forward(feedbacks, stages, first, shared)
    found = gauss_newton.multipliers(left, steps, shared) * noise[:, None]
    moves = steps[:, :, :-1]
    # Free coordinates are in double precision.
    parameters = np.asarray(point.parameters + moved).astype(point.parameters.dtype)
    if basis is not None:
        # In the coordinates in which gaps are measured.
        found = gauss_newton.apply(basis / chains.noise[:, None, :, None], found)
        each = np.broadcast_to(moved[:, None, None], (*moves.shape[:-1], n_p))
        own = np.asarray(flown.along)
        moves = gauss_newton.apply(own, np.concatenate([each, moves], axis=-1))
        moves = moves.astype(point.nodes.position.dtype)
    price = 2 * np.abs(found).max(axis=(1, 2, 3))
    nodes = jointed_nodes.moved(point.nodes, moves)
    return problem.held(Point(parameters, as_numpy(nodes))), np.asarray(price), root


def _next_directions(flown: Flown, chains: Chains, n_p: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the node after each segment: how it moves with its free coordinates, shape (..., n_x,
    n_free), and what makes these of a small step of it."""
    along = flown.along
    assert along is not None
    along = np.concatenate([along[:, :, 1:], along[:, :, -1:]], axis=2)
    return along[..., n_p:], jointed_nodes.to_free(along, chains.noise, n_p)


def _stages(flown: Flown, chains: Chains, n_p: int, scales: np.ndarray) -> Stages:
    """The stages of all chains. Their input is the gap after a segment, in scales of each throw."""

    def where(on, leaf):
        return np.where(on.reshape(1, *on.shape, *[1] * (leaf.ndim - 3)), leaf, 0.0)

    residual, by = where(chains.real, flown.residual), where(chains.real, flown.residual_by)
    defect = where(chains.followed, flown.defect)
    defect_by = where(chains.followed, flown.defect_by)
    *lead, n_x = defect.shape
    m = residual.shape[-1]
    gap = np.broadcast_to(np.eye(n_x, dtype=defect.dtype), (*lead, n_x, n_x))
    scale = scales[:, None, :, None]

    def below(top, rows):
        return np.concatenate([top, rows], axis=3)

    return Stages(
        below(np.zeros_like(defect), residual),
        below(gap, np.zeros((*lead, m, n_x), gap.dtype)),
        below(np.zeros_like(gap), by[..., n_p:]),
        below(np.zeros((*lead, n_x, n_p), gap.dtype), by[..., :n_p]),
        defect,
        where(chains.followed, gap * scale),
        defect_by[..., n_p:],
        defect_by[..., :n_p],
    )
