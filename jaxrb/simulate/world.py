"""The world: bodies, obstacles, gravity and a contact law."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from .._validate import real_array, require
from ..bodies import Pin, RigidBody
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

    Raises:
        ValueError: naming the argument that is not understood.
    """

    bodies: tuple[RigidBody, ...]
    obstacles: tuple[HalfSpace, ...]
    joints: tuple[Pin, ...]
    gravity: Float[Array, "3"]
    contact_law: AbstractContactLaw

    def __init__(
        self,
        bodies: Sequence[RigidBody],
        obstacles: Sequence[HalfSpace] = (),
        joints: Sequence = (),
        gravity=(0.0, 0.0, -9.81),
        contact_law: AbstractContactLaw | None = None,
        forces: Sequence = (),
    ):
        self.bodies = _instances(bodies, RigidBody, "World.bodies")
        if not self.bodies:
            raise ValueError("World.bodies must hold at least one RigidBody.")
        self.obstacles = _instances(obstacles, HalfSpace, "World.obstacles")
        self.joints = _instances(joints, Pin, "World.joints")
        self._check_joints()
        if len(forces):
            raise ValueError("World.forces must be empty: no kind of forces is supported.")
        self.gravity = real_array(gravity, "World.gravity", (3,))
        require(self.gravity, "World.gravity", np.isfinite, "finite")
        self.contact_law = Frictionless() if contact_law is None else contact_law
        if not isinstance(self.contact_law, AbstractContactLaw):
            raise ValueError(
                f"World.contact_law must be a contact law; got {type(contact_law).__name__}."
            )

    def _check_joints(self):
        pinned = [pin.body for pin in self.joints]
        if any(body >= len(self.bodies) for body in pinned):
            raise ValueError(
                f"World.joints: there is no body {max(pinned)}; the world has {len(self.bodies)}."
            )
        if len(set(pinned)) < len(pinned):
            raise ValueError("World.joints must hold at most one Pin for each body.")
        if pinned and self.obstacles:
            raise ValueError(
                "World.obstacles must be empty in a world with joints: impacts of pinned bodies "
                "are not supported."
            )

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
