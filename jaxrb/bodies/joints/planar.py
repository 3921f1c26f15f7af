"""Planar joints, which leave the motion in a plane free."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ..._text import readable
from ..._validate import require
from ...math import Vec3, cross
from .base import ORIGIN, ends
from .placing import Poses, places
from .turning import AbstractAxesJoint, axes_of, turns

# By how much the cosine of a right angle may differ from 0: the digits that files have.
_PERPENDICULAR = 1e-6


class Planar(AbstractAxesJoint):
    """Ties a body to the world, or to another body, so that it moves in a plane: along two axes
    that are fixed in the other body and, if there is a third axis, about that one.

    Its coordinates are the displacements of `anchor` from `other_anchor` along the first two axes
    and the angle about the third one, which lies in (-pi, pi], or with limits within half a turn
    of their middle. `rb.Planar(0, axes=((1, 0, 0), (0, 0, 1), (0, 1, 0)))` keeps a body in the
    plane of x and z; with the first two axes alone it would not turn either.

    Attributes:
        body: index in `World.bodies`.
        axes: where the angle is zero, body frame, perpendicular to each other and of any length
            but zero, shape (3, 3), or (2, 3) for a body that does not turn.
        anchor: the point of the body that moves along the first two axes, body frame, from its
            centre of mass [m], shape (3,).
        other: index of the other body; None means the world.
        other_anchor: where that point is at the displacements 0: in the frame of the other body
            and from its centre of mass, or in the world frame [m], shape (3,).
        reference: turns vectors of the body frame into the frame of the other body, or of the
            world, at the angle 0: a quaternion of any length but zero, shape (4,). By default it
            is 0 where both have the same orientation.
        limits: for each axis the least and greatest coordinate [m] or [rad], shape (2,), those of
            the angle less than a turn apart, or None; None: none.
        stiffness: k of a spring [N/m] or [N m/rad], at least 0: along each coordinate the force or
            torque is -k (coordinate - rest coordinate). A number for all axes, or one for each;
            None if the Python number 0 is given, as in the following.
        damping: c of a damper [N s/m] or [N m s/rad], at least 0, likewise.
        rest_coordinates: of the springs [m] and [rad], shape (3,) or (2,).
        friction: the largest dry friction [N] or [N m], at least 0, likewise.
        armature: inertia of a rotor geared to each coordinate [kg] or [kg m^2], as of a `Slider`
            and a `Hinge`, likewise.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    body: int = eqx.field(static=True)
    axes: Float[Array, "n 3"]
    anchor: Float[Array, "3"]
    other: int | None = eqx.field(static=True)
    other_anchor: Float[Array, "3"]
    reference: Float[Array, "4"]
    limits: tuple[Float[Array, "2"] | None, ...]
    stiffness: tuple[Float[Array, ""] | None, ...]
    damping: tuple[Float[Array, ""] | None, ...]
    rest_coordinates: Float[Array, " n"]
    friction: tuple[Float[Array, ""] | None, ...]
    armature: tuple[Float[Array, ""] | None, ...]

    def __init__(
        self,
        body: int,
        axes,
        anchor=ORIGIN,
        other: int | None = None,
        other_anchor=ORIGIN,
        *,
        reference=None,
        limits=None,
        stiffness: Any = 0.0,
        damping: Any = 0.0,
        rest_coordinates=None,
        friction: Any = 0.0,
        armature: Any = 0.0,
    ):
        self.body, self.anchor, self.other, self.other_anchor = ends(
            "Planar", body, anchor, other, other_anchor
        )
        rests = {"rest_coordinates": rest_coordinates}
        numbers = (stiffness, damping, friction, armature)
        angles = (2,)
        own = turns("Planar", _count(axes), axes, reference, limits, rests, *numbers, angles=angles)
        self.axes, self.reference, self.limits = own.axes, own.reference, own.limits
        self.stiffness, self.damping, self.friction = own.stiffness, own.damping, own.friction
        self.rest_coordinates, self.armature = own.rests, own.armature
        require(self.axes, "Planar.axes", _perpendicular, "perpendicular to each other")

    @staticmethod
    def at(
        state: Poses, body: int, axes, point, other: int | None = None, **options: Any
    ) -> Planar:
        """The joint whose axes and point are given in the world, for bodies placed as in a state.

        Its coordinates are 0 in that state.

        Args:
            state: of the world; its positions and quaternions count.
            body: index in `World.bodies`.
            axes: world frame, shape (3, 3), or (2, 3).
            point: which moves along the first two, world frame [m], shape (3,).
            other: index of the other body; None means the world.
            options: limits, stiffness and others of the constructor.
        """
        here, there = places("Planar", state, body, other)
        return Planar(
            body,
            axes_of(here, axes, "Planar.axes", _count(axes)),
            here.point(point, "Planar.point"),
            other,
            there.point(point, "Planar.point"),
            reference=here.reference(there),
            **options,
        )

    @property
    def turns(self) -> bool:
        """Whether it leaves the rotation in the plane free."""
        return self.axes.shape[0] == 3

    @property
    def axis(self) -> Float[Array, "3"]:
        """The normal of the plane, body frame, of any length but zero."""
        if self.turns:
            return self.axes[2]
        return cross(Vec3.of(self.axes[0]), Vec3.of(self.axes[1])).array()

    @property
    def rests(self) -> Float[Array, " n"]:
        return self.rest_coordinates

    def held_at(self) -> Float[Array, "3"]:
        return self.other_anchor

    def __repr__(self) -> str:
        return readable(self)


def _count(axes: Any) -> int:
    """How many axes there are: two or three."""
    try:
        return 2 if len(axes) == 2 else 3
    except TypeError:
        return 3


def _perpendicular(axes: np.ndarray) -> bool:
    units = axes / np.linalg.norm(axes, axis=1, keepdims=True)
    return bool(np.abs(units @ units.T - np.eye(len(units))).max() <= _PERPENDICULAR)
