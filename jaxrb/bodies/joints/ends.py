"""The two ends of joints of one kind, stacked, and what acts on the bodies there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ...math import Quat, Vec3, cross, dot, rotate, rotate_inverse, tree_where, zeros_like
from ..incidence import Incidence
from ..phase import Phase
from .base import AbstractJoint

Numbered = Sequence[tuple[int, AbstractJoint]]  # with their places in `World.joints`


class Pose(NamedTuple):
    """The two bodies of each joint; components of shape (n_joints,)."""

    turn: Quat  # of the body, to the world
    other_turn: Quat
    arm: Vec3  # from the centre of mass to the anchor, body frame [m]
    other_arm: Vec3
    separation: Vec3  # from the other anchor to the anchor, world [m]

    def into_other(self, a: Vec3) -> Vec3:
        """A vector of the body frame, in the frame of the other body."""
        return rotate_inverse(self.other_turn, rotate(self.turn, a))

    def from_other(self, a: Vec3) -> Vec3:
        """A vector of the frame of the other body, in the body frame."""
        return rotate_inverse(self.turn, rotate(self.other_turn, a))


class Row(NamedTuple):
    """How the rate of one number of each joint depends on velocities: it is

        linear . (v - v') + lever . Omega + other_lever . Omega'

    with those of the body and of the other one; components of shape (n_joints,).
    """

    linear: Vec3  # world
    lever: Vec3  # body frame
    other_lever: Vec3  # frame of the other body


class Ends(eqx.Module):
    """Joints of one kind; components of shape (n_joints,)."""

    joints: tuple[int, ...] = eqx.field(static=True)  # places in `World.joints`
    first: Incidence
    second: Incidence  # -1: the world
    anchor: Vec3
    other_anchor: Vec3

    @staticmethod
    def of(joints: Numbered, place: np.ndarray | None, dtype: DTypeLike) -> Ends:
        """The ends of joints.

        Args:
            joints: at least one.
            place: of each body in the phase, by its number in the world; None: the same.
            dtype: of the numbers.
        """
        at = (lambda index: index) if place is None else (lambda index: int(place[index]))
        return Ends(
            tuple(number for number, _ in joints),
            Incidence(tuple(at(joint.body) for _, joint in joints)),
            Incidence(tuple(-1 if j.other is None else at(j.other) for _, j in joints)),
            stacked([joint.anchor for _, joint in joints], dtype),
            stacked([joint.held_at() for _, joint in joints], dtype),
        )

    def pose(self, phase: Phase) -> Pose:
        """Where the bodies are."""
        position, turn = self.first.gather((phase.position, phase.orientation))
        other_position, other_turn = self._others(phase)
        here = position + rotate(turn, self.anchor)
        there = other_position + rotate(other_turn, self.other_anchor)
        return Pose(turn, other_turn, self.anchor, self.other_anchor, here - there)

    def _others(self, phase: Phase) -> tuple[Vec3, Quat]:
        zero = jnp.zeros_like(self.anchor.x)
        at_rest = Vec3(zero, zero, zero), Quat(zero + 1, Vec3(zero, zero, zero))
        world = np.array(self.second.bodies) < 0
        if world.all():
            return at_rest
        found = self.second.gather((phase.position, phase.orientation))
        return tree_where(jnp.asarray(world), at_rest, found) if world.any() else found


class Side(eqx.Module):
    """What rows do to the bodies on one of their sides; components of shape (n_rows,).

    Where that is the world, all are zero.
    """

    incidence: Incidence  # its `bodies` in the order of the phase, -1: the world
    linear: Vec3  # world
    lever: Vec3  # body frame


class Directions(eqx.Module):
    """The directions of rows: the rate of a row's number is the sum over both sides of
    linear . v + lever . Omega, with the velocity v of the centre of mass, world frame [m/s], and
    the angular velocity Omega, body frame [rad/s]."""

    sides: tuple[Side, Side]

    @staticmethod
    def of(parts: Sequence[tuple[Ends, Sequence[Row]]]) -> Directions:
        """Those of the rows of several kinds of joints, one after the other."""
        rows = [(ends, row) for ends, own in parts for row in own]
        first = tuple(body for ends, _ in rows for body in ends.first.bodies)
        second = tuple(body for ends, _ in rows for body in ends.second.bodies)
        linear = joined([row.linear for _, row in rows])
        none = np.array(second) < 0
        away = joined([row.other_lever for _, row in rows])
        opposite = -linear
        if none.any():
            opposite, away = tree_where(
                jnp.asarray(none), zeros_like((opposite, away)), (opposite, away)
            )
        return Directions(
            (
                Side(Incidence(first), linear, joined([row.lever for _, row in rows])),
                Side(Incidence(second), opposite, away),
            )
        )

    def followed_by(self, others: Directions) -> Directions:
        """Those of these rows, then those of others."""
        first, second = (
            Side(
                Incidence(own.incidence.bodies + more.incidence.bodies),
                joined([own.linear, more.linear]),
                joined([own.lever, more.lever]),
            )
            for own, more in zip(self.sides, others.sides, strict=True)
        )
        return Directions((first, second))

    def times(self, factor: Float[Array, " n_rows"]) -> Directions:
        """Those of the numbers times a factor each."""
        scaled = [
            Side(side.incidence, side.linear * factor, side.lever * factor) for side in self.sides
        ]
        return Directions((scaled[0], scaled[1]))

    def rate(self, velocity: Vec3, angular_velocity: Vec3) -> Float[Array, " n_rows"]:
        """The rates of the rows' numbers, from the velocities of all bodies."""
        total = jnp.zeros_like(self.sides[0].linear.x)
        for side in self.sides:
            v, omega = side.incidence.gather((velocity, angular_velocity))
            total = total + dot(side.linear, v) + dot(side.lever, omega)
        return total

    @property
    def bodies(self) -> tuple[int, ...]:
        """The bodies on which they act, in the order of the phase, each once."""
        both = {body for side in self.sides for body in side.incidence.bodies}
        return tuple(sorted(both - {-1}))

    def matrix(self, bodies: Sequence[int]) -> Float[Array, "n_rows columns"]:
        """What multiplies the velocities of bodies in `rate`: of each body in a row three columns
        of its velocity and three of its angular velocity."""

        def of(side: Side) -> Float[Array, "n_rows n_bodies 6"]:
            own = jnp.concatenate([side.linear.array(), side.lever.array()], axis=-1)
            here = np.array(side.incidence.bodies)[:, None] == np.array(bodies)[None]
            return jnp.where(here[..., None], own[:, None], 0.0)

        total = of(self.sides[0]) + of(self.sides[1])
        return total.reshape(total.shape[0], -1)

    def push(self, size: Float[Array, " n_rows"], n_bodies: int) -> tuple[Vec3, Vec3]:
        """The forces at the centres of mass, world frame, and the torques about them, body frames,
        on all bodies, by forces of a size along the rows; or impulses by impulses."""
        pushes = [
            side.incidence.scatter((side.linear * size, side.lever * size), n_bodies)
            for side in self.sides
        ]
        (force, torque), (other_force, other_torque) = pushes
        return force + other_force, torque + other_torque


def point_row(pose: Pose, direction: Vec3, held: Vec3) -> Row:
    """Of the anchor's separation along a direction.

    Args:
        pose: of the bodies.
        direction: world.
        held: the point about which the direction turns with the other body, from its centre of
            mass and in its frame [m]. Its own anchor for a direction that does not turn.
    """
    here = rotate_inverse(pose.turn, direction)
    there = rotate_inverse(pose.other_turn, direction)
    return Row(direction, cross(pose.arm, here), -cross(held, there))


def turning_row(pose: Pose, direction: Vec3) -> Row:
    """Of the relative rotation about a direction of the body frame."""
    zero = jnp.zeros_like(direction.x)
    return Row(Vec3(zero, zero, zero), direction, -pose.into_other(direction))


def stacked(arrays: Sequence[Float[Array, "3"]], dtype: DTypeLike) -> Vec3:
    """Vectors as one with components of shape (n,)."""
    return Vec3.of(jnp.stack([array.astype(dtype) for array in arrays]))


def joined(vectors: Sequence[Vec3]) -> Vec3:
    """Vectors with components of shapes (n,) one after the other."""
    return Vec3(
        jnp.concatenate([vector.x for vector in vectors]),
        jnp.concatenate([vector.y for vector in vectors]),
        jnp.concatenate([vector.z for vector in vectors]),
    )
