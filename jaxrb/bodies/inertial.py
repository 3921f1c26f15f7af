"""Masses and inertia tensors of all bodies in component form."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ..math import InertiaTensor, Vec3
from ..math.small import stack_inertia
from .phase import Phase
from .rigid_body import RigidBody


class Inertial(eqx.Module):
    """Masses and inertia tensors; components of shape (n_bodies,)."""

    mass: Float[Array, " n_bodies"]
    inertia: InertiaTensor

    @staticmethod
    def of(bodies: Sequence[RigidBody], dtype: DTypeLike) -> Inertial:
        inertial = Inertial(
            jnp.stack([body.mass for body in bodies]),
            stack_inertia([body.inertia_tensor() for body in bodies]),
        )
        return jax.tree.map(lambda leaf: leaf.astype(dtype), inertial)

    def velocity(self, phase: Phase) -> Vec3:
        """Of the centres of mass, world [m/s]."""
        return phase.linear_momentum / self.mass

    def angular_velocity(self, phase: Phase) -> Vec3:
        """In the body frame [rad/s]."""
        return self.inertia.solve(phase.angular_momentum)
