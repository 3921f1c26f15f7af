"""The world: bodies, obstacles, joints, gravity, forces and a contact law."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._text import described
from .._validate import real_array, require
from ..bodies import AbstractJoint, AbstractLoad, ConstantForce, Pin, RigidBody
from ..contact import Moving
from ..impact import AbstractContactLaw, Frictionless
from ..impact.laws import of_one_kind
from ..shapes.base import AbstractShape
from .describe import describe_world
from .pair_law import PairLaw


class World(eqx.Module):
    """What moves, what it can hit, and by which laws. Every number in it can be differentiated.

    Attributes:
        bodies: at least one.
        obstacles: shapes in the world's frame, immovable, or `Moving`. Any solid, half-space or
            cavity (`Complement`, `Difference`) whose gap to the bodies that can hit it can be
            computed.
        joints: any number of `Pin`, `Hinge`, `Universal`, `Gimbal`, `Slider`, `Planar`, `Weld` and
            `Distance`, between bodies and to the world. A flow by itself knows worlds whose joints
            are pins to the world, at most one for each body; others need
            `EventDriven(..., on_zeno="rest")`, their default.
        gravity: acceleration, world frame [m/s^2], shape (3,).
        contact_law: what happens at an impact, any law; by default `Frictionless()`, without any
            loss.
        forces: on bodies, besides gravity; any number per body.
        pairs: indices of the bodies that can hit each other, i < j; by default all pairs but those
            that a joint ties together.
        obstacle_pairs: (body, obstacle), the indices of each body and each obstacle that can hit
            each other; by default None: every body can hit every obstacle. What is left out costs
            nothing.
        pair_laws: laws of single pairs in place of `contact_law`; the last that fits holds. All
            laws of a world are of one kind, `Frictionless` ones besides.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    bodies: tuple[RigidBody, ...]
    obstacles: tuple[AbstractShape | Moving, ...]
    joints: tuple[AbstractJoint, ...]
    gravity: Float[Array, "3"]
    contact_law: AbstractContactLaw
    forces: tuple[AbstractLoad, ...]
    pairs: tuple[tuple[int, int], ...] = eqx.field(static=True)
    # Not a list of them all by default: of many bodies JAX would compare it in each call.
    obstacle_pairs: tuple[tuple[int, int], ...] | None = eqx.field(static=True)
    pair_laws: tuple[PairLaw, ...]

    def __init__(
        self,
        bodies: Sequence[RigidBody],
        obstacles: Sequence[AbstractShape | Moving] = (),
        joints: Sequence = (),
        gravity=(0.0, 0.0, -9.81),
        contact_law: AbstractContactLaw | None = None,
        forces: Sequence[AbstractLoad] = (),
        pairs: Sequence[tuple[int, int]] | None = None,
        pair_laws: Sequence[PairLaw] = (),
        *,
        obstacle_pairs: Sequence[tuple[int, int]] | None = None,
    ):
        self.bodies = _instances(bodies, RigidBody, "World.bodies")
        if not self.bodies:
            raise ValueError("World.bodies must hold at least one RigidBody.")
        self.obstacles = _instances(obstacles, AbstractShape | Moving, "World.obstacles")
        self.joints = _instances(joints, AbstractJoint, "World.joints")
        self._check_indices([i for joint in self.joints for i in joint.bodies], "World.joints")
        self.forces = _instances(forces, AbstractLoad, "World.forces")
        self._check_indices([i for load in self.forces for i in load.bodies], "World.forces")
        for load in self.forces:
            load.check_joints(self.joints)
        self.pairs = self._pairs(pairs)
        self.obstacle_pairs = self._obstacle_pairs(obstacle_pairs)
        self.gravity = real_array(gravity, "World.gravity", (3,))
        require(self.gravity, "World.gravity", np.isfinite, "finite")
        self.contact_law = Frictionless() if contact_law is None else contact_law
        if not isinstance(self.contact_law, AbstractContactLaw):
            raise ValueError(
                f"World.contact_law must be a contact law; got {type(contact_law).__name__}."
            )
        self.pair_laws = _instances(pair_laws, PairLaw, "World.pair_laws")
        self._check_laws()

    def __repr__(self) -> str:
        return described(describe_world, self)

    def _check_laws(self):
        self._check_indices([special.body for special in self.pair_laws], "World.pair_laws")
        pairs, with_obstacles = set(self.pairs), set(self.obstacle_pairs or ())
        for special in self.pair_laws:
            if special.obstacle is not None:
                self._check_obstacle(special.obstacle, "World.pair_laws")
                pair = special.body, special.obstacle
                if self.obstacle_pairs is not None and pair not in with_obstacles:
                    raise ValueError(
                        f"World.pair_laws: body {special.body} and obstacle {special.obstacle} "
                        "are none of World.obstacle_pairs."
                    )
            if special.other is not None and special.bodies not in pairs:
                raise ValueError(
                    f"World.pair_laws: the bodies {special.bodies} are none of World.pairs."
                )
        try:
            of_one_kind(self._laws)
        except ValueError as error:
            raise ValueError(f"World.contact_law and World.pair_laws must be {error}") from None

    @property
    def _laws(self) -> list[AbstractContactLaw]:
        return [self.contact_law, *(special.law for special in self.pair_laws)]

    @property
    def takes_args(self) -> bool:
        """Whether anything in it is given the args of `simulate`."""
        return bool(self.forces) or any(isinstance(o, Moving) for o in self.obstacles)

    @property
    def elastic(self) -> bool:
        """Whether no impact is known to lose energy, so that none can bring a body to rest."""
        return all(law.elastic for law in self._laws)

    @property
    def frictional(self) -> bool:
        """Whether there is friction at any contact."""
        return any(law.frictional for law in self._laws)

    def _pairs(self, pairs: Sequence[tuple[int, int]] | None) -> tuple[tuple[int, int], ...]:
        if pairs is None:
            tied = {tuple(sorted(joint.bodies)) for joint in self.joints}
            every = combinations(range(len(self.bodies)), 2)
            return tuple(pair for pair in every if pair not in tied)
        found = {}  # keys in their order
        for pair in _sequence(pairs, "World.pairs"):
            i, j = sorted(_indices(pair, "World.pairs"))
            if i == j or i < 0 or (i, j) in found:
                raise ValueError(
                    f"World.pairs must hold pairs of different bodies, each once; got {pair!r}."
                )
            found[i, j] = None
        self._check_indices([j for _, j in found], "World.pairs")
        return tuple(found)

    def _obstacle_pairs(
        self, pairs: Sequence[tuple[int, int]] | None
    ) -> tuple[tuple[int, int], ...] | None:
        if pairs is None:
            return None
        name = "World.obstacle_pairs"
        found = {}  # keys in their order
        for pair in _sequence(pairs, name):
            body, obstacle = _indices(pair, name)
            if body < 0 or obstacle < 0 or (body, obstacle) in found:
                raise ValueError(
                    f"{name} must hold pairs of a body and an obstacle, each once; got {pair!r}."
                )
            found[body, obstacle] = None
        self._check_indices([body for body, _ in found], name)
        for _, obstacle in found:
            self._check_obstacle(obstacle, name)
        return tuple(found)

    def _check_obstacle(self, obstacle: int, name: str):
        if obstacle >= len(self.obstacles):
            raise ValueError(
                f"{name}: there is no obstacle {obstacle}; the world has {len(self.obstacles)}."
            )

    def _check_indices(self, indices: Sequence[int], name: str):
        if any(body >= len(self.bodies) for body in indices):
            raise ValueError(
                f"{name}: there is no body {max(indices)}; the world has {len(self.bodies)}."
            )

    def accelerations(self) -> Float[Array, "n_bodies 3"]:
        """Accelerations of free bodies by gravity and constant forces, world frame [m/s^2]."""
        rows = [self.gravity] * len(self.bodies)
        for force in self.forces:
            if isinstance(force, ConstantForce):
                mass = self.bodies[force.body].mass
                rows[force.body] = rows[force.body] + force.force / mass
        return jnp.stack(rows)

    @property
    def pins(self) -> tuple[Pin | None, ...]:
        """One for each body, None of a free one; all None in a world with other joints."""
        of_body: dict[int, Pin] = {}
        if self.joints_beyond_pins is None:
            of_body = {pin.body: pin for pin in self.joints if isinstance(pin, Pin)}
        return tuple(of_body.get(index) for index in range(len(self.bodies)))

    @property
    def joints_beyond_pins(self) -> str | None:
        """What is more in the joints than pins to the world, at most one for each body; None if
        nothing is."""
        held = set()
        for index, joint in enumerate(self.joints):
            name = f"World.joints[{index}]"
            if not isinstance(joint, Pin):
                return f"{name} is a {type(joint).__name__}"
            if joint.other is not None:
                return f"{name} is a Pin between two bodies"
            if joint.body in held:
                return f"{name} is one more Pin of body {joint.body}"
            held.add(joint.body)
        return None


def _sequence(pairs: Any, name: str) -> Iterable[Any]:
    """What holds pairs of indices, as it was given."""
    if not isinstance(pairs, Iterable):
        raise ValueError(f"{name} must hold pairs of indices such as (0, 1); got {pairs!r}.")
    return pairs


def _indices(pair: Any, name: str) -> tuple[int, int]:
    """A pair of indices, as it was given."""
    try:
        first, second = (operator.index(number) for number in pair)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must hold pairs of indices such as (0, 1); got {pair!r}."
        ) from error
    return first, second


def _instances(values, kind: Any, name: str) -> tuple:
    if isinstance(values, kind):
        own = type(values).__name__
        raise ValueError(f"{name} must be a sequence; put brackets around the {own}.")
    values = tuple(values)
    for index, value in enumerate(values):
        if not isinstance(value, kind):
            raise ValueError(
                f"{name}[{index}] must be {_article(kind)}; got {type(value).__name__}."
            )
    return values


def _article(kind: Any) -> str:
    if kind is AbstractLoad:
        return "a force, such as Spring"
    if kind is AbstractJoint:
        return "a joint, such as Pin"
    return "a shape or a Moving one" if kind == AbstractShape | Moving else f"a {kind.__name__}"
