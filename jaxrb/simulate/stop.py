"""Events at which a motion is looked at, in place of a given time."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, Float

from .._validate import positive_count
from ..bodies import State


class StopAfter(eqx.Module):
    """Just after an impact.

    Attributes:
        impacts: which: after so many of them, whatever hits whatever.
    """

    impacts: int = eqx.field(static=True)

    def __init__(self, impacts: int):
        self.impacts = positive_count(impacts, "StopAfter.impacts")


class StopWhen(eqx.Module):
    """When a function of the motion first changes its sign.

    Attributes:
        function: of the time [s] and the `State` there, to a number; it should change at a rate
            that is not zero, such as the height above a target.
    """

    function: Callable[[Float[Array, ""], State], Float[Array, ""]]

    def __init__(self, function: Callable[[Float[Array, ""], State], Float[Array, ""]]):
        if not callable(function):
            raise ValueError(f"StopWhen.function must be a function; got {function!r}.")
        self.function = function
