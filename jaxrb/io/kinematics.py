"""Poses and velocities of bodies from MuJoCo's coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import State
from ..math import Quat, Vec3, rotate
from .freedoms import kinds_of
from .welded_groups import Group


class _Frame(NamedTuple):
    """A pose in the world."""

    position: Vec3
    turn: Quat


class _Coordinate(eqx.Module):
    """A joint of MuJoCo and its places in qpos and qvel."""

    kind: str = eqx.field(static=True)
    at: int = eqx.field(static=True)
    rate_at: int = eqx.field(static=True)
    anchor: Float[Array, "3"]
    axis: Float[Array, "3"]
    start: Float[Array, ""]  # in the initial pose

    @staticmethod
    def of(model: Any, joint: int, kind: str) -> _Coordinate:
        at = int(model.jnt_qposadr[joint])
        return _Coordinate(
            kind,
            at,
            int(model.jnt_dofadr[joint]),
            as_jax(model.jnt_pos[joint]),
            as_jax(model.jnt_axis[joint]),
            as_jax(model.qpos0[at]),
        )

    def moved(self, frame: _Frame, qpos: Array) -> _Frame:
        """A frame after this joint has moved it."""
        if self.kind == "free":
            return _Frame(Vec3.of(qpos[self.at : self.at + 3]), self._quaternion(qpos).normalized())
        axis = Vec3.of(self.axis.astype(qpos.dtype))
        if self.kind == "slide":
            shift = axis * self._moved_by(qpos)
            return _Frame(frame.position + rotate(frame.turn, shift), frame.turn)
        if self.kind == "ball":
            turn = frame.turn * self._quaternion(qpos).normalized()
        else:
            half = self._moved_by(qpos) / 2
            turn = frame.turn * Quat(jnp.cos(half), axis * jnp.sin(half))
        anchor = Vec3.of(self.anchor.astype(qpos.dtype))
        held = frame.position + rotate(frame.turn, anchor)
        return _Frame(held - rotate(turn, anchor), turn)

    def with_rate(self, rates: Array, qpos: Array, qvel: Array) -> Array:
        """The rates of qpos with those of this joint."""
        at, rate_at = self.at, self.rate_at
        if self.kind in ("hinge", "slide"):
            return rates.at[at].set(qvel[rate_at])
        if self.kind == "free":
            rates = rates.at[at : at + 3].set(qvel[rate_at : rate_at + 3])
            at, rate_at = at + 3, rate_at + 3
        omega = Vec3.of(qvel[rate_at : rate_at + 3])
        turning = self._quaternion(qpos) * Quat(jnp.zeros_like(omega.x), omega / 2)
        return rates.at[at : at + 4].set(turning.array())

    def _quaternion(self, qpos: Array) -> Quat:
        at = self.at + 3 if self.kind == "free" else self.at
        return Quat.of(qpos[at : at + 4])

    def _moved_by(self, qpos: Array) -> Array:
        return qpos[self.at] - self.start.astype(qpos.dtype)


class _Link(eqx.Module):
    """A body, what carries it, and the joints between."""

    carrier: int | None = eqx.field(static=True)
    seat: Float[Array, "3"]
    seat_turn: Float[Array, "4"]
    center: Float[Array, "3"]
    coordinates: tuple[_Coordinate, ...]

    @staticmethod
    def of(mujoco: Any, model: Any, group: Group) -> _Link:
        kinds = kinds_of(mujoco, model, group.joints)
        return _Link(
            group.carrier,
            as_jax(group.seat.position),
            as_jax(group.seat.turn.as_quat(scalar_first=True)),
            as_jax(group.inertial.center),
            tuple(_Coordinate.of(model, j, k) for j, k in zip(group.joints, kinds, strict=True)),
        )

    def frame(self, frames: Sequence[_Frame], qpos: Array) -> _Frame:
        """The frame of the body, from those of the bodies before it."""
        position = Vec3.of(self.seat.astype(qpos.dtype))
        turn = Quat.of(self.seat_turn.astype(qpos.dtype))
        if self.carrier is not None:
            beneath = frames[self.carrier]
            position = beneath.position + rotate(beneath.turn, position)
            turn = beneath.turn * turn
        frame = _Frame(position, turn)
        for coordinate in self.coordinates:
            frame = coordinate.moved(frame, qpos)
        return frame


class Kinematics(eqx.Module):
    """The bodies of a model as a function of its coordinates, in JAX.

    Attributes:
        n_positions, n_velocities: the lengths of qpos and qvel.
    """

    n_positions: int = eqx.field(static=True)
    n_velocities: int = eqx.field(static=True)
    links: tuple[_Link, ...]

    @staticmethod
    def of(mujoco: Any, model: Any, groups: Sequence[Group]) -> Kinematics:
        """Those of a compiled model."""
        links = tuple(_Link.of(mujoco, model, group) for group in groups)
        return Kinematics(int(model.nq), int(model.nv), links)

    def state(self, qpos: Float[Array, " nq"], qvel: Float[Array, " nv"]) -> State:
        """The state of the bodies at coordinates and their velocities."""
        rates = jnp.zeros_like(qpos)
        for link in self.links:
            for coordinate in link.coordinates:
                rates = coordinate.with_rate(rates, qpos, qvel)
        (position, turn), (velocity, turning) = jax.jvp(self._poses, (qpos,), (rates,))
        omega = (turn.conjugate() * turning).v * 2.0
        return State(position.array(), turn.array(), velocity.array(), omega.array())

    def _poses(self, qpos: Array) -> tuple[Vec3, Quat]:
        """Centres of mass and attitudes; components of shape (n_bodies,)."""
        frames: list[_Frame] = []
        for link in self.links:
            frames.append(link.frame(frames, qpos))
        centers = [
            frame.position + rotate(frame.turn, Vec3.of(link.center.astype(qpos.dtype)))
            for frame, link in zip(frames, self.links, strict=True)
        ]
        turns = [frame.turn for frame in frames]
        stack = lambda *parts: jnp.stack(jnp.broadcast_arrays(*parts))  # noqa: E731
        return jax.tree.map(stack, *centers), jax.tree.map(stack, *turns)


def as_jax(values: Any) -> Float[Array, "..."]:
    """A copy of MuJoCo's numbers, in the precision of JAX."""
    return jnp.asarray(np.array(values))
