"""Derivatives of one motion by all its numbers, against differences, in both modes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...bodies import State
from ...simulate import RESULTS, AbstractMethod, SaveAt, simulate
from ...simulate.saving import Impacts
from .columns import Block, Motion, blocks, changed
from .differences import Slope, points, slopes

# Values are what counts here: without optimisation programs compile in half of the time.
QUICK = {
    "xla_disable_hlo_passes": "fusion",
    "xla_backend_optimization_level": 0,
    "xla_cpu_parallel_codegen_split_count": 1,
}
QUANTITIES = ("place", "attitude", "velocity", "spin")
# Lanes in a batch of differences, and impacts that are compared.
_LANES, _RECORDED = 64, 16
# Two impacts of different lanes that are further apart are not the same one [m], [s].
_NEAR = 0.03
# Beside a column's largest derivative, what is smaller by this counts as zero.
_SMALL = 1e-3
# Errors relative to the differences and between the modes.
BAR, MODES_BAR = 1e-6, 1e-12


class Entry(NamedTuple):
    """The derivative of the final state by one number; errors relative to it.

    Attributes:
        parameter, label: by what.
        quantity: of what the error is largest.
        derivative: the largest component.
        error: of forward mode against differences.
        doubt: what differences say of their own error, where `error` is.
        modes: forward against reverse mode, relative to the largest derivative of the motion.
        verdict: "right"; "kink" where the slopes ahead and behind differ by about the error, so
            that there is no derivative; "undecided" where differences are no better than that;
            or "wrong".
    """

    parameter: str
    label: str
    quantity: str
    derivative: float
    error: float
    doubt: float
    modes: float
    verdict: str


class Report(NamedTuple):
    """What was found of one motion.

    Attributes:
        entries: one for each number.
        events: how many impacts there were.
        trouble: why there is nothing else; empty if there is.
    """

    entries: list[Entry]
    events: int
    trouble: str = ""


class Checker:
    """Differentiates the final states of motions of one structure, which are compiled once."""

    def __init__(self, motion: Motion, method: AbstractMethod, chosen: Collection[str] | None):
        """Declares what is differentiated.

        Args:
            motion: gives the structure, in double precision.
            method: its step size is that of the motion, if it has one.
            chosen: names of parameters; None for all.
        """
        self._parts = blocks(motion, chosen, method.dt is not None)
        scales = [np.full(len(block.labels), block.scale) for block in self._parts]
        self._scales = np.concatenate(scales)
        final = _final(motion, method, self._parts)

        def local(motion: Motion, end: State, step: Array) -> Array:
            return end.local(final(motion, step)[0]).reshape(-1)

        compiled = partial(jax.jit, compiler_options=QUICK)
        self._finals = compiled(jax.vmap(final, (None, 0)))
        self._forward = compiled(jax.jacfwd(local, argnums=2))
        self._reverse = compiled(jax.jacrev(local, argnums=2))

    def __call__(self, motion: Motion) -> Report:
        """What is found of one motion."""
        batch = points(self._scales)
        steps = np.concatenate([np.zeros_like(batch[:1]), batch])
        ends, codes, impacts = self._all_finals(motion, steps)
        end, code = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), (ends, codes))
        if code != RESULTS.successful:
            return Report([], int(impacts.count[0]), RESULTS[code].split(":")[0])
        values = np.asarray(jax.vmap(end.local)(ends)).reshape(len(steps), -1)
        usable = np.asarray(codes == RESULTS.successful) & _alike(impacts)
        here = jnp.asarray(steps[0])
        forward = np.asarray(self._forward(motion, end, here))
        reverse = np.asarray(self._reverse(motion, end, here))
        # Round-off on the way grows as changes of the start do.
        growth = max(1.0, float(np.max(np.abs(forward))))
        round_off = 4 * growth * float(np.finfo(float).eps)
        found = slopes(values[1:], usable[1:], self._scales, round_off)
        modes = np.max(np.abs(forward - reverse), axis=0) / growth
        names = [(block.parameter, label) for block in self._parts for label in block.labels]
        entries = [
            _entry(*name, found.column(k), forward[:, k], float(modes[k]))
            for k, name in enumerate(names)
        ]
        return Report(entries, int(impacts.count[0]))

    def _all_finals(self, motion: Motion, steps: np.ndarray):
        """In parts: shapes whose moments are quadratures take much memory in each lane."""
        missing = -len(steps) % _LANES
        padded = np.concatenate([steps, np.zeros((missing, steps.shape[1]))])
        parts = [
            self._finals(motion, jnp.asarray(padded[k : k + _LANES]))
            for k in range(0, len(padded), _LANES)
        ]
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[: len(steps)], *parts)


def _alike(impacts: Impacts) -> np.ndarray:
    """Which lanes have the sequence of impacts of the first one, at much the same places and times.

    Differences from one sequence to another are those of neither. Where another corner hits, the
    place jumps.
    """
    count, pair, place = (np.asarray(a) for a in (impacts.count, impacts.pair, impacts.position))
    time = np.nan_to_num(np.asarray(impacts.time), posinf=0.0)
    apart = np.linalg.norm(place - place[0], axis=-1) + np.abs(time - time[0])
    same = (count == count[0]) & np.all(pair == pair[0], axis=(1, 2))
    return same & np.all(apart < _NEAR, axis=-1)


def _final(motion: Motion, method: AbstractMethod, parts: list[Block]) -> Callable:
    """The final state, its result code and the number of impacts, of a motion and changes of it."""
    capacity, save = None, SaveAt(final=True, impacts=_RECORDED)
    if method.dt is not None:
        capacity = math.ceil(float(motion.t1) / float(motion.dt)) + 2

    def final(motion: Motion, step: Array):
        now, how = changed(motion, parts, step), method
        if method.dt is not None:
            how = eqx.tree_at(lambda m: m.dt, method, now.dt)
        sol = simulate(
            now.world, now.state, how, now.t1, save=save, throw=False, max_steps=capacity
        )
        return sol.final, sol.result, sol.impacts

    return final


def _entry(parameter: str, label: str, found: Slope, forward, modes: float) -> Entry:
    """By quantities, each relative to itself, as their units differ."""
    worst = _worst(forward, found.value, found.error)
    verdict = _verdict(worst, modes)
    if verdict in ("wrong", "undecided") and modes <= MODES_BAR:
        _, bend, doubt = _worst(forward, forward + found.bend, found.bend_error)
        if bend > max(BAR, 2 * doubt, 0.1 * worst[1]):
            verdict = "kink"
    largest = float(forward[np.argmax(np.abs(forward))])
    return Entry(parameter, label, worst[0], largest, worst[1], worst[2], modes, verdict)


def _worst(forward, slope, doubt) -> tuple[str, float, float]:
    """The quantity with the largest error, this error, and the doubt there."""
    whole = max(1.0, float(np.linalg.norm(forward)))
    rows = np.arange(len(forward)) % 12 // 3
    worst = ("", 0.0, 0.0)
    for k, quantity in enumerate(QUANTITIES):
        own = rows == k
        size = float(np.linalg.norm(forward[own])) + _SMALL * whole
        error = float(np.linalg.norm(forward[own] - slope[own])) / size
        unsure = float(np.linalg.norm(doubt[own])) / size
        # A comparison with a NaN is never true: what is no number stays the worst.
        if not error <= worst[1]:
            worst = (quantity, error, unsure)
    return worst


def _verdict(worst: tuple[str, float, float], modes: float) -> str:
    _, error, doubt = worst
    if not modes <= MODES_BAR:
        return "wrong"
    if error <= BAR:
        return "right"
    # The estimate is not a bound; wrong derivatives are off by more than its multiples.
    return "wrong" if np.isfinite(error) and error > 10 * doubt else "undecided"
