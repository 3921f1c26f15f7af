"""When a cone problem is solved, and when a step is."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp


class Tolerances(NamedTuple):
    """Of one precision, relative to the units of a problem."""

    kept: float  # residual of old impulses that are the answer without a turn
    accepted: float  # residual of an answer
    reached: float  # residual at which turns end, and of those that are kept if asked so exactly
    near: float  # residual from which semismooth turns take over
    coarse: float  # residual from which they are tried where the interior comes no nearer
    # Term of the semismooth turns. Round-off of velocities over it is how far from linear a turn
    # leaves pressures: with less, faces that slide are not found to what is accepted.
    proximal: float
    careful: float  # and where those with it have failed
    fine: float  # the least, where those with either come close and no closer
    product: float  # least mean product aimed at in the interior
    deep: float  # and where polishing its answer has failed
    damping: float  # term of the turns there (see `Damped`)
    allowed: float  # residual with which a step is taken

    @staticmethod
    def of(dtype) -> Tolerances:
        """For a precision."""
        if jnp.finfo(dtype).eps < 1e-10:
            return Tolerances(
                1e-12, 1e-10, 2e-13, 1e-8, 1e-3, 2e-5, 1e-4, 1e-9, 1e-17, 1e-24, 1e-8, 1e-9
            )
        return Tolerances(1e-5, 3e-5, 2e-6, 1e-3, 1e-2, 5e-3, 1e-2, 1e-4, 1e-6, 1e-9, 1e-4, 2e-4)
