"""The cases that the demo runs: the numerical experiments of Tran and Leok, Section 7."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..bodies import RigidBody, State
from ..impact import Frictionless
from ..shapes import Ellipsoid, HalfSpace
from ..simulate import World


@dataclass(frozen=True)
class Case:
    """A problem to simulate.

    Attributes:
        name: on the command line.
        title: one line, what happens.
        build: makes the world and the state at t = 0, in JAX's default dtype.
        dt: step size [s].
    """

    name: str
    title: str
    build: Callable[[], tuple[World, State]]
    dt: float = 0.01


def _tilted_normal() -> tuple[float, float, float]:
    """The vertical, turned about the y-axis by theta = -pi/90."""
    theta = -math.pi / 90
    return math.sin(theta), 0.0, math.cos(theta)


def _ellipsoid_over(normal: tuple[float, float, float]) -> tuple[World, State]:
    """Table 1, cases I and II, with the initial values common to all cases."""
    body = RigidBody(Ellipsoid((2.0, 3.0, 4.0)), mass=1.0, inertia=(5.0, 4.0, 2.6))
    world = World(
        bodies=[body],
        obstacles=[HalfSpace(normal=normal, offset=0.0)],
        gravity=(0.0, 0.0, -9.80665),
        contact_law=Frictionless(restitution=1.0),
    )
    state = State.from_momenta(
        world,
        position=[[0.0, 0.0, 10.0]],
        linear_momentum=[[2.0, 2.0, 10.0]],
        angular_momentum=[[4.0, -4.0, 4.0]],
    )
    return world, state


_HORIZONTAL = (0.0, 0.0, 1.0)
_ALL = (
    Case("I", "triaxial ellipsoid over a horizontal plane", lambda: _ellipsoid_over(_HORIZONTAL)),
    Case("II", "triaxial ellipsoid over a tilted plane", lambda: _ellipsoid_over(_tilted_normal())),
)
CASES = {case.name: case for case in _ALL}
