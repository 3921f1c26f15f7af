"""The rows of all joints of a world: what holds, and in which directions."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ...math import Vec3, cross, dot, norm, rotate, rotate_inverse
from ..incidence import Incidence
from ..inertial import Inertial
from ..phase import Phase
from .base import AbstractJoint
from .constraints import CONSTRAINTS, AbstractConstraint, conditions_of
from .coordinate import Motion
from .coordinates import JointCoordinates
from .ends import Directions, Ends
from .frames import basis


class JointRows(eqx.Module):
    """The conditions that the joints of a world hold, as rows g = 0.

    A pin and a gimbal have 3 rows, a universal joint 4, a hinge and a slider 5, a weld 6, a
    distance 1, a planar joint 3, or 4 if it does not turn. Rows are sorted by conditions
    (`CONSTRAINTS`), by their components, and by joints, so that each formula stands in a program
    once for all joints; `joints` says whose they are.

    Attributes:
        constraints: the conditions that occur.
        coordinates: of the joints that have some; None where none has, as in the following.
        limited: of those with limits.
        rubbing: of those with dry friction.
        damped: of those with dampers.
        geared: of those with rotors.
        driven: what each servo drives.
    """

    constraints: tuple[AbstractConstraint, ...]
    coordinates: JointCoordinates | None
    limited: JointCoordinates | None
    rubbing: JointCoordinates | None
    damped: JointCoordinates | None
    geared: JointCoordinates | None
    driven: tuple[JointCoordinates, ...] = ()

    @staticmethod
    def of(
        joints: Sequence[AbstractJoint],
        inertial: Inertial,
        order: Sequence[int] | None = None,
        driven: Sequence[Sequence[Motion]] = (),
    ) -> JointRows:
        """The rows of joints.

        Args:
            joints: of a world, at least one.
            inertial: of its bodies, in the order of the phase; gives scales and precision.
            order: the bodies as the phase has them, by their numbers in the world; None: the same.
            driven: by each servo.
        """
        dtype = inertial.mass.dtype
        place = None if order is None else np.argsort(order)
        found = []
        for condition in CONSTRAINTS:
            own = [(i, j) for i, j in enumerate(joints) if condition in conditions_of(j)]
            if own:
                ends = Ends.of(own, place, dtype)
                found.append(condition.of(own, ends, _scale(ends, inertial)))
        return JointRows(
            tuple(found),
            JointCoordinates.of(joints, dtype, place),
            JointCoordinates.of(joints, dtype, place, having="limits"),
            JointCoordinates.of(joints, dtype, place, having="friction"),
            JointCoordinates.of(joints, dtype, place, having="damping"),
            JointCoordinates.of(joints, dtype, place, having="armature"),
            tuple(JointCoordinates.along(motions, dtype, place) for motions in driven),
        )

    @staticmethod
    def arcs(coordinates: JointCoordinates, inertial: Inertial) -> Float[Array, " n_coordinates"]:
        """Lengths that stand for a unit of each coordinate [m]: of angles the radius
        `AbstractConstraint.scale`."""
        return jnp.concatenate(
            [
                _scale(part.ends, inertial) if part.angular else jnp.ones_like(part.ends.anchor.x)
                for part in coordinates.parts
            ]
        )

    @property
    def joints(self) -> tuple[int, ...]:
        """Of each row the place of its joint in `World.joints`."""
        return tuple(
            joint
            for condition in self.constraints
            for joint in condition.ends.joints * condition.components
        )

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.joints)

    def violation(self, phase: Phase) -> Float[Array, " n_rows"]:
        """The residuals g [m], zero where the joints hold.

        Rotations count by the arc at the radius `AbstractConstraint.scale`.
        """
        return jnp.concatenate([g for c in self.constraints for g in c.violation(phase)])

    def jacobian(self, phase: Phase) -> Directions:
        """The directions of the rows: the derivative of `violation` along any motion is their
        rate, wherever the bodies are."""
        return Directions.of([(c.ends, c.rows(phase)) for c in self.constraints])

    def rate(self, phase: Phase, inertial: Inertial) -> Float[Array, " n_rows"]:
        """The rates of the residuals [m/s]."""
        v, omega = inertial.velocity(phase), inertial.angular_velocity(phase)
        return self.jacobian(phase).rate(v, omega)

    def reactions(self, phase: Phase, size: Float[Array, " n_rows"]) -> tuple[Vec3, Vec3]:
        """The forces of joints on their first bodies at the anchors, and the torques about these,
        both in the world frame, by forces of a size along the rows [N]; the second bodies have the
        opposite ones at the same points. Components have the shape (n_joints,)."""
        start, n_joints = 0, len(set(self.joints))
        zero = jnp.zeros(n_joints, size.dtype)
        total = Vec3(zero, zero, zero), Vec3(zero, zero, zero)
        for condition in self.constraints:
            pose, ends = condition.ends.pose(phase), condition.ends
            for row in condition.rows(phase):
                own = size[start : start + len(ends.joints)]
                start += len(ends.joints)
                force = row.linear * own
                about = row.lever * own - cross(pose.arm, rotate_inverse(pose.turn, force))
                parts = force, rotate(pose.turn, about)
                added = Incidence(ends.joints).scatter(parts, n_joints)
                total = total[0] + added[0], total[1] + added[1]
        return total

    def of_each_joint(self, rows: Float[Array, " n_rows"]) -> Float[Array, " n_joints"]:
        """The Euclidean norms of numbers of rows, for each joint."""
        table = self._table()
        padded = jnp.concatenate([rows * rows, jnp.zeros_like(rows[:1])])
        total = jnp.sum(padded[table], axis=1)
        positive = total > 0
        return jnp.where(positive, jnp.sqrt(jnp.where(positive, total, 1.0)), 0.0)

    def satisfied(self, phase: Phase, inertial: Inertial) -> Bool[Array, ""]:
        """Whether all joints hold, and bodies move as they may."""
        directions = self.jacobian(phase)
        held, moving = self._allowed(directions, phase, inertial)
        rate = directions.rate(inertial.velocity(phase), inertial.angular_velocity(phase))
        fits = (jnp.abs(self.violation(phase)) <= held) & (jnp.abs(rate) <= moving)
        upright = jnp.stack([jnp.all(c.upright(phase)) for c in self.constraints])
        return jnp.all(fits) & jnp.all(upright)

    def worst(self, phase: Phase, inertial: Inertial) -> tuple[int, float, str]:
        """What breaks the condition of `satisfied` most; not to be traced.

        Returns:
            The place of the joint in `World.joints`, its error, and the unit of that: "m", "rad",
            "m/s" or "rad/s".
        """
        allowed = self._allowed(self.jacobian(phase), phase, inertial)
        rows = (self.violation(phase), self.rate(phase, inertial), *allowed)
        start, found = 0, (-1.0, 0, 0.0, "m")
        for condition in self.constraints:
            joints, end = condition.ends.joints, start + condition.scale.size * condition.components
            off, rate, held, moving = (
                np.abs(np.asarray(row[start:end])).reshape(-1, len(joints)) for row in rows
            )
            start = end
            excess = np.where(condition.upright(phase), (off / held).max(axis=0), np.inf)
            faster = (rate / moving).max(axis=0)
            unit, speed = "m", np.linalg.norm(rate, axis=0)
            if condition.angular:
                unit, speed = "rad", speed / np.asarray(condition.scale)
            for k, joint in enumerate(joints):
                place = (excess[k], joint, float(condition.error(phase)[k]), unit)
                found = max(found, place, (faster[k], joint, float(speed[k]), f"{unit}/s"))
        return found[1:]

    def _allowed(
        self, directions: Directions, phase: Phase, inertial: Inertial
    ) -> tuple[Float[Array, " n_rows"], Float[Array, " n_rows"]]:
        """The largest violations [m] and rates [m/s] of all rows at a start: a thousandth of the
        lengths in a row and half a percent of the speeds, as of pins, and the round-off of
        positions."""
        v, omega = inertial.velocity(phase), inertial.angular_velocity(phase)
        round_off = 8 * jnp.finfo(inertial.mass.dtype).eps
        speed = size = jnp.zeros(self.n_rows, inertial.mass.dtype)
        for side in directions.sides:
            own_v, own_omega, place = side.incidence.gather((v, omega, phase.position))
            speed = speed + norm(side.linear) * norm(own_v) + norm(side.lever) * norm(own_omega)
            size = size + norm(side.linear) * norm(place)
        reach = jnp.concatenate([jnp.tile(_reach(c), c.components) for c in self.constraints])
        # Norms of speeds that are next to nothing are zero, as are their squares.
        least = float(jnp.finfo(inertial.mass.dtype).tiny) ** 0.5
        return 1e-3 * reach + round_off * size, 5e-3 * speed + least

    def _table(self) -> np.ndarray:
        """The rows of each joint, filled up with the number of rows."""
        joints = np.array(self.joints)
        count = np.bincount(joints)
        table = np.full((len(count), count.max()), len(joints))
        for joint in range(len(count)):
            own = np.flatnonzero(joints == joint)
            table[joint, : len(own)] = own
        return table


def _scale(ends: Ends, inertial: Inertial) -> Float[Array, " n_joints"]:
    """The root of the mean inverse mass over the mean inverse inertia of both bodies [m].

    It is a unit of measurement: what is held does not depend on it, nor do derivatives.
    """
    units = basis(inertial.mass)
    rotating = sum(dot(unit, inertial.inertia.solve(unit)) for unit in units) / 3
    linear = angular = 0.0
    for incidence in (ends.first, ends.second):
        masses, turning = incidence.gather((1 / inertial.mass, rotating))
        here = np.array(incidence.bodies) >= 0
        linear = linear + jnp.where(here, masses, 0.0)
        angular = angular + jnp.where(here, turning, 0.0)
    return jax.lax.stop_gradient(jnp.sqrt(linear / angular))


def _reach(condition: AbstractConstraint) -> Float[Array, " n_joints"]:
    """The lengths of a joint, by which its violation is judged [m]."""
    ends = condition.ends
    both = np.array(ends.second.bodies) >= 0
    return condition.scale + norm(ends.anchor) + jnp.where(both, norm(ends.other_anchor), 0.0)
