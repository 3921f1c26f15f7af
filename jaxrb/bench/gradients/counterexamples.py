"""Motions of which engines have been found to have wrong derivatives, and their closed forms.

Each is a function from a few numbers to a motion, and from the same numbers to what the motion
ends with. Balls have radius R; heights are of centres above a plane at z = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ...bodies import RigidBody, State
from ...flows import ExactFlight
from ...impact import AbstractContactLaw, Coulomb, Frictionless
from ...shapes import Box, HalfSpace, Placed, Sphere
from ...simulate import AbstractMethod, EventDriven, World
from .columns import Motion

R, G = 0.1, 9.81  # [m], [m/s^2]
IN_STEPS = "+1 by z0 where an impact takes a step"


class Counterexample(NamedTuple):
    """A motion with a closed form.

    Attributes:
        name: what happens.
        told: where derivatives of it were found wrong, and how; empty if it is only like those.
        numbers: names of what it is differentiated by; at most `MOST`.
        values: of these.
        outputs: what of the end: "x", "y", "z", "vx", "wy", ... of the last body, or "time" of
            the first impact.
        motion: of these numbers.
        closed: the outputs, of the same numbers.
        method: that simulates it.
        bar: of the error of a derivative, relative to the largest by the same number.
    """

    name: str
    told: str
    numbers: tuple[str, ...]
    values: tuple[float, ...]
    outputs: tuple[str, ...]
    motion: Callable[[Float[Array, " n"]], Motion]
    closed: Callable[[Float[Array, " n"]], list]
    method: AbstractMethod
    bar: float = 1e-10


MOST = 4
# Newton's equations, so that closed forms hold to round-off.
CONTINUOUS = EventDriven(ExactFlight(), dt=None)


def scene(
    shapes: list,
    law: AbstractContactLaw,
    position: list,
    velocity: list,
    t1: float,
    *,
    obstacles: tuple = (),
    gravity: Array | tuple = (0.0, 0.0, 0.0),
    spin: list | None = None,
    dt: float = 1.0,
) -> Motion:
    """Bodies of mass 1 kg in the attitude of the world; numbers may be traced."""

    def rows(values: list) -> Array:
        return jnp.stack([jnp.stack([jnp.asarray(x, float) for x in row]) for row in values])

    n = len(shapes)
    zeros = [[0.0, 0.0, 0.0]] * n
    gravity = jnp.stack([jnp.asarray(x, float) for x in gravity])
    world = World([RigidBody(s) for s in shapes], obstacles, gravity=gravity, contact_law=law)
    upright = jnp.tile(jnp.eye(1, 4), (n, 1))
    state = State(rows(position), upright, rows(velocity), rows(spin or zeros))
    return Motion(world, state, jnp.asarray(dt, float), jnp.asarray(t1, float))


def _over_plane(law, position, velocity, t1, g, **options) -> Motion:
    return scene(
        [Sphere(R)],
        law,
        [position],
        [velocity],
        t1,
        obstacles=(HalfSpace(),),
        gravity=(0.0, 0.0, -g),
        **options,
    )


# Restitutions that are not differentiated are computed from what is, as if they were: a number
# that is known makes another program.
def _falls_without_gravity(p):
    return _over_plane(Frictionless(1.0 + 0 * p[0]), [0, 0, p[0]], [0, 0, -p[1]], 1.0, 0.0)


def _bounces(p):
    z0, e, g = p[:3]
    return _over_plane(Frictionless(e), [0, 0, z0], [0, 0, 0], 1.9, g)


def _bounces_closed(p):
    """Lands after t1 = sqrt(2 h/g) at speed g t1, and flies e^k times as long as twice that."""
    z0, e, g = p[:3]
    first = jnp.sqrt(2 * (z0 - R) / g)
    left = 1.9 - first - 2 * first * (e + e**2)
    return [R + e**3 * g * first * left - g * left**2 / 2]


def _time_of_impact(p):
    z0, up, g = p[:3]
    return _over_plane(Frictionless(0.8 + 0 * z0), [0, 0, z0], [0, 0, up], 0.7, g)


def _exchange(p):
    x1, x2, v, u = p[:4]
    position, velocity = [[x1, 0, 0], [x2, 0, 0]], [[v, 0, 0], [u, 0, 0]]
    return scene([Sphere(R)] * 2, Frictionless(1.0 + 0 * v), position, velocity, 1.0)


_TARGET = (1.0, 0.12)


def _billiard(p):
    angle, speed, e = p[:3]
    velocity = [[speed * jnp.cos(angle), speed * jnp.sin(angle), 0], [0, 0, 0]]
    position = [[0, 0, 0], [*_TARGET, 0]]
    return scene([Sphere(R)] * 2, Frictionless(e), position, velocity, 1.0)


def _billiard_closed(p):
    """The target leaves along the line of centres at (1 + e)/2 of the speed along it."""
    angle, speed, e = p[:3]
    along = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
    target = jnp.asarray(_TARGET)
    ahead = along @ target
    aside = along[0] * target[1] - along[1] * target[0]
    way = ahead - jnp.sqrt(4 * R**2 - aside**2)
    normal = (target - way * along) / (2 * R)
    gained = (1 + e) / 2 * speed * (along @ normal) * (1.0 - way / speed)
    return list(target + gained * normal)


def _against_box(p):
    x0, v, e = p[:3]
    box = Placed(Box((0.5, 0.5, 0.5)), (1.5, 0.0, 0.0))
    return scene([Sphere(R)], Frictionless(e), [[x0, 0.1, 0.2]], [[v, 0, 0]], 1.0, obstacles=(box,))


def _on_slope(p):
    angle, speed, e = p[:3]
    slope = HalfSpace((-0.3, 0.0, 1.0))
    velocity = [speed * jnp.cos(angle), 0, speed * jnp.sin(angle)]
    return scene(
        [Sphere(R)],
        Frictionless(e),
        [[0, 0, 1.0]],
        [velocity],
        1.0,
        obstacles=(slope,),
        gravity=(0.0, 0.0, -G),
    )


def _on_slope_closed(p):
    """The flight meets the plane where its normal part, a parabola in t, has come down to R."""
    angle, speed, e = p[:3]
    normal = jnp.asarray([-0.3, 1.0]) / jnp.sqrt(1.09)
    place, gravity = jnp.asarray([0.0, 1.0]), jnp.asarray([0.0, -G])
    velocity = speed * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
    height, rate, pull = normal @ place - R, normal @ velocity, normal @ gravity
    t = (-rate - jnp.sqrt(rate**2 - 2 * pull * height)) / pull
    place, velocity = place + t * velocity + t**2 / 2 * gravity, velocity + t * gravity
    velocity = velocity - (1 + e) * (normal @ velocity) * normal
    left = 1.0 - t
    return list(place + left * velocity + left**2 / 2 * gravity)


def _slips(p):
    """Under gravity, from z0, with slip along x through all of the impact."""
    z0, v, mu, e = p[:4]
    return _over_plane(Coulomb(mu, e), [0, 0, z0], [v, 0, 0], 0.7, G)


def _slips_closed(p):
    z0, v, mu, e = p[:4]
    first = jnp.sqrt(2 * (z0 - R) / G)
    push = (1 + e) * G * first
    left = 0.7 - first
    return [v * 0.7 - mu * push * left, 5 / 2 * mu * push / R]


def _sticks(p):
    z0, v, w, mu = p[:4]
    law = Coulomb(mu, 0.6 + 0 * mu)
    return _over_plane(law, [0, 0, z0], [v, 0, 0], 0.7, G, spin=[[0, w, 0]])


def _sticks_closed(p):
    """A ball that rolls after the impact keeps its angular momentum about the contact."""
    z0, v, w, _ = p[:4]
    first = jnp.sqrt(2 * (z0 - R) / G)
    after = (5 * v + 2 * R * w) / 7
    return [v * first + after * (0.7 - first), after / R]


def _leaves(p):
    """A box that lies on the plane is thrown up."""
    up, g = p[:2]
    return scene(
        [Box((0.1, 0.1, 0.1))],
        Frictionless(0.5 + 0 * g),
        [[0, 0, 0.1]],
        [[0, 0, up]],
        0.3,
        obstacles=(HalfSpace(),),
        gravity=(0.0, 0.0, -g),
    )


def flying() -> list[Counterexample]:
    """Those of flights and impacts; arrays are made in the precision that is set now."""
    return _of_a_ball() + _of_others() + _of_friction()


def _of_a_ball() -> list[Counterexample]:
    """Over a plane; they share one program."""
    return [
        Counterexample(
            "a ball bounces once, no gravity",
            f"google/brax 317; {IN_STEPS}",
            ("z0", "speed"),
            (0.5, 1.0),
            ("z",),
            _falls_without_gravity,
            lambda p: [R + p[1] * 1.0 - (p[0] - R)],
            CONTINUOUS,
        ),
        Counterexample(
            "a ball has bounced three times",
            "DiffTaichi, ICLR 2020: wrong signs without the time of impact",
            ("z0", "restitution", "gravity"),
            (1.0, 0.8, G),
            ("z",),
            _bounces,
            _bounces_closed,
            CONTINUOUS,
        ),
        Counterexample(
            "the time of an impact",
            "where it is a whole number of steps, 0",
            ("z0", "speed", "gravity"),
            (1.0, 0.7, G),
            ("time",),
            _time_of_impact,
            lambda p: [(p[1] + jnp.sqrt(p[1] ** 2 + 2 * p[2] * (p[0] - R))) / p[2]],
            CONTINUOUS,
        ),
        Counterexample(
            "a ball thrown on a slope",
            "",
            ("angle", "speed", "restitution"),
            (0.6, 2.0, 0.8),
            ("x", "z"),
            _on_slope,
            _on_slope_closed,
            CONTINUOUS,
        ),
    ]


def _of_others() -> list[Counterexample]:
    return [
        Counterexample(
            "a ball hits an equal one at rest",
            "keenon/nimblephysics 97: 0.75, 0.25, 0.91, 0.08",
            ("x1", "x2", "v1", "v2"),
            (0.0, 0.52, 1.0, 0.0),
            ("x",),
            _exchange,
            lambda p: [p[0] + 2 * R + p[2] * 1.0],
            CONTINUOUS,
        ),
        Counterexample(
            "billiards: a ball is hit aside its centre",
            "taichi-dev/difftaichi 14: descent goes uphill",
            ("angle", "speed", "restitution"),
            (0.05, 2.0, 0.95),
            ("x", "y"),
            _billiard,
            _billiard_closed,
            CONTINUOUS,
        ),
        Counterexample(
            "a ball hits a box",
            "google-deepmind/mujoco 2841: NaN",
            ("x0", "speed", "restitution"),
            (0.0, 1.5, 0.7),
            ("x", "vx"),
            _against_box,
            lambda p: [(1.0 - R) * (1 + p[2]) - p[2] * (p[0] + p[1]), -p[2] * p[1]],
            CONTINUOUS,
        ),
        Counterexample(
            "a box leaves the plane it lies on",
            "google-deepmind/mujoco 1517: NaN",
            ("speed", "gravity"),
            (2.0, G),
            ("z", "vz"),
            _leaves,
            lambda p: [0.1 + 0.3 * p[0] - p[1] * 0.045, p[0] - 0.3 * p[1]],
            CONTINUOUS,
        ),
    ]


def _of_friction() -> list[Counterexample]:
    return [
        Counterexample(
            "a ball slips through an impact",
            "",
            ("z0", "velocity", "friction", "restitution"),
            (0.6, 2.0, 0.1, 0.7),
            ("x", "wy"),
            _slips,
            _slips_closed,
            CONTINUOUS,
        ),
        Counterexample(
            "a spinning ball sticks in an impact",
            "by friction not 0 where that is smoothed",
            ("z0", "velocity", "spin", "friction"),
            (0.6, 1.0, -20.0, 0.9),
            ("x", "wy"),
            _sticks,
            _sticks_closed,
            CONTINUOUS,
        ),
    ]
