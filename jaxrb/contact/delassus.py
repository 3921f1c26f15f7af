"""The Delassus operator: what normal impulses at all contacts of a body do to each of them.

Impulses and velocities have shape (n_bodies, n_contacts).
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Inertial
from ..math import Vec3, dot
from ..math.safe import safe_divide
from .base import ContactKinematics
from .half_spaces import AtHalfSpaces

PerContact = Float[Array, "n_bodies n_contacts"]

# Contacts of a rigid body that can be independent of each other.
_RANK = 6
_REFINEMENTS = 3


def response(contacts: AtHalfSpaces, impulse: PerContact, inertial: Inertial) -> PerContact:
    """The change of all normal velocities by impulses: the Delassus operator."""
    total = lambda tree: jax.tree.map(partial(jnp.sum, axis=1, keepdims=True), tree)  # noqa: E731
    mass, inertia = jax.tree.map(
        lambda leaf: jnp.expand_dims(leaf, 1), (inertial.mass, inertial.inertia)
    )
    linear: Vec3 = total(contacts.normal * impulse)
    angular: Vec3 = total(contacts.lever * impulse)
    return dot(contacts.normal, linear) / mass + dot(contacts.lever, inertia.solve(angular))


def impulses_for(
    contacts: AtHalfSpaces,
    motion: ContactKinematics,
    held: Bool[Array, "n_bodies n_contacts"],
    change: PerContact,
    inertial: Inertial,
) -> PerContact:
    """The impulses at the held contacts that change their normal velocities as asked.

    Body by body. More contacts than can be independent share the load: the equations are
    solved by conjugate gradients with a little compliance at each contact, whose effect is
    then taken away by repetition where it is not the only one.
    """
    n_contacts = held.shape[1]
    if n_contacts == 1:
        return jnp.where(held, change / motion.inverse_mass, 0.0)
    compliance = motion.inverse_mass * jnp.finfo(change.dtype).eps ** (1 / 3)

    # What is not held has an equation of its own, so that the matrix is symmetric: of what is asked
    # of it in reverse mode nothing acts on what is held.
    def operator(impulse):
        acting = jnp.where(held, impulse, 0.0)
        return jnp.where(held, response(contacts, acting, inertial), impulse)

    def solve(matvec, change):
        def refine(_, impulse):
            rest = change - matvec(impulse)
            return impulse + _conjugate_gradients(
                lambda x: matvec(x) + compliance * x, rest, min(n_contacts, _RANK + 1)
            )

        return jax.lax.fori_loop(0, _REFINEMENTS, refine, jnp.zeros_like(change))

    change = jnp.where(held, change, 0.0)
    return jax.lax.custom_linear_solve(operator, change, solve, symmetric=True)


def _conjugate_gradients(matvec, right: PerContact, iterations: int) -> PerContact:
    """The solution of a positive definite system, body by body."""

    def over_contacts(a, b):
        return jnp.sum(a * b, axis=1, keepdims=True)

    def turn(_, carry):
        x, rest, direction, size = carry
        image = matvec(direction)
        length = safe_divide(size, over_contacts(direction, image))
        rest = rest - length * image
        before, size = size, over_contacts(rest, rest)
        following = rest + safe_divide(size, before) * direction
        return x + length * direction, rest, following, size

    start = (jnp.zeros_like(right), right, right, over_contacts(right, right))
    return jax.lax.fori_loop(0, iterations, turn, start)[0]
