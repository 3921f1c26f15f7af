"""Masses and inertia tensors of all bodies in component form."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float

from ..math import (
    InertiaTensor,
    Sym3,
    Vec3,
    cross,
    dot,
    hadamard,
    rotate,
    rotate_inverse,
    tree_where,
    zeros_like,
)
from ..math.principal import PrincipalAxes
from ..math.small import stack_inertia
from .joints.pin import Pin
from .phase import Phase
from .rigid_body import RigidBody, all_centered


class Pivot(eqx.Module):
    """The points about which bodies turn; components of shape (n_bodies,).

    A free body turns about its centre of mass.
    """

    pinned: Bool[Array, " n_bodies"]
    arm: Vec3  # from the pivot to the centre of mass, body frame [m]; 0 of a free body
    point: Vec3  # world [m]
    inertia: InertiaTensor  # about the pivot, body frame [kg m^2]


class Inertial(eqx.Module):
    """Masses and inertia tensors; components of shape (n_bodies,)."""

    mass: Float[Array, " n_bodies"]
    inertia: InertiaTensor  # about the centres of mass
    pivot: Pivot | None = None  # None where no body is pinned
    principal: PrincipalAxes | None = None  # None where the flow does not need them

    @staticmethod
    def of(
        bodies: Sequence[RigidBody],
        dtype: DTypeLike,
        pins: Sequence[Pin | None] = (),
        *,
        principal: bool = False,
    ) -> Inertial:
        """The inertial numbers of bodies, each with its pin or None; by default all are free.

        With `principal` their principal axes are found, too.
        """
        mass = jnp.stack([body.mass for body in bodies])
        inertia = stack_inertia([body.inertia_tensor() for body in all_centered(bodies)])
        pivot = _pivot(mass, inertia, pins) if any(pin is not None for pin in pins) else None
        # Only the numbers: which bodies are pinned has no precision.
        numbers, rest = eqx.partition(Inertial(mass, inertia, pivot), eqx.is_inexact_array)
        found = eqx.combine(jax.tree.map(lambda leaf: leaf.astype(dtype), numbers), rest)
        if not principal:
            return found
        return Inertial(found.mass, found.inertia, found.pivot, PrincipalAxes.of(found.inertia))

    def velocity(self, phase: Phase) -> Vec3:
        """The velocities of the centres of mass, world frame [m/s]."""
        return phase.linear_momentum / self.mass

    def angular_velocity(self, phase: Phase) -> Vec3:
        """The angular velocities, body frames [rad/s]."""
        return self.inertia.solve(phase.angular_momentum)

    def pushed(self, phase: Phase, force: Vec3, torque: Vec3) -> Phase:
        """The phase after impulses: through the centres of mass, world [N s], and about them, body
        frames [N m s]. Pinned bodies turn about their points, whose reaction does the rest."""
        pivot = self.pivot
        linear, angular = phase.linear_momentum + force, phase.angular_momentum + torque
        if pivot is not None:
            q = phase.orientation
            about = torque + cross(pivot.arm, rotate_inverse(q, force))
            change = pivot.inertia.solve(about)
            held = (
                phase.linear_momentum + rotate(q, cross(change, pivot.arm)) * self.mass,
                phase.angular_momentum + self.inertia.matvec(change),
            )
            linear, angular = tree_where(pivot.pinned, held, (linear, angular))
        return Phase(phase.position, phase.orientation, linear, angular, phase.stretch)

    def with_pins(
        self, inverse_mass: Float[Array, "..."], phase: Phase, normal: Vec3, lever: Vec3
    ) -> Float[Array, "..."]:
        """The rate of a point of each body along a normal by an impulse of 1 N s along it there
        [1/kg]: of pinned bodies about their points, of free ones as given.

        Args:
            inverse_mass: of free bodies [1/kg].
            phase: of the bodies.
            normal: unit, world.
            lever: rho x R^T n about the centre of mass, body frame [m].
        """
        if self.pivot is None:
            return inverse_mass
        arm, pinned = self.pivot.arm, self.pivot.pinned
        about = lever + cross(arm, rotate_inverse(phase.orientation, normal))
        # Where the normal passes through the pin nothing moves, and nothing closes: any number
        # serves but zero, by which impulses would be divided.
        round_off = 8 * jnp.finfo(inverse_mass.dtype).eps
        pinned &= dot(about, about) > round_off**2 * (dot(arm, arm) + dot(lever, lever))
        return jnp.where(pinned, dot(about, self.pivot.inertia.solve(about)), inverse_mass)

    def constraint_violation(self, phase: Phase) -> tuple[Vec3, Vec3]:
        """The distance of pinned bodies from their points [m] and their slip there [m/s]; 0 for
        free ones."""
        pivot = self.pivot
        if pivot is None:
            return zeros_like(phase.position), zeros_like(phase.position)
        q, omega = phase.orientation, self.angular_velocity(phase)
        off = phase.position - pivot.point - rotate(q, pivot.arm)
        slip = self.velocity(phase) - rotate(q, cross(omega, pivot.arm))
        return tree_where(pivot.pinned, (off, slip), zeros_like((off, slip)))

    def about_pivot(self) -> InertiaTensor:
        """The inertia about the points about which the bodies turn."""
        return self.inertia if self.pivot is None else self.pivot.inertia


def _pivot(mass: Float[Array, " n_bodies"], inertia: InertiaTensor, pins) -> Pivot:
    def stack(number) -> Vec3:
        rows = [jnp.zeros(3) if pin is None else number(pin) for pin in pins]
        return Vec3.of(jnp.stack([row.astype(mass.dtype) for row in rows]))

    arm = stack(lambda pin: -pin.anchor)
    central = inertia.to_sym()
    square = mass * dot(arm, arm)  # Steiner's theorem: J + m (a.a - a a^T)
    along = hadamard(arm, arm) * mass
    aside = Vec3(arm.y * arm.z, arm.x * arm.z, arm.x * arm.y) * mass
    about = Sym3(
        central.diagonal + Vec3(square - along.x, square - along.y, square - along.z),
        central.off - aside,
    )
    pinned = jnp.array([pin is not None for pin in pins])
    return Pivot(pinned, arm, stack(lambda pin: pin.point), about)
