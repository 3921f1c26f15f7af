"""What joints of several coordinates, as of turns about axes one after the other, share."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._validate import real_array, require
from .base import AbstractMovingJoint, Acting, axis_vector, interval, part, reference_turn
from .placing import Place


class AbstractAxesJoint(AbstractMovingJoint):
    """A joint that leaves several motions free, each along or about an axis.

    Attributes:
        axes: where all coordinates are zero, body frame, of any length but zero, shape (n, 3).
        limits: of each coordinate the least and greatest one, shape (2,), or None.
        stiffness, damping, friction, armature: of each coordinate, or None.
    """

    axes: eqx.AbstractVar[Float[Array, "n 3"]]
    limits: eqx.AbstractVar[tuple[Float[Array, "2"] | None, ...]]
    stiffness: eqx.AbstractVar[tuple[Float[Array, ""] | None, ...]]
    damping: eqx.AbstractVar[tuple[Float[Array, ""] | None, ...]]
    friction: eqx.AbstractVar[tuple[Float[Array, ""] | None, ...]]
    armature: eqx.AbstractVar[tuple[Float[Array, ""] | None, ...]]

    @property
    @abc.abstractmethod
    def rests(self) -> Float[Array, " n"]:
        """The coordinates at which springs are at rest."""

    @property
    def motion_axes(self) -> tuple[Float[Array, "3"], ...]:
        return tuple(self.axes)

    @property
    def acting(self) -> tuple[Acting, ...]:
        parts = (self.limits, self.stiffness, self.damping, self.friction, self.armature)
        return tuple(Acting(*own) for own in zip(*parts, tuple(self.rests), strict=True))


class AbstractTurningJoint(AbstractAxesJoint):
    """A joint whose coordinates are angles about axes, one after the other: the body is turned
    from its reference orientation about the last of them first, and about the first one last.

    Attributes:
        rest_angles: of the springs [rad], shape (n,).
    """

    rest_angles: eqx.AbstractVar[Float[Array, " n"]]

    @property
    def rests(self) -> Float[Array, " n"]:
        return self.rest_angles


class Turns(NamedTuple):
    """The attributes of a joint of several coordinates."""

    axes: Array
    reference: Array
    limits: tuple[Array | None, ...]
    stiffness: tuple[Array | None, ...]
    damping: tuple[Array | None, ...]
    rests: Array
    friction: tuple[Array | None, ...]
    armature: tuple[Array | None, ...]


def turns(
    kind: str,
    n_axes: int,
    axes: Any,
    reference: Any,
    limits: Any,
    rests: dict[str, Any],
    stiffness: Any,
    damping: Any,
    friction: Any,
    armature: Any,
    angles: Sequence[int] | None = None,
) -> Turns:
    """The attributes of a joint of several coordinates, checked: `rests` are those of springs, by
    the name that the joint has for them, and `angles` says which are angles, by default all.

    Raises:
        ValueError: naming the argument of `kind` that is not understood.
    """
    rows = _each(axes, f"{kind}.axes", n_axes, axis_vector)
    pairs = (None,) * n_axes
    if limits is not None:
        pairs = _each(limits, f"{kind}.limits", n_axes, interval)
    for number, pair in enumerate(pairs):
        if pair is not None and (angles is None or number in angles):
            within = lambda pair: pair[1] - pair[0] < 2 * np.pi  # noqa: E731
            require(pair, f"{kind}.limits", within, "less than a turn apart")
    ((name, rest),) = rests.items()
    rest = np.zeros(n_axes) if rest is None else rest
    rest = real_array(rest, f"{kind}.{name}", (n_axes,))
    require(rest, f"{kind}.{name}", np.isfinite, "finite")
    turn = reference_turn(kind, rows[0], None, reference)
    each = lambda value, name: _each(value, f"{kind}.{name}", n_axes, part, common=True)  # noqa: E731
    return Turns(
        jnp.stack(rows),
        turn,
        pairs,
        each(stiffness, "stiffness"),
        each(damping, "damping"),
        rest,
        each(friction, "friction"),
        each(armature, "armature"),
    )


def axes_of(place: Place, axes: Any, name: str, n_axes: int) -> Float[Array, "n 3"]:
    """Axes of the world in the frame of a body."""
    return jnp.stack(_each(axes, name, n_axes, place.axis))


def _each(
    value: Any, name: str, n: int, read: Callable[[Any, str], Any], common: bool = False
) -> tuple[Any, ...]:
    """What is given for each of n axes, or, if it may be, one number for all of them."""
    # A list may hold numbers that are traced, of which NumPy makes no array.
    if common and not isinstance(value, Sequence) and np.ndim(value) == 0:
        return (read(value, name),) * n
    try:
        count = len(value)
    except TypeError:
        count = None
    if count != n:
        raise ValueError(f"{name} must be given for {n} axes; got {value!r}.")
    return tuple(read(value[k], f"{name}[{k}]") for k in range(n))
