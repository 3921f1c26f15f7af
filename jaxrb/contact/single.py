"""One contact by itself, in its own frame: what a frictional impact needs."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Inertial, Phase
from ..math import (
    InertiaTensor,
    Quat,
    Sym3,
    Vec3,
    cross,
    dot,
    rotate,
    rotate_inverse,
    tree_where,
    zeros_like,
)
from ..math.materialize import compute_once


class Side(eqx.Module):
    """One of the two that touch; every component has shape ()."""

    body: Bool[Array, " n_bodies"]  # which one it is; none of them if it is immovable
    orientation: Quat
    arm: Vec3  # from the centre of mass to the contact, body frame [m]

    @staticmethod
    def of(phase: Phase, body: Bool[Array, " n_bodies"], arm: Vec3) -> Side:
        """The side of a body."""
        q = at(body, phase.orientation)
        return Side(body, Quat(jnp.where(jnp.any(body), q.w, 1.0), q.v), arm)

    def velocity(self, phase: Phase, inertial: Inertial) -> Vec3:
        """The velocity of the point of contact, world frame [m/s]."""
        around = cross(at(self.body, inertial.angular_velocity(phase)), self.arm)
        return at(self.body, inertial.velocity(phase)) + rotate(self.orientation, around)


class SingleContact(eqx.Module):
    """A contact of one body with another or with something immovable.

    Every component has shape (). Its frame has z along the normal, into the first body.
    """

    axes: tuple[Vec3, Vec3, Vec3]  # of the contact frame, in the world
    sides: tuple[Side, ...]  # first the body into which the normal points
    inverse_inertia: Sym3  # W, contact frame [1/kg]
    velocity: Vec3  # of the first body's point relative to the second's, contact frame [m/s]

    @staticmethod
    def of(
        normal: Vec3, sides: tuple[Side, ...], drift: Vec3, phase: Phase, inertial: Inertial
    ) -> SingleContact:
        """Of one or two sides, and of an obstacle that moves at the velocity `drift`, world [m/s].

        Without a first side, some contact that recedes.
        """
        none = ~jnp.any(sides[0].body)
        normal = Vec3(normal.x, normal.y, jnp.where(none, 1.0, normal.z))
        axes = (*_tangents(normal), normal)
        velocity = sides[0].velocity(phase, inertial) - drift
        total = _response(axes, sides[0], inertial)
        for side in sides[1:]:
            velocity = velocity - side.velocity(phase, inertial)
            total = jax.tree.map(jnp.add, total, _response(axes, side, inertial))
        idle = jnp.where(none, 1.0, 0.0).astype(normal.x.dtype)
        along = Vec3(*(dot(axis, velocity) for axis in axes))
        inverse = total.diagonal + Vec3(idle, idle, idle)
        # Those along the normal are the units of the impact, in which all its numbers are.
        rate, unit = compute_once((along.z + idle, inverse.z))
        return SingleContact(
            axes,
            sides,
            Sym3(Vec3(inverse.x, inverse.y, unit), total.off),
            Vec3(along.x, along.y, rate),
        )

    def position(self, phase: Phase) -> Vec3:
        """The position of the contact, world frame [m]."""
        side = self.sides[0]
        return at(side.body, phase.position) + rotate(side.orientation, side.arm)

    def impulse_between(self, before: Phase, after: Phase, inertial: Inertial) -> Vec3:
        """The impulse on the first body between two phases, world [N s].

        It is the change of a free body's momentum. Of pinned bodies alone, whose pins add theirs,
        it is that along the normal which changes the normal velocity as it does: without friction.
        """
        normal, first = self.axes[2], self.sides[0]

        def change(of):
            return of(after) - of(before)

        if inertial.pivot is None:
            return change(lambda phase: at(first.body, phase.linear_momentum))
        speed = sum(
            sign * dot(normal, change(lambda phase, side=side: side.velocity(phase, inertial)))
            for side, sign in zip(self.sides, (1, -1), strict=False)
        )
        found = normal * (speed / self.inverse_inertia.diagonal.z)
        for side, sign in reversed(list(zip(self.sides, (1, -1), strict=False))):
            free = jnp.any(side.body & ~inertial.pivot.pinned)
            own = change(lambda phase, side=side: at(side.body, phase.linear_momentum)) * sign
            found = tree_where(free, own, found)
        return found

    def apply(self, impulse: Vec3, phase: Phase, inertial: Inertial) -> Phase:
        """The phase after an impulse on the first body, contact frame [N s] (Jia and Wang,
        eq. 1); the second gets its reaction."""
        first, second, normal = self.axes
        push = first * impulse.x + second * impulse.y + normal * impulse.z
        total = zeros_like((phase.linear_momentum, phase.angular_momentum))
        for side, force in zip(self.sides, (push, -push), strict=False):
            turned = cross(side.arm, rotate_inverse(side.orientation, force))
            total = jax.tree.map(jnp.add, total, _on(side.body, (force, turned)))
        return inertial.pushed(phase, *total)


def at(which: Bool[Array, "..."], tree):
    """The one entry of every leaf for which `which` holds; zero without one."""

    def entry(leaf):
        return jnp.sum(jnp.where(which, jnp.broadcast_to(leaf, which.shape), 0.0))

    return jax.tree.map(entry, tree)


def _on(body: Bool[Array, " n_bodies"], tree):
    return jax.tree.map(lambda leaf: jnp.where(body, leaf, 0.0), tree)


def _response(axes: tuple[Vec3, Vec3, Vec3], side: Side, inertial: Inertial) -> Sym3:
    """What a side adds to W: 1/m - R P J^{-1} P R^T in the contact frame; of a pinned body with P
    and J about its point, and without the first part."""
    free = _rates(axes, side, side.arm, at(side.body, 1 / inertial.mass), inertial.inertia)
    pivot = inertial.pivot
    if pivot is None:
        return free
    about = side.arm + at(side.body, pivot.arm)
    pinned = _rates(axes, side, about, jnp.zeros_like(about.x), pivot.inertia)
    return tree_where(jnp.any(side.body & pivot.pinned), pinned, free)


def _rates(
    axes: tuple[Vec3, Vec3, Vec3],
    side: Side,
    arm: Vec3,
    inverse_mass: Float[Array, ""],
    inertia: InertiaTensor,
) -> Sym3:
    """1/m - R P J^{-1} P R^T for the cross products P with an arm."""
    levers = [cross(arm, rotate_inverse(side.orientation, axis)) for axis in axes]
    turned = [
        at(side.body, inertia.solve(jax.tree.map(lambda leaf: leaf[None], lever)))
        for lever in levers
    ]

    def entry(i, j):
        return dot(levers[i], turned[j]) + (inverse_mass if i == j else 0.0)

    return Sym3(
        Vec3(entry(0, 0), entry(1, 1), entry(2, 2)), Vec3(entry(1, 2), entry(0, 2), entry(0, 1))
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
