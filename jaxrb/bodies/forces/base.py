"""The interface of forces on bodies, for the flows."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ...math import InertiaTensor, Quat, Vec3, cross, rotate
from ..inertial import Inertial
from ..joints.base import AbstractJoint
from ..phase import Phase

Time = Float[Array, ""] | float
Tree = TypeVar("Tree")


class Wrench(eqx.Module):
    """Forces and torques on all bodies; every component has shape (n_bodies,)."""

    force: Vec3  # at the centres of mass, world frame [N]
    torque: Vec3  # about the centres of mass, body frames [N m]

    @staticmethod
    def none(phase: Phase) -> Wrench:
        """No force at all."""
        zero = jnp.zeros_like(phase.position.x)
        return Wrench(Vec3(zero, zero, zero), Vec3(zero, zero, zero))

    def __add__(self, other: Wrench) -> Wrench:
        return Wrench(self.force + other.force, self.torque + other.torque)

    def __sub__(self, other: Wrench) -> Wrench:
        return Wrench(self.force - other.force, self.torque - other.torque)

    def __mul__(self, scale: Time) -> Wrench:
        return Wrench(self.force * scale, self.torque * scale)


class AbstractLoad(eqx.Module):
    """A force on bodies besides gravity.

    All vectors are in component form; bodies are numbered as in the world.
    """

    @property
    @abc.abstractmethod
    def velocity_dependent(self) -> bool:
        """Whether the wrench depends on velocities. Known when a program is made."""

    @property
    @abc.abstractmethod
    def conservative(self) -> bool:
        """Whether `potential` exists; the work of other loads is accounted."""

    @abc.abstractmethod
    def wrench(self, t: Time, phase: Phase, inertial: Inertial, args: Any) -> Wrench:
        """The forces and torques at a time [s], in a phase.

        Args:
            t: time [s].
            phase: positions and momenta of all bodies.
            inertial: gives their velocities.
            args: those of `simulate`.
        """

    def potential(self, phase: Phase) -> Float[Array, ""]:
        """Whose negative gradient the wrench is [J]; only of conservative loads."""
        raise NotImplementedError(f"{type(self).__name__} has no potential.")

    @property
    @abc.abstractmethod
    def bodies(self) -> tuple[int, ...]:
        """Indices of the bodies it names, to be checked by the world."""

    def check_joints(self, joints: Sequence[AbstractJoint]) -> None:
        """Raises `ValueError` if it does not fit to the joints of its world."""

    def in_joints(self, joints: Sequence[AbstractJoint], dtype: DTypeLike) -> AbstractLoad:
        """The load with what it needs to know of the joints of its world, in a precision."""
        return self

    def under_gravity(self, gravity: Float[Array, "3"]) -> AbstractLoad:
        """The load with what it needs to know of the gravity of its world, world frame [m/s^2]."""
        return self

    def parts(self) -> tuple[AbstractLoad, ...]:
        """Loads whose wrenches add up to this one, each with a potential or none.

        Only of a load that has a potential in part, such as a damped spring, they are several.
        """
        return (self,)


class AbstractBodyLoad(AbstractLoad):
    """A load on one body; unless a class says otherwise it does not depend on velocities and has
    no potential.

    Attributes:
        body: index in `World.bodies`.
    """

    body: eqx.AbstractVar[int]

    @property
    def bodies(self) -> tuple[int, ...]:
        return (self.body,)

    @property
    def velocity_dependent(self) -> bool:
        return False

    @property
    def conservative(self) -> bool:
        return False


def of_body(vector: Vec3, index: int) -> Vec3:
    """The vector of one body; components of shape ()."""
    return Vec3(vector.x[index], vector.y[index], vector.z[index])


def on_body(vector: Vec3, index: int, n_bodies: int) -> Vec3:
    """A vector of shape () on one body, zero on the others."""
    if n_bodies == 1:
        return Vec3(vector.x[None], vector.y[None], vector.z[None])
    here = jnp.arange(n_bodies) == index
    return Vec3(*(jnp.where(here, part, 0.0) for part in (vector.x, vector.y, vector.z)))


def on_one(phase: Phase, index: int, force: Vec3 | None, torque: Vec3 | None = None) -> Wrench:
    """The wrench of a force at the centre of mass of one body, world frame, and a torque, body
    frame."""
    none = Wrench.none(phase)
    n_bodies = none.force.x.shape[0]
    return Wrench(
        none.force if force is None else on_body(force, index, n_bodies),
        none.torque if torque is None else on_body(torque, index, n_bodies),
    )


def cast(array: Array, phase: Phase) -> Array:
    """The numbers of a load in the precision of the simulation."""
    return array.astype(phase.position.x.dtype)


def world_point(phase: Phase, index: int, anchor: Vec3) -> Vec3:
    """The position of a point of a body, world frame [m]; `anchor` from its centre of mass, body
    frame."""
    return of_body(phase.position, index) + rotate(attitude(phase, index), anchor)


def world_velocity(phase: Phase, inertial: Inertial, index: int, anchor: Vec3) -> Vec3:
    """The velocity of a point of a body, world frame [m/s]; `anchor` as in `world_point`."""
    turning = cross(angular_velocity(phase, inertial, index), anchor)
    return velocity(phase, inertial, index) + rotate(attitude(phase, index), turning)


def attitude(phase: Phase, index: int) -> Quat:
    """The orientation of one body, body to world."""
    return _row(phase.orientation, index)


def velocity(phase: Phase, inertial: Inertial, index: int) -> Vec3:
    """The velocity of the centre of mass of one body, world frame [m/s]."""
    return of_body(phase.linear_momentum, index) / inertial.mass[index]


def angular_velocity(phase: Phase, inertial: Inertial, index: int) -> Vec3:
    """The angular velocity of one body, body frame [rad/s]."""
    return inertia(inertial, index).solve(of_body(phase.angular_momentum, index))


def inertia(inertial: Inertial, index: int) -> InertiaTensor:
    """The inertia tensor of one body about its centre of mass, body frame [kg m^2]."""
    return _row(inertial.inertia, index)


def _row(tree: Tree, index: int) -> Tree:
    return jax.tree.map(lambda leaf: leaf[index], tree)
