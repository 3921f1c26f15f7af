"""Small implicit equations, one of size 3 for each body of each world."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .autodiff import keep_rule, sparse_jvp
from .small import Mat3, solve3
from .vec import Scalar, Vec3, dot

Residual = Callable[[Vec3, Any], Vec3]


@partial(jax.custom_jvp, nondiff_argnums=(0, 3))
def newton3(residual: Residual, guess: Vec3, parameters: Any, iterations: int) -> Vec3:
    """The root x of residual(x, parameters) near a guess.

    Newton's rule ends with the first step that is shorter than the square root of round-off:
    the next would be round-off. Two or three steps are usual; a batch waits for its slowest
    world, which costs less than to take the most steps every time. Whether they were enough
    is for `relative_error` to say. The derivative is that of the implicit function theorem; it
    does not depend on the guess.

    Args:
        residual: acts on each body by itself, and holds no array of its own.
        guess: components of shape (n_bodies,).
        parameters: what the root is differentiated by.
        iterations: the most Newton steps.
    """

    enough = jnp.finfo(guess.x.dtype).eps

    def unfinished(carry):
        _, converged, count = carry
        return ~converged & (count < iterations)

    def improve(carry):
        x, _, count = carry
        value, jacobian = linearize(residual, x, parameters)
        change = solve3(jacobian, value)
        converged = jnp.all(dot(change, change) <= enough * dot(x, x))
        return x - change, converged, count + 1

    start = (guess, jnp.zeros((), bool), jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(unfinished, improve, start)[0]


@partial(newton3.defjvp, symbolic_zeros=True)
def _(residual, iterations, primals, tangents):
    guess, parameters = primals
    _, dparameters = tangents
    x = keep_rule(partial(newton3, residual, iterations=iterations))(guess, parameters)
    _, change = sparse_jvp(partial(residual, x), (parameters,), (dparameters,))
    _, jacobian = linearize(residual, x, parameters)
    return x, -solve3(jacobian, change)


def relative_error(residual: Vec3, size: Scalar) -> Float[Array, ""]:
    """The largest residual of any body over the one allowed, a multiple of round-off, squared.

    It is round-off, and has no derivative. That of the division would be infinite for a body that
    hardly turns, and times nothing, in reverse mode, no number.

    Args:
        residual: what is left of the equations.
        size: squared, of the terms that cancel in them.
    """
    residual, size = jax.lax.stop_gradient((residual, size))
    allowed = 128 * jnp.finfo(residual.x.dtype).eps
    relative = dot(residual, residual) / jnp.where(size > 0, size, 1.0)
    return jnp.max(relative) / allowed**2


def linearize(residual: Residual, x: Vec3, parameters: Any) -> tuple[Vec3, Mat3]:
    """The residual and its Jacobian with respect to x."""
    value, push = jax.linearize(lambda x: residual(x, parameters), x)
    one, zero = jnp.ones_like(x.x), jnp.zeros_like(x.x)
    columns = (
        push(Vec3(one, zero, zero)),
        push(Vec3(zero, one, zero)),
        push(Vec3(zero, zero, one)),
    )
    return value, Mat3(*columns).transpose()
