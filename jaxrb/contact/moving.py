"""Obstacles that move as they are told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bodies.forces.base import Time
from ..bodies.forces.function import Function
from ..bodies.forces.reference import pose_at
from ..math import Quat, Vec3, cross, dot, norm, rotate, rotate_inverse
from ..math.stumpff import stumpff
from ..shapes.base import AbstractShape, shape_parameter
from .base import AcrossStep, Surface


class Moving(eqx.Module):
    """An obstacle that moves in a prescribed way, whatever hits it: a racket, a shaking table.

    Its velocity follows by differentiation of the motion and enters every impact. Derivatives of
    a simulation by the numbers in the motion and in the `args` of `simulate` are exact. A motion
    with a jump is none: what the obstacle jumps into it does not hit.

    Attributes:
        shape: any obstacle at rest, in a frame of its own.
        motion: of the time [s] and the args of `simulate` to a pair: where the origin of that
            frame is, world frame [m], shape (3,), and the quaternion that turns it into the
            world's, scalar first, of any length but zero, shape (4,); written in JAX, twice
            differentiable by the time at impacts. If it is an `equinox.Module`, the arrays it
            holds can be differentiated; those over which a plain function closes are constants.

    Raises:
        ValueError: if these are no shape and no function; in `simulate` if the motion returns
            anything else.
    """

    shape: AbstractShape
    motion: Function

    def __init__(
        self,
        shape: AbstractShape,
        motion: Callable[[Time, Any], tuple[Array, Array]],
    ):
        self.shape = shape_parameter(shape, "Moving.shape")
        if not callable(motion):
            raise ValueError(f"Moving.motion must be a function; got {motion!r}.")
        self.motion = Function(motion)

    def pose(self, t: Float[Array, ""], args: Any = None) -> tuple[Vec3, Quat]:
        """Position [m] and unit quaternion at a time [s], in the precision of the time.

        Raises:
            ValueError: if the motion returns no such pair.
        """
        return pose_at(self.motion, t, args, "Moving.motion")


class Motions(eqx.Module):
    """How the obstacles of some contacts move.

    Attributes:
        obstacles: that move, each once.
        which: of each contact its place in that list.
        args: of the motions; only its arrays.
        static_args: the rest of it.
        span: from when to when a step asks how they move [s]; None where none does.
    """

    obstacles: tuple[Moving, ...]
    which: tuple[int, ...] = eqx.field(static=True)
    args: Any
    static_args: Any = eqx.field(static=True)
    span: tuple[Float[Array, ""], Float[Array, ""]] | None = None

    @staticmethod
    def of(obstacles: Sequence[Moving], args: Any) -> Motions:
        """Of one contact each; an obstacle that comes several times is asked once."""
        distinct = {id(obstacle): obstacle for obstacle in obstacles}
        place = {key: k for k, key in enumerate(distinct)}
        numbers, rest = eqx.partition(args, eqx.is_array_like)
        return Motions(
            tuple(distinct.values()),
            tuple(place[id(obstacle)] for obstacle in obstacles),
            jax.tree.map(jnp.asarray, numbers),
            rest,
        )

    def repeated(self, n: int) -> Motions:
        """Those of n such rows of contacts, one after the other."""
        return dataclasses.replace(self, which=self.which * n)

    def poses(self, t: Float[Array, ""]) -> tuple[Vec3, Quat]:
        """At a time [s]; components of shape (n_contacts,)."""
        args = eqx.combine(self.args, self.static_args)
        known = [obstacle.pose(t, args) for obstacle in self.obstacles]
        return jax.tree.map(lambda *parts: jnp.stack(parts), *(known[k] for k in self.which))

    def surface(self, t: Float[Array, ""], points: Vec3, bodies: Vec3) -> Surface:
        """How the points of the obstacles move that are at given places.

        Args:
            t: time [s].
            points: world [m]; components of shape (..., n_contacts).
            bodies: where the centres of mass are of the bodies there, world [m].
        """

        def pose(t):
            lead = (1,) * (points.x.ndim - 1)
            return jax.tree.map(lambda leaf: leaf.reshape(*lead, -1), self.poses(t))

        position, turn = pose(t)
        across = None
        if self.span is not None:
            across = _across(pose, t, self.span, points, bodies)
        place = rotate_inverse(turn, points - position)

        def path(t):
            position, turn = pose(t)
            return rotate(turn, place) + position

        def velocity(t):
            return jax.jvp(path, (t,), (jnp.ones_like(t),))[1]

        now, change = jax.jvp(velocity, (t,), (jnp.ones_like(t),))
        # Its size is a scale by which is decided what counts as grazing.
        return Surface(now, norm(jax.lax.stop_gradient(change)), across)


def moves(contacts: Any) -> bool:
    """Whether contacts, or what holds some, have obstacles that move."""
    return any(map(_is_motion, jax.tree.leaves(contacts, is_leaf=_is_motion)))


def spanning(contacts: Any, start: Float[Array, ""], end: Float[Array, ""]) -> Any:
    """Contacts, or what holds some, of which those with obstacles that move tell how these do so
    from one time to another [s]."""

    def asked(leaf):
        return dataclasses.replace(leaf, span=(start, end)) if _is_motion(leaf) else leaf

    return jax.tree.map(asked, contacts, is_leaf=_is_motion)


def _is_motion(node: Any) -> bool:
    return isinstance(node, Motions)


def _across(
    pose: Callable[[Float[Array, ""]], tuple[Vec3, Quat]],
    t: Float[Array, ""],
    span: tuple[Float[Array, ""], Float[Array, ""]],
    points: Vec3,
    bodies: Vec3,
) -> AcrossStep:
    """How points of obstacles move that are at given places at a time, as `Motions.surface` has
    them, of a step that takes place from one time to another."""
    position, turn = pose(t)
    center, arm = rotate_inverse(turn, bodies - position), rotate_inverse(turn, points - bodies)

    def path(t):
        position, turn = pose(t)
        return rotate(turn, center) + position, turn

    def moving(t):
        (place, turned), (velocity, rate) = jax.jvp(path, (t,), (jnp.ones_like(t),))
        spin = (rate * turned.conjugate()).v * 2.0
        seen = rotate(turn, rotate_inverse(turned, spin))
        along = velocity + cross(seen, points - bodies)
        return place, velocity, rotate(turned, arm), spin, along

    (start, end), duration = span, span[1] - span[0]
    place, velocity, reach, spin, before = moving(start)
    last, _, reached, _, after = moving(end)
    # With the velocities at the start what turns goes on to turn.
    since = t - start
    turned = spin * since
    quarter = dot(turned, turned) / 4
    turned = Quat(stumpff(0, quarter), turned * (0.5 * stumpff(1, quarter)))
    ahead = points - (place + velocity * since + rotate(turned, reach))
    way = last + reached - (place + reach)
    bends = (way - before * duration, after * duration - way)
    return AcrossStep(before, after, ahead, jax.lax.stop_gradient(bends))
