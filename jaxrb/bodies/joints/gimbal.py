"""Gimbals, which leave all rotations free and know the angles about three axes."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ..._text import readable
from ..._validate import known, require
from .base import ORIGIN, ends
from .placing import Poses, places
from .turning import AbstractTurningJoint, axes_of, turns

# Axes are perpendicular up to the digits that files have.
_PERPENDICULAR = 1e-5
# Limits may lie where the second angle turns back, up to as many half turns.
_TOUCHING = 1e-6


class Gimbal(AbstractTurningJoint):
    """Ties one point of a body to a point of the world, or of another body, about which it turns
    freely, as a `Pin`; and its rotation is known by angles about three axes.

    Its coordinates are the angles (q1, q2, q3) of the rotation R = exp(q1 a1) exp(q2 a2) exp(q3 a3)
    of the body against the other one, counted from the `reference` orientation, as of rings in each
    other: the first axis is fixed in the other body, the last one in the body, and the second one
    is across both. Where the first and the last axis are parallel, half a turn of q2 apart, only
    the sum or the difference of q1 and q3 is defined: there springs, dampers and motors about these
    two have no torque, and q2 turns back. Between two such places q2 takes the values around the
    middle of its limits, or, without limits, its rest angle. q1 and q3 lie in (-pi, pi], or with
    limits within half a turn of their middle.

    Attributes:
        body: index in `World.bodies`.
        axes: where all angles are zero, body frame, of any length but zero, the second one
            perpendicular to both others, shape (3, 3).
        anchor: the point of the body where they meet, body frame, from its centre of mass [m],
            shape (3,).
        other: index of the other body; None means the world.
        other_anchor: where that point is held: in the frame of the other body and from its centre
            of mass, or in the world frame [m], shape (3,).
        reference: turns vectors of the body frame into the frame of the other body, or of the
            world, at the angles 0: a quaternion of any length but zero, shape (4,). By default
            they are 0 where both have the same orientation.
        limits: for each axis the least and greatest angle [rad], shape (2,), less than a turn
            apart, or None; None: none. Those of q2 lie between two places where it turns back.
        stiffness: k of a torsional spring [N m/rad], at least 0: along each angle the torque is
            -k (angle - rest angle). A number for all axes, or one for each; None if the Python
            number 0 is given, as in the following.
        damping: c of a damper [N m s/rad], at least 0, likewise.
        rest_angles: of the springs [rad], shape (3,).
        friction: the largest torque of dry friction [N m], at least 0, likewise.
        armature: inertia of a rotor geared to each angle [kg m^2], as of a `Hinge`, likewise.

    A torque along an angle does work with the rate of that angle alone.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    body: int = eqx.field(static=True)
    axes: Float[Array, "3 3"]
    anchor: Float[Array, "3"]
    other: int | None = eqx.field(static=True)
    other_anchor: Float[Array, "3"]
    reference: Float[Array, "4"]
    limits: tuple[Float[Array, "2"] | None, ...]
    stiffness: tuple[Float[Array, ""] | None, ...]
    damping: tuple[Float[Array, ""] | None, ...]
    rest_angles: Float[Array, "3"]
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
        rest_angles=None,
        friction: Any = 0.0,
        armature: Any = 0.0,
    ):
        self.body, self.anchor, self.other, self.other_anchor = ends(
            "Gimbal", body, anchor, other, other_anchor
        )
        numbers = (stiffness, damping, friction, armature)
        rests = {"rest_angles": rest_angles}
        own = turns("Gimbal", 3, axes, reference, limits, rests, *numbers)
        self.axes, self.reference, self.limits = own.axes, own.reference, own.limits
        self.stiffness, self.damping, self.friction = own.stiffness, own.damping, own.friction
        self.rest_angles, self.armature = own.rests, own.armature
        across = "three axes, the second one perpendicular to both others"
        require(self.axes, "Gimbal.axes", _perpendicular, across)
        self._check_second()

    def _check_second(self) -> None:
        """Raises `ValueError` if the limits of the second angle, if known, reach over a place where
        it turns back."""
        pair, axes = self.limits[1], known(self.axes)
        limits = None if pair is None else known(pair)
        if axes is not None and limits is not None and turns_back(axes, limits):
            raise ValueError(
                f"Gimbal.limits[1] must lie between two angles at which the first and the last "
                f"axis are parallel, {_lock(axes):.6g} and others half a turn apart; got "
                f"{limits.tolist()}."
            )

    @staticmethod
    def at(
        state: Poses, body: int, axes, point, other: int | None = None, **options: Any
    ) -> Gimbal:
        """The joint whose axes and point are given in the world, for bodies placed as in a state.

        Its angles are 0 in that state.

        Args:
            state: of the world; its positions and quaternions count.
            body: index in `World.bodies`.
            axes: world frame, shape (3, 3).
            point: where they meet, world frame [m], shape (3,).
            other: index of the other body; None means the world.
            options: limits, stiffness and others of the constructor.
        """
        here, there = places("Gimbal", state, body, other)
        return Gimbal(
            body,
            axes_of(here, axes, "Gimbal.axes", 3),
            here.point(point, "Gimbal.point"),
            other,
            there.point(point, "Gimbal.point"),
            reference=here.reference(there),
            **options,
        )

    def held_at(self) -> Float[Array, "3"]:
        return self.other_anchor

    def __repr__(self) -> str:
        return readable(self)


def turns_back(axes: np.ndarray, limits: np.ndarray) -> bool:
    """Whether the second angle turns back somewhere between limits, so that it cannot have them."""
    first, last = np.floor((limits - _lock(axes)) / np.pi + [_TOUCHING, -_TOUCHING])
    return last > first


def _perpendicular(axes: np.ndarray) -> bool:
    one, two, three = axes / np.linalg.norm(axes, axis=1, keepdims=True)
    return max(abs(one @ two), abs(two @ three)) <= _PERPENDICULAR


def _lock(axes: np.ndarray) -> float:
    """The second angle at which the last axis is the first one."""
    one, two, three = axes / np.linalg.norm(axes, axis=1, keepdims=True)
    return float(np.arctan2(two @ np.cross(three, one), three @ one))
