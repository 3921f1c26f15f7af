"""Where a measured motion is cut, and its states there, from the measurements alone."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ..lie import quaternion as quaternions

# Samples on each side of a time whose velocities are compared.
SIDE = 6
# A velocity jumps where the two sides disagree by so many standard deviations.
JUMP = 6.0
# Samples that a state is estimated from, at most, on each side of its time.
WINDOW = 12
# Attitudes that the spin is estimated from are within so much of the middle one [rad].
TURN = 1.5


class Nodes(NamedTuple):
    """Where one throw is cut.

    Attributes:
        ts: of the starts of the segments, ascending [s], shape (N,).
        position, quaternion, velocity, angular_velocity: the states there; leading axis N.
    """

    ts: np.ndarray
    position: np.ndarray
    quaternion: np.ndarray
    velocity: np.ndarray
    angular_velocity: np.ndarray


def jumps(ts: np.ndarray, position: np.ndarray, acceleration: np.ndarray, sd: float) -> np.ndarray:
    """When some body's velocity jumps, ascending [s].

    On both sides of each time a parabola of the known acceleration is fitted to a few samples, or,
    where it is not known, two of one acceleration. Impacts that follow one another sooner than
    these take are one jump.

    Args:
        ts, position: of one throw, shapes (T,) and (T, n_bodies, 3); NaN is missing.
        acceleration: of each body in flight [m/s^2], shape (n_bodies, 3); NaN of a body in joints,
            of which it is not known.
        sd: noise of a coordinate [m].
    """
    since = (ts - ts[0])[:, None]
    scores, spans = [], []
    for body in range(position.shape[1]):
        known = np.flatnonzero(np.isfinite(position[:, body]).all(-1))
        free = bool(np.isfinite(acceleration[body]).all())
        flat = position[:, body] - (acceleration[body] * since**2 / 2 if free else 0.0)
        for k in range(1, known.size):
            left, right = known[max(k - SIDE, 0) : k], known[k : k + SIDE]
            if min(left.size, right.size) < 3:
                continue
            if free:
                lines = [_line(ts[own] - ts[known[k]], flat[own]) for own in (left, right)]
                change = lines[1].velocity - lines[0].velocity
                variance = sd**2 * (lines[0].spread + lines[1].spread)
            else:
                both = np.concatenate([left, right])
                bent = _bent(ts[both] - ts[known[k]], flat[both])
                change, variance = bent.velocity, sd**2 * bent.spread
            scores.append(np.sqrt(np.sum(change**2) / variance))
            spans.append((body, left[0], right[-1]))
    if not scores:
        return np.zeros(0)
    score = np.array(scores)
    bodies, begin, end = np.array(spans).T
    found = []
    while score.max() > JUMP:
        peak = int(np.argmax(score))
        known = np.isfinite(position[begin[peak] : end[peak] + 1, bodies[peak]]).all(-1)
        own = begin[peak] + np.flatnonzero(known)
        own_acceleration = acceleration[bodies[peak]]
        if not np.isfinite(own_acceleration).all():
            middle = (ts[begin[peak]] + ts[end[peak]]) / 2
            own_acceleration = _bent(ts[own] - middle, position[own, bodies[peak]]).acceleration
        flat = position[:, bodies[peak]] - own_acceleration * since**2 / 2
        last, first = _change_point(own, ts, flat)
        found.append((ts[last] + ts[first]) / 2)
        # All sides that reach across it are of it; where samples are missing, these are long.
        score[(begin <= first) & (end >= last)] = 0.0
        score[peak] = 0.0
    return np.sort(found)


def _change_point(own: np.ndarray, ts: np.ndarray, flat: np.ndarray) -> tuple[int, int]:
    """The last sample before and the first after a jump, so that two lines fit best. The sides
    whose velocities differ most clearly may be longer ones, beside it."""
    misfits = {
        split: sum(
            _line(ts[side] - ts[own[split]], flat[side]).misfit
            for side in (own[:split], own[split:])
        )
        for split in range(3, own.size - 2)
    }
    split = min(misfits, key=lambda split: misfits[split])
    return own[split - 1], own[split]


class _Line(NamedTuple):
    """Place and velocity at tau = 0, the sum of squares that is left, and the variance of a
    velocity's coordinate over that of the noise."""

    place: np.ndarray
    velocity: np.ndarray
    misfit: float
    spread: float


def _line(tau: np.ndarray, flat: np.ndarray) -> _Line:
    """The line through samples, less the parabola of the acceleration."""
    basis = np.stack([np.ones_like(tau), tau], axis=1)
    fitted, *_ = np.linalg.lstsq(basis, flat, rcond=None)
    misfit = float(np.sum((flat - basis @ fitted) ** 2))
    return _Line(fitted[0], fitted[1], misfit, np.linalg.inv(basis.T @ basis)[1, 1])


class _Bent(NamedTuple):
    """A motion of one acceleration whose velocity jumps at tau = 0: by how much, the acceleration,
    and the variance of a coordinate of the jump over that of the noise."""

    velocity: np.ndarray
    acceleration: np.ndarray
    spread: float


def _bent(tau: np.ndarray, place: np.ndarray) -> _Bent:
    """That of samples on both sides."""
    basis = np.stack([np.maximum(tau, 0.0), tau**2 / 2, tau, np.ones_like(tau)], axis=1)
    fitted, *_ = np.linalg.lstsq(basis, place, rcond=None)
    return _Bent(fitted[0], fitted[1], np.linalg.inv(basis.T @ basis)[0, 0])


def states_at(
    nodes: np.ndarray,
    breaks: np.ndarray,
    ts: np.ndarray,
    poses: tuple[np.ndarray, np.ndarray],
    acceleration: np.ndarray,
) -> Nodes:
    """The states at some times, fitted to the samples around each up to the next jumps.

    Args:
        nodes: the times [s], shape (N,).
        breaks: when velocities jump [s].
        ts, poses: the samples, positions (T, n_bodies, 3) and quaternions (T, n_bodies, 4).
        acceleration: as in `jumps`.
    """
    positions, attitudes = poses
    n_bodies = positions.shape[1]
    states = np.zeros((nodes.size, n_bodies, 13))
    for number, time in enumerate(nodes):
        for body in range(n_bodies):
            seen = np.asarray(np.isfinite(positions[:, body]).all(-1))
            turned = np.asarray(np.isfinite(attitudes[:, body]).all(-1))
            _check_seen(body, seen, turned)
            own = _around(time, ts, seen, breaks)
            place = _moving(ts[own] - time, positions[own, body], acceleration[body])
            turn, spin = _turning(time, _around(time, ts, turned, breaks), ts, attitudes[:, body])
            states[number, body] = np.concatenate([place[0], turn, place[1], spin])
    return Nodes(nodes, states[..., :3], states[..., 3:7], states[..., 7:10], states[..., 10:])


def _moving(tau: np.ndarray, places: np.ndarray, acceleration: np.ndarray):
    """Place and velocity at tau = 0; where the acceleration is not known, it is fitted, too."""
    if np.isfinite(acceleration).all():
        line = _line(tau, places - acceleration * tau[:, None] ** 2 / 2)
        return line.place, line.velocity
    degree = 2 if tau.size >= 6 else 1
    fitted, *_ = np.linalg.lstsq(np.vander(tau, degree + 1, increasing=True), places, rcond=None)
    return fitted[0], fitted[1]


def _check_seen(body: int, seen: np.ndarray, turned: np.ndarray) -> None:
    """Raises `ValueError` unless there is something to start from."""
    for known, what in ((seen, "position"), (turned, "attitude")):
        if known.sum() < 2:
            raise ValueError(
                f"The {what} of body {body} was measured {known.sum()} times; it takes two to "
                "start from. Poses need quaternions beside positions; points tell a pose where "
                "three of a body, not in a line, are seen at one time. What was not measured, "
                "`states` says at the first time of each throw, as nearly as is known."
            )


def _around(time: float, ts: np.ndarray, known: np.ndarray, breaks: np.ndarray) -> np.ndarray:
    """Samples near a time, between the jumps before and after it; the nearest four if these are
    fewer."""
    places = np.flatnonzero(known)
    before = max(breaks[breaks <= time], default=-np.inf)
    after = min(breaks[breaks > time], default=np.inf)
    inside = places[(ts[places] > before) & (ts[places] < after)]
    nearest = inside[np.argsort(np.abs(ts[inside] - time), kind="stable")[: 2 * WINDOW]]
    if nearest.size < 4:
        nearest = places[np.argsort(np.abs(ts[places] - time), kind="stable")[:4]]
    return np.sort(nearest)


def _turning(time: float, own: np.ndarray, ts: np.ndarray, attitudes: np.ndarray):
    """Attitude and angular velocity, body frame, at a time."""
    tau = ts[own] - time
    base = jnp.asarray(attitudes[own[np.argmin(np.abs(tau))]])
    others = jnp.asarray(attitudes[own])
    vectors = np.asarray(quaternions.local(jnp.broadcast_to(base, others.shape), others))
    # Those within half a turn of each other, where the vector is one and close to a parabola; on
    # either side up to the first that is further, since the next may have come round again.
    far = np.flatnonzero(np.linalg.norm(vectors, axis=1) > TURN)
    middle = int(np.argmin(np.abs(tau)))
    first = max(far[far < middle], default=-1) + 1
    last = min(far[far > middle], default=own.size)
    if last - first >= 2:
        tau, vectors = tau[first:last], vectors[first:last]
    degree = 2 if tau.size >= 6 else 1
    fitted, *_ = np.linalg.lstsq(np.vander(tau, degree + 1, increasing=True), vectors, rcond=None)
    # The rate of a rotation vector is the angular velocity where the vector is small.
    return np.asarray(quaternions.retract(base, jnp.asarray(fitted[0], base.dtype))), fitted[1]
