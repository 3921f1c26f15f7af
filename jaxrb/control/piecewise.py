"""Control inputs that are given by values at knots."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._text import readable
from .._validate import real_array, require
from ..math import safe_divide
from .base import AbstractInput, Time


class PiecewiseConstant(AbstractInput):
    """Holds each value from its knot to the next one: t -> values[k] on [ts[k], ts[k + 1]).

    The last value holds to the end, and the first one also before the first knot. A call has
    the dtype of an array t, and that of the values if t is a Python number.

    Derivatives by the values are exact. Those by t and by the knots are zero, although the
    value jumps as t passes a knot: to find the best moment to switch, use `PiecewiseLinear`
    with a steep ramp. An integrator that steps over a jump sees it with the accuracy of its
    step: let knots fall on ends of steps where that matters.

    Attributes:
        ts: the knots [s], shape (n,), strictly increasing, n at least 1. Traced ones are looked at
            when a simulation begins, and end it with `invalid_times` if some descend.
        values: at the knots, shape (n, ...).

    Raises:
        ValueError: naming the argument that is not understood, and where t is no scalar.
    """

    ts: Float[Array, " n"]
    values: Float[Array, "n ..."]

    def __init__(self, ts, values):
        self.ts, self.values = _checked(ts, values, "PiecewiseConstant", 1)

    def __call__(self, t: Time) -> Float[Array, "..."]:
        ts, values, t = _in_one_dtype(self.ts, self.values, t, "PiecewiseConstant")
        last = jnp.maximum(_passed(ts, t) - 1, 0)
        return jax.lax.dynamic_index_in_dim(values, last, keepdims=False)

    def in_order(self):
        return _ascending(self.ts)

    def __repr__(self) -> str:
        return readable(self)


class PiecewiseLinear(AbstractInput):
    """Joins values at knots by straight lines, and holds the first and the last one outside.

    A call has the dtype of an array t, and that of the values if t is a Python number.
    Derivatives by t, by the values and by the knots are exact; at a knot they are those from
    the right.

    Attributes:
        ts: the knots [s], shape (n,), strictly increasing, n at least 2; traced ones likewise.
        values: at the knots, shape (n, ...).

    Raises:
        ValueError: naming the argument that is not understood, and where t is no scalar.
    """

    ts: Float[Array, " n"]
    values: Float[Array, "n ..."]

    def __init__(self, ts, values):
        self.ts, self.values = _checked(ts, values, "PiecewiseLinear", 2)

    def __call__(self, t: Time) -> Float[Array, "..."]:
        ts, values, t = _in_one_dtype(self.ts, self.values, t, "PiecewiseLinear")
        first = jnp.clip(_passed(ts, t) - 1, 0, ts.shape[0] - 2)
        # One slice of two rows is read, and its derivative written, faster than two rows.
        (start, end), (before, after) = (
            jax.lax.dynamic_slice_in_dim(rows, first, 2) for rows in (ts, values)
        )
        # Knots may fall together when they are rounded to the dtype.
        between = before + safe_divide(t - start, end - start) * (after - before)
        # Not by clipping, whose derivative at a knot is half that of either side.
        return jnp.where(t < ts[0], before, jnp.where(t >= ts[-1], after, between))

    def in_order(self):
        return _ascending(self.ts)

    def __repr__(self) -> str:
        return readable(self)


def _ascending(ts: Float[Array, " n"]) -> Bool[Array, ""]:
    """Whether knots ascend; some may have been rounded to one."""
    return jnp.all(ts[1:] >= ts[:-1])


def _passed(ts: Float[Array, " n"], t: Float[Array, ""]) -> Int[Array, ""]:
    """How many knots are not after t.

    It compares t with all of them: in a batch on CPUs this costs less than a binary search, with
    up to hundreds of knots.
    """
    return jnp.sum(t >= ts, dtype=jnp.int32)


def _in_one_dtype(ts: Array, values: Array, t: Time, kind: str) -> tuple[Array, Array, Array]:
    """All in the dtype of the time, which is that of the simulation; else in that of values."""
    if jnp.shape(t) != ():
        raise ValueError(
            f"{kind} must be called at a scalar time t; got shape {jnp.shape(t)}. Use jax.vmap "
            "for many times."
        )
    time = jnp.asarray(t)
    real = jnp.issubdtype(time.dtype, jnp.floating) and not time.weak_type
    dtype = time.dtype if real else values.dtype
    return ts.astype(dtype), values.astype(dtype), time.astype(dtype)


def _checked(ts, values, kind: str, at_least: int) -> tuple[Array, Array]:
    ts, values = real_array(ts, f"{kind}.ts"), real_array(values, f"{kind}.values")
    if ts.ndim != 1 or ts.shape[0] < at_least:
        raise ValueError(
            f"{kind}.ts must have shape (n,) with n at least {at_least}; got {ts.shape}."
        )
    if values.ndim == 0 or values.shape[0] != ts.shape[0]:
        raise ValueError(
            f"{kind}.values must have shape (n, ...) with n = {ts.shape[0]} knots; got "
            f"{values.shape}."
        )
    require(ts, f"{kind}.ts", np.isfinite, "finite")
    require(ts, f"{kind}.ts", lambda knots: np.diff(knots) > 0, "strictly increasing")
    require(values, f"{kind}.values", np.isfinite, "finite")
    return ts, values
