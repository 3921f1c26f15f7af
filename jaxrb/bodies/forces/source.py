"""What gives a load its numbers: an array, a control input, or a function of the user."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._validate import real_array, require
from ...control import AbstractInput
from ..inertial import Inertial
from ..phase import Phase
from ..state import State, from_phase
from .base import Time, cast
from .function import Function

Source = Float[Array, "..."] | AbstractInput | Function


def source(given: Any, name: str, shape: tuple[int, ...]) -> Source:
    """What is given, checked as far as it can be.

    Raises:
        ValueError: if it, or what an input gives, is no array of that shape.
    """
    if isinstance(given, AbstractInput):
        jax.eval_shape(lambda t: real_array(given(t), name, shape), 0.0)
        return given
    if callable(given):
        return Function(given)
    array = real_array(given, name, shape)
    require(array, name, np.isfinite, "finite")
    return array


def now(
    given: Source,
    t: Time,
    args: Any,
    phase: Phase,
    inertial: Inertial,
    shape: tuple[int, ...],
    name: str,
    with_velocities: bool,
) -> Float[Array, "..."]:
    """The value of a source at a time; a function is called with time, state and args.

    Raises:
        ValueError: if that is not an array of the shape.
    """
    if isinstance(given, AbstractInput):
        array = real_array(given(t), f"{name}(t)", shape)
    elif isinstance(given, Function):
        state = from_phase(phase, inertial) if with_velocities else still(phase)
        array = real_array(given(t, state, args), f"{name}(t, state, args)", shape)
    else:
        array = given
    return cast(array, phase)


def still(phase: Phase) -> State:
    """The state with NaN in place of its velocities."""
    position = phase.position.array()
    unknown = jnp.full_like(position, jnp.nan)
    return State(position, phase.orientation.array(), unknown, unknown)
