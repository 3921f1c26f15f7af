"""Problems of contacts that last, and of joints."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from ..bodies import Hinge, Pin, RigidBody, State
from ..impact import Coulomb
from ..shapes import Box, Capsule, ConvexPolyhedron, Ellipsoid, HalfSpace, Placed, Rounded, Sphere
from ..simulate import PairLaw, World, joint_violations
from .case import Case


def _upright(n: int):
    """The quaternions of n bodies that are not turned."""
    return jnp.zeros((n, 4)).at[:, 0].set(1.0)


def _dice() -> tuple[World, State]:
    """Three, thrown apart: they do not meet."""
    die = RigidBody(Rounded(Box((0.007, 0.007, 0.007)), 0.001), mass=0.005)
    law = Coulomb(0.3, restitution=0.4)
    world = World([die] * 3, [HalfSpace()], contact_law=law, pairs=[])
    turn = jnp.array([[1.0, 0.3, 0.0, 0.0], [1.0, 0.0, 0.2, 0.1], [1.0, 0.0, 0.0, 0.4]])
    state = State(
        position=[[0.0, -0.02, 0.1], [0.0, 0.0, 0.12], [0.0, 0.02, 0.1]],
        quaternion=turn / jnp.linalg.norm(turn, axis=1, keepdims=True),
        velocity=[[0.5, -0.25, 0.0], [0.7, 0.02, 0.0], [0.5, 0.3, 0.0]],
        angular_velocity=[[20.0, -30.0, 10.0], [-10.0, 25.0, 15.0], [15.0, 30.0, -20.0]],
    )
    return world, state


def _incline() -> tuple[World, State]:
    """Of two boxes on a slope of 20 degrees, friction of 0.4 holds one: its tangent is 0.364."""
    tilt, height, top = math.radians(20), 0.05, 0.5  # where it starts, or energies were negative
    box = RigidBody(Box((0.1, 0.08, height)), mass=1.0)
    normal = (math.sin(tilt), 0.0, math.cos(tilt))
    world = World(
        [box, box],
        [HalfSpace(normal, top * normal[2])],
        contact_law=Coulomb(0.4, restitution=0.0),
        pairs=[],
        pair_laws=[PairLaw(Coulomb(0.3, restitution=0.0), 1, obstacle=0)],
    )
    x, z = height * normal[0], height * normal[2] + top
    still = jnp.zeros((2, 3))
    turn = [math.cos(tilt / 2), 0.0, math.sin(tilt / 2), 0.0]
    return world, State([[x, -0.15, z], [x, 0.15, z]], [turn, turn], still, still)


def _stack() -> tuple[World, State]:
    """Five boxes, a centimetre apart, that fall on each other."""
    half = (0.1, 0.08, 0.05)
    boxes = [RigidBody(Box(half), mass=1.0)] * 5
    neighbours = [(k, k + 1) for k in range(4)]
    law = Coulomb(0.5, restitution=0.0)
    world = World(boxes, [HalfSpace()], contact_law=law, pairs=neighbours)
    aside = jnp.array([0.0, 0.03, 0.01, 0.045, -0.02])
    height = half[2] + (2 * half[2] + 0.01) * jnp.arange(5.0)
    still = jnp.zeros((5, 3))
    place = still.at[:, 0].set(aside).at[:, 1].set(aside / 3).at[:, 2].set(height)
    return world, State(place, _upright(5), still, still)


def _dominoes() -> tuple[World, State]:
    """Six in a row, of which the first is pushed over its lower edge."""
    n, half = 6, (0.004, 0.012, 0.024)
    pieces = [RigidBody(Box(half), mass=0.01)] * n
    neighbours = [(k, k + 1) for k in range(n - 1)]
    law = Coulomb(0.4, restitution=0.0)
    world = World(pieces, [HalfSpace()], contact_law=law, pairs=neighbours)
    still, rate = jnp.zeros((n, 3)), 5.0
    place = still.at[:, 0].set(0.02 * jnp.arange(float(n))).at[:, 2].set(half[2])
    pushed = still.at[0].set(rate * jnp.array([half[2], 0.0, half[0]]))
    return world, State(place, _upright(n), pushed, still.at[0, 1].set(rate))


def _rattleback() -> tuple[World, State]:
    """An ellipsoid that rolls, of which the principal axes of inertia are turned by 0.1 rad about
    the vertical: it comes to rattle, and then to spin the other way."""
    axes, mass, turn, tilt = np.array([0.1, 0.03, 0.02]), 1.0, 0.1, 0.02
    cos, sin = math.cos(turn), math.sin(turn)
    principal = np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
    moments = mass / 5 * (np.sum(axes**2) - axes**2)
    body = RigidBody(Ellipsoid(axes), mass, inertia=(principal * moments) @ principal.T)
    world = World([body], [HalfSpace()], contact_law=Coulomb(1.0, restitution=0.0))
    # It rolls from the start: its lowest point, body frame, is at rest.
    up = np.array([-math.sin(tilt), 0.0, math.cos(tilt)])
    lowest = -(axes**2) * up / np.linalg.norm(axes * up)
    spin = np.array([0.0, 0.0, -5.0])
    across, y, along = np.cross(lowest, spin)
    velocity = [
        across * math.cos(tilt) + along * math.sin(tilt),
        y,
        along * math.cos(tilt) - across * math.sin(tilt),
    ]
    state = State(
        position=[[0.0, 0.0, -up @ lowest]],
        quaternion=[[math.cos(tilt / 2), 0.0, math.sin(tilt / 2), 0.0]],
        velocity=[velocity],
        angular_velocity=[spin],
    )
    return world, state


def _tippe_top() -> tuple[World, State]:
    """A sphere with its centre of mass below its centre, spun fast about the vertical with its
    axis inclined: friction where it slides turns it over, until it rolls upside down."""
    radius, below, mass, tilt, spin = 0.015, 0.003, 0.006, 0.4, 200.0
    across, along = (part * mass * radius**2 for part in (0.38, 0.4))
    shape = Placed(Sphere(radius), (0.0, 0.0, below))
    body = RigidBody(shape, mass, inertia=(across, across, along))
    law = Coulomb(0.3, restitution=0.0)
    cos, sin = math.cos(tilt), math.sin(tilt)
    turn = (math.cos(tilt / 2), math.sin(tilt / 2), 0.0, 0.0)
    return World([body], [HalfSpace()], contact_law=law), State(
        position=[[0.0, 0.0, radius - below * cos]],
        quaternion=[turn],
        velocity=[[0.0, 0.0, 0.0]],
        angular_velocity=[[0.0, spin * sin, spin * cos]],
    )


def _arch() -> tuple[World, State]:
    """A semicircle of seven stones without mortar, each a wedge that touches its neighbours."""
    n, inner, outer, half_width = 7, 0.4, 0.6, 0.1
    half = math.pi / n / 2
    corners = [
        (r * math.cos(half), y, r * side * math.sin(half))
        for r in (inner, outer)
        for y in (-half_width, half_width)
        for side in (-1, 1)
    ]
    stone = RigidBody(ConvexPolyhedron(corners), mass=1.0)
    # The frame of the wedge has its origin at the centre of the semicircle.
    place, angles = stone.center_of_mass()[0], 2 * half * (jnp.arange(n) + 0.5)
    none, still = jnp.zeros(n), jnp.zeros((n, 3))
    world = World(
        [stone] * n,
        [HalfSpace()],
        contact_law=Coulomb(0.6, restitution=0.0),
        pairs=[(k, k + 1) for k in range(n - 1)],
    )
    state = State(
        position=place * jnp.stack([jnp.cos(angles), none, jnp.sin(angles)], axis=1),
        quaternion=jnp.stack([jnp.cos(angles / 2), none, -jnp.sin(angles / 2), none], axis=1),
        velocity=still,
        angular_velocity=still,
    )
    return world, state


def _card_house() -> tuple[World, State]:
    """Two cards lean against each other by 20 degrees, and a third lies on their upper edges."""
    thick, wide, long, lean = 0.001, 0.0315, 0.044, math.radians(20)  # half of each size
    upright, flat = (
        RigidBody(Box(half), 0.002) for half in ((thick, wide, long), (long, wide, thick))
    )
    cos, sin = math.cos(lean), math.sin(lean)
    aside, height = long * sin + thick * cos, long * cos + thick * sin
    turn = [math.cos(lean / 2), 0.0, math.sin(lean / 2), 0.0]
    back = [math.cos(lean / 2), 0.0, -math.sin(lean / 2), 0.0]
    still = jnp.zeros((3, 3))
    world = World(
        [upright, upright, flat],
        [HalfSpace()],
        contact_law=Coulomb(0.6, restitution=0.0),
        pairs=[(0, 1), (0, 2), (1, 2)],
    )
    places = [[-aside, 0.0, height], [aside, 0.0, height], [0.0, 0.0, 2 * height + thick]]
    return world, State(places, [turn, back, [1.0, 0.0, 0.0, 0.0]], still, still)


LASTING = (
    Case(
        "dice",
        "three dice that are thrown and come to rest",
        _dice,
        dt=0.002,
        snapshots=(0.0, 0.08, 0.19, 0.28, 0.8),
        steps=400,
        lasting=True,
    ),
    Case(
        "incline",
        "two boxes on a slope, of which friction holds one",
        _incline,
        snapshots=(0.0, 0.5, 1.0, 1.5),
        steps=150,
        lasting=True,
    ),
    Case(
        "stack",
        "five boxes that fall on each other and stand",
        _stack,
        snapshots=(0.6,),
        steps=60,
        lasting=True,
    ),
    Case(
        "dominoes",
        "row of six that fall one after another",
        _dominoes,
        dt=0.002,
        snapshots=(0.2,),
        steps=200,
        lasting=True,
    ),
    Case(
        "rattleback",
        "ellipsoid that rolls and reverses its spin",
        _rattleback,
        dt=0.002,
        snapshots=(1.0,),
        lasting=True,
    ),
    Case(
        "tippe-top",
        "sphere with a low centre of mass that turns over as it spins",
        _tippe_top,
        dt=0.001,
        lasting=True,
    ),
    Case(
        "arch",
        "seven stones without mortar that stand by friction",
        _arch,
        snapshots=(1.0,),
        steps=100,
        lasting=True,
    ),
    Case(
        "card-house",
        "two cards that lean on each other and carry a third",
        _card_house,
        steps=100,
        lasting=True,
    ),
)


def _double_pendulum() -> tuple[World, State]:
    """Two rods, each turned by an angle from the vertical, and let go."""
    length, angles = 0.5, jnp.array([2.0, 2.6])
    rod = RigidBody(Box((0.015, 0.015, length / 2)), mass=1.0)
    top, bottom, y = (0.0, 0.0, length / 2), (0.0, 0.0, -length / 2), (0.0, 1.0, 0.0)
    joints = [Hinge(0, y, top), Hinge(1, y, top, other=0, other_anchor=bottom)]
    none = jnp.zeros(2)
    down = jnp.stack([-jnp.sin(angles), none, -jnp.cos(angles)], axis=1)
    ends = length * jnp.cumsum(down, axis=0)
    turns = jnp.stack([jnp.cos(angles / 2), none, jnp.sin(angles / 2), none], axis=1)
    still = jnp.zeros((2, 3))
    world = World([rod, rod], joints=joints, pairs=[])
    return world, State(ends - length / 2 * down, turns, still, still)


def _four_bar() -> tuple[World, State]:
    """A crank that drives a rocker by a coupler; the fourth bar is the ground between them."""
    ground, crank, coupler, rocker = 0.4, 0.15, 0.4, 0.3
    a, b, d = (0.0, 0.0), (0.0, crank), (ground, 0.0)
    # Where the coupler and the rocker meet: a triangle over the line from b to d.
    far = math.dist(b, d)
    along = (coupler**2 - rocker**2 + far**2) / (2 * far)
    up = math.sqrt(coupler**2 - along**2)
    ux, uz = (d[0] - b[0]) / far, (d[1] - b[1]) / far
    c = (b[0] + along * ux - up * uz, b[1] + along * uz + up * ux)
    bodies, places, turns = [], [], []
    for (x0, z0), (x1, z1) in ((a, b), (b, c), (d, c)):
        length, angle = math.hypot(x1 - x0, z1 - z0), -math.atan2(z1 - z0, x1 - x0)
        bodies.append(RigidBody(Box((length / 2, 0.005, 0.005)), mass=length))
        places.append([(x0 + x1) / 2, 0.0, (z0 + z1) / 2])
        turns.append([math.cos(angle / 2), 0.0, math.sin(angle / 2), 0.0])
    still = jnp.zeros((3, 3))
    state, y = State(places, turns, still, still), (0.0, 1.0, 0.0)
    joints = [
        Hinge.at(state, body, y, (x, 0.0, z), other=other)
        for body, (x, z), other in ((0, a, None), (1, b, 0), (2, d, None), (1, c, 2))
    ]
    return World(bodies, joints=joints, pairs=[]), state


def _chain() -> tuple[World, State]:
    """Eight links that hang from each other by pins, held at a slope and let go."""
    n, length, tilt = 8, 0.15, 0.3
    link = RigidBody(Capsule(0.012, length / 2 - 0.012), mass=0.1)
    top, bottom = (0.0, 0.0, length / 2), (0.0, 0.0, -length / 2)
    joints = [Pin(0, top), *(Pin(k, top, bottom, k - 1) for k in range(1, n))]
    # The axis of a link, turned about y, points from its lower end to its upper one.
    down = jnp.array([math.cos(tilt), 0.0, -math.sin(tilt)])
    half = (math.pi / 2 - tilt) / 2
    places = length * (jnp.arange(float(n)) + 0.5)[:, None] * down[None]
    turn = jnp.tile(jnp.array([math.cos(half), 0.0, -math.sin(half), 0.0]), (n, 1))
    still = jnp.zeros((n, 3))
    return World([link] * n, joints=joints, pairs=[]), State(places, turn, still, still)


def _report_of_chain(t: np.ndarray, states: State) -> list[str]:
    world = _chain()[0]
    off, rate = jax.vmap(lambda state: joint_violations(world, state))(states)
    last = np.asarray(states.position)[:, -1]
    return [
        f"joints hold to |g| <= {np.max(off):.1e} m, in rate to {np.max(rate):.1e} m/s",
        f"the last link comes down to {last[:, 2].min():.4f} m, at {t[last[:, 2].argmin()]:.3f} s",
    ]


JOINED = (
    Case(
        "chain",
        "eight links on pins that swing",
        _chain,
        dt=0.005,
        snapshots=(0.0, 0.15, 0.3, 0.45, 0.6, 0.7),
        steps=300,
        report=_report_of_chain,
    ),
    Case(
        "double-pendulum",
        "two rods that hang from each other, let go above",
        _double_pendulum,
        dt=0.005,
        snapshots=(0.0, 0.2, 0.35, 0.45, 0.55, 0.65),
    ),
    Case(
        "four-bar",
        "crank that falls over and drives a rocker",
        _four_bar,
        dt=0.005,
        snapshots=(0.0, 0.45, 0.53, 0.68),
        steps=400,
    ),
)
