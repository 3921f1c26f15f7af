"""The state of all bodies of a world, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._text import readable
from .._validate import known, real_array
from ..lie import quaternion as quaternions
from ..math import Quat, Vec3
from . import stretch as stretches
from .inertial import Inertial
from .phase import Phase
from .rigid_body import RigidBody

# Quaternions further from unit length than this are taken for a mistake, not round-off.
UNIT_TOLERANCE = 1e-3


class _HasBodies(Protocol):
    """A world, as far as its state knows it."""

    @property
    def bodies(self) -> Sequence[RigidBody]: ...


class State(eqx.Module):
    """Poses and velocities of all bodies; states along a trajectory add leading axes.

    Attributes:
        position: of the centres of mass, world frame [m], shape (n_bodies, 3).
        quaternion: body to world, scalar first, shape (n_bodies, 4); normalised.
        velocity: of the centres of mass, world frame [m/s], shape (n_bodies, 3).
        angular_velocity: body frame [rad/s], shape (n_bodies, 3).
        stretch: symmetric part of the directors' momentum (xx, yy, zz, yz, xz, xy), body frame
            [kg m^2/s], shape (n_bodies, 6). Only states on trajectories of
            `DirectorEnergyMomentum` have it, and a simulation with that flow that starts
            from one goes on exactly; None is that of a rigid motion, zero.

    Raises:
        ValueError: if shapes or dtypes disagree, or a quaternion is not of unit length to
            1e-3 (closer ones are normalised).
    """

    position: Float[Array, "*steps n_bodies 3"]
    quaternion: Float[Array, "*steps n_bodies 4"]
    velocity: Float[Array, "*steps n_bodies 3"]
    angular_velocity: Float[Array, "*steps n_bodies 3"]
    stretch: Float[Array, "*steps n_bodies 6"] | None = None

    def __init__(self, position, quaternion, velocity, angular_velocity, stretch=None):
        given = {
            "position": (position, 3),
            "quaternion": (quaternion, 4),
            "velocity": (velocity, 3),
            "angular_velocity": (angular_velocity, 3),
        }
        if stretch is not None:
            given["stretch"] = (stretch, 6)
        arrays = {name: real_array(value, f"State.{name}") for name, (value, _) in given.items()}
        lead = arrays["position"].shape[:-1]
        for name, array in arrays.items():
            width = given[name][1]
            if array.ndim < 2 or array.shape != (*lead, width):
                raise ValueError(
                    f"State.{name} must have shape (n_bodies, {width}), the same n_bodies as "
                    f"position, whose shape is {arrays['position'].shape}; got {array.shape}."
                )
            if array.dtype != arrays["position"].dtype:
                raise ValueError(
                    "The fields of a State must share one dtype; position has "
                    f"{arrays['position'].dtype}, {name} has {array.dtype}."
                )
        q = arrays["quaternion"]
        length = jnp.sqrt(jnp.sum(q**2, axis=-1, keepdims=True))
        numbers = known(length)
        if numbers is not None and np.any(np.abs(numbers - 1) > UNIT_TOLERANCE):
            raise ValueError(
                f"State.quaternion must have unit length to {UNIT_TOLERANCE:g}; its length is "
                f"{numbers[..., 0].tolist()}. Divide it by its length if that is what you mean."
            )
        self.position = arrays["position"]
        # A traced quaternion that is far from unit length is left for `simulate` to report.
        near = jnp.abs(length - 1) <= UNIT_TOLERANCE
        self.quaternion = q / jnp.where(near, length, jnp.ones_like(length))
        self.velocity = arrays["velocity"]
        self.angular_velocity = arrays["angular_velocity"]
        self.stretch = arrays.get("stretch")

    def __repr__(self) -> str:
        return readable(self)

    @staticmethod
    def from_momenta(
        world: _HasBodies,
        *,
        position,
        linear_momentum,
        angular_momentum,
        quaternion=None,
    ) -> State:
        """The state with given momenta.

        Args:
            world: gives masses and inertia tensors.
            position: of the centres of mass, world frame [m], shape (n_bodies, 3).
            linear_momentum: world frame [kg m/s], shape (n_bodies, 3).
            angular_momentum: about the centres of mass, body frame [kg m^2/s], shape
                (n_bodies, 3); Tran and Leok's Pi.
            quaternion: body to world, shape (n_bodies, 4); the identity by default.
        """
        position = real_array(position, "position")
        n_bodies = len(world.bodies)
        shape = (n_bodies, 3)
        gamma = real_array(linear_momentum, "linear_momentum", shape)
        pi = real_array(angular_momentum, "angular_momentum", shape)
        if quaternion is None:
            identity = jnp.array([1.0, 0.0, 0.0, 0.0], position.dtype)
            quaternion = jnp.broadcast_to(identity, (n_bodies, 4))
        inertial = Inertial.of(world.bodies, position.dtype)
        quaternion = real_array(quaternion, "quaternion")
        phase = Phase(Vec3.of(position), Quat.of(quaternion), Vec3.of(gamma), Vec3.of(pi))
        return State(
            position,
            quaternion,
            inertial.velocity(phase).array(),
            inertial.angular_velocity(phase).array(),
        )

    @property
    def rotation_matrix(self) -> Float[Array, "*steps n_bodies 3 3"]:
        """Body to world, shape (..., n_bodies, 3, 3)."""
        return quaternions.to_matrix(self.quaternion)

    def retract(self, step: Float[Array, "*steps n_bodies 12"]) -> State:
        """The state moved by a tangent vector, for optimisation without constraints.

        Args:
            step: shape (n_bodies, 12): of the position in world axes [m], of the attitude by a
                rotation vector in body axes [rad], of the velocity [m/s] and of the angular
                velocity [rad/s].
        """
        step = real_array(step, "step", (*self.position.shape[:-1], 12))
        return State(
            self.position + step[..., 0:3],
            quaternions.retract(self.quaternion, step[..., 3:6]),
            self.velocity + step[..., 6:9],
            self.angular_velocity + step[..., 9:12],
            self.stretch,
        )

    def local(self, other: State) -> Float[Array, "*steps n_bodies 12"]:
        """The step, with turns of at most half a turn, for which retract(step) is `other`."""
        steps = (
            other.position - self.position,
            quaternions.local(self.quaternion, other.quaternion),
            other.velocity - self.velocity,
            other.angular_velocity - self.angular_velocity,
        )
        return jnp.concatenate(steps, axis=-1)


def to_phase(state: State, inertial: Inertial) -> Phase:
    """Component form, with momenta and normalised quaternions."""
    return Phase(
        Vec3.of(state.position),
        Quat.of(state.quaternion).normalized(),
        Vec3.of(state.velocity) * inertial.mass,
        inertial.inertia.matvec(Vec3.of(state.angular_velocity)),
        None if state.stretch is None else stretches.of_array(state.stretch),
    )


def from_phase(phase: Phase, inertial: Inertial) -> State:
    """The arrays of a phase."""
    return State(
        phase.position.array(),
        phase.orientation.array(),
        inertial.velocity(phase).array(),
        inertial.angular_velocity(phase).array(),
        None if phase.stretch is None else stretches.to_array(phase.stretch),
    )


def check_bodies(bodies: Sequence[RigidBody], state: State) -> None:
    """Raises `ValueError` unless the state is one state of these bodies."""
    if state.position.ndim != 2 or state.position.shape[0] != len(bodies):
        raise ValueError(
            f"The world has {len(bodies)} bodies, so State.position must have shape "
            f"({len(bodies)}, 3); got {state.position.shape}. Use jax.vmap or simulate_batch "
            "for a batch of states."
        )
