"""Where the bodies of a solution are at any time, between what was saved."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from ..bodies import State
from ..simulate import RESULTS, Solution, World


def chosen_lanes(
    world: World, sol: Solution | Sequence[Solution], lanes: Sequence[int] | None
) -> list[list[Solution]]:
    """For each lane its solutions, which follow one another, in NumPy."""
    sols = sol if isinstance(sol, Sequence) else [sol]
    if not sols:
        raise ValueError("sol must be a Solution of simulate, or several; got none.")
    each = [_chosen_lanes(world, one, lanes) for one in sols]
    return [list(lane) for lane in zip(*each, strict=True)]


def _chosen_lanes(world: World, sol: Solution, lanes: Sequence[int] | None) -> list[Solution]:
    if not isinstance(sol, Solution):
        raise ValueError(f"sol must be a Solution of simulate; got {type(sol).__name__}.")
    axes = np.ndim(sol.states.position)
    shape = np.shape(sol.states.position)
    if axes not in (3, 4):
        raise ValueError(
            "sol must be one solution or have one batch axis; its states.position has shape "
            f"{shape}."
        )
    if shape[-2] != len(world.bodies):
        raise ValueError(
            f"sol has {shape[-2]} bodies, world has {len(world.bodies)}: give the world that was "
            "simulated."
        )
    if shape[-3] < 2:
        raise ValueError(
            "sol has no states along the way: simulate with save=SaveAt(every=..., impacts=...) "
            "or SaveAt(ts=...), of two times or more."
        )
    whole = jax.tree.map(np.asarray, sol)
    if axes == 3:
        if lanes is not None:
            raise ValueError("lanes must be left out: sol has no batch axis.")
        return [whole]
    if lanes is None or not len(lanes):
        raise ValueError(f"sol has a batch axis of {shape[0]} lanes: choose some, as lanes=[0, 1].")
    if len(set(lanes)) < len(lanes) or any(not 0 <= lane < shape[0] for lane in lanes):
        raise ValueError(
            f"lanes must be different numbers from 0 to {shape[0] - 1}; got {list(lanes)}."
        )
    return [jax.tree.map(lambda leaf, lane=lane: leaf[lane], whole) for lane in lanes]


def _arrays(states: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, quaternions and velocities in double precision."""
    fields = states.position, states.quaternion, states.velocity
    return tuple(np.asarray(field, float) for field in fields)


@dataclass(frozen=True)
class Track:
    """Poses of the bodies of one lane at any time: pieces of curves between states.

    Attributes:
        time: of the states, ascending [s], shape (k,); twice that of an impact.
        position, quaternion, velocity: shape (k, n_bodies, ...).
        smooth: of the pieces between them, whether they are known to meet no impact, shape
            (k - 1,).
        impact_time, impact_position, impact_impulse: of the recorded impacts.
    """

    time: np.ndarray
    position: np.ndarray
    quaternion: np.ndarray
    velocity: np.ndarray
    smooth: np.ndarray
    impact_time: np.ndarray
    impact_position: np.ndarray
    impact_impulse: np.ndarray

    @staticmethod
    def of(sol: Solution) -> Track:
        time, values = np.asarray(sol.ts, float), _arrays(sol.states)
        reached = float(np.nan_to_num(sol.stats.time, nan=np.inf))
        slack = 1e-9 * np.ptp(np.nan_to_num(time, nan=0.0, posinf=0.0))
        sound = [np.all(np.isfinite(value), axis=(1, 2)) for value in values]
        kept = np.all(sound, axis=0) & np.isfinite(time) & (time <= reached + slack)
        if not kept.any():
            raise ValueError(f"sol has no finite state: {RESULTS[sol.result]}")
        time, values = time[kept], [value[kept] for value in values]
        final = [value[None] for value in _arrays(sol.final)]
        failed = not bool(sol.result == RESULTS.successful)
        if failed and time[-1] < reached < np.inf and all(np.isfinite(v).all() for v in final):
            time = np.append(time, reached)
            values = [np.concatenate(pair) for pair in zip(values, final, strict=True)]
        return Track._with_impacts(sol, time, values, slack)

    @staticmethod
    def joined(tracks: Sequence[Track]) -> Track:
        """Those of solutions that follow one another; between two there may be a kick."""
        for k, (before, after) in enumerate(itertools.pairwise(tracks)):
            begin, end = after.time[0], before.time[-1]
            if begin < end - 1e-6 * abs(end):  # but for round-off, of float32 too
                raise ValueError(
                    f"sol must be solutions that follow one another: sol[{k + 1}] begins at "
                    f"{begin:g} s, before sol[{k}] ends at {end:g} s."
                )
        names = [field.name for field in dataclasses.fields(Track)]
        parts = {name: np.concatenate([getattr(t, name) for t in tracks]) for name in names}
        parts["time"] = np.maximum.accumulate(parts["time"])
        parts["smooth"] = np.concatenate([np.append(t.smooth, False) for t in tracks])[:-1]
        return Track(**parts)

    @staticmethod
    def _with_impacts(sol: Solution, time: np.ndarray, values: list, slack: float) -> Track:
        record, count = sol.impacts, int(sol.impacts.count)
        if record.time is None:
            smooth = np.full(len(time) - 1, count == 0)
            return Track(time, *values, smooth, np.zeros(0), np.zeros((0, 3)), np.zeros((0, 3)))
        when = np.asarray(record.time, float)
        kept = (np.arange(len(when)) < count) & (when >= time[0]) & (when <= time[-1] + slack)
        when = when[kept]
        # A state saved at the time of an impact is one of the two recorded there.
        apart = np.all(np.abs(time[:, None] - when) > slack, axis=1)
        if not when.size:
            apart[:] = True
        sides = [
            np.stack([before[kept], after[kept]], axis=1).reshape(-1, *before.shape[1:])
            for before, after in zip(_arrays(record.before), _arrays(record.after), strict=True)
        ]
        time = np.concatenate([time[apart], np.repeat(when, 2)])
        order = np.argsort(time, kind="stable")
        time = time[order]
        values = [
            np.concatenate([value[apart], side])[order]
            for value, side in zip(values, sides, strict=True)
        ]
        # Impacts that found no room in the record came after those that did.
        known = np.inf if count <= len(kept) else when.max(initial=-np.inf)
        position, impulse = (
            np.asarray(part, float)[kept] for part in (record.position, record.impulse)
        )
        return Track(time, *values, time[:-1] < known, when, position, impulse)

    def at(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions and quaternions, shape (n, n_bodies, ...); held before and after."""
        if len(self.time) == 1:
            return tuple(
                np.repeat(value, len(times), axis=0) for value in (self.position, self.quaternion)
            )
        k = np.searchsorted(self.time, times, side="right") - 1
        k = np.clip(k, 0, len(self.time) - 2)
        length = self.time[k + 1] - self.time[k]
        s = np.clip((times - self.time[k]) / np.where(length > 0, length, 1.0), 0.0, 1.0)
        s, length = s[:, None, None], length[:, None, None]
        p0, p1, v0, v1 = (x[j] for x in (self.position, self.velocity) for j in (k, k + 1))
        line = p0 + s * (p1 - p0)
        # What the cubic adds to the line to match the velocities at both ends.
        bend = s * (1 - s) * ((1 - s) * (length * v0 - (p1 - p0)) - s * (length * v1 - (p1 - p0)))
        position = line + np.where(self.smooth[k][:, None, None], bend, 0.0)
        return position, _turn(self.quaternion[k], self.quaternion[k + 1], s)


def _turn(q0: np.ndarray, q1: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Turns from one attitude to another about a fixed axis, the short way."""
    cosine = np.sum(q0 * q1, axis=-1, keepdims=True)
    q1 = np.where(cosine < 0, -q1, q1)
    # Half the angle between them; the chord tells small ones apart.
    angle = 2 * np.arcsin(np.minimum(np.linalg.norm(q1 - q0, axis=-1, keepdims=True) / 2, 1.0))
    sine = np.sin(angle)
    tiny = sine < 1e-9
    sine = np.where(tiny, 1.0, sine)
    a = np.where(tiny, 1 - s, np.sin((1 - s) * angle) / sine)
    b = np.where(tiny, s, np.sin(s * angle) / sine)
    q = a * q0 + b * q1
    return q / np.linalg.norm(q, axis=-1, keepdims=True)
