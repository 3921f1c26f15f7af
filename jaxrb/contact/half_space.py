"""Contacts of convex bodies with half-spaces.

Every body against every obstacle: arrays have shape (n_bodies, n_obstacles).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Inertial, Phase, RigidBody
from ..math import Vec3, cross, dot, rotate_inverse
from ..shapes import AbstractConvexShape, HalfSpace
from ..shapes.base import components


class Contacts(eqx.Module):
    """Where each body is closest to each obstacle."""

    gap: Float[Array, "n_bodies n_obstacles"]  # Phi [m], positive when apart
    round_off: Float[Array, "n_bodies n_obstacles"]  # of the gap [m]
    normal: Vec3  # from the obstacle into the body, world; components (1, n_obstacles)
    height: Float[Array, "n_bodies n_obstacles"]  # h, of the centre over the closest point [m]
    point: Vec3  # closest point of the body from its centre of mass, body frame [m]
    lever: Vec3  # chi = rho x R^T n, body frame [m]


class ContactKinematics(eqx.Module):
    """How fast each gap closes, and what an impulse does to it."""

    normal_velocity: Float[Array, "n_bodies n_obstacles"]  # rate of the gap [m/s]
    spin_velocity: Float[Array, "n_bodies n_obstacles"]  # its part chi . Omega [m/s]
    inverse_mass: Float[Array, "n_bodies n_obstacles"]  # W = 1/m + chi . J^{-1} chi [1/kg]


class HalfSpaceContacts(eqx.Module):
    """The pairs of all bodies with all half-spaces."""

    shapes: tuple[AbstractConvexShape, ...]  # one a group of bodies, components stacked
    normal: Vec3  # unit, components (n_obstacles,)
    offset: Float[Array, " n_obstacles"]  # [m]

    @staticmethod
    def of(bodies: Sequence[RigidBody], obstacles: Sequence[HalfSpace]) -> HalfSpaceContacts:
        """Bodies in an order in which those of one kind of shape are next to each other."""
        groups: list[list[AbstractConvexShape]] = []
        for body in bodies:
            shape = components(body.shape)
            if groups and jax.tree.structure(groups[-1][0]) == jax.tree.structure(shape):
                groups[-1].append(shape)
            else:
                groups.append([shape])
        # A trailing axis of length 1 lets body quantities broadcast over the obstacles.
        stacked = tuple(
            jax.tree.map(lambda *leaves: jnp.stack(leaves)[:, None], *group) for group in groups
        )
        planes = [obstacle.unit_normal_and_offset() for obstacle in obstacles]
        return HalfSpaceContacts(
            stacked,
            Vec3.of(jnp.stack([normal for normal, _ in planes])),
            jnp.stack([offset for _, offset in planes]),
        )

    def find(self, phase: Phase) -> Contacts:
        """Gap, closest point and lever arm of every pair (Tran and Leok, eqs. 84, 55).

        Phi = n . x - d - h(-R^T n) with the support function h of the body, and the lever
        arm chi = rho x R^T n is the derivative of Phi with respect to a rotation of the
        body, in the body frame.
        """
        normal = _expand(self.normal, 0)
        in_body = rotate_inverse(_expand(phase.orientation, 1), normal)
        height, point = self._support(-in_body)
        along = dot(normal, _expand(phase.position, 1))
        offset = _expand(self.offset, 0)
        gap = along - offset - height
        scale = jnp.abs(along) + jnp.abs(offset) + height
        return Contacts(
            gap,
            8 * jnp.finfo(gap.dtype).eps * scale,
            normal,
            height,
            point,
            cross(point, in_body),
        )

    def _support(self, direction: Vec3) -> tuple[Float[Array, ...], Vec3]:
        parts, start = [], 0
        for shape in self.shapes:
            n_bodies = jax.tree.leaves(shape)[0].shape[0]
            part = jax.tree.map(lambda d, s=start, n=n_bodies: d[s : s + n], direction)
            height, point = shape.support_map(part)
            # A height that does not depend on the direction still has one value a pair.
            parts.append((jnp.broadcast_to(height, part.x.shape), point))
            start += n_bodies
        if len(parts) == 1:
            return parts[0]
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def kinematics(contacts: Contacts, phase: Phase, inertial: Inertial) -> ContactKinematics:
    """Normal velocity n . v + chi . Omega and inverse mass of every pair."""
    mass, inertia, linear, angular = _expand(
        (inertial.mass, inertial.inertia, phase.linear_momentum, phase.angular_momentum), 1
    )
    lever_over_inertia = inertia.solve(contacts.lever)
    spin = dot(lever_over_inertia, angular)
    return ContactKinematics(
        dot(contacts.normal, linear) / mass + spin,
        spin,
        1 / mass + dot(lever_over_inertia, contacts.lever),
    )


def apply_impulse(
    phase: Phase,
    contacts: Contacts,
    impulse: Float[Array, "n_bodies n_obstacles"],
    where: Bool[Array, "n_bodies n_obstacles"],
) -> Phase:
    """The phase after normal impulses [N s] at the chosen contacts (eq. 61a, b)."""
    impulse = jnp.where(where, impulse, jnp.zeros_like(impulse))
    linear, angular = jax.tree.map(
        partial(jnp.sum, axis=1), (contacts.normal * impulse, contacts.lever * impulse)
    )
    return Phase(
        phase.position,
        phase.orientation,
        phase.linear_momentum + linear,
        phase.angular_momentum + angular,
    )


def _expand(tree, axis: int):
    return jax.tree.map(lambda leaf: jnp.expand_dims(leaf, axis), tree)
