"""Sliders, which leave the displacement along an axis free."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from ..._text import readable
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


class Slider(AbstractAxisJoint):
    """Ties a body to the world, or to another body, so that it moves along one axis only, without
    turning: a prismatic joint.

    Its coordinate is the displacement of `anchor` from `other_anchor` along the axis, which is
    fixed in the other body.

    Attributes:
        body: index in `World.bodies`.
        axis: body frame, of any length but zero, shape (3,).
        anchor: the point of the body that moves along the axis, body frame, from its centre of
            mass [m], shape (3,).
        other: index of the other body; None means the world.
        other_anchor: where that point is at the displacement 0: in the frame of the other body
            and from its centre of mass, or in the world frame [m], shape (3,).
        reference: turns vectors of the body frame into the frame of the other body, or of the
            world: a quaternion of any length but zero, shape (4,). By default both have the same
            orientation.
        limits: least and greatest displacement [m], shape (2,); None: none.
        stiffness: k of a spring [N/m], at least 0, shape (): the force on the body along the axis
            is -k (displacement - rest_displacement). None if the Python number 0 is given, as in
            the following.
        damping: c of a damper [N s/m], at least 0, shape (): the force -c times the rate.
        rest_displacement: of the spring [m], shape ().
        friction: the largest force of dry friction [N], at least 0, shape ().
        armature: inertia of a rotor geared to the joint [kg], at least 0, shape (): its own
            moment of inertia times the square of the gear ratio [rad/m]. It resists all that
            changes the rate of the displacement, impacts too. Nothing is known of its axis: it has
            no gyroscopic moment.

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
    rest_displacement: Float[Array, ""]
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
        rest_displacement=0.0,
        friction=0.0,
        armature=0.0,
    ):
        self.body, self.anchor, self.other, self.other_anchor = ends(
            "Slider", body, anchor, other, other_anchor
        )
        self.axis = axis_vector(axis, "Slider.axis")
        self.reference = reference_turn("Slider", self.axis, other_axis, reference)
        self.limits = interval(limits, "Slider.limits")
        self.stiffness = part(stiffness, "Slider.stiffness")
        self.damping = part(damping, "Slider.damping")
        self.rest_displacement = finite_scalar(rest_displacement, "Slider.rest_displacement")
        self.friction = part(friction, "Slider.friction")
        self.armature = part(armature, "Slider.armature")

    @staticmethod
    def at(
        state: Poses, body: int, axis, point, other: int | None = None, **options: Any
    ) -> Slider:
        """The slider whose axis and point are given in the world, for bodies placed as in a state.

        Its displacement is 0 in that state.

        Args:
            state: of the world; its positions and quaternions count.
            body: index in `World.bodies`.
            axis: world frame, of any length but zero, shape (3,).
            point: of the axis, world frame [m], shape (3,).
            other: index of the other body; None means the world.
            options: limits, stiffness and others of the constructor.
        """
        here, there = places("Slider", state, body, other)
        return Slider(
            body,
            here.axis(axis, "Slider.axis"),
            here.point(point, "Slider.point"),
            other,
            there.point(point, "Slider.point"),
            reference=here.reference(there),
            **options,
        )

    @property
    def rest(self) -> Float[Array, ""]:
        return self.rest_displacement

    def held_at(self) -> Float[Array, "3"]:
        return self.other_anchor

    def __repr__(self) -> str:
        return readable(self)
