"""The world: bodies, obstacles, gravity, forces and a contact law."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._validate import real_array, require
from ..bodies import ConstantForce, Pin, RigidBody
from ..impact import AbstractContactLaw, Frictionless
from ..shapes import HalfSpace


class World(eqx.Module):
    """What moves, what it can hit, and by which laws. Every number in it can be differentiated.

    Attributes:
        bodies: at least one.
        obstacles: immovable; every body can hit every one of them. A world with joints has
            none.
        joints: at most one `Pin` a body.
        gravity: acceleration, world frame [m/s^2], shape (3,).
        contact_law: what happens at an impact.
        forces: on bodies, besides gravity; any number a body.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    bodies: tuple[RigidBody, ...]
    obstacles: tuple[HalfSpace, ...]
    joints: tuple[Pin, ...]
    gravity: Float[Array, "3"]
    contact_law: AbstractContactLaw
    forces: tuple[ConstantForce, ...]

    def __init__(
        self,
        bodies: Sequence[RigidBody],
        obstacles: Sequence[HalfSpace] = (),
        joints: Sequence = (),
        gravity=(0.0, 0.0, -9.81),
        contact_law: AbstractContactLaw | None = None,
        forces: Sequence[ConstantForce] = (),
    ):
        self.bodies = _instances(bodies, RigidBody, "World.bodies")
        if not self.bodies:
            raise ValueError("World.bodies must hold at least one RigidBody.")
        self.obstacles = _instances(obstacles, HalfSpace, "World.obstacles")
        self.joints = _instances(joints, Pin, "World.joints")
        self._check_joints()
        self.forces = _instances(forces, ConstantForce, "World.forces")
        self._check_indices([force.body for force in self.forces], "World.forces")
        self.gravity = real_array(gravity, "World.gravity", (3,))
        require(self.gravity, "World.gravity", np.isfinite, "finite")
        self.contact_law = Frictionless() if contact_law is None else contact_law
        if not isinstance(self.contact_law, AbstractContactLaw):
            raise ValueError(
                f"World.contact_law must be a contact law; got {type(contact_law).__name__}."
            )

    def _check_joints(self):
        pinned = [pin.body for pin in self.joints]
        self._check_indices(pinned, "World.joints")
        if len(set(pinned)) < len(pinned):
            raise ValueError("World.joints must hold at most one Pin for each body.")
        if pinned and self.obstacles:
            raise ValueError(
                "World.obstacles must be empty in a world with joints: impacts of pinned bodies "
                "are not supported."
            )

    def _check_indices(self, indices: Sequence[int], name: str):
        if any(body >= len(self.bodies) for body in indices):
            raise ValueError(
                f"{name}: there is no body {max(indices)}; the world has {len(self.bodies)}."
            )

    def accelerations(self) -> Float[Array, "n_bodies 3"]:
        """Of the centres of mass of free bodies by gravity and forces, world frame [m/s^2]."""
        rows = [self.gravity] * len(self.bodies)
        for force in self.forces:
            rows[force.body] = rows[force.body] + force.force / self.bodies[force.body].mass
        return jnp.stack(rows)

    @property
    def pins(self) -> tuple[Pin | None, ...]:
        """One for each body; None of a free one."""
        of_body = {pin.body: pin for pin in self.joints}
        return tuple(of_body.get(index) for index in range(len(self.bodies)))


def _instances(values, kind: type, name: str) -> tuple:
    if isinstance(values, kind):
        raise ValueError(f"{name} must be a sequence; put brackets around the {kind.__name__}.")
    values = tuple(values)
    for index, value in enumerate(values):
        if not isinstance(value, kind):
            raise ValueError(
                f"{name}[{index}] must be a {kind.__name__}; got {type(value).__name__}."
            )
    return values
