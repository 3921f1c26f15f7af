"""Hinges, which leave the rotation about an axis free."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ..._text import readable
from ..._validate import require
from .base import (
    ORIGIN,
    AbstractAxisJoint,
    axis_vector,
    ends,
    finite_scalar,
    interval,
    part,
    reference_turn,
)
from .placing import Poses, places


class Hinge(AbstractAxisJoint):
    """Ties a body to the world, or to another body, so that it turns about one axis only: a
    revolute joint.

    Its coordinate is the angle by which the body is turned about the axis against the other one,
    counted from the `reference` orientation: positive turns are right-handed about `axis`. A state
    does not know full turns: the angle lies in (-pi, pi], or with limits within half a turn of
    their middle. `rb.Hinge(0, axis=(0, 1, 0), anchor=(0, 0, 0.5))` hangs a body up at the origin
    of the world.

    Attributes:
        body: index in `World.bodies`.
        axis: body frame, of any length but zero, shape (3,).
        anchor: a point of the body on the axis, body frame, from its centre of mass [m], shape
            (3,).
        other: index of the other body; None means the world.
        other_anchor: where that point is held: in the frame of the other body and from its centre
            of mass, or in the world frame [m], shape (3,).
        reference: turns vectors of the body frame into the frame of the other body, or of the
            world, at the angle 0: a quaternion of any length but zero, shape (4,). By default the
            angle is 0 where both have the same orientation.
        limits: least and greatest angle [rad], shape (2,), less than a turn apart; None: none.
        stiffness: k of a torsional spring [N m/rad], at least 0, shape (): the torque on the body
            is -k (angle - rest_angle), that difference within half a turn if there are no limits.
            None if the Python number 0 is given, as in the following.
        damping: c of a damper [N m s/rad], at least 0, shape (): the torque -c times the rate.
        rest_angle: of the spring [rad], shape ().
        friction: the largest torque of dry friction [N m], at least 0, shape ().
        armature: inertia of a rotor geared to the joint [kg m^2], at least 0, shape (): its own
            moment of inertia times the square of the gear ratio. It resists all that changes the
            rate of the angle, impacts too. Nothing is known of its axis: it has no gyroscopic
            moment.

    Args:
        other_axis: the axis in the frame of the other body, or of the world, shape (3,), in place
            of `reference`: that is then the shortest turn from the one axis to the other.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    body: int = eqx.field(static=True)
    axis: Float[Array, "3"]
    anchor: Float[Array, "3"]
    other: int | None = eqx.field(static=True)
    other_anchor: Float[Array, "3"]
    reference: Float[Array, "4"]
    limits: Float[Array, "2"] | None
    stiffness: Float[Array, ""] | None
    damping: Float[Array, ""] | None
    rest_angle: Float[Array, ""]
    friction: Float[Array, ""] | None
    armature: Float[Array, ""] | None

    def __init__(
        self,
        body: int,
        axis,
        anchor=ORIGIN,
        other: int | None = None,
        other_anchor=ORIGIN,
        *,
        other_axis=None,
        reference=None,
        limits=None,
        stiffness=0.0,
        damping=0.0,
        rest_angle=0.0,
        friction=0.0,
        armature=0.0,
    ):
        self.body, self.anchor, self.other, self.other_anchor = ends(
            "Hinge", body, anchor, other, other_anchor
        )
        self.axis = axis_vector(axis, "Hinge.axis")
        self.reference = reference_turn("Hinge", self.axis, other_axis, reference)
        self.limits = interval(limits, "Hinge.limits")
        if self.limits is not None:
            within = lambda pair: pair[1] - pair[0] < 2 * np.pi  # noqa: E731
            require(self.limits, "Hinge.limits", within, "less than a turn apart")
        self.stiffness = part(stiffness, "Hinge.stiffness")
        self.damping = part(damping, "Hinge.damping")
        self.rest_angle = finite_scalar(rest_angle, "Hinge.rest_angle")
        self.friction = part(friction, "Hinge.friction")
        self.armature = part(armature, "Hinge.armature")

    @staticmethod
    def at(state: Poses, body: int, axis, point, other: int | None = None, **options: Any) -> Hinge:
        """The hinge whose axis and point are given in the world, for bodies placed as in a state.

        Its angle is 0 in that state.

        Args:
            state: of the world; its positions and quaternions count.
            body: index in `World.bodies`.
            axis: world frame, of any length but zero, shape (3,).
            point: of the axis, world frame [m], shape (3,).
            other: index of the other body; None means the world.
            options: limits, stiffness and others of the constructor.
        """
        here, there = places("Hinge", state, body, other)
        return Hinge(
            body,
            here.axis(axis, "Hinge.axis"),
            here.point(point, "Hinge.point"),
            other,
            there.point(point, "Hinge.point"),
            reference=here.reference(there),
            **options,
        )

    @property
    def rest(self) -> Float[Array, ""]:
        return self.rest_angle

    def held_at(self) -> Float[Array, "3"]:
        return self.other_anchor

    def __repr__(self) -> str:
        return readable(self)
