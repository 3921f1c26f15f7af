"""The course of an impact, for plots and studies."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._validate import positive_count, real_array
from .laws import AbstractContactLaw
from .solve import solve_impact


class ImpulseCurve(NamedTuple):
    """Points of an impact from its start to its end, in the contact frame.

    Attributes:
        impulse: accumulated on the first body [N s], shape (n, 3).
        velocity: of the contact [m/s], shape (n, 3); its tangential part is the hodograph.
    """

    impulse: Float[Array, "n 3"]
    velocity: Float[Array, "n 3"]


def impulse_curve(
    inverse_inertia: Float[Array, "3 3"],
    velocity: Float[Array, "3"],
    law: AbstractContactLaw,
    n: int = 200,
) -> ImpulseCurve:
    """How impulse and contact velocity develop during an impact (Jia and Wang, Figures 4, 5).

    How the sliding velocity depends on the normal impulse is not changed by v_z or W_zz: (31)
    knows neither. So each point is the end of compression of another impact, which has the
    normal speed that ends there, and so much more of W_zz that v_z always rises.

    Args:
        inverse_inertia, velocity, law: as for `solve_impact`.
        n: number of points, at least 2; closer to each other at the start, where sliding is
            fast.

    Raises:
        ValueError: naming an argument that is not understood.
        RuntimeError: if the impact could not be resolved.
    """
    w = real_array(inverse_inertia, "inverse_inertia", (3, 3))
    v = real_array(velocity, "velocity", (3,)).astype(w.dtype)
    if positive_count(n, "n") < 2:
        raise ValueError(f"n must be at least 2; got {n}.")
    plastic = law.plastic()
    return _curve(w, v, plastic, solve_impact(w, v, law).impulse, n)


@partial(jax.jit, static_argnums=4)
def _curve(w: Array, v: Array, plastic: AbstractContactLaw, total: Array, n: int) -> ImpulseCurve:
    mu = plastic.coefficient_of_friction.astype(w.dtype)
    steep = w.at[2, 2].add(2 * mu * jnp.sqrt(w[0, 2] ** 2 + w[1, 2] ** 2))

    def point(speed: Float[Array, ""]) -> Float[Array, "3"]:
        return solve_impact(steep, v.at[2].set(-speed), plastic, throw=False).impulse

    places = jnp.linspace(0.0, 1.0, n, dtype=w.dtype) ** 2
    impulse = jax.vmap(point)(places * jnp.sum(steep[2] * total))
    return ImpulseCurve(impulse, v[None] + jnp.sum(w[None] * impulse[:, None, :], axis=-1))
