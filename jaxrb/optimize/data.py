"""Measurements of a motion."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import State
from ..lie import quaternion as quaternions
from ..math import Quat, Vec3, rotate

# Quaternions of measurements are normalised; further from unit length they are a mistake.
_UNIT = 0.1


class AbstractComparison(eqx.Module):
    """How measurements of one time are compared with a state."""

    @abc.abstractmethod
    def __call__(self, row: Any, state: State) -> Float[Array, " n"]:
        """Measured less simulated, over the noise; 0 where nothing was measured.

        Args:
            row: of `AbstractData.rows`, without its leading axis.
            state: of one time.
        """


class AbstractData(eqx.Module):
    """What was measured in one throw, at times in ascending order.

    Attributes:
        ts: when [s], shape (T,).
    """

    ts: eqx.AbstractVar[np.ndarray]

    @abc.abstractmethod
    def rows(self) -> Any:
        """The measurements as a tree of arrays with leading axis T; NaN is missing."""

    @abc.abstractmethod
    def comparison(self, dtype) -> AbstractComparison:
        """How a row is compared with a state."""

    @abc.abstractmethod
    def measured(self) -> np.ndarray:
        """Which entries of the residual there are, shape (T, n)."""

    @abc.abstractmethod
    def poses(self, n_bodies: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions (T, n_bodies, 3) and quaternions (T, n_bodies, 4) from the measurements of
        each time alone, NaN where they do not tell."""

    @property
    @abc.abstractmethod
    def noise(self) -> tuple[float, float]:
        """Of a position [m] and of an attitude [rad], roughly."""

    @abc.abstractmethod
    def check_bodies(self, n_bodies: int) -> None:
        """Raises `ValueError` unless a world with so many bodies can have been measured."""


class Poses(AbstractData):
    """Poses of all bodies of one throw, at measured times.

    Attributes:
        ts: times in ascending order [s], shape (T,). The first is when the simulation starts.
        position: of the centres of mass, world frame [m], shape (T, n_bodies, 3), or (T, 3) of one
            body; NaN is missing.
        quaternion: body to world, scalar first, of unit length to 0.1 (they are normalised),
            shape (T, n_bodies, 4), or (T, 4); NaN is missing.
        sd: standard deviations of the noise of each coordinate of the positions [m] and of each
            component of the rotation vectors [rad].

    Raises:
        ValueError: if shapes disagree, times do not ascend, all is missing, or a noise is not
            positive.
    """

    ts: np.ndarray
    position: np.ndarray
    quaternion: np.ndarray
    sd: tuple[float, float] = eqx.field(static=True)

    def __init__(self, ts, position, quaternion, sd):
        self.ts = _times(ts)
        n = self.ts.size
        self.position = _of_bodies(position, n, 3, "Poses.position")
        self.quaternion = _of_bodies(quaternion, n, 4, "Poses.quaternion")
        if self.position.shape[1] != self.quaternion.shape[1]:
            raise ValueError(
                f"Poses.position has {self.position.shape[1]} bodies, Poses.quaternion "
                f"{self.quaternion.shape[1]}."
            )
        length = np.sqrt(np.sum(self.quaternion**2, axis=-1, keepdims=True))
        if (np.abs(length - 1) > _UNIT).any():
            raise ValueError(
                f"Poses.quaternion must be of unit length to {_UNIT}; the lengths go from "
                f"{np.nanmin(length):.3g} to {np.nanmax(length):.3g}."
            )
        self.quaternion = self.quaternion / length
        place, turn = _noise(sd, 2, "Poses.sd")
        self.sd = place, turn
        _something(self.position, self.quaternion)

    def rows(self):
        return self.position, self.quaternion

    def comparison(self, dtype):
        return _ComparePoses(jnp.asarray(self.sd, dtype))

    def measured(self):
        known = np.isfinite(self.quaternion).all(-1, keepdims=True)
        both = [np.isfinite(self.position), np.repeat(known, 3, axis=-1)]
        return np.concatenate(both, axis=-1).reshape(self.ts.size, -1)

    def poses(self, n_bodies):
        del n_bodies
        known = np.isfinite(self.quaternion).all(-1, keepdims=True)
        return self.position, np.where(known, self.quaternion, np.nan)

    @property
    def noise(self):
        return self.sd

    def check_bodies(self, n_bodies):
        if self.position.shape[1] != n_bodies:
            raise ValueError(
                f"Poses are of {self.position.shape[1]} bodies; the world has {n_bodies}."
            )


class Points(AbstractData):
    """Positions of markers on bodies in one throw, at measured times.

    Attributes:
        ts: times in ascending order [s], shape (T,). The first is when the simulation starts.
        position: of the markers, world frame [m], shape (T, n_markers, 3); NaN is missing.
        marker: where they are in the body frame [m], shape (n_markers, 3).
        body: index of the body of each, shape (n_markers,); all on body 0 by default.
        sd: standard deviation of the noise of each coordinate [m].

    Raises:
        ValueError: as `Poses`.
    """

    ts: np.ndarray
    position: np.ndarray
    marker: np.ndarray
    body: tuple[int, ...] = eqx.field(static=True)
    sd: float = eqx.field(static=True)

    def __init__(self, ts, position, marker, sd, body=None):
        self.ts = _times(ts)
        self.marker = np.asarray(marker, np.float64)
        if (
            self.marker.ndim != 2
            or self.marker.shape[1] != 3
            or not len(self.marker)
            or not np.isfinite(self.marker).all()
        ):
            raise ValueError(
                f"Points.marker must be finite, of shape (n_markers, 3) with at least one; got "
                f"{self.marker.shape}."
            )
        n_markers = len(self.marker)
        self.position = np.asarray(position, np.float64)
        if self.position.shape != (self.ts.size, n_markers, 3):
            raise ValueError(
                f"Points.position must have shape ({self.ts.size}, {n_markers}, 3), times by "
                f"markers; got {self.position.shape}."
            )
        self.body = (0,) * n_markers if body is None else tuple(int(index) for index in body)
        if len(self.body) != n_markers or min(self.body) < 0:
            raise ValueError(f"Points.body must hold the body of each of {n_markers} markers.")
        (self.sd,) = _noise((sd,), 1, "Points.sd")
        _something(self.position)

    def rows(self):
        return self.position

    def comparison(self, dtype):
        return _ComparePoints(
            jnp.asarray(self.marker, dtype), jnp.asarray(self.sd, dtype), self.body
        )

    def measured(self):
        return np.isfinite(self.position).reshape(self.ts.size, -1)

    def poses(self, n_bodies):
        positions = np.full((self.ts.size, n_bodies, 3), np.nan)
        attitudes = np.full((self.ts.size, n_bodies, 4), np.nan)
        for body in range(n_bodies):
            own = np.asarray(self.body) == body
            for k, seen in enumerate(self.position[:, own]):
                found = _rigid_fit(self.marker[own], seen)
                if found is not None:
                    positions[k, body], attitudes[k, body] = found
        return positions, attitudes

    @property
    def noise(self):
        arms = self.marker - self.marker.mean(0)
        # Of markers that are all at one place nothing tells the attitude, to a turn.
        arm = np.sqrt(np.mean(np.sum(arms**2, axis=-1)))
        return self.sd, min(self.sd / max(arm, 1e-300), 1.0)

    def check_bodies(self, n_bodies):
        if max(self.body) >= n_bodies:
            raise ValueError(
                f"Points.body: there is no body {max(self.body)}; the world has {n_bodies}."
            )


class _ComparePoses(AbstractComparison):
    sd: Float[Array, "2"]

    def __call__(self, row, state):
        position, quaternion = row
        places = _where_known(position, state.position) - state.position
        known = jnp.isfinite(quaternion).all(-1, keepdims=True)
        turns = quaternions.local(state.quaternion, jnp.where(known, quaternion, state.quaternion))
        turns = jnp.where(known, turns, 0.0)
        return jnp.concatenate([places / self.sd[0], turns / self.sd[1]], axis=-1).reshape(-1)


class _ComparePoints(AbstractComparison):
    marker: Float[Array, "n_markers 3"]
    sd: Float[Array, ""]
    body: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, row, state):
        bodies = np.asarray(self.body)
        arms = rotate(Quat.of(state.quaternion[bodies]), Vec3.of(self.marker)).array()
        places = state.position[bodies] + arms
        return ((_where_known(row, places) - places) / self.sd).reshape(-1)


def _rigid_fit(markers: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The pose that takes markers to where they were seen, in least squares; None if fewer than
    three, or three in a line, were."""
    from scipy.spatial.transform import Rotation  # noqa: PLC0415 (slow to import)

    known = np.isfinite(seen).all(-1)
    if known.sum() < 3:
        return None
    own, there = markers[known], seen[known]
    arms = own - own.mean(0)
    # Beside the markers themselves: arms of markers at one place are their round-off.
    if np.linalg.svd(arms, compute_uv=False)[1] <= 1e-6 * np.abs(own).max():
        return None
    turn = Rotation.align_vectors(there - there.mean(0), arms)[0]
    x, y, z, w = turn.as_quat()
    return there.mean(0) - turn.apply(own.mean(0)), np.array([w, x, y, z])


def _where_known(measured, otherwise):
    return jnp.where(jnp.isfinite(measured), measured, otherwise)


def _times(ts) -> np.ndarray:
    times = np.asarray(ts, np.float64)
    if times.ndim != 1 or times.size < 2 or not np.isfinite(times).all():
        raise ValueError(f"ts must hold at least two finite times; got shape {times.shape}.")
    if (np.diff(times) <= 0).any():
        raise ValueError("ts must ascend.")
    return times


def _of_bodies(value, n_times: int, width: int, name: str) -> np.ndarray:
    array = np.asarray(value, np.float64)
    if array.ndim == 2:
        array = array[:, None]
    if array.ndim != 3 or array.shape[0] != n_times or array.shape[2] != width:
        raise ValueError(
            f"{name} must have shape ({n_times}, n_bodies, {width}), or ({n_times}, {width}) of "
            f"one body; got {np.shape(value)}."
        )
    return array


def _noise(sd, n: int, name: str) -> tuple[float, ...]:
    numbers = np.asarray(sd, np.float64).reshape(-1)
    if numbers.size != n or not (np.isfinite(numbers) & (numbers > 0)).all():
        what = "a positive number" if n == 1 else f"{n} positive numbers"
        raise ValueError(f"{name} must be {what}; got {sd!r}.")
    return tuple(numbers.tolist())


def _something(*arrays: np.ndarray) -> None:
    if not any(np.isfinite(array).any() for array in arrays):
        raise ValueError("All measurements are missing (NaN).")
