"""How fitting and shooting ended."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._codes import Codes


class RESULTS(Codes):
    """One code per start; the first that applies."""

    successful = ""
    simulation_failed = (
        "The simulation ended early at the start, or wherever a step led: see `world_result`. A "
        "start whose parameters are nearer, another method, or data cut before what fails."
    )
    event_missed = (
        "The event to stop at did not come before t1, or came more than once and was not the "
        "first: a later t1, or other starts."
    )
    other_impacts = (
        "The motion has another number of impacts than there may be: other starts, or a wider "
        "spread of them."
    )
    residual_not_finite = (
        "The residual is NaN or infinite in a motion that is not: a division by zero in it, or "
        "goals that are no numbers."
    )
    derivative_not_finite = (
        "A derivative is NaN or infinite where the search begins, or ended, though the motion is "
        "not: a norm or a root of zero in a function of yours, whose derivative there is none "
        "(leave the square or the vector), or impacts that pile up."
    )
    max_iterations_reached = "Every iteration still gained something: raise max_iterations."
    stalled = (
        "No step gains anything, though the conditions are not met: the problem may have no "
        "solution, or a kink lies on the way. Try more starts."
    )
    infeasible = (
        "No step brings the end nearer to where `terminal` is zero, or stages nearer to each "
        "other: see `violation` and `defects`. More time or other controls, a condition that can "
        "be met, or another guess."
    )
    poor_fit = (
        "Chi-square is above what noise explains in 999 of 1000 cases: a local minimum (try more "
        "starts, or more segments), noise that is larger than said, or a world that lacks "
        "something, such as another free parameter."
    )
    no_impact = (
        "Nothing touched anything, so nothing is known of what acts at impacts: the parameters "
        "named in `unidentifiable`."
    )
    not_identifiable = (
        "The data do not tell some combinations of parameters, named in `unidentifiable`: fix one "
        "of each, or measure a motion that depends on it."
    )


def code_of(item: eqx.Enumeration) -> int:
    """The number of an item."""
    (value,) = jax.tree.leaves(item)
    return int(np.asarray(value))


def items(codes: Any, numbers: Any) -> Any:
    """The item, or items, of an enumeration with some numbers."""
    return jax.tree.map(lambda _: jnp.asarray(numbers, jnp.int32), codes.successful)
