"""The steps of a simulation, as numbers."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from .._validate import positive_count

# Of a step: a remainder of the quotient (t1 - t0)/dt that is smaller is round-off, no step.
_SLACK = 1e-9


class TimeGrid(eqx.Module):
    """Steps of equal size from t0 to t1, of which the last may be shorter.

    All numbers may be traced; how many steps there can be is static.

    Attributes:
        t0, t1: start and end [s].
        dt: step size [s].
        last_dt: of the last step [s].
        n_steps: from t0 to t1.
        capacity: the most steps that are made.
    """

    t0: Float[Array, ""]
    t1: Float[Array, ""]
    dt: Float[Array, ""]
    last_dt: Float[Array, ""]
    n_steps: Int[Array, ""] | Int[np.ndarray, ""]
    capacity: int = eqx.field(static=True)

    @staticmethod
    def of(t0: Any, t1: Any, dt: Any, max_steps: int | None, dtype: DTypeLike) -> TimeGrid:
        """The grid of given times, in a dtype.

        Numbers that are known are used in double precision: t1 - t0 less all steps but the last
        would lose digits otherwise. Without a step size, in continuous time, all is one step.
        """
        if dt is None:
            return TimeGrid._continuous(t0, t1, dtype)
        numbers = [known_time(number) for number in (t0, t1, dt)]
        if all(number is not None for number in numbers):
            xp, (t0, t1, dt) = np, (np.float64(number) for number in numbers)
        else:
            xp, (t0, t1, dt) = jnp, (jnp.asarray(number, dtype) for number in (t0, t1, dt))
        ratio = (t1 - t0) / dt
        slack = max(_SLACK, 16 * float(jnp.finfo(xp.asarray(ratio).dtype).eps))
        n_steps = xp.maximum(xp.ceil(ratio * (1 - slack) - slack), 0)
        last_dt = t1 - t0 - (n_steps - 1) * dt
        if xp is np and abs(last_dt - dt) <= _SLACK * dt:
            last_dt = dt
        if max_steps is None:
            begin, end, step = (_value(number) for number in (t0, t1, dt))
            capacity = rounded_up(math.ceil((end - begin) / step * (1 - slack) - slack))
        else:
            capacity = positive_count(max_steps, "max_steps")
        # Known ones stay with NumPy: JAX would take longer for them than short runs do.
        times = (xp.asarray(number, dtype) for number in (t0, t1, dt, last_dt))
        n_steps = xp.asarray(n_steps, np.int32)
        t0, t1, dt, last_dt = times
        return TimeGrid(t0, t1, dt, last_dt, n_steps, capacity)

    @staticmethod
    def _continuous(t0: Any, t1: Any, dtype: DTypeLike) -> TimeGrid:
        known = known_time(t0) is not None and known_time(t1) is not None
        xp: Any = np if known else jnp
        t0, t1 = (xp.asarray(number, np.float64 if known else dtype) for number in (t0, t1))
        whole = xp.where(t1 > t0, t1 - t0, 1.0)
        n_steps = xp.asarray(t1 > t0, np.int32)
        t0, t1, whole = (xp.asarray(number, dtype) for number in (t0, t1, whole))
        return TimeGrid(t0, t1, whole, whole, n_steps, 1)

    def size(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """The size of a step [s]."""
        return jnp.where(step >= self.n_steps - 1, self.last_dt, self.dt)

    def unfinished(self, step: Int[Array, ""]):
        """Whether there are more steps to make after so many."""
        return step < jnp.minimum(self.n_steps, self.capacity)

    def begin(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """The time at which a step begins [s]."""
        return self.t0 + self.dt * step.astype(self.dt.dtype)


def rounded_up(n_steps: int) -> int:
    """The capacity for a number of steps: the next of eight numbers between powers of two.

    So a run of another length rarely needs another program, and at most an eighth of the
    capacity is unused.
    """
    if n_steps <= 16:
        return max(n_steps, 1)
    unit = 1 << (max(n_steps - 1, 1).bit_length() - 4)
    return -(-n_steps // unit) * unit


def known_time(number: Any) -> Any | None:
    """The number, if it is no tracer; else None."""
    return None if isinstance(number, Tracer) else number


def _value(number: Any) -> float:
    """The value of a time, also where it is only differentiated.

    Raises:
        ValueError: if it is traced by a program that is being made.
    """
    if not isinstance(number, Tracer):
        return float(number)
    try:
        return float(jax.lax.stop_gradient(number))
    except jax.errors.ConcretizationTypeError as error:
        raise ValueError(
            "simulate needs max_steps, the most steps that it may make, where t0, t1 or dt is "
            "traced by jit or vmap: it sets the size of the program."
        ) from error
