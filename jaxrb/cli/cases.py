"""Problems of the sources: Tran and Leok's bodies thrown over a plane, Section 7; Betsch and
Siebert's free body and top, Section 5; and others of impacts with friction or between bodies."""

from __future__ import annotations

import math

import jax.numpy as jnp

from ..bodies import Pin, RigidBody, State
from ..flows import ExactFlight, QuaternionEnergyMomentum
from ..impact import Coulomb, Frictionless, Rough
from ..shapes import (
    AbstractSolid,
    Box,
    Capsule,
    Cone,
    Ellipsoid,
    HalfSpace,
    Placed,
    Rounded,
    Sphere,
    Union,
)
from ..simulate import World
from .case import Case as Case
from .eulers_disc import EULERS_DISC
from .lasting_cases import JOINED, LASTING
from .quadruped import QUADRUPED
from .rolling_balls import ROLLING_BALLS

_HORIZONTAL = (0.0, 0.0, 1.0)


def _thrown(
    shape: AbstractSolid,
    inertia: tuple[float, float, float],
    normal: tuple[float, float, float] = _HORIZONTAL,
) -> tuple[World, State]:
    """A body of Table 1 over a plane, with the initial values common to all cases."""
    world = World(
        bodies=[RigidBody(shape, mass=1.0, inertia=inertia)],
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


def _ellipsoid(normal: tuple[float, float, float] = _HORIZONTAL) -> tuple[World, State]:
    return _thrown(Ellipsoid((2.0, 3.0, 4.0)), (5.0, 4.0, 2.6), normal)


def _tilted_ellipsoid() -> tuple[World, State]:
    """The normal is the vertical, turned about the y-axis by theta = -pi/90."""
    theta = -math.pi / 90
    return _ellipsoid((math.sin(theta), 0.0, math.cos(theta)))


def _union() -> tuple[World, State]:
    """The inertia is the symmetric part of the printed one.

    Its printed off-diagonals, of 6e-7 at most, are antisymmetric; no inertia tensor has such.
    """
    shift = -0.9937128  # the paper's c, which moves the centre of mass near the origin
    shape = Union(
        Placed(Ellipsoid((3.0, 4.0, 5.0)), (1.5 + shift, 0.0, 0.0)),
        Placed(Ellipsoid((6.0, 1.0, 1.0)), (-4.5 + shift, 0.0, 0.0)),
    )
    return _thrown(shape, (7.5932718, 9.9326434, 8.2731252))


def _cube() -> tuple[World, State]:
    """A cube with sides of 2 sqrt(3), rounded by 1e-13."""
    return _thrown(Rounded(Box((math.sqrt(3.0),) * 3), 1e-13), (2.0, 2.0, 2.0))


_ALL = (
    Case("I", "triaxial ellipsoid over a horizontal plane", _ellipsoid),
    Case("II", "triaxial ellipsoid over a tilted plane", _tilted_ellipsoid),
    Case("III", "union of two ellipsoids over a horizontal plane", _union),
    Case("IV", "cube over a horizontal plane", _cube),
)
CASES = {case.name: case for case in _ALL}


def _free_body() -> tuple[World, State]:
    body = RigidBody(Ellipsoid((0.5, 0.2, 1.3)), mass=1.0, inertia=(6.0, 8.0, 3.0))
    still = jnp.zeros((1, 3))
    state = State(still, [[1.0, 0.0, 0.0, 0.0]], still, [[10.0, 20.0, 20.0]])
    return World([body], gravity=(0.0, 0.0, 0.0)), state


def _racket() -> tuple[World, State]:
    """A handle with a crossbar, spun about the axis of its middle moment: it turns over."""
    half = math.sqrt(0.5)
    bar = Placed(Capsule(0.01, 0.06), quaternion=(half, 0.0, half, 0.0))
    stem = Placed(Capsule(0.01, 0.03), (0.0, -0.04, 0.0), (half, half, 0.0, 0.0))
    body = RigidBody(Union(bar, stem), mass=0.1)
    still = jnp.zeros((1, 3))
    state = State(still, [[1.0, 0.0, 0.0, 0.0]], still, [[0.02, 6.0, 0.01]])
    return World([body], gravity=(0.0, 0.0, 0.0)), state


def _top() -> tuple[World, State]:
    """A cone that spins on its tip, let go with its axis inclined by 60 degrees."""
    height, radius = 0.1, 0.05
    tilt, spin = math.pi / 3, 400.0
    mass = 2700 * math.pi * radius**2 * height / 3
    length = 0.75 * height
    # The tip of a Cone points up, that of the top down.
    shape = Placed(Cone(radius, height), quaternion=(0.0, 1.0, 0.0, 0.0))
    pin = Pin(0, (0.0, 0.0, -length))
    world = World([RigidBody(shape, mass)], gravity=(0.0, 0.0, -9.81), joints=[pin])
    state = State(
        position=[[0.0, -length * math.sin(tilt), length * math.cos(tilt)]],
        quaternion=[[math.cos(tilt / 2), math.sin(tilt / 2), 0.0, 0.0]],
        velocity=[[0.0, 0.0, 0.0]],
        angular_velocity=[[0.0, 0.0, spin]],
    )
    return world, state


_TURNING = (
    Case(
        "free-rotation",
        "asymmetric body turning freely",
        _free_body,
        dt=0.005,
        flow=QuaternionEnergyMomentum(),
    ),
    Case(
        "racket",
        "handle that turns over again and again",
        _racket,
        dt=0.02,
        flow=ExactFlight(),
    ),
    Case("top", "top that nutates", _top, dt=0.0005, flow=QuaternionEnergyMomentum()),
)


def _backspin() -> tuple[World, State]:
    """Thrown forward with so much backspin that friction turns it around at the first bounce."""
    body = RigidBody(Sphere(0.03), mass=0.06)
    return _over_table(
        body, Coulomb(0.8, restitution=0.9), 0.6, (0.5, 0.0, 0.0), (0.0, -150.0, 0.0)
    )


def _super_ball() -> tuple[World, State]:
    """Thrown under a table it hits floor, table and floor, and comes back (Garwin 1969)."""
    table = HalfSpace((0.0, 0.0, -1.0), -0.8)  # seen from below
    world = World([RigidBody(Sphere(0.025), mass=0.05)], [HalfSpace(), table], contact_law=Rough())
    state = State([[-0.4, 0.0, 0.5]], [[1.0, 0.0, 0.0, 0.0]], [[4.0, 0.0, -6.0]], [[0.0] * 3])
    return world, state


def _die() -> tuple[World, State]:
    body = RigidBody(Rounded(Box((0.007, 0.007, 0.007)), 0.001), mass=0.005)
    law = Coulomb(0.3, restitution=0.7)
    return _over_table(body, law, 0.1, (0.5, 0.1, 0.0), (20.0, -30.0, 10.0))


def _over_table(
    body: RigidBody,
    law: Coulomb,
    height: float,
    velocity: tuple[float, float, float],
    spin: tuple[float, float, float],
) -> tuple[World, State]:
    state = State([[0.0, 0.0, height]], [[1.0, 0.0, 0.0, 0.0]], [velocity], [spin])
    return World([body], [HalfSpace()], contact_law=law), state


def _break() -> tuple[World, State]:
    """A cue ball and a triangle of fifteen that touch each other, on a table without friction.

    The table only stands below: without gravity the balls stay in the plane of their centres.
    """
    radius, rows = 0.0286, range(5)
    places = [(-0.3, 0.002, 0.0)]
    places += [
        (i * math.sqrt(3) * radius, (2 * j - i) * radius, 0.0) for i in rows for j in range(i + 1)
    ]
    n = len(places)
    still = jnp.zeros((n, 3))
    state = State(
        position=jnp.array(places),
        quaternion=jnp.zeros((n, 4)).at[:, 0].set(1.0),
        velocity=still.at[0, 0].set(5.0),
        angular_velocity=still,
    )
    balls = [RigidBody(Sphere(radius), mass=0.17)] * n
    cushions = [
        HalfSpace((1.0, 0.0, 0.0), -0.4),
        HalfSpace((-1.0, 0.0, 0.0), -0.6),
        HalfSpace((0.0, 1.0, 0.0), -0.4),
        HalfSpace((0.0, -1.0, 0.0), -0.4),
    ]
    table = HalfSpace(offset=-radius - 0.001)  # a gap of exactly 0 would be an impact
    return World(balls, [table, *cushions], gravity=(0.0, 0.0, 0.0)), state


_COLLIDING = (
    Case(
        "backspin",
        "spun ball that friction turns around",
        _backspin,
        dt=0.002,
        snapshots=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2),
    ),
    Case(
        "super-ball",
        "rough ball that comes back from under a table",
        _super_ball,
        dt=0.0005,
        snapshots=(0.0, 0.04, 0.077, 0.13, 0.2, 0.27, 0.34, 0.38, 0.42),
    ),
    Case(
        "die",
        "rounded cube thrown on a table with friction",
        _die,
        dt=0.0005,
        snapshots=(0.0, 0.05, 0.1, 0.142, 0.18, 0.22, 0.26, 0.3, 0.34, 0.38, 0.42),
    ),
    Case(
        "break",
        "sixteen billiard balls without friction or loss",
        _break,
        dt=0.0005,
        snapshots=(0.3,),
    ),
)


_OTHERS = (*_TURNING, *_COLLIDING, *LASTING, EULERS_DISC, ROLLING_BALLS, *JOINED, QUADRUPED)
DEMOS = CASES | {case.name: case for case in _OTHERS}
