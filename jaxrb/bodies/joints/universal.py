"""Universal joints, which leave the rotations about two axes free."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ..._text import readable
from ..._validate import require
from .base import ORIGIN, ends, finite_vector
from .placing import Poses, places
from .turning import AbstractTurningJoint, axes_of, turns

# Axes that span less than this angle [rad] are taken for one: a hinge.
_APART = 1e-3


class Universal(AbstractTurningJoint):
    """Ties a body to the world, or to another body, so that it turns about two axes: a universal
    joint, or, with an `offset` between the axes, two hinges with a rod without mass between them.

    Its coordinates are the angles (q1, q2) of the rotation R = exp(q1 a1) exp(q2 a2) of the body
    against the other one, counted from the `reference` orientation: the first axis is fixed in
    the other body, the second one in the body. An angle lies in (-pi, pi], or with limits within
    half a turn of their middle. `rb.Universal(0, axes=((1, 0, 0), (0, 1, 0)), anchor=(0, 0, 0.5))`
    hangs a body up at the origin of the world.

    Attributes:
        body: index in `World.bodies`.
        axes: where both angles are zero, body frame, of any length but zero and not parallel,
            shape (2, 3).
        anchor: a point of the body on the second axis, where the axes meet if they do, body frame,
            from its centre of mass [m], shape (3,).
        other: index of the other body; None means the world.
        other_anchor: where that point is held, or, with an offset, a point on the first axis: in
            the frame of the other body and from its centre of mass, or in the world frame [m],
            shape (3,).
        reference: turns vectors of the body frame into the frame of the other body, or of the
            world, at the angles 0: a quaternion of any length but zero, shape (4,). By default
            they are 0 where both have the same orientation.
        limits: for each axis the least and greatest angle [rad], shape (2,), less than a turn
            apart, or None; None: none.
        stiffness: k of a torsional spring [N m/rad], at least 0: along each angle the torque is
            -k (angle - rest angle). A number for both axes, or one for each; None if the Python
            number 0 is given, as in the following.
        damping: c of a damper [N m s/rad], at least 0, likewise.
        rest_angles: of the springs [rad], shape (2,).
        friction: the largest torque of dry friction [N m], at least 0, likewise.
        armature: inertia of a rotor geared to each angle [kg m^2], as of a `Hinge`, likewise.

        offset: from the point on the first axis to that on the second one, where both angles are
            zero, body frame [m], shape (3,).

    A torque along an angle does work with the rate of that angle alone.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    body: int = eqx.field(static=True)
    axes: Float[Array, "2 3"]
    anchor: Float[Array, "3"]
    other: int | None = eqx.field(static=True)
    other_anchor: Float[Array, "3"]
    reference: Float[Array, "4"]
    limits: tuple[Float[Array, "2"] | None, ...]
    stiffness: tuple[Float[Array, ""] | None, ...]
    damping: tuple[Float[Array, ""] | None, ...]
    rest_angles: Float[Array, "2"]
    friction: tuple[Float[Array, ""] | None, ...]
    armature: tuple[Float[Array, ""] | None, ...]
    offset: Float[Array, "3"]

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
        rest_angles=None,
        friction: Any = 0.0,
        armature: Any = 0.0,
        offset=ORIGIN,
    ):
        self.body, self.anchor, self.other, self.other_anchor = ends(
            "Universal", body, anchor, other, other_anchor
        )
        numbers = (stiffness, damping, friction, armature)
        rests = {"rest_angles": rest_angles}
        own = turns("Universal", 2, axes, reference, limits, rests, *numbers)
        self.axes, self.reference, self.limits = own.axes, own.reference, own.limits
        self.stiffness, self.damping, self.friction = own.stiffness, own.damping, own.friction
        self.rest_angles, self.armature = own.rests, own.armature
        self.offset = finite_vector(offset, "Universal.offset")
        require(self.axes, "Universal.axes", _not_parallel, "two axes that are not parallel")

    @staticmethod
    def at(
        state: Poses,
        body: int,
        axes,
        point,
        other: int | None = None,
        *,
        second_point=None,
        **options: Any,
    ) -> Universal:
        """The joint whose axes and point are given in the world, for bodies placed as in a state.

        Its angles are 0 in that state.

        Args:
            state: of the world; its positions and quaternions count.
            body: index in `World.bodies`.
            axes: world frame, shape (2, 3).
            point: of the first axis, where they meet if they do, world frame [m], shape (3,).
            other: index of the other body; None means the world.
            second_point: of the second axis, world frame [m], shape (3,); None: the same.
            options: limits, stiffness and others of the constructor.
        """
        here, there = places("Universal", state, body, other)
        first = second = here.point(point, "Universal.point")
        if second_point is not None:
            second = here.point(second_point, "Universal.second_point")
        return Universal(
            body,
            axes_of(here, axes, "Universal.axes", 2),
            second,
            other,
            there.point(point, "Universal.point"),
            reference=here.reference(there),
            offset=second - first,
            **options,
        )

    def held_at(self) -> Float[Array, "3"]:
        return self.other_anchor

    def __repr__(self) -> str:
        return readable(self)


def _not_parallel(axes: np.ndarray) -> bool:
    one, two = axes / np.linalg.norm(axes, axis=1, keepdims=True)
    return bool(np.linalg.norm(np.cross(one, two)) > _APART)
