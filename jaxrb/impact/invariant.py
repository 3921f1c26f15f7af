"""Invariant directions of sliding (Jia and Wang, section 4)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._validate import real_array


class InvariantDirections(NamedTuple):
    """Up to four; slots beyond those there are hold NaN.

    Attributes:
        direction: unit vectors in the tangent plane, shape (4, 2), counterclockwise from the
            x axis.
        growth: lambda, the rate of the sliding speed with the normal impulse in that
            direction [1/kg], shape (4,): centripetal where it is 0 or less, centrifugal where
            it is positive.
        exists: which slots are used, shape (4,).
        every: whether every direction is invariant (Theorem 5 (i)); then no slot is used.
    """

    direction: Float[Array, "4 2"]
    growth: Float[Array, "4"]
    exists: Bool[Array, "4"]
    every: Bool[Array, ""]


def invariant_directions(
    inverse_inertia: Float[Array, "3 3"], friction: Float[Array, ""] | float
) -> InvariantDirections:
    """The directions s in which a sliding contact keeps its direction: s x (d - mu B s) = 0.

    (33) is a trigonometric polynomial of degree 2 in the angle of s. As a polynomial in
    z = exp(i angle) it is a quartic without the exceptional direction (-1, 0) that the
    quartic in the tangent of the half angle has; the invariant directions are its roots of
    modulus 1. Those that come in near pairs (to about 1e-7) may be missed.

    Args:
        inverse_inertia: W, contact frame, z along the normal [1/kg].
        friction: mu.
    """
    w = real_array(inverse_inertia, "inverse_inertia", (3, 3))
    mu = jnp.asarray(friction, w.dtype)
    b, d = w[:2, :2], w[:2, 2]
    # f = Re((q2 z^2 + q1 z) 2), from f = mu (B11 - B22)/2 sin 2t - mu B12 cos 2t + d2 cos t - ...
    q2 = jax.lax.complex(-mu / 2 * b[0, 1], -mu / 4 * (b[0, 0] - b[1, 1]))
    q1 = jax.lax.complex(d[1] / 2, d[0] / 2)
    eps = jnp.finfo(w.dtype).eps
    size = mu * jnp.max(jnp.abs(b)) + jnp.max(jnp.abs(d))
    every = jnp.abs(q2) + jnp.abs(q1) <= 8 * eps * size
    # Where B is isotropic only z (q1 z^2 + conj(q1)) is left: two directions, along d.
    isotropic = jnp.abs(q2) <= eps * jnp.abs(q1)
    degenerate = isotropic | every
    lead = jnp.where(degenerate, 1.0, q2)
    others = jnp.where(degenerate, 0.0, jnp.stack([q1, 0 * q1, jnp.conj(q1)]))
    last = jnp.where(degenerate, -1.0, jnp.conj(q2))
    coefficients = jnp.concatenate([jnp.stack([lead]), others, jnp.stack([last])]) / lead
    length = jnp.sqrt(jnp.sum(d**2))
    unit = d / jnp.where(length > 0, length, 1.0)
    along = jax.lax.complex(unit[0], unit[1])
    opposite = jnp.stack([along, -along, 0 * along, 0 * along])

    def rates(angle):
        s = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1)
        push = d[None] - mu * (s[..., :1] * b[:1] + s[..., 1:] * b[1:])
        turning = s[..., 0] * push[..., 1] - s[..., 1] * push[..., 0]
        return s, jnp.sum(s * push, axis=-1), turning

    def polish(angle):
        _, slope = jax.jvp(lambda a: rates(a)[2], (angle,), (jnp.ones_like(angle),))
        return angle - rates(angle)[2] / jnp.where(slope == 0, 1.0, slope)

    roots = jax.lax.stop_gradient(jnp.where(isotropic, opposite, _roots(coefficients)))
    exists = (jnp.abs(jnp.abs(roots) - 1) < 1e-3) & ~every
    angle = jnp.where(exists, jnp.angle(roots), 0.0)
    for _ in range(3):
        angle = polish(angle)
    exists &= jnp.abs(rates(angle)[2]) <= 64 * eps * size
    angle = jnp.mod(angle, 2 * jnp.pi)
    order = jnp.argsort(jnp.where(exists, angle, jnp.inf))
    angle, exists = angle[order], exists[order]
    s, growth, _ = rates(angle)
    return InvariantDirections(
        jnp.where(exists[:, None], s, jnp.nan), jnp.where(exists, growth, jnp.nan), exists, every
    )


def _roots(coefficients: Array) -> Array:
    """The roots of a monic quartic, all at once (Durand and Kerner)."""
    # Where friction is weak one root is large and its reciprocal small.
    around = jnp.asarray(np.exp(1j * (np.arange(4) * np.pi / 2 + 0.4)), coefficients.dtype)
    far = 1 + jnp.max(jnp.abs(coefficients))
    radius = jnp.stack([jnp.ones_like(far), far, jnp.ones_like(far), 1 / far])
    roots = around * jax.lax.complex(radius, jnp.zeros_like(radius))

    def improve(_, roots):
        value = jnp.polyval(coefficients, roots)
        gaps = roots[:, None] - roots[None, :] + jnp.eye(4, dtype=roots.dtype)
        gaps = jnp.where(gaps == 0, float(jnp.finfo(gaps.dtype).tiny) ** 0.5, gaps)
        return roots - value / jnp.prod(gaps, axis=1)

    return jax.lax.fori_loop(0, 80, improve, roots)
