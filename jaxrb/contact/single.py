"""One contact by itself, in its own frame: what a frictional impact needs."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..bodies import Inertial, Phase
from ..math import Quat, Sym3, Vec3, cross, dot, rotate, rotate_inverse
from .half_space import Contacts


class SingleContact(eqx.Module):
    """A contact of one body with something immovable; every component has shape ().

    Its frame has z along the normal, from the obstacle into the body.
    """

    orientation: Quat  # of the body
    axes: tuple[Vec3, Vec3, Vec3]  # of the contact frame, in the body frame
    arm: Vec3  # from the centre of mass, body frame [m]
    inverse_inertia: Sym3  # W, contact frame [1/kg]
    velocity: Vec3  # of the body's point, contact frame [m/s]

    @staticmethod
    def of(
        phase: Phase,
        contacts: Contacts,
        which: Bool[Array, "n_bodies n_contacts"],
        inertial: Inertial,
    ) -> SingleContact:
        """The one contact for which `which` holds; without one, some contact that recedes."""
        body = jnp.any(which, axis=1)
        none = ~jnp.any(body)

        def at(leaf):
            return jnp.sum(jnp.where(which, jnp.broadcast_to(leaf, which.shape), 0.0))

        def of_body(leaf):
            return jnp.sum(jnp.where(body, leaf, 0.0))

        orientation = jax.tree.map(of_body, phase.orientation)
        orientation = Quat(jnp.where(none, 1.0, orientation.w), orientation.v)
        normal = jax.tree.map(at, contacts.normal)
        normal = Vec3(normal.x, normal.y, jnp.where(none, 1.0, normal.z))
        arm = jax.tree.map(at, contacts.point)
        normal = rotate_inverse(orientation, normal)
        axes = (*_tangents(normal), normal)

        inverse_mass = jnp.where(none, 1.0, of_body(1 / inertial.mass))
        levers = [cross(arm, axis) for axis in axes]
        turned = [jax.tree.map(of_body, inertial.inertia.solve(_expand(lever))) for lever in levers]

        def response(i, j):
            return dot(levers[i], turned[j]) + (inverse_mass if i == j else 0.0)

        w = Sym3(
            Vec3(response(0, 0), response(1, 1), response(2, 2)),
            Vec3(response(1, 2), response(0, 2), response(0, 1)),
        )
        velocity = rotate_inverse(orientation, jax.tree.map(of_body, inertial.velocity(phase)))
        velocity = velocity + cross(jax.tree.map(of_body, inertial.angular_velocity(phase)), arm)
        along = Vec3(*(dot(axis, velocity) for axis in axes))
        along = Vec3(along.x, along.y, jnp.where(none, 1.0, along.z))
        return SingleContact(orientation, axes, arm, w, along)

    def apply(
        self, impulse: Vec3, phase: Phase, which: Bool[Array, "n_bodies n_contacts"]
    ) -> Phase:
        """The phase after an impulse, contact frame [N s] (Jia and Wang, eq. 1)."""
        body = jnp.any(which, axis=1)
        first, second, normal = self.axes
        in_body = first * impulse.x + second * impulse.y + normal * impulse.z

        def add(total: Vec3, change: Vec3) -> Vec3:
            return total + jax.tree.map(lambda leaf: jnp.where(body, leaf, 0.0), _expand(change))

        return Phase(
            phase.position,
            phase.orientation,
            add(phase.linear_momentum, rotate(self.orientation, in_body)),
            add(phase.angular_momentum, cross(self.arm, in_body)),
            phase.stretch,
        )


def _tangents(normal: Vec3) -> tuple[Vec3, Vec3]:
    """Two unit vectors normal to a third and to each other, without a singular direction."""
    sign = jnp.where(normal.z >= 0, 1.0, -1.0).astype(normal.z.dtype)
    a = -1 / (sign + normal.z)
    b = normal.x * normal.y * a
    return (
        Vec3(1 + sign * normal.x * normal.x * a, sign * b, -sign * normal.x),
        Vec3(b, sign + normal.y * normal.y * a, -normal.y),
    )


def _expand(vector: Vec3) -> Vec3:
    return jax.tree.map(lambda leaf: leaf[None], vector)
